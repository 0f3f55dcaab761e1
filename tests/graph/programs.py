"""Small programs over all families of torch calls, for the differential tests."""

import operator
from typing import Any, Final

import torch
import torch.nn.functional as F  # noqa: N812  (torch's own convention)

from .harness import Program, bools, complexes, floats, ints, positive, spd

P = Program
_CL: Final = torch.channels_last
M = "method"


def _unary(name: str, target: Any, make: Any = None, exact: bool = False) -> Program:
    return P(name, [make or floats(3, 4)], lambda op, x: op(target, x), exact=exact)


POINTWISE: Final = [
    *(
        _unary(f.__name__, f)
        for f in (torch.relu, torch.sin, torch.exp, torch.tanh, torch.sigmoid, torch.abs)
    ),
    *(_unary(f"{f.__name__}_pos", f, positive(3, 4)) for f in (torch.sqrt, torch.log, torch.rsqrt)),
    *(
        _unary(f"F.{f.__name__}", f)
        for f in (F.gelu, F.silu, F.relu, F.softplus, F.mish, F.hardswish, F.leaky_relu, F.elu)
    ),
    _unary("special.erf", torch.special.erf),
    P("add", [floats(3, 4), floats(4)], lambda op, x, y: op(operator.add, x, y)),
    P("radd", [floats(3)], lambda op, x: op(operator.add, 1, x)),
    P("sub_method", [floats(3), floats(3)], lambda op, x, y: op((M, "sub"), x, y, alpha=2)),
    P("mul_int", [ints(3)], lambda op, x: op(operator.mul, x, 2.5)),
    P("div", [floats(3), floats(3)], lambda op, x, y: op(operator.truediv, x, y)),
    P("floordiv", [floats(3)], lambda op, x: op(operator.floordiv, x, 2)),
    P("mod", [ints(5, high=9)], lambda op, x: op(operator.mod, x, 4)),
    P("pow", [positive(3)], lambda op, x: op(operator.pow, x, 3)),
    P("rpow", [floats(3)], lambda op, x: op(operator.pow, 2, x), exact=False),
    P("neg", [floats(3)], lambda op, x: op(operator.neg, x)),
    P("invert", [bools(3)], lambda op, x: op(operator.invert, x)),
    P("compare", [floats(3), floats(3)], lambda op, x, y: op(operator.lt, x, y)),
    P("eq", [ints(3), ints(3)], lambda op, x, y: op(operator.eq, x, y)),
    P("and", [bools(3), bools(3)], lambda op, x, y: op(operator.and_, x, y)),
    P("shift", [ints(3)], lambda op, x: op(operator.lshift, x, 2)),
    P("clamp", [floats(5)], lambda op, x: op((M, "clamp"), x, min=-0.5, max=0.5)),
    P("lerp", [floats(3), floats(3)], lambda op, x, y: op(torch.lerp, x, y, 0.3), exact=False),
    P("addcmul", [floats(3)] * 3, lambda op, x, y, z: op(torch.addcmul, x, y, z), exact=False),
    P("where", [bools(3), floats(3), floats(3)], lambda op, c, x, y: op(torch.where, c, x, y)),
    P("maximum", [floats(3), floats(3)], lambda op, x, y: op(torch.maximum, x, y)),
    P("nan_to_num", [floats(3)], lambda op, x: op(torch.nan_to_num, x)),
    P("isnan", [floats(3)], lambda op, x: op(torch.isnan, x)),
    P("chain", [floats(3)], lambda op, x: op(torch.relu, op(torch.sin, op(operator.mul, x, 2))), 3),
]

