"""What each torch callable is to a trace, as data; `leaves` reads it.

Functions are named by the dotted path a user writes, methods by name. A path that this build of
torch doesn't have is skipped.
"""

from typing import Any, Final

from stator.diagnostics.breaks import Break
from stator.diagnostics.catalogue import (
    AnotherTool,
    AutogradInside,
    InputOutput,
    RandomState,
    TensorDetail,
    TensorMemory,
    TensorSubclass,
    Threads,
    TorchState,
    Transform,
    UnusualTensor,
    ValueNeeded,
)

HIGHER_ORDER: Final = "higher-order operators are not captured yet"

# ---------------------------------------------------------------------------- by module

# Python functions of these modules are leaves: one node each.
RECORDED_MODULES: Final[frozenset[str]] = frozenset(
    {"torch.nn.functional", "torch.functional", "torch.signal.windows.windows"}
)
# So are the C functions of these.
RECORDED_C_MODULES: Final[frozenset[str]] = frozenset(
    {
        "torch._C._fft",
        "torch._C._linalg",
        "torch._C._nested",
        "torch._C._nn",
        "torch._C._sparse",
        "torch._C._special",
    }
)
RECORDED_C_CLASSES: Final[tuple[str, ...]] = ("_VariableFunctionsClass.",)  # torch.relu and so on

# The function mode under which `x[i, j]` with tensors of one number is torch.index: for `vmap`.
INDEXING_MODE: Final = "torch._dynamo._trace_wrapped_higher_order_op.TransformGetItemToIndex"

# Once torch.compile was used, modules are made and copied by wrappers of Dynamo's, which note for
# its own use that they are new. They are evaluated; the note, on objects of a trace, is left out.
_NOTES: Final = "torch._dynamo.mutation_guard"
# So is what `nested_compile_region` returns: the region is captured where it is called.
WRAPPERS: Final[frozenset[str]] = frozenset(
    {
        f"{_NOTES}.install_generation_tagging_init.<locals>.patched_init",
        f"{_NOTES}.install_generation_tagging_init.<locals>.patched_setstate",
        "torch._higher_order_ops.invoke_subgraph.mark_compile_region.<locals>.wrap.<locals>.inner",
    }
)
LEFT_OUT: Final[frozenset[str]] = frozenset(
    {
        f"{_NOTES}.GenerationTracker.tag",
        f"{_NOTES}._GenerationTracker.tag",  # since torch 2.15
        # It makes the class of `ctx`, which a trace has no use for. The class can't leave the call.
        "torch.autograd.function.FunctionMeta.__init__",
    }
)

# Modules within those below whose Python code is evaluated, up to the higher-order operator, if it
# comes to one. A scan that is "generic" comes to none.
AROUND_OPERATORS: Final[frozenset[str]] = frozenset(
    {
        "torch._higher_order_ops.associative_scan",
        "torch._higher_order_ops.cond",
        "torch._higher_order_ops.map",
        "torch._higher_order_ops.scan",
        "torch._higher_order_ops.utils",
        "torch._higher_order_ops.while_loop",
    }
)
# The operators themselves that are captured, with what they are given as graphs of their own.
CAPTURED_OPERATORS: Final[frozenset[str]] = frozenset(
    {"associative_scan", "cond", "flex_attention", "map_impl", "scan", "while_loop"}
)

# Modules whose functions do something that can't be part of a trace; the reason is shown.
FORBIDDEN_MODULES: Final[dict[str, str]] = {
    "torch._dynamo": "it drives another compiler",
    "torch._higher_order_ops": HIGHER_ORDER,
    "torch._inductor": "it drives another compiler",
    "torch.compiler": "it drives another compiler",
    "torch.distributed.nn": "it communicates, also in the backward, in ways a graph does not have",
    "torch.export": "it drives another compiler",
    "torch.hub": "it loads files",
    "torch.jit": "it drives another compiler",
    "torch.multiprocessing": "it starts processes",
    "torch.onnx": "it drives another compiler",
    "torch.package": "it loads files",
    "torch.profiler": "profiling happens at run time",
    "torch.cuda.random": "it reads or changes the random number generator's state",
    "torch.serialization": "it reads or writes files",
    "torch.utils.cpp_extension": "it runs a compiler",
    "torch.utils.data": "data loading is not part of a graph",
    "torch.utils.dlpack": "it shares memory with another library",
}

# ---------------------------------------------------------------------------- exceptions

