from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from regard import plain, tree
from regard.layers import RecurrentStack
from regard.layers.cells import packed
from regard.layers.packing import Packing
from regard.ops.eligibility import numba_reason

pytestmark = pytest.mark.skipif(numba_reason(packed.KERNELS) is not None, reason="nothing is compiled here")

F, D, S = 3, 5, 6
LENGTHS = {
    "mixed": [2, 6, 0, 5, 6, 1],
    "equal": [6, 6, 6],
    "shorter than the batch": [3, 1, 3],
    "empty": [0, 0],
    "alone": [4],
}


def masked(lengths, source=S):
    return torch.arange(source) < torch.tensor(lengths)[:, None]


def made(cell, dtype=torch.float64, **options):
    stack = RecurrentStack(F, D, cell=cell, **options).to(dtype)
    for parameter in stack.parameters():
        nn.init.normal_(parameter, std=0.5)
    return stack


@pytest.fixture
def plainly(monkeypatch):
    """Calls a function with torch's own loops."""

    def call(function):
        with monkeypatch.context() as patch:
            patch.setattr(packed, "unsupported_reason", lambda *_: "a test says so")
            return function()

    return call


@pytest.fixture(autouse=True)
def counted(monkeypatch):
    """How many layers ran through compiled loops; all that may, fast or not."""
    calls = []
    run = packed.run
    monkeypatch.setattr(packed, "is_fast_in_torch", lambda *_: False)
    monkeypatch.setattr(packed, "run", lambda *inputs, **options: calls.append(1) or run(*inputs, **options))
    return calls


def answers(stack, inputs, state=None, mask=None):
    """Outputs, final states and all gradients, of a sum in which each number has its own weight."""
    torch.manual_seed(3)
    outputs, final = stack(inputs, state, mask)
    results = [outputs, *tree.leaves(final)]
    total = sum((result * torch.randn(result.shape, dtype=result.dtype)).sum() for result in results)
    leaves = [x for x in (inputs, *tree.leaves(state or ()), *stack.parameters()) if x.requires_grad]
    return [x.detach() for x in (*results, *torch.autograd.grad(total, leaves))]


def require_same(ours, theirs, tolerance):
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS.keys())
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_padded_batch_gives_what_torch_gives_for_packed_rows(cell, bidirectional, lengths, plainly, counted):
    stack, mask = made(cell, bidirectional=bidirectional), masked(lengths)
    inputs = torch.randn(len(lengths), S, F, dtype=torch.float64).masked_fill(~mask[..., None], 1e30).requires_grad_()
    ours = answers(stack, inputs, mask=mask)
    assert counted == [1]
    assert not ours[0][~mask].any()
    require_same(ours, plainly(lambda: answers(stack, inputs, mask=mask)), 1e-12)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
@pytest.mark.parametrize("batch", [1, 2, 70])
@pytest.mark.parametrize("source", [1, 4])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_batch_without_padding_goes_on_from_its_first_state(cell, source, batch, dtype, tolerance, plainly, counted):
    stack = made(cell, dtype)
    inputs = torch.randn(batch, source, F, dtype=dtype, requires_grad=True)
    state = tree.map(lambda leaf: torch.randn_like(leaf).requires_grad_(), stack.zero_state(batch, inputs))
    ours = answers(stack, inputs, state)
    assert counted == [1]
    require_same(ours, plainly(lambda: answers(stack, inputs, state)), tolerance)


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS.keys())
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_first_state_and_a_mask_go_together(cell, lengths, plainly):
    stack, mask = made(cell), masked(lengths)
    inputs = torch.randn(len(lengths), S, F, dtype=torch.float64, requires_grad=True)
    state = tree.map(lambda leaf: torch.randn_like(leaf).requires_grad_(), stack.zero_state(len(lengths), inputs))
    ours = answers(stack, inputs, state, mask)
    require_same(ours, plainly(lambda: answers(stack, inputs, state, mask)), 1e-12)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_wide_layers_whose_products_are_packed_give_what_torch_gives(cell, plainly):
    stack = RecurrentStack(128, 256, cell=cell, bidirectional=True)
    mask = masked([*range(1, 21)] * 2, 20)
    inputs = torch.randn(40, 20, 128, requires_grad=True)
    ours = answers(stack, inputs, mask=mask)
    exact = plainly(
        lambda: answers(copy.deepcopy(stack).double(), inputs.detach().double().requires_grad_(), mask=mask)
    )
    theirs = plainly(lambda: answers(stack, inputs, mask=mask))
    for one, other, right in zip(ours, theirs, exact, strict=True):
        scale = float(right.abs().max())
        error, plain = (float((x.double() - right).abs().max()) for x in (one, other))
        assert error <= max(3 * plain, 1e-5 * scale)
    with torch.no_grad():
        again = [stack(inputs, mask=mask)[0], *tree.leaves(stack(inputs, mask=mask)[1])]
    require_same(again, ours[: len(again)], 1e-5)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("options", [{"bidirectional": True}, {"residual": True}, {"dropout": 0.5}], ids=str)
