"""A GRU that reads a sequence, and one with attention that writes it reversed, word by word."""

import torch
from torch import nn
from torch.nn import functional

WORDS = 20
SIZE = 24


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, SIZE)
        self.gru = nn.GRU(SIZE, SIZE, batch_first=True)
        self.dropout = nn.Dropout(0.1)

    def forward(self, words):
        return self.gru(self.dropout(self.embed(words)))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, SIZE)
        self.query, self.key = nn.Linear(SIZE, SIZE), nn.Linear(SIZE, SIZE)
        self.value = nn.Linear(SIZE, 1)
        self.gru = nn.GRU(2 * SIZE, SIZE, batch_first=True)
        self.out = nn.Linear(SIZE, WORDS)

    def forward(self, read, hidden, targets=None):
        word = torch.zeros(read.size(0), 1, dtype=torch.long)
        written = []
        for step in range(6):
            query = hidden.permute(1, 0, 2)
            scores = self.value(torch.tanh(self.query(query) + self.key(read))).squeeze(2)
            context = torch.bmm(functional.softmax(scores, -1).unsqueeze(1), read)
            output, hidden = self.gru(torch.cat((self.embed(word), context), 2), hidden)
            output = self.out(output)
            written.append(output)
            word = output.argmax(-1) if targets is None else targets[:, step : step + 1]
        return functional.log_softmax(torch.cat(written, 1), -1)


def main():
    torch.manual_seed(0)
    encoder, decoder = torch.compile(Encoder()), torch.compile(Decoder())
    parameters = [*encoder.parameters(), *decoder.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.01)
    losses = []
    for _ in range(20):
        words = torch.randint(2, WORDS, (16, 6))
        optimizer.zero_grad()
        read, hidden = encoder(words)
        output = decoder(read, hidden, words.flip(1))
        loss = functional.nll_loss(output.flatten(0, 1), words.flip(1).flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    encoder.eval(), decoder.eval()
    with torch.no_grad():
        read, hidden = encoder(words)
        output = decoder(read, hidden)
    print("learns:", losses[-1] < losses[0])
    print(tuple(output.shape))


if __name__ == "__main__":
    main()