# Python functions of recorded modules that are evaluated: what they call is recorded instead.
# Private helpers of these modules are evaluated too.
EVALUATED: Final[tuple[str, ...]] = (
    "torch.jit.annotate",
    "torch.nn.functional.boolean_dispatch",
    "torch.nn.functional.gaussian_nll_loss",  # raises where a variance is negative
    "torch.nn.functional.grouped_mm",
    "torch.nn.functional.handle_torch_function",
    "torch.nn.functional.linear_cross_entropy",
    "torch.nn.functional.lp_pool3d",
    "torch.nn.functional.pad",
    "torch.nn.functional.rms_norm",
    "torch.nn.functional.scaled_grouped_mm",
    "torch.nn.functional.scaled_mm",
    "torch.nn.functional.threshold",
    "torch.nn.functional.triplet_margin_with_distance_loss",
)

# Python functions elsewhere in torch that are leaves.
RECORDED: Final[tuple[str, ...]] = (
    "torch.pca_lowrank",
    "torch.sparse.sum",
    "torch.svd_lowrank",
    "torch.sym_float",
    "torch.sym_int",
    "torch.sym_ite",
    "torch.sym_max",
    "torch.sym_min",
    "torch.sym_not",
    "torch.sym_sqrt",
    "torch.sym_sum",
)

# ---------------------------------------------------------------------------- constants

# Answered while tracing, with this answer.
ANSWERS: Final[dict[str, Any]] = {
    "torch._utils.is_compiling": True,
    "torch.compiler.is_compiling": True,
    "torch.compiler.is_dynamo_compiling": True,
    "torch.compiler.is_exporting": False,
    "torch._jit_internal.is_scripting": False,
    "torch.jit.is_scripting": False,
    "torch.jit.is_tracing": False,
    "torch._C._get_tracing_state": None,
    "torch._C._is_tracing": False,
    "torch._C._log_api_usage_once": None,
    "torch._logging._internal.trace_structured": None,
    "torch.nn.modules.activation._is_make_fx_tracing": False,
    "torch.onnx.is_in_onnx_export": False,
    "torch.overrides.has_torch_function": False,
    "torch.overrides.has_torch_function_unary": False,
    "torch.overrides.has_torch_function_variadic": False,
}

# Those of them by which a function finds out that it is compiled, to do something else then. One of
# torch's own that asks is not split inside, where the rest would run the other way (docs/graph.md).
COMPILING: Final[frozenset[str]] = frozenset(
    {
        "_maybe_compile_and_run_fn",  # asks
        "is_compiling",
        "is_dynamo_compiling",
        "is_torchdynamo_compiling",
    }
)
# What does the same in both ways, or is asked about elsewhere (`capture/calls/controls.py`).
COMPILED_ALIKE: Final[frozenset[str]] = frozenset({"Module._call_impl"})

# Answered while tracing, by calling them.
CONSTANT: Final[tuple[str, ...]] = (
    "torch._C._accelerator_getAccelerator",
    "torch._C._functorch.maybe_current_level",
    "torch._C._are_functorch_transforms_active",
    "torch._C._get_cudnn_sdp_enabled",
    "torch._C._get_deterministic_algorithms",
    "torch._C._get_deterministic_algorithms_warn_only",
    "torch._C._get_float32_matmul_precision",
    "torch._C._get_mkldnn_enabled",
    "torch._C._get_overrideable_sdp_enabled",
    "torch._C._get_sdp_priority_order",
    "torch._C._has_mkldnn",
    "torch._C._get_default_device",
    "torch._C._get_flash_sdp_enabled",
    "torch._C._get_math_sdp_enabled",
    "torch._C._get_mem_efficient_sdp_enabled",
    "torch._C._get_privateuse1_backend_name",
    "torch._C._get_warnAlways",
    "torch._utils._get_device_index",
    "torch.backends.cuda.is_built",
    "torch.backends.cudnn.is_acceptable",
    "torch.backends.cudnn.is_available",
    "torch.backends.cudnn.version",
    "torch.backends.mps.is_available",
    "torch.backends.mps.is_built",
    "torch.broadcast_shapes",
    "torch.can_cast",
    "torch.cuda.current_device",
    "torch.cuda.device_count",
    "torch.cuda.get_device_capability",
    "torch.cuda.get_device_name",
    "torch.cuda.get_device_properties",
    "torch.cuda.is_available",
    "torch.cuda.is_bf16_supported",
    "torch.cuda.is_initialized",
    "torch.distributed.ProcessGroup.group_desc.fget",
    "torch.distributed.ProcessGroup.group_name.fget",
    "torch.distributed.ProcessGroup.name",
    "torch.distributed.ProcessGroup.rank",
    "torch.distributed.ProcessGroup.size",
    "torch.distributed.is_available",
    "torch.distributed.is_initialized",
    "torch.finfo",
    "torch.get_autocast_dtype",
    "torch.get_autocast_cpu_dtype",
    "torch.get_autocast_gpu_dtype",
    "torch.get_default_dtype",
    "torch.get_device",
    "torch.get_device_module",
    "torch.get_num_interop_threads",
    "torch.get_num_threads",
    "torch.iinfo",
    "torch.is_anomaly_check_nan_enabled",
    "torch.is_anomaly_enabled",
    "torch.is_autocast_cpu_enabled",
    "torch.is_autocast_enabled",
    "torch.is_complex",
    "torch.is_conj",
    "torch.is_floating_point",
    "torch.is_grad_enabled",
    "torch.is_inference",
    "torch.is_inference_mode_enabled",
    "torch.is_neg",
    "torch.is_same_size",
    "torch.is_signed",
    "torch.is_storage",
    "torch.is_tensor",
    "torch.numel",
    "torch.overrides.is_tensor_like",
    "torch.promote_types",
    "torch.result_type",
    "torch.Size",
    "torch.device",
    "torch.typename",
    "torch.amp.autocast_mode.is_autocast_available",
    "torch.xpu.is_available",
)

