"""The interpreter, the process and the machine: mostly what must not happen while tracing.

`sys`, `gc`, `time`, `random`, `os`, `io`, threads, signals, warnings, imports.
"""

from collections.abc import Callable
from typing import Any

from .rows import Functions, Rows, Types, Unnamed

# Modules of which every function is forbidden: the reason, instead of rows.
WHOLE_MODULES = {
    "time": "forbidden time",
    "gc": "forbidden collector",
    "_thread": "forbidden threads",
    "_signal": "forbidden process",
    "atexit": "forbidden process",
    "_tracemalloc": "forbidden memory",
    "faulthandler": "forbidden debug",
    "_imp": "forbidden import",
    "_locale": "forbidden process",
    "posix": "forbidden os",
    "_io": "forbidden io",
    "_socket": "forbidden io",
    "select": "forbidden io",
    "fcntl": "forbidden os",
    "_posixsubprocess": "forbidden os",
    "_multiprocessing": "forbidden threads",
    "_queue": "forbidden threads",
    "_ssl": "forbidden io",
    "_sqlite3": "forbidden io",
    "mmap": "forbidden io",
    "resource": "forbidden os",
    "_uuid": "forbidden random",
    "readline": "forbidden io",
}

FUNCTIONS: Functions = {
    "sys": {
        "constant | .": "getdefaultencoding getfilesystemencoding getfilesystemencodeerrors "
        "getrecursionlimit getswitchinterval getdlopenflags get_int_max_str_digits is_finalizing "
        "get_coroutine_origin_tracking_depth _is_gil_enabled@3.13+",
        "pure | s": "intern",
        "frame | .": "_getframe exc_info exception _getframemodulename@3.12+",
        "forbidden exit": "exit",
        "forbidden output": "displayhook __displayhook__ excepthook __excepthook__ "
        "unraisablehook __unraisablehook__ _debugmallocstats",
        "forbidden debug": "audit breakpointhook __breakpointhook__ call_tracing settrace "
        "setprofile gettrace getprofile _settraceallthreads@3.12+ _setprofileallthreads@3.12+ "
        "addaudithook activate_stack_trampoline@3.12+ deactivate_stack_trampoline@3.12+ "
        "is_stack_trampoline_active@3.12+ _baserepl@3.13+ remote_exec@3.14+ "
        "is_remote_debug_enabled@3.14+ _dump_tracelets@3.14+",
        "forbidden process": "setrecursionlimit setswitchinterval setdlopenflags "
        "set_int_max_str_digits set_asyncgen_hooks get_asyncgen_hooks "
        "set_coroutine_origin_tracking_depth _clear_type_cache _clear_internal_caches@3.13+ "
        "_getquickenedcount@-3.11 _get_cpu_count_config@3.13+ _is_interned@3.13+ "
        "_is_immortal@3.14+ _clear_type_descriptors@3.14-3.14",
        "forbidden import": "get_lazy_imports@3.15+ get_lazy_imports_filter@3.15+ "
        "set_lazy_imports@3.15+ set_lazy_imports_filter@3.15+",
        "forbidden threads": "_current_frames _current_exceptions",
        "forbidden memory": "getrefcount getsizeof getallocatedblocks getunicodeinternedsize@3.12+",
    },
    "_warnings": {
        "forbidden warnings": "warn warn_explicit _filters_mutated@-3.13 "
        "_filters_mutated_lock_held@3.14+ _acquire_lock@3.14+ _release_lock@3.14+",
    },
    # Python functions, but what they ask does not change: answered once, not evaluated.
    "importlib.util": {"constant | s": "find_spec"},
    "importlib.metadata": {
        "constant | s": "version distribution metadata packages_distributions requires"
    },
    "_stat": {
        "pure calls | s": "S_IFMT S_IMODE S_ISBLK S_ISCHR S_ISDIR S_ISDOOR "
        "S_ISFIFO S_ISLNK S_ISPORT S_ISREG S_ISSOCK S_ISWHT filemode"
    },
}

_LOCK = (
    "() __new__ __enter__ __exit__ acquire release locked acquire_lock release_lock locked_lock "
    "_at_fork_reinit _is_owned _recursion_count _acquire_restore _release_save __repr__"
)

_STRUCTURE: Rows = {
    "reads calls | di": "()",
    "reads calls | . di": "__new__",
    "reads | s": "__reduce__ __replace__@3.13+",
    "reads calls identity | da": "__repr__",
}
_FACTS = ("flags", "float_info", "hash_info", "int_info", "thread_info", "version_info")

TYPES: Types = {
    "_thread:LockType": {"forbidden lock": _LOCK},
    "_thread:RLock": {"forbidden lock": _LOCK},
    "_thread:_local": {
        "forbidden hidden_state": "() __new__ __getattribute__ __setattr__ __delattr__",
    },
    "_random:Random": {
        "reads calls | dh": "()",  # not what it draws: capture/randomness/draws.py
        "reads calls | . dh": "__new__",
        "forbidden random": "__init__ random seed getrandbits getstate setstate",
    },
    "time:struct_time": _STRUCTURE,
    **{f"posix:{name}": _STRUCTURE for name in ("stat_result", "terminal_size", "uname_result")},
    **{f"sys:{name}": _STRUCTURE for name in _FACTS},
}


def _of(name: str) -> Callable[[Any], type]:
    return lambda module: type(getattr(module, name))


UNNAMED: Unnamed = {f"sys:{name}": _of(name) for name in _FACTS}
