"""What a Python version's bytecode table says.

Stage: below everything; the decoder, the evaluator and the emitter read these facts. In: the
literal facts written down in `py311.py` to `py315.py`. Out: one `Tables` object per
version, with the lookups derived from them.

Opcodes are keyed by name throughout, because names are what versions have in common; `opmap` and
`opname` translate to and from the numbers of one version.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final, NamedTuple


class ArgKind(Enum):
    """What an instruction's argument means."""

    NONE = auto()
    """The opcode takes no argument."""
    CONST = auto()
    """Index into `co_consts`."""
    NAME = auto()
    """Index into `co_names`."""
    NAME_FLAG1 = auto()
    """Index into `co_names` above one flag bit (LOAD_GLOBAL: also push NULL; LOAD_ATTR: method)."""
    NAME_FLAG2 = auto()
    """Index into `co_names` above two flag bits (LOAD_SUPER_ATTR: method, two-argument super)."""
    NAME_IMPORT = auto()
    """Index into `co_names` above two flag bits (IMPORT_NAME: lazy, not lazy)."""
    LOCAL = auto()
    """Index into `localsplus`, read or written as a plain slot."""
    LOCAL_PAIR = auto()
    """Two `localsplus` indices of four bits each, the first in the high ones."""
    CELL = auto()
    """Index into `localsplus`, of a slot that holds a cell."""
    JUMP = auto()
    """Distance in code units from the following instruction; the sign is in `Tables.jumps`."""
    COMPARE = auto()
    """A comparison operator, above flag and mask bits that differ by version."""
    BINARY = auto()
    """A binary operator, plain or in place."""
    COMMON = auto()
    """One of `Tables.common_constants`."""
    SPECIAL = auto()
    """One of `Tables.special_methods`."""
    INTRINSIC1 = auto()
    """A one-argument intrinsic function."""
    INTRINSIC2 = auto()
    """A two-argument intrinsic function."""
    CONVERSION = auto()
    """What is applied to a value before formatting: str, repr, ascii; may include a spec bit."""
    FUNCTION = auto()
    """Function attributes that are on the stack, as a bit set."""
    FLAGS = auto()
    """One bit that selects a variant (IS_OP and CONTAINS_OP: negated; CALL_FUNCTION_EX: **)."""
    COUNT = auto()
    """A number of operands."""
    STACK = auto()
    """A stack position, 1 being the top (after popping the operands)."""
    RAW = auto()
    """A number with a meaning of its own, see the opcode's entry in the `dis` documentation."""


class Jump(NamedTuple):
    """How a jump goes: its direction and what each way does to the depth of the stack.

    `taken` is measured where the jump lands. FOR_ITER lands behind the instructions named in
    `Tables.for_iter_exhausted`.
    """

    direction: int
    """+1 forward, -1 backward."""
    taken: int
    fallthrough: int | None
    """None: the jump is unconditional."""


FORWARD: Final = Jump(+1, taken=0, fallthrough=None)
BACKWARD: Final = Jump(-1, taken=0, fallthrough=None)
POP_FORWARD: Final = Jump(+1, taken=-1, fallthrough=-1)
POP_BACKWARD: Final = Jump(-1, taken=-1, fallthrough=-1)
FORWARD_OR_POP: Final = Jump(+1, taken=0, fallthrough=-1)

