"""Plain torch's side of the comparison: trains small models around `nn.Transformer`, and says what they say.

python torch_peer.py train CASE FOLDER     trains FOLDER/model on the numerals in FOLDER
python torch_peer.py say FACTS ASKED SAID reads questions (JSON) and writes the answers
"""

from __future__ import annotations

import json
import math
import random
import sys
from pathlib import Path

import numpy as np
import torch
import yaml
from safetensors.torch import load_file, save_file
from torch import nn

CASES = {
    "post": {"norm_first": False, "activation": "relu", "positions": "sinusoidal", "scaled": True, "tied": False},
    "pre": {"norm_first": True, "activation": "gelu", "positions": "learned", "scaled": False, "tied": True},
}
"""What is trained."""
SIZE, HEADS, LAYERS, INNER, LONGEST = 64, 4, 2, 128, 60
EPOCHS, BATCH = 8, 40
PAD, BOS, EOS, UNKNOWN = range(4)
SPECIALS = ["<pad>", "<bos>", "<eos>", "<unk>"]
BEAM = 5


class Positions(nn.Module):
    """A table of positions that is added to embeddings."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        if kind == "learned":
            self.table = nn.Parameter(0.1 * torch.randn(LONGEST, SIZE))
            return
        angles = torch.arange(LONGEST)[:, None] * torch.exp(-torch.arange(0, SIZE, 2) * math.log(10000) / SIZE)
        self.register_buffer("table", torch.stack([angles.sin(), angles.cos()], -1).flatten(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.table[: x.shape[1]]


class Translator(nn.Module):
    """Embeddings, positions, `nn.Transformer`, an output layer."""

    def __init__(self, sizes: tuple[int, int], options: dict) -> None:
        super().__init__()
        self.scale = math.sqrt(SIZE) if options["scaled"] else 1.0
        self.source_embedding, self.target_embedding = (nn.Embedding(size, SIZE, padding_idx=PAD) for size in sizes)
        for table in (self.source_embedding, self.target_embedding):
            nn.init.normal_(table.weight, std=SIZE**-0.5)
        self.positions = Positions(options["positions"])
        self.transformer = nn.Transformer(
            SIZE, HEADS, LAYERS, LAYERS, INNER, dropout=0.1, activation=options["activation"], batch_first=True,
            norm_first=options["norm_first"],
        )  # fmt: skip
        self.generator = nn.Linear(SIZE, sizes[1])
        if options["tied"]:
            self.generator.weight = self.target_embedding.weight

    def forward(self, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        padding = source == PAD
        decoded = self.transformer(
            self.positions(self.source_embedding(source) * self.scale),
            self.positions(self.target_embedding(target) * self.scale),
            tgt_mask=mask, src_key_padding_mask=padding, memory_key_padding_mask=padding,
        )  # fmt: skip
        return self.generator(decoded)


def read(folder: Path, part: str) -> list[tuple[list[str], list[str]]]:
    sides = [(folder / f"{part}.{name}").read_text().splitlines() for name in ("num", "eng")]
    return [(source.split(), target.split()) for source, target in zip(*sides, strict=True)]


def vocabulary(texts: list[list[str]]) -> list[str]:
    return [*SPECIALS, *sorted({token for text in texts for token in text})]


def padded(sequences: list[list[int]]) -> torch.Tensor:
    return nn.utils.rnn.pad_sequence([torch.tensor(ids) for ids in sequences], batch_first=True, padding_value=PAD)


def learn(case: str, folder: Path) -> None:
    """Trains a model: a state dict, vocabularies and the file of facts in FOLDER/model."""
    torch.manual_seed(1)
    pairs = read(folder, "train")
    symbols = [vocabulary([pair[side] for pair in pairs]) for side in (0, 1)]
    numbers = [{token: number for number, token in enumerate(each)} for each in symbols]
    model = Translator((len(symbols[0]), len(symbols[1])), CASES[case])
    optimizer = torch.optim.Adam(model.parameters(), lr=0.002)
    draw = random.Random(1)
    for epoch in range(EPOCHS):
        draw.shuffle(pairs)
        total = 0.0
        for start in range(0, len(pairs), BATCH):
            batch = pairs[start : start + BATCH]
            source = padded([[numbers[0][token] for token in pair[0]] + [EOS] for pair in batch])
            target = padded([[BOS, *(numbers[1][token] for token in pair[1]), EOS] for pair in batch])
            logits = model(source, target[:, :-1])
            loss = nn.functional.cross_entropy(
                logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PAD, label_smoothing=0.1
            )
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            total += loss.item()
        for group in optimizer.param_groups:
            group["lr"] *= 0.8
        print(f"epoch {epoch + 1}: {total / (len(pairs) / BATCH):.3f}", flush=True)
    place, options = folder / "model", CASES[case]
    place.mkdir(exist_ok=True)
    for name, each in zip(("source", "target"), symbols, strict=True):
        (place / f"{name}.txt").write_text("".join(f"{token}\n" for token in each))
    state = model.state_dict()
    if options["tied"]:
        state = {name: tensor.clone() for name, tensor in state.items()}
        save_file(state, place / "weights.safetensors")
    else:
        torch.save({"epoch": EPOCHS, "model_state_dict": state}, place / "weights.pt")
    facts = {
        "weights": "weights.safetensors" if options["tied"] else "weights.pt",
        "names": {
            "transformer": "transformer", "source": "source_embedding", "target": "target_embedding",
            "output": "generator", "positions": ["positions.table"],
        },
        "heads": HEADS,
        "norm_first": options["norm_first"],
        "activation": options["activation"],
        "scaled_embeddings": options["scaled"],
        "positions": options["positions"],
        "source": {"units": "whitespace", "vocabulary": "source.txt"},
        "target": {"units": "whitespace", "vocabulary": "target.txt"},
        "max_length": 50,
    }  # fmt: skip
    (place / "facts.yaml").write_text(yaml.safe_dump(facts, sort_keys=False))
    (place / "case.txt").write_text(case)


class Saved:
    """A trained model, asked directly; its beam search is the textbook's."""

    def __init__(self, folder: Path) -> None:
        facts = yaml.safe_load((folder / "facts.yaml").read_text())
        self.source, self.target = ((folder / f"{side}.txt").read_text().splitlines() for side in ("source", "target"))
        path = folder / facts["weights"]
        if path.suffix == ".safetensors":
            state = load_file(path)
        else:
            state = torch.load(path, weights_only=True)["model_state_dict"]
        case = (folder / "case.txt").read_text()
        self.model = Translator((len(self.source), len(self.target)), CASES[case]).eval()
        self.model.load_state_dict(state)

    def ids(self, text: str) -> torch.Tensor:
        return torch.tensor([[*(self.source.index(token) for token in text.split()), EOS]])

    @torch.no_grad()
    def log_probabilities(self, source: str, target: list[str]) -> torch.Tensor:
        """(T + 1, N), teacher-forced."""
        said = torch.tensor([[BOS, *(self.target.index(token) for token in target)]])
        return self.model(self.ids(source), said)[0].log_softmax(-1)

    @torch.no_grad()
    def search(self, source: str, beam: int) -> tuple[list[str], bool]:
        """The symbols of the output, and whether it ended: the finished hypothesis with the best score."""
        ids = self.ids(source)
        alive: list[tuple[float, list[int]]] = [(0.0, [BOS])]
        finished: list[tuple[float, list[int]]] = []
        for _ in range(50):
            said = torch.tensor([tokens for _, tokens in alive])
            steps = self.model(ids.expand(len(alive), -1), said)[:, -1].log_softmax(-1)
            steps[:, [PAD, BOS]] = -math.inf
            totals = steps + torch.tensor([total for total, _ in alive])[:, None]
            best = totals.flatten().topk(2 * beam)
            continued = []
            for total, place in zip(best.values.tolist(), best.indices.tolist(), strict=True):
                row, token = divmod(place, len(self.target))
                (finished if token == EOS else continued).append((total, [*alive[row][1], token]))
            alive = continued[:beam]
            if beam == 1 and finished and finished[0][0] >= continued[0][0]:
                break
            if beam > 1 and len(finished) >= beam and alive[0][0] / penalty(50) < max(map(ranked, finished)):
                break
        kept = max(finished, key=ranked)[1] if finished else alive[0][1]
        ends = kept[-1] == EOS
        return [self.target[i] for i in kept[1 : len(kept) - ends]], ends

    def score(self, source: str, target: list[str], ended: bool) -> float:
        """Of a hypothesis: log P / ((5 + T) / 6)^0.6, with the end symbol in T."""
        ids = [self.target.index(token) for token in target] + [EOS] * ended
        steps = self.log_probabilities(source, target)[: len(ids)]
        return float(steps[torch.arange(len(ids)), torch.tensor(ids)].sum()) / penalty(len(ids))


