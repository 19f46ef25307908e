"""Tacotron: what goes wrong in other implementations, and what each option does."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

from regard import attention as a
from regard.decoding import free_run, stop_at_logit, stop_at_silence
from regard.decoding.processor import SearchSource
from regard.errors import ConfigError, DataError, ShapeError, UnsupportedError
from regard.interop.windows import argmax_window
from regard.layers import CellStack, Prenet
from regard.losses import (
    absolute_error,
    alignment_consistency,
    guided_attention,
    low_frequency_error,
    squared_error,
    stop_loss,
    structural_dissimilarity,
)
from regard.models import DecoderOutput, Encoded
from regard.models.tacotron import (
    FrameHead,
    StopHead,
    TacotronDecoder,
    decoder_inputs,
    group_frames,
    group_mask,
    initialise_tacotron,
    step_mask,
    stop_targets,
    tacotron1,
    tacotron2,
    ungroup_frames,
)
from regard.tasks.decoder_losses import forced_outputs
from support import tiny
from support.cases import MECHANISMS

LOCATION = partial(a.location_sensitive, size=4, num_filters=3, kernel_size=3)
SMALL = {
    "attention": LOCATION,
    "embedding_size": 5,
    "encoder_size": 6,
    "size": 7,
    "prenet_sizes": (6, 5),
    "num_features": 4,
    "postnet_size": 5,
    "postnet_layers": 2,
}
OLD = {
    "attention": LOCATION,
    "embedding_size": 5,
    "encoder_prenet_sizes": (5, 4),
    "num_filters": 3,
    "bank_size": 3,
    "encoder_size": 6,
    "size": 7,
    "prenet_sizes": (6, 5),
    "num_features": 4,
    "num_linear": 9,
    "postnet_filters": 2,
    "postnet_size": 6,
}
BUILD = {"tacotron2": partial(tacotron2, 9, **SMALL), "tacotron1": partial(tacotron1, 9, **OLD)}
LENGTHS, FRAMES = (6, 1, 4), (7, 3, 10)


def made(name="tacotron2", **options):
    """A model in float64 and evaluation, with running statistics that are not those of a new one."""
    torch.manual_seed(0)
    model = BUILD[name](**options).double().eval()
    for buffer_name, buffer in model.named_buffers():
        if buffer_name.endswith("running_mean"):
            buffer.normal_(0, 0.1)
        elif buffer_name.endswith("running_var"):
            buffer.uniform_(0.5, 1.5)
    return model


def batch():
    torch.manual_seed(1)
    ids = torch.randint(1, 9, (3, 6))
    frames = torch.randn(3, 10, 4, dtype=torch.float64)
    return (
        ids,
        frames,
        torch.arange(6) < torch.tensor(LENGTHS)[:, None],
        torch.arange(10) < torch.tensor(FRAMES)[:, None],
    )


def same(ours, theirs, tolerance=1e-10):
    torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance)


@pytest.mark.parametrize("num_frames", [1, 2, 3, 5])
@pytest.mark.parametrize("name", BUILD)
@torch.no_grad()
def test_a_forced_sentence_is_as_alone_whatever_r_and_its_length(name, num_frames):
    model = made(name, num_frames=5, coarse_frames=6)
    ids, frames, mask, frame_mask = batch()
    together = model(ids, frames.masked_fill(~frame_mask[..., None], math.nan), mask, frame_mask, num_frames=num_frames)
    assert not together.alignments["attention"][1, ..., 1:].any()
    for row, (length, count) in enumerate(zip(LENGTHS, FRAMES, strict=True)):
        alone = model(ids[row : row + 1, :length], frames[row : row + 1, :count], num_frames=num_frames)
        steps = -(-count // num_frames)
        same(together.frames[row, :count], alone.frames[0])
        same(together.stop[row, :steps], alone.stop[0])
        same(together.alignments["attention"][row, :, :steps, :length], alone.alignments["attention"][0])
        for kind, refined in alone.refined.items():
            same(together.refined[kind][row, :count], refined[0])
        assert alone.stop.shape == (1, steps, num_frames)
        assert alone.frames.shape == (1, count, 4)


@pytest.mark.parametrize("like", [None, "nvidia", "espnet", "speechbrain", "rayhane", "coqui", "keithito", "mozilla"])
@torch.no_grad()
def test_a_batch_is_read_aloud_as_each_sentence_alone_and_each_stops_by_itself(like):
    model = imitation(like) if like else made(num_frames=2)
    ids, _, mask, _ = batch()
    seeds = torch.tensor([3, 1, 4])
    ends = torch.tensor([9, 4, 7])

    def run(rows, width):
        encoded = model.encode(ids[rows, :width], mask[rows, :width])
        memory = model.decoder.prepare(encoded, seeds=seeds[rows])
        return free_run(
            model.decoder, memory, model.decoder.first_inputs(memory), max_length=ends[rows], alignment=True
        )

    together = run([0, 1, 2], 6)
    for row, length in enumerate(LENGTHS):
        (alone,) = run([row], length)
        assert alone.stop_reason == together[row].stop_reason == "length"
        assert len(alone.values) == ends[row]
        same(together[row].values, alone.values)
        same(together[row].alignments["attention"][..., :length], alone.alignments["attention"])
        for kind, tensor in alone.auxiliary.items():
            same(together[row].auxiliary[kind], tensor)


def test_another_seed_reads_otherwise_if_the_prenet_always_drops():
    ids, _, mask, _ = batch()
    for drops, differs in (("always", True), ("training", False)):
        model = made(prenet_drops=drops)
        said = []
        for seed in (0, 1, 0):
            torch.manual_seed(len(said))
            memory = model.decoder.prepare(model.encode(ids, mask), seeds=torch.full((3,), seed))
            said.append(free_run(model.decoder, memory, model.decoder.first_inputs(memory), max_length=5)[0].values)
        assert torch.equal(said[0], said[1]) != differs
        assert torch.equal(said[0], said[2])
    with pytest.raises(ShapeError, match=re.escape("seeds must be (B=3,)")):
        model.decoder.prepare(model.encode(ids, mask), seeds=torch.zeros(2, dtype=torch.long))


def test_training_draws_by_item_are_those_of_the_steps():
    from regard.layers.items import ItemDraws, drawing, sites

    model = made(num_frames=2, zoneout=0.2).train()
    decoder = model.decoder
    encoded = model.encode(torch.randint(1, 9, (2, 4)))
    inputs = torch.randn(2, 5, 8, dtype=torch.float64)
    draws = ItemDraws(sites(decoder), torch.tensor([4, 8]), seed=1, step=0)
    with drawing(draws.again()):
        whole = decoder(inputs, decoder.prepare(encoded)).values
    with drawing(draws.again()):
        memory = decoder.prepare(encoded)
        state, steps = decoder.initial_state(memory), []
        for x in inputs.unbind(1):
            output, state = decoder.step(x, memory, state)
            steps.append(output.values)
    same(torch.stack(steps, 1), whole)


@pytest.mark.parametrize("name", BUILD)
def test_one_symbol_is_read_and_an_empty_text_is_refused(name):
    model = made(name)
    memory = model.decoder.prepare(model.encode(torch.tensor([[3]])))
    first = model.decoder.first_inputs(memory)
    assert free_run(model.decoder, memory, first, max_length=3)[0].values.isfinite().all()
    with pytest.raises(DataError, match="Row 1 of the batch has no symbols"):
        model.encode(torch.ones(2, 3, dtype=torch.long), torch.tensor([[True, True, False], [False, False, False]]))
    with pytest.raises(DataError, match="no symbols"):
        model.encode(torch.ones(2, 0, dtype=torch.long))


def test_frames_in_the_wrong_layout_are_refused_with_the_right_one():
    model = made(num_frames=2)
    with pytest.raises(ShapeError, match=re.escape("not (B, F, T)")):
        model(torch.ones(1, 3, dtype=torch.long), torch.zeros(1, 4, 10, dtype=torch.float64))
    memory = model.decoder.prepare(model.encode(torch.ones(1, 3, dtype=torch.long)))
    for width in (3, 12):
        with pytest.raises(ShapeError, match="r from 1 to 2"):
            model.decoder(torch.zeros(1, 2, width, dtype=torch.float64), memory)
    with pytest.raises(ShapeError, match="step takes one input per row"):
        model.decoder.step(torch.zeros(1, 2, 4), memory, model.decoder.initial_state(memory))
    with pytest.raises(ShapeError, match="forward takes the inputs of all steps"):
        model.decoder(torch.zeros(1, 4), memory)


def test_frames_are_grouped_with_silence_and_ungrouped():
    frames = torch.randn(2, 7, 3)
    grouped = group_frames(frames, 3, silence=-4.0)
    assert grouped.shape == (2, 3, 9)
    assert (grouped[:, 2, 3:] == -4).all()
    assert torch.equal(ungroup_frames(grouped, 3)[:, :7], frames)
    assert group_frames(frames[:, :2], 5).shape == (2, 1, 15)
    inputs = decoder_inputs(grouped)
    assert not inputs[:, 0].any()
    assert torch.equal(inputs[:, 1:], grouped[:, :-1])
    with pytest.raises(ConfigError, match="num_frames=0"):
        group_frames(frames, 0)
    with pytest.raises(ShapeError, match="frames must be"):
        group_frames(frames[0], 2)
    with pytest.raises(ShapeError, match="values must be"):
        ungroup_frames(grouped, 4)


def test_the_stop_label_is_on_the_last_step_and_there_only():
    mask = torch.arange(8) < torch.tensor([8, 5, 1])[:, None]
    assert stop_targets(mask, 1)[..., 0].tolist() == [[0] * 7 + [1], [0] * 4 + [1] + [0] * 3, [1] + [0] * 7]
    targets = stop_targets(mask, 3)
    assert targets.sum((1, 2)).tolist() == [3, 3, 3]
    assert targets[:, :, 0].argmax(1).tolist() == [2, 1, 0]
    assert step_mask(mask, 3).sum(1).tolist() == [3, 2, 1]
    assert group_mask(mask, 3)[1].tolist() == [[True] * 3, [True, True, False], [False] * 3]


def said(values, stop=None, weights=None):
    return DecoderOutput(
        values=torch.tensor(values),
        auxiliary={} if stop is None else {"stop": torch.tensor(stop)},
        alignments={} if weights is None else {"attention": torch.tensor(weights)},
    )


def test_any_logit_above_the_threshold_stops_and_silence_need_not_be_exact():
    output = said([[0.02, 0.01], [0.02, 0.9], [-0.1, 0.04]], [[-9.0, 0.1], [-0.1, -0.2], [0.5, 0.5]])
    assert stop_at_logit()(output).tolist() == [True, False, True]
    assert stop_at_logit(0.6)(output).tolist() == [False, False, True]
    assert stop_at_silence(0.05)(output).tolist() == [True, False, True]
    with pytest.raises(UnsupportedError, match="no stop logits"):
        stop_at_logit()(said([[0.0]]))
    with pytest.raises(ConfigError, match=r"threshold=1\.0"):
        stop_at_logit(1.0)


def test_a_run_that_reaches_the_maximum_says_so_and_a_minimum_holds_the_end_back():
    model = made()
    nn.init.constant_(model.decoder.head.stop.projection.bias, 50.0)
    memory = model.decoder.prepare(model.encode(torch.ones(2, 4, dtype=torch.long)))
    run = partial(free_run, model.decoder, memory, model.decoder.first_inputs(memory), max_length=6)
    assert [(one.stop_reason, len(one.values)) for one in run()] == [("length", 6)] * 2
    assert [(one.stop_reason, len(one.values)) for one in run(stop=stop_at_logit())] == [("stop", 1)] * 2
    waited = run(stop=stop_at_logit(), min_length=torch.tensor([3, 5]))
    assert [(one.stop_reason, len(one.values)) for one in waited] == [("stop", 3), ("stop", 5)]
    assert [one.stop_reason for one in run(stop=stop_at_logit(), min_length=9)] == ["length"] * 2
    with pytest.raises(ShapeError, match="min_length must be"):
        run(min_length=torch.zeros(3))


def test_attention_that_stays_at_the_last_symbol_ends_a_sentence():
    model = made(attention=partial(a.bahdanau, size=4))
    memory = model.decoder.prepare(model.encode(torch.ones(1, 1, dtype=torch.long)))
    source = SearchSource(torch.ones(1, 1, dtype=torch.long), torch.ones(1, 1, dtype=torch.bool))
    (one,) = free_run(
        model.decoder, memory, model.decoder.first_inputs(memory), max_length=9, attention_stop=3, source=source
    )
    assert (one.stop_reason, len(one.values)) == ("stop", 3)


@torch.no_grad()
def test_a_smaller_r_uses_the_first_outputs_of_the_same_projection():
    model = made(num_frames=3)
    head = model.decoder.head
    output, context = torch.randn(2, 7).double(), torch.randn(2, 6).double()
    whole, further = head(output, context, 3)
    for num_frames in (1, 2):
        frames, stops = head(output, context, num_frames)
        assert torch.equal(frames, whole[:, : 4 * num_frames])
        assert torch.equal(stops["stop"], further["stop"][:, :num_frames])


@torch.no_grad()
def test_the_prenet_sees_the_last_frames_of_a_queue_oldest_first():
    seen = []

    class Watching(Prenet):
        def forward(self, x, **options):
            seen.append(x)
            return super().forward(x, **options)

    mechanism = LOCATION(query_size=3, memory_size=4)
    decoder = TacotronDecoder(
        Watching(5 * 2, (3,)),
        mechanism,
        FrameHead(3, 4, 2, 3),
        query_cells=CellStack(3 + 4, 3),
        num_fed_frames=5,
    )
    memory = decoder.prepare(Encoded(torch.randn(1, 3, 4)))
    inputs = decoder_inputs(torch.arange(1.0, 19.0).view(1, 3, 6))
    decoder(inputs, memory)
    assert seen[0][0].tolist() == [
        [0.0] * 10,
        [0.0] * 4 + [1, 2, 3, 4, 5, 6],
        [3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
    ]
    state = decoder.initial_state(memory)
    for t in range(3):
        _, state = decoder.step(inputs[:, t], memory, state)
        assert torch.equal(seen[1 + t], seen[0][:, t])


def test_a_decoder_refuses_parts_that_do_not_fit():
    mechanism = LOCATION(query_size=3, memory_size=4)
    parts = {"prenet": Prenet(2, (3,)), "attention": mechanism, "head": FrameHead(3, 4, 2)}
    with pytest.raises(UnsupportedError, match="query cells, output cells or both"):
        TacotronDecoder(**parts)
    with pytest.raises(ConfigError, match="query_cells reads 5 features, but its inputs have 7"):
        TacotronDecoder(**parts, query_cells=CellStack(5, 3))
    with pytest.raises(ConfigError, match="prenet reads 2 features, but its inputs have 6"):
        TacotronDecoder(**parts, query_cells=CellStack(7, 3), num_fed_frames=3)
    with pytest.raises(ConfigError, match="num_fed_frames=0"):
        TacotronDecoder(**parts, query_cells=CellStack(7, 3), num_fed_frames=0)
    with pytest.raises(ConfigError, match="output_cells reads 6 features, but its inputs have 7"):
        TacotronDecoder(**parts, query_cells=CellStack(7, 3), output_cells=CellStack(6, 3))


def test_training_with_its_own_frames_throughout_is_the_free_run():
    model = made(num_frames=2)
    ids, frames, mask, _ = batch()
    decoder = model.decoder
    memory = decoder.prepare(model.encode(ids, mask))
    inputs = decoder_inputs(group_frames(frames, 2))
    whole = forced_outputs(decoder, memory, inputs, torch.ones(3, 5, dtype=torch.bool))
    runs = free_run(decoder, memory, decoder.first_inputs(memory), max_length=5)
    same(whole.values, torch.stack([one.values for one in runs]))
    mixed = forced_outputs(decoder, memory, inputs, torch.arange(5) == torch.full((3, 1), 3))
    forced = decoder(inputs, memory)
    same(mixed.values[:, :3], forced.values[:, :3])
    assert not torch.allclose(mixed.values[:, 3], forced.values[:, 3])


def test_padding_is_in_no_statistic_of_a_whole_model():
    ids, frames, mask, frame_mask = batch()
    found = []
    for extra in (0, 5):
        model = made(prenet_drops="training", encoder_dropout=0.0, postnet_dropout=0.0, dropout=0.0)
        model.decoder.prenet.dropout.p = 0.0
        model.train()
        wide = [nn.functional.pad(x, (0, extra)) for x in (ids, mask, frame_mask)]
        output = model(wide[0], nn.functional.pad(frames, (0, 0, 0, extra), value=77.0), wide[1], wide[2])
        found.append((output.refined["mel"][:, :10][frame_mask], [buffer.clone() for buffer in model.buffers()]))
    same(found[0][0], found[1][0])
    for one, other in zip(found[0][1], found[1][1], strict=True):
        same(one, other)


def test_the_guided_loss_takes_lengths_in_steps():
    model = made(num_frames=3)
    ids, frames, mask, frame_mask = batch()
    output = model(ids, frames, mask, frame_mask)
    together = guided_attention(output.alignments["attention"], mask, step_mask(frame_mask, 3))
    total = cells = 0.0
    for row, (length, count) in enumerate(zip(LENGTHS, FRAMES, strict=True)):
        alone = model(ids[row : row + 1, :length], frames[row : row + 1, :count])
        size = length * -(-count // 3)
        total, cells = total + guided_attention(alone.alignments["attention"]).item() * size, cells + size
    assert float(together) == pytest.approx(total / cells)


def test_a_second_decoder_pulls_the_first_ones_attention():
    model = made(num_frames=2, coarse_frames=6)
    ids, frames, mask, frame_mask = batch()
    output = model(ids, frames, mask, frame_mask)
    coarse = output.coarse.alignments["attention"]
    assert coarse.shape == (3, 1, 2, 6)
    loss = alignment_consistency(
        output.alignments["attention"], coarse, mask, step_mask(frame_mask, 2), num_frames=2, coarse_frames=6
    )
    loss.backward()
    for decoder in (model.decoder, model.coarse):
        assert decoder.attention.score.content.v.grad.abs().sum() > 0
    assert made(num_frames=2).coarse is None
    with pytest.raises(ConfigError, match="must have the same F and a larger r"):
        made(num_frames=2, coarse_frames=2)
    with pytest.raises(ShapeError, match="coarse must be"):
        alignment_consistency(coarse, coarse[:, :, :1], num_frames=2, coarse_frames=2)


def test_the_consistency_of_alignments_compares_steps_of_the_same_time():
    fine = torch.eye(4).repeat_interleave(3, 0)[None, None]  # 12 steps of 2 frames, 3 at each position
    coarse = torch.eye(4)[None, None]  # 4 steps of 6 frames
    assert float(alignment_consistency(fine, coarse, num_frames=2, coarse_frames=6)) == 0
    assert float(alignment_consistency(fine.roll(1, 2), coarse, num_frames=2, coarse_frames=6)) > 0


def test_losses_of_frames_weigh_what_they_say():
    values, targets = torch.tensor([[[1.0, 2.0, 4.0, 8.0]]]), torch.zeros(1, 1, 4)
    total, count = low_frequency_error(values, targets, 2)
    assert float(total / count) == pytest.approx((15 / 4 + 3 / 2) / 2)
    with pytest.raises(ShapeError, match="num_low=5"):
        low_frequency_error(values, targets, 5)
    logits, labels = torch.tensor([[[0.3], [-0.7]]]), torch.tensor([[[1.0], [0.0]]])
    total, count = stop_loss(logits, labels, positive_weight=5.0)
    expected = 5 * math.log(1 + math.exp(-0.3)) + math.log(1 + math.exp(-0.7))
    assert float(total) == pytest.approx(expected)
    assert int(count) == 2


def test_structural_similarity_is_what_its_equation_says_and_falls_with_noise():
    torch.manual_seed(0)
    x, y = torch.rand(1, 6, 5, dtype=torch.float64), torch.rand(1, 6, 5, dtype=torch.float64)
    total, _ = structural_dissimilarity(x, y, width=3, deviation=1.0)
    low, scale = y.min(), y.max() - y.min()
    u, v = (x[0] - low) / scale, (y[0] - low) / scale
    expected = 0.0
    for t in range(6):
        for f in range(5):
            cells = [(i, j) for i in range(t - 1, t + 2) for j in range(f - 1, f + 2) if 0 <= i < 6 and 0 <= j < 5]
            w = torch.tensor([math.exp(-((i - t) ** 2 + (j - f) ** 2) / 2) for i, j in cells], dtype=torch.float64)
            w = w / w.sum()
            p, q = (torch.stack([z[i, j] for i, j in cells]) for z in (u, v))
            mp, mq = (w * p).sum(), (w * q).sum()
            vp, vq = (w * p * p).sum() - mp**2, (w * q * q).sum() - mq**2
            cov = (w * p * q).sum() - mp * mq
            ssim = (2 * mp * mq + 1e-4) * (2 * cov + 9e-4) / ((mp**2 + mq**2 + 1e-4) * (vp + vq + 9e-4))
            expected += float(1 - ssim)
    assert float(total) == pytest.approx(expected)
    noise = [structural_dissimilarity(y + scale * torch.randn_like(y), y)[0].item() for scale in (0.0, 0.05, 0.5)]
    assert noise[0] == pytest.approx(0, abs=1e-9)
    assert noise[0] < noise[1] < noise[2]
    with pytest.raises(ConfigError, match="width=4"):
        structural_dissimilarity(x, y, width=4)


def test_first_weights_are_nvidias():
    torch.manual_seed(0)
    model = tacotron2(30, embedding_size=50, encoder_size=40, size=60, prenet_sizes=(40,), postnet_size=40)

    def bound(weight):
        return float(weight.abs().max())

    def xavier(weight, gain):
        receptive = weight[0][0].numel() if weight.dim() > 2 else 1
        return gain * math.sqrt(6 / ((weight.shape[0] + weight.shape[1]) * receptive))

    encoder, decoder = model.encoder, model.decoder
    score = decoder.attention.score
    for weight, gain in (
        (encoder.convolutions[1].convolution.filters.weight, math.sqrt(2)),
        (model.postnets["mel"].convolutions[0].convolution.filters.weight, 5 / 3),
        (model.postnets["mel"].convolutions[4].convolution.filters.weight, 1.0),
        (decoder.prenet.layers[0].weight, 1.0),
        (decoder.head.projection.weight, 1.0),
        (score.content.query_projection.weight, 5 / 3),
        (score.content.key_projection.weight, 5 / 3),
        (score.location_projection[0], 5 / 3),
    ):
        assert bound(weight) == pytest.approx(xavier(weight, gain), rel=0.03)
    assert bound(encoder.embedding.table.weight) == pytest.approx(math.sqrt(6 / 80), rel=0.03)
    assert not encoder.embedding.table.weight[0].any()
    cell = decoder.query_cells.cells[0].layers[0]
    assert bound(cell.weight_hh_l0) == pytest.approx(60**-0.5, rel=0.03)
    old = tacotron1(9, **OLD)
    initialise_tacotron(old)
    assert (old.encoder.cbhg.highways[0].gate.bias == -1).all()


def asked(case):
    return (
        isinstance(case.memory_size, int)
        and case.key_size is None
        and case.query_size > 0
        and case.make().uses_query
        and not case.make().is_random
    )


@pytest.mark.parametrize("case", MECHANISMS, ids=lambda case: case.name)
@torch.no_grad()
def test_any_mechanism_that_a_decoder_can_ask_takes_all_steps_as_it_takes_each(case):
    if not asked(case):
        return
    mechanism = case.make()
    options = {"size": case.query_size, "num_frames": 2, "num_features": case.input_size or 2}
    decoder = tiny.speech(mechanism, **options).eval()
    from regard.testing.source import draw_source, encode

    memory = decoder.prepare(encode([draw_source(length, case.memory_size, seed=length) for length in (6, 4)]))
    torch.manual_seed(0)
    inputs = torch.randn(2, 4, 2 * options["num_features"], dtype=torch.float64)
    whole = decoder(inputs, memory, alignment=True)
    state = decoder.initial_state(memory)
    for t in range(4):
        output, state = decoder.step(inputs[:, t], memory, state, alignment=True)
        same(output.values, whole.values[:, t])
        same(output.auxiliary["stop"], whole.auxiliary["stop"][:, t])
        for name, weights in output.alignments.items():
            same(weights, whole.alignments[name][:, :, t])


COMMON = {"num_features": 4, "size": 7, "attention": LOCATION}
PEERS = {
    "nvidia": (tacotron2, {"embedding_size": 6, "prenet_size": 5, "postnet_size": 5}),
    "speechbrain": (tacotron2, {"embedding_size": 6, "prenet_size": 5, "postnet_size": 5}),
    "espnet": (
        tacotron2,
        {"embedding_size": 5, "encoder_size": 6, "convolution_size": 6, "prenet_size": 5, "postnet_size": 5},
    ),
    "rayhane": (
        tacotron2,
        {"embedding_size": 5, "encoder_size": 6, "prenet_size": 5, "postnet_size": 5, "bank_size": 4, "num_linear": 9},
    ),
    "coqui": (tacotron2, {"embedding_size": 6, "prenet_size": 5, "postnet_size": 5}),
    "keithito": (
        tacotron1,
        {"prenet_sizes": (6, 5), "embedding_size": 5, "encoder_size": 6, "bank_size": 3, "num_linear": 9},
    ),
    "mozilla": (
        tacotron1,
        {"prenet_sizes": (6, 5), "embedding_size": 5, "encoder_prenet_sizes": (5, 4), "bank_size": 3, "num_linear": 9},
    ),
}


def imitation(like):
    torch.manual_seed(0)
    build, options = PEERS[like]
    common = COMMON if like != "keithito" else COMMON | {"attention": partial(a.bahdanau, size=4)}
    return build(9, like=like, **common, **options).double().eval()


@pytest.mark.parametrize("like", PEERS)
@torch.no_grad()
def test_what_each_imitation_is_built_like(like):
    model = imitation(like)
    decoder = model.decoder
    found = {
        "r": decoder.num_frames,
        "fed": decoder.num_fed_frames,
        "prenet": decoder.prenet.drops,
        "bias": decoder.prenet.layers[0].bias is not None,
        "query": None if decoder.query_cells is None else decoder.query_cells.num_layers,
        "output": None if decoder.output_cells is None else decoder.output_cells.num_layers,
        "cell": (decoder.query_cells or decoder.output_cells).cell,
        "stop": type(decoder.head.stop).__name__,
        "postnets": sorted(model.postnets),
    }
    two = {"fed": 1, "cell": "lstm", "bias": True, "stop": "StopHead", "postnets": ["mel"], "r": 1, "prenet": "always"}
    one = {"fed": 1, "bias": True, "query": 1, "output": 2, "postnets": ["linear"], "prenet": "training", "r": 5}
    expected = {
        "nvidia": two | {"query": 1, "output": 1, "bias": False},
        "speechbrain": two | {"query": 1, "output": 1, "bias": False},
        "espnet": two | {"query": None, "output": 2},
        "rayhane": two | {"query": 2, "output": None, "postnets": ["linear", "mel"]},
        "coqui": two | {"query": 1, "output": 1, "bias": False, "prenet": "training", "stop": "FrameStop", "r": 2},
        "keithito": one | {"cell": "gru_reset_before", "stop": "NoneType"},
        "mozilla": one | {"cell": "gru", "stop": "FrameStop", "fed": 5},
    }
    assert found == expected[like]
    output = model(torch.ones(2, 3, dtype=torch.long), torch.zeros(2, 7, 4, dtype=torch.float64))
    assert output.frames.shape == (2, 7, 4)
    assert (output.stop is None) == (like == "keithito")


def test_an_imitation_refuses_what_it_does_not_have():
    with pytest.raises(UnsupportedError, match="like='festival' must be 'coqui' or"):
        tacotron2(9, like="festival")
    with pytest.raises(ConfigError, match="zoneout=0.3: like='nvidia' has no such option".replace(".", r"\.")):
        tacotron2(9, like="nvidia", zoneout=0.3)
    with pytest.raises(UnsupportedError, match="query='next'"):
        made(query="next")
    with pytest.raises(ConfigError, match="encoder_size=7"):
        made(encoder_size=7)


def test_coquis_stop_sends_no_gradient_into_the_rest_unless_it_is_asked_to():
    for separate in (True, False):
        model = tacotron2(9, like="coqui", separate_stop=separate, **COMMON, **PEERS["coqui"][1])
        output = model(torch.ones(1, 3, dtype=torch.long), torch.zeros(1, 4, 4))
        output.stop.sum().backward()
        assert (model.decoder.head.projection.weight.grad is None) == separate


def test_mozillas_old_cell_looks_from_3_back_to_5_ahead_in_synthesis():
    model = tacotron1(9, like="mozilla", num_features=4, size=7, **PEERS["mozilla"][1]).eval()
    ids = torch.ones(1, 20, dtype=torch.long)
    memory = model.decoder.prepare(model.encode(ids))
    (one,) = free_run(model.decoder, memory, model.decoder.first_inputs(memory), max_length=3, alignment=True)
    first = one.alignments["attention"][0, 0]
    assert first[:6].all()
    assert not first[6:].any()
    assert (one.values > 0).all()
    assert (one.values < 1).all()


@torch.no_grad()
def test_the_old_state_asks_where_there_are_no_query_cells():
    mechanism = a.bahdanau(query_size=4, memory_size=6, size=4)
    queries = []

    class Watching(type(mechanism.score)):
        def forward(self, inputs, part_state):
            queries.append(inputs.query)
            return super().forward(inputs, part_state)

    mechanism.score.__class__ = Watching
    decoder = tiny.speech(mechanism, query=0, output=2)
    from regard.testing.source import encode

    memory = decoder.prepare(encode(tiny.sources()))
    state = decoder.initial_state(memory)
    for _ in range(3):
        before = state.output[0][0]
        _, state = decoder.step(torch.randn(2, 2, dtype=torch.float64), memory, state)
        assert torch.equal(queries[-1], before)


def test_a_whole_model_learns_to_say_and_to_stop():
    torch.manual_seed(0)
    model = tacotron2(
        9, **SMALL | {"attention": partial(a.forward_attention, size=4, num_filters=3, kernel_size=3)}, num_frames=2
    )
    ids, frames, mask, frame_mask = batch()
    frames, targets = frames.float(), stop_targets(frame_mask, 2)
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    losses = []
    for _ in range(12):
        output = model(ids, frames, mask, frame_mask)
        parts = [
            squared_error(output.frames, frames, frame_mask),
            absolute_error(output.refined["mel"], frames, frame_mask),
            stop_loss(output.stop, targets, step_mask(frame_mask, 2), positive_weight=5.0),
        ]
        loss = sum(total / count for total, count in parts)
        loss = loss + guided_attention(output.alignments["attention"], mask, step_mask(frame_mask, 2), width=0.4)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in model.parameters())
    assert losses[-1] < losses[0] - 0.3


def fed_by_hand(model, ids, frames, mask, frame_mask, feedback, r):
    """A loop over steps and sentences: which r frames each step is fed, and what the decoder's parts make of them."""
    decoder, features = model.decoder, frames.shape[2]
    grouped = group_frames(frames.masked_fill(~frame_mask[..., None], 0), r)
    memory = decoder.prepare(model.encode(ids, mask))
    state, said, stops, weights = decoder.initial_state(memory), [], [], []
    history = [[torch.zeros(features, dtype=frames.dtype)] * decoder.num_fed_frames for _ in ids]
    for t in range(grouped.shape[1]):
        for row in range(len(ids)):
            if t == 0:
                fed = torch.zeros(r * features, dtype=frames.dtype)
            elif feedback[row, t]:
                fed = said[-1][row]
            else:
                fed = grouped[row, t - 1]
            history[row] += list(fed.view(r, features))
        seen = torch.stack([torch.cat(past[-decoder.num_fed_frames :]) for past in history])
        x = decoder.prenet(seen, start=torch.full((len(ids),), t))
        query, query_state = decoder.query_cells.step(torch.cat([x, state.context], -1), state.query)
        attended, attention = decoder.attention.step(
            query, memory.attention, state.attention, inputs=seen, alignment=True
        )
        output, output_state = decoder.output_cells.step(torch.cat([query, attended.context], -1), state.output)
        values, further = decoder.head(output, attended.context, r)
        state = replace(state, query=query_state, output=output_state, attention=attention, context=attended.context)
        said.append(values)
        stops.append(further["stop"])
        weights.append(attended.alignment)
    return torch.stack(said, 1), torch.stack(stops, 1), torch.stack(weights, 2)