EXITS: Final[frozenset[str]] = frozenset(
    {"RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "INTERPRETER_EXIT"}
)
"""Opcodes that leave the frame or unwind it; the same in every version."""


class BinaryOperator(NamedTuple):
    """A BINARY_OP operator: `symbol` as written, `function` as the `operator` module calls it."""

    symbol: str
    function: str
    inplace: bool


_PLAIN_OPERATORS: Final[tuple[tuple[str, str], ...]] = (
    ("+", "add"),
    ("&", "and_"),
    ("//", "floordiv"),
    ("<<", "lshift"),
    ("@", "matmul"),
    ("*", "mul"),
    ("%", "mod"),
    ("|", "or_"),
    ("**", "pow"),
    (">>", "rshift"),
    ("-", "sub"),
    ("/", "truediv"),
    ("^", "xor"),
)
_SUBSCRIPTION: Final = ("[]", "getitem")

BINARY_OPERATORS: Final[tuple[BinaryOperator, ...]] = (
    *(BinaryOperator(symbol, function, False) for symbol, function in _PLAIN_OPERATORS),
    *(
        BinaryOperator(f"{symbol}=", "i" + function.rstrip("_"), True)
        for symbol, function in _PLAIN_OPERATORS
    ),
    BinaryOperator(*_SUBSCRIPTION, False),
)
"""By BINARY_OP argument (`NB_ADD` … `NB_INPLACE_XOR`); since 3.14 the last one is `NB_SUBSCR`."""

SUBSCRIPTION: Final = len(BINARY_OPERATORS) - 1
"""The argument of a BINARY_OP that takes an item (3.14+; an opcode of its own before)."""

COMPARISONS: Final[tuple[str, ...]] = ("<", "<=", "==", "!=", ">", ">=")
"""By COMPARE_OP argument, shifted; the same in every version."""


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """The bytecode of one Python version."""

    python: tuple[int, int]
    magic: int
    """The number in the header of .pyc files. It is the version of the bytecode itself."""
    opcodes: Mapping[ArgKind, Mapping[str, int]]
    """Opcode numbers by kind of argument. Base opcodes only: `co_code` never shows others."""
    caches: Mapping[str, int]
    """Inline cache units behind an opcode, where there are any."""
    jumps: Mapping[str, Jump]
    never_raise: frozenset[str]
    """Opcodes that cannot raise, MemoryError and asynchronous exceptions (signals) aside."""
    for_iter_exhausted: tuple[str, ...]
    """What stands at FOR_ITER's target and is skipped when the iterator is exhausted."""
    null_first: bool
    """A call expects [NULL, callable, arguments…]; if false, [callable, NULL, arguments…]."""
    compare_shift: int
    """Bits of COMPARE_OP's argument below the operator."""
    compare_to_bool: int
    """The bit of COMPARE_OP's argument that asks for a bool; 0 if there is none."""
    intrinsics1: tuple[str, ...]
    """By CALL_INTRINSIC_1 argument, less the prefix INTRINSIC_."""
    intrinsics2: tuple[str, ...]
    common_constants: tuple[object, ...] = ()
    """By LOAD_COMMON_CONSTANT argument."""
    special_methods: tuple[str, ...] = ()
    """By LOAD_SPECIAL argument."""
    last_dies_first: bool = False
    """Whether an instruction lets go of its last operand first (3.14+), or of its first."""
    iterator_slots: int = 1
    """How many values an iterator is on the stack. Since 3.15 there is a second one, NULL; if it is
    a number, the first is no iterator but a list or the like, and this is where it is iterated."""
    small_ints: range = range(-5, 257)
    """The ints of which there is one object each: `a is b` is `a == b`."""
    main_names: frozenset[str] = frozenset({"__annotations__", "__cached__"})
    """What the module `__main__` begins with, beside what all modules have."""

    opmap: Mapping[str, int] = field(init=False)
    opname: Mapping[int, str] = field(init=False)
    kinds: Mapping[str, ArgKind] = field(init=False)
    may_raise: frozenset[str] = field(init=False)
    terminators: frozenset[str] = field(init=False)
    """Opcodes that never continue with the instruction behind them."""
    popping_jumps: frozenset[str] = field(init=False)
    """Conditional jumps that pop what they test on both ways (POP_JUMP_…)."""

    def __post_init__(self) -> None:
        opmap = {name: number for group in self.opcodes.values() for name, number in group.items()}
        derive = object.__setattr__
        derive(self, "opmap", opmap)
        derive(self, "opname", {number: name for name, number in opmap.items()})
        derive(self, "kinds", {name: kind for kind, ops in self.opcodes.items() for name in ops})
        derive(self, "may_raise", frozenset(opmap) - self.never_raise)
        unconditional = {name for name, jump in self.jumps.items() if jump.fallthrough is None}
        derive(self, "terminators", EXITS.intersection(opmap) | unconditional)
        popping = {name for name, jump in self.jumps.items() if jump[1:] == (-1, -1)}
        derive(self, "popping_jumps", frozenset(popping))

    @property
    def for_iter_skip(self) -> int:
        """How many instructions FOR_ITER skips at its target when the iterator is exhausted."""
        return len(self.for_iter_exhausted)