REDUCTIONS: Final = [
    P("sum", [floats(3, 4)], lambda op, x: op((M, "sum"), x)),
    P("sum_dim", [floats(3, 4)], lambda op, x: op(torch.sum, x, dim=(0, 1), keepdim=True)),
    P("sum_dtype", [ints(3)], lambda op, x: op(torch.sum, x, dtype=torch.float64)),
    P("mean", [floats(3, 4)], lambda op, x: op((M, "mean"), x, -1), exact=False),
    P("prod", [floats(3, 4)], lambda op, x: op(torch.prod, x, 1)),
    P("std", [floats(3, 4)], lambda op, x: op((M, "std"), x, dim=1), exact=False),
    P("var_mean", [floats(3, 4)], lambda op, x: op(torch.var_mean, x, 1), exact=False, items=2),
    P("max_dim", [floats(3, 4)], lambda op, x: op((M, "max"), x, 1), items=2),
    P("max_values", [floats(3, 4)], lambda op, x: op((M, "max"), x, 1).values, items=1),
    P("amax", [floats(3, 4)], lambda op, x: op(torch.amax, x, (0, 1))),
    P("argmax", [floats(3, 4)], lambda op, x: op(torch.argmax, x, dim=0)),
    P("any", [bools(3, 4)], lambda op, x: op((M, "any"), x, 1)),
    P("all", [bools(3, 4)], lambda op, x: op(torch.all, x)),
    P("logsumexp", [floats(3, 4)], lambda op, x: op(torch.logsumexp, x, 1), exact=False),
    P("cumsum", [floats(3, 4)], lambda op, x: op((M, "cumsum"), x, 1)),
    P("norm", [floats(3, 4)], lambda op, x: op(torch.norm, x, dim=1), exact=False),
    P("median", [floats(5)], lambda op, x: op(torch.median, x)),
    P("softmax", [floats(3, 4)], lambda op, x: op(F.softmax, x, dim=-1), exact=False),
    P("log_softmax", [floats(3, 4)], lambda op, x: op(torch.log_softmax, x, 1), exact=False),
]

_I = operator.getitem
INDEXING: Final = [
    P("item_int", [floats(3, 4)], lambda op, x: op(_I, x, 1)),
    P("item_negative", [floats(3, 4)], lambda op, x: op(_I, x, -1)),
    P("item_slice", [floats(5, 4)], lambda op, x: op(_I, x, slice(1, 4, 2))),
    P("item_none", [floats(3)], lambda op, x: op(_I, x, None)),
    P("item_ellipsis", [floats(2, 3, 4)], lambda op, x: op(_I, x, (..., 0))),
    P("item_mixed", [floats(2, 3, 4)], lambda op, x: op(_I, x, (0, slice(1, None), None, ...))),
    P("item_tensor", [floats(5, 4), ints(3)], lambda op, x, i: op(_I, x, i)),
    P("item_tensors", [floats(5, 4), ints(3), ints(3)], lambda op, x, i, j: op(_I, x, (i, j))),
    P("item_slice_tensor", [floats(4, 5), ints(3)], lambda op, x, i: op(_I, x, (slice(None), i))),
    P("item_list", [floats(5, 4)], lambda op, x: op(_I, x, [0, 2])),
    P("item_bool", [floats(5)], lambda op, x: op(_I, x, True)),
    P("set_int", [floats(3, 4)], lambda op, x: op(operator.setitem, x, 0, 1.0)),
    P(
        "set_slice",
        [floats(5), floats(2)],
        lambda op, x, y: op(operator.setitem, x, slice(0, 2), y),
    ),
    P("set_mask", [floats(5), bools(5)], lambda op, x, m: op(operator.setitem, x, m, 0)),
    P("set_tensor", [floats(5), ints(2)], lambda op, x, i: op(operator.setitem, x, i, 9.0)),
    P("set_ellipsis", [floats(2, 3)], lambda op, x: op(operator.setitem, x, (..., 0), 5)),
    P("set_none", [floats(3)], lambda op, x: op(operator.setitem, x, (None, 1), 5)),
    P(
        "set_then_read",
        [floats(3, 4)],
        lambda op, x: (op(operator.setitem, x, 0, 1.0), op((M, "sum"), x))[1],
        2,
        exact=False,
    ),
    P("gather", [floats(3, 4), ints(3, 2)], lambda op, x, i: op(torch.gather, x, 1, i)),
    P("scatter", [floats(3, 4), ints(3, 2)], lambda op, x, i: op((M, "scatter"), x, 1, i, 0.5)),
    P(
        "scatter_add_",
        [floats(3, 4), ints(3, 2), floats(3, 2)],
        lambda op, x, i, s: op((M, "scatter_add_"), x, 1, i, s),
    ),
    P("index_select", [floats(4, 3), ints(2)], lambda op, x, i: op(torch.index_select, x, 0, i)),
    P("take_along", [floats(3, 4), ints(3, 4)], lambda op, x, i: op(torch.take_along_dim, x, i, 1)),
    P("masked_fill", [floats(4), bools(4)], lambda op, x, m: op((M, "masked_fill"), x, m, -1e9)),
    P("index_put_", [floats(4), ints(2)], lambda op, x, i: op((M, "index_fill_"), x, 0, i, 3.0)),
    P("select", [floats(3, 4)], lambda op, x: op(torch.select, x, 1, 2)),
    P("narrow", [floats(5, 4)], lambda op, x: op(torch.narrow, x, 0, 1, 3)),
]