def test_layers_stand_on_one_another(cell, options, plainly, counted):
    stack, mask = made(cell, num_layers=3, **options).eval(), masked([2, 6, 0, 5])
    inputs = torch.randn(4, S, F, dtype=torch.float64, requires_grad=True)
    ours = answers(stack, inputs, mask=mask)
    assert len(counted) == 3
    require_same(ours, plainly(lambda: answers(stack, inputs, mask=mask)), 1e-12)
    if options.get("dropout"):
        torch.manual_seed(0)
        dropped, _ = stack.train()(inputs, mask=mask)
        assert not torch.allclose(dropped, ours[0])
        assert not dropped[~mask].any()


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_no_gradients_are_kept_where_none_are_asked_for(cell):
    stack, mask = made(cell, bidirectional=True), masked(LENGTHS["mixed"])
    inputs = torch.randn(6, S, F, dtype=torch.float64)
    expected = [stack(inputs, mask=mask)[0], *tree.leaves(stack(inputs, mask=mask)[1])]
    assert all(x.requires_grad for x in expected)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            outputs, final = stack(inputs, mask=mask)
        assert not outputs.requires_grad
        require_same([outputs, *tree.leaves(final)], [x.detach() for x in expected], 1e-14)


@pytest.mark.parametrize("direction", ["", "_reverse"])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_steps_in_blocks_give_what_steps_at_once_give(cell, direction, monkeypatch):
    stack, mask = made(cell, bidirectional=bool(direction)), masked(LENGTHS["mixed"])
    inputs = torch.randn(6, S, F, dtype=torch.float64)
    with torch.no_grad():
        expected, _ = stack(inputs, mask=mask)
        for size in (1, 2 * 6 * 4 * D, 4 * 6 * 4 * D):
            monkeypatch.setattr(packed, "BLOCK_ELEMENTS", size)
            torch.testing.assert_close(stack(inputs, mask=mask)[0], expected, rtol=0, atol=1e-14)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("wanted", ["inputs", "state", "w_hh", "bias"])
def test_only_some_may_want_gradients(cell, wanted, plainly):
    stack, mask = made(cell).requires_grad_(False), masked([6, 2, 4])
    inputs = torch.randn(3, S, F, dtype=torch.float64, requires_grad=wanted == "inputs")
    state = tree.map(torch.randn_like, stack.zero_state(3, inputs))
    tree.map(lambda leaf: leaf.requires_grad_(wanted == "state"), state)
    stack.layers[0].weight_hh_l0.requires_grad_(wanted == "w_hh")
    stack.layers[0].bias_ih_l0.requires_grad_(wanted == "bias")
    ours = answers(stack, inputs, state, mask)
    require_same(ours, plainly(lambda: answers(stack, inputs, state, mask)), 1e-12)


@pytest.mark.parametrize("of", ["outputs", "final"])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_outputs_or_final_states_may_be_all_that_is_used(cell, of, plainly):
    stack, mask = made(cell, bidirectional=True), masked([6, 2, 4])
    inputs = torch.randn(3, S, F, dtype=torch.float64)

    def gradients():
        outputs, final = stack(inputs, mask=mask)
        used = outputs.sin().sum() if of == "outputs" else final[0][-1].sin().sum()
        return torch.autograd.grad(used, list(stack.parameters()))

    require_same(gradients(), plainly(gradients), 1e-12)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_gradients_are_those_of_finite_differences(cell):
    stack, mask = made(cell), masked([3, 1, 0], 3)
    inputs = torch.randn(3, 3, F, dtype=torch.float64, requires_grad=True)
    state = tree.map(lambda leaf: torch.randn_like(leaf).requires_grad_(), stack.zero_state(3, inputs))

    def function(inputs, *rest):
        outputs, final = stack(inputs, (rest[: stack.num_tensors],), mask)
        return outputs, *tree.leaves(final)

    assert torch.autograd.gradcheck(function, (inputs, *tree.leaves(state), *stack.parameters()), fast_mode=True)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_second_way_back_gives_the_same_gradients(cell):
    stack, mask = made(cell, bidirectional=True), masked([6, 2, 4])
    outputs, _ = stack(torch.randn(3, S, F, dtype=torch.float64), mask=mask)
    first, second, third = (
        torch.autograd.grad(outputs.sum(), list(stack.parameters()), retain_graph=True) for _ in range(3)
    )
    require_same(second, first, 0)
    require_same(third, first, 0)


