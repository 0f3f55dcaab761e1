"""CPython's own unittest modules, run through a function compiler, strictly.

Every test METHOD is compiled on its own with ``fullgraph=True, backend="eager"`` (fixtures and
the unittest machinery stay native), so a construct the compiler does not support is a failure.
A test that does not pass natively is *excluded*: it is in no denominator.

    python -m tests.conformance --engine MODULE:ATTR [--out R.json] [MODULE ...]

``engines`` says what an engine is, ``modules`` which test modules are run, ``supervisor`` how
processes are laid out, ``known`` what a list of known failures means.
"""
