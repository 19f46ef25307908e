"""Tables of pictures: what is read, what every mistake is called, and what a check finds."""

from __future__ import annotations

import gzip
import json
import pickle
import re
from pathlib import Path

import numpy as np
import pytest

from regard.data.pictures import check_pictures, open_pictures
from regard.data.pictures.tables import is_divided
from regard.errors import ConfigError, DataError
from regard.image import Fitting, Rendering, Strokes

STROKES = [[0, 0, 10, 10], [10, 0, 0, 10]]
OTHER = [[0, 0, 10, 0]]


def table(folder: Path, text: str, name: str = "captions.tsv") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def records(folder: Path, *values: object, name: str = "ink.jsonl") -> Path:
    return table(folder, "".join(json.dumps(value) + "\n" for value in values), name)


def saved(folder: Path, name: str, value: int = 0, size: tuple[int, int] = (20, 30)) -> Path:
    image = pytest.importorskip("PIL.Image", reason="pictures are written by Pillow")
    (folder / name).parent.mkdir(exist_ok=True)
    image.fromarray(np.full(size, value, np.uint8)).save(folder / name)
    return folder / name


def read(pictures):
    return [(picture.image, picture.texts, picture.id) for picture in pictures]


def test_rows_with_one_picture_are_its_references(tmp_path):
    path = table(tmp_path, 'a/1.png\ta "cat"\r\n\nb.png\ta dog\na/1.png\tthe cat\n')
    pictures = open_pictures(path)
    assert read(pictures) == [
        (tmp_path / "a/1.png", ('a "cat"', "the cat"), "a/1.png"),
        (tmp_path / "b.png", ("a dog",), "b.png"),
    ]
    assert [picture.place for picture in pictures] == [f"{path}:1", f"{path}:3"]
    assert pictures.num_blank == 1
    assert pictures.texts(1) == ("a dog",)


def test_columns_are_chosen_by_number_or_by_name(tmp_path):
    by_number = open_pictures(table(tmp_path, "x\ta cat\ta.png\n"), image_field=2, text_field=1)
    assert read(by_number) == [(tmp_path / "a.png", ("a cat",), "a.png")]
    path = table(tmp_path, "split\tcaption\tfile\ntrain\ta cat\ta.png\n", "named.tsv")
    by_name = open_pictures(path, image_field="file", text_field="caption")
    assert read(by_name) == [(tmp_path / "a.png", ("a cat",), "a.png")]
    with pytest.raises(DataError, match=r"named.tsv:1: no column 'captoin' \(data.text_field\) .*caption"):
        open_pictures(path, image_field="file", text_field="captoin")
    with pytest.raises(ConfigError, match=r"Columns are counted from 0; got data.image_field=-1"):
        open_pictures(path, image_field=-1)


def test_relative_paths_belong_to_the_table_or_to_a_folder(tmp_path):
    path = table(tmp_path, f"a.png\tone\n{tmp_path / 'b.png'}\ttwo\n")
    images = [picture.image for picture in open_pictures(path, image_folder=tmp_path / "images")]
    assert images == [tmp_path / "images" / "a.png", tmp_path / "b.png"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a.png\tone\nb.png\n",
            r"captions.tsv:2: 1 tab-separated column in 'b.png'; expected the path of a picture",
        ),
        ("a.png\tone\nb.png\ttwo\t3\n", "captions.tsv:2: 3 tab-separated columns .* the first line has 2"),
        ("a.png\tone\n \ttwo\n", "captions.tsv:2: data.image_field: expected the path of a picture; got ' '"),
        ("a.png\tone\na\0b\ttwo\n", "captions.tsv:2: data.image_field: .* is not a path: it has a zero byte"),
        ("", "captions.tsv: the file has no pictures"),
        ("\n\n", "captions.tsv: the file has no pictures"),
    ],
)
def test_malformed_rows_are_named(tmp_path, text, message):
    with pytest.raises(DataError, match=message):
        open_pictures(table(tmp_path, text))