def penalty(length: int) -> float:
    return ((5 + length) / 6) ** 0.6


def ranked(hypothesis: tuple[float, list[int]]) -> float:
    return hypothesis[0] / penalty(len(hypothesis[1]) - 1)


def say(facts: Path, asked: Path, said: Path) -> None:
    """Answers questions: for each input the log-probabilities of an output, the greedy output and that of a beam."""
    saved = Saved(facts.parent)
    answers: list[object] = []
    arrays: dict[str, torch.Tensor] = {}
    for number, question in enumerate(json.loads(asked.read_text())):
        source = question["source"]
        if "hypotheses" in question:
            answers.append([saved.score(source, *hypothesis) for hypothesis in question["hypotheses"]])
            continue
        target = question["target"].split()
        arrays[str(number)] = saved.log_probabilities(source, target)
        beam = saved.search(source, BEAM)
        score = saved.score(source, *beam)
        answers.append({"target": target, "greedy": saved.search(source, 1), "beam": beam, "score": score})
    said.write_text(json.dumps({"symbols": saved.target, "answers": answers}))
    np.savez(said.with_suffix(".npz"), **{name: array.numpy() for name, array in arrays.items()})


if __name__ == "__main__":
    verb, *arguments = sys.argv[1:]
    torch.set_num_threads(1)
    if verb == "train":
        learn(arguments[0], Path(arguments[1]))
    else:
        say(*map(Path, arguments))
