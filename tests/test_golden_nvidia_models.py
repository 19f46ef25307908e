"""A Tacotron 2 of NVIDIA's, saved as it saves, converted, and compared with what it said."""

from __future__ import annotations

import json

import pytest
import torch

import converted as c
from regard.cli import run
from regard.decoding import free_run
from regard.errors import ConfigError, DataError, UnsupportedError
from regard.interop import convert

FOLDER = c.GOLDEN / "nvidia_models"
TEXTS = ("is it so?", "yes")
STEPS = 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "voice"
    convert("nvidia", FOLDER / "checkpoint.pt", folder)
    return folder


@torch.no_grad()
def test_forced_and_free_speech_is_theirs(folder):
    model, theirs = c.load(folder, device="cpu"), json.loads((FOLDER / "said.json").read_text())
    tacotron = model.module.tacotron
    tacotron.decoder.prenet.dropout.p = 0.0  # the goldens were made without dropout
    for number, text in enumerate(TEXTS):
        ids = torch.from_numpy(model.field.encode(text).ids)
        frames = torch.tensor(theirs[f"{number}.frames"])
        assert len(ids) == len(theirs[f"{number}.ids"])
        forced = tacotron(ids[None], frames[None], num_frames=1)
        memory = tacotron.decoder.prepare(tacotron.encode(ids[None]))
        first = tacotron.decoder.first_inputs(memory, 1)
        (free,) = free_run(tacotron.decoder, memory, first, max_length=STEPS, alignment=True)
        ours = {
            "forced.frames": forced.frames[0],
            "forced.refined": forced.refined["mel"][0],
            "forced.stop": forced.stop[0].flatten(),
            "forced.alignment": forced.alignments["attention"][0, 0],
            "free.frames": free.values.reshape(STEPS, -1),
            "free.stop": free.auxiliary["stop"].flatten(),
            "free.alignment": free.alignments["attention"][0],
        }
        for name, value in ours.items():
            torch.testing.assert_close(value, torch.tensor(theirs[f"{number}.{name}"]), atol=2e-5, rtol=0)


def test_the_command_reads_aloud_without_an_end_symbol(folder, tmp_path, capsys):
    assert run(["predict", "--model", str(folder), "--files", str(tmp_path / "sound"), "Yes"]) == 0
    assert any(path.suffix == ".wav" for path in (tmp_path / "sound").iterdir())
    capsys.readouterr()
    model = c.load(folder, device="cpu")
    (speech,) = model.predict(["Yes"], sound=False)
    assert speech.tokens == ("y", "e", "s")
    assert speech.alignment.shape[1] == 3


def changed(tmp_path, change, **options):
    saved = torch.load(FOLDER / "checkpoint.pt", weights_only=True)
    change(saved["state_dict"])
    torch.save(saved, tmp_path / "changed.pt")
    return convert("nvidia", tmp_path / "changed.pt", tmp_path / "out", **options)


def test_checkpoints_that_do_not_fit_are_refused_by_name(tmp_path):
    def cut(name, rows=1):
        return lambda state: state.update({name: state[name][rows:]})

    with pytest.raises(DataError, match=r"embedding\.weight is \(147, 6\), but there are 148 symbols"):
        changed(tmp_path, cut("embedding.weight"))
    with pytest.raises(DataError, match=r"no weight decoder\.gate_layer\.linear_layer\.weight"):
        changed(tmp_path, lambda state: state.pop("decoder.gate_layer.linear_layer.weight"))
    with pytest.raises(DataError, match=r"key_projection\.weight needs \(4, 6\); the weight is \(3, 6\)"):
        changed(tmp_path, cut("decoder.attention_layer.memory_layer.linear_layer.weight"))
    with pytest.raises(DataError, match=r"no module here has: decoder\.speaker"):
        changed(tmp_path, lambda state: state.update({"decoder.speaker": torch.ones(1)}))
    with pytest.raises(UnsupportedError, match="has 79 numbers of 80 channels"):
        changed(tmp_path, cut("decoder.linear_projection.linear_layer.weight"))
    with pytest.raises(ConfigError, match=r"fact case: .* got 'title'"):
        changed(tmp_path, lambda state: None, facts={"case": "title"})


def test_a_model_with_symbols_of_its_own_is_told_them(tmp_path):
    (tmp_path / "symbols.txt").write_text("_\na\nb\n")
    files = {"symbols": tmp_path / "symbols.txt"}
    model = changed(tmp_path, lambda state: state.update({"embedding.weight": torch.randn(3, 6)}), files=files).model
    assert model.field.vocabulary.symbols == ("a", "b")
    assert "NVIDIA's cleaners" not in model.card
