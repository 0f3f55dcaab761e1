# mypy: ignore-errors
"""Addresses and hashes of tensors: compared, as keys, in sets, of inputs and of new tensors."""

import linecache

import pytest
import torch

import stator

PROGRAMS = [
    "return id(x) == id(x), id(x) == id(y), id(x) is id(x)",
    "z = x + 1; w = z; return id(z) == id(w), id(z) == id(x)",
    "z = x.view(-1); return id(z) == id(x), x * 2",
    "return id(x) == known, x * 2",
    "return id(x), hash(y)",
    "d = {id(x): 1, id(y): 2}; return d[id(x)], d[id(y)], len(d), id(x) in d",
    "z = x + 1; d = {id(z): 1}; return d[id(z)], id(x) in d, z",
    "s = {id(x), id(y), id(x)}; return len(s), id(y) in s",
    "s = {x, y, x}; return len(s), x in s, y in s",
    "z = x + 1; d = {x: 1, z: 2}; return d[z], len(d), z",
    "return hash(x) == hash(y), hash(x) == id(x), hash((x, 1)) == hash((x, 1))",
    "z = x + 1; return hash(z) == id(z), z",
    "return [each is x for each in sorted([x, y], key=id)]",
    "memo = {}; [memo.setdefault(id(t), t * 2) for t in (x, y, x)]; return list(memo.values())",
    "return id(x) % 16, f'{id(x)}' == str(id(x))",
    "return HELD.get(id(x)), id(y) in HELD, x * 2",
    "return x in KEPT, x * 2",
    "n = x.sum().item(); return id(n) == id(n), x * 2",
]


def shown(value):
    if isinstance(value, list | tuple):
        return [shown(each) for each in value]
    return value.tolist() if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("body", PROGRAMS)
def test_addresses(body, dynamic, backend):
    source = f"def program(x, y, known):\n    {body}\n"
    name = f"<addresses {body}>"
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)
    namespace = {"HELD": {}, "KEPT": set()}
    exec(compile(source, name, "exec"), namespace)
    x, y, larger = torch.ones(2), torch.zeros(2), torch.ones(3)
    namespace["HELD"][id(x)] = 5
    namespace["KEPT"].add(x)
    program = namespace["program"]
    stator.reset()
    compiled = stator.compile(program, backend=backend, dynamic=dynamic)
    for a, b in ((x, y), (y, x), (x, x), (larger, y), (x, y)):
        assert shown(compiled(a, b, id(x))) == shown(program(a, b, id(x)))
    stator.reset()
