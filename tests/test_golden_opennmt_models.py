"""Whole models of OpenNMT-py and eole, saved by them, converted, and compared with what they said."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from regard.cli import run
from regard.data.text import BOS
from regard.data.text.vocabulary import SPECIALS
from regard.errors import DataError, UnsupportedError
from regard.interop import convert
from regard.tasks import load
from regard.tasks.encoded import pad

GOLDEN = Path(__file__).parent / "golden"
OPENNMT = sorted(path.stem for path in (GOLDEN / "opennmt_models").glob("*.pt"))
EOLE = sorted(path.parent.name for path in (GOLDEN / "eole_models").glob("*/config.json"))
CASES = [("opennmt", name) for name in OPENNMT] + [("eole", name) for name in EOLE]
THEIR_SPECIALS = {"<blank>": "<pad>", "<s>": "<s>", "</s>": "</s>", "<unk>": "<unk>"}


def path_of(kind, name):
    folder = GOLDEN / f"{kind}_models"
    return folder / (f"{name}.pt" if kind == "opennmt" else name)


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def converted(request, tmp_path_factory):
    """A model as it is loaded from its folder, and what the other program said."""
    kind, name = request.param
    folder = tmp_path_factory.mktemp("models") / name
    convert(kind, path_of(kind, name), folder)
    said = json.loads((GOLDEN / f"{kind}_models" / "said.json").read_text(encoding="utf-8"))
    return load(folder, device="cpu"), said[name]


def columns(model, golden):
    """Our ids of the other program's symbols, in its order."""
    vocabulary = model.target.vocabulary
    names = [symbol if symbol in vocabulary else THEIR_SPECIALS[symbol] for symbol in golden["symbols"]]
    return [vocabulary.number(name) if name in vocabulary else SPECIALS.index(name) for name in names]


def log_probabilities(model, sources, targets):
    """(T + 1, N) of each pair, teacher-forced, in one batch of sources of different lengths."""
    batch, mask = pad([model.source.encode(text).ids for text in sources], end=model.source_end)
    inputs, _ = pad([model.target.encode(text).ids for text in targets], begin=BOS)
    with torch.inference_mode():
        said = model.module.decoder(inputs, model.module.prepare(batch, mask)).log_probabilities
    return [row[: len(text.split()) + 1] for row, text in zip(said, targets, strict=True)]


def test_log_probabilities_are_those_of_the_other_program(converted):
    model, golden = converted
    numbers = columns(model, golden)
    said = log_probabilities(model, golden["sources"], golden["targets"])
    for ours, theirs in zip(said, map(torch.tensor, golden["log_probabilities"]), strict=True):
        ours = ours[:, numbers]
        counted = torch.isfinite(ours)
        assert counted.tolist() == [[number > BOS for number in numbers]] * len(ours)  # padding, begin: not predicted
        torch.testing.assert_close(ours[counted], theirs[counted], atol=2e-5, rtol=0)


def test_greedy_outputs_are_those_of_the_other_program(converted):
    model, golden = converted
    search = model.config.decoding.replace(beam=1, max_length=9)
    found = model.predict(golden["sources"], search=search)
    for prediction, text in zip(found, golden["greedy"], strict=True):
        words = [word for word in text.split() if word not in THEIR_SPECIALS or word == "<unk>"]
        assert prediction.text.split() == words
        assert prediction.alignment is None or prediction.alignment.shape[1] == len(prediction.source_tokens)


def test_a_converted_model_has_sources_without_an_end_symbol(converted):
    model, _ = converted
    assert model.predict(["a b"])[0].source_tokens == ["a", "b"]
    assert "Converted from a model of" in model.card


def test_the_command_writes_a_folder_that_predict_takes(tmp_path, capsys):
    words = ["convert", "opennmt", str(path_of("opennmt", "gru_mlp")), "--output", str(tmp_path / "model")]
    assert run(words) == 0
    assert "regard predict --model" in capsys.readouterr().err
    assert run(words) == 2
    assert "add --overwrite" in capsys.readouterr().err
    assert run([*words, "--overwrite"]) == 0
    capsys.readouterr()
    assert run(["predict", "--model", str(tmp_path / "model"), "b a c"]) == 0
    assert capsys.readouterr().out.startswith("b a c\t")


@pytest.fixture
def checkpoint():
    from regard.interop.files import read_checkpoint

    return read_checkpoint(path_of("opennmt", "gru_mlp"))


def refused(checkpoint, tmp_path):
    torch.save(checkpoint, tmp_path / "changed.pt")
    convert("opennmt", tmp_path / "changed.pt", tmp_path / "out")