# Those of them that are Python code and tell of the process, which may change.
TOLD: Final[tuple[str, ...]] = (
    "torch.cuda.current_device",
    "torch.cuda.is_initialized",
    "torch.distributed.is_initialized",
)

# Parts of the names of functions that tell what a graph itself may change.
CHANGEABLE: Final[tuple[str, ...]] = (
    "default_dtype",
    "grad_enabled",
    "inference_mode",
    "autocast",
    "sdp",
    "torch_function",
)

CONSTANT_METHODS: Final[frozenset[str]] = frozenset(
    [
        "__hash__",
        "__len__",
        "_is_zerotensor",
        "dense_dim",
        "dim",
        "dim_order",
        "element_size",
        "get_device",
        "is_complex",
        "is_conj",
        "is_contiguous",
        "is_distributed",
        "is_floating_point",
        "is_inference",
        "is_neg",
        "is_same_size",
        "is_signed",
        "ndimension",
        "nelement",
        "numel",
        "size",
        "sparse_dim",
        "storage_offset",
        "stride",
    ]
)

# ---------------------------------------------------------------------------- state

# Changes of state that a graph can hold; the value names the method of `StateRecorder`.
STATE: Final[dict[str, str]] = {
    **dict.fromkeys(
        (
            "torch._C._set_sdp_use_cudnn",
            "torch._C._set_sdp_use_flash",
            "torch._C._set_sdp_use_math",
            "torch._C._set_sdp_use_mem_efficient",
            "torch._C._set_sdp_use_overrideable",
            "torch._C._set_sdp_priority_order",
        ),
        "flag",
    ),
    "torch._C._set_grad_enabled": "set_grad_enabled",
    "torch.amp.autocast_mode._enter_autocast": "enter_autocast",
    "torch.amp.autocast_mode._exit_autocast": "exit",
    "torch.amp.autocast_mode.autocast.__enter__": "enter_autocast",
    "torch.amp.autocast_mode.autocast.__exit__": "exit",
    "torch.autograd.grad_mode._enter_inference_mode": "enter_inference_mode",
    "torch.autograd.grad_mode._exit_inference_mode": "exit",
    "torch.autograd.grad_mode.inference_mode.__enter__": "enter_inference_mode",
    "torch.autograd.grad_mode.inference_mode.__exit__": "exit",
}

# ---------------------------------------------------------------------------- kept by the trace

