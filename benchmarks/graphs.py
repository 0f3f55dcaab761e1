"""Several graphs of one function, which cost nothing: a backend for them, and calls in a row."""

from collections.abc import Callable, Iterable
from typing import Any

from stator.cli.timing import Call, PresetBackend


class PresetBackends:
    """A preset backend for each graph; they are called as one."""

    def __init__(self) -> None:
        self.made: list[PresetBackend] = []

    def __call__(self, module: Any, inputs: Any) -> Callable[..., Any]:
        backend = PresetBackend()
        self.made.append(backend)
        return backend(module, inputs)


def around(calls: Iterable[Call]) -> Callable[[], None]:
    """All calls once, without a loop."""
    namespace: dict[str, Any] = {}
    lines = ["def around():"]
    for number, (fn, args) in enumerate(calls):
        names = [f"a{number}_{index}" for index in range(len(args))]
        namespace |= {f"fn{number}": fn, **dict(zip(names, args, strict=True))}
        lines.append(f"    fn{number}({', '.join(names)})")
    lines.append("    return None")
    exec("\n".join(lines), namespace)
    made: Callable[[], None] = namespace["around"]
    return made