@pytest.mark.parametrize("lengths", [[3, 1, 0], [0, 0], [2, 2]], ids=str)
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_second_derivatives_are_those_of_torch(cell, lengths, plainly):
    stack, mask = made(cell, bidirectional=True), masked(lengths, 3)
    inputs = torch.randn(len(lengths), 3, F, dtype=torch.float64, requires_grad=True)

    def penalty():
        outputs, final = stack(inputs, mask=mask)
        used = (outputs.sin().sum() + final[0][-1].cos().sum(), inputs)
        (gradient,) = torch.autograd.grad(*used, create_graph=True)
        total = gradient.square().sum() + outputs.sum()
        return torch.autograd.grad(total, [inputs, *stack.parameters()], allow_unused=True, materialize_grads=True)

    require_same(penalty(), plainly(penalty), 1e-12)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_second_derivatives_are_those_of_finite_differences(cell):
    stack, mask = made(cell), masked([2, 1, 0], 2)
    inputs = torch.randn(3, 2, F, dtype=torch.float64, requires_grad=True)
    state = tree.map(lambda leaf: torch.randn_like(leaf).requires_grad_(), stack.zero_state(3, inputs))

    def function(inputs, *rest):
        outputs, final = stack(inputs, (rest[: stack.num_tensors],), mask)
        return outputs, *tree.leaves(final)

    assert torch.autograd.gradgradcheck(function, (inputs, *tree.leaves(state), *stack.parameters()), fast_mode=True)


def test_weights_that_were_changed_since_are_noticed():
    stack = made("gru")
    outputs, _ = stack(torch.randn(2, S, F, dtype=torch.float64))
    with torch.no_grad():
        stack.layers[0].weight_hh_l0.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        outputs.sum().backward()


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_a_row_alone_gives_what_it_gives_in_a_padded_batch(cell):
    stack = RecurrentStack(16, 32, cell=cell, bidirectional=True)
    lengths = [3, 9, 1, 5]
    inputs = torch.randn(4, 9, 16)
    together, final = stack(inputs, mask=masked(lengths, 9))
    for row, length in enumerate(lengths):
        alone, last = stack(inputs[row : row + 1, :length])
        torch.testing.assert_close(alone[0], together[row, :length], rtol=0, atol=1e-6)
        torch.testing.assert_close(last[0][0][0], final[0][0][row], rtol=0, atol=1e-6)


@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("size", [5, 96])
def test_under_autocast_products_are_of_bfloat16_and_states_stay_whole(cell, size, counted):
    torch.manual_seed(1)
    stack = RecurrentStack(size, size, cell=cell, bidirectional=True)
    rows = 64 if size > 5 else 3
    inputs, mask = torch.randn(rows, S, size, requires_grad=True), masked([6, 1, 4, 5] * 16)[:rows]
    wanted = [inputs, *stack.parameters()]

    def run(enabled):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            outputs, ((final, *_),) = stack(inputs, mask=mask)
        return [outputs, final, *torch.autograd.grad(outputs.square().sum() + final.sum(), wanted)]

    whole, narrow = run(False), run(True)
    assert len(counted) == 2
    assert {x.dtype for x in narrow} == {torch.float32}
    for x, y in zip(whole, narrow, strict=True):
        assert 0 < float((x - y).detach().norm() / x.detach().norm()) < 0.02
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        for given in (inputs, inputs.bfloat16()):
            torch.testing.assert_close(stack(given, mask=mask)[0], narrow[0], rtol=0, atol=2e-2)


def test_under_autocast_a_first_state_of_bfloat16_is_taken(counted):
    stack, inputs = RecurrentStack(F, D, cell="gru"), torch.randn(2, S, F)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs, ((final,),) = stack(inputs, ((torch.ones(2, D).bfloat16(),),))
    assert (outputs.dtype, final.dtype, len(counted)) == (torch.float32, torch.float32, 1)


def test_what_the_compiled_loops_cannot_do_goes_through_torch(counted):
    inputs = torch.randn(2, S, F)
    with torch.autocast("cpu", dtype=torch.float16):
        RecurrentStack(F, D, cell="gru")(inputs)
    RecurrentStack(F, D, cell="gru").bfloat16()(inputs.bfloat16())
    RecurrentStack(F, D, cell="rnn")(inputs)
    seen = []
    hooked = RecurrentStack(F, D, cell="gru")
    hooked.layers[0].register_forward_hook(lambda *_: seen.append(1))
    hooked(inputs)
    stack = RecurrentStack(F, D, cell="gru")
    torch.func.functional_call(stack, dict(stack.named_parameters()), (inputs,))
    assert seen == [1]
    assert counted == [1, 1]  # what is hooked, and functional_call
    torch.func.grad(lambda x: stack(x)[0].sum())(inputs)
    exported = torch.export.export(stack, (inputs,), strict=False)
    torch.testing.assert_close(exported.module()(inputs)[0], stack(inputs)[0], rtol=0, atol=1e-6)


