# mypy: ignore-errors
"""The families of torch.nn.functional and torch's own functions, one program each."""

import pytest
import torch
import torch.nn.functional as F

from tests.versions import TORCH

from .harness import Program, Programs, check, ints, t

programs = Programs()


ACTIVATIONS = (
    *("relu", "relu6", "elu", "selu", "celu", "gelu", "silu", "mish", "softplus", "softsign"),
    *(
        "hardtanh",
        "hardswish",
        "hardsigmoid",
        "leaky_relu",
        "logsigmoid",
        "tanhshrink",
        "softshrink",
    ),
)


@programs(lambda: (t(3, 4, grad=True),))
def all_activations(x):
    return [getattr(F, name)(x) for name in ACTIVATIONS]


@programs(lambda: (t(3, 4),))
def activations_in_place(x):
    F.relu(x, inplace=True)
    return F.leaky_relu(x - 1, 0.1), F.threshold(x, 0.1, 20), F.glu(x), F.normalize(x)


@programs(lambda: (t(3, 4, grad=True),))
def softmaxes(x):
    return (
        F.softmax(x, -1),
        F.log_softmax(x, dim=0),
        F.softmin(x, 1),
        F.softmax(x, 0, dtype=torch.float64),
    )


@programs(lambda: (t(2, 3, grad=True), t(4, 3, grad=True), t(4)), ops=["linear"])
def linear(x, w, b):
    return F.linear(x, w, b)


@programs(lambda: (t(2, 3), t(5, 3, 4), t(2, 4), t(5)))
def bilinear(x, w, y, b):
    return F.bilinear(x, y, w, b)


@programs(lambda: (t(1, 2, 9), t(4, 2, 3, grad=True)))
def convolutions_1d(x, w):
    return F.conv1d(x, w), F.conv1d(x, w, stride=2, padding="valid"), F.conv1d(x, w, dilation=2)


@programs(lambda: (t(1, 2, 6, 6), t(4, 2, 3, 3, grad=True), t(4)))
def convolutions_2d(x, w, b):
    return (
        F.conv2d(x, w, b, padding=1),
        F.conv2d(x, w, padding="same"),
        F.conv_transpose2d(x, w[:2]),
    )


@programs(lambda: (t(1, 2, 4, 4, 4), t(3, 2, 2, 2, 2)))
def convolution_3d(x, w):
    return F.conv3d(x, w, stride=2)


@programs(lambda: (t(1, 2, 8, 8, grad=True),))
def pooling(x):
    return (
        F.max_pool2d(x, 2),
        F.avg_pool2d(x, 3, stride=1, padding=1),
        F.adaptive_avg_pool2d(x, (2, 3)),
        F.adaptive_max_pool2d(x, 2),
        F.max_pool2d(x, 2, return_indices=True)[1],
        F.lp_pool2d(x, 2, 2),
    )


@programs(lambda: (t(4, 6, grad=True), t(6, grad=True)))
def normalizations(x, w):
    return (
        F.layer_norm(x, (6,), w),
        F.group_norm(x[..., None], 3),
        F.rms_norm(x, (6,), w),
        F.local_response_norm(x[None], 2),
        F.instance_norm(x[None]),
    )


@programs(lambda: (t(4, 3), torch.zeros(3), torch.ones(3)))
def batch_norm_updates_statistics(x, mean, var):
    return F.batch_norm(x, mean, var, training=True, momentum=0.2)


@programs(lambda: (t(4, 3), torch.zeros(3), torch.ones(3)))
def batch_norm_in_evaluation(x, mean, var):
    return F.batch_norm(x, mean, var)


@programs(lambda: (t(8, 5, grad=True), ints(8, high=5)))
def classification_losses(x, y):
    return (
        F.cross_entropy(x, y),
        F.cross_entropy(x, y, reduction="sum", ignore_index=2),
        F.nll_loss(F.log_softmax(x, 1), y),
        F.multi_margin_loss(x, y),
    )


@programs(lambda: (t(8, grad=True), t(8)))
def regression_losses(x, y):
    return (
        F.mse_loss(x, y),
        F.l1_loss(x, y, reduction="none"),
        F.smooth_l1_loss(x, y),
        F.huber_loss(x, y, delta=0.5),
        F.binary_cross_entropy_with_logits(x, y.sigmoid()),
        F.kl_div(x.log_softmax(0), y.softmax(0), reduction="batchmean"),
        F.poisson_nll_loss(x, y.abs()),
    )


@programs(lambda: (t(4, 3, grad=True), t(4, 3), t(4, 3)))
def embedding_losses(a, b, c):
    return (
        F.triplet_margin_loss(a, b, c),
        F.cosine_similarity(a, b),
        F.pairwise_distance(a, b),
        F.cosine_embedding_loss(a, b, torch.ones(4)),
    )


@programs(lambda: (ints(2, 3), t(10, 4, grad=True)))
def embeddings(index, w):
    return F.embedding(index, w), F.embedding(index, w, padding_idx=0), F.one_hot(index, 10)


@programs(lambda: (t(50),))
def dropouts(x):
    return F.dropout(x, 0.3), F.dropout(x, 0.3, training=False), F.alpha_dropout(x, 0.2, True)


@programs(lambda: (t(1, 2, 4, 4),))
def feature_dropout(x):
    return F.dropout2d(x, 0.5), F.feature_alpha_dropout(x, 0.5, training=True)


@programs(lambda: (t(1, 1, 3, 3),))
def padding(x):
    return (
        F.pad(x, (1, 1)),
        F.pad(x, (1, 0, 0, 1), value=2.0),
        F.pad(x, (1, 1, 1, 1), mode="reflect"),
        F.pad(x, (1, 1, 1, 1), mode="replicate"),
    )


