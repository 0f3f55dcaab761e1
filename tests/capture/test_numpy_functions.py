# mypy: ignore-errors
"""numpy's functions, methods and operators on arrays of tensors, next to numpy itself.

Each is compiled once and called with other values, nan and infinities among them: values, dtype,
shape, strides and errors are numpy's. `CAPTURED` must be one graph; `BROKEN` has some that torch's
numpy layer has, but computes in another way.
"""

import linecache
import warnings

import numpy as np
import pytest
import torch

import stator

CAPTURED = [
    *("np.arccosh(np.abs(a) + 1)", "np.arcsinh(a)", "np.arctanh(a)", "np.copysign(a, b)"),
    *("np.fabs(a)", "np.float_power(i, 2)", "np.isneginf(a)", "np.isposinf(a)", "np.isreal(a)"),
    *("np.logaddexp2(a, b)", "np.nextafter(a, b)", "np.reciprocal(a)", "np.positive(a)"),
    *("np.conjugate(a)", "+a", "abs(a)", "abs(i)", "np.degrees(a)", "np.radians(a)"),
    *("np.append(a, b)", "np.append(a, b, axis=0)", "np.array_split(v, 2)", "np.atleast_1d(a)"),
    *("np.atleast_2d(v)", "np.atleast_3d(a)", "np.average(a, axis=0)", "np.column_stack((v, w))"),
    *("np.convolve(v, w)", "np.correlate(v, w)", "np.cross(v, w)", "np.diag(v)"),
    *("np.diagflat(v)", "np.diff(a)", "np.diff(v, n=2)", "np.dstack((a, b))", "np.hsplit(v, 3)"),
    *("np.einsum('ij,kj->ik',a,b)", "np.einsum('ii',s)", "np.full_like(a, 2.0)"),
    *("np.gradient(v)", "np.isclose(a, b)", "np.kron(a, b)", "np.meshgrid(v, w)"),
    *("np.nan_to_num(a)", "np.ones_like(a)", "np.zeros_like(i)", "np.ptp(a)", "np.round(a, 1)"),
    *("np.around(s, decimals=2)", "np.searchsorted(np.sort(v), w)", "np.sinc(s)"),
    *("np.split(v, 3)", "np.tensordot(s, s)", "np.vdot(v, w)"),
    *("np.linalg.cholesky(p)", "np.linalg.det(p)", "np.linalg.inv(p)"),
    *("np.linalg.matrix_power(s, 3)", "np.linalg.multi_dot([s, s, s])", "np.linalg.norm(s)"),
    *("np.linalg.norm(v, 1)", "np.linalg.norm(a, axis=1)", "np.linalg.solve(p, v)"),
    *("np.linalg.eigvalsh(p)", "np.shape(a)", "np.size(a)", "np.ndim(a)", "np.iscomplexobj(a)"),
    *("np.result_type(a, i)", "np.add.reduce(s)", "np.maximum.reduce(a)"),
    *("np.multiply.reduce(s, axis=1)", "np.add.accumulate(w)", "a[[0, 1]]"),
    *("a[np.array([1, 0])]", "v[i]", "s[i, i]", "a.flatten()", "a.round(1)", "a.tolist()"),
    *("a.item(0)", "v.item(-1)", "i.tolist()", "float(v[0])", "float(s.sum())", "int(i[0])"),
    *("int(i.sum())", "s.mean().item()", "np.array(a)", "np.array(a, dtype=np.float64)"),
    *("np.array(a.T)", "np.asarray(a)", "np.asarray(i, dtype=np.float32)"),
    *("np.ascontiguousarray(a.T)", "np.copy(a.T)", "np.asarray(t)", "np.asarray(t, dtype='d')"),
    *(
        "np.median(s)",
        "np.percentile(s, 30)",
        "np.median(v)",
        "np.quantile(v, 0.4)",
    ),
    *("np.linalg.cond(p)", "i % 3", "u % 5"),
    *("np.remainder(i, 2)", "np.empty_like(a) * 0", "np.fft.fft(v)", "np.fft.ifft(v)"),
    *("np.fft.rfft(v)", "np.fft.irfft(np.fft.rfft(v))", "np.fft.fft2(s)", "np.fft.ifft2(s)"),
    *("np.fft.fftn(s)", "np.fft.ifftn(s)", "np.fft.rfft2(s)", "np.fft.rfftn(s)", "np.fft.hfft(v)"),
    *("np.fft.irfftn(np.fft.rfftn(s))", "np.fft.irfft2(np.fft.rfft2(s))", "np.fft.ihfft(v)"),
    *("np.fft.fftshift(v)", "np.fft.ifftshift(np.fft.fft(v))", "np.fft.fft(s, axis=0)"),
    *("np.fft.fft(v, n=5)", "np.fft.fft(v, norm='ortho')", "np.abs(np.fft.fft(v))"),
    *("np.fft.fft(v).real", "np.fft.fft(v).imag", "np.angle(np.fft.fft(v) + 2)"),
    *("np.conj(np.fft.fft(v))", "np.fft.ifft(np.fft.fft(v) * np.fft.fft(w)).real", "np.real(v)"),
    *("np.fft.fftshift(s, axes=1)", "np.fft.fft(v)[1:] + 1j", "np.fft.fft(v).sum()"),
    "np.stack((np.fft.fft(v), np.fft.fft(w)))",
    *("np.pad(v, 1)", "np.pad(s, (1, 2))", "np.pad(s, ((1, 2), (0, 3)), constant_values=2.5)"),
    *("np.pad(i, 2, mode='constant')", "np.sign(a)", "np.sign(i)", "np.remainder(a, b)", "a % b"),
    *(
        "v % 2",
        "v % w",
        "v % -1.5",
        "2 % v",
        "s % v",
        "1.0 / (a % b)",
        "np.fix(a)",
        "np.fft.fft(i)",
    ),
    *("np.fft.rfft(i)", "np.count_nonzero(a)", "np.count_nonzero(a > 0) + 1", "1.0 / np.sign(a)"),
    *("round(float(w[1]), 2)", "torch.from_numpy(np.ascontiguousarray(a.T)) * 2"),
]
BROKEN = [
    *(
        "np.cov(s)",
        "np.corrcoef(s)",
        "np.diag(s)",
        "np.fft.fft(v) ** 2",
        "np.fft.fft(v) / w",
        "np.sort(np.fft.fft(v))",
        "np.fft.fft(v).astype(np.float32)",
        "np.fft.fft(v).tolist()",
        "complex(np.fft.fft(v)[0])",
        "np.fft.fft(h)",
        "np.fft.fft(m)",
        "np.linalg.pinv(s)",
        "np.fliplr(a)",
        "np.rot90(a)",
        "i % 0",
        "i % i",
        "u % u",
        "np.pad(v, 1, mode='edge')",
        "np.pad(v, -1)",
        "np.pad(i, 1, constant_values=2.5)",
        "np.pad(m, 1)",
        "np.pad(h, 1)",
        "np.sign(h)",
        "np.sign(m)",
        "h % 2",
        "np.fix(i)",
        "np.count_nonzero(a, axis=0)",
        "i % -3",
        "-5 % i",
    ),
    *(
        "np.quantile(s, [0.2, 0.5], axis=0)",
        "np.rollaxis(a, 1)",
        "np.asfortranarray(a)",
        "a[:, [0, 2]]",
        "s[:, i]",
    ),
    *(
        "np.heaviside(a, 0.5)",
        "np.cbrt(a)",
    ),
    *("np.divmod(a, b)", "np.where(a > 0)", "np.unique(i)", "np.argsort(a)", "np.nonzero(a)"),
    *("np.linalg.svd(s)", "np.linalg.qr(s)", "np.linalg.eigh(p)", "a[a > 0]"),
    *(
        "a[::-1]",
        "np.flip(a)",
        "a.any()",
        "(a == b).all()",
        "v[0] < v[1]",
        "np.array(t)",
        "np.sin(t)",
    ),
    *(
        "str(v[0])",
        "f'{v[1]:.2f}'",
        "sum(v)",
        "max(w)",
        "sorted(w)",
        "list(v)",
        "np.add(a, 1, out=a)",
    ),
    *(
        "i.astype(np.uint8)",
        "a.astype(np.int32)",
        "a.clip(-1, 1)",
        "u.clip(-1, 1)",
        "u - 1",
        "1 - m",
    ),
    *(
        "np.ceil(m)",
        "np.convolve(m, m)",
        "h.cumsum()",
        "h.std()",
        "h.prod()",
        "h @ h",
        "h + 1",
        "-m",
    ),
    *("np.clip(u, 1, 300)", "np.linalg.norm(h)", "m + 1", "m & True", "~m", "m.sum()", "u ** 2"),
]
IN_PLACE = [
    *(
        "a += 1",
        "a *= b",
        "i //= 2",
        "a[0] = 1",
        "a[a > 0] = 0",
        "a.sort()",
        "a.fill(3)",
        "v[::-1] = w",
    ),
    *("np.add(a, 1, out=a)", "np.copyto(a, b)", "a[[0, 1], [1, 2]] = 9", "np.add.at(v, i, 1)"),
    *("a.T[0] = 5", "torch.from_numpy(a).add_(1)", "t.add_(1)", "t[0] = 0", "np.random.shuffle(v)"),
]
NAMES = ("t", "b", "v", "w", "s", "p", "i", "u", "h", "m")


