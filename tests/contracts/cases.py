"""Every callable of the tables that may run, with sample arguments to run it on."""

import importlib
import random
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from stator.contracts import Contract, Verdict
from stator.contracts.lookup import _registry as registry
from stator.contracts.registry import ATTRIBUTE_KINDS, own_members
from stator.contracts.tables import ALL_FUNCTIONS, ALL_TYPES
from stator.contracts.tables.rows import present, spread

from .curated import CLASSES, CURATED, SELVES_BY_CALL
from .samples import PLAIN, POOL, SELVES, Maker, numbers, text

MODULES = [module for module, rows in ALL_FUNCTIONS.items() if any(spread(rows))]
MODULES += [o.partition(":")[0] for o in ALL_TYPES if isinstance(o, str) and present(o)]
RUNS = (Verdict.PURE, Verdict.READS, Verdict.MUTATES)


def load_all() -> None:
    """Tables of modules come alive when the module is loaded."""
    for module in MODULES:
        importlib.import_module(module)
    registry.catch_up()


@dataclass(frozen=True)
class Case:
    """A callable in its unbound form."""

    owner: str
    name: str
    function: Callable[..., Any] = field(repr=False)
    contract: Contract
    selves: tuple[Maker, ...] = ()
    few: bool = False  # one of many that are alike

    @property
    def label(self) -> str:
        return f"{self.owner}.{self.name}"

    def arguments(self) -> Iterator[list[Maker]]:
        """Lists of makers: none to three arguments behind self, and what `curated` adds."""
        rng = random.Random(self.label)
        pool = list(POOL.values())
        tails: list[list[Maker]] = [[], *([maker] for maker in pool)]
        tails += [rng.choices(pool, k=2) for _ in range(20)]
        tails += [rng.choices(pool, k=3) for _ in range(8)]
        if self.few:
            tails = tails[::6]
        rows = [*CURATED.get(self.label, ()), *CURATED.get(f"*.{self.name}", ())]
        tails = [*([self._maker(item) for item in row] for row in rows), *tails]
        for number, maker in enumerate(self.selves):
            yield from ([maker, *tail] for tail in (tails[:-20] if number else tails))
        if not self.selves:
            yield from tails

    def _maker(self, item: Any) -> Maker:
        return self.selves[0] if item == "self" and self.selves else _maker(item)


def _maker(item: Any) -> Maker:
    """A curated argument: the name of a sample, or a maker, or a constant in a tuple."""
    if type(item) is str:
        return POOL[item if item != "self" else "none"]
    if type(item) is tuple:
        return lambda k: item[0]
    return item  # type: ignore[no-any-return]


def selves_of(cls: type) -> tuple[Maker, ...]:
    if cls in SELVES:
        return tuple(SELVES[cls])
    if issubclass(cls, BaseExceptionGroup):
        return (lambda k: cls("abc", [ValueError(*numbers(k))]),)
    if issubclass(cls, UnicodeError) and cls is not UnicodeError:
        return (lambda k: cls.__new__(cls),)
    if issubclass(cls, BaseException):
        return (lambda k: cls(*text("abc", "name")[k.own :]),)
    rows = SELVES_BY_CALL.get(cls.__name__, ())
    return tuple(
        (lambda k, row=row: cls(*(_maker(item)(k) for item in row))) if type(row) is tuple else row
        for row in rows
    )


@cache
def type_cases(cls: type) -> list[Case]:
    owner = cls.__name__
    few = issubclass(cls, BaseException) and len(own_members(cls)) < 3
    found = []
    if (contract := registry.contracts.get(id(cls))) and contract.verdict in RUNS:
        found.append(Case(owner, "()", cls, contract, few=few))
    for name, member in registry.members[id(cls)].items():
        contract = registry.contracts.get(id(member))
        if contract is None or contract.verdict not in RUNS:
            continue
        function: Any = member
        selves = selves_of(cls)
        if type(member) in ATTRIBUTE_KINDS and selves:
            function = types.MethodType(type(member).__dict__["__get__"], member)
        elif type(member) is types.BuiltinFunctionType:
            selves = (lambda k: cls,) if name == "__new__" else ()
        elif type(member) is types.ClassMethodDescriptorType:
            selves = (CLASSES.get(owner, lambda k: cls),)
        elif not selves or type(member) in ATTRIBUTE_KINDS:
            continue
        found.append(Case(owner, name, function, contract, selves, few))
    return found


@cache
def module_cases(module: str) -> list[Case]:
    namespace = vars(importlib.import_module(module))
    cases = []
    for name, _ in spread(ALL_FUNCTIONS[module]):
        function = namespace.get(name)
        contract = registry.contracts.get(id(function))
        if contract and contract.verdict in RUNS:
            cases.append(Case(module, name, function, contract))  # type: ignore[arg-type]
    return cases


load_all()
GROUPS: dict[str, Callable[[], list[Case]]] = {
    **{
        f"{cls.__module__}.{cls.__qualname__}": (lambda cls=cls: type_cases(cls))  # type: ignore[misc]
        for cls in registry.types
    },
    **{
        module: (lambda module=module: module_cases(module))  # type: ignore[misc]
        for module in MODULES
        if module in ALL_FUNCTIONS
    },
}


def without_samples() -> list[str]:
    """Types whose methods are not tested because nobody says how to make one."""
    return [cls.__qualname__ for cls in registry.types if not selves_of(cls)]


__all__ = ["GROUPS", "PLAIN", "Case", "load_all", "present", "without_samples"]
