"""torch's mode for fake tensors, without what it gets wrong about open floats.

In: operators on fake tensors. Out: fake results. torch computes operators on one-element constants
for real, while it traces. If a `SymFloat` is among the arguments, whose value nobody knows, it
takes it for a nan, and the result for known. Here such a result is not known.
"""

import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from stator.graph.fakes.direct import direct
from stator.graph.fakes.layouts import FORGOTTEN, laid_out, rule_of, scattered
from stator.graph.fakes.wrappers import is_wrapper_class
from stator.torchlib.fakes import FakeTensor, FakeTensorMode, disable_fake_tensor_cache
from stator.torchlib.transforms import pytree
from stator.torchlib.versions import SCATTERS_UNPLACED


def fake_mode(shape_env: Any) -> FakeTensorMode:
    """The mode of a trace, and of backends that trace its graph again.

    No subclass: higher-order operators have rules for the very class.
    """
    mode = FakeTensorMode(shape_env=shape_env)
    found = weakref.ref(mode)

    def dispatch(
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        own = found()
        assert own is not None
        for cls in types:
            if cls is not FakeTensor and is_wrapper_class(cls):
                # Its own code is asked, which comes back here.
                return FakeTensorMode.dispatch(own, func, types, args, kwargs or {})
        made: Any = direct(own, func, args, kwargs or {})
        if made is not NotImplemented:
            return made
        if _has_float(args) or (kwargs and _has_float(kwargs.values())):
            for tensor in pytree.tree_leaves((args, kwargs)):
                if isinstance(tensor, FakeTensor) and tensor.constant is not None:
                    own.fake_tensor_converter.invalidate_constant_aliases(tensor.constant)
        rule = rule_of(func)
        if func in FORGOTTEN:
            with disable_fake_tensor_cache(own):
                made = FakeTensorMode.dispatch(own, func, types, args, kwargs or {})
            return scattered(own, args[0], made) if SCATTERS_UNPLACED else made
        made = FakeTensorMode.dispatch(own, func, types, args, kwargs or {})
        return made if rule is None else laid_out(rule, own, args, kwargs or {}, made)

    mode.dispatch = dispatch  # type: ignore[method-assign]
    return mode


def _has_float(values: Iterable[Any]) -> bool:
    for value in values:
        kind = type(value)
        if kind is torch.SymFloat or (kind is list and _has_float(value)):
            return True
    return False
