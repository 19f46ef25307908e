"""Labelled sentences: how they are read, what is scored, and what the network may not see."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.data.text import PAD, Vocabulary
from regard.errors import ConfigError, DataError
from regard.layers.items import ItemDraws, drawing, sites
from regard.metrics import SpanScheme
from regard.runs.contract import TASKS
from regard.tasks.labelling.columns import Sentence
from regard.tasks.labelling.config import LabellingConfig, LabellingModel
from regard.tasks.labelling.evaluation import Labelling, LabellingEvaluation, ScoredSentence
from regard.tasks.labelling.network import Labeller
from regard.tasks.labelling.reading import LabellingMaterial, check, read_sentences, scheme_of


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
        ("a O\nb\n", r"tagged.txt:2: 1 column separated by spaces or tabs \('b'\), but data.label_column is -1"),
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
    for part in ("same label", "max_length=1", "training lacks: Y (d:1)"):
        assert part in text
    assert not check(LabellingMaterial([sentence] * 300, [other], tokens, tokens, Vocabulary(["X", "Y"])), 9).has_errors


def test_metrics_count_tokens_sentences_labels_and_spans() -> None:
    right = Sentence(("a", "b"), ("B-x", "O"), "t:1")
    wrong = Sentence(("c", "d"), ("B-x", "I-x"), "t:4")
    given = [Labelling(("a", "b"), ("B-x", "O"), (1.0, 1.0)), Labelling(("c", "d"), ("B-x", "O"), (1.0, 1.0))]
    evaluation = LabellingEvaluation(list(map(ScoredSentence, [right, wrong], given)), SpanScheme("bio"))
    assert evaluation.metrics == pytest.approx(
        {"token_error_rate": 1 / 4, "sentence_error_rate": 1 / 2, "macro_f1": (1 + 2 / 3 + 0) / 3, "span_f1": 1 / 2,
         "span_f1_strict": 1 / 2, "sentences": 2}
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


def test_what_is_dropped_of_a_sentence_and_of_a_word_is_the_same_in_any_batch() -> None:
    torch.manual_seed(0)
    encoder = {"size": 4, "embedding_size": 3, "layers": 2, "dropout": 0.4}
    module = Labeller(LabellingModel(character_size=4, encoder=encoder), num_tokens=9, num_characters=9, num_labels=6)

    def features(sentences: list[int], tokens: Any, words: Any, spelling: Any) -> torch.Tensor:
        draws = ItemDraws(sites(module), torch.tensor(sentences), seed=1, step=5)
        with drawing(draws):
            ids = torch.tensor(tokens)
            output: torch.Tensor = module(ids, torch.tensor(words), torch.tensor(spelling), ids != PAD).features
        return output

    alone = features([7], [[4, 5]], [[1, 2]], [[1, 0], [4, 5], [6, 0]])
    whole = features([3, 7], [[6, 7, 8], [4, 5, 0]], [[3, 2, 4], [2, 1, 0]],
                     [[1, 0, 0], [6, 0, 0], [4, 5, 0], [8, 8, 7], [5, 4, 0]])  # fmt: skip
    torch.testing.assert_close(whole[1:, :2], alone)
    assert not torch.allclose(features([8], [[4, 5]], [[1, 2]], [[1, 0], [4, 5], [6, 0]]), alone)


def test_sizes_follow_from_the_data_and_a_named_setting_stays() -> None:
    task = TASKS["labelling"]
    sentences = [Sentence(("a", "b"), ("X", "Y"), "t:1")] * 50
    vocabulary = Vocabulary(["a", "b"])
    material = LabellingMaterial(sentences, sentences[:1], vocabulary, vocabulary, Vocabulary(["X", "Y"]))
    config = LabellingConfig(data={"train": "/a"}, training={"epochs": 7})
    resolved = task.resolve(config, material, None)
    assert resolved.config.training.epochs == 7
    assert resolved.config.model.encoder.size == 128
    assert "steps are few" in str(resolved)


def read(
    folder: Path, text: str, name: str = "tagged.txt", **options: Any
) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    path = folder / name
    path.write_bytes(text.encode())
    return [(each.tokens, each.labels) for each in read_sentences(path, **options)]


def test_spaces_other_than_u_0020_belong_to_tokens(tmp_path: Path) -> None:
    assert read(tmp_path, "10\u00a0km B-x\n\u3000 O\na\u2009b\u0085c O\n") == [
        (("10\u00a0km", "\u3000", "a\u2009b\u0085c"), ("B-x", "O", "O"))
    ]


def test_a_stray_tab_does_not_change_how_a_file_is_read(tmp_path: Path) -> None:
    assert read(tmp_path, "EU NNP B-org\nrejects\tVBZ O\ncall NN O\n")[0][0] == ("EU", "rejects", "call")
    with pytest.raises(
        DataError, match=r"tagged.txt:2: 1 column separated by tabs \('York O'\), but data.label_column is -1"
    ):
        read(tmp_path, "New York\tB-loc\nYork O\nis\tO\n")
    assert read(tmp_path, "New York\tB-loc\nYork\tO\n", format="conll")[0] == (("New", "York"), ("B-loc", "O"))


def test_documents_and_comments_are_no_tokens(tmp_path: Path) -> None:
    text = (
        "-DOCSTART- -X- O\n\n# id = 3 a\n# a longer remark of theirs\n# SYM O\nEU NNP O\n#tag X O\n-DOCSTART- (2 EU)\n"
    )
    text += "no DT O\n"
    assert read(tmp_path, text) == [(("#", "EU", "#tag"), ("O", "O", "O")), (("no",), ("O",))]


def test_marks_and_line_ends_of_other_programs_belong_to_no_token(tmp_path: Path) -> None:
    text = "\ufeffEU B-x\r\nand O\u200b\r\n\u200b\r\n\ufeffno O\r\n \u00a0\r\n"
    assert read(tmp_path, text) == [(("EU", "and"), ("B-x", "O")), (("no",), ("O",))]


CONLLU = """# text = Vámonos al mar
1-2 Vámonos _ _ _ _ _ _ _ _
1 Vamos ir VERB VMP _ 0 root _ _
2 nos yo PRON _ Case=Acc 1 obj _ _
3-4 al _ _ _ _ _ _ _ _
3 a a ADP SP _ 5 case _ _
4 _ el _ DA _ 5 det _ _
5 # mar NOUN NC _ 1 obl _ SpaceAfter=No
5.1 ghost _ _ _ _ _ _ _ _
""".replace(" ", "\t").replace("#\ttext\t=\tVámonos\tal\tmar", "# text = Vámonos al mar")


@pytest.mark.parametrize("name", ["words.conllu", "words.txt"])
def test_conllu_has_words_and_no_ranges_or_empty_nodes(tmp_path: Path, name: str) -> None:
    tokens = ("Vamos", "nos", "a", "_", "#")
    assert read(tmp_path, CONLLU, name) == [(tokens, ("VERB", "PRON", "ADP", "", "NOUN"))]
    assert read(tmp_path, CONLLU, name, label_column="xpos")[0][1] == ("VMP", "", "SP", "DA", "NC")
    assert read(tmp_path, CONLLU, name, label_column="deprel")[0][1] == ("root", "obj", "case", "det", "obl")
    assert read(tmp_path, CONLLU, name, label_column="feats")[0][1] == ("_", "Case=Acc", "_", "_", "_")
    assert read(tmp_path, CONLLU, name, token_column="lemma", label_column=3)[0][0] == ("ir", "yo", "a", "el", "mar")


def test_a_mistake_in_conllu_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"a.conllu:2: a line of CoNLL-U has 10 columns separated by tabs; this one has 1"
    ):
        read(tmp_path, CONLLU.split("\n")[2] + "\n2 nos yo\n", "a.conllu")
    with pytest.raises(DataError, match=r"no token has a label \(columns .* labels in xpos\); name the column"):
        read(tmp_path, "1\ta\ta\tX\t_\t_\t0\troot\t_\t_\n", "a.conllu", label_column="xpos")
    with pytest.raises(
        ConfigError, match=r"tagged.txt is read as conll, whose columns have numbers and no names such as 'upos'"
    ):
        read(tmp_path, "a X\n", label_column="upos")


def material(*labels: Sequence[str], **data: Any) -> LabellingMaterial:
    sentences = [Sentence(tuple("abcdefgh"[: len(each)]), tuple(each), f"t:{i}") for i, each in enumerate(labels)] * 300
    letters, names = Vocabulary("abcdefgh"), Vocabulary(sorted({name for each in labels for name in each if name}))
    name = data.get("span_scheme")
    spans = scheme_of([each.labels for each in sentences], name)
    return LabellingMaterial(sentences, sentences[:1], letters, letters, names, spans, name)


def test_the_check_says_what_scheme_the_labels_have() -> None:
    assert "300 spans of 1 type (x): BIOES (IOBES), B-x, recognised" in str(check(material(["B-x", "E-x", "O"]), 9))
    assert "(x): BIO (IOB2), x_B, data.span_scheme" in str(check(material(["x_B", "O"], span_scheme="bio"), 9))
    assert "the labels do not mark spans, so there is no span_f1" in str(check(material(["X", "Y"]), 9))
    assert "most labels mark spans, but 1 label has no position (Z)" in str(check(material(["B-x", "I-x", "Z"]), 9))
    assert "300 of 900 spans are not written as BIO (IOB2) demands" in str(
        check(material(["B-x", "O", "B-x", "O", "I-x"]), 9)
    )
    wrong = check(material(["X", "Y"], span_scheme="bio"), 9)
    assert wrong.has_errors
    assert "data.span_scheme is bio, but no label is like B-X" in str(wrong)


def config_of(**keys: Any) -> LabellingConfig:
    return LabellingConfig(**{"data": {"train": "/a"}, **keys})


def test_the_scheme_is_saved_and_spans_cannot_select_where_there_are_none() -> None:
    task = TASKS["labelling"]
    resolved = task.resolve(config_of(select="span_f1"), material(["B-x", "I-x", "O"]), None)
    assert resolved.config.data.span_scheme == "bio"
    assert "data.span_scheme=bio" in str(resolved)
    for select in ("span_f1", "span_f1_strict"):
        with pytest.raises(
            ConfigError, match=f"labels do not mark spans, so there is no {select}; choose token_error_rate"
        ):
            task.resolve(config_of(select=select), material(["X", "Y"]), None)
    data = {"train": "/a", "span_scheme": "none"}
    with pytest.raises(ConfigError, match=r"data.span_scheme is none, so there is no span_f1"):
        task.resolve(config_of(select="span_f1", data=data), material(["B-x", "O"], span_scheme="none"), None)


def evaluated(outputs: Sequence[str], references: Sequence[str], **options: Any) -> LabellingEvaluation:
    tokens = tuple("abcdefgh"[: len(outputs)])
    sentence = Sentence(tokens, tuple(references), "t:1")
    return LabellingEvaluation(
        [ScoredSentence(sentence, Labelling(tokens, tuple(outputs), (1.0,) * len(tokens)))], **options
    )


def test_there_is_no_figure_of_spans_without_spans() -> None:
    evaluation = evaluated("XXY", "XYY")
    assert "span" not in " ".join(evaluation.metrics) + str(evaluation) + " ".join(evaluation.details)
    evaluation = evaluated(["S-x", "I-x"], ["S-x", "O"], scheme=SpanScheme("bioes"))
    assert "span F1 0.6667 (BIOES (IOBES); strict 1.0000)" in str(evaluation)
    assert evaluation.details["spans"]["strict"]["types"] == {"x": {"precision": 1, "recall": 1, "f1": 1, "support": 1}}


def test_labels_that_the_model_lacks_are_wrong_and_named() -> None:
    evaluation = evaluated("XXX", "XZZ", known=frozenset("XY"))
    assert evaluation.metrics["token_error_rate"] == pytest.approx(2 / 3)
    assert evaluation.warnings == [
        "1 sentence has labels that the training lacks; the model cannot be right there: 'Z' (2) (t:1)"
    ]
    assert evaluated("XX", "XY", known=frozenset("XY")).warnings == []


def test_tokens_without_a_label_are_not_scored() -> None:
    evaluation = evaluated(["B-x", "B-x", "O"], ["B-x", "", ""], scheme=SpanScheme("bio"))
    assert evaluation.metrics["token_error_rate"] == 0
    assert evaluation.metrics["span_f1"] == 1
    assert evaluation.warnings == ["2 tokens have no label in the file and are not scored"]
    assert str(evaluation.scored[0]) == "t:1  (0 of 3 tokens wrong)\n  a/B-x b/B-x c/O"