def test_a_packing_holds_every_real_position_once():
    mask = masked([2, 6, 0, 5])
    packing = Packing.of(4, S, mask)
    x = torch.randn(4, S, F)
    assert packing.counts == [3, 3, 2, 2, 2, 1]
    assert sorted(packing.index.tolist()) == mask.flatten().nonzero().flatten().tolist()
    torch.testing.assert_close(packing.unpack(packing.pack(x)), x.masked_fill(~mask[..., None], 0), rtol=0, atol=0)
    assert Packing.of(4, S).is_full


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
@pytest.mark.parametrize("disabled", ["0", "1"])
def test_padding_that_is_no_number_gives_no_gradient_that_is_none(cell, disabled, monkeypatch):
    monkeypatch.setenv("NUMBA_DISABLE_JIT", disabled)
    stack = RecurrentStack(3, 2, cell=cell, bidirectional=True)
    mask = torch.tensor([[True, True, False], [False, False, False]])
    inputs = torch.randn(2, 3, 3).masked_fill(~mask[..., None], float("nan")).requires_grad_()
    outputs, final = stack(inputs, mask=mask)
    (outputs.sum() + sum(part.sum() for layer in final for part in layer)).backward()
    assert all(weight.grad.isfinite().all() for weight in stack.parameters())
    assert inputs.grad.isfinite().all()
    assert not inputs.grad[~mask].any()


class Around(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base

    def forward(self, inputs, state=None):
        return self.base(inputs, state)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_a_layer_is_called_as_torchs_is_and_so_is_what_stands_in_its_place(kind):
    stack, mask = made(kind.__name__.lower(), num_layers=2), masked([2, 6, 0, 5])
    inputs = torch.randn(4, S, F, dtype=torch.float64)
    own, theirs = stack.layers[0], kind(F, D, batch_first=True).double()
    theirs.load_state_dict(own.state_dict())
    require_same(tree.leaves(own(inputs)), tree.leaves(theirs(inputs)), 0)
    state = tree.map(torch.randn_like, stack.zero_state(4, inputs))
    expected = stack(inputs, state, mask), stack.step(inputs[:, 0], state)
    for layer in (theirs, Around(theirs), Around(own)):
        stack.layers[0] = layer
        found = stack(inputs, state, mask), stack.step(inputs[:, 0], state)
        require_same(tree.leaves(found), tree.leaves(expected), 1e-12)


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn", "gru_reset_before"])
def test_hooks_of_a_layer_are_called_by_steps_and_sequences(cell):
    stack, mask = made(cell), masked([2, 6, 0, 5])
    inputs = torch.randn(4, S, F, dtype=torch.float64)
    outputs, _ = stack(inputs, mask=mask)
    first, _ = stack.step(inputs[:, 0], stack.zero_state(4, inputs))
    stack.layers[0].register_forward_hook(lambda layer, inputs, found: (2 * found[0], found[1]))
    require_same([stack(inputs, mask=mask)[0]], [2 * outputs], 0)
    require_same([stack.step(inputs[:, 0], stack.zero_state(4, inputs))[0]], [2 * first], 0)


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn", "gru_reset_before"])
@pytest.mark.parametrize("padded", [True, False])
def test_gradients_in_evaluation_are_taken_in_training_mode(cell, padded, monkeypatch):
    """cuDNN refuses them otherwise."""
    stack = RecurrentStack(3, 4, cell=cell, bidirectional=True).eval()
    (layer,) = stack.layers
    base, modes = type(layer).__mro__[2], []
    forward = base.forward
    monkeypatch.setattr(base, "forward", lambda self, *given: modes.append(self.training) or forward(self, *given))
    inputs = torch.randn(2, 5, 3)
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2]) if padded else None

    def gradients():
        with plain():
            outputs, _ = stack(inputs, mask=mask)
        return outputs, *torch.autograd.grad(outputs.square().sum(), list(layer.parameters()))

    found = gradients()
    assert not layer.training
    with torch.no_grad(), plain():
        stack(inputs, mask=mask)
    for gradient, expected in zip(found, stack.train() and gradients(), strict=True):
        torch.testing.assert_close(gradient, expected, rtol=0, atol=0)
    assert modes == [True, False, True]
