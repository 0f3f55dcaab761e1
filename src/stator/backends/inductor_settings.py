"""torch.compile's `mode` and `options`: what Inductor is told.

In: what a program says. Out: the settings of Inductor that it stands for, or an error that says
what there is. Loads Inductor only where it has to be asked.
"""

import difflib
from collections.abc import Iterable, Mapping
from typing import Any, Final, get_origin

from stator.torchlib import inductor as torch_inductor

# These need no look into Inductor, which is expensive to load; it is asked about others.
_MODES: Final = frozenset(
    {"default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"}
)


def check_settings(mode: str | None, options: Mapping[str, Any] | None) -> None:
    """Refuses a mode or options that Inductor does not have, before anything is compiled."""
    if options or (mode is not None and mode not in _MODES):
        config_patches(mode, options or None)


def config_patches(mode: str | None, options: Mapping[str, Any] | None) -> dict[str, Any]:
    """The settings of Inductor that a mode or options stand for.

    Loads Inductor, which knows its modes and settings.
    """
    if mode is not None and options is not None:
        raise ValueError(f"give a mode or options, not both (mode={mode!r}, options={options!r})")
    inductor_package = torch_inductor.package()
    if mode is not None:
        modes: dict[str, dict[str, Any]] = inductor_package.list_mode_options()
        if mode not in modes:
            known = f"{_similar(mode, modes)} Known: {', '.join(sorted(modes))}"
            raise ValueError(f"Inductor has no mode {mode!r}.{known}")
        return dict(modes[mode])
    return {
        str(name).replace("-", "_"): _fitting(name, value)
        for name, value in (options or {}).items()
    }


def _fitting(name: Any, value: Any) -> Any:
    """The value of an option, if it is of the setting's type."""
    config = torch_inductor.config()
    known: dict[str, Any] = config.get_config_copy()
    setting = str(name).replace("-", "_")
    if setting not in known:
        raise ValueError(f"Inductor has no option {name!r}.{_similar(setting, known)}")
    wanted = config.get_type(setting)
    # What is declared as a union or a container is left to Inductor, as torch.compile does it.
    if get_origin(wanted) is None and not isinstance(value, wanted):
        raise TypeError(
            f"Inductor's option {name!r} is of type {wanted.__name__}, "
            f"not {type(value).__name__} ({value!r})"
        )
    return value


def _similar(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), 1)
    return f" Did you mean {close[0]!r}?" if close else ""
