# mypy: ignore-errors
"""Hooks of tensors and modules: they run when eager runs them, as often, and see the same."""

import warnings

import pytest
import torch
from torch import nn

import stator

from .stories import Stories, attempt, check_story, seen

pytestmark = pytest.mark.usefixtures("leaves_no_trace")
stories = Stories()
LOG = []


def leaf():
    return torch.tensor([1.0, 2.0, 3.0], requires_grad=True)


def logged(r):
    v = list(r) + [list(map(seen, LOG))]
    LOG.clear()
    return v


@stories
def hook_inside(c):
    LOG.clear()

    def g(x):
        y = x * 2
        y.register_hook(lambda gr: LOG.append(("h", gr.clone())))
        return (y * y).sum()

    f = c(g)
    x = leaf()
    y = f(x)
    LOG.append("fw")
    y.backward()
    return logged([x.grad])


@stories
def hook_replaces(c):
    LOG.clear()

    def g(x):
        y = x * 2
        y.register_hook(lambda gr: gr * 10)
        return (y * y).sum()

    f = c(g)
    r = []
    for i in range(2):
        x = leaf()
        y = f(x)
        y.backward()
        r.append(x.grad)
    return r


@stories
def hook_removed(c):
    def g(x, remove):
        y = x * 2
        h = y.register_hook(lambda gr: gr * 10)
        if remove:
            h.remove()
        return (y * y).sum(), h

    f = c(g)
    r = []
    for rm in (True, False):
        x = leaf()
        y, h = f(x, rm)
        y.backward()
        r.append(x.grad)
    x = leaf()
    y, h = f(x, False)
    h.remove()
    y.backward()
    r.append(x.grad)
    return r


@stories
def hook_order(c):
    LOG.clear()

    def g(x):
        y = x * 2
        y.register_hook(lambda gr: LOG.append("a"))
        z = y * 3
        z.register_hook(lambda gr: LOG.append("z"))
        y.register_hook(lambda gr: LOG.append("b"))
        return z.sum()

    f = c(g)
    x = leaf()
    x.register_hook(lambda gr: LOG.append("x"))
    y = f(x)
    y.backward()
    return logged([x.grad])


@stories
def hook_raises(c):
    def bad(gr):
        raise ValueError("hook")

    def g(x):
        y = x * 2
        y.register_hook(bad)
        return y.sum()

    f = c(g)
    x = leaf()
    y = f(x)
    return [attempt(y.backward), x.grad]


@stories
def hook_on_input(c):
    LOG.clear()

    def g(x):
        x.register_hook(lambda gr: LOG.append(("i", gr.clone())))
        return (x * x).sum()

    f = c(g)
    x = leaf()
    y = f(x)
    y.backward()
    y = f(x)
    y.backward()
    return logged([x.grad])


@stories
def hook_closure_later(c):
    k = 2.0

    def g(x):
        y = x * 2
        y.register_hook(lambda gr: gr * k)
        return y.sum()

    f = c(g)
    x = leaf()
    y = f(x)
    k = 7.0
    y.backward()
    return [x.grad]


@stories
def hook_then_backward_inside(c):
    LOG.clear()

    def g(x):
        y = x * 2
        y.register_hook(lambda gr: LOG.append("h"))
        y.sum().backward()
        LOG.append("done")
        return x.grad

    f = c(g)
    x = leaf()
    return logged([f(x)])


@stories
def post_acc(c):
    LOG.clear()

    def g(w, x):
        w.register_post_accumulate_grad_hook(lambda p: LOG.append(("acc", p.grad.clone())))
        return (w * x).sum()

    f = c(g)
    w = leaf()
    f(w, torch.ones(3)).backward()
    return logged([w.grad])


@stories
def post_acc_outside(c):
    LOG.clear()
    f = c(lambda w, x: (w * x).sum())
    w = leaf()
    h = w.register_post_accumulate_grad_hook(
        lambda p: (LOG.append(p.grad.clone()), setattr(p, "grad", None)) and None
    )
    f(w, torch.ones(3)).backward()
    r = [w.grad]
    h.remove()
    f(w, torch.ones(3)).backward()
    return logged(r + [w.grad])


@stories
def post_acc_step(c):
    LOG.clear()

    def g(w, x):
        (w * x).sum().backward()
        LOG.append("after")
        return w.grad

    f = c(g)
    w = leaf()
    r = [f(w, torch.ones(3))]
    h = w.register_post_accumulate_grad_hook(lambda p: LOG.append(p.grad.clone()))
    r.append(f(w, torch.ones(3)))
    h.remove()
    r.append(f(w, torch.ones(3)))
    return logged(r)


def lin():
    torch.manual_seed(3)
    m = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    return m


@stories
def mod_forward_hook(c):
    LOG.clear()
    m = lin()
    h = m[0].register_forward_hook(lambda m, a, o: (LOG.append(("fh", tuple(o.shape))), o * 2)[1])
    p = m[0].register_forward_pre_hook(lambda m, a: (LOG.append("pre"), (a[0] + 1,))[1])
    f = c(m)
    x = torch.ones(2, 3)
    r = [f(x)]
    h.remove()
    r.append(f(x))
    p.remove()
    r.append(f(x))
    return logged(r)