VIEWS: Final = [
    P("view", [floats(3, 4)], lambda op, x: op((M, "view"), x, 2, -1)),
    P("reshape", [floats(3, 4)], lambda op, x: op(torch.reshape, x, (4, 3))),
    P("transpose", [floats(3, 4)], lambda op, x: op((M, "transpose"), x, 0, 1)),
    P("permute", [floats(2, 3, 4)], lambda op, x: op((M, "permute"), x, 2, 0, 1)),
    P("T", [floats(3, 4)], lambda op, x: op(getattr, x, "T")),
    P("mT", [floats(2, 3, 4)], lambda op, x: op(getattr, x, "mT")),
    P("unsqueeze", [floats(3)], lambda op, x: op((M, "unsqueeze"), x, 1)),
    P("squeeze", [floats(3, 1)], lambda op, x: op(torch.squeeze, x)),
    P("expand", [floats(3, 1)], lambda op, x: op((M, "expand"), x, -1, 4)),
    P("flatten", [floats(2, 3, 4)], lambda op, x: op(torch.flatten, x, 1)),
    P("unflatten", [floats(6, 2)], lambda op, x: op((M, "unflatten"), x, 0, (2, 3))),
    P("contiguous", [floats(3, 4)], lambda op, x: op((M, "contiguous"), op(getattr, x, "T")), 2),
    P("unfold", [floats(6)], lambda op, x: op((M, "unfold"), x, 0, 3, 1)),
    P("as_strided", [floats(6)], lambda op, x: op(torch.as_strided, x, (2, 2), (1, 2))),
    P("diagonal", [floats(3, 3)], lambda op, x: op(torch.diagonal, x)),
    P("movedim", [floats(2, 3, 4)], lambda op, x: op(torch.movedim, x, 0, -1)),
    P("roll", [floats(4)], lambda op, x: op(torch.roll, x, 1)),
    P("flip", [floats(4)], lambda op, x: op(torch.flip, x, (0,))),
    P("tril", [floats(4, 4)], lambda op, x: op(torch.tril, x)),
    P("repeat", [floats(2)], lambda op, x: op((M, "repeat"), x, 2, 3)),
    P("view_dtype", [floats(4)], lambda op, x: op((M, "view"), x, torch.int32)),
    P("detach", [floats(4)], lambda op, x: op((M, "detach"), x)),
    P("data", [floats(4)], lambda op, x: op(torch.relu, op(getattr, x, "data")), 2),
]