def program(body):
    lines = [
        f"def program({', '.join(f't_{name}' if name != 't' else 't' for name in NAMES)}):",
        "    a = t.numpy()",
        *(f"    {name} = t_{name}.numpy()" for name in NAMES[1:]),
        f"    {body}",
    ]
    source = "\n".join(lines) + "\n"
    name = f"<numpy {body}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    namespace = {"np": np, "torch": torch}
    exec(compile(source, name, "exec"), namespace)
    return namespace["program"]


def values(seed):
    g = torch.Generator().manual_seed(seed)
    a, b, s = (torch.randn(n, 3, generator=g) for n in (2, 2, 3))
    v, w = torch.randn(3, generator=g), torch.randn(3, generator=g)
    if seed % 3 == 2:
        a.view(-1)[:4] = torch.tensor([torch.nan, torch.inf, -torch.inf, -0.0])
        b.view(-1)[:4] = torch.tensor([0.0, -torch.inf, 1.5, 1e20])
    p = s @ s.T + 3 * torch.eye(3)
    i = torch.randint(0, 3, (3,), generator=g)
    u = torch.randint(0, 9, (3,), generator=g).to(torch.uint8)
    return a, b, v, w, s, p, i, u, w.half(), v > 0


def difference(expected, found):
    """What two results differ in; None if in nothing but the last bits of floats."""
    if type(expected) is not type(found):
        return f"{type(expected)} and {type(found)}"
    if isinstance(expected, list | tuple):
        if len(expected) != len(found):
            return "lengths"
        return next(filter(None, map(difference, expected, found)), None)
    if isinstance(expected, torch.Tensor):
        expected, found = expected.numpy(), found.numpy()
    if isinstance(expected, np.ndarray | np.generic):
        if (expected.dtype, expected.shape) != (found.dtype, found.shape):
            return f"{expected.dtype} {expected.shape} and {found.dtype} {found.shape}"
        steps = zip(expected.shape, expected.strides, found.strides, strict=True)
        if any(n > 1 and ours != theirs for n, ours, theirs in steps):
            return f"strides {expected.strides} and {found.strides}"
    elif not isinstance(expected, float | complex):
        return None if expected == found else f"{expected!r} and {found!r}"
    close = np.allclose(expected, found, rtol=1e-5, atol=1e-6, equal_nan=True)
    return None if close else f"{expected!r} and {found!r}"