def test_text_that_is_not_utf_8_is_named(tmp_path):
    (tmp_path / "a.tsv").write_bytes(b"a.png\tone\nb.png\t\xff\n")
    with pytest.raises(DataError, match=r"a.tsv:2: not UTF-8: byte 0xFF"):
        open_pictures(tmp_path / "a.tsv")


def test_strokes_of_records_are_read_on_demand(tmp_path):
    path = records(
        tmp_path,
        {"id": "f1", "strokes": STROKES, "tokens": "a + b", "latex": "$a+b$"},
        {"strokes": OTHER, "tokens": ["c", "\\alpha"]},
    )
    pictures = open_pictures(path)
    assert [(picture.texts, picture.id, picture.place) for picture in pictures] == [
        (("a + b",), "f1", f"{path}:1"),
        (("c \\alpha",), "2", f"{path}:2"),
    ]
    first = pictures[0].image
    assert isinstance(first, Strokes)
    assert [line.tolist() for line in first.lines] == [[[0, 0], [10, 10]], [[10, 0], [0, 10]]]
    assert first.text == "a + b"


def test_the_fields_of_records_are_chosen_by_name(tmp_path):
    path = records(
        tmp_path, {"img": "a.png", "tex": "x"}, {"img": "b.png", "tex": ["y", "z"]}, {"img": "a.png", "tex": "w"}
    )
    pictures = open_pictures(path, image_field="img", text_field="tex")
    assert read(pictures) == [(tmp_path / "a.png", ("x", "w"), "a.png"), (tmp_path / "b.png", ("y", "z"), "b.png")]
    with pytest.raises(ConfigError, match=r"Fields of JSONL have names, for example data.text_field=name; got 1"):
        open_pictures(path, image_field="img", text_field=1)


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        ("a b", ("a b",)),
        (["a b", "c"], ("a b", "c")),
        ([["a", "b"], ["c"]], ("a b", "c")),
        ([["a", "b"], "c d"], ("a b", "c d")),
        ("", ("",)),
    ],
)
def test_a_text_may_be_several_and_may_be_tokens(tmp_path, value, texts):
    assert open_pictures(records(tmp_path, {"image": "a.png", "text": value}))[0].texts == texts


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("nonsense", "ink.jsonl:2: expected a JSON object; got '\"nonsense\"'"),
        ({"image": "a.png"}, r"ink.jsonl:2: no field 'text' \(data.text_field\); it has 'image'"),
        ({"imgae": "a.png", "text": "x"}, r"ink.jsonl:2: no field 'image' \(data.image_field\); did you mean .*imgae"),
        ({"image": 3, "text": "x"}, "ink.jsonl:2: field 'image': expected the path of a picture; got '3'"),
        ({"image": "", "text": "x"}, "ink.jsonl:2: data.image_field: expected the path of a picture; got ''"),
        ({"image": [[0, 1]], "text": "x"}, "ink.jsonl:2: field 'image': the first line has a path, this one strokes"),
        ({"image": "a.png", "text": 3}, "ink.jsonl:2: field 'text': expected a text or a list of texts; got '3'"),
        ({"image": "a.png", "text": None}, "field 'text': expected a text or a list of texts; got nothing"),
        ({"image": "a.png", "text": []}, "field 'text': expected a text or a list of texts; got an empty list"),
        ({"image": "a.png", "text": ["x", 1]}, "field 'text': expected a text or a list of texts"),
        ({"image": "a.png", "text": [["x", 1]]}, "field 'text': expected a text or a list of texts"),
        ({"image": "a.png", "text": "\ud800"}, "field 'text': half a surrogate pair, not text"),
    ],
)
def test_malformed_records_are_named(tmp_path, value, message):
    path = records(tmp_path, {"image": "a.png", "text": "x"}, value)
    with pytest.raises(DataError, match=re.compile(message, re.IGNORECASE)):
        open_pictures(path)


def test_a_line_that_is_not_json_is_named(tmp_path):
    with pytest.raises(DataError, match=r"a.jsonl:2: not JSON at column 2"):
        open_pictures(table(tmp_path, '{"image": "a.png", "text": "x"}\n{image}\n', "a.jsonl"))


