"""Speech: networks of other implementations by `model.like`."""

from __future__ import annotations

import json
import re
from inspect import signature
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
import yaml

from regard.config import load as read_config
from regard.config.schema import AttentionConfig
from regard.errors import ConfigError
from regard.interop.variants import FORMS, TACOTRONS
from regard.tasks import load, train
from regard.tasks.build import build_mechanism
from regard.tasks.text_to_speech.config import SpeechPostnetConfig, TacotronConfig
from regard.tasks.text_to_speech.forms import form_of
from task_cases import LOOP, recordings


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recordings")
    recordings(folder)
    return folder


LIKE = [(like, architecture) for like, forms in FORMS.items() for architecture in forms]
TINY = {
    "tacotron2": {
        "encoder": {"size": 8, "embedding_size": 8, "convolutions": 1},
        "decoder": {"size": 8, "prenet_sizes": [6], "num_frames": 3},
        "postnet": {"size": 6, "layers": 2},
        "attention": {"size": 6},
    },
    "tacotron1": {
        "encoder": {"size": 8, "embedding_size": 6, "filters": 2},
        "decoder": {"size": 8, "prenet_sizes": [6, 4], "num_frames": 3},
        "postnet": {"size": 8},
        "attention": {"size": 6},
    },
}


def like_a_peer(folder: Path, model: dict[str, Any], *settings: str) -> Any:
    path = folder / "peer.yaml"
    values = {"task": "text_to_speech", "data": {"train": "train.csv", "dev": "dev.csv"}, "model": model}
    path.write_text(
        yaml.safe_dump(
            values
            | {
                "training": {
                    **LOOP,
                    "batch_frames": 200,
                    "samples": 0,
                    "validation_sentences": 1,
                    "average_checkpoints": 0,
                }
            }
        ),
        encoding="utf-8",
    )
    return read_config(path, list(settings))


def test_every_implementation_of_a_tacotron_is_a_line_of_configuration() -> None:
    assert {(like, architecture) for architecture, variants in TACOTRONS.items() for like in variants} == set(LIKE)
    assert set(get_args(get_args(TacotronConfig.model_fields["like"].annotation)[0])) == set(FORMS)


@pytest.mark.parametrize(("like", "architecture"), LIKE)
def test_without_sizes_the_network_has_the_published_ones(like: str, architecture: str, data: Path) -> None:
    model = {"like": like} | ({"architecture": architecture} if architecture != next(iter(FORMS[like])) else {})
    config = like_a_peer(data, model).config
    assert config.model.architecture == architecture
    builder = signature(TACOTRONS[architecture][like]).parameters
    options = form_of(like, architecture).options(config.model)
    assert options == {name: builder[name].default for name in options}
    left = {"num_features", "num_linear", "attention", "num_symbols", "kernel_size", "prenet_dropout"}
    left |= {
        "activation",
        "separate_stop",
        "momentum",
        "postnet_filters",
        "postnet_projection",
        "bank_size",
    }  # as in every published model
    assert builder.keys() - options.keys() <= left | ({"dropout"} if like == "espnet" else set())
    # what is written into a run folder is read as the same
    assert type(config).model_validate(config.model_dump()).model == config.model
    with torch.device("meta"):
        sizes = {"query_size": config.model.decoder.size, "memory_size": config.model.encoder.size}
        kept = build_mechanism(config.model.attention, **sizes, input_size=80)
        own = TACOTRONS[architecture][like](9)
    shapes = [{name: w.shape for name, w in net.named_parameters()} for net in (kept, own.decoder.attention)]
    assert shapes[0] == shapes[1]
    assert repr(kept.alignment) == repr(own.decoder.attention.alignment)
    assert type(kept.window) is type(own.decoder.attention.window)


