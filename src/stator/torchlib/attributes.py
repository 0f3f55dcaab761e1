"""Private attributes of torch's objects: what each one is for.

They are read where they are needed, not here. Where an object lacks one while a call is compiled,
that call is left to Python, with a warning (`driver/failures.py`); nothing here fails at import.
"""

from typing import Final

OF_TENSORS: Final[dict[str, str]] = {
    "_base": "what a view is a view of",
    "_is_view": "whether it is one",
    "_version": "how often it was changed in place",
    "_cdata": "which memory, or which tensor, it is in C++",
    "_is_all_true": "what a program states about all values",
    "_dynamo_marked_static": "sizes that the program has marked",
    "_make_subclass": "a tensor of a class of the program",
}
OF_OPERATORS: Final[dict[str, str]] = {
    "_schema": "what an operator takes, returns and writes",
    "_overloadname": "which overload it is, by which it is found again",
    "_qualified_op_name": "the operator that it is one of",
}
OF_AUTOGRAD: Final[dict[str, str]] = {
    "_backward_cls": "the class behind the node of a `torch.autograd.Function`",
}
OF_SIZES: Final[dict[str, str]] = {
    "_expr": "the expression behind a number that is not known",
    "_has_symbolic_sizes_strides": "whether a tensor has such sizes",
    "_default_unspecified_value_range": "what is known of a number that was just made",
    "_get_sloc": "where a guard was made",
    "_maybe_evaluate_static": "what is known about a relation",
    "_maybe_guard_rel": "what follows from one",
    "_refine_ranges": "the same, for ranges",
    "_set_replacement": "that one number is another",
    "_update_var_to_range": "that a number lies in a range",
}
OF_GRAPHS: Final[dict[str, str]] = {
    "_dynamo_source": "where an input came from, for backends",
    "_param_name_to_source": "the same, for parameters",
    "_lineno_map": "the lines of a graph's code, for tracebacks",
}
OF_MODULES: Final[dict[str, str]] = {
    "_call_impl": "what `module(x)` does",
    "_compiled_call_impl": "what it does after `module.compile()`",
    "_forward_hooks": "what it does behind `forward`",
    "_forward_hooks_with_kwargs": "which of these take keyword arguments",
    "_forward_pre_hooks": "what it does before `forward`",
    "_forward_pre_hooks_with_kwargs": "which of these take keyword arguments",
    "_internal": "torch's own logging, inside of the package for it",
}
OF_REPLICAS: Final[dict[str, str]] = {
    "_pre_forward": "what DistributedDataParallel does before its module",
    "_post_forward": "what it does behind",
    "_active_ddp_module": "the one that is running",
    "_get_active_ddp_module": "the same",
    "_delay_all_reduce_all_params": "how it calls its module",
}
OF_TRANSFORMS: Final[dict[str, str]] = {
    "_broadcast_to_and_flatten": "how `vmap` reads `out_dims`",
    "_check_out_dims_is_int_or_int_pytree": "what it refuses of them",
    "_process_batched_inputs": "how it reads `in_dims`",
}
ATTRIBUTES: Final[dict[str, str]] = {
    **OF_TENSORS,
    **OF_OPERATORS,
    **OF_AUTOGRAD,
    **OF_SIZES,
    **OF_GRAPHS,
    **OF_MODULES,
    **OF_REPLICAS,
    **OF_TRANSFORMS,
}