def outcome(function, given):
    np.random.seed(0)
    try:
        return function(*given)
    except Exception as error:
        return [type(error).__name__, str(error)]


@pytest.fixture(autouse=True)
def _quiet():
    stator.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    stator.reset()


def compared(function, backend):
    compiled = stator.compile(function, backend=backend)
    for seed in (0, 1, 2, 0):
        ours, theirs = values(seed), values(seed)
        problem = difference(outcome(function, theirs), outcome(compiled, ours))
        assert problem is None, f"{backend}, values {seed}: {problem}"
        assert difference(list(theirs), list(ours)) is None, "what is in the tensors"


@pytest.mark.parametrize("expression", CAPTURED)
def test_captured(expression):
    function = program(f"return {expression}")
    stator.compile(function, backend="eager", fullgraph=True)(*values(0))
    compared(function, "eager")


@pytest.mark.parametrize("expression", CAPTURED[::6])
def test_captured_with_aot(expression):
    compared(program(f"return {expression}"), "aot_eager")


@pytest.mark.parametrize("expression", BROKEN)
def test_right_in_any_case(expression):
    compared(program(f"return {expression}"), "eager")


@pytest.mark.parametrize("statement", IN_PLACE)
def test_changes_of_shared_memory(statement):
    compared(program(f"{statement}\n    return a, b, v, i"), "eager")


def test_index_out_of_range():
    def program(t, i):
        return t.numpy()[i.numpy()] * 2

    compiled = stator.compile(program, backend="eager")
    for index in ([0, 1], [2, -1], [5, 0]):
        given = torch.arange(3.0), torch.tensor(index)
        assert difference(outcome(program, given), outcome(compiled, given)) is None
