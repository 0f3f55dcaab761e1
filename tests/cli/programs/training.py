"""A training loop with mixed precision and a scaler of gradients."""

import torch
from torch import nn
from torch.nn import functional


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(16, 12)
        self.norm = nn.LayerNorm(12)
        self.layers = nn.ModuleList(nn.Linear(12, 12) for _ in range(3))
        self.head = nn.Linear(12, 4)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            x = x + functional.gelu(layer(self.norm(x)))
        return self.head(x.mean(1))


def train(steps):
    torch.manual_seed(0)
    model = torch.compile(Net(), backend="aot_eager")
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    scaler = torch.amp.GradScaler("cpu")
    losses = []
    for _ in range(steps):
        tokens = torch.randint(0, 16, (8, 5))
        labels = tokens[:, 0] % 4
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = functional.cross_entropy(model(tokens).float(), labels)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
        losses.append(loss.item())
    return model, losses


if __name__ == "__main__":
    model, losses = train(12)
    print([round(loss, 1) for loss in losses])
    print(losses[-1] < losses[0])
    print(sorted(model.state_dict())[:3])
    plain = Net()
    state = {key.removeprefix("_orig_mod."): value for key, value in model.state_dict().items()}
    print(plain.load_state_dict(state))
