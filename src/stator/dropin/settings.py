"""torch._dynamo.config: what a program sets there holds for stator.

In: assignments to torch's settings, by the program or by torch's `config.patch`. Out: the same in
`stator.config`, for those that stator has. Torch's own value is set in any case: its other parts
read it. Settings that only Dynamo knows have no effect.
"""

from types import ModuleType
from typing import Any, Final

from stator import config
from stator.dropin.patches import Patches

# torch's older names are aliases, which reach these.
SHARED: Final = (
    "recompile_limit",
    "accumulated_recompile_limit",
    "fail_on_recompile_limit_hit",
    "error_on_recompile",
    "suppress_errors",
)


# By another name, and with another default: torch's own is not taken over, what a program sets is.
RENAMED: Final = {"side_effect_replay_policy": "side_effect_policy"}


class Settings:
    """The settings of stator, as they were before the program's were taken over."""

    def __init__(self) -> None:
        self._before = {name: getattr(config, name) for name in (*SHARED, *RENAMED.values())}

    def follow(self, module: ModuleType, patches: Patches) -> None:
        """Takes over what is set in torch's module, now and later."""
        cls: Any = type(module)

        class Followed(cls):  # type: ignore[misc]
            def __setattr__(self, name: str, value: object) -> None:
                super().__setattr__(name, value)
                _take(name, value)

        Followed.__name__, Followed.__qualname__ = cls.__name__, cls.__qualname__
        patches.set_class(module, Followed)
        for name in SHARED:
            value = getattr(module, name, None)
            if value != _DEFAULTS[name]:
                _take(name, value)

    def restore(self) -> None:
        for name, value in self._before.items():
            setattr(config, name, value)


_DEFAULTS: Final = {name: getattr(config, name) for name in (*SHARED, *RENAMED.values())}


def _take(name: str, value: object) -> None:
    ours = RENAMED.get(name, name)
    if ours in _DEFAULTS and type(value) is type(_DEFAULTS[ours]):
        setattr(config, ours, value)
