"""Mechanisms over the cells of an image."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard import attention as a
from regard import tree
from regard.errors import ShapeError
from regard.layers import RecurrentStack, TokenEmbedding, TokenHead
from regard.models import Bridge, EnsembleDecoder, PointerDecoder, RecurrentDecoder, transformer_decoder
from regard.models.contract import Encoded
from regard.testing.mechanism import move_weights
from support.oracles.attend import attend

SIZES = {"query_size": 5, "memory_size": 6}
OPTIONS = {"size": 4, "num_filters": 3, "kernel_size": 3}
STEPS = 4


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def made(**options):
    torch.manual_seed(0)
    mechanism = a.plane_coverage(**SIZES, **{**OPTIONS, **options}).double().eval()
    move_weights(mechanism)
    return mechanism


def padded(images, height, width):
    """Images (h, w, M) as the cells of a grid (height, width), and which of them are real."""
    values = torch.full((len(images), height, width, images[0].shape[2]), 7.0, dtype=torch.float64)
    mask = torch.zeros(len(images), height, width, dtype=torch.bool)
    for row, image in enumerate(images):
        values[row, : image.shape[0], : image.shape[1]] = image
        mask[row, : image.shape[0], : image.shape[1]] = True
    return values.flatten(1, 2), mask.flatten(1)


@pytest.mark.parametrize(
    "options", [{}, {"num_heads": 2, "kernel_size": (5, 1)}, {"kernel_size": (1, 7), "gate": "scalar"}]
)
def test_coverage_of_a_plane_is_that_of_loops_over_its_cells(options):
    mechanism = made(**options)
    values, queries = drawn(2, 12, 6), drawn(2, STEPS, 5, seed=1)
    with torch.no_grad():
        attended, _ = mechanism(queries, mechanism.prepare(values, grid=(3, 4)), alignment=True)
    for row in range(2):
        contexts, weights = attend(mechanism, values[row].tolist(), queries[row].tolist(), grid=(3, 4))
        torch.testing.assert_close(attended.context[row].tolist(), contexts, rtol=0, atol=1e-11)
        expected = torch.tensor(weights, dtype=torch.float64).transpose(0, 1)
        torch.testing.assert_close(attended.alignment[row], expected, rtol=0, atol=1e-11)


def test_an_image_alone_and_in_a_batch_of_larger_ones_is_attended_to_alike():
    mechanism = made()
    images = [drawn(2, 3, 6, seed=1), drawn(4, 2, 6, seed=2), drawn(3, 5, 6, seed=3)]
    queries = drawn(3, STEPS, 5, seed=4)
    values, mask = padded(images, 5, 6)
    together, _ = mechanism(queries, mechanism.prepare(values, mask=mask, grid=(5, 6)), alignment=True)
    assert (together.alignment[~mask[:, None, None].expand_as(together.alignment)] == 0).all()
    for row, image in enumerate(images):
        height, width = image.shape[:2]
        memory = mechanism.prepare(image.flatten(0, 1)[None], grid=(height, width))
        alone, _ = mechanism(queries[row : row + 1], memory, alignment=True)
        torch.testing.assert_close(together.context[row], alone.context[0], rtol=0, atol=1e-12)
        cells = together.alignment[row].unflatten(-1, (5, 6))[..., :height, :width]
        torch.testing.assert_close(cells.flatten(-2), alone.alignment[0], rtol=0, atol=1e-12)


def test_gradients_do_not_depend_on_padding():
    mechanism = made()
    image, queries = drawn(2, 3, 6, seed=1), drawn(1, STEPS, 5, seed=4)

    def gradients(height, width):
        mechanism.zero_grad()
        values, mask = padded([image], height, width)
        values.requires_grad_()
        mechanism(queries, mechanism.prepare(values, mask=mask, grid=(height, width)))[
            0
        ].context.square().sum().backward()
        cells = values.grad.unflatten(1, (height, width))
        assert cells[:, 2:].abs().sum() == cells[:, :, 3:].abs().sum() == 0
        return [cells[:, :2, :3], *(parameter.grad.clone() for parameter in mechanism.parameters())]

    for ours, theirs in zip(gradients(4, 5), gradients(2, 3), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_without_a_grid_the_positions_are_one_row_and_a_filter_of_one_cell_is_coverage():
    mechanism, line = made(), a.location_sensitive(**SIZES, **OPTIONS).double()
    values, queries = drawn(2, 7, 6), drawn(2, STEPS, 5, seed=1)
    row = mechanism(queries, mechanism.prepare(values))[0].context
    torch.testing.assert_close(
        row, mechanism(queries, mechanism.prepare(values, grid=(1, 7)))[0].context, rtol=0, atol=0
    )
    weights = mechanism.state_dict()
    weights["score.filters.weight"] = weights["score.filters.weight"][:, :, 1]  # the others meet no cells
    line.load_state_dict(weights)
    torch.testing.assert_close(row, line(queries, line.prepare(values))[0].context, rtol=0, atol=1e-12)


def test_the_order_of_cells_is_row_by_row():
    """A look at one cell raises the energies of that cell's neighbours below and beside it, and of no others."""
    mechanism = made(size=1, num_filters=1)
    with torch.no_grad():
        for parameter in mechanism.parameters():
            parameter.zero_()
        mechanism.score.filters.weight.copy_(torch.tensor([[0.0, 1, 0], [1, 0, 0], [0, 0, 0]])[None, None])
        mechanism.score.location_projection.fill_(1)
        mechanism.score.content.v.fill_(1)
    memory = mechanism.prepare(drawn(1, 12, 6), grid=(3, 4))
    state = mechanism.initial_state(memory)
    covered = torch.zeros(1, 1, 12, dtype=torch.float64)
    covered[0, 0, 5] = 1  # y = 1, x = 1
    inputs = a.StepInputs(drawn(1, 5), memory, state.position)
    energies, _ = mechanism.score(inputs, covered)
    assert (energies[0, 0] > 0).nonzero().flatten().tolist() == [6, 9]