@stories
def mod_hook_kwargs(c):
    LOG.clear()

    class M(nn.Module):
        def forward(self, x, *, k=1):
            return x * k

    m = M()
    m.register_forward_hook(lambda m, a, kw, o: (LOG.append(dict(kw)), o + 1)[1], with_kwargs=True)
    m.register_forward_pre_hook(lambda m, a, kw: (a, {"k": kw["k"] * 10}), with_kwargs=True)
    f = c(lambda x: m(x, k=2))
    return logged([f(torch.ones(3))])


@stories
def mod_hook_always(c):
    LOG.clear()

    class M(nn.Module):
        def forward(self, x, bad):
            if bad:
                raise ValueError("fw")
            return x * 2

    m = M()
    m.register_forward_hook(lambda m, a, o: LOG.append(("always", seen(o))), always_call=True)
    m.register_forward_hook(lambda m, a, o: LOG.append(("plain", seen(o))))
    f = c(lambda x, b: m(x, b) + 1)
    x = torch.ones(3)
    return logged([attempt(f, x, False), attempt(f, x, True), attempt(f, x, False)])


@stories
def mod_hook_always_raises(c):
    LOG.clear()

    class M(nn.Module):
        def forward(self, x, bad):
            if bad:
                raise ValueError("fw")
            return x * 2

    def bad(m, a, o):
        LOG.append("in")
        raise TypeError("hook")

    m = M()
    m.register_forward_hook(bad, always_call=True)
    f = c(lambda x, b: m(x, b) + 1)
    x = torch.ones(3)
    return logged([attempt(f, x, False), attempt(f, x, True)])


@stories
def mod_hook_prepend(c):
    LOG.clear()
    m = lin()
    m.register_forward_hook(lambda *a: LOG.append(1))
    m.register_forward_hook(lambda *a: LOG.append(2), prepend=True)
    m.register_forward_pre_hook(lambda *a: LOG.append(3))
    m.register_forward_pre_hook(lambda *a: LOG.append(4), prepend=True)
    f = c(m)
    return logged([f(torch.ones(2, 3))])


@stories
def mod_backward_hook(c):
    LOG.clear()
    m = lin()
    h = m[0].register_full_backward_hook(lambda m, gi, go: LOG.append(("bw", seen(gi), seen(go))))
    q = m[0].register_full_backward_pre_hook(lambda m, go: LOG.append(("pre", seen(go))))
    f = c(m)
    x = torch.ones(2, 3, requires_grad=True)
    f(x).sum().backward()
    h.remove()
    q.remove()
    f(x).sum().backward()
    return logged([x.grad])


@stories
def mod_backward_hook_replaces(c):
    m = lin()
    h = m[0].register_full_backward_hook(lambda m, gi, go: (gi[0] * 100,))
    f = c(m)
    x = torch.ones(2, 3, requires_grad=True)
    f(x).sum().backward()
    return [x.grad, m[0].weight.grad]


@stories
def mod_old_backward_hook(c):
    LOG.clear()
    m = lin()
    h = m[1].register_backward_hook(lambda m, gi, go: LOG.append(("old", seen(go))))
    f = c(m)
    x = torch.ones(2, 3, requires_grad=True)
    f(x).sum().backward()
    return logged([x.grad])


@stories
def global_forward_hook(c):
    LOG.clear()
    m = lin()
    f = c(m)
    x = torch.ones(2, 3)
    r = [f(x)]
    h = nn.modules.module.register_module_forward_hook(
        lambda m, a, o: (LOG.append(type(m).__name__), o * 2)[1]
    )
    try:
        r.append(f(x))
    finally:
        h.remove()
    r.append(f(x))
    h = nn.modules.module.register_module_forward_pre_hook(
        lambda m, a: LOG.append("pre" + type(m).__name__)
    )
    try:
        r.append(f(x))
    finally:
        h.remove()
    return logged(r)


@stories
def global_always(c):
    LOG.clear()

    class M(nn.Module):
        def forward(self, x, bad):
            if bad:
                raise ValueError("fw")
            return x * 2

    m = M()
    f = c(lambda x, b: m(x, b))
    x = torch.ones(3)
    h = nn.modules.module.register_module_forward_hook(
        lambda m, a, o: LOG.append(seen(o)), always_call=True
    )
    try:
        r = [attempt(f, x, False), attempt(f, x, True)]
    finally:
        h.remove()
    return logged(r)


@stories
def global_backward_hook(c):
    LOG.clear()
    m = lin()
    f = c(m)
    x = torch.ones(2, 3, requires_grad=True)
    f(x).sum().backward()
    h = nn.modules.module.register_module_full_backward_hook(
        lambda m, gi, go: LOG.append((type(m).__name__, seen(go)))
    )
    try:
        f(x).sum().backward()
    finally:
        h.remove()
    f(x).sum().backward()
    return logged([x.grad])


