"""Documents: files, configuration, training, predictions, metrics, pictures and refusals."""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

import regard
from regard.cli import run
from regard.config import Configuration, from_preset, load
from regard.data.documents import Document, DocumentField, Labels, pad_documents
from regard.data.text import Normalisation
from regard.errors import ConfigError, DataError
from regard.layers.items import ItemDraws, drawing
from regard.runs.store import save
from regard.tasks import TASKS, DocumentModel, DocumentPrediction, train
from regard.tasks.documents.build import build_classifier
from regard.tasks.documents.config import DocumentsConfig, FlatConfig, HierarchicalConfig
from regard.tasks.documents.encoded import EncodedDocuments, SplitDocuments
from regard.tasks.documents.evaluation import evaluation
from regard.tasks.documents.reading import read_file
from regard.tasks.documents.task import DocumentsTask, resolve
from regard.tasks.documents.trainee import DocumentTrainee, without_words
from regard.tasks.documents.word_vectors import word_vectors

NOISE = ["The bus was late.", "It rained all day!", "We sat by the window.", "Lunch is at noon.", "A dog barked."]
TELLING = {"good": ["It was a joy.", "What a fine meal."], "bad": ["It was awful.", "A waste of money."]}
LEVEL = {"size": 4, "attention_size": 6}
SMALL = {"embedding_size": 6, "words": LEVEL, "sentences": LEVEL, "dropout": 0.2}
TRAINING = {"epochs": 2, "batch_words": 60, "device": "cpu", "samples": 1, "threads": 1, "warmup_steps": 0}


def made(count: int, seed: int) -> list[tuple[str, str]]:
    """Labels and texts: one sentence says the label, the others nothing."""
    random.seed(seed)
    rows = []
    for _ in range(count):
        label = random.choice(sorted(TELLING))
        sentences = [*random.sample(NOISE, random.randint(1, 3)), random.choice(TELLING[label])]
        rows.append((label, " ".join(random.sample(sentences, len(sentences)))))
    return rows


def table(path: Path, rows: list[tuple[str, str]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("label", "text"), *rows])
    return path


def configuration(folder: Path, *, data: Any = None, model: Any = SMALL, **sections: Any) -> Configuration:
    if not (folder / "train.csv").exists():
        table(folder / "train.csv", made(24, 1))
        table(folder / "dev.csv", made(9, 2))
    data = {"train": folder / "train.csv", "dev": folder / "dev.csv", "min_count": 1, **(data or {})}
    training = {**TRAINING, **sections.pop("training", {})}
    return Configuration(DocumentsConfig(data=data, model=model, training=training, **sections), origin="test.yaml")


