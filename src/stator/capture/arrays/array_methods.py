"""What becomes of arrays whose values are in the graph: copies, other dtypes, Python's numbers.

In: a symbolic array, and a function or method that torch's numpy layer has not, or computes in
another way. Out: the result, as nodes; or a `Break`.
"""

import operator
from typing import Any

import torch

from stator._native._core import Frame
from stator.capture.arrays.array_changes import ArrayChanges, check_cast
from stator.diagnostics.catalogue import ArrayFunction
from stator.graph.recording.arrays import numpy_function


class ArrayMethods(ArrayChanges):
    """The part of `Arrays` for functions and methods with a rule of their own."""

    def counted(self, frame: Frame, array: Any) -> Any:
        """`np.count_nonzero`: an int, or a scalar of numpy's in later versions."""
        entry = self.entry(array)
        if entry is None:
            raise ArrayFunction("numpy's count_nonzero of more than an array")
        model = self.modelled(self.numpy.count_nonzero, [entry.model])
        counted = self.node(frame, torch.count_nonzero, (self.fake(entry),), {})
        if type(model) is int:
            return self.tensors.scalars.item(frame, counted)
        return self.adopt("count_nonzero", counted, model, [entry])

    def padded(self, frame: Frame, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """`np.pad` with a number."""
        entry = self.entry(args[0]) if args else None
        rest = [*args[1:], *kwargs.values()]
        if entry is None or len(args) > 3 or self.has_symbols(rest):
            raise ArrayFunction("numpy's pad of more than an array")
        model = self.modelled(self.numpy.pad, [entry.model, *args[1:]], kwargs)
        value = kwargs.get("constant_values", 0)
        mode = args[2] if len(args) > 2 else kwargs.get("mode", "constant")
        plain = mode == "constant" and type(value) in (int, float)
        if (
            not plain
            or entry.model.dtype.kind not in "fi"
            or (type(value) is float) > (entry.model.dtype.kind == "f")
        ):
            raise ArrayFunction("numpy's pad with more than a number")
        widths = args[1] if len(args) > 1 else kwargs.get("pad_width")
        pairs = self.numpy.broadcast_to(self.numpy.asarray(widths), (model.ndim, 2)).tolist()
        flat = [width for pair in reversed(pairs) for width in pair]
        made = self.node(frame, numpy_function("pad"), (self.fake(entry), flat, value), {})
        return self.adopt("pad", self._own(frame, made, model, [entry]), model, [entry])

    def number_of_kind(self, frame: Frame, kind: Any, args: list[Any]) -> Any:
        """`float(x)`, of an array or scalar with one value."""
        entry = self.entry(args[0]) if len(args) == 1 else None
        if entry is None or entry.model.ndim or kind is complex or entry.model.dtype.kind == "c":
            raise ArrayFunction(f"{kind.__name__} of an array whose values are not known")
        scalars, fake = self.tensors.scalars, self.fake(entry)
        if kind is bool:
            return scalars.tensor_truth(frame, fake)
        return scalars.to_int(frame, fake) if kind is int else scalars.to_float(frame, fake)

    def listed(self, frame: Frame, owner: Any, name: str, args: list[Any]) -> Any:
        """`item` and `tolist`: Python's own numbers."""
        entry = self.entry(owner)
        assert entry is not None
        if entry.model.dtype.kind == "c":
            raise ArrayFunction("complex numbers are read from an array")
        self.modelled(getattr(entry.model, name), args)  # which may raise
        fake = self.fake(entry)
        if name == "tolist":
            return self.tensors.scalars.tolist(frame, fake)
        if args:
            flat = self.node(frame, ("method", "reshape"), (fake, -1), {})
            fake = self.node(frame, operator.getitem, (flat, args[0]), {})
        return self.tensors.scalars.item(frame, fake)

    def astype(self, frame: Frame, owner: Any, args: list[Any], kwargs: Any) -> Any:
        if len(args) != 1 or kwargs:
            raise ArrayFunction("astype is called with more than a dtype")
        entry = self.entry(owner)
        assert entry is not None
        model = self.modelled(lambda array, dtype: array.astype(dtype), [entry.model, args[0]])
        wanted = self.torch_dtype(model.dtype)
        check_cast(entry.model.dtype, model.dtype)
        made = self.node(frame, ("method", "to"), (self.fake(entry), wanted), {"copy": True})
        return self.adopt("astype", made, model, [entry])

    def copy(self, frame: Frame, owner: Any, name: str) -> Any:
        entry = self.entry(owner)
        assert entry is not None
        form = {"memory_format": torch.contiguous_format}
        made = self.node(frame, ("method", "clone"), (self.fake(entry),), form)
        if name == "flatten":
            made = self.node(frame, ("method", "reshape"), (made, -1), {})
        return self.adopt(name, made, getattr(entry.model, name)(), [entry])