@stories
def hook_bound_method(c):
    class K:
        def __init__(s):
            s.g = []

        def hook(s, gr):
            s.g.append(gr.clone())

    k = K()

    def g(x):
        y = x * 2
        y.register_hook(k.hook)
        return (y * y).sum()

    f = c(g)
    x = leaf()
    f(x).backward()
    f(x).backward()
    return [k.g, x.grad]


@stories
def hook_no_grad_tensor(c):
    def g(x):
        y = x * 2
        y.register_hook(lambda g: g)
        return y

    f = c(g)
    return [attempt(f, torch.ones(3)), attempt(f, leaf())]


@stories
def hook_returns_wrong(c):
    def g(x):
        y = x * 2
        y.register_hook(lambda g: 3)
        return y.sum()

    f = c(g)
    y = f(leaf())
    return [attempt(y.backward)]


@stories.eager
def hooks_saved(c):
    LOG.clear()

    def g(x):
        with torch.autograd.graph.saved_tensors_hooks(
            lambda t: (LOG.append("pack"), t)[1], lambda t: (LOG.append("unpack"), t)[1]
        ):
            return (x * x).sum()

    f = c(g)
    x = leaf()
    y = f(x)
    LOG.append("fw")
    y.backward()
    return logged([x.grad])


@stories
def multi_grad_hook(c):
    LOG.clear()

    def g(x):
        a = x * 2
        b = x * 3
        torch.autograd.graph.register_multi_grad_hook([a, b], lambda gs: LOG.append(len(gs)))
        return (a * b).sum()

    f = c(g)
    x = leaf()
    f(x).backward()
    return logged([x.grad])


@stories
def hook_after_use(c):
    def g(x):
        y = x * 2
        z = (y * 3).sum()
        y.register_hook(lambda gr: gr * 10)
        return z

    f = c(g)
    x = leaf()
    f(x).backward()
    return [x.grad]


@stories
def hook_after_use2(c):
    def g(x):
        y = x * 2
        z = (y * 3).sum()
        w = y.sin()
        y.register_hook(lambda gr: gr * 10)
        return z + w.sum(), w

    f = c(g)
    x = leaf()
    f(x)[0].backward()
    return [x.grad]


@stories
def retain_after_use(c):
    def g(x):
        y = x * 2
        z = (y * 3).sum()
        y.retain_grad()
        return z, y

    f = c(g)
    x = leaf()
    z, y = f(x)
    z.backward()
    return [x.grad, y.grad]


@stories
def grad_fn_after(c):
    def g(x):
        y = x * 2
        z = (y * 3).sum()
        return z, type(z.grad_fn).__name__, z.grad_fn.next_functions[0][0].name()

    f = c(g)
    x = leaf()
    return list(f(x))


@stories
def old_hook(c):
    class M(nn.Module):
        def forward(s, x):
            return (x * 2).sin()

    m = M()
    m.register_backward_hook(lambda m, gi, go: LOG.append((seen(gi), seen(go))))
    f = c(lambda x: m(x + 1).sum())
    x = leaf()
    f(x).backward()
    r = [x.grad, list(LOG)]
    LOG.clear()
    return r


@pytest.mark.parametrize(("story", "backend"), stories.cases)
def test_told_as_in_eager(story, backend):
    check_story(story, backend)


@pytest.mark.parametrize("with_input", [False, True])
@pytest.mark.parametrize("how", ["hook", "pre_hook", "both"])
def test_full_backward_hooks_are_set_up_as_they_are(how: str, with_input: bool) -> None:
    """Each set-up that does something is one break: nothing in torch's own code is compiled."""

    def run(compiled):
        torch.manual_seed(0)
        m = lin()
        LOG.clear()
        if how != "pre_hook":
            m[0].register_full_backward_hook(
                lambda m, gi, go: LOG.append(("bw", seen(gi), seen(go)))
            )
        if how != "hook":
            m[0].register_full_backward_pre_hook(lambda m, go: (go[0] * 2,))
        f = compiled(m)
        found = []
        for _ in range(3):
            x = torch.ones(2, 3, requires_grad=with_input)
            y = f(x)
            y.sum().backward()
            found += [y, x.grad, m[0].weight.grad]
        with torch.no_grad():
            found.append(f(torch.ones(2, 3)))
        return [None if each is None else each.tolist() for each in found], list(map(seen, LOG))

    stator.reset()
    graphs = []

    def backend(module, inputs):
        graphs.append([node.name for node in module.graph.nodes if node.op.startswith("call")])
        return module.forward

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = run(lambda m: m)
        assert run(lambda m: stator.compile(m, backend=backend)) == expected
    counts = stator.counters()
    setups = 1 + with_input
    assert counts["graph_breaks"] == setups
    assert counts["compiles"] == setups + 3  # the next turn of the loop, and without gradients
    assert set(counts["break_reasons"]) == {"a module has full backward hooks"}
    assert len(graphs) == 3
