"""Models around `torch.nn.Transformer` of this torch, saved, converted with a file of facts, and compared."""

from __future__ import annotations

import math

import pytest
import torch
import yaml
from safetensors.torch import save_file
from torch import nn

import converted as c
from regard.data.text import BOS, EOS
from regard.errors import DataError
from regard.interop import convert

SOURCE = ["<unk>", "<pad>", "<bos>", "<eos>", "a", "b", "c", "d"]
TARGET = ["<pad>", "<bos>", "<eos>", "<unk>", "x", "y", "z"]
SIZE, LONGEST = 8, 20
NAMES = {"transformer": "core", "source": "embed.source", "target": "embed.target", "output": "out"}
PAIRS = [("a", "x y"), ("b a c a d", "y z x"), ("d", "")]


class Translator(nn.Module):
    """The parts around the Transformer, as people write them."""

    def __init__(self, *, positions, scaled, tied, **options):
        super().__init__()
        self.embed = nn.ModuleDict(
            {"source": nn.Embedding(len(SOURCE), SIZE), "target": nn.Embedding(len(TARGET), SIZE)}
        )
        self.core = nn.Transformer(SIZE, 2, 2, 1, 12, dropout=0.1, batch_first=True, **options)
        self.out = nn.Linear(SIZE, len(TARGET))
        if tied:
            self.out.weight = self.embed["target"].weight
        self.scale = math.sqrt(SIZE) if scaled else 1.0
        if positions == "learned":
            self.table = nn.Parameter(torch.zeros(LONGEST, SIZE))
        elif positions is not None:
            angles = torch.arange(LONGEST)[:, None] * 10000 ** (-torch.arange(0, SIZE, 2) / SIZE)
            table = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)
            self.register_buffer("table", table[:, None])
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.6)

    def forward(self, source, target):
        def embedded(side, ids):
            x = self.embed[side](ids) * self.scale
            return x + self.table.reshape(LONGEST, SIZE)[: ids.shape[1]] if hasattr(self, "table") else x

        future = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        decoded = self.core(embedded("source", source), embedded("target", target), tgt_mask=future)
        return self.out(decoded).log_softmax(-1)


CASES = {
    "post": {"positions": "sinusoidal", "scaled": True, "tied": False, "norm_first": False},
    "pre": {"positions": "learned", "scaled": False, "tied": True, "norm_first": True, "activation": "gelu"},
    "no biases": {"positions": None, "scaled": False, "tied": False, "bias": False, "layer_norm_eps": 1e-3},
}


def written(folder, case, *, safe=False, edit=lambda state: None, **changes):
    """The files of a model, and the model."""
    options = CASES[case]
    torch.manual_seed(3)
    model = Translator(**options).eval()
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    edit(state)
    if safe:
        save_file(state, folder / "weights.safetensors")
    else:
        torch.save({"model_state_dict": state, "epoch": 3}, folder / "weights.pt")
    (folder / "source.txt").write_text("\n".join(SOURCE) + "\n")
    (folder / "target.txt").write_text("\n".join(TARGET) + "\n")
    facts = {
        "weights": "weights.safetensors" if safe else "weights.pt",
        "names": NAMES | ({"positions": ["table"]} if options["positions"] else {}),
        "heads": 2,
        "norm_first": options.get("norm_first", False),
        "activation": options.get("activation", "relu"),
        "norm_epsilon": options.get("layer_norm_eps", 1e-5),
        "scaled_embeddings": options["scaled"],
        "positions": options["positions"],
        "source_begin": False,
        "source_end": True,
        "source": {"units": "whitespace", "vocabulary": "source.txt"},
        "target": {"units": "whitespace", "vocabulary": "target.txt"},
        **changes,
    }
    (folder / "facts.yaml").write_text(yaml.safe_dump(facts))
    return model