IN_PLACE: Final = [
    P("add_", [floats(3)], lambda op, x: op((M, "add_"), x, 1)),
    P("iadd", [floats(3), floats(3)], lambda op, x, y: op(operator.iadd, x, y)),
    P("imul", [floats(3)], lambda op, x: (op(operator.imul, x, 2), None)[1], exact=False),
    P("copy_", [floats(3), floats(3)], lambda op, x, y: op((M, "copy_"), x, y)),
    P("zero_", [floats(3)], lambda op, x: op((M, "zero_"), x)),
    P("relu_inplace", [floats(3)], lambda op, x: op(F.relu, x, inplace=True)),
    P("out", [floats(3), floats(3)], lambda op, x, y: op(torch.add, x, 1, out=y)),
    P(
        "view_write",
        [floats(3, 4)],
        lambda op, x: (op((M, "mul_"), op(_I, x, 0), 2), x)[1],
        2,
    ),
    P("unused", [floats(3)], lambda op, x: (op((M, "sub_"), x, 1), op(torch.sin, x))[1], 2),
]

MATRICES: Final = [
    P("matmul", [floats(3, 4), floats(4, 2)], lambda op, x, y: op(operator.matmul, x, y)),
    P("bmm", [floats(2, 3, 4), floats(2, 4, 2)], lambda op, x, y: op(torch.bmm, x, y)),
    P("addmm", [floats(2)] + [floats(2, 2)] * 2, lambda op, b, x, y: op(torch.addmm, b, x, y)),
    P("einsum", [floats(2, 3), floats(3, 4)], lambda op, x, y: op(torch.einsum, "ij,jk->ik", x, y)),
    P("tensordot", [floats(2, 3), floats(3, 4)], lambda op, x, y: op(torch.tensordot, x, y, 1)),
    P("outer", [floats(3), floats(2)], lambda op, x, y: op(torch.outer, x, y)),
    P("linear", [floats(2, 3), floats(4, 3), floats(4)], lambda op, *a: op(F.linear, *a)),
    P("inv", [spd(3)], lambda op, x: op(torch.linalg.inv, x), exact=False),
    P("solve", [spd(3), floats(3)], lambda op, x, y: op(torch.linalg.solve, x, y), exact=False),
    P("cholesky", [spd(3)], lambda op, x: op(torch.linalg.cholesky, x), exact=False),
    P("qr", [spd(3)], lambda op, x: op(torch.linalg.qr, x), exact=False, items=2),
    P("eigh", [spd(3)], lambda op, x: op(torch.linalg.eigvalsh, x), exact=False),
    P("svd", [spd(3)], lambda op, x: op(torch.linalg.svdvals, x), exact=False),
    P("det", [spd(3)], lambda op, x: op(torch.det, x), exact=False),
    P("vector_norm", [floats(4)], lambda op, x: op(torch.linalg.vector_norm, x), exact=False),
]

