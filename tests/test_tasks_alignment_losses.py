"""Losses on alignments and REINFORCE, as a configuration reaches them."""

from __future__ import annotations

import itertools
import json
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import regard
from regard.attention.alignments import stochastic
from regard.config import load
from regard.config.schema import AlignmentTrainingConfig
from regard.data import Pair
from regard.data.pairs import ListedPairs
from regard.data.text import Field
from regard.errors import ConfigError, DataError, ShapeError
from regard.layers.items import ItemDraws, drawing, sites
from regard.models import EncoderDecoder
from regard.tasks import TextToText
from regard.tasks.compilation import check_compilable
from regard.tasks.decoder_losses import (
    aligned_cross_entropy,
    alignment_loss,
    forced_cross_entropy,
    forced_outputs,
    most_probable_positions,
)
from regard.tasks.text_to_text.architectures import build_model
from regard.tasks.text_to_text.config import RecurrentConfig, SideConfig, TextToTextConfig, TextTrainingConfig
from regard.tasks.text_to_text.links import TrainingLinks
from regard.tasks.text_to_text.task import TextToTextTask
from regard.tasks.text_to_text.trainee import PairTrainee
from regard.training import train

HARD = {"recipe": "show_attend_tell", "hard": True, "size": 4, "gate": None}
WEIGHTS = {"guided_attention": 0.7, "coverage": 0.5, "doubly_stochastic": 0.2, "entropy": 0.1, "forward_sum": 0.3}
ORDERS: dict[str, dict[str, Any]] = {
    "fed back": {"order": "attend_then_recur"},
    "nothing fed back": {"input_feeding": False},
}


def network(attention: dict[str, Any], dropout: float = 0.0, **decoder: Any) -> EncoderDecoder:
    torch.manual_seed(0)
    model = {
        "encoder": {"size": 4, "embedding_size": 3, "layers": 1, "dropout": dropout},
        "decoder": {"size": 5, "embedding_size": 3, "dropout": dropout, **decoder},
        "attention": attention,
    }
    return build_model(RecurrentConfig(**model), num_source=8, num_target=8).double()


def batch(rows: int = 4, steps: int = 4, positions: int = 5) -> dict[str, Tensor]:
    drawn = torch.Generator().manual_seed(1)
    source, inputs, targets = (
        torch.randint(4, 8, (rows, width), generator=drawn) for width in (positions, steps, steps)
    )
    mask = torch.arange(steps) < torch.tensor([steps, 2, 3, 1])[:rows, None]
    source_mask = torch.arange(positions) < torch.tensor([3, positions, 1, 2])[:rows, None]
    return {
        "source": source * source_mask,
        "source_mask": source_mask,
        "inputs": inputs * mask,
        "targets": targets * mask,
        "mask": mask,
    }


def loss(
    model: EncoderDecoder, made: dict[str, Tensor], config: AlignmentTrainingConfig, feedback: Tensor | None = None
) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
    memory = model.prepare(made["source"], made["source_mask"])
    given = (made["inputs"], made["targets"], made["mask"], feedback)
    return aligned_cross_entropy(config, model.decoder, memory, *given, source_mask=made["source_mask"])


def gradients(total: Tensor, model: EncoderDecoder) -> list[Tensor]:
    found = torch.autograd.grad(total, list(model.parameters()), allow_unused=True)
    return [torch.zeros_like(p) if g is None else g for p, g in zip(model.parameters(), found, strict=True)]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("entropy_weight", [0.0, 0.3])