def test_malformed_strokes_are_named_when_they_are_read(tmp_path):
    path = records(tmp_path, {"strokes": STROKES, "text": "x"}, {"strokes": [[1, 2, 3]], "text": "y"})
    pictures = open_pictures(path)
    assert pictures.texts(1) == ("y",)
    with pytest.raises(DataError, match=r"ink.jsonl:2: field 'strokes': stroke 1: expected pairs of numbers"):
        pictures[1]


def coco(folder: Path, **changes: object) -> Path:
    value = {
        "images": [{"id": 7, "file_name": "7.jpg"}, {"id": 8, "file_name": "8.jpg"}, {"id": 9, "file_name": "9.jpg"}],
        "annotations": [
            {"image_id": 8, "id": 1, "caption": "a dog"},
            {"image_id": 7, "id": 2, "caption": "a cat"},
            {"image_id": 8, "id": 3, "caption": "the dog"},
        ],
    } | changes
    path = folder / "captions.json"
    path.write_text(json.dumps(value))
    return path


def test_captions_of_coco_belong_to_their_images(tmp_path):
    path = coco(tmp_path)
    assert read(open_pictures(path, image_folder=tmp_path / "val")) == [
        (tmp_path / "val/7.jpg", ("a cat",), "7.jpg"),
        (tmp_path / "val/8.jpg", ("a dog", "the dog"), "8.jpg"),
    ]
    assert [p.texts for p in open_pictures(path, with_texts=False)] == [(), (), ()]
    assert open_pictures(path)[1].place == f"{path}: images[1]"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"images": None}, "captions.json: expected captions in COCO's format, with a list 'images'"),
        ({"annotations": {}}, "with a list 'annotations'"),
        ({"images": [{"file_name": "a"}]}, r"captions.json: images\[0\]: id: expected a number or a text; got nothing"),
        ({"images": [{"id": 7}]}, r"images\[0\]: file_name: expected a text; got nothing"),
        ({"images": [{"id": 7, "file_name": " "}]}, r"images\[0\]: file_name: expected a text"),
        ({"images": [{"id": 7, "file_name": "a"}] * 2}, r"images\[1\]: id: 7 is also that of images\[0\]"),
        ({"images": [3]}, r"images\[0\]: id: expected a number"),
        ({"annotations": [{"image_id": 5, "caption": "x"}]}, r"annotations\[0\]: image_id: there is no image 5"),
        ({"annotations": [{"image_id": 7}]}, r"annotations\[0\]: caption: expected a text; got nothing"),
        ({"annotations": []}, "captions.json: no image has a caption"),
        ({"images": [], "annotations": []}, "captions.json: the file has no pictures"),
    ],
)
def test_malformed_captions_are_named(tmp_path, changes, message):
    with pytest.raises(DataError, match=message):
        open_pictures(coco(tmp_path, **changes))


