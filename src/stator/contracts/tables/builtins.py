"""The functions of `builtins`, `_io.open` included. Types are in `types_`, `numbers_`, `text`."""

from .rows import Functions

FUNCTIONS: Functions = {
    "builtins": {
        # objects
        "pure | .": "callable",
        "pure identity | .": "id",
        "pure calls | z d": "isinstance issubclass",
        "reads calls | az sh .": "getattr hasattr",
        "mutates calls | am dh .": "setattr",
        "mutates calls | am dh": "delattr",
        "reads calls identity | d s": "repr ascii format",
        "reads calls identity | dh": "hash",
        # numbers
        "pure calls | sp": "abs",
        "pure calls | s": "bin chr hex oct round divmod",
        "pure calls | sp s": "pow",
        "reads | s": "ord",
        # containers and iteration
        "reads calls | s": "len aiter",
        "reads calls | sc .": "iter",
        "mutates calls | sm .": "next anext",
        "reads calls | dip": "all any",
        "reads calls | dip dp": "sum",
        "reads calls | dipc": "max min",
        "reads calls | dip sc": "sorted",
        # what needs the caller's frame
        "frame | .": "globals locals",
        "frame calls | a": "dir vars",
        "frame calls | dc": "eval exec",
        "frame | s": "compile",
        "frame calls | .c": "__build_class__",
        # what must not happen while tracing
        "forbidden output": "print",
        "forbidden io": "open input",
        "forbidden debug": "breakpoint",
        "forbidden import": "__import__ __lazy_import__@3.15+",
    },
}
