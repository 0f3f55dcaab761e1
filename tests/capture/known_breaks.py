"""Programs of the curriculum that stator does not capture as one graph yet, and why.

They must be refused cleanly: `CaptureError` under fullgraph without a trace of the attempt, eager's
results otherwise. One that is captured now fails until its line here is removed.
`file.program: change` stands for one change of a program that is captured otherwise.
"""

from typing import Final

KNOWN_BREAKS: Final[dict[str, str]] = {
    "test_11_side_effects.function_defaults_replaced": "functions of the world are changed",
    "test_11_side_effects.class_of_an_instance_replaced": "the class of an object is replaced",
    "test_14_training.hook_registered_inside": "autograd outside of the graph",
    "test_14_training.retain_grad": "autograd outside of the graph",
    "test_15_hostile.argument_with_a_loud_key": "keys of the world with their own equality",
    "test_15_hostile.finalizer_of_a_new_object": "objects with finalizers are made",
    "test_15_hostile.finalizer_of_a_world_object": "objects with finalizers are let go",
    "test_15_hostile.object_with_a_finalizer_survives": "objects with finalizers are changed",
    "test_15_hostile.torch_function_of_a_duck": "objects with __torch_function__",
    "test_15_hostile.equality_that_mutates": "keys of the world with their own equality",
    "test_23_tensor_state.leaf_of_shared_memory_changed": "a leaf made inside shares its memory",
    "test_23_tensor_state.data_of_an_argument": "an input is changed that overlaps another",
    "test_23_tensor_state.parameter_shares_memory_with_an_argument": "a parameter shares memory",
    "test_23_tensor_state.input_resized_after_use": "an input is made larger",
    "test_23_tensor_state.shared_memory_resized": "memory is made larger",
    "test_23_tensor_state.copied_with_its_view": "deep copies of views",
}
