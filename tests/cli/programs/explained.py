"""`torch._dynamo.explain`, on a program with a graph break."""

import torch
import torch._dynamo


def program(x, y):
    z = torch.sin(x) + torch.cos(y)
    torch._dynamo.graph_break()
    if z.shape[0] > 2:
        z = torch.exp(z)
    return z * 2


if __name__ == "__main__":
    found = torch._dynamo.explain(program)(torch.ones(3), torch.ones(3))
    print("graphs", found.graph_count, len(found.graphs))
    print("breaks", found.graph_break_count, len(found.break_reasons))
    print("operators", found.op_count, [len(ops) for ops in found.ops_per_graph])
    print("in", found.break_reasons[0].user_stack[-1].name)
    print("guards", len(found.out_guards) > 0)
    print(str(found).splitlines()[0])