@pytest.mark.parametrize(("like", "architecture"), LIKE)
def test_a_network_of_another_implementation_learns_and_speaks(
    like: str, architecture: str, data: Path, tmp_path: Path
) -> None:
    config = like_a_peer(
        data, {"like": like, "architecture": architecture, **TINY[architecture]}, "training.max_steps=2",
        "decoding.max_frames_per_unit=6.0", "select=loss", "training.scheduled_sampling=0.3",
    )  # fmt: skip
    train(config, tmp_path / "run")
    model = load(tmp_path / "run", device="cpu")
    network, decoder = model.module.tacotron, model.module.tacotron.decoder
    assert model.information()["like"] == like
    assert decoder.num_frames == 3
    assert decoder.num_fed_frames == {"nvidia": 3, "speechbrain": 3, "mozilla": 5}.get(like, 1)
    assert (decoder.head.stop is None) == (like == "keithito")
    assert ("linear" in network.postnets) == (architecture == "tacotron1" or like == "rayhane")
    texts = ["a sea", "so it is one"]
    together = model.predict(texts)
    for text, speech in zip(texts, together, strict=True):
        (alone,) = model.predict([text], sound=False)
        assert torch.allclose(alone.mel, speech.mel, atol=1e-4)
        assert (speech.stop is None) == (like == "keithito")
        assert speech.samples is not None
    model.plot(together[:1], tmp_path / "picture.png")
    model.evaluate(data / "test.csv", sound=False, joined=0)


def other(value: Any) -> Any:
    """Another value of a key."""
    changed = {"training": "always", "always": "training", "new": "top", "top": "new", "old": "new", None: 9}
    changed |= {"tacotron1": "tacotron2", "tacotron2": "tacotron1"}
    if isinstance(value, bool):
        return not value
    return changed[value] if value in changed else value + (0.2 if isinstance(value, float) else 1)


@pytest.mark.parametrize(("like", "architecture"), LIKE)
def test_keys_that_a_form_fixes_cannot_be_set_otherwise(like: str, architecture: str, data: Path) -> None:
    form = FORMS[like][architecture]
    for key in {*form.fixed, *(pair[0] for pair in form.equal)} - ({"architecture"} if like == "coqui" else set()):
        value = other(form.published[key]) if key != "decoder.dropout" else 0.2
        shown = value if isinstance(value, str) else json.dumps(value)
        line = f"model.{key}={shown}"
        also = [f"model.{leader}={form.published[leader]}" for follower, leader in form.equal if follower == key]
        with pytest.raises(ConfigError, match=rf"{re.escape(line)}: like: {like} has .*; got {shown}\. Leave "):
            like_a_peer(data, {"like": like, "architecture": architecture}, *also, line)
        same = json.dumps(form.published[key])
        assert like_a_peer(data, {"like": like, "architecture": architecture}, f"model.{key}={same}")
    if form.uniform:
        with pytest.raises(ConfigError, match=r"prenet whose layers are all of one size; got \[4, 5\]"):
            like_a_peer(data, {"like": like}, "model.decoder.prenet_sizes=[4, 5]")
    with pytest.raises(ConfigError, match=rf"postnet.layers=0: like: {like} has a postnet; got 0 layers"):
        like_a_peer(data, {"like": like}, "model.postnet.layers=0")


def test_of_two_sizes_that_are_one_the_other_follows_and_sections_of_python_count_what_was_set(data: Path) -> None:
    narrow = like_a_peer(data, {"like": "nvidia", "encoder": {"size": 32}, "decoder": {"num_frames": 2}}).config.model
    assert (narrow.encoder.embedding_size, narrow.decoder.num_fed_frames, narrow.decoder.size) == (32, 2, 1024)
    wide = TacotronConfig(
        like="coqui", architecture="tacotron1", postnet=SpeechPostnetConfig(size=64),
        attention=AttentionConfig(recipe="gmm"),
    )  # fmt: skip
    assert (wide.encoder.size, wide.postnet.size, wide.decoder.num_frames) == (64, 64, 2)
    assert wide.attention.model_dump() == {"recipe": "gmm"}
    kept = like_a_peer(data, {"like": "espnet", "attention": {"size": 7}}).config.model.attention
    assert kept.model_dump() == {"recipe": "location_sensitive", "like": "espnet", "size": 7}
    with pytest.raises(ConfigError, match=r"model.like=festival: expected one of coqui, .*, or null; got 'festival'"):
        like_a_peer(data, {}, "model.like=festival")
    with pytest.raises(ConfigError, match=r"model.like=\[1\]: expected one of coqui"):
        like_a_peer(data, {}, "model.like=[1]")