def untrained(*, several: bool = False, model: Any = SMALL, data: Any = None, **sections: Any) -> DocumentModel:
    torch.manual_seed(0)
    rows = made(20, 3)
    field = DocumentField.build([text for _, text in rows])
    data = {"train": "x.csv", "label_separator": ";" if several else None, **(data or {})}
    config = DocumentsConfig(data=data, model=model, **sections)
    return DocumentModel.build(config, field, Labels(["bad", "good", "odd"], several=several))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with data and a run of four steps."""
    folder = tmp_path_factory.mktemp("documents")
    train(configuration(folder), folder / "run")
    return folder


TEXTS = [
    "It was a joy. A dog barked.",
    "It was awful.",
    "Lunch is at noon. It rained all day! What a fine meal.",
    "Zzz",
]
FLAT = [
    {"architecture": "flat", "embedding_size": 6, "words": {**LEVEL, "pooling": "multi_head", "heads": 2}},
    {"architecture": "flat", "embedding_size": 6, "words": {"size": 4, "pooling": "mean"}},
    {"architecture": "flat", "embedding_size": 6, "words": {"size": 4, "pooling": "maximum", "bidirectional": False}},
    {"architecture": "flat", "embedding_size": 6, "words": {"size": 4, "pooling": "last_state", "layers": 2}},
    {"architecture": "flat", "embedding_size": 6, "words": {"cell": "none", "pooling": "mean"}},
    {"architecture": "flat", "embedding_size": 6, "words": {**LEVEL, "cell": "lstm"}},
]


@pytest.mark.parametrize("model", [SMALL, *FLAT])
def test_a_prediction_does_not_depend_on_its_batch(model: Any) -> None:
    built = untrained(model=model)
    together = built.predict(TEXTS)
    for text, one in zip(TEXTS, together, strict=True):
        (alone,) = built.predict([text])
        assert alone.labels == one.labels
        assert alone.probabilities == pytest.approx(one.probabilities, abs=1e-6)
        assert sum(one.probabilities.values()) == pytest.approx(1)
        assert alone.alignments.keys() == one.alignments.keys()
        for name, weights in one.alignments.items():
            torch.testing.assert_close(alone.alignments[name], weights, atol=1e-6, rtol=0)


def test_weights_have_the_shape_of_the_words_and_padding_has_none() -> None:
    built = untrained()
    for prediction in built.predict(TEXTS[:3]):
        words, sentences = prediction.word_weights, prediction.sentence_weights
        assert words is not None
        assert sentences is not None
        assert words.shape == (len(prediction.sentences), max(map(len, prediction.sentences)))
        for row, sentence in zip(words, prediction.sentences, strict=True):
            assert row[: len(sentence)].sum() == pytest.approx(1, abs=1e-5)
            assert torch.equal(row[len(sentence) :], torch.zeros(len(row) - len(sentence)))
        assert sentences.sum() == pytest.approx(1, abs=1e-5)


def test_documents_without_words_warn_and_harm_nobody() -> None:
    built = untrained()
    good, empty, strange, half = built.predict([TEXTS[0], " ", "qqq www", "a\ud800"])
    assert good.warnings == ()
    assert good.probabilities == pytest.approx(built.predict([TEXTS[0]])[0].probabilities, abs=1e-6)
    assert empty.warnings == ("the document has no words; its label is a guess",)
    assert strange.warnings == ("no word of the document was in the training data",)
    assert "surrogate" in half.warnings[0]
    assert built.can_plot(good)
    assert not built.can_plot(empty)
    (alone,) = built.predict([""])
    assert alone.probabilities == empty.probabilities
    with pytest.raises(DataError, match=r"input 2 .*has no words"):
        built.predict([TEXTS[0], ""], strict=True)
    with pytest.raises(TypeError, match=r"predict\(\[text\]\)"):
        built.predict("text")


def test_sentences_that_are_not_read_are_told() -> None:
    built = untrained(data={"max_sentences": 1})
    built.field = DocumentField(built.field.words, max_sentences=1)
    assert built.predict(["It rained. A dog barked."])[0].warnings == (
        "1 sentence beyond data.max_sentences was not read",
    )


def test_a_saved_model_predicts_the_same(tmp_path: Path) -> None:
    built = untrained()
    save(built, tmp_path / "model")
    again = regard.load(tmp_path / "model", device="cpu")
    for before, after in zip(built.predict(TEXTS), again.predict(TEXTS), strict=True):
        assert (before.labels, before.probabilities) == (after.labels, after.probabilities)
    (tmp_path / "model" / "labels.json").unlink()
    with pytest.raises(DataError, match=r"labels\.json"):
        regard.load(tmp_path / "model")


def test_a_model_says_what_another_one_does_otherwise() -> None:
    built, other = untrained(), untrained(several=True)
    assert built.unlike(untrained()) == []
    (line,) = built.unlike(other)
    assert line == "documents have one label here and had several labels there, so the outputs mean something else"
    upper = DocumentField.build(["A"], normalisation=Normalisation(case="upper"))
    (line,) = built.unlike(DocumentModel.build(built.config, upper, built.labels))
    assert "normalised differently" in line


def test_what_predictions_are_told_changes_them() -> None:
    several = untrained(several=True, decoding={"threshold": 0.0})
    (prediction,) = several.predict(TEXTS[:1])
    assert set(prediction.labels) == {"bad", "good", "odd"}
    assert several.rows(prediction) == [(";".join(prediction.labels),)]
    none = untrained(several=True, decoding={"threshold": 1.0}).predict(TEXTS[:1])[0]
    assert none.labels == ()
    assert several.rows(none, scores=True) == [("", "1.0000")]
    ranked = untrained(decoding={"num_best": 2})
    rows = ranked.rows(ranked.predict(TEXTS[:1])[0])
    assert len(rows) == 2
    assert rows[0][1] >= rows[1][1]
    small = untrained(decoding={"batch_words": 1}).predict(TEXTS)
    assert [one.labels for one in small] == [one.labels for one in untrained().predict(TEXTS)]


def test_the_record_has_probabilities_and_weights_if_asked_for() -> None:
    built = untrained()
    record = json.loads(json.dumps(built.record(built.predict(TEXTS[:1])[0])))
    assert list(record) == ["labels", "probabilities", "warnings", "sentences", "word_weights", "sentence_weights"]
    assert record["sentences"] == [["it", "was", "a", "joy", "."], ["a", "dog", "barked", "."]]
    assert list(map(len, record["word_weights"])) == [5, 4]
    assert list(built.record(built.predict(TEXTS[:1], alignment=False)[0])) == ["labels", "probabilities", "warnings"]


def test_metrics_of_one_label_each() -> None:
    built = untrained()
    documents = [Document(text, (name,), Path("a.csv"), i) for i, (name, text) in enumerate(made(12, 5), start=2)]
    documents.append(Document("never seen", ("new",), Path("a.csv"), 14))
    predictions = built.predict([item.text for item in documents], alignment=False)
    result = evaluation(documents, predictions, built.labels)
    right = [item.labels == prediction.labels for item, prediction in zip(documents, predictions, strict=True)]
    assert result.metrics["accuracy"] == pytest.approx(np.mean(right))
    assert result.metrics["error_rate"] == pytest.approx(1 - np.mean(right))
    losses = [-np.log(p.probabilities[i.labels[0]]) for i, p in zip(documents[:-1], predictions, strict=False)]
    assert result.metrics["loss"] == pytest.approx(np.mean(losses))
    assert result.names == ("bad", "good", "odd", "new")
    assert result.details["labels"]["new"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 1}
    assert np.array(result.details["confusion"]).sum() == 13
    confidences = [entry.mistake for entry in result.worst]
    assert confidences == sorted(confidences, reverse=True)
    assert "true \\ predicted" in str(result)
    assert str(result.worst[0]).startswith(result.worst[0].place)
    assert {"place", "input", "references", "output", "confidence"} < set(result.worst[0].record())


def test_a_confusion_matrix_of_many_labels_has_numbers_for_columns() -> None:
    names = [f"a rather long name {i}" for i in range(8)]
    documents = [Document("", (name,), Path("a.csv")) for name in names]
    predictions = [DocumentPrediction((names[0],), dict.fromkeys(names, 0.125)) for _ in names]
    lines = str(evaluation(documents, predictions, Labels(names))).splitlines()
    assert lines[2].split() == ["true", "\\", "predicted", *"12345678"]
    assert lines[4].split() == ["2", *names[1].split(), "1", *"0000000"]
    assert all(len(line) < 80 for line in lines)


def test_metrics_of_several_labels() -> None:
    built = untrained(several=True)
    sets = [("bad",), ("bad", "good"), ()]
    documents = [Document(text, names, Path("a.csv")) for text, names in zip(TEXTS, sets, strict=False)]
    predictions = built.predict([item.text for item in documents], alignment=False)
    result = evaluation(documents, predictions, built.labels)
    right = [set(item.labels) == set(one.labels) for item, one in zip(documents, predictions, strict=True)]
    assert result.metrics["accuracy"] == pytest.approx(np.mean(right))
    truth = torch.tensor([[name in names for name in built.labels.names] for names in sets], dtype=torch.float64)
    given = torch.tensor([[one.probabilities[name] for name in built.labels.names] for one in predictions])
    loss = functional.binary_cross_entropy(given.double(), truth, reduction="sum") / 3
    assert result.metrics["loss"] == pytest.approx(float(loss))
    assert "exact match" in str(result)
    assert "precision" in str(result)


def test_words_are_dropped_by_document_and_position_whatever_the_batch() -> None:
    documents = [DocumentField.build(["a b c d"]).encode(text) for text in ("a b. C d a. B", "c d", "d " * 30)]
    ids, mask = map(torch.from_numpy, pad_documents(documents))
    generator = torch.Generator()
    assert torch.equal(without_words(ids, mask, 0.0, generator), ids)

    def dropped(chosen: list[int]) -> list[list[int]]:
        part, where = map(torch.from_numpy, pad_documents([documents[i] for i in chosen]))
        with drawing(ItemDraws({}, torch.tensor(chosen), seed=1, step=2)):
            result = without_words(part, where, 0.4, generator)
        assert torch.equal(result[~where], part[~where])
        return [row[inner].tolist() for row, inner in zip(result, where, strict=True)]

    together = dropped([0, 1, 2])
    assert together == [dropped([i])[0] for i in range(3)]
    assert dropped([2, 0]) == [together[2], together[0]]
    assert 3 in together[2]
    assert without_words(ids, mask, 0.99, generator)[mask].eq(3).float().mean() > 0.8


def test_encoded_documents_are_padded_as_one_by_one() -> None:
    field = DocumentField.build([text for _, text in made(20, 3)])
    texts = [*TEXTS, "", "It rained."]
    encoded = [field.encode(text) for text in texts]
    split = SplitDocuments(texts, field)
    both = [EncodedDocuments.of(encoded), split.encoded(field.words.vocabulary)]
    for chosen in ([0, 1, 2, 3, 4, 5], [4], [5, 0], []):
        expected = pad_documents([encoded[i] for i in chosen])
        for documents in both:
            ids, mask = documents.pad(chosen)
            assert np.array_equal(mask.numpy(), expected[1])
            assert np.array_equal(ids.numpy(), expected[0])
    assert split.num_words.tolist() == [item.num_words for item in encoded]
    assert split.num_sentences.tolist() == [item.num_sentences for item in encoded]


def random_documents(count: int, num_words: int, seed: int = 0) -> EncodedDocuments:
    """Documents of one sentence of 1 to 12 words each, the last ids of which do not occur."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 12, count)
    return EncodedDocuments(rng.integers(3, num_words - 2, lengths.sum()), lengths, np.ones(count, np.int64))


