"""Inductor, with a mode and with options."""

import torch
from torch import nn

if __name__ == "__main__":
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).eval()
    x = torch.randn(3, 8)
    with torch.no_grad():
        for options in (
            {"mode": "reduce-overhead"},
            {"mode": "max-autotune-no-cudagraphs"},
            {"options": {"epilogue_fusion": False}},
        ):
            compiled = torch.compile(model, **options)
            close = torch.allclose(compiled(x), model(x), atol=1e-5)
            print(sorted(options), close, round(compiled(x).sum().item(), 3))
    try:
        torch.compile(model, mode="default", options={"epilogue_fusion": True})
    except RuntimeError:
        print("not both")
