"""Training pairs on disk: encoded in parts, cached, mixed from several files, and read from Parquet and Arrow."""

from __future__ import annotations

import errno
import gzip
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regard
from regard.cli import run
from regard.config import from_values
from regard.data import bucket, cache, growing_array, pairs
from regard.data.cache import CacheEntry
from regard.data.text import open_pairs
from regard.errors import ConfigError, DataError, RegardError
from regard.runs import trained_items
from regard.runs.contract import task_of
from regard.runs.trained_items import TrainedItems, TrainedItemsRecorder
from regard.tasks.text_to_text import cached
from regard.tasks.text_to_text.mixture import PairMixture, parts_of
from test_tasks_defaults import syllables

WORDS = ["ab", "abba", "cab", "bac", "b", "acca", "ccb", "abcabc", "bb", "cc"]
LOOP = {"batch_tokens": 40, "max_steps": 5, "device": "cpu", "threads": 1, "samples": 0, "log_every": 1}


def written(path: Path, count: int = 60, start: int = 0) -> Path:
    words = [WORDS[i % 10] + WORDS[i // 10 % 10] for i in range(start, start + count)]
    path.write_text("".join(f"{word}\t{word[::-1].upper()}\n" for word in words), encoding="utf-8")
    return path


def configuration(train: Any, **data: Any) -> dict[str, Any]:
    plain = json.loads(json.dumps(train, default=str))
    model = {"encoder": {"size": 8, "dropout": 0.3}, "decoder": {"size": 8}}
    return {"task": "text_to_text", "data": {"train": plain, **data}, "model": model, "training": LOOP}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a cache of which every file is large enough."""
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cached, "LEAST_BYTES", 0)
    return tmp_path / "cache"


def trained(folder: Path, values: dict[str, Any]) -> dict[str, bytes]:
    regard.train(values, folder, quiet=True)
    names = ["model.safetensors", "source.json", "target.json", "trained.npy"]
    log = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for line in log:
        line.pop("timing", None)
    return {**{name: (folder / name).read_bytes() for name in names}, "log": json.dumps(log).encode()}


def read(values: dict[str, Any]) -> Any:
    config = from_values(values, {}).config
    return task_of(config).read(config)


@pytest.mark.parametrize("change", ["held out", "a file of held-out pairs", "several files", "syllables"])
def test_a_cached_training_equals_one_in_memory(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    first, second = written(tmp_path / "a.tsv"), written(tmp_path / "b.tsv", 9, start=70)
    values = {
        "held out": configuration(first, max_length=8),
        "a file of held-out pairs": configuration(first, dev=str(second)),
        "several files": configuration([first, {"file": second, "weight": 2.5}], temperature=2.0),
        "syllables": configuration(syllables(tmp_path / "c.tsv"), dev_fraction=0.3),
    }[change]
    with monkeypatch.context() as context:
        context.setattr(cached, "LEAST_BYTES", 1 << 60)
        expected = trained(tmp_path / "memory", values)
    assert not place.exists()
    monkeypatch.setattr(growing_array, "MOST_BYTES", 16)
    monkeypatch.setattr(growing_array, "MOST_SCRATCH", 16)
    monkeypatch.setattr(growing_array, "BLOCK", 7)
    monkeypatch.setattr(pairs, "PART", 7)
    assert trained(tmp_path / "written", values) == expected
    assert len(cache.entries()) == 1
    assert trained(tmp_path / "cached", values) == expected
    config = from_values(values, {}).config
    material = task_of(config).read(config)
    reports = [str(task_of(config).checked(config, each)) for each in (material, cached.read_pairs(config.data))]
    assert reports[0] == reports[1]
    assert material.config.source.units == ("letter" if change == "syllables" else "character")


def test_small_files_are_not_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    trained(tmp_path / "run", configuration(written(tmp_path / "a.tsv")))
    assert not (tmp_path / "cache").exists()


def test_an_entry_belongs_to_the_content_and_the_settings(tmp_path: Path, place: Path) -> None:
    path = written(tmp_path / "a.tsv")
    read(configuration(path))
    read(configuration(path, max_length=9))
    written(path, 59)
    read(configuration(path))
    path.rename(tmp_path / "c.tsv")
    read(configuration(tmp_path / "c.tsv"))
    assert len(cache.entries()) == 3, "another name is no other content"
    read(configuration(tmp_path / "c.tsv", source={"units": "character"}))
    assert len(cache.entries()) == 4, "units that are set are not those of the data"


def test_damaged_entries_and_those_of_other_versions_are_written_again(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = configuration(written(tmp_path / "a.tsv"))
    expected = trained(tmp_path / "run", values)
    ((entry, _, _),) = cache.entries()
    ids = (entry / "source.ids.npy").read_bytes()
    os.truncate(entry / "source.ids.npy", len(ids) - 3)
    assert trained(tmp_path / "again", values) == expected
    assert (entry / "source.ids.npy").read_bytes() == ids
    (entry / cache.CONTENTS).write_text("{")
    assert trained(tmp_path / "third", values) == expected
    monkeypatch.setattr(cache, "VERSION", cache.VERSION + 1)
    assert trained(tmp_path / "other", values) == expected
    assert len(cache.entries()) == 2


def test_a_full_disk_is_named_and_leaves_nothing(tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values, save = configuration(written(tmp_path / "a.tsv")), cached.save_array

    def full(path: Path, array: Any) -> None:
        if "target" in path.name:
            raise OSError(errno.ENOSPC, "No space left on device")
        save(path, array)

    with monkeypatch.context() as context:
        context.setattr(cached, "save_array", full)
        with pytest.raises(RegardError, match=r"cache: cannot be written: No space left on device.*\n.*REGARD_CACHE"):
            read(values)
    assert list(place.iterdir()) == []
    assert len(read(values).train) > 0


def test_a_file_that_changes_while_it_is_read_is_an_error(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, plain = written(tmp_path / "a.tsv"), cached.read_pairs

    def slow(data: Any, **options: Any) -> Any:
        material = plain(data, **options)
        written(path, 50)
        return material

    monkeypatch.setattr(cached, "read_pairs", slow)
    with pytest.raises(DataError, match=r"a\.tsv: the files have changed while they were read"):
        read(configuration(path))
    assert cache.entries() == []


def test_a_rename_that_fails_and_one_that_is_late_lose_nothing(
    tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values, rename = configuration(written(tmp_path / "a.tsv")), os.rename

    def never(*names: Any) -> None:
        raise OSError(errno.ESTALE, "Stale file handle")

    expected = read(values).reading.train.source
    cache.trim(most=0)
    with monkeypatch.context() as context:
        context.setattr(os, "rename", never)
        assert np.array_equal(read(values).reading.train.source.ids, expected.ids)
        assert list(place.iterdir()) == []

    def second(source: Any, target: Any) -> None:
        monkeypatch.setattr(os, "rename", rename)
        read(values)  # another process is first
        rename(source, target)

    monkeypatch.setattr(os, "rename", second)
    assert np.array_equal(read(values).reading.train.source.ids, expected.ids)
    assert len(cache.entries()) == 1
    assert [path.name for path in place.iterdir() if path.name.startswith(cache.PARTIAL)] == []


def test_entries_that_were_not_used_for_longest_are_removed(place: Path) -> None:
    def fill(folder: Path) -> dict[str, Any]:
        np.save(folder / "a.npy", np.zeros(1000, np.uint8))
        return {}

    for number in range(3):
        entry = CacheEntry.write(f"key{number}", fill)
        assert entry is not None
        os.utime(entry.path / cache.CONTENTS, (number, number))
    assert CacheEntry.find("key0") is not None  # which is a use
    left_behind = place / f"{cache.PARTIAL}x"
    left_behind.mkdir()
    os.utime(left_behind, (0, 0))
    assert cache.trim(most=2_500) > 1000
    assert {path.name.split("-")[0] for path, *_ in cache.entries()} == {"key0", "key2"}
    assert not left_behind.exists()


def test_the_command_lists_entries_and_removes_them(
    tmp_path: Path, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    read(configuration(written(tmp_path / "a.tsv")))
    ((entry, size, _),) = cache.entries()
    assert run(["data", "cache"]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert listed[0].startswith(f"{entry}  {size / 2**20:,.1f} MB, last used 20")
    assert listed[1].startswith(f"{place}: 1 entry")
    assert run(["data", "cache", "--clear"]) == 0
    assert cache.entries() == []


def plainly(source: Any, target: Any, tokens: int, seed: int, epoch: int) -> list[list[int]]:
    """The batches of an epoch from plain sorting."""
    random = np.random.default_rng((seed, epoch))
    larger = np.maximum(np.maximum(source, target), 1)
    order = random.permutation(len(larger))
    buckets = np.floor(np.log(larger[order]) / np.log(1.05) + random.random())
    ranks = np.unique(buckets, return_inverse=True)[1]
    difference = (target - source)[order]
    order = order[np.lexsort((np.where(ranks % 2 == 0, difference, -difference), buckets))]
    batches: list[list[int]] = []
    for index in order.tolist():
        last = batches[-1] if batches else []
        if not last or (len(last) + 1) * max(larger[[*last, index]]) > tokens:
            batches.append([])
        batches[-1].append(index)
    return [batches[i] for i in random.permutation(len(batches))]


@pytest.mark.parametrize("block", [3, 1000])
@pytest.mark.parametrize(("count", "tokens"), [(0, 5), (1, 5), (50, 1), (50, 30), (300, 200)])
def test_batches_in_parts_are_those_of_sorting_all(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, count: int, tokens: int, block: int
) -> None:
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path))
    monkeypatch.setattr("regard.data.bucketing.BLOCK", block)
    monkeypatch.setattr(growing_array, "MOST_SCRATCH", 8)
    random = np.random.default_rng(count)
    source = random.integers(0, 30, count)
    target = np.maximum(source + random.integers(-4, 5, count), 0)
    found = bucket(source.astype(np.uint8), target.astype(np.uint8), batch_tokens=tokens, seed=3, epoch=2)
    assert [batch.tolist() for batch in found] == plainly(source, target, tokens, 3, 2)
    items = np.flatnonzero(random.random(count) < 0.5)
    chosen = bucket(source, target, batch_tokens=tokens, seed=3, epoch=2, items=items, extra=1)
    expected = plainly(source[items] + 1, target[items] + 1, tokens, 3, 2)
    assert [batch.tolist() for batch in chosen] == [items[batch].tolist() for batch in expected]


def test_pairs_of_files_occur_as_often_as_their_weights_say() -> None:
    mixture = PairMixture((10, 14), (0.5, 2.25))
    counts = [Counter(mixture.items(16, None, seed=1, epoch=epoch).tolist()) for epoch in (0, 1)]
    for count in counts:
        assert sum(count[i] for i in range(10)) == 5
        assert sorted(count[i] for i in range(10, 14)) == [2, 2, 2, 3]
        assert [count[i] for i in (14, 15)] == [1, 1], "later ones are former data of an adaptation"
    assert counts[0] != counts[1]
    assert mixture.growth == pytest.approx(1)
    used = np.array([0, 3, 11, 12, 15])
    assert sorted(set(mixture.items(16, used, seed=1, epoch=0).tolist()) - {0, 3}) == [11, 12, 15]


def test_a_temperature_makes_small_files_larger(tmp_path: Path) -> None:
    files = [written(tmp_path / "part-1.tsv", 80), written(tmp_path / "part-2.tsv", 20, start=80)]
    dev = str(written(tmp_path / "dev.tsv", 5))
    mixture = read(configuration(tmp_path / "part-*", dev=dev, temperature=2.0)).mixture
    assert mixture.ends == (80, 100)
    shares = np.sqrt([80, 20]) / np.sqrt([80, 20]).sum()
    assert np.allclose(np.multiply(mixture.times, [80, 20]), 100 * shares)
    assert read(configuration(list(files), dev=dev)).mixture is None
    with pytest.raises(ConfigError, match="temperature mixes several files"):
        regard.train(configuration(files[0], temperature=2.0), tmp_path / "run", quiet=True)
    with pytest.raises(DataError, match=r"none-\*: no file has such a name"):
        parts_of(tmp_path / "none-*")


def test_files_of_several_kinds_are_one(tmp_path: Path) -> None:
    plain = written(tmp_path / "a.tsv", 30)
    lines = plain.read_text().splitlines()
    with gzip.open(tmp_path / "b.tsv.gz", "wt") as file:
        file.write("\n".join(lines[:10]))
    for side, column in (("en", 0), ("de", 1)):
        (tmp_path / f"c.{side}").write_text("\n".join(line.split("\t")[column] for line in lines[10:]))
    parallel = {"source": str(tmp_path / "c.en"), "target": str(tmp_path / "c.de")}
    material = read(configuration([tmp_path / "b.tsv.gz", parallel], dev=str(plain)))
    assert [(pair.source, pair.target) for pair in material.train] == [tuple(line.split("\t")) for line in lines]
    assert material.train[12].place == f"{tmp_path / 'c.en'}:3"


@pytest.fixture
def arrow() -> Any:
    return pytest.importorskip("pyarrow")


def columns(arrow: Any, count: int = 25) -> Any:
    texts = [(f"{WORDS[i % 10]}{i}", WORDS[i % 7]) for i in range(count)]
    translation = [{"en": source, "de": target} for source, target in texts]
    return arrow.table({"word": [a for a, _ in texts], "sound": [b for _, b in texts], "translation": translation})


def dataset(arrow: Any, folder: Path, table: Any) -> Path:
    """A folder as `save_to_disk` of Hugging Face writes it."""
    folder.mkdir()
    files = []
    for number, part in enumerate((table.slice(0, 11), table.slice(11))):
        files.append({"filename": f"data-{number:05}-of-00002.arrow"})
        with arrow.ipc.new_stream(str(folder / files[-1]["filename"]), part.schema) as stream:
            stream.write_table(part, max_chunksize=4)
    (folder / "state.json").write_text(json.dumps({"_data_files": files, "_split": "train"}))
    (folder / "dataset_info.json").write_text("{}")
    return folder


def test_parquet_and_data_sets_have_the_pairs_of_their_columns(tmp_path: Path, arrow: Any) -> None:
    from pyarrow import parquet

    table = columns(arrow)
    expected = list(zip(table["word"].to_pylist(), table["sound"].to_pylist(), strict=True))
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=6)
    (tmp_path / "folder").mkdir()
    for number, part in enumerate((table.slice(0, 9), table.slice(9))):
        parquet.write_table(part, tmp_path / "folder" / f"{number}.parquet")
    places = [tmp_path / "a.parquet", tmp_path / "folder", dataset(arrow, tmp_path / "set", table)]
    for path in places:
        found = open_pairs(path, source_field="word", target_field="sound")
        assert [(pair.source, pair.target) for pair in found] == expected
        assert found.part(3, 17) == ([a for a, _ in expected[3:17]], [b for _, b in expected[3:17]])
        nested = open_pairs(path, source_field="translation.en", target_field="translation.de")
        assert [(pair.source, pair.target) for pair in nested] == expected
        assert open_pairs(path)[-1].place == f"{path}:25"
        with pytest.raises(ConfigError, match=r"no column 'wrd' \(data.source_field\); did you mean 'word'"):
            open_pairs(path, source_field="wrd", target_field="sound")[0]
    materials = [read(configuration(path, source_field="word", target_field="sound")) for path in places]
    assert len({material.source.vocabulary.symbols for material in materials}) == 1


def test_tables_that_cannot_be_read_are_named(tmp_path: Path, arrow: Any) -> None:
    from pyarrow import parquet

    parquet.write_table(arrow.table({"a": ["x", None], "b": ["y", "z"]}), tmp_path / "null.parquet")
    with pytest.raises(DataError, match=r"null.parquet:2: column 0 \(data.source_field\) must be text; got None"):
        list(open_pairs(tmp_path / "null.parquet"))
    (tmp_path / "text.parquet").write_text("a\tb\n")
    with pytest.raises(DataError, match=r"text\.parquet: cannot be read as Parquet"):
        open_pairs(tmp_path / "text.parquet")
    (tmp_path / "splits").mkdir()
    (tmp_path / "splits" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(DataError, match=r"has several data sets \(train, test\); name one of them"):
        open_pairs(tmp_path / "splits")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"empty: cannot be read: it is a folder without Parquet files"):
        open_pairs(tmp_path / "empty")
    folder = dataset(arrow, tmp_path / "set", columns(arrow))
    os.truncate(folder / "data-00001-of-00002.arrow", 700)
    with pytest.raises(DataError, match=r"set: cannot be read as a data set"):
        list(open_pairs(folder))


def test_of_many_items_an_even_share_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    items = [trained_items.DataItem(f"x:{i}", f"word {i}", (f"right {i}",)) for i in range(2_000)]
    monkeypatch.setattr(trained_items, "MOST_RECORDED", 500)
    recorder = TrainedItemsRecorder(len(items))
    recorder.add([item.read for item in items], [item.right[0] for item in items])
    recorder.result().save(tmp_path / "trained.npy")
    record = TrainedItems.load(tmp_path / "trained.npy")
    assert record.every == 4
    seen = record.seen(items)
    assert 400 < seen.count == len(seen.items) < 600
    assert f"of {seen.count:,} items that were looked up, one in 4, were trained on" in str(seen)
    unseen = record.seen([item._replace(read=f"{item.read}!") for item in items])
    assert unseen.count > 400
    assert not unseen.items
    assert (record | TrainedItems.of(items)).every == 4