def semantic_similarities(documents: EncodedDocuments, num_words: int, size: int) -> np.ndarray:
    """The cosines of words by latent semantic analysis, by the formula, with numpy's decomposition."""
    counts = np.zeros((num_words, len(documents)))
    for number, (start, length) in enumerate(zip(documents.starts, documents.words, strict=True)):
        np.add.at(counts[:, number], documents.flat[start : start + length], 1)
    weights = 1 + np.log((1 + len(documents)) / (1 + (counts > 0).sum(1)))
    matrix = np.where(counts > 0, 1 + np.log(np.maximum(counts, 1)), 0) * weights[:, None]
    left, singular, _ = np.linalg.svd(matrix / np.linalg.norm(matrix, axis=0), full_matrices=False)
    vectors = (left * singular)[:, :size]
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    return vectors @ vectors.T


@pytest.mark.parametrize(("count", "size"), [(40, 5), (40, 30), (6, 10)])
def test_word_vectors_are_those_of_latent_semantic_analysis(count: int, size: int) -> None:
    documents = random_documents(count, 25)
    occurs = np.isin(np.arange(25), documents.flat)
    vectors = word_vectors(documents, 25, size)
    assert vectors.shape == (25, size)
    assert not vectors[~occurs].any()
    torch.testing.assert_close(vectors[occurs].norm(dim=1), torch.ones(int(occurs.sum())))
    similarities = (vectors @ vectors.T).numpy()[occurs][:, occurs]
    expected = semantic_similarities(documents, 25, size)[occurs][:, occurs]
    np.testing.assert_allclose(similarities, expected, atol=5e-3)  # the algorithm is a randomised one