@pytest.mark.parametrize(
    ("name", "options", "r"),
    [
        ("tacotron2", {}, 1),
        ("tacotron2", {"num_frames": 3}, 3),
        ("tacotron2", {"num_frames": 3}, 2),
        ("tacotron2", {"num_frames": 2, "num_fed_frames": 2}, 2),
        ("tacotron2", {"num_frames": 2, "num_fed_frames": 5, "coarse_frames": 4}, 2),
        ("tacotron1", {"num_frames": 3}, 3),
    ],
)
def test_own_frames_are_fed_back_as_in_a_plain_loop(name, options, r):
    model = made(name, **options)
    ids, frames, mask, frame_mask = batch()
    steps = -(-10 // r)
    torch.manual_seed(2)
    feedback = torch.rand(3, steps) < 0.5
    feedback[0, 1:], feedback[1] = True, False  # a free-running sentence, and a teacher-forced one
    output = model(ids, frames, mask, frame_mask, num_frames=r, feedback=feedback)
    values, stops, weights = fed_by_hand(model, ids, frames, mask, frame_mask, feedback, r)
    said = ungroup_frames(values, 4)[:, :10]
    same(output.frames, said)
    same(output.stop, stops)
    same(output.alignments["attention"], weights)
    forced = model(ids, frames, mask, frame_mask, num_frames=r)
    same(output.frames[1], forced.frames[1])
    assert float((output.frames[0] - forced.frames[0]).abs().max().detach()) > 1e-4
    if model.coarse is not None:  # it is never fed its own
        same(output.coarse.values, forced.coarse.values)
    # gradients go through what is fed
    parameters = list(model.decoder.parameters())
    ours, theirs = (
        torch.autograd.grad((frame_mask[..., None] * x).pow(2).sum(), parameters, allow_unused=True)
        for x in (output.frames, said)
    )
    for one, other in zip(ours, theirs, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            same(one, other, 1e-9)


def test_a_sentence_that_is_fed_its_own_frames_throughout_is_said_as_in_a_free_run():
    model = made(num_frames=2)
    ids, frames, mask, frame_mask = batch()
    feedback = torch.ones(3, 5, dtype=torch.bool)
    output = model(ids, frames, mask, frame_mask, feedback=feedback)
    memory = model.decoder.prepare(model.encode(ids, mask))
    runs = free_run(model.decoder, memory, model.decoder.first_inputs(memory), max_length=5)
    same(output.frames, torch.stack([run.values.view(10, 4) for run in runs]))


def test_a_batch_without_own_frames_is_one_fused_pass(monkeypatch):
    model, calls = made().train(), []
    ids, frames, mask, frame_mask = batch()
    whole = TacotronDecoder.run
    monkeypatch.setattr(TacotronDecoder, "run", lambda *a, **k: calls.append(0) or whole(*a, **k))
    feedback = torch.zeros(3, 10, dtype=torch.bool)
    feedback[:, 0] = True  # before the first step there is nothing to feed
    model(ids, frames, mask, frame_mask, feedback=feedback)
    assert calls == [0]
    feedback[2, 5] = True
    model(ids, frames, mask, frame_mask, feedback=feedback)
    assert calls == [0]
    for wrong in (feedback[:, :9], feedback.float()):
        with pytest.raises(ShapeError, match=r"feedback must be \(B, N\) bool, for N = ⌈T / r⌉ steps of r=1 frames"):
            model(ids, frames, mask, frame_mask, feedback=wrong)


def test_windows_of_peers_go_into_any_decoder():
    window = a.InEvaluation(argmax_window("rayhane_monotonic"))
    model = made(attention=partial(LOCATION, window=window))
    memory = model.decoder.prepare(model.encode(torch.ones(1, 20, dtype=torch.long)))
    (one,) = free_run(model.decoder, memory, model.decoder.first_inputs(memory), max_length=2, alignment=True)
    assert not one.alignments["attention"][0, 0, 7:].any()


def test_a_head_that_reads_no_context_says_the_same_whatever_it_is():
    head = FrameHead(3, 0, 2, stop=StopHead(3, 0, 1))
    output = torch.randn(2, 3)
    frames, stops = head(output, torch.randn(2, 5), 1)
    other, stops_of_other = head(output, torch.randn(2, 5), 1)
    assert torch.equal(frames, other)
    assert torch.equal(stops["stop"], stops_of_other["stop"])
    with pytest.raises(ConfigError, match="num_frames=0"):
        FrameHead(3, 0, 2, 0)
    with pytest.raises(ConfigError, match="activation='gelu'"):
        FrameHead(3, 0, 2, activation="gelu")


def linear(module, x):
    return x @ module.weight.T + (0 if module.bias is None else module.bias)


def attended(energies, memory):
    weights = energies.softmax(-1)
    return weights, weights @ memory


@torch.no_grad()
def test_keithitos_decoder_is_its_equations():
    decoder = imitation("keithito").decoder
    memory_size = decoder.attention.context_size
    source = torch.randn(5, memory_size, dtype=torch.float64)
    memory = decoder.prepare(Encoded(source[None]))
    inputs = torch.randn(4, 20, dtype=torch.float64)
    score, (query_cell,), (first, second) = (
        decoder.attention.score,
        decoder.query_cells.cells,
        decoder.output_cells.cells,
    )

    def gru(stack, x, h):
        layer, size = stack.layers[0], len(h)
        w, u, b = layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_l0
        gates = [slice(k * size, (k + 1) * size) for k in range(3)]
        reset, update = (torch.sigmoid(w[g] @ x + u[g] @ h + b[g]) for g in gates[:2])
        return (1 - update) * torch.tanh(w[gates[2]] @ x + u[gates[2]] @ (reset * h) + b[gates[2]]) + update * h

    s, h1, h2 = (torch.zeros(7, dtype=torch.float64) for _ in range(3))
    context = torch.zeros(memory_size, dtype=torch.float64)
    output = decoder(inputs[None], memory, alignment=True)
    for t, x in enumerate(inputs):
        p = x[-4:]
        for layer in decoder.prenet.layers:
            p = torch.relu(linear(layer, p))
        s = gru(query_cell, torch.cat([p, context]), s)
        energies = torch.tanh(linear(score.query_projection, s) + linear(score.key_projection, source)) @ score.v[0]
        weights, context = attended(energies, source)
        y = linear(decoder.output_cells.projection, torch.cat([s, context]))
        h1 = gru(first, y, h1)
        y = y + h1
        h2 = gru(second, y, h2)
        y = y + h2
        same(output.values[0, t], linear(decoder.head.projection, y))
        same(output.alignments["attention"][0, 0, t], weights)


@torch.no_grad()
def test_rayhanes_decoder_is_its_equations():
    decoder = imitation("rayhane").decoder
    decoder.prenet.dropout.p = 0.0
    memory_size = decoder.attention.context_size
    source = torch.randn(5, memory_size, dtype=torch.float64)
    memory = decoder.prepare(Encoded(source[None]))
    inputs = torch.randn(4, 4, dtype=torch.float64)
    score = decoder.attention.score
    states = [[torch.zeros(7, dtype=torch.float64) for _ in range(2)] for _ in range(2)]
    context, total = torch.zeros(memory_size, dtype=torch.float64), torch.zeros(5, dtype=torch.float64)
    output = decoder(inputs[None], memory, alignment=True)
    for t, x in enumerate(inputs):
        for layer in decoder.prenet.layers:
            x = torch.relu(linear(layer, x))
        x = torch.cat([x, context])
        for number, stack in enumerate(decoder.query_cells.cells):
            layer, (h, c) = stack.layers[0], states[number]
            gates = layer.weight_ih_l0 @ x + layer.bias_ih_l0 + layer.weight_hh_l0 @ h + layer.bias_hh_l0
            i, f, g, o = gates.chunk(4)
            new = f.sigmoid() * c + i.sigmoid() * g.tanh()
            x = o.sigmoid() * new.tanh()  # what is handed on, without zoneout
            states[number] = [0.9 * x + 0.1 * h, 0.9 * new + 0.1 * c]
        located = nn.functional.conv1d(total[None, None], score.filters.weight, padding=1)[0].T
        hidden = linear(score.content.query_projection, x) + linear(score.content.key_projection, source)
        energies = torch.tanh(hidden + located @ score.location_projection[0]) @ score.content.v[0]
        weights, context = attended(energies, source)
        total = total + weights
        said_here = torch.cat([x, context])
        same(output.values[0, t], linear(decoder.head.projection, said_here))
        same(output.auxiliary["stop"][0, t], linear(decoder.head.stop.projection, said_here))
        same(output.alignments["attention"][0, 0, t], weights)
