#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's side of bench_translation: the same network on the same sentences by the same recipe.

    pytorch_translation.py FOLDER [--seed 1] [--epochs 6] [--beam 5]

FOLDER is what bench_translation --write has made: train.tokens and valid.tokens with a pair a line, tokens of a sentence, a
tab, those of its translation, none of them begin or end; valid.target, the translations' text; pieces.model, for the
library SentencePiece. Prints a line of comma-separated values an epoch, as bench_translation does: epoch, loss in training
and on the pairs held out (nats a token, targets smoothed), greedy BLEU on these, CPU seconds of training so far. With --beam it ends with the BLEU of a
beam search of that width. Needs torch, sentencepiece and sacrebleu.
"""

import argparse
import math
import pathlib
import random
import time

import sacrebleu
import sentencepiece
import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

VOCABULARY, HIDDEN, BATCH, BUCKETS, LONGEST, BEGIN, END = 4000, 256, 64, 5, 32, 1, 2


class Attention(nn.Module):
    """NVIDIA's BahdanauAttention(normalize=True)."""

    def __init__(self, hidden):
        super().__init__()
        self.linear_q, self.linear_k = nn.Linear(hidden, hidden, bias=False), nn.Linear(hidden, hidden, bias=False)
        self.linear_att = nn.Parameter(torch.empty(hidden))
        self.normalize_scalar = nn.Parameter(torch.tensor([1 / math.sqrt(hidden)]))
        self.normalize_bias = nn.Parameter(torch.zeros(hidden))

    def forward(self, query, memory, hidden_keys):  # (B, Tq, H), (B, Tk, H), (B, 1, Tk)
        weight = self.linear_att / self.linear_att.norm() * self.normalize_scalar
        sums = self.linear_q(query).unsqueeze(2) + (self.linear_k(memory) + self.normalize_bias).unsqueeze(1)
        scores = torch.tanh(sums).matmul(weight)
        return functional.softmax(scores.masked_fill(hidden_keys, -65504.0), -1) @ memory


class Gnmt(nn.Module):
    """NVIDIA's GNMT v2 of two layers on either side."""

    def __init__(self):
        super().__init__()
        h = HIDDEN
        self.words = nn.Embedding(VOCABULARY, h)
        self.encoder = nn.ModuleList([nn.LSTM(h, h, bidirectional=True, batch_first=True),
                                      nn.LSTM(2 * h, h, batch_first=True)])
        self.decoder = nn.ModuleList([nn.LSTM(h, h, batch_first=True), nn.LSTM(2 * h, h, batch_first=True)])
        self.attention, self.classifier = Attention(h), nn.Linear(h, VOCABULARY)
        self.dropout = nn.Dropout(0.2)
        for name, p in self.named_parameters():
            if "bias_hh" in name:
                nn.init.zeros_(p)
            elif not name.startswith("attention.normalize"):
                nn.init.uniform_(p, -0.1, 0.1)

    def encode(self, x, lengths):
        packed = pack_padded_sequence(self.dropout(self.words(x)), lengths, batch_first=True, enforce_sorted=False)
        x = pad_packed_sequence(self.encoder[0](packed)[0], batch_first=True, total_length=x.shape[1])[0]
        return self.encoder[1](self.dropout(x))[0]

    def decode(self, said, memory, hidden_keys, states=(None, None)):
        """Logits of what follows each of the words said, and the states behind the last."""
        query, first = self.decoder[0](self.dropout(self.words(said)), states[0])
        context = self.attention(query, memory, hidden_keys)
        x, second = self.decoder[1](self.dropout(torch.cat([query, context], 2)), states[1])
        return self.classifier(x), (first, second)


def read_pairs(path):
    with open(path, encoding="utf-8") as file:
        return [tuple([int(t) for t in side.split()] for side in line.rstrip("\n").split("\t")) for line in file]


def padded(rows):
    longest = max(map(len, rows))
    return torch.tensor([row + [0] * (longest - len(row)) for row in rows])


def tensors(pairs):
    source = [[BEGIN, *s, END] for s, _ in pairs]
    lengths = torch.tensor([len(s) for s in source])
    x = padded(source)
    hidden = (torch.arange(x.shape[1]) >= lengths[:, None])[:, None, :]
    said, wanted = padded([[BEGIN, *t] for _, t in pairs]), padded([[*t, END] for _, t in pairs])
    counts = torch.arange(wanted.shape[1]) < torch.tensor([len(t) + 1 for _, t in pairs])[:, None]
    return x, lengths, hidden, said, wanted.masked_fill(~counts, -1)


