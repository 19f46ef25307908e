"""Ensembles, rerankers and models that write from right to left, of text to text."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from regard import Search, load
from regard.cli import run
from regard.data import Pair
from regard.data.pairs import ListedPairs
from regard.data.text import BOS, EOS, UNKNOWN, Field
from regard.data.text.survey import survey
from regard.decoding import GnmtPenalty, NoPenalty, force_align, main_alignment
from regard.decoding.penalty import Candidates
from regard.errors import ConfigError, DataError
from regard.runs.store import save
from regard.tasks import TextToText, ensemble
from regard.tasks.text_generation.ensembles import scored_by, unknown_to
from regard.tasks.text_to_text.config import SideConfig, TextToTextConfig
from regard.tasks.text_to_text.links import TrainingLinks
from regard.tasks.text_to_text.trainee import EncodedPairs

torch.set_num_threads(1)
TEXTS = ["abcd", "f", "aab", "fedcba"]


def made(seed, *, size=8, recipe="bahdanau", symbols="abcdef", direction="left_to_right", name=None, **decoding):
    torch.manual_seed(seed)
    side = {"size": size, "embedding_size": 6, "dropout": 0.0}
    config = TextToTextConfig(
        data={"train": "x.tsv", "target": {"direction": direction}},
        model={"encoder": side, "decoder": side, "attention": {"recipe": recipe}},
        decoding=decoding,
    )
    field = Field.build(SideConfig(), [symbols])
    model = TextToText.build(config, field, field, name=name or f"model {seed}")
    with torch.no_grad():
        for weight in model.module.parameters():
            weight.mul_(3)
        model.module.decoder.head.projection.bias[EOS] -= 2
    return model


def forced(model, source, output, ended):
    """The log-probability of an output by a teacher-forced pass over one sentence."""
    ids = torch.tensor([[*model.source.encode(source).ids.tolist(), EOS]])
    first, *others = [model.target.encode(part).ids.tolist() for part in output.split("<unk>")]
    target = [*first, *(number for part in others for number in (UNKNOWN, *part))]
    target = [*(target[::-1] if model.is_reversed else target), *[EOS] * ended]
    (h,) = force_align(model.module.decoder, model.module.prepare(ids), [target], bos=BOS, eos=EOS)
    return h.log_probability, len(target)


def test_an_ensemble_in_the_configuration_is_the_ensemble_of_python(tmp_path):
    models = [made(0), made(1, size=6, recipe="luong"), made(2)]
    for number, model in enumerate(models):
        save(model, tmp_path / str(number))
    together = ensemble(models, weights=(1, 2, 3), average="log_probabilities", main=1)
    paths = [str(tmp_path / "1"), str(tmp_path / "2")]
    options = {
        "ensemble": paths, "ensemble_weights": [1, 2, 3], "ensemble_average": "log_probabilities",
        "ensemble_alignment": 1, "beam": 4, "num_best": 2,
    }  # fmt: skip
    first = load(tmp_path / "0", device="cpu")
    found = first.predict(TEXTS, search=first.config.decoding.replace(**options))
    expected = together.predict(TEXTS, search=together.config.decoding.replace(beam=4, num_best=2))
    alone = first.predict(TEXTS, search=Search(beam=4, num_best=2))
    assert [p.text for p in found] == [p.text for p in expected] != [p.text for p in alone]
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.score == pytest.approx(theirs.score, abs=1e-5)
        torch.testing.assert_close(ours.alignment, ours.alignments["1.attention"].mean(0))
        assert set(ours.alignments) == {"0.attention", "1.attention", "2.attention"}


def test_flags_make_an_ensemble_and_a_reranker(tmp_path, capsys):
    models = [made(0), made(1, recipe="luong"), made(2, direction="right_to_left")]
    for number, model in enumerate(models):
        save(model, tmp_path / str(number))
    flags = ["-m", str(tmp_path / "0"), "--ensemble", str(tmp_path / "1"), "--reranker", str(tmp_path / "2")]
    assert run(["predict", *flags, "--reranker-weight", "0.7", "--beam", "4", "--format", "jsonl", *TEXTS]) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    model = load(tmp_path / "0", device="cpu")
    search = model.config.decoding.replace(
        ensemble=tmp_path / "1", reranker=tmp_path / "2", reranker_weight=0.7, beam=4
    )
    assert [one["text"] for one in printed] == [p.text for p in model.predict(TEXTS, search=search)]


@pytest.mark.parametrize("direction", ["left_to_right", "right_to_left"])
@pytest.mark.parametrize(
    ("options", "penalty"),
    [
        ({"beam": 5, "num_best": 5}, GnmtPenalty(0.6)),
        ({"method": "sampling", "num_best": 6, "seed": 3}, NoPenalty()),
    ],
)
def test_reranked_outputs_are_in_the_order_of_both_scores(tmp_path, direction, options, penalty):
    first, second = made(0), made(4, direction=direction)
    save(second, tmp_path / "second")
    plain = first.predict(TEXTS, search=Search(**options))
    search = first.config.decoding.replace(reranker=tmp_path / "second", reranker_weight=0.6, **options)
    moved = 0
    for source, before, after in zip(TEXTS, plain, first.predict(TEXTS, search=search), strict=True):
        expected = []
        for one in (before, *before.alternatives):
            ended = one.stop_reason == "eos"
            total, length = forced(second, source, one.text, ended)
            other = float(penalty.score(Candidates(torch.tensor(total, dtype=torch.float64), length, ended)))
            expected.append((not ended, -(0.4 * one.score + 0.6 * other), one.text))
        expected.sort()
        ranked = (after, *after.alternatives)
        assert [-one.score for one in ranked] == pytest.approx([score for _, score, _ in expected], abs=1e-4)
        moved += after.text != before.text
    assert moved


def test_a_beam_is_reranked_as_a_whole_and_only_the_best_are_returned(tmp_path):
    first, second = made(0), made(4)
    save(second, tmp_path / "second")
    few, all_of_them = (
        first.predict(TEXTS, search=first.config.decoding.replace(reranker=tmp_path / "second", beam=6, num_best=count))
        for count in (2, 6)
    )
    for ours, theirs in zip(few, all_of_them, strict=True):
        assert [ours.text, ours.alternatives[0].text] == [theirs.text, theirs.alternatives[0].text]
        assert len(ours.alternatives) == 1


def test_an_input_that_the_reranker_cannot_read_keeps_its_order_with_a_warning(tmp_path):
    first, second = made(0), made(4)
    save(second, tmp_path / "second")
    search = first.config.decoding.replace(reranker=tmp_path / "second", beam=4, num_best=3)
    model = first.predict(["ab", "a"], search=search)
    assert not any(one.warnings for one in model)
    partner = first._further_models[tmp_path / "second", first.device]
    nothing = partner.source.encode("")
    partner.source = SimpleNamespace(encode=lambda text: nothing)
    drawn = {"method": "sampling", "num_best": 60, "seed": 1, "max_length": 4, "temperature": 2.0}
    for settings in ({"beam": 4, "num_best": 3}, drawn):
        (one,) = first.predict(["ab"], search=first.config.decoding.replace(reranker=search.reranker, **settings))
        (plain,) = first.predict(["ab"], search=first.config.decoding.replace(**settings))
        assert one.warnings == ("the reranker cannot read it",)
        assert [p.text for p in (one, *one.alternatives)] == [p.text for p in (plain, *plain.alternatives)]
    ended = [p.stop_reason == "eos" for p in (one, *one.alternatives)]
    assert sorted(ended, reverse=True) != ended  # samples stay in the order of their scores


def test_a_reranker_of_few_positions_leaves_what_is_longer_as_it_is(tmp_path):
    side = {"size": 8, "heads": 2, "layers": 1, "positions": "learned", "max_positions": 6}
    config = TextToTextConfig(
        data={"train": "x.tsv", "max_length": 5},
        model={"architecture": "transformer", "encoder": side, "decoder": side},
    )
    first = made(0)
    save(TextToText.build(config, first.source, first.target), tmp_path / "second")
    unread = ("the reranker cannot read it",)
    for limit, text, warned in ((5, "ab", False), (5, "abcdef", True), (9, "ab", True)):
        search = first.config.decoding.replace(
            reranker=tmp_path / "second", beam=3, num_best=3, max_length=limit, min_length=limit, unknown_penalty=99.0
        )
        (one,) = first.predict([text], search=search)
        (plain,) = first.predict([text], search=search.replace(reranker=None))
        assert one.warnings == unread * warned
        assert (
            [o.score for o in (one, *one.alternatives)] == [o.score for o in (plain, *plain.alternatives)]
        ) == warned


def test_symbols_that_the_reranker_does_not_know_are_warned_of(tmp_path):
    first, second = made(0), made(4, symbols="abcdx")
    save(second, tmp_path / "second")
    search = first.config.decoding.replace(reranker=tmp_path / "second", beam=4, exclude=["e", "f"])
    known, unknown = first.predict(["abcd", "fa"], search=search)
    assert known.warnings == ()
    assert unknown.warnings == ("the reranker reads as <unk>: 'f'",)
    (output,) = first.predict(["abcd"], search=search.replace(prefix="ae", exclude=["f"]))
    assert output.warnings == ("the reranker reads as <unk>: 'e'",)


def test_an_unknown_symbol_of_an_output_is_one_for_the_reranker():
    model = made(0)
    ((first, _),) = scored_by(model, ["ab"], [[("a<unk>d", True), ("a", True)]])
    assert first.tokens.tolist() == [
        *model.target.vocabulary.ids(["a"]),
        UNKNOWN,
        *model.target.vocabulary.ids("d"),
        EOS,
    ]
    assert unknown_to(model, "ab", ["a<unk>d"]) == ()


def test_a_model_that_writes_from_right_to_left_is_read_from_left_to_right():
    forward, backward = made(0, max_length=7), made(0, direction="right_to_left", max_length=7)
    kinds = set()
    for search in (Search(beam=3, num_best=3), Search(method="sampling", num_best=5, seed=1, temperature=2.0)):
        for ours, theirs in zip(backward.predict(TEXTS, search=search), forward.predict(TEXTS, search=search)):
            for one, other in zip((ours, *ours.alternatives), (theirs, *theirs.alternatives), strict=True):
                kinds.add(one.stop_reason)
                symbols, rest = other.tokens, []
                if one.stop_reason == "eos":
                    symbols, rest = other.tokens[:-1], ["</s>"]
                assert one.tokens == [*symbols[::-1], *rest]
                assert one.text == "".join(symbols[::-1])
                rows = [*range(len(symbols))[::-1], *range(len(symbols), len(other.tokens))]
                torch.testing.assert_close(one.alignment, other.alignment[rows])
    assert kinds == {"eos", "length"}


def test_targets_of_such_a_model_are_turned_round_in_training_with_their_links(tmp_path):
    pairs = ListedPairs([Pair("ab", "abc", "x", 1), Pair("f", "fe", "x", 2)])
    models = [made(0, direction=direction) for direction in ("left_to_right", "right_to_left")]
    batches = [EncodedPairs(survey("x", pairs, each.source, each.target), each).pad([0, 1]) for each in models]
    field = made(0).target.vocabulary
    assert [field.tokens(row[:n]) for row, n in zip(batches[1]["targets"].tolist(), (3, 2))] == [
        list("cba"),
        list("ef"),
    ]
    assert batches[1]["targets"][0, 3] == EOS
    assert torch.equal(batches[0]["source"], batches[1]["source"])
    links = tmp_path / "links.txt"
    links.write_text("0-0 1-2\n0-1\n")
    lengths = np.array([[2, 3], [1, 2]])
    plain, turned = (
        TrainingLinks(links, pairs, lengths, is_reversed=is_reversed).pad(np.array([0, 1]), 4, 3)
        for is_reversed in (0, 1)
    )
    assert torch.equal(turned[0, :3], plain[0, :3].flip(0))
    assert torch.equal(turned[1, :2], plain[1, :2].flip(0))


def test_given_pairs_are_aligned_in_the_order_in_which_they_are_read(tmp_path):
    forward, backward = made(0), made(0, direction="right_to_left")
    pairs = [("abc", "dea"), ("fa", "b"), ("a", "ffff")]
    turned = [(source, target[::-1]) for source, target in pairs]
    options = {"words": False, "end_symbol": True}
    for ours, theirs in zip(backward.align(pairs, **options), forward.align(turned, **options), strict=True):
        rows = [*range(len(theirs.tokens) - 1)[::-1], len(theirs.tokens) - 1]
        assert ours.tokens == [theirs.tokens[row] for row in rows]
        torch.testing.assert_close(ours.alignment, theirs.alignment[rows])
        assert ours.log_probability == pytest.approx(theirs.log_probability, abs=1e-5)
    save(made(1), tmp_path / "other")
    both = forward.config.decoding.replace(ensemble=tmp_path / "other")
    forward.config = forward.config.model_copy(update={"decoding": both})
    for aligned, one, other in zip(
        forward.align(pairs, **options), made(0).align(pairs, **options), made(1).align(pairs, **options), strict=True
    ):
        torch.testing.assert_close(aligned.alignment, (one.alignment + other.alignment) / 2)


def test_it_learns_to_write_from_right_to_left(tmp_path, capsys):
    lines = [f"{text}\t{text}" for text in ("".join("abc"[(i // 3**k) % 3] for k in range(3)) for i in range(27))]
    (tmp_path / "train.tsv").write_text("\n".join(lines) + "\n")
    (tmp_path / "dev.tsv").write_text("\n".join(lines[:9]) + "\n")
    sets = [
        f"data.train={tmp_path / 'train.tsv'}", f"data.dev={tmp_path / 'dev.tsv'}",
        "data.target.direction=right_to_left",
        "model.encoder.size=24", "model.decoder.size=24", "model.encoder.embedding_size=12", "model.encoder.layers=1",
        "model.decoder.embedding_size=12", "model.encoder.dropout=0.0", "model.decoder.dropout=0.0",
        "training.epochs=60", "training.batch_tokens=120", "training.learning_rate=0.02", "training.validate_every=120",
        "training.device=cpu", "training.samples=0", "training.allow_trained_dev=true",
    ]  # fmt: skip
    arguments = [argument for each in sets for argument in ("--set", each)]
    assert run(["train", "--preset", "text-to-text", "--output", str(tmp_path / "run"), *arguments]) == 0
    model = load(tmp_path / "run", device="cpu")
    texts = [line.split("\t")[0] for line in lines]
    right = sum(p.text == text for text, p in zip(texts, model.predict(texts), strict=True))
    assert right >= 24
    ids = torch.tensor([[*model.source.encode("abc").ids.tolist(), EOS]])
    written = model.target.encode("cba").ids.tolist()
    scores = [
        force_align(model.module.decoder, model.module.prepare(ids), [[*order, EOS]], bos=BOS, eos=EOS)[0].score
        for order in (written, written[::-1])
    ]
    assert scores[0] > scores[1] + 1


def test_models_that_do_not_belong_together_are_refused_with_what_differs(tmp_path):
    first = made(0, name="first")
    with pytest.raises(ConfigError) as caught:
        ensemble([first, made(1, symbols="abcdxy", direction="right_to_left", name="other")])
    assert str(caught.value) == (
        "other cannot predict together with first, as their symbols differ:\n"
        "  source: the vocabulary: only the first has 'e', 'f'; only the other has 'x', 'y'\n"
        "  target: the vocabulary: only the first has 'e', 'f'; only the other has 'x', 'y'\n"
        "  target: the direction: first left_to_right, other right_to_left"
    )
    lower = made(1, name="lower")
    lower.source = Field.build(SideConfig(units="separator", separator=";", case="lower"), ["a;b"])
    with pytest.raises(ConfigError) as caught:
        ensemble([first, lower])
    assert str(caught.value).splitlines()[1:3] == [
        "  source: the case: keep, lower",
        "  source: the units: character, separator (separator ';')",
    ]
    columns = made(0, name="columns"), made(1, name="others")
    for each, case in zip(columns, ("lower", "keep"), strict=True):
        side = SideConfig(units=("character", "separator"), separator=";", case=case)
        each.source = Field.build(side, ["ab\tc;d"], num_columns=2)
    assert columns[0].differences(columns[0]) == []
    assert columns[0].differences(columns[1]) == ["source: the case: lower, keep"]
    with pytest.raises(ConfigError, match=r"nowhere is not a saved model"):
        first.predict(["a"], search=first.config.decoding.replace(ensemble=tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match=r"nowhere is not a saved model"):
        first.predict(["a"], search=first.config.decoding.replace(reranker=tmp_path / "nowhere"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ensemble_weights": (1.0, 2.0)}, r"weights is \[1, 2\], but it is not read where ensemble is \[\]"),
        ({"ensemble": ("b",), "ensemble_weights": (1.0,)}, "ensemble_weights has 1 numbers, but with this model there"),
        ({"ensemble": ("b",), "ensemble_alignment": 2}, "ensemble_alignment is 2, but the last model is number 1"),
        ({"ensemble": ("b",), "alignment_head": 0}, "alignment_head has no effect with an ensemble"),
        ({"ensemble": ("b",), "alignment_layer": "mean"}, "alignment_layer has no effect with an ensemble"),
        ({"reranker_weight": 0.2}, "reranker_weight is 0.2, but it is not read where reranker is null"),
        ({"reranker": "b", "beam": 1}, "reranker is b, but there is only one hypothesis to rank; raise beam"),
        ({"reranker": "b", "method": "sampling"}, "there is only one hypothesis to rank"),
        ({"reranker": "b", "method": "mbr"}, "reranker is b, but minimum Bayes risk ranks by the expected utility"),
    ],
)  # fmt: skip
def test_settings_of_partners_without_a_meaning_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        made(0).config.decoding.replace(**options)


def test_an_ensemble_is_not_evaluated_on_what_a_member_was_trained_on(tmp_path):
    file = tmp_path / "pairs.tsv"
    file.write_text("ab\tba\n")
    first, second = made(0), made(1)
    from regard.runs.fingerprints import fingerprint

    second.fingerprints["train"] = fingerprint(file)
    save(second, tmp_path / "second")
    for key in ("ensemble", "reranker"):
        search = first.config.decoding.replace(**{key: tmp_path / "second"})
        with pytest.raises(DataError, match="second was trained on this file"):
            first.evaluate(file, search=search)
    with pytest.raises(DataError, match="was trained on this file"):
        ensemble([first, second]).evaluate(file)


def test_losses_towards_the_diagonal_are_refused_from_right_to_left():
    from regard.runs.contract import task_of

    config = TextToTextConfig(
        data={"train": "x.tsv", "target": {"direction": "right_to_left"}},
        training={"alignment_losses": {"guided_attention": 1.0}},
    )
    with pytest.raises(ConfigError, match="guided_attention needs inputs that are read from left to right"):
        task_of(config).draft(config)


def test_the_mean_alignment_of_an_ensemble_is_a_distribution():
    together = ensemble([made(0), made(1)])
    for one in together.predict(TEXTS):
        torch.testing.assert_close(one.alignment.sum(1), torch.ones(len(one.tokens)))
        torch.testing.assert_close(one.alignment, main_alignment(one.alignments))
        assert math.isfinite(one.score)
