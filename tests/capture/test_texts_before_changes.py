# mypy: ignore-errors
"""The text of a tensor shows what it was when the text was made, whatever is done to it later."""

import logging
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import stator

from .stories import Stories, attempt, check_story

pytestmark = pytest.mark.usefixtures("leaves_no_trace")
stories = Stories()


def leaf():
    return torch.tensor([1.0, 2.0, 3.0], requires_grad=True)


def T():
    return torch.tensor([1.0, 2.0, 3.0])


def twice(g, *mk):
    def run(c):
        f = c(g)
        r = []
        for i in range(2):
            r.append(attempt(f, *[m() for m in mk]))
        return r

    return run


def add(name, g, *mk):
    stories.add(name, twice(g, *mk))


def p1(x):
    print(x)
    x.add_(1)
    return x * 1


add("input_changed", p1, T)


def p2(x):
    y = x * 2
    print(y)
    y.add_(1)
    return y


add("made_changed", p2, T)
add("made_changed_grad", p2, leaf)


def p3(x):
    y = x * 2
    print(y[1:])
    y.add_(1)
    return y


add("view_shown", p3, T)
add("view_shown_grad", p3, leaf)


def p4(x):
    y = x * 2
    v = y[1:]
    print(y)
    v.add_(1)
    return y


add("view_changed", p4, T)
add("view_changed_g", p4, leaf)


def p5(x):
    y = x * 2
    print(y)
    y.data.add_(1)
    return y


add("data_changed", p5, T)
add("data_changed_g", p5, leaf)


def p5b(x):
    print(x)
    x.data.add_(1)
    return x * 1


add("data_input", p5b, T)
add("data_input_g", p5b, leaf)


def p5c(x):
    y = x * 2
    print(y)
    y.data = torch.zeros(3)
    return y


add("data_set", p5c, T)


def p6(x):
    y = x * 2
    print(y)
    y.copy_(torch.zeros(3))
    return y


add("copy", p6, T)


def p7(x):
    y = torch.zeros(3)
    print(y)
    torch.add(x, 1, out=y)
    return y


add("out", p7, T)


def p7b(x, y):
    print(y)
    torch.add(x, 1, out=y)
    return y


add("out_input", p7b, T, T)


def p8(x):
    y = x * 2
    s = f"{y}"
    y.zero_()
    return s, y


add("fstring", p8, T)


def p9(x):
    y = x * 2
    s = str(y)
    t = repr([y])
    y.zero_()
    print(s, t)
    return y


add("str_repr", p9, T)


def p10(x):
    y = x.sum()
    s = "%.2f" % y
    t = "{:.3f}".format(y)
    u = f"{y:.1f}"
    y.add_(5)
    print(s, t, u)
    return y


add("scalar_formats", p10, T)


def p11(x):
    y = x * 2
    print(y.tolist())
    y.zero_()
    return y


add("tolist", p11, T)


def p12(x):
    y = x * 2
    y[0] = 9
    print(y)
    y[1] = 7
    print(y)
    return y


add("setitem", p12, T)


def p13(x):
    y = x * 2
    print({"a": [y, (y,)]})
    y.mul_(0)
    return y


add("containers", p13, T)


def p14(x):
    y = x * 2
    d = y.detach()
    print(d)
    y.add_(1)
    print(d)
    return y


add("detached", p14, T)
add("detached_g", p14, leaf)


def p15(x):
    y = torch.ones(2, 3)
    r = y[0]
    print(r)
    y.index_add_(0, torch.tensor([0]), x[None])
    print(r)
    return y


add("index_add", p15, T)


def p16(x):
    y = x * 2
    e = y.expand(2, 3)
    print(e)
    y.add_(1)
    return e * 1


add("expanded", p16, T)


def p17(x):
    print(x.T if x.dim() > 1 else x)
    F.relu_(x.sub_(2))
    return x * 1


add("relu_", p17, T)


def p18(x):
    y = x * 2
    raise ValueError(f"bad {y}")


add("in_exception", p18, T)


def p19(x):
    y = x * 2
    try:
        raise ValueError(f"bad {y}")
    except ValueError as e:
        y.zero_()
        return str(e), y


add("in_exception2", p19, T)
lg = logging.getLogger("f5t")
lg.setLevel(10)
lg.propagate = False


class H(logging.Handler):
    def emit(s, r):
        print("LOG", r.getMessage())


lg.addHandler(H())