# State of tensors that a graph does not hold; the value names the method of `TensorState`.
OWN: Final[dict[str, str]] = {
    **{
        f"torch._C.{name}": f"{'set' if '_set_' in name else 'get'}_flag {name}"
        for name in (
            "_cuda_get_cudnn_benchmark_limit",
            "_cuda_set_cudnn_benchmark_limit",
            "_get_cudnn_allow_tf32",
            "_get_cudnn_benchmark",
            "_get_cudnn_depthwise_kernel",
            "_get_cudnn_deterministic",
            "_get_cudnn_enabled",
            "_get_fp32_precision_getter",
            "_set_cudnn_allow_tf32",
            "_set_cudnn_benchmark",
            "_set_cudnn_depthwise_kernel",
            "_set_cudnn_deterministic",
            "_set_cudnn_enabled",
            "_set_fp32_precision_setter",
        )
    },
    "torch._C.DisableTorchFunction": "without_functions",
    "torch._C.DisableTorchFunctionSubclass": "without_subclasses",
    "torch._C._group_tensors_by_device_and_dtype": "grouped",
    "torch._C._pop_torch_function_stack": "leave_mode",
    "torch._C._push_on_torch_function_stack": "enter_mode",
    "torch.Tensor._make_subclass": "make_subclass",
    "torch.autograd.backward": "autograd_backward",
    "torch.autograd.grad": "autograd_grad",
    "torch.autograd.profiler.record_function.__enter__": "enter_range",
    "torch.autograd.profiler.record_function.__exit__": "exit_range",
    "torch.get_default_device": "default_device",
    "torch._C._len_torch_function_stack": "function_modes",
    "torch._C._is_torch_function_mode_enabled": "function_mode_enabled",
    "torch._C._is_torch_function_enabled": "function_enabled",
    "torch.is_autocast_cache_enabled": "autocast_cache",
    "torch.set_anomaly_enabled": "anomaly",
    "torch.set_default_dtype": "default_dtype",
    "torch.get_rng_state": "get_rng_state",
    "torch.manual_seed": "manual_seed",
    "torch.nn.Buffer": "buffer",
    "torch.nn.Parameter": "parameter",
    "torch.random.get_rng_state": "get_rng_state",
    "torch.random.manual_seed": "manual_seed",
    "torch.random.set_rng_state": "set_rng_state",
    "torch.set_rng_state": "set_rng_state",
}
OWN_METHODS: Final[frozenset[str]] = frozenset(
    [
        "__deepcopy__",
        "as_subclass",
        "backward",
        "detach_",
        "register_hook",
        "requires_grad_",
        "resize_",
        "retain_grad",
        "set_",
    ]
)

# ---------------------------------------------------------------------------- forbidden

_VALUES: Final = "it needs the values in a tensor, which are not known while tracing"
_AUTOGRAD: Final = "it runs or changes the autograd graph of tensors outside of the captured graph"
_MEMORY: Final = "it reaches into a tensor's memory"
_STATE: Final = "it changes torch's global state in a way that a graph can't hold"
_RNG: Final = "it reads or changes the random number generator's state"
_PRINT: Final = "it prints or copies the values in a tensor"
_SUBCLASS: Final = "it makes a tensor of another type"
_TRANSFORM: Final = "function transforms are not traced"

FORBIDDEN: Final[dict[str, str]] = {
    **dict.fromkeys(
        (
            "torch.sparse_bsc_tensor",
            "torch.sparse_bsr_tensor",
            "torch.sparse_compressed_tensor",
            "torch.sparse_coo_tensor",
            "torch.sparse_csc_tensor",
            "torch.sparse_csr_tensor",
        ),
        "sparse tensors are not captured",
    ),
    "torch.func.functionalize": _TRANSFORM,
    "torch.func.linearize": _TRANSFORM,
    "torch.allclose": _VALUES,
    "torch.equal": _VALUES,
    "torch.from_numpy": "it shares memory with a numpy array",
    "torch.frombuffer": "it shares memory with a buffer",
    "torch.from_dlpack": "it shares memory with another library",
    "torch.to_dlpack": "it shares memory with another library",
    "torch.from_file": "it reads a file",
    "torch.is_nonzero": _VALUES,
    "torch.Generator": "a random number generator is not part of a graph",
    "torch.nn.parameter.UninitializedParameter": _SUBCLASS,
    "torch.compile": "it drives another compiler",
    "torch.load": "it reads files",
    "torch.save": "it writes files",
    "torch.initial_seed": _RNG,
    "torch.seed": _RNG,
    "torch.set_autocast_cache_enabled": _STATE,
    "torch.set_autocast_dtype": _STATE,
    "torch.set_autocast_enabled": _STATE,
    "torch.set_default_device": _STATE,
    "torch.set_default_tensor_type": _STATE,
    "torch.set_deterministic_debug_mode": _STATE,
    "torch.set_float32_matmul_precision": _STATE,
    "torch.set_flush_denormal": _STATE,
    "torch.set_num_interop_threads": _STATE,
    "torch.set_num_threads": _STATE,
    "torch.set_printoptions": _STATE,
    "torch.set_warn_always": _STATE,
    "torch.use_deterministic_algorithms": _STATE,
}

