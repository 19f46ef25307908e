"""One decoder that learns outputs from left to right and from right to left, and joint searches."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import yaml
from torch.nn.functional import log_softmax

from regard.cli import run
from regard.config import from_preset
from regard.config import load as read_config
from regard.config.texts import check_directions
from regard.data import Pair
from regard.data.pairs import ListedPairs
from regard.data.text import BOS, EOS, PAD, Field
from regard.decoding import GnmtPenalty, Hypothesis, NoPenalty, force_align, join_directions
from regard.decoding.penalty import Candidates
from regard.errors import ConfigError, InputError, ShapeError
from regard.runs.store import save
from regard.tasks import load, train
from regard.tasks.text_generation.directions import reversed_targets
from regard.tasks.text_to_text.config import SideConfig, TextToTextConfig
from regard.tasks.text_to_text.model import TextToText
from regard.tasks.text_to_text.trainee import PairTrainee
from task_cases import LOOP, TASK_CASES, interrupt

torch.set_num_threads(1)
TEXTS = ["abcd", "f", "aab", "fedcba"]
KINDS = ("recurrent", "transformer")


def made(seed=0, *, kind="recurrent", direction="both", training=None, **decoding):
    torch.manual_seed(seed)
    side = {"size": 8, "dropout": 0.0} | ({"embedding_size": 6} if kind == "recurrent" else {"layers": 2, "heads": 2})
    config = TextToTextConfig(
        data={"train": "x.tsv", "target": {"direction": direction}},
        model={"architecture": kind, "encoder": side, "decoder": side},
        decoding=decoding,
        training=training or {},
    )
    field = Field.build(SideConfig(), ["abcdef"])
    model = TextToText.build(config, field, field, name=f"model {seed}")
    with torch.no_grad():
        for weight in model.module.parameters():
            weight.mul_(3 if kind == "recurrent" else 2)
    return model


def forced(model, source, prediction, direction):
    """The log-probability of an output in a direction, and its length, by a teacher-forced pass over one sentence."""
    ids = torch.tensor([[*model.source.encode(source).ids.tolist(), EOS]])
    has_ended = prediction.stop_reason == "eos"
    symbols = prediction.tokens[: len(prediction.tokens) - has_ended]
    target = model.target.vocabulary.ids(symbols).tolist()
    turned = direction == "right_to_left"
    target = [*(target[::-1] if turned else target), *[EOS] * has_ended]
    (h,) = force_align(model.module.decoder, model.module.prepare(ids), [target], bos=EOS if turned else BOS, eos=EOS)
    return h.log_probability, len(target)


def ranked(prediction):
    return [prediction, *prediction.alternatives]


def test_a_target_is_turned_round_before_its_end_symbol():
    targets = torch.tensor([[5, 6, 7, EOS], [8, 9, EOS, PAD], [EOS, PAD, PAD, PAD]])
    inputs, turned = reversed_targets(targets, targets != PAD)
    assert turned.tolist() == [[7, 6, 5, EOS], [9, 8, EOS, PAD], [EOS, PAD, PAD, PAD]]
    assert inputs.tolist() == [[EOS, 7, 6, 5], [EOS, 9, 8, PAD], [EOS, PAD, PAD, PAD]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("options", "penalty"), [({}, GnmtPenalty(0.6)), ({"length_penalty": "none"}, NoPenalty())], ids=["gnmt", "none"]
)
def test_a_joint_score_is_the_sum_of_the_forced_scores_of_both_directions(kind, options, penalty):
    model = made(kind=kind)
    search = model.config.decoding.replace(joint=True, beam=4, num_best=8, **options)
    found = set()
    for source, prediction in zip(TEXTS, model.predict(TEXTS, search=search), strict=True):
        scores = []
        for one in ranked(prediction):
            total = 0.0
            for direction in ("left_to_right", "right_to_left"):
                log_probability, length = forced(model, source, one, direction)
                candidate = Candidates(torch.tensor(log_probability), length, one.stop_reason == "eos")
                total += float(penalty.score(candidate))
                found |= {direction} if log_probability == pytest.approx(one.log_probability, abs=1e-4) else set()
            assert one.score == pytest.approx(total, abs=1e-4)
            scores.append((one.stop_reason != "eos", -one.score))
        assert scores == sorted(scores)
    assert found == {"left_to_right", "right_to_left"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_joint_search_ranks_what_both_searches_find(kind):
    model = made(kind=kind)
    options = {"beam": 3, "num_best": 3}
    single = [
        model.predict(TEXTS, search=model.config.decoding.replace(direction=direction, **options))
        for direction in ("left_to_right", "right_to_left")
    ]
    joint = model.predict(TEXTS, search=model.config.decoding.replace(joint=True, **options))
    checked = 0
    for source, one, *both in zip(TEXTS, joint, *single, strict=True):
        union = {each.text: each for side in both for each in ranked(side)}
        if any(each.stop_reason != "eos" for each in union.values()):
            continue
        checked += 1
        scores = {}
        for text, each in union.items():
            given = [forced(model, source, each, direction) for direction in ("left_to_right", "right_to_left")]
            scores[text] = sum(float(GnmtPenalty(0.6).score(Candidates(torch.tensor(p), n, True))) for p, n in given)
        assert [each.text for each in ranked(one)] == sorted(scores, key=lambda text: -scores[text])[:3]
    assert checked
    assert [p.log_probability for p in single[0]] != [p.log_probability for p in single[1]]


def test_an_alignment_is_that_of_the_direction_that_found_the_output_in_the_order_of_reading():
    model = made()
    search = model.config.decoding.replace(direction="right_to_left", beam=3)
    for source, prediction in zip(TEXTS, model.predict(TEXTS, search=search), strict=True):
        ids = torch.tensor([[*model.source.encode(source).ids.tolist(), EOS]])
        has_ended = prediction.stop_reason == "eos"
        symbols = prediction.tokens[: len(prediction.tokens) - has_ended]
        target = [*model.target.vocabulary.ids(symbols).tolist()[::-1], *[EOS] * has_ended]
        (h,) = force_align(model.module.decoder, model.module.prepare(ids), [target], bos=EOS, eos=EOS)
        count = len(symbols)
        expected = h.alignments["attention"][0]
        expected = torch.cat([expected[:count].flip(0), expected[count:]])
        torch.testing.assert_close(prediction.alignment, expected, rtol=0, atol=1e-5)


def test_an_input_has_the_same_joint_output_alone_and_among_others():
    model = made(kind="transformer", joint=True, beam=3, num_best=2)
    together = model.predict(TEXTS)
    for text, prediction in zip(TEXTS, together, strict=True):
        (alone,) = model.predict([text])
        assert [p.text for p in ranked(alone)] == [p.text for p in ranked(prediction)]
        assert alone.score == pytest.approx(prediction.score, abs=1e-4)


def test_a_joint_search_of_two_greedy_outputs_takes_the_better_one():
    model = made()
    joint = model.predict(TEXTS, search=model.config.decoding.replace(joint=True, beam=1))
    sides = [
        model.predict(TEXTS, search=model.config.decoding.replace(direction=direction, beam=1))
        for direction in ("left_to_right", "right_to_left")
    ]
    assert all(one.text in {a.text, b.text} for one, a, b in zip(joint, *sides, strict=True))


def test_an_ensemble_searches_jointly_too(tmp_path):
    models = [made(0), made(1)]
    save(models[1], tmp_path / "second")
    search = models[0].config.decoding.replace(ensemble=tmp_path / "second", joint=True, beam=3)
    outputs = models[0].predict(TEXTS, search=search)
    one_way = models[0].predict(TEXTS, search=search.model_copy(update={"joint": False}))
    assert [p.score for p in outputs] != [p.score for p in one_way]
    save(made(2, direction="left_to_right"), tmp_path / "third")
    with pytest.raises(ConfigError, match="the direction: model 0 both, third left_to_right"):
        models[0].predict(TEXTS, search=search.model_copy(update={"ensemble": tmp_path / "third"}))


def test_a_model_of_both_directions_may_rerank_another(tmp_path):
    first = made(0, direction="left_to_right")
    save(made(1), tmp_path / "both")
    search = first.config.decoding.replace(reranker=tmp_path / "both", beam=3, reranker_weight=1.0)
    (prediction,) = first.predict(["abcd"], search=search)
    log_probability, length = forced(made(1), "abcd", prediction, "left_to_right")
    candidate = Candidates(torch.tensor(log_probability), length, prediction.stop_reason == "eos")
    assert prediction.score == pytest.approx(float(GnmtPenalty(0.6).score(candidate)), abs=1e-4)


def pairs():
    return ListedPairs(Pair(text, text[::-1] + "a", Path("x.tsv"), line) for line, text in enumerate(TEXTS, start=1))


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_is_that_of_both_directions(kind):
    model = made(kind=kind, training={"label_smoothing": 0.0})
    trainee = PairTrainee(model, pairs(), pairs())
    (batch,) = [trainee.batch([0, 1, 2, 3])]
    total, likelihood, count = trainee._loss(batch, None, 0.0)
    expected = 0.0
    for pair in pairs():
        ids = torch.tensor([[*model.source.encode(pair.source).ids.tolist(), EOS]])
        target = model.target.encode(pair.target).ids.tolist()
        for begin, written in ((BOS, target), (EOS, target[::-1])):
            inputs = torch.tensor([[begin, *written]])
            output = model.module.decoder(inputs, model.module.prepare(ids)).log_probabilities
            expected -= float(output.detach()[0].gather(1, torch.tensor([[*written, EOS]]).T).sum())
    assert float(total.detach()) == pytest.approx(expected, rel=1e-5)
    assert float(likelihood) == pytest.approx(expected, rel=1e-5)
    assert int(count) == 2 * sum(len(pair.target) + 1 for pair in pairs())


def test_training_makes_both_directions_probable():
    model = made(training={"label_smoothing": 0.0, "learning_rate": 0.04})
    model.module.train()
    trainee = PairTrainee(model, pairs(), pairs())
    optimizer = torch.optim.Adam(model.module.parameters(), lr=0.04)
    batch = trainee.batch([0, 1, 2, 3])
    for _ in range(80):
        optimizer.zero_grad()
        total, _, count = trainee._loss(batch, None, 0.0)
        (total / count).backward()
        optimizer.step()
    model.module.eval()
    expected = [pair.target for pair in pairs()]
    for search in ({"direction": "right_to_left"}, {"direction": "left_to_right"}, {"joint": True, "beam": 2}):
        predictions = model.predict(TEXTS, search=model.config.decoding.replace(**search))
        assert [p.text for p in predictions] == expected
        assert all(float(torch.tensor(p.log_probability).exp()) > 0.3 for p in predictions)


def test_validation_measures_both_losses_and_searches_in_one_direction():
    model = made(joint=True, beam=3)
    trainee = PairTrainee(model, pairs(), pairs())
    metrics = trainee.validate().metrics
    batch = trainee.batch([0, 1, 2, 3])
    with torch.no_grad():
        _, likelihood, count = trainee._loss(batch, None, 0.0)
    assert metrics["teacher_forced_loss"] == pytest.approx(float(likelihood / count), rel=1e-5)
    assert not trainee._search(beam=1).joint


def test_constraints_hold_in_a_joint_search_but_no_prefix():
    model = made(joint=True, beam=4)
    given = [{"include": ["bc"], "exclude": ["f"]}] * len(TEXTS)
    for prediction in model.predict(TEXTS, constraints=given):
        assert "f" not in prediction.text
        assert prediction.stop_reason != "eos" or "bc" in prediction.text
    with pytest.raises(InputError, match="joint also writes from right to left, so no output has a prefix"):
        model.predict(TEXTS, constraints=[{"prefix": "a"}] * len(TEXTS))
    left_to_right = model.config.decoding.replace(joint=False, beam=2)
    outputs = model.predict(TEXTS, search=left_to_right, constraints=[{"prefix": "ab"}] * len(TEXTS))
    assert all(p.text.startswith("ab") for p in outputs)


def test_the_left_to_right_search_streams_and_others_do_not():
    model = made()
    whole = [piece.prediction.text for piece in model.stream(TEXTS) if piece.prediction is not None]
    assert sorted(whole) == sorted(p.text for p in model.predict(TEXTS))
    with pytest.raises(ConfigError, match="from right to left"):
        next(iter(model.stream(TEXTS, search=model.config.decoding.replace(direction="right_to_left"))))
    with pytest.raises(ConfigError, match="the other direction scores whole outputs"):
        next(iter(model.stream(TEXTS, search=model.config.decoding.replace(joint=True))))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"joint": True, "method": "sampling"}, "only hypotheses of a beam"),
        ({"joint": True, "beam": 3, "reranker": "runs/x"}, "the other direction ranks already"),
        ({"joint": True, "direction": "right_to_left"}, "joint searches in both"),
    ],
)
def test_settings_that_do_not_combine_with_a_joint_search_are_refused(options, text):
    with pytest.raises(ConfigError, match=text):
        made().config.decoding.replace(**options)


@pytest.mark.parametrize("options", [{"joint": True}, {"direction": "left_to_right"}])
def test_a_model_of_one_direction_refuses_searches_of_both(options):
    model = made(direction="left_to_right")
    with pytest.raises(ConfigError, match="learned one order only"):
        model.predict(TEXTS, search=model.config.decoding.replace(**options))


def test_losses_on_alignments_want_one_direction():
    config = made(training={"alignment_losses": {"guided_attention": 0.1}}).config
    with pytest.raises(ConfigError, match="guided_attention is for models that learn one order") as error:
        check_directions("both", config.decoding, config.training)
    assert error.value.path == ("training", "alignment_losses", "guided_attention")


def test_hypotheses_of_both_searches_are_joined_once():
    def found(tokens, score):
        return Hypothesis(torch.tensor(tokens), score, score, "eos", torch.zeros(len(tokens)))

    class Constant(torch.nn.Module):
        """The same distribution in every step, whatever the direction."""

        def forward(self, inputs, memory, *, alignment=False, generator=None):
            from regard.models import DecoderOutput

            logits = torch.arange(6.0).expand(*inputs.shape, 6)
            return DecoderOutput(log_softmax(logits, -1))

    memory, decoder = torch.zeros(1, 1), Constant()
    joined = join_directions([[found([4, 5, 2], -1.0)]], [[found([5, 4, 2], -2.0)]], decoder, memory, bos=(1, 2))
    assert [h.tokens.tolist() for h in joined[0]] == [[4, 5, 2]]
    other = log_softmax(torch.arange(6.0), 0)[[4, 5, 2]].sum()
    assert joined[0][0].score == pytest.approx(-1.0 + float(other))
    with pytest.raises(ShapeError, match="the same sentences"):
        join_directions([[], []], [[]], decoder, memory, bos=(1, 2))


def test_presets_may_learn_both_directions():
    settings = ["data.train=x.tsv", "data.target.direction=both", "decoding.joint=true"]
    assert from_preset("text-to-text", settings).config.decoding.joint


def test_a_stopped_training_of_both_directions_ends_with_the_same_bytes(tmp_path, monkeypatch, capsys):
    case = TASK_CASES["text_to_text"]
    case.write(tmp_path)
    side = {"size": 8, "embedding_size": 6, "dropout": 0.1}
    values = {
        "task": "text_to_text",
        "data": {**case.sections["data"], "target": {"units": "whitespace", "direction": "both"}},
        "model": {"encoder": side, "decoder": side},
        "training": {**LOOP, **case.training},
    }
    path = tmp_path / "both.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    train(read_config(path), tmp_path / "whole")
    interrupt(monkeypatch, "text_to_text", 1, 2)
    reasons = [train(read_config(path), tmp_path / "parts").stop_reason for _ in range(3)]
    assert reasons == ["interrupted", "interrupted", "max_steps"]
    first, second = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("whole", "parts"))
    assert first == second
    capsys.readouterr()
    model = ["-m", str(tmp_path / "whole"), "--max-length", "5", "--beam", "3"]
    printed = []
    for flags in (["--joint"], ["--direction", "right_to_left"], []):
        assert run(["predict", *model, *flags, "0 1", "2"]) == 0
        printed.append(capsys.readouterr().out)
    found = load(tmp_path / "whole", device="cpu")
    search = found.config.decoding.replace(joint=True, beam=3, max_length=5)
    texts = [p.text for p in found.predict(["0 1", "2"], search=search)]
    assert [line.rpartition("\t")[2] for line in printed[0].splitlines()] == texts


def test_pictures_are_written_about_in_both_directions_with_a_refined_attention(tmp_path):
    case = TASK_CASES["image_to_text"]
    case.write(tmp_path)
    sections = case.sections
    side = {"size": 8, "layers": 2, "heads": 2, "dropout": 0.0, "refinement": {"size": 3, "kernel_size": 3}}
    values = {
        "task": "image_to_text",
        "data": {**sections["data"], "target": {**sections["data"].get("target", {}), "direction": "both"}},
        "model": {"architecture": "transformer", "encoder": sections["model"]["encoder"], "decoder": side},
        "training": {**LOOP, **case.training},
        "decoding": {"max_length": 5, "joint": True, "beam": 3},
    }
    path = tmp_path / "both.yaml"
    path.write_text(yaml.safe_dump(values), encoding="utf-8")
    train(read_config(path), tmp_path / "run")
    model = load(tmp_path / "run", device="cpu")
    assert model.module.decoder.layers[1].cross_attention.correction.dimensions == 2
    ((_, given),) = model.inputs(str(tmp_path / case.inputs[0]))
    (prediction,) = model.predict([given])
    encoded = model.encode(model.sources([given], model.config.decoding))
    has_ended = prediction.stop_reason == "eos"
    ids = model.target.vocabulary.ids(prediction.tokens[: len(prediction.tokens) - has_ended]).tolist()
    total = 0.0
    for bos, written in ((BOS, ids), (EOS, ids[::-1])):
        target = [*written, *[EOS] * has_ended]
        (h,) = force_align(model.module.decoder, encoded.memory, [target], bos=bos, eos=EOS)
        candidate = Candidates(torch.tensor(h.log_probability), len(target), has_ended)
        total += float(GnmtPenalty(model.config.decoding.alpha).score(candidate))
    assert prediction.score == pytest.approx(total, abs=1e-4)