def p20(x):
    y = x * 2
    lg.info("v %s", y)
    y.zero_()
    lg.warning(f"w {y}")
    return y


add("logging", p20, T)
add("logging_g", p20, leaf)


def p20b(x):
    lg.info("v %s", x)
    x.zero_()
    lg.info("%s after", x)
    return x * 1


add("logging_input", p20b, T)


def p21(x):
    y = x * 2
    warnings.warn(f"w {y}")
    y.zero_()
    return y


def w21(c):
    with warnings.catch_warnings(record=True) as w:
        warnings.simplefilter("always")
        r = c(p21)(T())
        return [r, [str(i.message) for i in w]]


stories(w21)


def opt(kind, **k):
    def run(c):
        torch.manual_seed(0)
        m = nn.Linear(2, 1)
        o = kind(m.parameters(), lr=0.1, **k)

        def g(x):
            o.zero_grad()
            l = m(x).sum()
            l.backward()
            print(m.weight, m.weight.grad, l)
            s = str(m.bias.data)
            o.step()
            print(s, m.bias)
            return l

        f = c(g)
        r = []
        for i in range(2):
            f(torch.ones(1, 2))
        return [m.weight]

    stories.add(f"{kind.__name__} {k}", run)


opt(torch.optim.SGD)
opt(torch.optim.SGD, momentum=0.9)
opt(torch.optim.Adam)
opt(torch.optim.AdamW, foreach=True)


def p22(x):
    y = x * 2
    print(y)
    y.resize_(2)
    return y


add("resize", p22, T)


def p23(x):
    y = x * 2
    print(y)
    y.t_() if y.dim() > 1 else y.unsqueeze_(0)
    print(y)
    return y


add("unsqueeze_", p23, T)


def p24(x):
    y = x * 2
    print(y)
    y.requires_grad_()
    print(y)
    return y * 1


add("requires_grad", p24, T)


def p25(x):
    y = torch.empty(3)
    y.fill_(2)
    print(y)
    torch.manual_seed(0)
    y.uniform_()
    print(y)
    return y + x


add("uniform_", p25, T)
bn = nn.BatchNorm1d(3, affine=False)


def p26(x):
    print(bn.running_mean, bn.num_batches_tracked)
    y = bn(x)
    print(bn.running_mean, bn.num_batches_tracked)
    return y


def b26(c):
    bn.reset_running_stats()
    f = c(p26)
    f(torch.arange(6.0).view(2, 3))
    f(torch.arange(6.0).view(2, 3))
    return []


stories(b26)


def p27(x):
    y = x * 2
    print(y)
    stator.graph_break()
    y.add_(1)
    print(y)
    return y


add("break_between", p27, T)


def p28(x):
    print(x)
    x.set_(torch.zeros(2))
    return x * 1


add("set_", p28, T)


def p29(x):
    y = x * 2
    print(y.numpy() if not y.requires_grad else 0)
    y.add_(1)
    return y


add("numpy", p29, T)


def p30(x):
    a = x.numpy()
    print(x)
    a[0] = 50
    return x * 1


add("numpy_alias", p30, T)


def p31(x, y):
    print(x, y)
    x.add_(1)
    return y * 1


def s31(c):
    f = c(p31)
    b = torch.ones(4)
    r = [f(b[:2], b[1:3])]
    r.append(f(torch.ones(2), torch.zeros(2)))
    r.append(f(b[:2], b[1:3]))
    return r


stories(s31)


def p32(x):
    y = x * 2
    torch._foreach_add_([y], 1) if 0 else None
    print(y)
    torch._foreach_mul_([y], 3)
    print(y)
    return y


add("foreach", p32, T)


def p33(x):
    y = x.clone()
    print(y)
    y.grad = None
    y += 1
    y -= 2
    y *= 3
    print(y)
    return y


add("aug", p33, T)


def p34(x):
    y = x * 2
    print(f"{y!r:>40}|{y[0]:8.2f}")
    y.neg_()
    return y


add("padded", p34, T)


def p35(x):
    c = torch.view_as_complex(torch.stack([x, x], -1))
    print(c)
    c.real.add_(1)
    print(c)
    return c


add("complex", p35, T)


def p36(x):
    y = x * 2
    with torch.no_grad():
        print(y)
        y.add_(1)
        print(y)
    return y


add("no_grad", p36, leaf)


@pytest.mark.parametrize(("story", "backend"), stories.cases)
def test_told_as_in_eager(story, backend):
    check_story(story, backend)
