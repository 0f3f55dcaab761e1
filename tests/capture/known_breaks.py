"""Programs of the curriculum that stator does not capture as one graph yet, and why.

They must be refused cleanly: `CaptureError` under fullgraph without a trace of the attempt, eager's
results otherwise. One that is captured now fails until its line here is removed.
`file.program: change` stands for one change of a program that is captured otherwise.
"""

from typing import Final

KNOWN_BREAKS: Final[dict[str, str]] = {
    "test_08_tensors.overlapping_arguments": "an input is changed that overlaps another",
    "test_08_tensors.setting_attributes_on_a_result": "attributes set on tensors",
    "test_08_tensors.setting_attributes_on_an_argument": "attributes set on tensors",
    "test_09_functional.vectorized_map": "function transforms",
    "test_09_functional.functional_gradients": "function transforms",
    "test_10_modules.module_made_inside": "parameters made inside",
    "test_10_modules.parameter_added_inside": "parameters made inside",
    "test_11_side_effects.function_defaults_replaced": "functions of the world are changed",
    "test_11_side_effects.requires_grad_switched": "autograd outside of the graph",
    "test_11_side_effects.data_assigned": "data of a tensor is set",
    "test_11_side_effects.grad_assigned": "grad of a tensor is set",
    "test_11_side_effects.backward_inside": "autograd outside of the graph",
    "test_11_side_effects.iterator_advanced": "iterators of the world",
    "test_11_side_effects.class_of_an_instance_replaced": "the class of an object is replaced",
    "test_12_guards.overlapping_memory: overlap": "an input is changed that overlaps another",
    "test_13_state.detached_parts": "autograd outside of the graph",
    "test_14_training.hook_registered_inside": "autograd outside of the graph",
    "test_14_training.retain_grad": "autograd outside of the graph",
    "test_14_training.gradient_inside": "autograd outside of the graph",
    "test_14_training.requires_grad_set_inside": "autograd outside of the graph",
    "test_15_hostile.argument_with_a_loud_key": "keys of the world with their own equality",
    "test_15_hostile.finalizer_of_a_new_object": "objects with finalizers are made",
    "test_15_hostile.object_with_a_finalizer_survives": "objects with finalizers are changed",
    "test_15_hostile.torch_function_of_a_duck": "objects with __torch_function__",
    "test_15_hostile.torch_function_of_a_subclass": "tensor subclasses",
    "test_15_hostile.equality_that_mutates": "keys of the world with their own equality",
    "test_16_library.deepcopy_of_a_tensor": "deep copies of tensors",
    "test_16_library.json_and_hashes": "the encoder of json",
}