@pytest.mark.parametrize("grid", [(3, 3), (12, 0), (-3, -4)])
def test_a_grid_of_another_number_of_cells_is_an_error(grid):
    with pytest.raises(ShapeError, match=rf"h={grid[0]} by w={grid[1]} cells"):
        made().prepare(drawn(2, 12, 6), grid=grid)


@pytest.mark.parametrize("kernel_size", [2, (3, 4), 0])
def test_a_kernel_without_a_middle_is_an_error(kernel_size):
    with pytest.raises(ValueError, match="odd number"):
        made(kernel_size=kernel_size)


def test_the_memory_of_a_grid_is_a_tree_of_tensors_that_costs_nothing():
    memory = made().prepare(drawn(2, 12, 6), grid=(3, 4))
    assert all(isinstance(state, torch.Tensor) and state.shape[:2] == (2, 12) for state in tree.leaves(memory))
    assert tree.map(lambda leaf: leaf[:1], memory).score.grid == (3, 4)
    assert memory.score.rows.numel() == 0


class Gridded(nn.Module):
    """Notes the grid that a part is prepared with."""

    def __init__(self, mechanism):
        super().__init__()
        self.seen = []
        prepare = mechanism.score.prepare

        def noted(source):
            self.seen.append(source.grid)
            return prepare(source)

        mechanism.score.prepare = noted


def recurrent(attention, memory_size=6, **options):
    stack = RecurrentStack(
        RecurrentDecoder.input_size(4, 5, attention=attention, order="attend_then_recur"), 5, cell="gru"
    )
    parts = TokenEmbedding(7, 4), stack, TokenHead(5, 7), Bridge(memory_size, stack)
    return RecurrentDecoder(*parts, attention=attention, order="attend_then_recur", **options).double()


def test_the_grid_of_an_encoded_image_reaches_the_parts():
    encoded = Encoded(drawn(2, 12, 6), None, None, torch.zeros(2, 12, dtype=torch.long), grid=(3, 4))
    mechanism = made()
    noted = Gridded(mechanism)
    for decoder in (
        recurrent(mechanism),
        recurrent(a.Projected(mechanism, 6)),
        EnsembleDecoder([recurrent(mechanism), recurrent(a.bahdanau(**SIZES))]),
        PointerDecoder(recurrent(mechanism)),
    ):
        decoder.prepare(encoded)
        assert noted.seen.pop() == (3, 4)
        assert not noted.seen


def test_every_source_of_several_has_its_own_grid():
    mechanisms = [made(), made()]
    noted = [Gridded(mechanism) for mechanism in mechanisms]
    decoder = recurrent(a.Parallel(mechanisms))
    memory = drawn(2, 12, 6), drawn(2, 5, 6)
    decoder.prepare(Encoded(memory, (None, None), None, grid=((3, 4), None)))
    assert [each.seen for each in noted] == [[(3, 4)], [None]]


def test_layers_of_a_transformer_attend_to_images():
    torch.manual_seed(0)
    layers = (
        transformer_decoder(
            TokenEmbedding(7, 8), TokenHead(8, 7), memory_size=6, num_layers=2, num_heads=2, feed_forward_size=8
        )
        .double()
        .eval()
    )
    encoded = Encoded(drawn(2, 12, 6), None, grid=(3, 4))
    plain = layers.prepare(Encoded(encoded.memory, None))
    for ours, theirs in zip(tree.leaves(layers.prepare(encoded)), tree.leaves(plain), strict=True):
        assert torch.equal(ours, theirs)
    with pytest.raises(ShapeError, match="h=3 by w=5"):
        layers.prepare(Encoded(encoded.memory, None, grid=(3, 5)))
    layers.layers[1].cross_attention = a.Projected(a.plane_coverage(query_size=8, memory_size=6, **OPTIONS), 8).double()
    assert layers.prepare(encoded)[1].score.grid == (3, 4)
    inputs = torch.tensor([[1, 4, 5], [1, 6, 2]])
    both = layers(inputs, layers.prepare(encoded)).log_probabilities
    alone = layers(inputs[:1], layers.prepare(Encoded(encoded.memory[:1], None, grid=(3, 4)))).log_probabilities
    torch.testing.assert_close(both[:1], alone, rtol=0, atol=1e-12)
