"""A word language model: an LSTM of two layers, backpropagation through 35 steps."""

import math

import torch
from torch import nn
from torch.nn import functional

WORDS = 60
STEPS = 35


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.2)
        self.encoder = nn.Embedding(WORDS, 32)
        self.rnn = nn.LSTM(32, 32, 2, dropout=0.2)
        self.decoder = nn.Linear(32, WORDS)

    def forward(self, words, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(words)), hidden)
        return functional.log_softmax(self.decoder(self.drop(output)), dim=2), hidden

    def begin(self, batch):
        return torch.zeros(2, batch, 32), torch.zeros(2, batch, 32)


def corpus(length):
    """Each word mostly follows from the one before."""
    words = [1]
    for noise in torch.randint(0, 10, (length,)).tolist():
        words.append((words[-1] * 7 + (noise == 0)) % WORDS)
    return torch.tensor(words)


def batches(data, batch):
    data = data[: len(data) // batch * batch].view(batch, -1).t().contiguous()
    for first in range(0, len(data) - 1, STEPS):
        count = min(STEPS, len(data) - 1 - first)
        yield data[first : first + count], data[first + 1 : first + 1 + count].reshape(-1)


def main():
    torch.manual_seed(1)
    data = corpus(2400)
    model = torch.compile(Model())
    optimizer = torch.optim.SGD(model.parameters(), lr=5.0)
    for epoch in range(2):
        model.train()
        hidden = model.begin(10)
        total = 0.0
        for words, targets in batches(data[:1800], 10):
            hidden = tuple(each.detach() for each in hidden)
            optimizer.zero_grad()
            output, hidden = model(words, hidden)
            loss = functional.nll_loss(output.view(-1, WORDS), targets)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
            optimizer.step()
            total += loss.item()
        model.eval()
        hidden = model.begin(4)
        with torch.no_grad():
            for words, _ in batches(data[1800:], 4):
                _, hidden = model(words, hidden)
        print(f"epoch {epoch}: lower than by chance: {total / 6 < math.log(WORDS) * 1.05}")
    print([tuple(each.shape) for each in hidden])


if __name__ == "__main__":
    main()