def test_of_very_many_documents_some_have_their_words_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regard.tasks.documents.word_vectors.MOST_DOCUMENTS", 20)
    documents = random_documents(50, 25)
    chosen = range(0, 50, 3)
    lengths = documents.words[chosen]
    ids = [documents.flat[documents.starts[i] : documents.starts[i] + documents.words[i]] for i in chosen]
    fewer = EncodedDocuments(np.concatenate(ids), lengths, np.ones(len(lengths), np.int64))
    vectors = word_vectors(documents, 25, 8)
    expected = word_vectors(fewer, 25, 8)
    torch.testing.assert_close(vectors @ vectors.T, expected @ expected.T, atol=5e-3, rtol=0)


@pytest.mark.parametrize("units", ["word", "whitespace", "character", "byte"])
def test_training_begins_with_vectors_of_words_but_not_of_characters(tmp_path: Path, units: str) -> None:
    config = configuration(tmp_path, data={"units": units, "min_count": 2}).config
    task = DocumentsTask()
    material = task.read(config)
    vocabulary = material.field.words.vocabulary
    torch.manual_seed(0)
    table = task.build(config, material, name="run").module.embedding.table.weight
    torch.manual_seed(0)
    drawn = DocumentModel.build(config, material.field, material.labels)
    given = word_vectors(material.train_words.encoded(vocabulary), len(vocabulary), table.shape[1])
    has_vector = given.any(1) if units in ("word", "whitespace") else torch.zeros(len(table), dtype=torch.bool)
    assert torch.equal(table[has_vector], given[has_vector])
    assert torch.equal(table[~has_vector], drawn.module.embedding.table.weight[~has_vector])
    plan = resolve(config, np.full(30, 40), np.full(30, 2))
    assert ("latent semantic analysis" in str(plan)) == (units in ("word", "whitespace"))


def test_the_loss_of_the_trainee_is_that_of_torch(project: Path) -> None:
    plain = {"word_dropout": 0.0, "label_smoothing": 0.2}
    for name, weights in (("none", 1.0), ("balanced", None)):
        config = configuration(project, training={**plain, "class_weights": name}).config
        data = TASKS["documents"].read(config)
        model = TASKS["documents"].build(config, data, name="x")
        trainee = DocumentTrainee(model, data)
        batch = trainee.batch(trainee.descriptions(0)[0])
        loss = trainee.loss(batch, step=0, generator=torch.Generator())
        logits = model.module(batch["ids"], batch["mask"]).logits
        each = functional.cross_entropy(logits, batch["targets"], label_smoothing=0.2, reduction="none")
        counts = torch.bincount(trainee.targets)
        factor = torch.tensor(weights) if weights else len(data.train) / (2 * counts[batch["targets"]])
        torch.testing.assert_close(loss.total, (each * factor).sum())
        assert loss.count == len(batch["targets"])


def test_words_are_dropped_in_training_only(project: Path) -> None:
    config = configuration(project, training={"word_dropout": 0.9}).config
    data = TASKS["documents"].read(config)
    trainee = DocumentTrainee(TASKS["documents"].build(config, data, name="x"), data)
    seen: list[torch.Tensor] = []
    trainee.module.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0][inputs[1]]))
    trainee.loss(trainee.batch(trainee.descriptions(0)[0]), step=0, generator=torch.Generator())
    assert seen.pop().eq(3).float().mean() > 0.6
    trainee.model.predict([data.train[0].text])
    assert not seen.pop().eq(3).any()


