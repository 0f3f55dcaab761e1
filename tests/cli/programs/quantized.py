"""Quantization-aware training, with a scale per channel, up to the converted model."""

import warnings

import torch
from torch import nn
from torch.ao import quantization
from torch.nn import functional

warnings.simplefilter("ignore")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
        self.conv, self.norm, self.relu = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()
        self.head = nn.Linear(4 * 6 * 6, 5)

    def forward(self, x):
        x = self.relu(self.norm(self.conv(self.quant(x))))
        return self.dequant(self.head(x.flatten(1)))


def prepared():
    torch.manual_seed(0)
    model = Net().train()
    model.qconfig = quantization.QConfig(
        activation=quantization.default_fused_act_fake_quant,
        weight=quantization.default_fused_per_channel_wt_fake_quant,
    )
    quantization.fuse_modules_qat(model, [["conv", "norm", "relu"]], inplace=True)
    return quantization.prepare_qat(model)


def train(model, steps):
    compiled = torch.compile(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for step in range(steps):
        if step == steps - 2:
            model.apply(quantization.disable_observer)
        x, labels = torch.randn(4, 3, 8, 8), torch.randint(0, 5, (4,))
        optimizer.zero_grad()
        loss = functional.cross_entropy(compiled(x), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    model = prepared()
    print([round(loss, 2) for loss in train(model, 6)])
    for module in (model.conv, model.head):
        observer = module.weight_fake_quant
        print(observer.scale.shape, observer.activation_post_process.min_val.shape)
    converted = quantization.convert(model.eval())
    print(type(converted.conv).__name__, converted.conv.weight().dtype)
    print(converted(torch.ones(1, 3, 8, 8)).shape)