def test_the_mean_gradient_over_all_draws_is_that_of_the_expected_log_probability(
    order: str, entropy_weight: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exact: two steps and three positions, each of the nine draws with its probability."""
    model = network(HARD, **ORDERS[order]).train()
    made = batch(rows=1, steps=2, positions=3)
    config = AlignmentTrainingConfig(reinforce={"entropy_weight": entropy_weight})
    expected, mean = torch.zeros((), dtype=torch.float64), [torch.zeros_like(p) for p in model.parameters()]
    for draw in itertools.product(range(3), repeat=2):
        left = list(draw)

        def choose(probabilities: Tensor, part: Tensor, left: list[int] = left) -> Tensor:
            return torch.eye(3, dtype=torch.float64)[[left.pop(0) for _ in range(len(part))]][:, None]

        monkeypatch.setattr(stochastic, "_draw", choose)
        memory = model.prepare(made["source"], made["source_mask"])
        output = forced_outputs(model.decoder, memory, made["inputs"], alignment=True)
        assert output.auxiliary["attention.index"].flatten().tolist() == list(draw)
        log_p = output.auxiliary["attention.log_probability"].sum()
        said = output.log_probabilities.gather(-1, made["targets"][..., None]).sum()
        entropy = output.auxiliary["attention.entropy"].sum()
        expected = expected + log_p.exp() * said + entropy_weight * log_p.exp().detach() * entropy
        left.extend(draw)
        found = gradients(loss(model, made, config)[0], model)
        assert not left
        mean = [m + log_p.exp().detach() * g for m, g in zip(mean, found, strict=True)]
    for m, e in zip(mean, gradients(-expected, model), strict=True):
        torch.testing.assert_close(m, e, atol=1e-12, rtol=0)


def test_the_value_of_the_loss_is_that_of_cross_entropy() -> None:
    model, made = network(HARD).train(), batch()
    with drawing(ItemDraws(sites(model), torch.arange(4), seed=1, step=1)):
        total, likelihood, figures = loss(model, made, AlignmentTrainingConfig(reinforce={}))
    torch.testing.assert_close(total, likelihood)
    assert figures.keys() == {"advantage", "choice_entropy"}
    assert figures["choice_entropy"] > 0


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("with_feedback", [False, True])
@pytest.mark.parametrize("attention", [HARD, {"recipe": "bahdanau", "size": 4}], ids=["hard", "soft"])
def test_an_item_has_the_same_loss_in_any_batch(order: str, with_feedback: bool, attention: dict[str, Any]) -> None:
    model, made = network(attention, dropout=0.3, **ORDERS[order]).train(), batch()
    terms = {"reinforce": {"entropy_weight": 0.1}} if attention is HARD else {"alignment_losses": WEIGHTS}
    config = AlignmentTrainingConfig(**terms)
    feedback = torch.arange(4) % 2 == torch.ones(4, 1) if with_feedback else None

    def of(rows: slice, longer: int = 0) -> tuple[Tensor, ...]:
        part = {name: tensor[rows] for name, tensor in made.items()}
        part = {name: torch.nn.functional.pad(tensor, (0, longer)) for name, tensor in part.items()}
        fed = None if feedback is None else torch.nn.functional.pad(feedback[rows], (0, longer))
        with drawing(ItemDraws(sites(model), torch.arange(7, 11)[rows], seed=3, step=5)):
            total, likelihood, figures = loss(model, part, config, fed)
            return total, likelihood, *figures.values(), *gradients(total, model)

    whole = of(slice(0, 4))
    halves = of(slice(0, 4, 2), longer=2), of(slice(1, 4, 2))
    assert any(bool(value.any()) for value in whole[2:4])
    for value, *parts in zip(whole, *halves, strict=True):
        torch.testing.assert_close(sum(parts), value, atol=1e-12, rtol=1e-9)


def test_each_loss_is_added_with_its_weight() -> None:
    model, made = network({"recipe": "bahdanau", "size": 4}), batch()
    plain, likelihood, nothing = loss(model, made, AlignmentTrainingConfig())
    assert plain == likelihood
    assert nothing == {}
    memory = model.prepare(made["source"], made["source_mask"])
    summed = forced_cross_entropy(model.decoder, memory, made["inputs"], made["targets"], made["mask"])
    torch.testing.assert_close(summed, (plain, likelihood))
    for name, weight in WEIGHTS.items():
        total, _, figures = loss(model, made, AlignmentTrainingConfig(alignment_losses={name: weight}))
        assert figures.keys() == {f"alignment_{name}"}
        value = figures[f"alignment_{name}"]
        assert value > 0
        torch.testing.assert_close(total, plain + weight * value)


@pytest.mark.parametrize(
    ("name", "setting"),
    [("guided_attention", {"guided_attention_width": 0.5}), ("doubly_stochastic", {"doubly_stochastic_rate": None})],
)
def test_the_settings_of_losses_have_an_effect(name: str, setting: dict[str, Any]) -> None:
    model, made = network({"recipe": "bahdanau", "size": 4}), batch()
    output = forced_outputs(model.decoder, model.prepare(made["source"]), made["inputs"], alignment=True)
    with_default, changed = (
        alignment_loss(
            AlignmentTrainingConfig(alignment_losses={name: 1.0, **options}),
            model.decoder,
            output,
            None,
            made["mask"],
        )[0]
        for options in ({}, setting)
    )
    assert abs(changed - with_default) > 1e-3


def test_weights_that_vanish_gain_nothing() -> None:
    model, made = network({"recipe": "gmm", "size": 4}), batch()
    output = forced_outputs(model.decoder, model.prepare(made["source"]), made["inputs"], alignment=True)
    settings = AlignmentTrainingConfig(alignment_losses={"guided_attention": 1.0})

    def loss(share: float) -> float:
        fewer = {name: share * weights for name, weights in output.alignments.items()}
        return alignment_loss(settings, model.decoder, replace(output, alignments=fewer), None, made["mask"])[0].item()

    assert loss(0.0) > loss(0.5) > loss(1.0)


def test_alignments_of_steps_taken_one_by_one_are_those_of_all_steps() -> None:
    model, made = network({"recipe": "bahdanau", "size": 4}), batch()
    memory = model.prepare(made["source"], made["source_mask"])
    nowhere = torch.zeros(4, 4, dtype=torch.bool)
    nowhere[:, 3] = True
    whole = forced_outputs(model.decoder, memory, made["inputs"], alignment=True).alignments["attention"]
    steps = forced_outputs(model.decoder, memory, made["inputs"], nowhere, alignment=True).alignments["attention"]
    torch.testing.assert_close(steps[:, :, :3], whole[:, :, :3])
    assert forced_outputs(model.decoder, memory, made["inputs"]).alignments == {}


@pytest.mark.parametrize("order", ORDERS)
def test_drawn_positions_belong_to_items(order: str) -> None:
    model, made = network(HARD, **ORDERS[order]).train(), batch(positions=5)
    memory = model.prepare(made["source"])

    def drawn(step: int, **steps: Any) -> Tensor:
        with drawing(ItemDraws(sites(model), torch.arange(4), seed=1, step=step)):
            return forced_outputs(model.decoder, memory, made["inputs"], alignment=True, **steps).auxiliary[
                "attention.index"
            ]

    assert drawn(3).shape == (4, 4, 1)
    assert torch.equal(drawn(3), drawn(3))
    assert not torch.equal(drawn(3), drawn(4))


def test_draws_by_item_are_uniform_and_depend_on_everything() -> None:
    module = torch.nn.Linear(1, 1)
    draws = ItemDraws(sites(module), torch.arange(2000), seed=1, step=2)
    positions = torch.zeros(2000, dtype=torch.long)
    first = draws.uniform(positions, 3, 5)
    assert first.shape == (2000, 3)
    assert 0 <= first.min() < first.max() < 1
    assert abs(first.mean() - 0.5) < 0.02
    assert abs(torch.corrcoef(first.T) - torch.eye(3)).max() < 0.06
    assert torch.equal(first, draws.uniform(positions, 3, 5))
    assert torch.equal(first, draws.again().uniform(positions, 3, 5))
    others = [draws.uniform(positions + 1, 3, 5), draws.uniform(positions, 3, 6)]
    others.append(ItemDraws(sites(module), torch.arange(2000), seed=1, step=3).uniform(positions, 3, 5))
    numbers = torch.ones(2000, dtype=torch.long)
    others.append(
        ItemDraws(sites(module), torch.arange(2000), seed=1, step=2, numbers=numbers).uniform(positions, 3, 5)
    )
    for other in others:
        assert not torch.isclose(other, first).all(1).any()
    with pytest.raises(ShapeError, match="a multiple of B=2000 items; got R=3"):
        draws.uniform(positions[:3], 3, 5)


def test_the_baseline_is_the_most_probable_positions_with_the_same_dropout() -> None:
    model, made = network({**HARD, "mix": 0.5}, dropout=0.5).train(), batch()
    with drawing(ItemDraws(sites(model), torch.arange(4), seed=1, step=1)):
        memory = model.prepare(made["source"])
        with most_probable_positions(model.decoder):
            first = forced_outputs(model.decoder, memory, made["inputs"]).log_probabilities
        with most_probable_positions(model.decoder):
            second = forced_outputs(model.decoder, memory, made["inputs"], alignment=True)
    assert torch.equal(first, second.log_probabilities)
    weights = second.alignments["attention"]
    assert torch.equal(weights, weights.round())
    assert all(part.training for part in model.modules())


def test_supervised_steps_are_counted_and_others_not() -> None:
    model, made = network({"recipe": "bahdanau", "size": 4}), batch()
    config = TextTrainingConfig(alignment_losses={"supervision": 2.0})
    memory = model.prepare(made["source"], made["source_mask"])
    given = (made["inputs"], made["targets"], made["mask"])
    reference = torch.zeros(4, 4, 5, dtype=torch.bool)
    reference[0, 1, 2] = reference[1, 0, 0] = reference[1, 0, 4] = True
    reference[2, 3] = reference[3, 0, 3] = True  # padding
    options = {"source_mask": made["source_mask"], "reference": reference}
    total, likelihood, figures = aligned_cross_entropy(config, model.decoder, memory, *given, **options)
    weights = forced_outputs(model.decoder, memory, made["inputs"], alignment=True).alignments["attention"][:, 0]
    expected = -(weights[0, 1, 2].log() + (weights[1, 0, 0].log() + weights[1, 0, 4].log()) / 2)
    torch.testing.assert_close(figures["alignment_supervision"], expected)
    torch.testing.assert_close(total, likelihood + 2 * expected)


def linked(folder: Path, lines: str) -> TrainingLinks:
    (folder / "links.txt").write_text(lines)
    pairs = [Pair("abc", "ABC", folder / "a.tsv", 1), Pair("ab", "A", folder / "a.tsv", 3)]
    return TrainingLinks(folder / "links.txt", pairs, np.array([[3, 3], [2, 1]]))


def test_links_belong_to_the_lines_of_the_pairs(tmp_path: Path) -> None:
    links = linked(tmp_path, "0-0 2-1 1-1\n\n1-0\n")
    padded = links.pad(np.array([1, 0, 1]), 4, 3)
    assert padded.shape == (3, 4, 3)
    assert padded.nonzero().tolist() == [[0, 0, 1], [1, 0, 0], [1, 1, 1], [1, 1, 2], [2, 0, 1]]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("0-0\n", "links.txt: 1 lines, but .*a.tsv:3 needs a line 3 here"),
        ("0-0 1:1\n\n\n", "links.txt:1: expected links such as 0-0 1-2, or .*got '1:1'"),
        ("0-0\n\n2-0\n", "links.txt:3: the link 2-0 needs symbol 2 of the input.*a.tsv:3 has 2 there"),
        ("0-3\n\n\n", "links.txt:1: the link 0-3 needs symbol 3 of the output.*a.tsv:1 has 3 there"),
    ],
)
def test_a_wrong_line_of_links_is_named(tmp_path: Path, lines: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        linked(tmp_path, lines)


def test_links_of_words_are_those_of_all_their_symbols(tmp_path: Path) -> None:
    (tmp_path / "links.txt").write_text("0-1 1?0\n\n0-0\n")
    pairs = [Pair("ab c", "C AB", tmp_path / "a.tsv", 1), Pair("ab", "A", tmp_path / "a.tsv", 3)]
    field = Field.build(SideConfig(), ["ab c C AB"])
    lengths = np.array([[4, 4], [2, 1]])
    links = TrainingLinks(tmp_path / "links.txt", pairs, lengths, (field, field))
    padded = links.pad(np.array([1, 0]), 5, 5)
    assert padded[0].nonzero().tolist() == [[0, 0], [0, 1]]
    assert padded[1].nonzero().tolist() == [[0, 3], [2, 0], [2, 1], [3, 0], [3, 1]]
    assert links.pad(np.array([0]), 5, 5).shape == (1, 5, 5)
    (tmp_path / "links.txt").write_text("0-2\n\n\n")
    with pytest.raises(DataError, match=r"links.txt:1: the link 0-2 needs word 2 of the output.*a.tsv:1 has 2 there"):
        TrainingLinks(tmp_path / "links.txt", pairs, lengths, (field, field))


def test_one_head_of_one_attention_is_supervised() -> None:
    attention = {"recipe": "multi_head", "size": 4, "num_heads": 2}
    model, made = network(attention), batch()
    config = TextTrainingConfig(alignment_losses={"supervision": 1.0})
    memory = model.prepare(made["source"], made["source_mask"])
    reference = torch.zeros(4, 4, 5, dtype=torch.bool)
    reference[0, 1, 2] = True

    def supervised(**options: Any) -> Tensor:
        given = (made["inputs"], made["targets"], made["mask"])
        return aligned_cross_entropy(
            config, model.decoder, memory, *given, source_mask=made["source_mask"], reference=reference, **options
        )[2]["alignment_supervision"]

    weights = forced_outputs(model.decoder, memory, made["inputs"], alignment=True).alignments["attention"]
    torch.testing.assert_close(supervised(head=1), -weights[0, 1, 1, 2].log())
    torch.testing.assert_close(supervised(), -weights[0, :, 1, 2].log().mean())
    with pytest.raises(ConfigError, match="alignment_layer is 'cross'"):
        supervised(layer="cross")


@pytest.mark.parametrize(
    ("section", "values", "message"),
    [
        ("training", {"supervision_head": 0}, "supervision_head has no effect without supervision"),
        ("training", {"supervision": 1.0, "supervision_layer": "cross"}, "supervision_layer is 'cross'"),
        ("training", {"supervision": 1.0, "supervision_head": 1}, "supervision_head is 1, but attention has one head"),
        ("decoding", {"alignment_layer": "cross.1"}, "alignment_layer is 'cross.1', but the alignments are attention"),
        ("decoding", {"alignment_head": 3}, "alignment_head is 3, but attention has one head"),
        ("data", {"alignment_units": "word"}, "alignment_units has no effect without alignments"),
    ],
)
def test_choices_without_effect_or_without_such_an_attention_are_refused_before_data_are_read(
    section: str, values: dict[str, Any], message: str, tmp_path: Path
) -> None:
    (tmp_path / "links.txt").write_text("")
    data: dict[str, Any] = {"train": "none.tsv"}
    if "supervision" in values:
        data["alignments"] = tmp_path / "links.txt"
    changed = {section: {"alignment_losses": values} if section == "training" else values}
    config = TextToTextConfig(**{"data": data, **changed, **({"data": data | values} if section == "data" else {})})
    with pytest.raises(ConfigError, match=message) as raised:
        TextToTextTask().draft(config)
    assert raised.value.path[0] == section
    assert raised.value.path[-1] in values


TEXTS = ["abc", "ca", "bbac", "cb", "a", "abca", "ccb", "ba"]
CHANGES: dict[str, dict[str, Any]] = {
    "reinforce": {"attention": HARD, "training": {"reinforce": {}}},
    "alignment losses": {"attention": {"recipe": "bahdanau", "size": 4}, "training": {"alignment_losses": WEIGHTS}},
}


def trainee(change: str) -> PairTrainee:
    options = CHANGES[change]
    config = TextToTextConfig(
        data={"train": "none.tsv"},
        model={
            "encoder": {"size": 4, "embedding_size": 3, "dropout": 0.2},
            "decoder": {"size": 4, "embedding_size": 3, "dropout": 0.2},
            "attention": options["attention"],
        },
        training={
            **{"epochs": 2, "batch_tokens": 12, "device": "cpu", "samples": 0, "log_every": 1, "validate_every": 3},
            **options["training"],
        },
    )
    torch.manual_seed(0)
    fields = [Field.build(config.data.source, TEXTS, name=name) for name in ("source", "target")]
    pairs = ListedPairs(Pair(text, text[::-1], Path("made"), line) for line, text in enumerate(TEXTS, 1))
    return PairTrainee(TextToText.build(config, *fields), pairs, pairs[:3])


def lines(folder: Path) -> list[dict[str, Any]]:
    entries = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in entry.items() if key != "timing"} for entry in entries]


@pytest.mark.parametrize("change", CHANGES)
def test_a_training_that_is_stopped_continues_bit_for_bit_and_logs_each_loss(tmp_path: Path, change: str) -> None:
    def run(folder: Path, stop_after: int | None = None) -> None:
        own, stop = trainee(change), threading.Event()
        plain = own.loss

        def watched(batch: Any, *, step: int, generator: Any) -> Any:
            if step == stop_after:
                stop.set()
            return plain(batch, step=step, generator=generator)

        own.loss = watched
        train(own, own.config.training, folder, seed=1, select="teacher_forced_loss", stop=stop)

    run(tmp_path / "whole")
    run(tmp_path / "parts", stop_after=3)
    assert len(lines(tmp_path / "parts")) < len(lines(tmp_path / "whole"))
    run(tmp_path / "parts")
    assert (tmp_path / "whole/model.safetensors").read_bytes() == (tmp_path / "parts/model.safetensors").read_bytes()
    assert lines(tmp_path / "whole") == lines(tmp_path / "parts")
    logged = lines(tmp_path / "whole")[0].keys()
    names = {f"alignment_{name}" for name in WEIGHTS} if change != "reinforce" else {"advantage", "choice_entropy"}
    assert names <= logged


SOFT = {"recipe": "bahdanau", "size": 4}


@pytest.mark.parametrize(
    ("attention", "training", "path", "message"),
    [
        (HARD, {}, ("model", "attention"), "would stay random.*or set training.reinforce"),
        ({"recipe": "monotonic", "hard": "always"}, {}, ("model", "attention"), "would stay random.*recipe has$"),
        (
            {"recipe": "monotonic", "hard": "always"},
            {"reinforce": {}},
            ("training", "reinforce"),
            "reinforce has no effect on monotonic with these options, which draws no positions",
        ),
        (SOFT, {"reinforce": {}}, ("training", "reinforce"), "hard: true"),
        (None, {"reinforce": {}}, ("training", "reinforce"), "a model without attention"),
        (
            None,
            {"alignment_losses": {"coverage": 1.0}},
            ("training", "alignment_losses", "coverage"),
            "coverage has no effect on a model without attention",
        ),
        (
            SOFT,
            {"alignment_losses": {"supervision": 1.0}},
            ("training", "alignment_losses", "supervision"),
            "set data.alignments",
        ),
        (
            HARD,
            {"reinforce": {}, "alignment_losses": {"entropy": 1.0}},
            ("training", "alignment_losses", "entropy"),
            "no alignments with a gradient",
        ),
    ],
)
def test_what_would_have_no_effect_is_refused(
    attention: Any, training: dict[str, Any], path: tuple[str, ...], message: str
) -> None:
    config = TextToTextConfig(data={"train": "a.tsv"}, model={"attention": attention}, training=training)
    with pytest.raises(ConfigError, match=message) as caught:
        TextToTextTask().draft(config)
    assert caught.value.path == path


@pytest.mark.parametrize(
    ("attention", "training"),
    [
        (HARD, {"reinforce": {}}),
        ({**HARD, "mix": 0.5}, {"reinforce": {}, "alignment_losses": {"coverage": 1.0}}),
        (SOFT, {"alignment_losses": WEIGHTS}),
    ],
)
def test_what_trains_attention_is_accepted(attention: Any, training: dict[str, Any]) -> None:
    TextToTextTask().draft(TextToTextConfig(data={"train": "a.tsv"}, model={"attention": attention}, training=training))


def test_reference_alignments_without_their_loss_are_refused() -> None:
    config = TextToTextConfig(data={"train": "a.tsv", "alignments": "links.txt"})
    with pytest.raises(ConfigError, match=r"no effect without training\.alignment_losses\.supervision") as caught:
        TextToTextTask().draft(config)
    assert caught.value.path == ("data", "alignments")


def test_supervision_teaches_attention_what_a_file_says(tmp_path: Path) -> None:
    """Outputs repeat their inputs; the links say that each is read at the next symbol to the left, around the end."""
    pairs = [(text, text.upper()) for text in ("abcd", "dcab", "cdba", "badc")]
    (tmp_path / "a.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    (tmp_path / "links.txt").write_text("3-0 0-1 1-2 2-3\n" * 4)
    (tmp_path / "a.yaml").write_text(
        "data: {train: a.tsv, dev: a.tsv, alignments: links.txt}\n"
        "model: {encoder: {size: 16, layers: 1, dropout: 0}, decoder: {size: 16, dropout: 0}, attention: {size: 16}}\n"
        "training: {epochs: 80, batch_tokens: 40, learning_rate: 0.01, warmup_steps: 0, device: cpu, samples: 0, \
        validate_every: 80, allow_trained_dev: true, alignment_losses: {supervision: 1}}\n"
    )
    regard.train(load(tmp_path / "a.yaml"), tmp_path / "run")
    (prediction,) = regard.load(tmp_path / "run").predict(["abcd"])
    assert prediction.text == "ABCD"
    assert prediction.alignment[:4].argmax(-1).tolist() == [3, 0, 1, 2]


def test_terms_of_alignments_are_not_compiled() -> None:
    config = TextToTextConfig(data={"train": "a.tsv"}, training={"compile": True, "reinforce": {}})
    with pytest.raises(ConfigError, match="alignment_losses and reinforce are not compiled"):
        check_compilable(config.training)


def test_both_are_set_in_files_and_on_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "a.yaml"
    file.write_text("data: {train: a.tsv}\ntraining:\n  alignment_losses: {coverage: 0.5}\n  reinforce: {}\n")
    training = load(file, ["training.reinforce.weight=0.1", "training.alignment_losses.entropy=0.2"]).config.training
    assert training.reinforce.weight == 0.1
    assert training.alignment_weights == {"coverage": 0.5, "entropy": 0.2}
    file.write_text("data: {train: a.tsv}\n")
    training = load(file, ["training.reinforce.weight=0.1"]).config.training
    assert training.reinforce.weight == 0.1
    assert not load(file).config.training.trains_alignments
    with pytest.raises(ConfigError, match=r"did you mean 'training\.alignment_losses\.coverage'"):
        load(file, ["training.alignment_losses.coverag=1"])
