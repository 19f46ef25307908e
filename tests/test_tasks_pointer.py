"""A pointer by configuration: what it copies, what refuses it, and that it keeps the laws of text to text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import regard
from regard.cli import run
from regard.config import Configuration, load
from regard.data import Pair
from regard.data.pairs import ListedPairs
from regard.data.text import EOS, UNKNOWN, Field
from regard.decoding import Search
from regard.errors import ConfigError
from regard.models import PointerDecoder
from regard.runs.store import save
from regard.tasks import TextToText, train
from regard.tasks.decoder_losses import forced_outputs
from regard.tasks.text_to_text.config import TextToTextConfig
from regard.tasks.text_to_text.task import TextToTextTask
from regard.tasks.text_to_text.trainee import PairTrainee

WORDS = {"units": "whitespace"}
SMALL: dict[str, Any] = {
    "encoder": {"size": 8, "embedding_size": 6, "layers": 1, "dropout": 0.0},
    "decoder": {"size": 10, "embedding_size": 6, "dropout": 0.0},
    "attention": {"recipe": "bahdanau", "size": 8},
    "pointer": {},
}


SIDE = {"size": 8, "layers": 2, "heads": 2, "dropout": 0.0}
TRANSFORMER: dict[str, Any] = {"architecture": "transformer", "encoder": SIDE, "decoder": SIDE, "pointer": {}}
MODELS = {"recurrent": SMALL, "transformer": TRANSFORMER}


def configured(
    data: dict[str, Any] | None = None, model: dict[str, Any] | None = None, base: str = "recurrent", **training: Any
) -> TextToTextConfig:
    sides = {"train": "pairs.tsv", "source": WORDS, "target": WORDS}
    values = {"data": {**sides, **(data or {})}, "model": {**MODELS[base], **(model or {})}, "training": training}
    return TextToTextConfig(**values)


def untrained(config: TextToTextConfig | None = None, texts: str = "a b c d", copies: bool = True) -> TextToText:
    """A model that copies whatever it attends to, most of the time."""
    config = config or configured()
    torch.manual_seed(0)
    columns = config.data.num_columns
    source = Field.build(config.data.source, ["\t".join([texts] * columns)], name="source", num_columns=columns)
    model = TextToText.build(config, source, Field.build(config.data.target, [texts], name="target"))
    if copies:
        with torch.no_grad():
            model.module.decoder.gate.bias.fill_(-6.0)
            model.module.decoder.head.projection.bias[[EOS, UNKNOWN]] = -9.0
    return model


def pairs(*texts: tuple[str, str]) -> ListedPairs:
    return ListedPairs(
        Pair(source, target, Path("pairs.tsv"), line) for line, (source, target) in enumerate(texts, start=1)
    )


def trainee(model: TextToText, *texts: tuple[str, str]) -> PairTrainee:
    return PairTrainee(model, pairs(*texts), pairs(*texts[:1]))


# predictions


@pytest.mark.parametrize(
    "search", [Search(beam=1), Search(beam=3, num_best=3), Search(method="sampling", num_best=3, seed=5)]
)
@pytest.mark.parametrize("base", MODELS)
def test_unknown_words_are_copied_and_a_prediction_does_not_depend_on_its_batch(base: str, search: Search) -> None:
    model = untrained(configured(base=base))
    texts = ["Ulm Köln", "a b", "Bonn", "c Kiel a Jena Kiel"]
    search = model.config.decoding.replace(**{**dict(search), "min_length": 2}, max_length=4)
    together = model.predict(texts, search=search)
    for text, one in zip(texts, together, strict=True):
        alone = model.predict([text], search=search)[0]
        for ours, theirs in zip((one, *one.alternatives), (alone, *alone.alternatives), strict=True):
            assert (ours.text, ours.tokens) == (theirs.text, theirs.tokens)
            assert ours.score == pytest.approx(theirs.score, abs=1e-5)
            torch.testing.assert_close(ours.alignment, theirs.alignment, atol=1e-5, rtol=0)
            assert "<unk>" not in ours.text
            foreign = {word for other in texts if other != text for word in other.split()} - {*"abcd"}
            assert not foreign & set(ours.text.split())
    assert {"Ulm", "Köln"} & set(together[0].text.split())
    assert "Bonn" in together[2].text.split()


def test_samples_of_inputs_that_are_read_alike_belong_to_each() -> None:
    model = untrained()
    search = Search(method="sampling", num_best=4, seed=2)
    texts = ["a Ulm b", "a Bonn b", "a Ulm b"]
    together, alone = model.predict(texts, search=search), [model.predict([text], search=search)[0] for text in texts]
    found, expected = (
        [[one.text for one in (best, *best.alternatives)] for best in predictions] for predictions in (together, alone)
    )
    assert found[:2] == expected[:2]
    assert found[2] != found[0] == expected[2]


def test_predictions_have_the_probability_that_a_symbol_was_generated() -> None:
    model = untrained()
    search = model.config.decoding.replace(beam=3, num_best=3, max_length=3)
    best, other = model.predict(["Ulm a", "b"], search=search)
    for one in (best, *best.alternatives, other):
        assert one.generate.shape == (len(one.tokens),)
        assert ((one.generate > 0) & (one.generate < 0.5)).all()
        assert len(one.record()["generate"]) == len(one.tokens)
    hypotheses = [one.tokens for one in (best, *best.alternatives)]
    extension = model.extended.extend("Ulm a")
    ids = [model.extended.ids([t for t in tokens if t != "</s>"], extension).tolist() for tokens in hypotheses]
    source = torch.tensor([[UNKNOWN, 4, EOS]])
    memory = model.module.prepare(
        source, source_ids=torch.tensor([[8, 4, -1]]), extension=torch.ones(1, 1, dtype=torch.bool)
    )
    for one, tokens in zip((best, *best.alternatives), ids, strict=True):
        inputs = torch.tensor([[1, *tokens]])[:, : len(one.tokens)]
        forced = model.module.decoder(inputs, memory).auxiliary["generate"][0]
        torch.testing.assert_close(one.generate, forced, atol=1e-5, rtol=0)
    assert model.predict(["Ulm"], alignment=False)[0].generate is None
    assert "generate" not in model.predict(["Ulm"], alignment=False)[0].record()


def test_a_copied_word_is_written_as_it_stood_and_scored_as_the_model_has_it(tmp_path: Path) -> None:
    lower = {"units": "whitespace", "case": "lower"}
    model = untrained(configured({"source": lower, "target": lower}))
    search = model.config.decoding.replace(beam=1, max_length=2)
    prediction = model.predict(["Ulm"], search=search)[0]
    assert prediction.text == "Ulm Ulm"
    assert prediction.tokens == ["ulm", "ulm"]
    (tmp_path / "test.tsv").write_text("Ulm\tULM ulm\n", encoding="utf-8")
    evaluation = model.evaluate(tmp_path / "test.tsv", search=search)
    assert evaluation.metrics["sequence_error_rate"] == 0
    assert not evaluation.warnings  # what the input has can be written
    (tmp_path / "other.tsv").write_text("Ulm\tBonn\n", encoding="utf-8")
    assert "'bonn' (1)" in model.evaluate(tmp_path / "other.tsv", search=search).warnings[0]


def test_without_a_pointer_unknown_words_stay_unknown() -> None:
    model = untrained(configured(model={"pointer": None}), copies=False)
    assert model.extended is None
    assert model.predict(["Ulm"])[0].warnings == ("not in the training data, read as <unk>: 'Ulm'",)


def test_only_symbols_that_cannot_be_copied_are_warned_of() -> None:
    data = {"source_field": [0, 1], "source": {"units": ["character", "separator"], "separator": ";"}}
    model = untrained(configured({**data, "target": {"units": "character"}}), texts="ab")
    assert model.predict(["q\tab"])[0].warnings == ()
    assert model.predict(["q\tX"])[0].warnings == ("not in the training data, read as <unk>: '+X'",)
    model.predict(["q\tab"], strict=True)


def test_empty_and_overlong_inputs_harm_nobody() -> None:
    model = untrained()
    search = model.config.decoding.replace(beam=1, max_length=3, max_source_length=3)
    good, empty, long = model.predict(["Ulm", " ", "a b c d"], search=search)
    assert (empty.text, long.text) == ("", "")
    assert "max_source_length" in long.warnings[0]
    assert good.text == model.predict(["Ulm"], search=search)[0].text == "Ulm Ulm Ulm"


def test_units_that_are_pieces_copy_characters_that_training_did_not_have() -> None:
    pytest.importorskip("sentencepiece")
    side = {"units": "sentencepiece", "vocabulary_size": 20}
    model = untrained(configured({"source": side, "target": side, "autoencode": True}), texts="abc abd bcd " * 9)
    best = model.predict(["abdΩc"], search=model.config.decoding.replace(beam=9, num_best=9, max_length=3))[0]
    assert any("Ω" in one.text for one in (best, *best.alternatives))
    assert not any("⁇" in one.text for one in (best, *best.alternatives))


@pytest.mark.parametrize("base", MODELS)
def test_a_saved_model_copies_as_before(tmp_path: Path, base: str) -> None:
    options = {
        "recurrent": {"pointer": {"head": 1}, "attention": {**SMALL["attention"], "num_heads": 2}},
        "transformer": {"pointer": {"head": 1, "layer": "cross.0"}, "decoder": {**SIDE, "tied_weights": True}},
    }
    model = untrained(configured(model=options[base], base=base))
    save(model, tmp_path)
    again = regard.load(tmp_path)
    assert isinstance(again.module.decoder, PointerDecoder)
    assert again.module.decoder.alignment_head == 1
    assert again.module.decoder.main_attention == {"recurrent": "attention", "transformer": "cross.0"}[base]
    texts = ["Ulm a", "c Kiel"]
    assert [p.record() for p in again.predict(texts)] == [p.record() for p in model.predict(texts)]


# training


def test_targets_that_only_the_source_has_get_its_ids() -> None:
    model = untrained()
    made = trainee(model, ("a Ulm Bonn", "Bonn x a"), ("b", "Ulm"), ("c c", "c")).batch([0, 1, 2])
    assert made["source"].tolist() == [[4, UNKNOWN, UNKNOWN, 2], [5, 2, 0, 0], [6, 6, 2, 0]]
    assert made["source_ids"].tolist() == [[4, 8, 9, -1], [5, -1, 0, 0], [6, 6, -1, 0]]
    assert made["extension"].tolist() == [[True, True], [False, False], [False, False]]
    assert made["targets"].tolist() == [[9, UNKNOWN, 4, 2], [UNKNOWN, 2, 0, 0], [6, 2, 0, 0]]
    assert made["inputs"].tolist() == [[1, UNKNOWN, UNKNOWN, 4], [1, UNKNOWN, 0, 0], [1, 6, 0, 0]]


TEXTS = (("a Ulm Bonn", "Bonn x a"), ("b", "Ulm"), ("c c Jena", "c"), ("Ulm Ulm", "Ulm Ulm b"))


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("feedback", [0.0, 1.0])
@pytest.mark.parametrize("base", MODELS)
def test_the_loss_of_a_batch_is_the_sum_of_its_rows(base: str, feedback: float, aligned: bool) -> None:
    losses = {"alignment_losses": {"coverage": 1.0}} if aligned else {}
    model = untrained(configured(base=base, **losses, sequence_teacher_forcing=1 - feedback))
    model.module.double()
    teaching = trainee(model, *TEXTS)
    generator = torch.Generator().manual_seed(1)

    def loss(rows: list[int]) -> torch.Tensor:
        return teaching.loss(teaching.batch(rows), step=1, generator=generator).total

    torch.testing.assert_close(loss([0, 1, 2, 3]), torch.stack([loss([row]) for row in range(4)]).sum())


def test_free_runs_feed_what_was_copied_as_unknown() -> None:
    model = untrained()
    batch = trainee(model, ("Ulm", "Ulm Ulm")).batch([0])
    memory = model.module.prepare(batch["source"], source_ids=batch["source_ids"], extension=batch["extension"])
    feedback = torch.ones(1, 3, dtype=torch.bool)
    free = forced_outputs(model.module.decoder, memory, batch["inputs"], feedback).log_probabilities
    assert free.argmax(-1).tolist() == [[8, 8, 8]]
    inputs = torch.tensor([[1, UNKNOWN, UNKNOWN]])
    forced = forced_outputs(model.module.decoder, memory, inputs).log_probabilities
    torch.testing.assert_close(free, forced)


@pytest.mark.parametrize(
    ("attention", "training"),
    [
        ({"recipe": "stepwise_monotonic"}, {}),
        ({"recipe": "luong", "local": "monotonic", "reach": 1}, {}),
        ({"recipe": "show_attend_tell", "hard": True}, {"reinforce": {"weight": 1.0}}),
    ],
)
def test_unknown_words_that_attention_gives_no_weight_have_a_finite_loss(attention: Any, training: Any) -> None:
    model = untrained(configured(model={"attention": attention}, **training))
    teaching = trainee(model, ("a b a b Ulm Bonn a b", "Bonn Ulm Bonn"), ("a a Jena", "Jena Jena"))
    loss = teaching.loss(teaching.batch([0, 1]), step=1, generator=torch.Generator())
    loss.total.backward()
    assert loss.total.isfinite()
    assert teaching.places([1, 0]) == ["pairs.tsv:2", "pairs.tsv:1"]
    assert all(p.grad.isfinite().all() for p in model.module.parameters() if p.grad is not None)


def test_coverage_is_a_recipe_and_a_loss() -> None:
    attention = {"recipe": "coverage", "size": 8}
    model = untrained(configured(model={"attention": attention}, alignment_losses={"coverage": 1.0}))
    teaching = trainee(model, *TEXTS)
    loss = teaching.loss(teaching.batch([0, 3]), step=1, generator=torch.Generator())
    loss.total.backward()
    assert "alignment_coverage" in loss.metrics
    gradients = {name: p.grad for name, p in model.module.named_parameters() if p.grad is not None}
    assert all(gradient.isfinite().all() for gradient in gradients.values())
    assert any("attention.score" in name and gradient.any() for name, gradient in gradients.items())


def written(folder: Path, **training: Any) -> Configuration:
    """Words in another order, most of which occur once."""
    lines = [f"w{n} v{n % 3} u{n * 7}\tu{n * 7} w{n} v{n % 3}\n" for n in range(40)]
    folder.mkdir(exist_ok=True)
    (folder / "train.tsv").write_text("".join(lines), encoding="utf-8")
    (folder / "dev.tsv").write_text("x1 v1 x2\tx2 x1 v1\n", encoding="utf-8")
    rare = {"units": "whitespace", "min_count": 2}
    files = {"train": folder / "train.tsv", "dev": folder / "dev.tsv", "source": rare, "target": rare}
    loop = {"epochs": 4, "batch_tokens": 60, "validate_every": 3, "samples": 0, "device": "cpu", "threads": 1}
    values = {"data": files, "model": {**SMALL, "decoder": {**SMALL["decoder"], "dropout": 0.2}}}
    config = TextToTextConfig(**values, training={**loop, "scheduled_sampling": 0.2, **training})
    return Configuration(config, origin="test.yaml")


def test_a_run_that_was_stopped_twice_has_the_same_bits(tmp_path: Path) -> None:
    constant = {"schedule": "constant", "warmup_steps": 0}
    train(written(tmp_path, **constant), tmp_path / "whole")
    for steps in (4, 7, None):
        train(written(tmp_path, **constant, max_steps=steps), tmp_path / "stopped")
    first, second = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "stopped"))
    assert first == second


def test_a_second_phase_adds_coverage_to_a_trained_pointer(tmp_path: Path) -> None:
    train(written(tmp_path), tmp_path / "first")
    values = written(tmp_path, start_from=tmp_path / "first", max_steps=1, learning_rate=1e-6).config.model_dump()
    values["model"]["attention"] = {"recipe": "coverage", "size": 8}
    values["training"]["alignment_losses"]["coverage"] = 1.0
    train(Configuration(TextToTextConfig(**values), origin="second.yaml"), tmp_path / "second")
    before, after = (regard.load(tmp_path / name).module.state_dict() for name in ("first", "second"))
    score = "decoder.core.attention.score."
    for name, weight in before.items():
        other = name.replace(score, f"{score}content.")
        torch.testing.assert_close(weight, after.pop(other), rtol=0, atol=1e-5)
    assert set(after) == {f"{score}coverage_projection", f"{score}content.query_projection.bias"}


def test_a_pointer_starts_from_a_model_without_one(tmp_path: Path) -> None:
    values = written(tmp_path).config.model_dump()
    values["model"]["pointer"] = None
    train(Configuration(TextToTextConfig(**values), origin="first.yaml"), tmp_path / "first")
    train(written(tmp_path, start_from=tmp_path / "first", max_steps=1, learning_rate=1e-6), tmp_path / "second")
    before, after = (regard.load(tmp_path / name).module.state_dict() for name in ("first", "second"))
    for name, weight in before.items():
        inner = name.startswith("decoder.") and not name.startswith("decoder.head.")
        copied = after[name.replace("decoder.", "decoder.core.", 1) if inner else name]
        torch.testing.assert_close(weight, copied, rtol=0, atol=1e-5)


# configurations


@pytest.mark.parametrize(
    ("changes", "path", "text"),
    [
        ({"model": {"attention": None}}, "model.pointer", "set model.attention"),
        ({"model": {"pointer": {"head": 1}}}, "model.pointer.head", "there is no head 1: the attention has 1 head"),
        (
            {"model": {"pointer": {"layer": "cross.0"}}},
            "model.pointer.layer",
            "'cross.0' is not one of its alignments: attention",
        ),
        ({"base": "transformer", "model": {"pointer": {"layer": "cross.2"}}}, "model.pointer.layer", "'cross.2' is"),
        ({"base": "transformer", "model": {"pointer": {"head": 2}}}, "model.pointer.head", "has 2 heads"),
        ({"data": {"target": {"units": "character"}}}, "model.pointer", "whitespace are none of units character"),
        ({"data": {"source": {"units": "byte"}}}, "model.pointer", "byte are none of units whitespace"),
        ({"training": {"compile": True}}, "model.pointer", "not compiled"),
    ],
)
def test_a_pointer_without_meaning_is_refused(changes: dict[str, Any], path: str, text: str) -> None:
    base = changes.get("base", "recurrent")
    config = configured(changes.get("data"), changes.get("model"), base, **changes.get("training", {}))
    with pytest.raises(ConfigError, match=text) as caught:
        TextToTextTask().draft(config)
    assert ".".join(map(str, caught.value.path)) == path


def test_a_configuration_that_lacks_unknown_symbols_is_warned_of(tmp_path: Path) -> None:
    config = written(tmp_path).config
    task = TextToTextTask()

    def findings(config: TextToTextConfig) -> str:
        return str(task.check(config, task.read(config)))

    assert "does not learn to copy" not in findings(config)
    values = config.model_dump()
    values["data"]["target"]["min_count"] = 1
    assert "data.target.min_count=2" in findings(TextToTextConfig(**values))
    values["model"]["pointer"] = None
    assert "does not learn to copy" not in findings(TextToTextConfig(**values))


def test_the_command_line_has_the_pointer(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "run"
    written(tmp_path)
    (tmp_path / "p.yaml").write_text(
        "data: {train: train.tsv, dev: dev.tsv, source: {units: word, min_count: 2}, "
        "target: {units: word, min_count: 2}}\nmodel:\n  pointer: {}\n  encoder: {size: 8, layers: 1}\n"
        "training: {max_steps: 2, device: cpu, threads: 1}\n",
        encoding="utf-8",
    )
    assert load(tmp_path / "p.yaml").config.model.pointer is not None
    assert run(["train", str(tmp_path / "p.yaml"), "--output", str(folder)]) == 0
    capsys.readouterr()
    assert run(["info", str(folder)]) == 0
    assert "pointer" in capsys.readouterr().out
    assert run(["predict", "--model", str(folder), "--format", "jsonl", "Ulm, Köln"]) == 0
    assert json.loads(capsys.readouterr().out)["warnings"] == []