FORBIDDEN_METHODS: Final[dict[str, str]] = {
    **dict.fromkeys(
        [
            "__bool__",
            "__complex__",
            "__contains__",
            "__float__",
            "__index__",
            "__int__",
            "__nonzero__",
            "allclose",
            "equal",
            "is_nonzero",
            "item",
            "tolist",
        ],
        _VALUES,
    ),
    **dict.fromkeys(
        [
            "register_post_accumulate_grad_hook",
            "reinforce",
        ],
        _AUTOGRAD,
    ),
    **dict.fromkeys(
        [
            "__array__",
            "__array_wrap__",
            "__dlpack__",
            "__dlpack_device__",
            "_typed_storage",
            "const_data_ptr",
            "data_ptr",
            "is_pinned",
            "is_set_to",
            "is_shared",
            "numpy",
            "pin_memory",
            "record_stream",
            "share_memory_",
            "storage",
            "storage_type",
            "untyped_storage",
        ],
        _MEMORY,
    ),
    **dict.fromkeys(
        [
            "__dir__",
            "__format__",
            "__reduce__",
            "__reduce_ex__",
            "__repr__",
            "__setstate__",
            "__str__",
            "module_load",
        ],
        _PRINT,
    ),
    **dict.fromkeys(
        ["_make_wrapper_subclass"],
        _SUBCLASS,
    ),
    "__delitem__": "tensors have no items to delete",
    "_is_view": "what else looks into its memory",
    **dict.fromkeys(["apply_", "map_", "map2_"], "it calls Python for each element"),
}

# Methods written in Python that are evaluated: what they call is recorded.
EVALUATED_METHODS: Final[frozenset[str]] = frozenset({"__iter__", "__torch_function__"})

# ---------------------------------------------------------------------------- attributes

CONSTANT_ATTRIBUTES: Final[frozenset[str]] = frozenset(
    [
        "device",
        "dtype",
        "is_cpu",
        "is_cuda",
        "is_ipu",
        "is_maia",
        "is_meta",
        "is_mkldnn",
        "is_mps",
        "is_mtia",
        "is_nested",
        "is_quantized",
        "is_sparse",
        "is_sparse_csr",
        "is_vulkan",
        "is_xla",
        "is_xpu",
        "itemsize",
        "layout",
        "name",
        "nbytes",
        "ndim",
        "output_nr",
        "requires_grad",
        "retains_grad",
        "shape",
    ]
)
RECORDED_ATTRIBUTES: Final[frozenset[str]] = frozenset(
    {"H", "T", "data", "imag", "mH", "mT", "real"}
)
# Kept by the trace; the value names the method of `TensorState`.
OWN_ATTRIBUTES: Final[dict[str, str]] = {
    "_grad": "grad",
    "grad": "grad",
    "grad_fn": "grad_fn",
    "is_leaf": "is_leaf",
}
FORBIDDEN_ATTRIBUTES: Final[dict[str, str]] = {
    "__array_interface__": _MEMORY,
    "__cuda_array_interface__": _MEMORY,
    "_backward_hooks": _AUTOGRAD,
    "_base": "it gives the tensor that a view looks into",
    "_cdata": _MEMORY,
    "_version": "it counts changes that happen at run time",
    "grad_dtype": _AUTOGRAD,
    "volatile": _AUTOGRAD,
}

# ---------------------------------------------------------------------------- reasons

# What the texts above are in the catalogue; for others it is `NoGraphOperation`.
CAUSES: Final[dict[str, type[Break]]] = {
    _VALUES: ValueNeeded,
    _PRINT: ValueNeeded,
    _AUTOGRAD: AutogradInside,
    _MEMORY: TensorMemory,
    _STATE: TorchState,
    _RNG: RandomState,
    _SUBCLASS: TensorSubclass,
    _TRANSFORM: Transform,
    "sparse tensors are not captured": UnusualTensor,
    "it shares memory with a numpy array": TensorMemory,
    "it shares memory with a buffer": TensorMemory,
    "it shares memory with another library": TensorMemory,
    "it reads a file": InputOutput,
    "it reads files": InputOutput,
    "it writes files": InputOutput,
    "it loads files": InputOutput,
    "it reads or writes files": InputOutput,
    "data loading is not part of a graph": InputOutput,
    "it starts processes": Threads,
    "a random number generator is not part of a graph": RandomState,
    "it drives another compiler": AnotherTool,
    "it runs a compiler": AnotherTool,
    "profiling happens at run time": AnotherTool,
    FORBIDDEN_ATTRIBUTES["_base"]: TensorDetail,
    FORBIDDEN_ATTRIBUTES["_version"]: TensorDetail,
}
