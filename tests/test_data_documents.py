"""Documents: readers, sentences, words, labels, and batches of them."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data import bucket
from regard.data.documents import (
    Document,
    DocumentField,
    Documents,
    EncodedDocument,
    Labels,
    Sentences,
    document_findings,
    hold_out_documents,
    pad_documents,
    read_documents,
)
from regard.data.text import Normalisation, Vocabulary, WhitespaceUnits
from regard.data.text.units import ByteUnits
from regard.errors import ConfigError, DataError, RegardError


def written(folder, name, data):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8"))
    return path


def shown(documents):
    return [(item.labels, item.text, item.line) for item in documents]


ROWS = [(("earn",), "a b", 1), (("acq",), "c. D", 2)]


def test_a_line_is_label_tab_text(tmp_path):
    assert shown(read_documents(written(tmp_path, "a.txt", "earn\ta b\nacq\tc. D\n"))) == ROWS


def test_columns_of_tsv_are_chosen_by_number_and_several_texts_are_joined(tmp_path):
    path = written(tmp_path, "a.tsv", "\n0\tearn\tTitle\tBody\n1\tacq\tT\tB\n")
    documents = read_documents(path, label_field=1, text_field=[2, 3])
    assert shown(documents) == [(("earn",), "Title\n\nBody", 2), (("acq",), "T\n\nB", 3)]
    assert documents.num_blank == 1


def test_a_tsv_file_may_name_its_columns(tmp_path):
    path = written(tmp_path, "a.tsv", 'id\ttext\tlabel\n1\ta "b\tx\n\n2\tc\ty\n')
    assert shown(read_documents(path)) == [(("x",), 'a "b', 2), (("y",), "c", 4)]
    assert shown(read_documents(path, header=True, text_field="id")) == [(("x",), "1", 2), (("y",), "2", 4)]
    assert read_documents(path, labelled=False)[0].text == 'a "b'
    path = written(tmp_path, "b.tsv", "rating\treview\n1\ta\n")
    assert shown(read_documents(path, text_field="review", label_field="rating")) == [(("1",), "a", 2)]
    assert len(read_documents(path)) == 2
    with pytest.raises(DataError, match=r"b.tsv:1: no column 'txt' \(data.text_field\)"):
        read_documents(path, text_field="txt")


def test_columns_of_csv_are_chosen_by_name_and_quoted_fields_may_have_lines(tmp_path):
    data = '\ufeffid,Label, text\r\n1,earn,"a ""b"",\nc"\r\n\r\n2,acq,d\r\n'
    documents = read_documents(written(tmp_path, "a.csv", data), label_field="Label")
    assert shown(documents) == [(("earn",), 'a "b",\nc', 2), (("acq",), "d", 5)]
    assert documents.num_blank == 1


def test_csv_may_have_another_delimiter_no_header_and_long_fields(tmp_path):
    long = "x " * 100_000
    documents = read_documents(
        written(tmp_path, "a.csv", f"{long};earn\n"), delimiter=";", header=False, text_field=0, label_field=1
    )
    assert shown(documents) == [(("earn",), long, 1)]


def test_labels_of_jsonl_may_be_texts_numbers_and_lists(tmp_path):
    lines = [{"text": "a", "label": 3}, {"text": "b", "label": True}, {"text": "c", "label": " x "}]
    path = written(tmp_path, "a.jsonl", "\n".join(map(json.dumps, lines)))
    assert [item.labels for item in read_documents(path)] == [("3",), ("true",), ("x",)]
    path = written(tmp_path, "b.jsonl", '{"t": "a", "l": ["x", "y;z", 1]}\n{"t": "b", "l": []}\n["u", "x"]\n')
    with pytest.raises(DataError, match=r"b.jsonl:3: expected the field 't'"):
        read_documents(path, text_field="t", label_field="l", label_separator=";")
    path = written(tmp_path, "b.jsonl", '{"t": "a", "l": ["x", "y;z", 1]}\n{"t": "b", "l": []}\n')
    documents = read_documents(path, text_field="t", label_field="l", label_separator=";")
    assert [item.labels for item in documents] == [("x", "y", "z", "1"), ()]


def test_a_folder_of_each_label_has_its_texts(tmp_path):
    written(tmp_path, "d/acq/2", "two\nlines")
    written(tmp_path, "d/acq/1.txt", "one")
    written(tmp_path, "d/earn/x/3.txt", "")
    written(tmp_path, "d/.hidden/4", "no")
    documents = read_documents(tmp_path / "d")
    assert [(item.labels, item.text, item.file.name) for item in documents] == [
        (("acq",), "one", "1.txt"),
        (("acq",), "two\nlines", "2"),
        (("earn",), "", "3.txt"),
    ]
    assert documents[0].place == f"{tmp_path / 'd/acq/1.txt'}:1"


def test_several_labels_are_separated_and_repeated_and_empty_ones_left_out(tmp_path):
    path = written(tmp_path, "a.txt", "x; y;x;\ta\n\tb\n")
    assert [item.labels for item in read_documents(path, label_separator=";")] == [("x", "y"), ()]


def test_texts_without_labels_can_be_read(tmp_path):
    assert shown(read_documents(written(tmp_path, "a.txt", "just text\n"), labelled=False)) == [((), "just text", 1)]
    path = written(tmp_path, "a.csv", "text\nhello\n")
    assert shown(read_documents(path, labelled=False)) == [((), "hello", 2)]
    written(tmp_path, "d/1.txt", "one")
    assert shown(read_documents(tmp_path / "d", labelled=False)) == [((), "one", 1)]


def test_slices_of_documents_are_documents(tmp_path):
    documents = read_documents(written(tmp_path, "a.txt", "x\ta\ny\tb\n"))
    assert shown(documents[1:]) == [(("y",), "b", 2)]
    assert documents[-1].text == "b"


@pytest.mark.parametrize(
    ("name", "data", "options", "message"),
    [
        ("a.txt", "x\ta\nb\n", {}, r"a.txt:2: 1 tab-separated column in 'b'; fields 1, 0(.|\n)*label, tab, text"),
        ("a.txt", "x\ta\nx\tb\tc\n", {}, r"a.txt:2: 3 tab-separated columns .*first line has 2"),
        ("a.txt", " \ta\n", {}, r"a.txt:1: field 0 is empty(.|\n)*separator"),
        ("a.csv", "label,txt\nx,a\n", {}, r"a.csv:1: no column 'text' \(data.text_field\); did you mean 'txt'"),
        ("a.csv", "label;text\nx;a\n", {}, r"a.csv:1: no column 'text' \(data.text_field\)(.|\n)*',' the delimiter"),
        ("a.csv", "label,text,text\nx,a,b\n", {}, r"a.csv:1: 2 columns are named 'text'"),
        ("a.csv", "label,text\nx,a,b\n", {}, r"a.csv:2: 3 fields in 'x,a,b'; the header has 2(.|\n)*double quotes"),
        ("a.csv", 'label,text\nx,a\ny,"b\n', {}, r"a.csv:3: not CSV: a quotation mark is not closed"),
        ("a.csv", b"label,text\nx,\xe9\n", {}, r"a.csv:2: not UTF-8: byte 0xE9(.|\n)*iconv"),
        (
            "a.jsonl",
            '{"text": "a", "label": "x"}\n{"text": "a"}\n',
            {},
            r"a.jsonl:2: no field 'label' \(data.label_field\); there are 'text'",
        ),
        ("a.jsonl", '{"text": 1, "label": "x"}\n', {}, r"a.jsonl:1: field 'text' must be text; got '1'"),
        ("a.jsonl", '{"text": "a", "label": ["x"]}\n', {}, r"a.jsonl:1: field 'label' must be text(.|\n)*separator"),
        (
            "a.jsonl",
            '{"text": "a", "label": 0.5}\n',
            {},
            r"a.jsonl:1: field 'label' must be text or a number; got '0.5'",
        ),
        ("a.jsonl", "{", {}, r"a.jsonl:1: not JSON"),
        ("a.jsonl", '{"text": "\\ud800", "label": "x"}', {}, r"a.jsonl:1: field 'text' has half a surrogate pair"),
        ("a.jsonl", '["a"]\n', {"text_field": 0, "label_field": 1}, r"a.jsonl:1: no field 1 .*the list has 1"),
        ("d/loose.txt", "a", {"folder": "d"}, r"loose.txt: has no label, as it is in no folder"),
        ("d/x/1", b"\x1f\x8b..", {"folder": "d"}, r"d/x/1: cannot be unpacked"),
    ],
)
def test_damaged_files_are_refused_by_file_line_field_and_value(tmp_path, name, data, options, message):
    path = written(tmp_path, name, data)
    options = dict(options)
    path = tmp_path / options.pop("folder") if "folder" in options else path
    with pytest.raises(DataError, match=message):
        read_documents(path, **options)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("a.xls", {}, r"'.xls' is unknown; expected one of .csv"),
        ("a.txt", {"text_field": "text", "header": False}, r"columns of TSV are counted from 0, .*'text'"),
        ("a.txt", {"text_field": -1}, r"counted from 0, .*-1"),
        ("a.csv", {"text_field": 0}, r"have names; got 0"),
        ("a.csv", {"delimiter": "tab"}, r"single character.*'tab'"),
        ("a.txt", {"label_separator": ""}, r"label_separator must not be empty"),
        ("a.txt", {"text_field": ()}, r"text_field lists no field"),
        (".", {"label_field": "label"}, r"label_field='label' has no effect"),
    ],
)
def test_options_that_contradict_the_file_are_refused(tmp_path, name, options, message):
    if name != ".":
        written(tmp_path, name, "label,text\nx,y\n")
    with pytest.raises(ConfigError, match=message):
        read_documents(tmp_path / name, **options)


def test_missing_files_are_refused_with_the_nearest_name(tmp_path):
    written(tmp_path, "train.csv", "a")
    with pytest.raises(DataError, match=r"no such file. Did you mean .*train.csv"):
        read_documents(tmp_path / "trian.csv")
    with pytest.raises(DataError, match="no such file"):
        read_documents(tmp_path / "other")
    with pytest.raises(DataError, match="no such folder"):
        read_documents(tmp_path / "other", format="folder")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="has no documents"):
        read_documents(tmp_path / "empty")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        (" \n\n ", []),
        ("One. Two! Three? Four… Five", ["One.", "Two!", "Three?", "Four…", "Five"]),
        ("Really?! Yes...  No", ["Really?!", "Yes...", "No"]),
        ("He said “Go.” Then he (surely.) left.", ["He said “Go.”", "Then he (surely.) left."]),
        ("Mr. Smith of Acme Inc. met J. R. Doe.", ["Mr. Smith of Acme Inc. met J. R. Doe."]),
        ("In the U.S. Senate, e.g. Ohio's.", ["In the U.S. Senate, e.g. Ohio's."]),
        ("It cost 3.50 dollars. 20 came.", ["It cost 3.50 dollars.", "20 came."]),
        ("1. First. 2. Second.", ["1. First.", "2. Second."]),
        ("It is version 2. Next", ["It is version 2.", "Next"]),
        ("what. ever", ["what. ever"]),
        ("wrapped\nline\n \nnew", ["wrapped\nline", "new"]),
        ("これはペン。あれは本！", ["これはペン。", "あれは本！"]),
        ("Vitamin C. Then", ["Vitamin C. Then"]),
        (". . .", [".", ".", "."]),
    ],
)
def test_sentences_follow_the_rules(text, expected):
    assert Sentences()(text) == expected


def test_line_ends_end_sentences_as_chosen():
    text = "one\ntwo\n\nthree"
    assert Sentences("line")(text) == ["one", "two", "three"]
    assert Sentences("space")(text) == [text]
    assert Sentences("paragraph")(text.replace("\n", "\r\n")) == ["one\ntwo", "three"]
    assert Sentences(abbreviations=frozenset({"foo"}))("Foo. Mr. Bar") == ["Foo. Mr.", "Bar"]
    with pytest.raises(RegardError, match=r"newlines must be .*'word'"):
        Sentences("word")


@given(st.text("aB1 .!?…。”(\n\r\tMr", max_size=60), st.sampled_from(["paragraph", "line", "space"]))
def test_nothing_but_white_space_is_lost_between_sentences(text, newlines):
    sentences = Sentences(newlines)(text)
    assert re.sub(r"\s", "", "".join(sentences)) == re.sub(r"\s", "", text)
    assert all(sentence.strip() == sentence != "" for sentence in sentences)


def test_a_long_text_takes_no_quadratic_time():
    assert len(Sentences()("A. " * 100_000)) == 1


def test_documents_are_sentences_of_ids():
    field = DocumentField.build(["The cat sat. The dog ran.", "A cat ran!"])
    encoded = field.encode("The cat ran. ... A bird")
    assert encoded.tokens == (("the", "cat", "ran", "."), (".", ".", "."), ("a", "bird"))
    assert encoded.unknown == ("bird",)
    assert [field.words.vocabulary.tokens(ids) for ids in encoded.sentences] == [
        list(words) if "bird" not in words else ["a", "<unk>"] for words in encoded.tokens
    ]
    assert encoded.num_words == 9


def test_long_sentences_are_divided_evenly_and_sentences_beyond_the_limit_are_counted():
    field = DocumentField.build(["a b c d e f g"], units=WhitespaceUnits(), max_words=3, max_sentences=4)
    assert field.encode("a b c d e f g").tokens == (("a", "b"), ("c", "d"), ("e", "f", "g"))
    encoded = field.encode("a b c d\n\na\n\nb\n\nc\n\nd")
    assert (len(encoded.sentences), encoded.num_divided, encoded.num_cut) == (4, 1, 2)


def test_documents_without_words_and_damaged_texts_are_encoded_too():
    field = DocumentField.build(["a"])
    assert field.encode("").sentences == field.encode(" \n").sentences == ()
    assert "half a surrogate" in field.encode("a \ud800").refusal


def test_a_document_may_be_one_sentence_and_words_limited():
    field = DocumentField.build(["b a. B"], sentences=None, min_count=2, normalisation=Normalisation(case="lower"))
    assert field.words.vocabulary.symbols == ("b",)
    assert field.encode("a. B").tokens == (("a", ".", "b"),)
    assert DocumentField.build(["a"], units=ByteUnits()).words.vocabulary == Vocabulary(ByteUnits.inventory)
    with pytest.raises(DataError, match="occurs 3 times; lower min_count"):
        DocumentField.build(["a a"], min_count=3)
    with pytest.raises(RegardError, match="max_words must be at least 1; got 0"):
        DocumentField.build(["a"], max_words=0)


@pytest.mark.parametrize("sentences", [None, Sentences("line"), Sentences(abbreviations=frozenset({"foo"}))])
def test_a_field_reads_back_what_it_saved(tmp_path, sentences):
    field = DocumentField.build(["One. two\nFoo. Three"], sentences=sentences, max_words=3, max_sentences=5)
    field.save(tmp_path, "text")
    loaded = DocumentField.load(tmp_path, "text")
    assert (loaded.sentences, loaded.max_words, loaded.max_sentences) == (sentences, 3, 5)
    assert loaded.encode("One foo. Three two").tokens == field.encode("One foo. Three two").tokens


@pytest.mark.parametrize(
    "damage", ["", "[]", "{}", '{"format": 2}', '{"format": 1, "newlines": null, "max_words": "a", "max_sentences": 1}']
)
def test_a_damaged_field_is_refused_by_its_file(tmp_path, damage):
    DocumentField.build(["a"]).save(tmp_path, "text")
    path = tmp_path / "text-sentences.json"
    path.write_text(damage)
    with pytest.raises(DataError, match=str(path)):
        DocumentField.load(tmp_path, "text")
    path.unlink()
    with pytest.raises(DataError, match="cannot be read"):
        DocumentField.load(tmp_path, "text")


def test_documents_are_padded_at_both_levels():
    field = DocumentField.build(["a b c. D", ""])
    ids, mask = pad_documents([field.encode("a b c. D"), field.encode("")])
    assert ids.shape == mask.shape == (2, 2, 4)
    assert mask.sum((1, 2)).tolist() == [5, 0]
    assert not ids[~mask].any()
    assert pad_documents([])[0].shape == (0, 0, 0)
    assert pad_documents([field.encode("")])[0].shape == (1, 0, 0)


def test_batches_of_documents_are_of_similar_size():
    words, sentences = np.array([100, 9, 98, 10, 101, 11]), np.array([9, 2, 8, 1, 9, 2])
    batches = bucket(words, sentences, batch_tokens=310, seed=0, epoch=0)
    assert sorted(sorted(batch.tolist()) for batch in batches) == [[0, 2, 4], [1, 3, 5]]
    assert sorted(np.concatenate(batches).tolist()) == list(range(6))


def document(*labels, text="t"):
    return Document(text, labels, "f.csv", 7)


def test_labels_have_ids_in_order_and_read_back(tmp_path):
    labels = Labels.build([document("b"), document("a"), document("b")])
    assert labels.names == ("a", "b")
    assert labels.ids([document("b"), document("a")]).tolist() == [1, 0]
    assert ("a" in labels, "c" in labels) == (True, False)
    several = Labels.build([document("b", "a"), document()], several=True)
    assert several.indicators([document("b"), document()]).tolist() == [[False, True], [False, False]]
    for these in (labels, several):
        these.save(tmp_path / "labels.json")
        assert Labels.load(tmp_path / "labels.json") == these
    assert labels != several


def test_labels_that_cannot_be_are_refused(tmp_path):
    labels = Labels(["earn", "acq"])
    with pytest.raises(DataError, match=r"f.csv:7: 'earm' is not a label .* Did you mean 'earn'"):
        labels.ids([document("earm")])
    with pytest.raises(DataError, match=r"'zzz' .*The labels are earn, acq\."):
        labels.indicators([document("zzz")])
    with pytest.raises(DataError, match=r"f.csv:7: a document needs one label; this one has 'a', 'b'"):
        Labels.build([document("a", "b")])
    with pytest.raises(DataError, match="this one has none"):
        labels.ids([document()])
    with pytest.raises(DataError, match="have no labels"):
        Labels.build([document()], several=True)
    with pytest.raises(RegardError, match="'a' occurs twice"):
        Labels(["a", "b", "a"])
    Vocabulary(["a"]).save(tmp_path / "v.json")
    with pytest.raises(DataError, match=r"v.json: not labels"):
        Labels.load(tmp_path / "v.json")


def test_findings_name_what_looks_wrong():
    documents = [
        Document(text, (label,), "f", line)
        for line, (text, label) in enumerate(
            [("a b c d", "x"), ("", "x"), ("a\n\nb\n\nc", "x"), ("e", "x"), ("e", "y"), ("\ud800", "x")], 1
        )
    ]
    field = DocumentField.build(["a b c d e"], max_words=2, max_sentences=2)
    found = [str(finding) for finding in document_findings(documents, [field.encode(d.text) for d in documents])]
    assert found == [
        "warning: 1 document cannot be read (f:6)",
        "warning: 1 of 6 documents has no words (f:2)",
        "warning: 1 document has too many sentences; 1 sentence is left out (f:3)",
        "info: 1 sentence was too long and divided, in 1 document (f:1)",
        "warning: 2 documents have the text of another one and other labels (f:4, f:5)",
    ]
    assert document_findings([], []) == []
    assert EncodedDocument((), ()).num_words == 0


def test_documents_of_equal_text_are_held_out_together_whatever_their_order():
    items = [document(f"l{i % 3}", text=f"text {i % 50}") for i in range(200)]
    train, dev = hold_out_documents(Documents(items), 0.3)
    assert len(train) + len(dev) == 200
    texts = {item.text for item in dev}
    assert 5 < len(texts) < 25
    assert texts.isdisjoint(item.text for item in train)
    assert {item.text for item in hold_out_documents(Documents(items[::-1]), 0.3)[1]} == texts
    for fraction, which in ((0.0, "none"), (1.0, "all")):
        with pytest.raises(DataError, match=f"Of 200 documents, a fraction of {fraction:g} holds out {which}"):
            hold_out_documents(Documents(items), fraction)