def test_a_json_file_that_is_no_json_is_named(tmp_path):
    with pytest.raises(DataError, match=r"a.json:2: not JSON at column 1: Extra data.\n  Is it JSONL"):
        open_pictures(records(tmp_path, {"image": "a"}, {"image": "b"}, name="a.json"))
    with pytest.raises(DataError, match=r"expected captions in COCO's format, .* got 'list'"):
        open_pictures(records(tmp_path, [1], name="a.json"))
    (tmp_path / "b.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(DataError, match="is UTF-16; convert it first"):
        open_pictures(tmp_path / "b.json")


def ink(folder: Path, name: str, text: str | None = "$x$", trace: str = "0 0, 1 1") -> Path:
    note = "" if text is None else f'<annotation type="truth">{text}</annotation>'
    (folder / name).parent.mkdir(exist_ok=True, parents=True)
    (folder / name).write_text(f"<ink>{note}<trace>{trace}</trace></ink>")
    return folder / name


def test_a_folder_of_ink_is_a_table(tmp_path):
    folder = tmp_path / "ink"
    ink(folder, "b.inkml", "$b$")
    ink(folder, "a/c.INKML", "$c$")
    (folder / "readme.txt").write_text("")
    pictures = open_pictures(folder)
    assert [(picture.id, picture.texts) for picture in pictures] == [("a/c", ("c",)), ("b", ("b",))]
    assert pictures[1].place == str(folder / "b.inkml")
    assert [p.id for p in open_pictures(folder / "b.inkml")] == ["b"]


def test_tables_name_ink_like_pictures(tmp_path):
    ink(tmp_path, "a.inkml", "$a$")
    ink(tmp_path, "bad.inkml", trace="x")
    (tmp_path / "t.tsv").write_text("a.inkml\tx y\nbad.inkml\tz\nnone.inkml\tz\n")
    pictures = open_pictures(tmp_path / "t.tsv")
    assert pictures[0].texts == ("x y",)
    assert pictures[0].size() == open_pictures(tmp_path / "a.inkml")[0].size()
    assert pictures.texts(1) == ("z",)
    for index, found in ((1, "bad.inkml"), (2, "none.inkml: no such file")):
        with pytest.raises(DataError, match=rf"t.tsv:{index + 1}: .*{found}"):
            pictures[index]
    assert open_pictures(records(tmp_path, {"image": "a.inkml", "text": "q"}))[0].pixels().shape[2] == 1


def test_ink_without_a_text_serves_predictions_only(tmp_path):
    path = ink(tmp_path, "a.inkml", None)
    assert open_pictures(path, with_texts=False)[0].texts == ()
    with pytest.raises(DataError, match=r"a.inkml: the file has no text, an annotation of type truth"):
        open_pictures(path)[0]
    with pytest.raises(DataError, match=r"a.inkml: the file has no text, an annotation of type label"):
        open_pictures(path, text_field="label")[0]


def test_folders_without_ink_and_options_without_effect_are_refused(tmp_path):
    with pytest.raises(DataError, match=r"the folder has no pictures .* and no InkML"):
        open_pictures(tmp_path)
    path = ink(tmp_path, "a.inkml")
    with pytest.raises(ConfigError, match=r"data.image_field=0 has no effect on InkML"):
        open_pictures(path, image_field=0)
    with pytest.raises(ConfigError, match="Annotations of InkML have types"):
        open_pictures(path, text_field=1)
    with pytest.raises(ConfigError, match=r"data.text_field='x' has no effect on captions of COCO"):
        open_pictures(coco(tmp_path), text_field="x")


def test_compressed_tables_are_read_and_missing_ones_are_refused(tmp_path):
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"image": "a.png", "text": "one"}\n'))
    for format in ("auto", "jsonl"):
        assert open_pictures(tmp_path / "a.jsonl.gz", format=format)[0].texts == ("one",)
    for name in ("c.tsv", "c.jsonl", "c.json", "c.inkml"):
        with pytest.raises(DataError, match=rf"{name}: no such file"):
            open_pictures(tmp_path / name)


def test_without_texts_only_pictures_are_read(tmp_path):
    assert read(open_pictures(table(tmp_path, "a.png\nb.png\n"), with_texts=False)) == [
        (tmp_path / "a.png", (), "a.png"),
        (tmp_path / "b.png", (), "b.png"),
    ]
    assert open_pictures(records(tmp_path, {"strokes": STROKES}), with_texts=False)[0].texts == ()


def test_tables_are_sequences_that_other_processes_can_read(tmp_path):
    path = records(tmp_path, *({"strokes": [[i, 0, i, 9]], "text": str(i)} for i in range(5)))
    pictures = open_pictures(path)
    assert [p.texts[0] for p in pictures[1:4][::-1]] == ["3", "2", "1"]
    assert pictures[-1].texts == ("4",)
    assert pictures[::2].texts(1) == ("2",)
    with pytest.raises(IndexError, match="has 5 pictures; got the index 5"):
        pictures[5]
    again = pickle.loads(pickle.dumps(pictures))
    assert again[3].texts == ("3",)
    assert again[3].image.lines[0].tolist() == [[3, 0], [3, 9]]