def batches_of(pairs, rng):
    """Drawn within buckets by the longer of both sides, in a random order."""
    buckets = [[] for _ in range(BUCKETS)]
    for pair in rng.sample(pairs, len(pairs)):
        longer = max(len(pair[0]) + 2, len(pair[1]) + 1)
        buckets[min(BUCKETS - 1, (longer - 1) * BUCKETS // LONGEST)].append(pair)
    batches = [bucket[i:i + BATCH] for bucket in buckets for i in range(0, len(bucket), BATCH)]
    rng.shuffle(batches)
    return batches


def learning_rate(step, steps):
    if step < 200:
        return 2e-3 * 0.01**((200 - step) / 200)
    begin, every = steps * 2 // 3, steps // 12
    return 2e-3 * 0.5**(0 if step < begin else min(4, (step - begin) // every + 1))


@torch.no_grad()
def held_out_loss(net, pairs):
    loss = words = 0.0
    for i in range(0, len(pairs), BATCH):
        x, lengths, hidden, said, wanted = tensors(pairs[i:i + BATCH])
        logits, _ = net.decode(said, net.encode(x, lengths), hidden)
        loss += functional.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=-1, reduction="sum",
                                         label_smoothing=0.1).item()
        words += (wanted >= 0).sum().item()
    return loss / words


@torch.no_grad()
def search(net, pair, width):
    """The best hypothesis by (log probability) / ((5 + n) / 6)^0.6, of at most LONGEST tokens; greedy for width 1."""
    x, lengths, hidden, _, _ = tensors([pair])
    memory = net.encode(x, lengths)
    alive, states, found = [(0.0, [])], (None, None), []
    said = torch.tensor([[BEGIN]])
    for length in range(1, LONGEST + 1):
        n = len(alive)
        logits, states = net.decode(said, memory.expand(n, -1, -1), hidden.expand(n, -1, -1), states)
        scores = functional.log_softmax(logits[:, 0], -1) + torch.tensor([score for score, _ in alive])[:, None]
        best, at = scores.flatten().topk(2 * width)
        previous, alive, parents = alive, [], []
        for score, index in zip(best.tolist(), at.tolist()):
            parent, token = divmod(index, VOCABULARY)
            if token == END or length == LONGEST:
                tokens = previous[parent][1] + ([token] if token != END else [])
                found.append((score / ((5 + length) / 6)**(0.6 if width > 1 else 0.0), tokens))
                if width == 1:
                    return found[0][1]
            elif len(alive) < width:
                alive.append((score, previous[parent][1] + [token]))
                parents.append(parent)
            if width == 1 and alive:
                break
        if len(found) >= width or not alive:
            break
        states = tuple(tuple(s[:, parents] for s in state) for state in states)
        said = torch.tensor([[tokens[-1]] for _, tokens in alive])
    return max(found)[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--beam", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(options.seed)
    rng = random.Random(options.seed)
    train, valid = (read_pairs(options.folder / f"{name}.tokens") for name in ("train", "valid"))
    references = (options.folder / "valid.target").read_text(encoding="utf-8").splitlines()
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(options.folder / "pieces.model"))
    net = Gnmt()
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3, fused=True)
    steps = options.epochs * len(batches_of(train, random.Random(0)))

    def bleu(width):
        net.eval()
        found = [pieces.decode(search(net, pair, width)) for pair in valid]
        return sacrebleu.corpus_bleu(found, [references]).score, found

    print("epoch,loss,held_out_loss,bleu,cpu_s", flush=True)
    step, spent = 0, 0.0
    for epoch in range(1, options.epochs + 1):
        net.train()
        loss_sum = words = 0.0
        begin = time.process_time()
        for batch in batches_of(train, rng):
            optimizer.param_groups[0]["lr"] = learning_rate(step, steps)
            x, lengths, hidden, said, wanted = tensors(batch)
            logits, _ = net.decode(said, net.encode(x, lengths), hidden)
            loss = functional.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=-1, reduction="sum",
                                            label_smoothing=0.1)
            optimizer.zero_grad()
            (loss / len(batch)).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 5.0)
            optimizer.step()
            loss_sum, words, step = loss_sum + loss.item(), words + (wanted >= 0).sum().item(), step + 1
        spent += time.process_time() - begin
        net.eval()
        print(f"{epoch},{loss_sum / words:.4f},{held_out_loss(net, valid):.4f},{bleu(1)[0]:.2f},{spent:.0f}", flush=True)
    if options.beam > 0:
        score, found = bleu(options.beam)
        print(f"# beam of {options.beam}: BLEU {score:.2f}")
        for pair, text in list(zip(valid, found))[:8]:
            print(f"# {pieces.decode(pair[0])}\n#   {text}")


if __name__ == "__main__":
    main()