@pytest.mark.parametrize(("begin", "end"), [(False, True), (True, True), (True, False), (False, False)])
@pytest.mark.parametrize("case", CASES)
def test_log_probabilities_are_torchs(case, begin, end, tmp_path):
    theirs = written(tmp_path, case, safe=case == "pre", source_begin=begin, source_end=end)
    model = c.converted("torch", tmp_path / "facts.yaml", tmp_path / "model")
    ours = c.log_probabilities(model, *zip(*PAIRS, strict=True))
    numbers = c.columns(model, [{"<bos>": "<s>", "<eos>": "</s>"}.get(symbol, symbol) for symbol in TARGET])
    for (source, target), said in zip(PAIRS, ours, strict=True):
        ids = torch.tensor([[SOURCE.index(token) for token in [*["<bos>"] * begin, *source.split(), *["<eos>"] * end]]])
        inputs = torch.tensor([[TARGET.index(token) for token in ["<bos>", *target.split()]]])
        with torch.no_grad():
            expected = theirs(ids, inputs)[0]
        torch.testing.assert_close(said[:, numbers][:, 2:], expected[:, 2:], atol=c.CLOSE, rtol=0)
    greedy = model.predict(["b a c"], search=model.config.decoding.replace(beam=1, max_length=5))
    assert len(greedy[0].tokens) <= 6
    assert greedy[0].source_tokens == [*["<s>"] * begin, *"bac", *["</s>"] * end]
    assert greedy[0].alignment.shape[1] == len(greedy[0].source_tokens)
    words = model.by_words(greedy[0])
    assert words.source_tokens == [*"bac", *["</s>"] * end]
    torch.testing.assert_close(words.alignment, greedy[0].alignment[:, int(begin) :])
    aligned = model.align([("b a c", "x y")])[0]
    assert aligned.source_tokens == ["b", "a", "c"]
    torch.testing.assert_close(aligned.alignment.sum(1) + aligned.rest, torch.ones(2))
    assert (BOS, EOS) == (1, 2)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"source_begin": None}, r"facts\.yaml: source_begin: Input should be a valid boolean"),
        ({"heads": "two"}, r"facts\.yaml: heads: Input should be a valid integer"),
        ({"dropout": 0.1}, r"facts\.yaml: dropout: Extra inputs are not permitted"),
        ({"positions": "rotary"}, r"facts\.yaml: positions: Input should be 'sinusoidal'"),
        ({"positions": "half_sinusoidal"}, "table is not a table of positions: half_sinusoidal"),
        ({"names": NAMES | {"source": "embedding"}}, r"no weight embedding\.weight; set names\.source"),
        ({"names": NAMES | {"transformer": "body"}}, r"no weight encoder\.layers\.0\.linear1\.weight"),
        ({"names": NAMES}, "no module here has: table"),
        ({"weights": "other.pt"}, r"other\.pt: there is no such file"),
        (
            {"target": {"units": "whitespace", "vocabulary": "source.txt"}},
            r"embed\.target is \(7, 8\), but .* 8 symbols",
        ),
    ],
)
def test_facts_that_do_not_fit_are_refused_by_name(change, text, tmp_path):
    written(tmp_path, "post", **change)
    with pytest.raises(DataError, match=text):
        convert("torch", tmp_path / "facts.yaml", tmp_path / "model")


@pytest.mark.parametrize("name", ["source_begin", "source_end"])
def test_what_no_file_says_is_asked_for(name, tmp_path):
    written(tmp_path, "post")
    facts = yaml.safe_load((tmp_path / "facts.yaml").read_text())
    del facts[name]
    (tmp_path / "facts.yaml").write_text(yaml.safe_dump(facts))
    with pytest.raises(DataError, match=rf"facts\.yaml: {name} is missing: whether the (begin|end) symbol"):
        convert("torch", tmp_path / "facts.yaml", tmp_path / "out")


def test_weights_that_do_not_fit_are_refused_by_name(tmp_path):
    name = "core.decoder.layers.0.linear2.weight"
    for change, text in (
        (lambda state: state.pop(name), r"no weight decoder\.layers\.0\.linear2\.weight"),
        (lambda state: state.update({name: state[name][1:]}), r"linear2\.weight is \(7, 12\); .* needs \(8, 12\)"),
        (lambda state: state.update({"core.gate": state[name]}), "no module here has: gate"),
    ):
        written(tmp_path, "post", edit=change)
        with pytest.raises(DataError, match=text):
            convert("torch", tmp_path / "facts.yaml", tmp_path / "model")