def test_class_weights_are_refused_for_several_labels(tmp_path: Path) -> None:
    given = configuration(tmp_path, data={"label_separator": ";"}, training={"class_weights": "balanced"})
    with pytest.raises(ConfigError, match="one label each") as caught:
        train(given, tmp_path / "run")
    assert caught.value.path == ("training", "class_weights")


@pytest.mark.parametrize(
    ("model", "key"),
    [
        (FlatConfig(words={"cell": "none", "pooling": "last_state"}), "pooling"),
        (FlatConfig(words={"cell": "none", "size": 9}), "size"),
        (FlatConfig(words={"cell": "none", "layers": 2}), "layers"),
        (FlatConfig(words={"cell": "none", "bidirectional": False}), "bidirectional"),
        (FlatConfig(words={"pooling": "mean", "attention_size": 9}), "attention_size"),
        (FlatConfig(words={"pooling": "attention", "heads": 3}), "heads"),
        (FlatConfig(words={"pooling": "multi_head", "heads": 3}), "attention_size"),
    ],
)
def test_settings_that_would_be_ignored_are_refused(model: FlatConfig, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build_classifier(model, num_words=9, num_labels=2)
    assert caught.value.path == ("model", "words", key)


def test_levels_are_as_configured() -> None:
    words = {"cell": "lstm", "size": 3, "layers": 2, "pooling": "multi_head", "heads": 2, "attention_size": 8}
    config = HierarchicalConfig(
        embedding_size=5, words=words, sentences={"cell": "none", "pooling": "mean"}, dropout=0.5
    )
    module = build_classifier(config, num_words=9, num_labels=4)
    assert module.word.context_size == 2 * 2 * 3
    assert (module.word.stack.cell, module.word.stack.num_layers) == ("lstm", 2)
    assert module.sentence.stack is None
    assert module.sentence.pooling.kind == "mean"
    assert {part.p for part in module.modules() if type(part).__name__ == "Dropout"} == {0.5}


def test_byte_units_have_no_vocabulary_to_limit(tmp_path: Path) -> None:
    given = configuration(tmp_path, data={"units": "byte", "min_count": 3})
    with pytest.raises(ConfigError, match="min_count has no effect with units: byte"):
        train(given, tmp_path / "run")


def test_more_words_make_more_steps_and_less_dropout() -> None:
    config = DocumentsConfig(data={"train": "x.csv"})
    few = resolve(config, np.full(300, 40), np.full(300, 2))
    many = resolve(config, np.full(50_000, 200), np.full(50_000, 9))
    assert few.steps < many.steps
    assert few.config.training.epochs > many.config.training.epochs
    assert few.config.training.batch_words < many.config.training.batch_words
    assert few.config.model.dropout > many.config.model.dropout
    given = DocumentsConfig(data={"train": "x.csv"}, training={"epochs": 3, "batch_words": 7}, model={"dropout": 0.1})
    kept = resolve(given, np.full(300, 40), np.full(300, 2)).config
    assert (kept.training.epochs, kept.training.batch_words, kept.model.dropout) == (3, 7, 0.1)
    assert "steps are few" in str(resolve(given, np.full(30, 40), np.full(30, 2)))


def test_a_setting_of_another_task_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("task: documents\ndata: {train: x.csv}\ndecoding: {beam: 3}\n")
    with pytest.raises(ConfigError, match=r"a.yaml:3:12: decoding.beam: unknown key; text_to_text\b.* ha(s|ve) it"):
        load(tmp_path / "a.yaml")
    (tmp_path / "a.yaml").write_text(
        "task: documents\ndata: {train: x.csv}\nmodel: {architecture: flat, sentences: {}}\n"
    )
    with pytest.raises(ConfigError, match="it belongs to architecture: hierarchical"):
        load(tmp_path / "a.yaml")


def test_torch_compile_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="leave compile out"):
        train(configuration(tmp_path, training={"compile": True}), tmp_path / "run")


def test_the_preset_needs_nothing_but_a_file(tmp_path: Path) -> None:
    config = from_preset("documents", [f"data.train='{table(tmp_path / 'a.csv', made(9, 1))}'"]).config
    assert isinstance(config, DocumentsConfig)
    assert isinstance(config.model, HierarchicalConfig)


