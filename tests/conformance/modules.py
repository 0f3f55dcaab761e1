"""Which of CPython's test modules are run, and under which name a Python version has them."""

import importlib.util
from typing import Final

# The names are those of 3.11; a name without a package lives in `test`.
LANGUAGE: Final = tuple(
    """
    test_bool test_long test_complex test_tuple test_dict test_dictviews test_set test_range
    test_iter test_iterlen test_enumerate test_exceptions test_baseexception test_raise
    test_except_star test_exception_group test_exception_hierarchy test_with test_class test_super
    test_subclassinit test_funcattrs test_decorators test_dynamicclassattribute
    test_named_expressions test_unpack test_dictcomps test_global test_keywordonlyarg
    test_positional_only_arg test_call test_unary test_pow test_augassign test_compare test_richcmp
    test_hash test_index test_contains test_isinstance test_typechecks test_format test_fstring
    test_string_literals test_bytes test_builtin test_grammar test_patma test_coroutines
    test_asyncgen test_yield_from test_genericclass test_genericalias test_opcodes test_opcache
    test_longexp test_memoryview test_frame test_sys
    """.split()  # noqa: SIM905
)
LIBRARY: Final = tuple(
    """
    test_math test_cmath test_itertools test_functools test_operator test_collections test_userdict
    test_userlist test_userstring test_ordered_dict test_defaultdict test_deque test_heapq
    test_bisect test_contextlib test_dataclasses test_enum test_typing test_abc test_copy
    test_string test_textwrap test_structseq test_statistics test_fractions test_numeric_tower
    test_decimal test_strtod test_weakset test_keyword test_reprlib test_pprint test_dis test_re
    test_graphlib test_queue test_colorsys test_base64 test_binascii test_shlex
    unittest.test.test_assertions unittest.test.test_case
    """.split()  # noqa: SIM905
)
DEFAULT: Final = LANGUAGE + LIBRARY
# What does not fit into `make test`: much CPU time, sleeps, subprocesses.
SLOW: Final = frozenset(
    """
    test_long test_range test_pow test_bytes test_sys test_set
    test_math test_itertools test_userstring test_deque test_heapq test_statistics test_decimal
    test_strtod test_re test_queue
    """.split()  # noqa: SIM905
)
SLICE: Final = tuple(name for name in DEFAULT if name not in SLOW)
# What `make test` runs through `stator.compile`, which takes longer than the evaluator alone.
COMPILED_SLICE: Final = tuple(
    """
    test_bool test_dictviews test_baseexception test_raise test_except_star test_exception_group
    test_exception_hierarchy test_with test_super test_subclassinit test_funcattrs test_decorators
    test_named_expressions test_dictcomps test_global test_keywordonlyarg test_positional_only_arg
    test_unary test_augassign test_index test_contains test_isinstance test_typechecks test_format
    test_grammar test_patma test_coroutines test_yield_from test_genericclass
    test_defaultdict test_copy test_keyword
    """.split()  # noqa: SIM905
)
# Further modules, for looking for bugs: no list of known failures is kept for them.
EXTENDED: Final = tuple(
    """
    test_descr test_types test_scope test_traceback test_inspect test_weakref test_generators
    test_property test_code test_gc test_copyreg test_slice test_sort test_list test_float test_int
    test_warnings test_threading test_context test_generator_stop test_ast test_sys_settrace
    test_sys_setprofile test_bdb test_pdb test_doctest test_asyncio.test_tasks
    test_asyncio.test_futures test_pickle test_unicode test_tempfile test_atexit
    """.split()  # noqa: SIM905
)
# Also collected by the harness, but too slow for a default run: test_datetime.

# Prefixes that moved in a later version: old name -> new name.
MOVED: Final = {"unittest.test.": "test.test_unittest."}


def exists(dotted: str) -> bool:
    try:
        return importlib.util.find_spec(dotted) is not None
    except ModuleNotFoundError:
        return False


def resolve(name: str) -> str | None:
    """The import name of a listed module on the running Python; None if it has no such module."""
    dotted = name if name.startswith(("unittest.", "test.")) else f"test.{name}"
    if exists(dotted):
        return dotted
    for old, new in MOVED.items():
        if dotted.startswith(old) and exists(moved := new + dotted.removeprefix(old)):
            return moved
    return None
