from __future__ import annotations

import copy

import pytest
import torch

from regard import tree
from regard.layers import RecurrentStack, TokenEmbedding, TokenHead
from regard.testing.laws.conduct import require_unchanged, snapshot
from regard.testing.mechanism import move_weights
from support import oracles
from support.cases import ENCODERS, LAYERS

STACKS = [
    {"cell": "lstm"},
    {"cell": "gru", "num_layers": 2},
    {"cell": "rnn", "num_layers": 3, "residual": True},
    {"cell": "lstm", "num_layers": 2, "bidirectional": True},
    {"cell": "gru", "num_layers": 2, "bidirectional": True, "residual": True},
]


def moved(module):
    module = module.double().eval()
    move_weights(module)
    return module


@pytest.mark.parametrize("case", LAYERS, ids=lambda case: case.name)
def test_rows_of_a_layer_are_independent(case):
    layer, inputs = moved(case.make()), case.inputs()
    together = case.call(layer, *inputs)
    for row in range(len(together)):
        alone = case.call(layer, *(x[row : row + 1] for x in inputs))
        torch.testing.assert_close(alone[0], together[row], rtol=0, atol=1e-12)


@pytest.mark.parametrize("case", LAYERS, ids=lambda case: case.name)
def test_gradients_of_a_layer_are_those_of_finite_differences(case):
    layer, inputs = moved(case.make()), case.inputs()
    floats = [x.requires_grad_() for x in inputs if x.is_floating_point()]
    tensors = (*floats, *layer.parameters())
    if not any(x.requires_grad and case.call(layer, *inputs).requires_grad for x in tensors):
        return
    assert torch.autograd.gradcheck(lambda *_: case.call(layer, *inputs), tensors, fast_mode=True)


@pytest.mark.parametrize("case", LAYERS, ids=lambda case: case.name)
def test_a_layer_keeps_nothing_and_saves_all_that_matters(case):
    layer, inputs = moved(case.make()), case.inputs()
    before = snapshot(layer)
    expected = case.call(layer, *inputs)
    require_unchanged(layer, before)
    other = copy.deepcopy(layer)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.add_(1.0)
    other.load_state_dict(layer.state_dict())
    assert torch.equal(case.call(other, *inputs), expected)


@pytest.mark.parametrize("options", STACKS, ids=str)
def test_a_recurrent_stack_is_its_equations_on_every_row_of_a_padded_unsorted_batch(options):
    stack = moved(RecurrentStack(3, 4 if not options.get("residual") else 3, **options))
    inputs = torch.randn(3, 6, 3, dtype=torch.float64)
    lengths = torch.tensor([2, 6, 5])
    mask = torch.arange(6) < lengths[:, None]
    outputs, final = stack(inputs.masked_fill(~mask[..., None], float("nan")).nan_to_num(nan=1e3), mask=mask)
    assert not outputs[~mask].any()
    for row, length in enumerate(lengths):
        expected = torch.tensor(oracles.run_recurrent_stack(stack, inputs[row, :length].tolist()), dtype=torch.float64)
        torch.testing.assert_close(outputs[row, :length], expected, rtol=0, atol=1e-11)
        size, h = stack.size, final[-1][0][row]
        top = expected[-1, :size] if not options.get("residual") else None
        if top is not None:
            torch.testing.assert_close(h[:size], top, rtol=0, atol=1e-11)
            if stack.bidirectional:
                torch.testing.assert_close(h[size:], expected[0, size:], rtol=0, atol=1e-11)


@pytest.mark.parametrize("options", [o for o in STACKS if not o.get("bidirectional")], ids=str)
def test_a_recurrent_stack_runs_a_sequence_as_it_steps_through_it(options):
    stack = moved(RecurrentStack(3, 3, **options))
    inputs = torch.randn(2, 5, 3, dtype=torch.float64)
    first = tree.map(lambda leaf: torch.randn_like(leaf), stack.zero_state(2, inputs))
    outputs, final = stack(inputs, first)
    state, steps = first, []
    for x in inputs.unbind(1):
        step, state = stack.step(x, state)
        steps.append(step)
    torch.testing.assert_close(torch.stack(steps, 1), outputs, rtol=0, atol=1e-12)
    for ours, theirs in zip(tree.leaves(state), tree.leaves(final), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_a_row_without_positions_keeps_its_first_state_and_gives_zeros():
    stack = moved(RecurrentStack(3, 4))
    mask = torch.tensor([[True, True], [False, False]])
    first = tree.map(torch.ones_like, stack.zero_state(2, torch.zeros(1).double()))
    outputs, final = stack(torch.randn(2, 2, 3, dtype=torch.float64), first, mask)
    assert not outputs[1].any()
    assert all((leaf[1] == 1).all() for leaf in tree.leaves(final))
    assert not any((leaf[0] == 1).any() for leaf in tree.leaves(final))


@pytest.mark.parametrize(("batch", "width"), [(0, 3), (2, 0), (0, 0)])
def test_a_recurrent_stack_over_nothing_gives_nothing(batch, width):
    stack = RecurrentStack(3, 4, 2, bidirectional=True)
    outputs, final = stack(torch.zeros(batch, width, 3))
    assert outputs.shape == (batch, width, 8)
    assert all(leaf.shape == (batch, 8) for leaf in tree.leaves(final))


@pytest.mark.parametrize("case", ENCODERS, ids=lambda case: case.name)
def test_an_encoded_sentence_knows_neither_batch_nor_padding(case):
    encoder = moved(case.make())
    ids, lengths = torch.randint(1, 7, (3, 5)), (3, 5, 1)
    mask = torch.arange(5) < torch.tensor(lengths)[:, None]
    together = encoder.encode(ids, mask)
    padded = encoder.encode(torch.cat([ids, ids], 1), torch.cat([mask, torch.zeros_like(mask)], 1))
    assert not together.memory[~mask].any()
    assert padded.memory.shape[1] == 10
    for row, length in enumerate(lengths):
        alone = encoder.encode(ids[row : row + 1, :length])
        for batch in (together, padded):
            torch.testing.assert_close(batch.memory[row, :length], alone.memory[0], rtol=0, atol=1e-12)
            for ours, theirs in zip(tree.leaves(batch.final_state), tree.leaves(alone.final_state), strict=True):
                torch.testing.assert_close(ours[row], theirs[0], rtol=0, atol=1e-12)


def test_padding_has_no_vector_and_extended_ids_are_unknown():
    embedding = TokenEmbedding(5, 4)
    vectors = embedding(torch.tensor([0, 3, 5, 99]))
    assert not vectors[0].any()
    assert torch.equal(vectors[1], vectors[2])
    assert torch.equal(vectors[1], vectors[3])
    vectors.sum().backward()
    assert embedding.table.weight.grad.sum(1).tolist() == [0, 0, 0, 12, 0]


def test_a_tied_head_shares_the_matrix_of_the_embedding():
    embedding = TokenEmbedding(7, 3)
    head = TokenHead(4, 7, tied=embedding)
    assert head.projection.weight is embedding.table.weight
    torch.testing.assert_close(head(torch.randn(2, 4)).exp().sum(-1), torch.ones(2))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_head_gives_log_probabilities_in_float32(dtype):
    assert TokenHead(4, 7).to(dtype)(torch.randn(2, 4, dtype=dtype)).dtype == torch.float32
