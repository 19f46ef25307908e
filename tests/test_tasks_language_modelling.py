"""Language modelling: reading, training, continuing, evaluating, drawing, refusing."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regard.config import Configuration
from regard.config import load as read_config
from regard.config.place import yaml_text
from regard.data.text import RunningText, WordUnits
from regard.decoding import Search
from regard.errors import ConfigError, DataError
from regard.runs.store import save
from regard.tasks import TASKS, LanguageModel, compilation, explain, load, train
from regard.tasks.language_modelling.build import build_model
from regard.tasks.language_modelling.config import ContinuationConfig, LanguageModellingConfig
from regard.tasks.language_modelling.reading import check, read_text
from regard.tasks.language_modelling.trainee import LanguageTrainee

LINES = [
    f"{a} {b} {c}." for a in ("the", "a", "no") for b in ("cat", "dog", "owl", "fox") for c in ("sat", "ran", "hid")
]
SIZES = {"recurrent": {"size": 12, "dropout": 0.1}, "transformer": {"size": 8, "layers": 2, "heads": 2, "dropout": 0.1}}
PASTS = ["state", "attention", "key_value", "key_value_predict", "ngram"]
KINDS = [{"past": past} for past in PASTS] + [{"architecture": "transformer"}]


def written(folder: Path, name: str = "text.txt", times: int = 4) -> Path:
    path = folder / name
    path.write_text("\n".join(LINES * times) + "\n", encoding="utf-8")
    return path


def config(model: dict[str, Any] | None = None, data: dict[str, Any] | None = None, **sections: Any) -> Any:
    model = model or {}
    return LanguageModellingConfig(
        data={"train": "text.txt", **(data or {})},
        model={**SIZES[model.get("architecture", "recurrent")], "architecture": "recurrent", **model},
        training={"window": 16, "batch_size": 4, **sections.pop("training", {})},
        **sections,
    )


def untrained(given: LanguageModellingConfig | None = None) -> LanguageModel:
    torch.manual_seed(0)
    vocabulary = RunningText.read(_fixed()).field
    return LanguageModel.build(given or config(), vocabulary)


_FOLDER: list[Path] = []


@pytest.fixture(scope="module", autouse=True)
def _text(tmp_path_factory: pytest.TempPathFactory) -> None:
    _FOLDER[:] = [tmp_path_factory.mktemp("text")]
    written(_FOLDER[0])


def _fixed() -> Path:
    return _FOLDER[0] / "text.txt"


def configuration(folder: Path, text: str = "", *settings: str, train: str = "text.txt") -> Configuration:
    file = folder / "run.yaml"
    file.write_text(f"task: language_modelling\ndata: {{train: {train}}}\n{text}", encoding="utf-8")
    small = ["training.max_steps=4", "training.validate_every=2", "training.samples=1", "training.batch_size=8"]
    return read_config(file, [*small, "training.window=16", "decoding.max_length=5", *settings])


def trained(folder: Path, text: str = "model: {size: 12}\n", *settings: str) -> Path:
    written(folder)
    train(configuration(folder, text, *settings), folder / "run")
    return folder / "run"


# laws (those of every task: tests/test_task_laws.py)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.get("past", "transformer"))
@pytest.mark.parametrize("method", ["sampling", "beam"])
def test_a_continuation_does_not_depend_on_its_batch(kind: dict[str, Any], method: str) -> None:
    model = untrained(config(kind, decoding={"max_length": 9, "method": method}))
    texts = ["the cat", "a", "", "no dog hid.\nthe"]
    together = model.predict(texts)
    for text, one in zip(texts, together, strict=True):
        (alone,) = model.predict([text])
        assert alone.tokens == one.tokens
        assert alone.log_probability == pytest.approx(one.log_probability, abs=1e-5)
        if alone.alignment is not None:
            torch.testing.assert_close(alone.alignment, one.alignment, atol=1e-5, rtol=0)


def test_a_setting_of_another_task_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"training\.label_smoothing=0\.1: unknown key; text_to_text, .*have it"):
        configuration(tmp_path, "", "training.label_smoothing=0.1")
    with pytest.raises(ConfigError, match=r"model\.norm: unknown key; it belongs to architecture: transformer"):
        configuration(tmp_path, "model: {norm: post}\n")


# reading


def test_lists_of_files_follow_one_another_and_are_relative_to_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo")
    (tmp_path / "b.txt").write_text("three\n")
    (tmp_path / "dev.txt").write_text("two\none\n")
    given = configuration(tmp_path, "", "data.dev=dev.txt", train="[a.txt, b.txt]").config
    assert [path.name for path in given.data.train] == ["a.txt", "b.txt"]
    assert all(path.is_absolute() for path in given.data.train)
    given = given.model_copy(update={"data": given.data.model_copy(update={"dev": tmp_path / "dev.txt"})})
    text = read_text(given.data)
    assert text.decode(text.ids[: text.train.stop].tolist()) == "one\ntwo\nthree\n"
    assert [file.name for file in TASKS["language_modelling"].files(given)] == ["train.0", "train.1", "dev"]


def test_dev_and_dev_fraction_together_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="dev_fraction has no effect with a dev file"):
        configuration(tmp_path, "", "data.dev=text.txt", "data.dev_fraction=0.2").check_unread()


def test_limits_of_a_vocabulary_that_is_fixed_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no effect with units: byte"):
        configuration(tmp_path, "", "data.units=byte", "data.min_count=2").check_unread()


@pytest.mark.parametrize("units", ["character", "word", "whitespace", "byte"])
def test_all_units_can_be_trained_on(tmp_path: Path, units: str) -> None:
    run = trained(tmp_path, "model: {size: 4}\n", f"data.units={units}", "data.case=upper")
    model = load(run)
    assert model.text.normalisation.case == "upper"
    assert model.predict(["the cat"])[0].tokens == model.predict(["THE CAT"])[0].tokens


def test_the_check_reports_what_makes_figures_misleading(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(
        "the same line with many words again and again over and over now it ends here ok yes .\n" * 30
    )
    (tmp_path / "dev.txt").write_text(
        "the same line with many words again and again over and over now it ends here ok yes .\nunseen\n"
    )
    given = config(data={"train": tmp_path / "text.txt", "dev": tmp_path / "dev.txt", "units": "word"})
    shown = str(check(read_text(given.data)))
    assert "600 training tokens are too few" in shown
    assert "1 of dev's tokens" in shown
    assert "which stands for them, is never learned from train; with data.min_count=2 it is" in shown
    assert "1 of dev's 1 long lines (100.0%) is also in train" in shown
    many = " ".join(f"w{number}" for number in range(500))
    (tmp_path / "text.txt").write_text(f"{many}\n")
    assert "501 of them occur once" in str(check(read_text(given.data)))


# models


@pytest.mark.parametrize(
    ("model", "key", "message"),
    [
        ({"past": "state", "reach": 5}, "reach", "no effect with past: state"),
        ({"past": "ngram", "heads": 2}, "heads", "no effect with past: ngram"),
        ({"past": "attention", "order": 5}, "order", "no effect with past: attention"),
        ({"past": "key_value_predict", "size": 10}, "size", "must be a multiple of 3"),
        ({"architecture": "transformer", "size": 9, "heads": 2}, "size", "multiple of heads"),
        ({"architecture": "transformer", "size": 6, "heads": 2}, "size", "rotates pairs"),
        ({"architecture": "transformer", "heads": 2, "key_value_heads": 3}, "key_value_heads", "must divide heads"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(model: dict[str, Any], key: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as info:
        build_model(config(model), num_tokens=8)
    assert info.value.path == ("model", key)


def test_a_context_must_fit_into_its_window(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="context is 9, but a window has 8 tokens"):
        configuration(tmp_path, "", "training.window=8", "training.context=9")
    model = untrained(config(decoding={"context": 17}))
    with pytest.raises(ConfigError, match="the window has only 16 tokens"):
        model.evaluate(_fixed())


@pytest.mark.parametrize(
    "kind", [{"tied_weights": True, "past": "key_value"}, {"tied_weights": True, "embedding_size": 5}]
)
def test_tied_weights_are_one(kind: dict[str, Any], tmp_path: Path) -> None:
    model = untrained(config({**kind, "tied_weights": True}, decoding={"max_length": 5}))
    assert model.module.head.projection.weight is model.module.embedding.table.weight
    save(model, tmp_path / "model")
    assert load(tmp_path / "model").predict(["a"])[0].tokens == model.predict(["a"])[0].tokens


def test_a_transformer_reaches_as_far_as_its_window() -> None:
    kind = {"architecture": "transformer", "layers": 1, "dropout": 0.0}
    model = untrained(config(kind, decoding={"max_length": 30}))
    long = "the cat sat.\nno dog ran.\nthe fox hid."
    assert model.predict([long])[0].tokens == model.predict([long[-16:]])[0].tokens
    prediction = model.predict(["the cat"])[0]
    assert prediction.alignments["self.0"].shape == (2, 30, 7 + 29)
    assert (prediction.alignments["self.0"][0, -1] > 0).sum() == 16


# continuations


def test_rows_and_columns_of_an_alignment_have_their_tokens() -> None:
    model = untrained(config({"reach": 3}, decoding={"max_length": 5}))
    prediction = model.predict(["the"])[0]
    assert prediction.source_tokens == ["t", "h", "e", *prediction.tokens[:-1]]
    assert prediction.alignment.shape == (5, 7)
    read = [(row > 0).nonzero().flatten().tolist() for row in prediction.alignment]
    assert read[0] == [0, 1]
    assert read[-1] == [3, 4, 5]
    assert "".join(prediction.tokens) == prediction.text
    assert prediction.stop_reason == "length"
    assert len(prediction.tokens) == 5


def test_a_seed_repeats_samples_and_another_one_does_not() -> None:
    model = untrained(config(decoding={"num_best": 3, "max_length": 20}))
    first, again = (model.predict(["the"])[0] for _ in range(2))
    assert first.text == again.text
    assert len(first.alternatives) == 2
    assert len({first.text, *(other.text for other in first.alternatives)}) == 3
    other = untrained(config(decoding={"num_best": 3, "max_length": 20, "seed": 2}))
    assert other.predict(["the"])[0].text != first.text


def test_log_probabilities_are_those_of_the_model() -> None:
    model = untrained(config(decoding={"max_length": 6, "temperature": 0.5, "top_k": 4}))
    prediction = model.predict(["the c"])[0]
    ids = torch.from_numpy(model.text.vocabulary.ids([*"the c", *prediction.tokens]))[None]
    likelihood = model.module(ids[:, :-1]).log_probabilities.gather(-1, ids[:, 1:, None])
    assert prediction.log_probability == pytest.approx(likelihood[0, 4:].sum().item(), abs=1e-4)


def test_unknown_symbols_warn_and_are_never_said() -> None:
    model = untrained(config(decoding={"max_length": 30, "temperature": 50.0}))
    known, strange = model.predict(["the", "th€"])
    assert known.warnings == ()
    assert strange.warnings == ("not in the training data, read as <unk>: '€'",)
    assert "<unk>" not in known.tokens + strange.tokens
    with pytest.raises(DataError, match=r"input 2 \('th€'\)"):
        model.predict(["the", "th€"], strict=True)


def test_an_empty_text_is_continued_from_a_line_end() -> None:
    model = untrained(config(decoding={"max_length": 5}))
    assert model.predict([""])[0].tokens == model.predict(["\n"])[0].tokens
    assert model.predict([""])[0].warnings == ()


def test_one_text_instead_of_a_list_is_an_error_that_shows_the_right_call() -> None:
    with pytest.raises(TypeError, match=r"predict\(\[text\]\)"):
        untrained().predict("the")


def test_rows_and_records_have_all_continuations() -> None:
    model = untrained(config(decoding={"num_best": 2, "max_length": 3}))
    prediction = model.predict(["the"])[0]
    assert [len(row) for row in model.rows(prediction)] == [2, 2]
    record = model.record(prediction)
    assert json.dumps(record)
    assert len(record["alternatives"]) == 1
    assert np.shape(record["alignment"]) == (3, 5)
    assert len(record["source_tokens"]) == 5


@pytest.mark.parametrize(
    ("method", "name", "value"),
    [
        ("sampling", "min_length", 3),
        ("sampling", "eos_threshold", 0.5),
        ("sampling", "unknown_penalty", 2.0),
        ("beam", "attention_stop", 2),
        ("beam", "coverage_penalty", "gnmt"),
        ("beam", "stop", "first"),
        ("beam", "keep_finished", True),
        ("sampling", "beam", 3),
        ("sampling", "length_penalty", "average"),
    ],
)
def test_settings_of_a_search_that_no_continuation_reads_are_refused(
    tmp_path: Path, method: str, name: str, value: Any
) -> None:
    settings, message = [f"decoding.method={method}", f"decoding.{name}={value}"], f"{name} is {yaml_text(value)}, but "
    with pytest.raises(ConfigError, match=f"^decoding.{name}={value}: {message}"):
        configuration(tmp_path, "", *settings).check_unread()
    with pytest.raises(ValueError, match=message):
        config(decoding={"method": method, name: value})
    if name in ContinuationConfig.never_read:
        with pytest.raises(ConfigError, match=message):
            untrained().predict(["the"], search=Search(method=method, **{name: value}))


# evaluations


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.get("past", "transformer"))
def test_an_evaluation_is_the_sum_over_every_token_once(kind: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "held_out.txt"
    path.write_text("no cat ran.\nthe fox", encoding="utf-8")
    model = untrained(config(kind, decoding={"window": 64}))
    evaluation = model.evaluate(path)
    ids = torch.from_numpy(model.text.vocabulary.ids(list("no cat ran.\nthe fox")))[None]
    inputs = torch.cat([torch.tensor([[1]]), ids[:, :-1]], 1)
    nats = -model.module(inputs).log_probabilities.gather(-1, ids[..., None])[0, :, 0]
    metrics = evaluation.metrics
    assert metrics["tokens"] == metrics["characters"] == 19
    assert metrics["words"] == 5
    assert metrics["loss"] == pytest.approx(nats.mean().item(), abs=1e-5)
    assert metrics["perplexity"] == pytest.approx(math.exp(nats.mean().item()), abs=1e-3)
    assert metrics["bits_per_character"] == pytest.approx(nats.sum().item() / math.log(2) / 19, abs=1e-5)
    assert sum(stretch.nats for stretch in evaluation.scored) == pytest.approx(nats.sum().item(), abs=1e-4)
    assert "19 tokens: perplexity" in str(evaluation)


def test_bits_per_character_of_words_are_over_the_characters_of_the_text(tmp_path: Path) -> None:
    torch.manual_seed(0)
    field = RunningText.read(_fixed(), units=WordUnits()).field
    model = LanguageModel.build(config(data={"units": "word"}), field)
    path = tmp_path / "held_out.txt"
    path.write_text("no  cat flew.\n", encoding="utf-8")
    metrics = model.evaluate(path).metrics
    assert (metrics["tokens"], metrics["characters"], metrics["words"]) == (5, 14, 3)
    assert metrics["bits_per_character"] == pytest.approx(metrics["loss"] * 5 / math.log(2) / 14)
    assert metrics["unknown"] == pytest.approx(1 / 5)
    assert "of which 1 is unknown" in str(model.evaluate(path))


def test_the_worst_stretches_come_first_with_their_lines(tmp_path: Path) -> None:
    model = untrained()
    path = written(tmp_path, "held_out.txt")
    evaluation = model.evaluate(path)
    worst = evaluation.worst
    rates = [stretch.nats_per_token for stretch in worst]
    assert rates == sorted(rates, reverse=True)
    assert len(worst) == len(evaluation.scored)
    second = evaluation.scored[1]
    assert second.place == f"{path}:{1 + chr(10).join(LINES)[:64].count(chr(10))}"
    assert second.text == ("\n".join(LINES * 2))[64:128]
    assert second.record()["length"] == 64
    assert second.prediction.warnings == ()
    assert [stretch.place for stretch in worst[:2]] == [worst[0].place, worst[1].place]


def test_figures_on_training_text_are_refused(tmp_path: Path) -> None:
    run = trained(tmp_path)
    with pytest.raises(DataError, match="was trained on this file"):
        load(run).evaluate(tmp_path / "text.txt")


def test_a_validation_is_the_evaluation_of_the_held_out_text(tmp_path: Path) -> None:
    text = RunningText.read(_fixed(), held_out=0.3)
    model = untrained()
    trainee = LanguageTrainee(model, text)
    validation = trainee.validate()
    nats = model.token_nats(model.windows(text, text.held_out))
    assert len(nats) == text.held_out.num_tokens
    assert validation.metrics["loss"] == pytest.approx(nats.mean().item(), abs=1e-5)
    assert validation.concern is not None
    assert "no better than the frequencies" in validation.concern
    with torch.no_grad():
        windows = [trainee._sum(batch) for batch in trainee.dev.in_order(1)]
    np.testing.assert_allclose(trainee.held_out_terms().metrics["perplexity"].terms, windows, rtol=1e-5)


# training


def test_training_windows_cover_the_text_once_and_have_ids_of_their_own() -> None:
    text = RunningText.read(_fixed(), held_out=0.2)
    trainee = LanguageTrainee(untrained(config(training={"context": 5})), text)
    batches = trainee.descriptions(3)
    scored = np.concatenate([np.arange(start, stop) for batch in batches for start, stop in batch])
    assert sorted(scored) == list(range(text.train.num_tokens))
    batch = trainee.batch(batches[0])
    assert batch["inputs"].shape == batch["targets"].shape == batch["scored"].shape
    assert batch["inputs"].shape[1] == 16
    halves = trainee.divide(batches[0], 2)
    assert sorted(np.concatenate(halves)[:, 0]) == sorted(batches[0][:, 0])
    assert trainee.item_ids(batches[0]).tolist() == batches[0][:, 0].tolist()


def test_the_loss_can_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []

    def remembered(training: Any, loss: Any, module: torch.nn.Module, first: Any) -> Any:
        return lambda batch: (compiled.append(first()), loss(batch))[1]

    monkeypatch.setattr(compilation.CompiledLoss, "of", remembered)
    trainee = LanguageTrainee(untrained(config(training={"compile": True})), RunningText.read(_fixed(), held_out=0.2))
    batch = trainee.batch(trainee.descriptions(0)[0])
    assert trainee.loss(batch, step=0, generator=torch.Generator()).count == batch["scored"].sum()
    assert [len(each["inputs"]) for each in compiled] == [4]


def test_a_small_text_is_learned(tmp_path: Path) -> None:
    run = trained(
        tmp_path,
        "model: {architecture: transformer, size: 32, layers: 2, heads: 2, dropout: 0.0}\n",
        "training.max_steps=60",
        "training.validate_every=60",
        "training.learning_rate=0.01",
        "decoding.method=beam",
        "decoding.beam=1",
    )
    model = load(run)
    assert model.predict(["the cat r"])[0].text[:2] == "an"


# pictures and information


@pytest.mark.parametrize("suffix", ["png", "svg", "html"])
def test_what_each_token_looked_back_at_is_drawn(tmp_path: Path, suffix: str) -> None:
    model = untrained(config({"architecture": "transformer"}, decoding={"max_length": 3}))
    predictions = model.predict(["the cat", "a"])
    files = model.plot(predictions, tmp_path / f"a.{suffix}", title="the cat", heads=True, data="json")
    assert [file.name for file in files] == [f"a.{suffix}", "a.json"]
    looked = model.aligned(predictions[0])
    assert looked.tokens == (*"he cat", *predictions[0].tokens)
    assert looked.source_tokens == (*"the cat", *predictions[0].tokens[:-1])
    assert (looked.sides, looked.prompt) == (("text before", "next token"), (7, 6))
    torch.testing.assert_close(torch.from_numpy(looked.alignment[6:]), predictions[0].alignment, atol=1e-5, rtol=0)


@pytest.mark.parametrize("past", PASTS)
def test_models_without_attention_have_nothing_to_draw(past: str) -> None:
    model = untrained(config({"past": past}, decoding={"max_length": 3}))
    assert model.can_plot(model.predict(["the"])[0]) == (past not in ("state", "ngram"))


def test_a_model_says_what_it_is(tmp_path: Path) -> None:
    model = untrained()
    information = model.information()
    assert information["parameters"] == sum(p.numel() for p in model.module.parameters())
    assert information["text"].endswith("character symbols")
    assert "training takes the steps of a sequence all at once" in explain(model)


def test_a_model_starts_from_another_by_symbol(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = trained(tmp_path)
    train(configuration(tmp_path, "model: {size: 12}\n", f"training.start_from={run}"), tmp_path / "next")
    assert "symbols are known" in capsys.readouterr().err