def files_of(folder: Path, rows: list[tuple[str, str]]) -> dict[str, Path]:
    """The same documents in every form."""
    tsv, named, jsonl = folder / "a.tsv", folder / "b.tsv", folder / "a.jsonl"
    tsv.write_text("".join(f"{label}\t{text}\n" for label, text in rows))
    named.write_text("text\tlabel\n" + "".join(f"{text}\t{label}\n" for label, text in rows))
    jsonl.write_text("".join(json.dumps({"label": label, "text": text}) + "\n" for label, text in rows))
    for number, (label, text) in enumerate(rows):
        file = folder / "texts" / label / f"{number:03}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return {"csv": table(folder / "a.csv", rows), "tsv": tsv, "header": named, "jsonl": jsonl, "f": folder / "texts"}


def test_all_forms_of_files_are_read_the_same(tmp_path: Path) -> None:
    task, found = TASKS["documents"], {}
    for name, path in files_of(tmp_path, made(40, 1)).items():
        config = DocumentsConfig(data={"train": path, "dev_fraction": 0.3})
        data = task.read(config)
        assert [file.path for file in task.files(config)] == [path]
        found[name] = sorted((item.labels, item.text) for item in data.train), data.field, data.labels.names
    assert all(entry[0] == found["csv"][0] for entry in found.values())
    assert {entry[1].words.vocabulary for entry in found.values()} == {found["csv"][1].words.vocabulary}
    assert {entry[2] for entry in found.values()} == {("bad", "good")}


def test_a_folder_is_trained_on_and_refused_for_metrics(tmp_path: Path) -> None:
    folder = files_of(tmp_path, made(24, 1))["f"]
    given = configuration(tmp_path, data={"train": folder, "dev": None, "dev_fraction": 0.3}, training={"epochs": 1})
    train(given, tmp_path / "run")
    model = regard.load(tmp_path / "run")
    with pytest.raises(DataError, match="was trained on this file"):
        model.evaluate(folder)
    assert model.evaluate(tmp_path / "dev.csv").metrics["documents"] == 9


def test_several_labels_from_reading_to_metrics(tmp_path: Path) -> None:
    rows = [(label if i % 3 else f"{label}; odd" if i % 2 else "", text) for i, (label, text) in enumerate(made(40, 1))]
    table(tmp_path / "several.csv", rows)
    given = configuration(
        tmp_path,
        data={"train": tmp_path / "several.csv", "dev": None, "dev_fraction": 0.3, "label_separator": ";"},
        training={"epochs": 1},
        select="exact_match",
    )
    outcome = train(given, tmp_path / "run")
    assert set(outcome.metrics) >= {"accuracy", "macro_f1", "micro_f1", "loss"}
    model = regard.load(tmp_path / "run")
    assert model.labels == Labels(["bad", "good", "odd"], several=True)
    assert "several" in model.information()["labels"]


FINDINGS = [
    ([("a", "x y")] * 3, [], "error: all training documents have the same label, 'a'"),
    ([("a", "x y"), ("b", "x y")], [], r"train: 2 documents have the text of another one and other labels"),
    ([("a", "x y"), ("b", "...x"), ("b", " ")], [], r"train: 1 of 3 documents has no words"),
    (
        [("a", "x y"), ("b", "x")],
        [("c", "x"), ("a", "z")],
        r"1 document of dev has labels that no training document has: 'c'",
    ),
    ([("a", "x y"), ("a", "x y"), ("b", "x")], [], "1 document repeats an earlier one with its label"),
    ([("a", "x y"), ("b", "x")], [], "2 labels have fewer than 5 training documents"),
    ([("a", "x y"), ("b", "x")], [("a", "z")], r"the vocabulary has 2 words; 100.0% of dev's words are unknown"),
    ([("a", "x y"), ("b", "x")], [], "2 training documents are too few"),
]


@pytest.mark.parametrize(("rows", "held_out", "finding"), FINDINGS)
def test_the_data_check_finds(tmp_path: Path, rows: Any, held_out: Any, finding: str) -> None:
    data = {"train": table(tmp_path / "a.csv", rows), "dev": table(tmp_path / "b.csv", held_out or [("a", "y")])}
    task, config = TASKS["documents"], DocumentsConfig(data={**data, "min_count": 1})
    report = task.check(config, task.read(config))
    assert any(finding in line for line in str(report).splitlines()), str(report)
    assert report.has_errors == finding.startswith("error")


