"""Sentences of different lengths: packed, through a bidirectional LSTM, and padded again."""

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 16, padding_idx=0)
        self.rnn = nn.LSTM(16, 12, batch_first=True, bidirectional=True)
        self.head = nn.Linear(24, 5)

    def forward(self, words, lengths):
        packed = pack_padded_sequence(
            self.embed(words), lengths, batch_first=True, enforce_sorted=False
        )
        output, _ = self.rnn(packed)
        output, _ = pad_packed_sequence(output, batch_first=True)
        return self.head(output)


def sentences(count):
    lengths = torch.randint(4, 40, (count,))
    rows = [torch.randint(1, 30, (int(length),)) for length in lengths]
    return pad_sequence(rows, batch_first=True), lengths


def main():
    torch.manual_seed(0)
    model = torch.compile(Tagger())
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(12):
        words, lengths = sentences(6)
        optimizer.zero_grad()
        output = model(words, lengths)
        loss = functional.cross_entropy(output.flatten(0, 1), (words % 5).flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print([round(loss, 2) for loss in losses])


if __name__ == "__main__":
    main()
