"""Fake tensors, and what they raise."""

from .door import needed

with needed("a tensor without data, in which a graph is recorded"):
    from torch._subclasses.fake_tensor import FakeTensor
with needed("what runs operators on them"):
    from torch._subclasses.fake_tensor import FakeTensorMode
with needed("a value is asked for"):
    from torch._subclasses.fake_tensor import DataDependentOutputException
with needed("a size depends on a value"):
    from torch._subclasses.fake_tensor import DynamicOutputShapeException
with needed("a fake kernel is wrong"):
    from torch._subclasses.fake_tensor import MetadataMismatchError
with needed("a tensor can not be faked"):
    from torch._subclasses.fake_tensor import UnsupportedFakeTensorException
with needed("an operator that changes what it must not"):
    from torch._subclasses.fake_tensor import UnsupportedMutationAliasingException
with needed("an operator has no fake kernel"):
    from torch._subclasses.fake_tensor import UnsupportedOperatorException
with needed("fakes that are not answered from another trace's"):
    from torch._subclasses.fake_tensor import disable_fake_tensor_cache
with needed("a kernel for meta tensors, asked about a fake one"):
    from torch._subclasses.fake_tensor import in_kernel_invocation_manager
with needed("where a fake tensor says that it came from"):
    from torch._guards import Source
with needed("what kind of place that is"):
    from torch._guards import GuardSource
with needed("the fake mode that somebody else has entered"):
    from torch._guards import detect_fake_mode
with needed("what AOTAutograd traces with"):
    from torch._subclasses.functional_tensor import FunctionalTensor