LAYERS: Final = [
    P("conv1d", [floats(1, 2, 8), floats(3, 2, 3)], lambda op, x, w: op(F.conv1d, x, w)),
    P(
        "conv2d",
        [floats(1, 2, 5, 5), floats(3, 2, 3, 3), floats(3)],
        lambda op, x, w, b: op(F.conv2d, x, w, b, padding=1, stride=2),
    ),
    P(
        "conv_transpose2d",
        [floats(1, 2, 4, 4), floats(2, 3, 2, 2)],
        lambda op, x, w: op(F.conv_transpose2d, x, w),
    ),
    P("max_pool2d", [floats(1, 2, 4, 4)], lambda op, x: op(F.max_pool2d, x, 2)),
    P("avg_pool2d", [floats(1, 2, 4, 4)], lambda op, x: op(F.avg_pool2d, x, 2)),
    P("adaptive", [floats(1, 2, 4, 4)], lambda op, x: op(F.adaptive_avg_pool2d, x, 1), exact=False),
    P(
        "layer_norm",
        [floats(2, 4), floats(4), floats(4)],
        lambda op, x, w, b: op(F.layer_norm, x, (4,), w, b),
        exact=False,
    ),
    P("group_norm", [floats(2, 4, 3)], lambda op, x: op(F.group_norm, x, 2), exact=False),
    P(
        "batch_norm",
        [floats(4, 3), floats(3), positive(3)],
        lambda op, x, m, v: op(F.batch_norm, x, m, v),
        exact=False,
    ),
    P(
        "batch_norm_training",
        [floats(4, 3), floats(3), positive(3)],
        lambda op, x, m, v: op(F.batch_norm, x, m, v, training=True),
        exact=False,
    ),
    P(
        "attention",
        [floats(1, 2, 4, 8)] * 3,
        lambda op, q, k, v: op(F.scaled_dot_product_attention, q, k, v, is_causal=True),
        exact=False,
    ),
    P("embedding", [ints(2, 3), floats(5, 4)], lambda op, i, w: op(F.embedding, i, w)),
    P("dropout_eval", [floats(3)], lambda op, x: op(F.dropout, x, 0.5, training=False)),
    P("one_hot", [ints(4)], lambda op, i: op(F.one_hot, i, 5)),
    P("pad", [floats(2, 3)], lambda op, x: op(F.pad, x, (1, 2))),
    P("interpolate", [floats(1, 1, 3, 3)], lambda op, x: op(F.interpolate, x, scale_factor=2)),
    P(
        "cross_entropy",
        [floats(4, 3), ints(4)],
        lambda op, *a: op(F.cross_entropy, *a),
        exact=False,
    ),
    P("mse_loss", [floats(4), floats(4)], lambda op, x, y: op(F.mse_loss, x, y), exact=False),
    P("normalize", [floats(3, 4)], lambda op, x: op(F.normalize, x, dim=1), exact=False),
    P("cosine", [floats(3), floats(3)], lambda op, *a: op(F.cosine_similarity, *a, 0), exact=False),
    P("glu", [floats(4)], lambda op, x: op(F.glu, x), exact=False),
]

JOINING: Final = [
    P("cat", [floats(2, 3), floats(1, 3)], lambda op, x, y: op(torch.cat, [x, y])),
    P("stack", [floats(3), floats(3)], lambda op, x, y: op(torch.stack, (x, y), dim=1)),
    P("split", [floats(5, 2)], lambda op, x: op(torch.split, x, 2), items=3),
    P("split_method", [floats(5)], lambda op, x: op((M, "split"), x, [2, 3]), items=2),
    P("chunk", [floats(4)], lambda op, x: op((M, "chunk"), x, 2), items=2),
    P("chunk_first", [floats(4)], lambda op, x: op((M, "chunk"), x, 2)[0], items=1),
    P("unbind", [floats(2, 3)], lambda op, x: op(torch.unbind, x), items=2),
    P(
        "meshgrid",
        [floats(2), floats(3)],
        lambda op, *a: op(torch.meshgrid, *a, indexing="ij"),
        items=2,
    ),
    P(
        "broadcast",
        [floats(2, 1), floats(3)],
        lambda op, *a: op(torch.broadcast_tensors, *a),
        items=2,
    ),
    P("sort", [floats(5)], lambda op, x: op(torch.sort, x, descending=True), items=2),
    P("argsort", [floats(5)], lambda op, x: op((M, "argsort"), x)),
    P("topk", [floats(5)], lambda op, x: op((M, "topk"), x, 2), items=2),
    P("searchsorted", [positive(3), floats(2)], lambda op, x, y: op(torch.searchsorted, x, y)),
    P("bucketize", [floats(3)], lambda op, x: op(torch.bucketize, x, x)),
    P("histc", [floats(5)], lambda op, x: op(torch.histc, x, 4)),
]