def test_weights_that_do_not_fit_are_refused_by_name(checkpoint, tmp_path):
    weights = checkpoint["model"]
    out = weights.pop("decoder.attn.v.weight")
    with pytest.raises(DataError, match=r"no weight decoder\.attn\.v\.weight, from which decoder\.attention\.score\.v"):
        refused(checkpoint, tmp_path)
    weights["decoder.attn.v.weight"] = out[:, 1:]
    with pytest.raises(DataError, match=r"decoder\.attn\.v\.weight is \(1, 7\); .* needs \(1, 8\)"):
        refused(checkpoint, tmp_path)
    weights |= {"decoder.attn.v.weight": out, "decoder.gate.weight": out}
    with pytest.raises(DataError, match=r"no module here has: decoder\.gate\.weight"):
        refused(checkpoint, tmp_path)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("rnn_type", "SRU", "option rnn_type of the model of OpenNMT-py is 'SRU'"),
        ("copy_attn", True, "option copy_attn"),
        ("coverage_attn", True, "option coverage_attn"),
        ("context_gate", "both", "option context_gate .* is 'both'"),
        ("encoder_type", "cnn", "option encoder_type .* is 'cnn'"),
        ("model_task", "lm", "only models of a source and a target"),
        ("dec_layers", 2, "start from those of the encoder"),
    ],
)
def test_options_that_cannot_be_expressed_are_refused_by_name(checkpoint, tmp_path, name, value, text):
    setattr(checkpoint["opt"], name, value)
    checkpoint["opt"].layers = -1
    with pytest.raises(UnsupportedError, match=text):
        refused(checkpoint, tmp_path)


def test_a_file_that_is_no_checkpoint_of_the_program_is_refused(tmp_path):
    with pytest.raises(DataError, match="has 'opt', and this one does not"):
        refused({"model": {}}, tmp_path)
    with pytest.raises(DataError, match=r"expected a checkpoint of OpenNMT-py; got list"):
        refused([1], tmp_path)
    with pytest.raises(DataError, match="expected options; got dict"):
        refused({"opt": {}, "vocab": {}}, tmp_path)


def test_vocabularies_that_do_not_belong_to_the_weights_are_refused(checkpoint, tmp_path):
    checkpoint["vocab"]["tgt"].append("more")
    with pytest.raises(DataError, match=r"emb_luts\.0\.weight is \(\d+, \d+\), but the vocabulary has \d+ symbols"):
        refused(checkpoint, tmp_path)
    del checkpoint["vocab"]["tgt"]
    with pytest.raises(DataError, match="expected a list of symbols under 'tgt'"):
        refused(checkpoint, tmp_path)


def test_half_precision_is_read_in_float32(checkpoint, tmp_path):
    for part in ("model", "generator"):
        checkpoint[part] = {name: tensor.half() for name, tensor in checkpoint[part].items()}
    torch.save(checkpoint, tmp_path / "half.pt")
    model = convert("opennmt", tmp_path / "half.pt", tmp_path / "out").model
    assert {parameter.dtype for parameter in model.module.parameters()} == {torch.float32}


@pytest.mark.parametrize(
    ("place", "name", "value", "text"),
    [
        ("decoder", "coverage_attn", True, "option coverage_attn of the model of eole is True"),
        ("decoder", "rnn_type", "LSTM", "option rnn_type .* the first states are the encoder's"),
        ("embeddings", "position_encoding_type", "Learned", "option position_encoding_type .* is 'Learned'"),
        (None, "generator_function", "sparsemax", "option generator_function"),
        (None, "encoder", None, "has no encoder; only text-to-text models"),
    ],
)
def test_options_of_eole_that_cannot_be_expressed_are_refused_by_name(tmp_path, place, name, value, text):
    folder = shutil.copytree(path_of("eole", "gru_mlp"), tmp_path / "model")
    configuration = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    section = configuration["model"] if place is None else configuration["model"][place]
    section[name] = value
    (folder / "config.json").write_text(json.dumps(configuration), encoding="utf-8")
    with pytest.raises(UnsupportedError, match=text):
        convert("eole", folder, tmp_path / "out")


def test_a_folder_of_eole_needs_its_files(tmp_path):
    with pytest.raises(DataError, match=r"is a folder with config\.json"):
        convert("eole", tmp_path / "none", tmp_path / "out")
    folder = shutil.copytree(path_of("eole", "gru_mlp"), tmp_path / "model")
    (folder / "model.00.safetensors").unlink()
    with pytest.raises(DataError, match=r"model\.00\.safetensors: there is no such file"):
        convert("eole", folder, tmp_path / "out")