def test_options_of_reading_reach_the_words(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", [("a", "One two.\nTwo, THREE three? Two four"), ("b", "One two three two two")])
    task = TASKS["documents"]

    def words(**options: Any) -> Any:
        config = DocumentsConfig(data={"train": path, "dev": path, "min_count": 1, **options})
        return task.read(config)

    assert set(words(min_count=3).field.words.vocabulary.symbols) == {"two", "three"}
    assert words(vocabulary_size=1).field.words.vocabulary.symbols == ("two",)
    assert "THREE" in words(case="keep").field.words.vocabulary
    assert "three?" in words(units="whitespace").field.words.vocabulary
    assert words(sentences="none").train_words.num_sentences.tolist() == [1, 1]
    assert words(sentences="line").train_words.num_sentences.tolist() == [3, 1]
    assert words(max_sentence_length=2).train_words.num_sentences.tolist()[1] == 3
    assert words(max_sentence_length=2, max_sentences=1).train_words.num_sentences.tolist() == [1, 1]
    with pytest.raises(DataError, match=r"lower data\.min_count"):
        words(min_count=9)


def test_options_of_files_reach_the_reader(tmp_path: Path) -> None:
    def texts(name: str, content: str, *, other: str = "", **options: Any) -> list[tuple[str, str]]:
        (tmp_path / name).write_text(content, encoding="utf-8")
        config = DocumentsConfig(data={"train": tmp_path / name, **options})
        path = tmp_path / (other or name)
        path.write_text(content, encoding="utf-8")
        return [(item.text, item.labels[0]) for item in read_file(config.data, path)]

    rows = [("one", "x"), ("two", "y")]
    assert texts("a.csv", "text;label\none;x\ntwo;y\n", delimiter=";") == rows
    assert texts("a.csv", "one,x\ntwo,y\n", header=False, text_field=0, label_field=1) == rows
    assert texts("a.csv", "review,stars\none,x\ntwo,y\n", text_field="review", label_field="stars") == rows
    assert texts("a.dat", "label,text\nx,one\ny,two\n", format="csv", other="b.dat") == rows
    assert texts("a.dat", "text\tlabel\none\tx\ntwo\ty\n", format="tsv", other="b.txt") == rows
    with pytest.raises(ConfigError, match="is unknown; expected") as caught:
        texts("a.dat", "x")
    assert caught.value.path == ("data",)
    data = {"train": table(tmp_path / "u.csv", [("a", "e\u0301"), ("b", "e")]), "min_count": 1}
    data["dev"] = data["train"]
    for form, symbol in (("NFC", "\xe9"), ("keep", "e\u0301")):
        config = DocumentsConfig(data={**data, "unicode": form})
        assert symbol in TASKS["documents"].read(config).field.words.vocabulary


def test_several_fields_are_one_text(tmp_path: Path) -> None:
    lines = [{"title": f"T{i}", "body": f"a {label}", "kind": label} for i, label in enumerate("xyxy")]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    data = {"train": tmp_path / "a.jsonl", "dev": tmp_path / "a.jsonl", "min_count": 1}
    config = DocumentsConfig(data={**data, "text_field": ("title", "body"), "label_field": "kind"}, model=SMALL)
    task = TASKS["documents"]
    material = task.read(config)
    assert material.train[0].text == "T0\n\na x"
    model = task.build(config, material, name="x")
    assert model.input_fields == ("title", "body")
    assert model.predict(["T0\ta x"])[0].sentences == (("t0",), ("a", "x"))


def test_pictures_and_data_are_drawn(tmp_path: Path) -> None:
    built = untrained()
    predictions = built.predict(TEXTS[:2])
    files = built.plot(predictions, tmp_path / "a.html", title="Two reviews", data="json")
    assert [file.name for file in files] == ["a.html", "a.json"]
    stored = json.loads((tmp_path / "a.json").read_text())
    assert [item["predicted"] for item in stored["items"]] == [one.labels[0] for one in predictions]
    built.plot(predictions, tmp_path / "b.svg", data="npz")
    with np.load(tmp_path / "b.npz") as arrays:
        assert arrays["0/words"].tolist() == [word for sentence in predictions[0].sentences for word in sentence]
        assert arrays["0/word_weights"].shape == arrays["0/words"].shape
    many = untrained(model=FLAT[0])
    drawn = many.weighted(many.predict(TEXTS[:1])[0], heads=True)
    assert [item.predicted.partition(" ")[2] for item in drawn] == ["(head 1 of 2)", "(head 2 of 2)"]
    flat = untrained(model=FLAT[2])
    assert not flat.can_plot(flat.predict(TEXTS[:1])[0])


def verb(*arguments: object) -> int:
    return run([str(argument) for argument in arguments])


@pytest.fixture
def here(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(project)
    return project


def test_predict_prints_texts_and_labels(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verb("predict", "-m", "run", *TEXTS[:2]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == TEXTS[:2]
    assert {row[1] for row in rows} <= {"bad", "good"}
    assert verb("predict", "-m", "run", "--num-best", 2, TEXTS[0]) == 0
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [len(row) for row in rows] == [3, 3]
    assert sum(float(row[2]) for row in rows) == pytest.approx(1, abs=1e-3)
    assert verb("predict", "-m", "run", "--scores", "--format", "jsonl", TEXTS[0], "--alignments") == 0
    record = json.loads(capsys.readouterr().out)
    assert set(record) >= {"input", "labels", "probabilities", "sentences", "word_weights", "sentence_weights"}


def test_predict_keeps_the_columns_of_tables(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "a.csv").write_text('id,text,note\n1,"It was\na joy, yes",x\n\n2,It was awful.\n3,,y\n')
    assert verb("predict", "-m", "run", "-i", "a.csv") == 0
    out, err = capsys.readouterr()
    header, *rows = csv.reader(out.splitlines(keepends=True))
    assert header == ["id", "text", "note", "prediction"]
    assert [row[:-1] for row in rows] == [["1", "It was\na joy, yes", "x"], ["2", "It was awful.", ""], ["3", "", "y"]]
    assert "a.csv:6: '': the document has no words" in err
    (here / "b.csv").write_text("id;review\n1;It was a joy\n2\n")
    assert verb("predict", "-m", "run", "-i", "b.csv", "--source-field", "review") == 1
    out, err = capsys.readouterr()
    assert [line.split(";")[:-1] for line in out.splitlines()] == [["id", "review"], ["1", "It was a joy"], ["2", ""]]
    assert "b.csv:3: '': expected 2 columns or more; got 1" in err
    assert verb("predict", "-m", "run", "-i", "b.csv") == 2
    assert "b.csv:1: no column 'text'; the columns are 'id', 'review'" in capsys.readouterr().err
    assert verb("predict", "-m", "run", "-i", "b.csv", "--source-field", "1") == 1
    assert len(capsys.readouterr().out.splitlines()) == 3
    (here / "a.tsv").write_text("id\ttext\n1\tIt was a joy.\n")
    assert verb("predict", "-m", "run", "-i", "a.tsv") == 0
    assert capsys.readouterr().out.startswith("id\ttext\tprediction\n1\tIt was a joy.\t")
    (here / "b.tsv").write_text("good\tIt was a joy.\nbad\tIt was awful.\n")  # label, tab, text, as training reads it
    assert verb("predict", "-m", "run", "-i", "b.tsv") == 0
    assert [line.split("\t")[:2] for line in capsys.readouterr().out.splitlines()] == [
        ["good", "It was a joy."],
        ["bad", "It was awful."],
    ]
    for name, text in (("bad/10.txt", "It was awful."), ("good/9.txt", "It was\na joy.")):
        (here / "texts" / name).parent.mkdir(parents=True)
        (here / "texts" / name).write_text(text)
    assert verb("predict", "-m", "run", "-i", "texts") == 0
    printed = [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()]
    assert printed == ["texts/bad/10.txt", "texts/good/9.txt"]
    (here / "a.jsonl").write_text(json.dumps({"text": TEXTS[0], "id": 7}) + "\n")
    assert verb("predict", "-m", "run", "-i", "a.jsonl") == 0
    record = json.loads(capsys.readouterr().out)
    assert (record["id"], set(record["prediction"]["probabilities"])) == (7, {"bad", "good"})
    (here / "a.txt").write_text("It was a joy.\nIt was awful.\n")
    assert verb("predict", "-m", "run", "-i", "a.txt") == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_evaluate_prints_metrics_the_confusion_matrix_and_the_worst(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table(here / "test.csv", made(12, 7))
    assert verb("evaluate", "-m", "run", "test.csv", "--worst", 2) == 0
    out = capsys.readouterr().out
    assert out.startswith("12 documents: accuracy ")
    assert "true \\ predicted" in out
    assert verb("evaluate", "-m", "run", "test.csv", "--json", "--worst", 1) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["documents"] == 12
    assert np.array(figures["confusion"]).sum() == 12
    assert set(figures["labels"]) == {"bad", "good"}
    (here / "other.tsv").write_text("".join(f"{text}\t{label}\n" for label, text in made(5, 8)))
    assert verb("evaluate", "-m", "run", "other.tsv", "--source-field", 0, "--target-field", 1) == 0
    assert capsys.readouterr().out.startswith("5 documents")
    assert verb("evaluate", "-m", "run", "train.csv") == 2
    assert "trained on this file" in capsys.readouterr().err
    assert verb("evaluate", "-m", "run", "test.csv", "--metric", "bleu") == 2


def test_plot_info_explain_and_data_check(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.png", "a.svg", "a.html"):
        assert verb("plot", "-m", "run", TEXTS[0], "-o", name, "--data", "json", "--overwrite") == 0
        assert (here / name).stat().st_size > 1000
    assert json.loads((here / "a.json").read_text())["items"][0]["sentences"]
    capsys.readouterr()
    assert verb("info", "run") == 0
    assert "2 labels: bad, good" in capsys.readouterr().out
    assert verb("explain", "run") == 0
    assert "training takes the steps of a sequence all at once" in capsys.readouterr().out
    assert verb("data", "check", "--preset", "documents", "train.csv", "dev.csv") == 0
    assert "2 labels" in capsys.readouterr().out


def test_what_other_tasks_have_is_refused(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verb("predict", "-m", "run", "--beam", 3, TEXTS[0]) == 2
    assert "beam" in capsys.readouterr().err