@programs(lambda: (t(1, 2, 4, 4),))
def resampling(x):
    return (
        F.interpolate(x, scale_factor=2),
        F.interpolate(x, size=(3, 5), mode="bilinear", align_corners=False),
        F.pixel_shuffle(x.reshape(1, 8, 2, 2), 2),
        F.pixel_unshuffle(x, 2),
    )


@programs(lambda: (t(1, 1, 4, 4), t(1, 2, 3)))
def spatial_transformer(x, theta):
    grid = F.affine_grid(theta, [1, 1, 4, 4], align_corners=False)
    return F.grid_sample(x, grid, align_corners=False)


@programs(lambda: (t(1, 2, 4, 4),))
def fold_and_unfold(x):
    columns = F.unfold(x, 2, stride=2)
    return columns, F.fold(columns, (4, 4), 2, stride=2)


@programs(lambda: (t(2, 2, 3, 4, grad=True),), ops=["scaled_dot_product_attention"])
def attention(q):
    return F.scaled_dot_product_attention(q, q, q)


@programs(lambda: (t(2, 2, 3, 4), t(2, 2, 3, 4)))
def attention_with_masks(q, k):
    mask = torch.ones(3, 3, dtype=torch.bool).tril()
    causal = F.scaled_dot_product_attention(q, k, k, is_causal=True)
    return causal, F.scaled_dot_product_attention(q, k, k, attn_mask=mask, scale=0.5)


@programs(lambda: (t(4, 5),))
def gumbel_and_random_choices(x):
    return F.gumbel_softmax(x), torch.multinomial(x.softmax(-1), 2), torch.bernoulli(x.sigmoid())


@programs(lambda: (t(3, 4),))
def elementwise_functions(x):
    p = x.abs() + 0.1
    return [f(p) for f in (torch.log, torch.sqrt, torch.rsqrt, torch.exp, torch.erf, torch.lgamma)]


@programs(lambda: (t(3, 4), t(3, 4)))
def binary_functions(x, y):
    return [
        f(x, y)
        for f in (torch.maximum, torch.atan2, torch.hypot, torch.fmod, torch.copysign, torch.dist)
    ]


@programs(lambda: (t(3, 4), t(3, 4), t(3, 4)))
def ternary_functions(x, y, z):
    return (
        torch.addcmul(x, y, z),
        torch.lerp(x, y, 0.3),
        torch.where(x > 0, y, z),
        torch.addcdiv(x, y, z.exp()),
    )


@programs(lambda: (t(3, 4), t(4, 5), t(5), t(2, 3, 4), t(2, 4, 5)))
def products(a, b, v, c, d):
    return (
        torch.addmm(torch.zeros(3, 5), a, b),
        b @ v,
        torch.baddbmm(torch.zeros(2, 3, 5), c, d),
        torch.tensordot(a, b, 1),
        torch.kron(v, v),
    )


@programs(lambda: (t(3, 4),))
def reductions_over_dims(x):
    return (
        torch.logsumexp(x, 1),
        torch.var_mean(x, dim=0),
        torch.aminmax(x),
        torch.cumprod(x, 0),
    )


def quantiles(x):
    return torch.quantile(x, 0.5), torch.quantile(x, 0.25, dim=1)


if TORCH >= (2, 13):  # torch 2.11 reads the values of what it makes of the number
    programs(lambda: (t(3, 4),))(quantiles)


@programs(lambda: (t(6),))
def searching(x):
    s, _ = torch.sort(x)
    return torch.searchsorted(s, x), torch.bucketize(x, s), torch.isin(x, s), torch.histc(x, 4)


@programs(lambda: (t(8),))
def spectral(x):
    return (
        torch.fft.fft(x),
        torch.fft.irfft(torch.fft.rfft(x)),
        torch.fft.fftshift(x),
        torch.hann_window(4),
    )


@programs(lambda: (t(3, 4), t(3, 4)))
def meshes_and_products(x, y):
    return (
        torch.meshgrid(x[0], y[0], indexing="ij"),
        torch.cartesian_prod(x[0], y[0]),
        torch.cdist(x, y),
    )


@programs(lambda: (t(4, 4),))
def linear_algebra(x):
    return (
        torch.linalg.norm(x),
        torch.linalg.matrix_power(x, 3),
        torch.linalg.cross(x[:3], x[1:], dim=0),
        torch.linalg.diagonal(x),
    )


@programs(lambda: (t(4, 3), ints(4, high=3), t(4, 3)))
def scatters(x, index, src):
    return (
        torch.zeros(3, 3).index_add(0, index, src),
        x.scatter_reduce(0, index[:, None], src, "amax"),
        x.index_fill(0, index, 1),
    )


@programs(lambda: (t(3, 4, grad=True),))
def custom_operator_namespace(x):
    return torch.ops.aten.relu(x), torch.ops.aten.sum.dim_IntList(x, [0])


@programs(lambda: (t(4, 3),))
def vectorized_map(x):
    return torch.vmap(lambda row: row * row.sum())(x)


@programs(lambda: (t(3),))
def functional_gradients(x):
    return torch.func.grad(lambda y: (y**3).sum())(x), torch.func.jvp(torch.sin, (x,), (x,))


@programs(lambda: ([t(3), t(3)],))
def foreach_functions(xs):
    return torch._foreach_add(xs, 1), torch._foreach_mul(xs, xs)


@pytest.mark.parametrize("program", programs, ids=str)
def test_program(program: Program) -> None:
    check(program)