def test_a_picture_is_read_or_drawn_and_its_size_is_known_before(tmp_path):
    saved(tmp_path, "a.png", 7)
    pictures = open_pictures(table(tmp_path, "a.png\tone\nb.png\ttwo\n"))
    assert pictures[0].size() == (20, 30)
    assert pictures[0].pixels(colour="rgb").shape == (20, 30, 3)
    for read in (pictures[1].size, pictures[1].pixels):
        with pytest.raises(DataError, match=r"captions.tsv:2: .*b.png: no such file"):
            read()
    written = open_pictures(records(tmp_path, {"strokes": STROKES, "text": "x"}))[0]
    for rendering in (None, Rendering(unit=40, pen=3)):
        assert written.pixels(rendering=rendering).shape == (*written.size(rendering), 1)


def texts(findings, severity):
    return [str(finding) for finding in findings.findings if finding.severity == severity]


def test_what_is_wrong_with_files_is_found(tmp_path):
    saved(tmp_path, "a.png", 1)
    saved(tmp_path, "same.png", 1)
    saved(tmp_path, "small.png", 2, (4, 30))
    cut = saved(tmp_path, "cut.png", 3, (200, 300))
    cut.write_bytes(cut.read_bytes()[:-40])
    path = table(tmp_path, "a.png\tone\nsame.png\t \nsmall.png\tthree\nsmall.png\tthree \ncut.png\tx\nnone.png\ty\n")
    fitting = Fitting(min_height=8)
    found = check_pictures(open_pictures(path), fitting=fitting)
    (error,) = texts(found, "error")
    assert "2 of train's pictures cannot be read" in error
    assert re.search(r"captions.tsv:5: .*cut.png: the picture is truncated or damaged", error)
    assert re.search(r"captions.tsv:6: .*none.png: no such file", error)
    warnings = "\n".join(texts(found, "warning"))
    assert f"1 of train's pictures has an empty text ({path}:2)" in warnings
    assert f"1 of train's pictures is too small for the network ({path}:3 has 4 × 30)" in warnings
    assert f"1 of train's pictures is the same as an earlier one ({path}:2 is {path}:1)" in warnings
    information = "\n".join(texts(found, "info"))
    assert "train has 5 pictures; height 4 to 20 pixels, median 20, 95 % up to 20; width 30 to 30 pixels" in information
    assert f"1 of train's pictures has a text twice ({path}:3)" in information
    # headers are whole, so without decoding only what is missing is found
    (error,) = texts(check_pictures(open_pictures(path), decode=False), "error")
    assert "1 of train's pictures cannot be read" in error


def test_what_train_and_dev_share_is_found(tmp_path):
    train = records(tmp_path, {"strokes": STROKES, "text": "x"}, {"strokes": OTHER, "text": "y"}, name="train.jsonl")
    dev = records(tmp_path, {"strokes": [[5, 5]], "text": "x"}, {"strokes": STROKES, "text": "z"}, name="dev.jsonl")
    found = check_pictures(open_pictures(train), open_pictures(dev))
    assert texts(found, "error") == []
    assert texts(found, "warning") == []
    assert "info: 1 of dev's 2 distinct texts is also in the training" in texts(found, "info")
    assert not found.has_errors


def test_strokes_that_cannot_be_read_and_equal_texts_are_errors(tmp_path):
    path = records(tmp_path, *({"strokes": [[i, 0] * (i != 3)], "text": "x"} for i in range(12)))
    errors = texts(check_pictures(open_pictures(path)), "error")
    assert len(errors) == 1
    assert re.search(r"1 of train's pictures cannot be read \(.*ink.jsonl:4: field 'strokes': stroke 1", errors[0])
    path = records(tmp_path, *({"strokes": [[i, 0]], "text": "x "} for i in range(12)))
    assert texts(check_pictures(open_pictures(path)), "error") == ["error: all 12 pictures of train have the text 'x'"]
    path = records(tmp_path, *({"strokes": [[i, 0]], "text": ""} for i in range(3)))
    assert texts(check_pictures(open_pictures(path)), "error") == [
        f"error: 3 of train's pictures have an empty text ({path}:1, {path}:2, {path}:3)"
    ]


