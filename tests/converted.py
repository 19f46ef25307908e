"""What tests of converted models share: the models of a folder of goldens, and what the other program said."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from regard.data.text import BOS
from regard.data.text.vocabulary import SPECIALS
from regard.interop import convert
from regard.tasks import load
from regard.tasks.encoded import pad

GOLDEN = Path(__file__).parent / "golden"
CLOSE = 2e-5


def converted(kind, path, folder):
    """A model as it is loaded from the folder that `regard convert` writes."""
    convert(kind, path, folder)
    return load(folder, device="cpu")


def golden(folder, case):
    """What the other program said of a model, by name."""
    return json.loads((GOLDEN / folder / "said.json").read_text(encoding="utf-8"))[case]


def columns(model, symbols):
    """Our ids of the other program's symbols, in its order."""
    return [SPECIALS.index(s) if s in SPECIALS else model.target.vocabulary.number(s) for s in symbols]


def log_probabilities(model, sources, targets):
    """(T + 1, N) of each pair, teacher-forced, in one batch of sources of different lengths."""
    batch, mask = pad(
        [model.source.encode(text).ids for text in sources], begin=model.source_begin, end=model.source_end
    )
    ids = [model.target.encode(text).ids for text in targets]
    inputs, _ = pad(ids, begin=BOS)
    with torch.inference_mode():
        said = model.module.decoder(inputs, model.module.prepare(batch, mask)).log_probabilities
    return [row[: len(each) + 1] for row, each in zip(said, ids, strict=True)]


def check_log_probabilities(model, theirs):
    """They are the other program's, but for those that are forbidden; the rest is not certain of anything."""
    numbers = columns(model, theirs["symbols"])
    said = log_probabilities(model, theirs["sources"], theirs["targets"])
    for ours, rows in zip(said, theirs["log_probabilities"], strict=True):
        expected = torch.tensor(rows)
        chosen = ours[:, numbers]
        counted = torch.isfinite(chosen)
        assert (counted.sum(1) >= len(numbers) - 2).all()
        torch.testing.assert_close(chosen[counted], expected[counted], atol=CLOSE, rtol=0)


def check_greedy(model, theirs, longest):
    """Greedy outputs are the other program's, symbol by symbol."""
    search = model.config.decoding.replace(beam=1, max_length=longest)
    found = model.predict(theirs["sources"], search=search)
    for prediction, symbols in zip(found, theirs["greedy"], strict=True):
        ended = prediction.stop_reason == "eos"
        assert prediction.tokens[: len(prediction.tokens) - ended] == symbols
