"""Cross-attention of a Transformer decoder that coverage refines: against plain loops, and the laws of decoders."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from regard import plain, tree
from regard.attention import Correction, Mechanism, Parallel, Refined, bahdanau, location_sensitive, multi_head
from regard.attention.refined import sums_before, sums_in_torch
from regard.config.search import Search
from regard.decoding import search
from regard.errors import ShapeError, UnsupportedError
from regard.layers import TokenEmbedding, TokenHead
from regard.models import Encoded, RefinementOptions
from regard.models.transformer import TransformerDecoder
from regard.record import record_attention
from regard.testing import check_decoder
from regard.testing.source import EncodedSource, encode
from support.tiny import MEMORY_SIZE, NUM_TOKENS, transformer

SIZES = {"query_size": 4, "memory_size": 6, "size": 4, "num_heads": 2}
WIDTH, N, D = 2, 9, 8


def refined(seed=0, **options):
    torch.manual_seed(seed)
    attention = Refined(multi_head(**SIZES), **{"size": 3, "kernel_size": 3, "previous_heads": 2, **options}).double()
    for weight in attention.parameters():  # so large that corrections decide where it attends
        weight.data.mul_(2)
    return attention


def images(heights=(3, 2)):
    """Sources that are images of two columns."""
    draw = torch.Generator().manual_seed(3)
    return tuple(
        EncodedSource(torch.randn(height * WIDTH, MEMORY_SIZE, generator=draw, dtype=torch.float64))
        for height in heights
    )


def encode_images(sources, padding):
    """Images as the cells of a grid, padded at the bottom by at least so many cells."""
    height = max(len(source.values) for source in sources) // WIDTH + -(-padding // WIDTH)
    encoded = encode(sources, 0)
    more = height * WIDTH - encoded.memory.shape[1]
    memory = torch.nn.functional.pad(encoded.memory, (0, 0, 0, more))
    return Encoded(memory, torch.nn.functional.pad(encoded.mask, (0, more)), grid=(height, WIDTH))


def two_dimensional(**options):
    return transformer(num_layers=3, refinement=RefinementOptions(size=3, kernel_size=3, **options))


def softmax(energies):
    most = max(energies)
    exponentials = [math.exp(e - most) for e in energies]
    return [e / sum(exponentials) for e in exponentials]


def corrections(module, coverage, height, width):
    """R of one step by loops: coverage [C][S], result [H][S]."""
    filters, bias = module.convolution.weight.tolist(), module.convolution.bias.tolist()
    projection = module.projection.weight[..., 0].tolist()
    reach = module.convolution.kernel_size[0] // 2
    result = [[0.0] * (height * width) for _ in projection]
    for y in range(height):
        for x in range(width):
            hidden = []
            for kernel, offset in zip(filters, bias, strict=True):
                total = offset
                for channel, grid in enumerate(kernel):
                    for i, row in enumerate(grid):
                        for j, weight in enumerate(row):
                            v, u = y + i - reach, x + j - reach
                            if 0 <= v < height and 0 <= u < width:
                                total += weight * coverage[channel][v * width + u]
                hidden.append(max(total, 0.0))
            for head, weights in enumerate(projection):
                result[head][y * width + x] = sum(w * h for w, h in zip(weights, hidden, strict=True))
    return result


@pytest.mark.parametrize("options", [{}, {"own": False}, {"previous_heads": 0}], ids=["both", "cross", "self"])
def test_the_weights_are_the_equations_of_the_paper_in_plain_loops(options):
    attention = refined(**options)
    height, width, steps = 2, 3, 4
    values, queries = torch.randn(1, 6, 6).double(), torch.randn(1, steps, 4).double()
    previous = torch.randn(1, 2, steps, 6).double().softmax(3)
    memory = attention.prepare(values, grid=(height, width))
    given = previous if attention.previous_heads else None
    attended, _ = attention(queries, memory, previous=given, alignment=True)
    score = attention.attention.score
    q = (score.query_projection(queries)[0] * score.scale).unflatten(1, (2, -1))
    energies = torch.einsum("thd,shd->ths", q, memory.attention.score[0]).tolist()
    channels = (2 if attention.previous_heads else 0) + (2 if attention.own else 0)
    coverage = [[0.0] * 6 for _ in range(channels)]
    for t in range(steps):
        correction = corrections(attention.correction, coverage, height, width)
        for head in range(2):
            expected = softmax([e - r for e, r in zip(energies[t][head], correction[head], strict=True)])
            assert attended.alignment[0, head, t].tolist() == pytest.approx(expected, abs=1e-12)
        maps = previous[0, :, t].tolist() if attention.previous_heads else []
        maps += [softmax(energies[t][head]) for head in range(2)] if attention.own else []
        coverage = [[a + b for a, b in zip(*pair, strict=True)] for pair in zip(coverage, maps, strict=True)]
    assert correction != [[0.0] * 6] * 2


@pytest.mark.parametrize("norm", ["none", "batch"])
def test_images_keep_the_laws_of_decoders(norm):
    decoder = two_dimensional(norm=norm).eval()
    check_decoder(decoder, sources=images(), num_tokens=NUM_TOKENS, encode=encode_images)


def test_the_shape_of_the_grid_changes_what_a_step_attends_to():
    attention = refined()
    values, queries = torch.randn(1, 6, 6).double(), torch.randn(1, 4, 4).double()
    previous = torch.randn(1, 2, 4, 6).double().softmax(3)
    wide, high = (
        attention(queries, attention.prepare(values, grid=grid), previous=previous, alignment=True)[0].alignment
        for grid in ((2, 3), (3, 2))
    )
    torch.testing.assert_close(wide[:, :, 0], high[:, :, 0])  # nothing is covered before the first step
    assert (wide[:, :, 1:] - high[:, :, 1:]).abs().max() > 1e-3


def test_no_step_depends_on_later_ones():
    decoder = two_dimensional()
    memory = decoder.prepare(encode_images(images(), 0))
    inputs = torch.randint(NUM_TOKENS, (2, 6))
    changed = inputs.clone()
    changed[:, 4:] = (changed[:, 4:] + 1) % NUM_TOKENS
    first, second = (decoder(x, memory).log_probabilities for x in (inputs, changed))
    torch.testing.assert_close(first[:, :4], second[:, :4], rtol=0, atol=1e-14)
    assert (first[:, 4:] - second[:, 4:]).abs().max() > 1e-3


def test_a_continued_pass_is_the_whole_pass():
    attention = refined()
    memory = attention.prepare(torch.randn(2, 6, 6).double(), grid=(2, 3))
    queries, previous = torch.randn(2, 5, 4).double(), torch.randn(2, 2, 5, 6).double().softmax(3)
    whole, end = attention(queries, memory, previous=previous, alignment=True)
    _, state = attention(queries[:, :2], memory, previous=previous[:, :, :2])
    rest, after = attention(queries[:, 2:], memory, state, previous=previous[:, :, 2:], alignment=True)
    torch.testing.assert_close(rest.alignment, whole.alignment[:, :, 2:])
    torch.testing.assert_close(after.coverage, end.coverage)
    assert after.attention.position.tolist() == [5, 5]


def test_hypotheses_take_their_coverage_with_them():
    decoder = two_dimensional().eval()
    memory = decoder.prepare(encode_images(images(), 0))
    hypotheses = search(decoder, memory, Search(beam=3, num_best=3), bos=0, eos=1, max_length=6, alignment=True)
    for b, ranked in enumerate(hypotheses):
        one = decoder.prepare(encode_images(images()[b : b + 1], 0))
        for hypothesis in ranked:
            inputs = torch.cat([torch.zeros(1, dtype=torch.long), hypothesis.tokens[:-1]])[None]
            forced = decoder(inputs, one, alignment=True)
            for name, weights in forced.alignments.items():
                ours = hypothesis.alignments[name][..., : one[0].num_positions]
                torch.testing.assert_close(ours.double(), weights[0], rtol=0, atol=1e-6)
            said = forced.log_probabilities[0].gather(1, hypothesis.tokens[:, None]).sum()
            assert hypothesis.log_probability == pytest.approx(said.item(), abs=1e-6)


@pytest.mark.parametrize("selects", [True, False])
def test_padding_of_targets_neither_gets_corrections_nor_is_counted_by_a_batch_norm(selects, monkeypatch):
    if not selects:  # as for a GPU
        monkeypatch.setattr("torch.compiler.is_compiling", lambda: True)
    decoder = two_dimensional(norm="batch")
    sources = images()
    inputs, targets = torch.randint(NUM_TOKENS, (2, 5)), torch.randint(NUM_TOKENS, (2, 5))
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    results = []
    for columns in (0, 4):
        more = torch.zeros(2, columns, dtype=torch.long)
        twin = two_dimensional(norm="batch")
        twin.load_state_dict(decoder.state_dict())
        loss, _ = twin.cross_entropy(
            torch.cat([inputs, more], 1),
            twin.prepare(encode_images(sources, columns)),
            torch.cat([targets, more], 1),
            torch.cat([mask, more.bool()], 1),
        )
        loss.backward()
        norm = twin.layers[1].cross_attention.correction.norm
        results.append([loss, norm.running_mean, norm.running_var, *(weight.grad for weight in twin.parameters())])
    for first, second in zip(*results, strict=True):
        torch.testing.assert_close(first, second, rtol=0, atol=1e-12)
    assert norm.running_mean.abs().max() > 0


def test_gradients_of_all_weights_are_those_of_finite_differences():
    attention = refined()
    memory = attention.prepare(torch.randn(1, 6, 6).double(), grid=(2, 3))
    queries, previous = torch.randn(1, 3, 4).double(), torch.randn(1, 2, 3, 6).double().softmax(3)
    names = [name for name, weight in attention.named_parameters() if "key" not in name and "value" not in name]

    def contexts(*weights):
        given = dict(zip(names, weights, strict=True))
        return torch.func.functional_call(attention, given, (queries, memory), {"previous": previous})[0].context

    weights = tuple(attention.get_parameter(name).detach().requires_grad_() for name in names)
    assert torch.autograd.gradcheck(contexts, weights)


def test_a_recorder_gets_the_refined_weights_of_every_layer():
    decoder = two_dimensional().eval()
    memory = decoder.prepare(encode_images(images(), 0))
    inputs = torch.randint(NUM_TOKENS, (2, 4))
    with record_attention(decoder) as recorded:
        decoder(inputs, memory)
    shown = decoder(inputs, memory, alignment=True).alignments
    for index in range(3):
        name = f"layers.{index}.cross_attention" + (".attention" if index else "")
        torch.testing.assert_close(recorded[name].double(), shown[f"cross.{index}"], rtol=0, atol=1e-6)


def test_the_grid_is_a_leaf_without_elements():
    memory = refined().prepare(torch.randn(2, 6, 6).double(), grid=(2, 3))
    assert memory.grid.numel() == 0
    taken = tree.to(tree.reorder(memory, torch.tensor([1, 1, 0])), torch.float32)
    assert taken.grid.shape == (3, 0, 2, 3)
    assert tree.rows(taken) == 3


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: Refined(location_sensitive(query_size=4, memory_size=6), previous_heads=1), "it is recurrent"),
        (lambda: Refined(Parallel([bahdanau(query_size=4, memory_size=6)])), "Only a Mechanism"),
        (lambda: Refined(multi_head(**SIZES), own=False), "self-coverage"),
        (lambda: Refined(multi_head(**SIZES, alignment="sigmoid")), "do not decide its weights"),
        (lambda: Correction(2, 2, kernel_size=4), "must be odd"),
        (lambda: Correction(2, 2, norm="layer"), "must be one of batch, none"),
        (lambda: Correction(2, 2, dimensions=3), "dimensions=3"),
        (lambda: transformer(num_layers=1, refinement=RefinementOptions()), "needs at least two"),
        (lambda: refined().extend(None, None), "cannot grow"),
    ],
)
def test_what_cannot_be_refined_is_refused_with_the_reason(call, text):
    with pytest.raises(UnsupportedError, match=text):
        call()


def test_grids_and_weights_that_do_not_fit_are_errors_with_the_sizes():
    attention, values, queries = refined(), torch.randn(1, 6, 6).double(), torch.randn(1, 3, 4).double()
    with pytest.raises(ShapeError, match=r"Encoded\(grid=\(h, w\)\)"):
        attention.prepare(values)
    with pytest.raises(ShapeError, match="h=2 by w=4 cells needs S=8"):
        attention.prepare(values, grid=(2, 4))
    memory = attention.prepare(values, grid=(2, 3))
    with pytest.raises(ShapeError, match=r"\(1, 2, 3, 6\)"):
        attention(queries, memory)
    with pytest.raises(ShapeError, match="C=4 channels"):
        attention.correction(torch.zeros(1, 3, 6).double(), (2, 3))


def test_a_layer_that_reads_weights_of_no_layer_is_refused():
    layers = list(two_dimensional().layers)
    embedding, head = TokenEmbedding(NUM_TOKENS, 4), TokenHead(4, NUM_TOKENS)
    with pytest.raises(UnsupportedError, match="layer 0 reads the weights of 2 heads, but it is the first layer"):
        TransformerDecoder(embedding, layers[1:], head)


def test_searches_take_the_steps_of_refined_layers():
    decoder = two_dimensional()
    memory = decoder.prepare(encode_images(images(), 0))
    with torch.inference_mode():
        assert decoder.for_search(memory, 4)[0] is decoder
        assert "layers.1.cross_attention is Refined" in decoder.unsupported_in_search(memory)


def test_without_refinement_initial_weights_are_what_they_were():
    plain, corrected = transformer(num_layers=2), two_dimensional()
    assert type(plain.layers[1].cross_attention) is Mechanism
    first = plain.layers[0].state_dict()
    assert all(torch.equal(weight, corrected.layers[0].state_dict()[name]) for name, weight in first.items())


def test_alignments_are_those_asked_for_only():
    decoder = two_dimensional()
    memory = decoder.prepare(encode_images(images(), 0))
    inputs = torch.randint(NUM_TOKENS, (2, 4))
    assert list(decoder(inputs, memory, alignment="cross.1").alignments) == ["cross.1"]
    assert decoder(inputs, memory).alignments == {}
    output, _ = decoder.step(inputs[:, 0], memory, decoder.initial_state(memory), alignment="cross.2")
    assert list(output.alignments) == ["cross.2"]


def test_a_hook_on_the_filters_sees_what_they_give():
    correction = Correction(2, 2, size=3, kernel_size=3, dimensions=1).double()
    kept = []
    correction.convolution.register_forward_hook(lambda module, inputs, output: kept.append(output))
    coverage = torch.randn(2, 2, 6).double()
    correction(coverage)
    convolution = correction.convolution
    given = torch.nn.functional.conv1d(coverage, convolution.weight, convolution.bias, padding=1)
    assert (given < 0).any()
    torch.testing.assert_close(kept[0], given, rtol=0, atol=1e-12)


def test_an_image_of_no_cells_reads_zeros():
    attention = refined()
    memory = attention.prepare(torch.randn(2, 0, 6).double(), grid=(2, 0))
    previous = torch.zeros(2, 2, 3, 0).double()
    attended, _ = attention(torch.randn(2, 3, 4).double(), memory, previous=previous, alignment=True)
    assert attended.context.shape == (2, 3, 4)
    assert not attended.context.any()


def test_a_row_without_any_position_gets_zeros_and_changes_nothing():
    attention = refined()
    mask = torch.ones(2, 6, dtype=torch.bool)
    mask[1] = False
    memory = attention.prepare(torch.randn(2, 6, 6).double(), mask=mask, grid=(2, 3))
    queries, previous = torch.randn(2, 3, 4).double(), torch.zeros(2, 2, 3, 6).double()
    attended, state = attention(queries, memory, previous=previous, alignment=True)
    assert not attended.context[1].any()
    assert not replace(state).coverage[1].any()
    assert torch.isfinite(attended.context).all()


@pytest.mark.parametrize("steps", [1, 4])
def test_running_sums_are_those_of_a_loop_and_can_be_differentiated_twice(steps):
    draw = torch.Generator().manual_seed(1)
    first, *maps = (
        torch.randn(*shape, generator=draw, dtype=torch.float64, requires_grad=True)
        for shape in ((2, 3, 5), (2, steps, 2, 5), (2, steps, 1, 5))
    )
    before, after = sums_before(first, *maps)
    total = first
    for t in range(steps):
        torch.testing.assert_close(before[:, t], total)
        total = total + torch.cat([x[:, t] for x in maps], 1)
    torch.testing.assert_close(after, total)
    for ours, theirs in zip(sums_before(first, *maps), sums_in_torch(first, *maps), strict=True):
        torch.testing.assert_close(ours, theirs)
    assert torch.autograd.gradcheck(sums_before, (first, *maps))
    assert torch.autograd.gradgradcheck(lambda *x: [y.sin() for y in sums_before(*x)], (first, *maps))


def test_a_step_and_a_pass_without_fast_paths_are_the_same():
    attention = refined()
    memory = attention.prepare(torch.randn(2, 6, 6).double(), grid=(2, 3))
    queries, previous = torch.randn(2, 5, 4).double(), torch.randn(2, 2, 5, 6).double().softmax(3)
    fast, _ = attention(queries, memory, previous=previous)
    with plain():
        slow, _ = attention(queries, memory, previous=previous)
    torch.testing.assert_close(fast.context, slow.context)