CREATION: Final = [
    P("zeros", [floats(3, 4)], lambda op, x: op(torch.zeros, x.shape[0], x.shape[1])),
    P("ones_size", [floats(3, 4)], lambda op, x: op(torch.ones, x.size())),
    P("full", [floats(3)], lambda op, x: op(torch.full, (x.shape[0], 2), 1.5)),
    P("arange", [floats(5)], lambda op, x: op(torch.arange, x.shape[0], device=x.device)),
    P("arange_float", [floats(2)], lambda op, x: op(torch.arange, 0, 1, 0.25)),
    P("linspace", [floats(2)], lambda op, x: op(torch.linspace, 0, 1, 5), exact=False),
    P("eye", [floats(3)], lambda op, x: op(torch.eye, x.shape[0])),
    P("zeros_like", [floats(3)], lambda op, x: op(torch.zeros_like, x, dtype=torch.int64)),
    P("new_zeros", [floats(3)], lambda op, x: op((M, "new_zeros"), x, (2, 2))),
    P("tensor", [floats(3)], lambda op, x: op(torch.tensor, [1.0, 2.0, 3.0])),
    P("tensor_add", [floats(2)], lambda op, x: op(operator.add, x, op(torch.tensor, [1, 2])), 2),
    P("rand", [floats(3)], lambda op, x: op(torch.rand, x.shape)),
    P("randn_like", [floats(3)], lambda op, x: op(torch.randn_like, x)),
    P("randint", [floats(3)], lambda op, x: op(torch.randint, 0, 9, (4,))),
    P("bernoulli", [positive(3)], lambda op, x: op(torch.bernoulli, op(torch.sigmoid, x)), 2),
    P(
        "rand_unused",
        [floats(3)],
        lambda op, x: (op(torch.rand, 3), op(torch.sin, x))[1],
        2,
        rng=False,
    ),
    P("window", [floats(3)], lambda op, x: op(torch.hann_window, 6), exact=False),
    P("tril_indices", [floats(3)], lambda op, x: op(torch.tril_indices, 3, 3)),
]

CONVERSIONS: Final = [
    P("to_dtype", [floats(3)], lambda op, x: op((M, "to"), x, torch.float64)),
    P("to_device", [floats(3)], lambda op, x: op((M, "to"), x, "cpu", torch.float16)),
    P("half", [floats(3)], lambda op, x: op((M, "half"), x)),
    P("long", [floats(3)], lambda op, x: op((M, "long"), x)),
    P("bool", [ints(3)], lambda op, x: op((M, "bool"), x)),
    P("type_as", [floats(3), ints(3)], lambda op, x, y: op((M, "type_as"), x, y)),
    P("clone", [floats(3)], lambda op, x: op((M, "clone"), x)),
    P("channels_last", [floats(1, 2, 3, 3)], lambda op, x: op((M, "to"), x, memory_format=_CL)),
    P("promote", [ints(3), floats(3, dtype=torch.float64)], lambda op, x, y: op(torch.add, x, y)),
    P("complex", [floats(3), floats(3)], lambda op, x, y: op(torch.complex, x, y)),
    P("real", [complexes(3)], lambda op, x: op(getattr, x, "real")),
    P("imag", [complexes(3)], lambda op, x: op(getattr, x, "imag")),
    P("conj", [complexes(3)], lambda op, x: op(operator.mul, op(torch.conj, x), 2), 2),
    P("abs_complex", [complexes(3)], lambda op, x: op(torch.abs, x), exact=False),
    P("view_as_real", [complexes(3)], lambda op, x: op(torch.view_as_real, x)),
    P("polar", [positive(3), floats(3)], lambda op, r, t: op(torch.polar, r, t), exact=False),
    P("fft", [floats(8)], lambda op, x: op(torch.fft.fft, x), exact=False),
    P(
        "rfft",
        [floats(8)],
        lambda op, x: op(torch.fft.irfft, op(torch.fft.rfft, x)),
        2,
        exact=False,
    ),
    P("fft2", [complexes(4, 4)], lambda op, x: op(torch.fft.fft2, x), exact=False),
]

FAMILIES: Final = {
    "pointwise": POINTWISE,
    "reductions": REDUCTIONS,
    "indexing": INDEXING,
    "views": VIEWS,
    "in_place": IN_PLACE,
    "matrices": MATRICES,
    "layers": LAYERS,
    "joining": JOINING,
    "creation": CREATION,
    "conversions": CONVERSIONS,
}