def test_captions_of_flickr_are_read_as_they_are_published(tmp_path):
    rows = {
        "Flickr8k.token.txt": "1.jpg#0\tA dog .\n1.jpg#1\tA brown dog .\n2.JPG#0\tTwo men .\n",
        "captions.txt": "image,caption\n1.jpg,A dog .\n1.jpg,A brown dog .\n2.JPG,Two men .\n",
        "results.csv": "image_name| comment_number| comment\n1.jpg| 0| A dog .\n1.jpg| 1| A brown dog .\n"
        "2.JPG| 0| Two men .\n",
        "a.csv": '1.jpg,A dog .\n1.jpg,"A brown dog ."\n2.JPG,Two men .\n',
        "a.tsv": "id\tcaption\tfile\n1\tA dog .\t1.jpg\n2\tA brown dog .\t1.jpg\n3\tTwo men .\t2.JPG\n",
    }
    for name, text in rows.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
        pictures = open_pictures(tmp_path / name)
        found = [(picture.id, picture.texts) for picture in pictures]
        assert found == [("1.jpg", ("A dog .", "A brown dog .")), ("2.JPG", ("Two men .",))], name


def test_the_parts_of_karpathy_are_read_one_by_one(tmp_path):
    splits = ["train", "val", "test", "restval"]
    images = [
        {
            "filename": f"{n}.jpg",
            "split": split,
            "sentences": [{"raw": f"A {n}.", "tokens": ["a", str(n)]}, {"tokens": ["b"]}],
        }
        for n, split in enumerate(splits)
    ]
    images[1]["filepath"] = "val2014"
    path = tmp_path / "dataset.json"
    path.write_text(json.dumps({"images": images, "dataset": "flickr8k"}), encoding="utf-8")
    assert is_divided(path)
    parts = {
        part: [picture.id for picture in open_pictures(path, part=part)] for part in ("train", "dev", "test", None)
    }
    assert parts == {
        "train": ["0.jpg", "3.jpg"],
        "dev": ["val2014/1.jpg"],
        "test": ["2.jpg"],
        None: ["0.jpg", "val2014/1.jpg", "2.jpg", "3.jpg"],
    }
    assert open_pictures(path)[0].texts == ("A 0.", "b")
    assert open_pictures(path, with_texts=False)[0].texts == ()
    images[0]["split"] = "training"
    path.write_text(json.dumps({"images": images}), encoding="utf-8")
    with pytest.raises(
        DataError, match=r"images\[0\]: split: expected one of train, restval, val, dev, test; got 'training'"
    ):
        open_pictures(path, part="train")


def test_a_folder_has_pictures_with_their_texts_beside_them(tmp_path):
    (tmp_path / "b").mkdir()
    for name in ("10.png", "9.png", "b/1.jpg"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "10.txt").write_text("ten\n", encoding="utf-8")
    (tmp_path / "9.gt.txt").write_text("nine", encoding="utf-8")
    with pytest.raises(DataError, match=r"b/1.jpg: there is no 1.txt with its text"):
        open_pictures(tmp_path)
    (tmp_path / "b" / "1.txt").write_text("one\ntwo\n", encoding="utf-8")
    with pytest.raises(DataError, match=r"b/1.txt: 2 lines; the text of a picture is one line"):
        open_pictures(tmp_path)
    (tmp_path / "b" / "1.txt").write_text("one\n", encoding="utf-8")
    pictures = open_pictures(tmp_path)
    assert [(picture.id, picture.texts) for picture in pictures] == [
        ("9.png", ("nine",)),
        ("10.png", ("ten",)),
        ("b/1.jpg", ("one",)),
    ]
    assert [picture.id for picture in open_pictures(tmp_path, with_texts=False)] == ["9.png", "10.png", "b/1.jpg"]
    with pytest.raises(ConfigError, match=r"data.text_field=1 has no effect on a folder"):
        open_pictures(tmp_path, text_field=1)
