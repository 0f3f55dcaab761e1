"""Sizes that are not known: ranges and expressions."""

from torch.fx.experimental.symbolic_shapes import ShapeEnv

from .door import needed

with needed("expressions of sizes, which a guard computes"):
    from torch.utils._sympy import functions
with needed("the larger one of two sizes"):
    from torch.utils._sympy.functions import Max
with needed("the smaller one"):
    from torch.utils._sympy.functions import Min
with needed("expressions as nodes of a graph"):
    from torch.utils._sympy.interp import sympy_interp
with needed("expressions, computed with numbers"):
    from torch.utils._sympy.reference import OptimizedPythonReferenceAnalysis as PythonAnalysis
with needed("what is known about a size"):
    from torch.utils._sympy.value_ranges import ValueRanges
with needed("what a program states about a number"):
    from torch.fx.experimental.symbolic_shapes import _advise_is_size as advise_is_size
with needed("the same"):
    from torch.fx.experimental.symbolic_shapes import _advise_is_bounded as advise_is_bounded
with needed("a number that only a run knows is a size"):
    from torch.fx.experimental.symbolic_shapes import (
        _constrain_range_for_size as constrain_range_for_size,
    )
with needed("what is known about a relation of sizes"):
    maybe_evaluate_static = ShapeEnv._maybe_evaluate_static
