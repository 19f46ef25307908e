"""Labelled sentences: how they are read, what is scored, and what the network may not see."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from regard.config.tasks.labelling import LabellingModel
from regard.data import PAD, Vocabulary
from regard.errors import DataError
from regard.tasks.labelling.evaluation import Labelling, LabellingEvaluation, ScoredSentence, spans
from regard.tasks.labelling.network import Labeller
from regard.tasks.labelling.reading import LabellingMaterial, Sentence, check, read_sentences
from regard.tasks.table import TASKS


def written(folder: Path, text: str) -> Path:
    path = folder / "tagged.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_sentences_end_at_blank_lines_and_may_have_further_columns(tmp_path: Path) -> None:
    path = written(tmp_path, "\nEU NNP B-org\nrejects VBZ O\n\n\nno DT O")
    assert read_sentences(path) == [
        Sentence(("EU", "rejects"), ("B-org", "O"), f"{path}:2"),
        Sentence(("no",), ("O",), f"{path}:6"),
    ]
    assert read_sentences(path, label_column=1)[0].labels == ("NNP", "VBZ")


def test_tabs_separate_columns_if_there_are_any(tmp_path: Path) -> None:
    path = written(tmp_path, "New York\tB-loc\nis\tO\n")
    assert read_sentences(path)[0].tokens == ("New York", "is")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a O\nb\n", r"tagged.txt:2: 1 columns \('b'\), but data.token_column is 0"),
        ("\n\n", "the file has no sentences"),
        ("a\t\n", "tagged.txt:1: the label is empty"),
    ],
)
def test_a_wrong_line_is_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_sentences(written(tmp_path, text))


def test_the_check_finds_what_cannot_or_should_not_be() -> None:
    sentence = Sentence(("a", "b"), ("X", "X"), "t:1")
    other = Sentence(("c",), ("Y",), "d:1")
    tokens = Vocabulary(["a", "b"])
    report = check(LabellingMaterial([sentence], [sentence, other], tokens, tokens, Vocabulary(["X"])), 1)
    assert report.has_errors
    text = str(report)
    for part in ("same label", "max_length=1", "training lacks (Y) (d:1)", "in the training, too (t:1)"):
        assert part in text
    assert not check(LabellingMaterial([sentence] * 300, [other], tokens, tokens, Vocabulary(["X", "Y"])), 9).has_errors


def test_spans_follow_their_prefixes_or_runs() -> None:
    assert spans(["I-per", "I-per", "B-per", "I-loc", "O"]) == {("per", 0, 2), ("per", 2, 3), ("loc", 3, 4)}
    assert spans(["X", "X", "O", "Y"]) == {("X", 0, 2), ("Y", 3, 4)}


def test_metrics_count_tokens_sentences_labels_and_spans() -> None:
    right = Sentence(("a", "b"), ("B-x", "O"), "t:1")
    wrong = Sentence(("c", "d"), ("B-x", "I-x"), "t:4")
    given = [Labelling(("a", "b"), ("B-x", "O"), (1.0, 1.0)), Labelling(("c", "d"), ("B-x", "O"), (1.0, 1.0))]
    evaluation = LabellingEvaluation(list(map(ScoredSentence, [right, wrong], given)))
    assert evaluation.metrics == pytest.approx(
        {"token_error_rate": 1 / 4, "sentence_error_rate": 1 / 2, "macro_f1": (1 + 2 / 3 + 0) / 3, "span_f1": 1 / 2,
         "sentences": 2}
    )  # fmt: skip
    assert [each.place for each in evaluation.worst] == ["t:4"]
    assert "d/O[I-x]" in str(evaluation.worst[0])


@pytest.mark.parametrize("character_size", [0, 4])
def test_padding_changes_no_label_and_gets_no_weight(character_size: int) -> None:
    torch.manual_seed(0)
    config = LabellingModel(character_size=character_size, encoder={"size": 4, "embedding_size": 3, "layers": 1})
    module = Labeller(config, num_tokens=9, num_characters=9, num_labels=6).eval()
    tokens, words = torch.tensor([[4, 5, PAD]]), torch.tensor([[1, 2, 0]])
    spelling, mask = torch.tensor([[1, 0], [4, 5], [6, 0]]), torch.tensor([[True, True, False]])
    padded = module(tokens, words, spelling, mask, alignment=True)
    short = module(tokens[:, :2], words[:, :2], spelling, mask[:, :2], alignment=True)
    torch.testing.assert_close(padded.features[:, :2], short.features)
    assert padded.alignment is not None
    assert not padded.alignment[..., 2].any()


def test_sizes_follow_from_the_data_and_a_named_setting_stays() -> None:
    task = TASKS["labelling"]
    from regard.config.tasks.labelling import LabellingConfig

    sentences = [Sentence(("a", "b"), ("X", "Y"), "t:1")] * 50
    vocabulary = Vocabulary(["a", "b"])
    material = LabellingMaterial(sentences, sentences[:1], vocabulary, vocabulary, Vocabulary(["X", "Y"]))
    config = LabellingConfig(data={"train": "/a"}, training={"epochs": 7})
    resolved = task.resolve(config, material, None)
    assert resolved.config.training.epochs == 7
    assert resolved.config.model.encoder.size == 128
    assert "steps are few" in str(resolved)
