"""Weights of regard.interop.tfa before their sizes are known: an optimiser that holds them trains the whole model."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

from regard.errors import UnsupportedError
from regard.interop import tfa

MECHANISMS = {
    "luong": lambda: tfa.LuongAttention(4, scale=True),
    "bahdanau": lambda: tfa.BahdanauAttention(5, normalize=True),
    "luong monotonic": lambda: tfa.LuongMonotonicAttention(4),
    "bahdanau monotonic": lambda: tfa.BahdanauMonotonicAttention(5, memory_layer=tfa.Dense(5, use_bias=False)),
}
CELLS = {
    "keras lstm": tfa.KerasLSTMCell,
    "keras gru": tfa.KerasGRUCell,
    "lstm": tfa.LSTMCell,
    "gru": tfa.GRUCell,
    "rnn": tfa.BasicRNNCell,
    "stack": lambda units: tfa.StackedRNNCells([tfa.KerasLSTMCell(units), tfa.DropoutWrapper(tfa.GRUCell(units), 0.5)]),
    "projection": lambda units: tfa.InputProjectionWrapper(tfa.LSTMCell(units), 3),
}


def model_of(mechanism="luong", cell="keras lstm"):
    """An encoder, a decoder with attention and an output layer, of which no sizes of inputs are given."""
    wrapper = tfa.AttentionWrapper(CELLS[cell](4), MECHANISMS[mechanism](), attention_layer_size=4)
    return nn.ModuleDict({"encoder": CELLS[cell](4), "decoder": wrapper, "output": tfa.Dense(5)})


def loss_of(model, dtype=torch.float32):
    sources, targets = torch.randn(2, 2, 4, 3, dtype=dtype, generator=torch.Generator().manual_seed(3))
    outputs, state = tfa.dynamic_rnn(model["encoder"], sources)
    model["decoder"].attention_mechanisms[0].setup_memory(outputs)
    first = model["decoder"].get_initial_state(batch_size=2, dtype=dtype).clone(cell_state=state)
    decoded, _ = tfa.dynamic_rnn(model["decoder"], targets, initial_state=first)
    return (model["output"](decoded) - 1).square().mean()


def after_training(model, make, *, early):
    """The weights after three steps with an optimiser that is made before the first call, or after it."""
    torch.manual_seed(0)
    optimiser = make(model) if early else None
    loss_of(model)
    optimiser = optimiser or make(model)
    torch.manual_seed(1)
    for _ in range(3):

        def closure():
            optimiser.zero_grad()
            loss = loss_of(model)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            return loss

        optimiser.step(closure)
    return model.state_dict()


def grouped(model):
    biases = [weight for name, weight in model.named_parameters() if "bias" in name]
    others = [weight for name, weight in model.named_parameters() if "bias" not in name]
    return torch.optim.AdamW([{"params": biases, "weight_decay": 0.0}, {"params": others}], lr=0.05)


OPTIMISERS = {
    "SGD": lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
    "Adam": lambda model: torch.optim.Adam(model.parameters(), lr=0.05),
    "fused Adam": lambda model: torch.optim.Adam(model.parameters(), lr=0.05, fused=True),
    "Adafactor": lambda model: torch.optim.Adafactor(model.parameters(), lr=0.05),
    "RMSprop": lambda model: torch.optim.RMSprop(list(model.parameters()), lr=0.01),
    "LBFGS": lambda model: torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=2),
    "groups": grouped,
}
EARLY_OPTIMISERS = pytest.mark.parametrize("optimiser", OPTIMISERS)


@EARLY_OPTIMISERS
def test_an_optimiser_made_before_the_first_call_makes_the_steps_of_one_made_after_it(optimiser):
    torch.manual_seed(5)
    model = model_of()
    early, late = copy.deepcopy(model), model
    early, late = (
        after_training(each, OPTIMISERS[optimiser], early=first) for each, first in ((early, True), (late, False))
    )
    assert early.keys() == late.keys()
    assert all(torch.equal(weight, late[name]) for name, weight in early.items())


def test_an_optimiser_trains_an_encoder_that_alone_has_no_values_yet():
    model = model_of()
    other = nn.ModuleDict({**model, "encoder": copy.deepcopy(model["encoder"])})
    loss_of(other)  # the decoder and the output layer have values now
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    loss_of(model).backward()
    before = [weight.detach().clone() for weight in model["encoder"].parameters()]
    optimiser.step()
    assert not any(torch.equal(old, new) for old, new in zip(before, model["encoder"].parameters(), strict=True))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_weight_is_there_before_the_first_call_under_its_name_and_learns(mechanism, cell):
    model = model_of(mechanism, cell)
    before = dict(model.named_parameters())
    optimiser = torch.optim.SGD(model.parameters(), lr=1.0)
    with torch.no_grad():
        loss_of(model)
    first = {name: weight.detach().clone() for name, weight in model.named_parameters()}
    optimiser.zero_grad()
    loss_of(model).backward()
    optimiser.step()
    assert first.keys() == before.keys() == model.state_dict().keys()
    for name, weight in model.named_parameters():
        assert weight is before[name], name
        assert type(weight) is nn.Parameter, name
        assert weight.grad is not None, name
        assert not weight.grad.any() or not torch.equal(weight, first[name]), name


def test_what_needs_shapes_before_they_are_known_is_an_error_that_names_the_weight():
    model = model_of()
    for attempt in (
        lambda: torch.optim.Adagrad(model.parameters()),
        lambda: [weight for weight in model.parameters() if weight.ndim > 1],
        lambda: [weight for weight in model.parameters() if weight.dim() > 1],
        lambda: sum(weight.numel() for weight in model.parameters()),
        lambda: [nn.init.xavier_uniform_(weight) for weight in model.parameters()],
        lambda: nn.utils.parameters_to_vector(model.parameters()),
        model.state_dict,
    ):
        with pytest.raises(UnsupportedError, match=r"weight_ih of KerasLSTMCell .* call the model once.*input_size"):
            attempt()
    with pytest.raises(UnsupportedError, match=r"score\.key_projection\.weight of LuongAttention"):
        model["decoder"].attention_mechanisms[0].state_dict()


def test_first_calls_without_gradients_leave_weights_that_train():
    for context in (torch.no_grad, torch.inference_mode):
        model = model_of("bahdanau", "stack")
        with context():
            loss_of(model)
        loss_of(model).backward()
        assert all(weight.grad is not None for weight in model.parameters())


def test_a_model_is_moved_frozen_copied_and_pickled_before_its_first_call():
    model = model_of().double()
    model["encoder"].requires_grad_(False)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), model):
        loss_of(other, torch.float64).backward()
        assert {weight.dtype for weight in other.parameters()} == {torch.float64}
        assert {name for name, weight in other.named_parameters() if weight.grad is None} == {
            "encoder.weight_ih",
            "encoder.weight_hh",
            "encoder.bias",
        }
    assert tfa.Dense(3).bfloat16()(torch.ones(1, 2, dtype=torch.bfloat16)).dtype == torch.bfloat16
    assert tfa.Dense(3)(torch.ones(1, 2, dtype=torch.float64)).dtype == torch.float64


def test_a_state_dict_that_is_loaded_before_the_first_call_fills_the_weights_that_an_optimiser_holds():
    trained, model = model_of("bahdanau"), model_of("bahdanau")
    expected = loss_of(trained)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    model.load_state_dict(trained.state_dict())
    loss = loss_of(model)
    assert torch.equal(loss, expected)
    loss.backward()
    optimiser.step()
    assert loss_of(model) < expected


def test_a_cell_above_one_with_weights_has_them_at_once():
    cells = tfa.MultiRNNCell([tfa.LSTMCell(4, input_size=3, dtype="float64"), tfa.GRUCell(2)])
    assert cells.state_dict()["cells.1.weight_ih"].shape == (6, 4)
    assert cells.cells[1].bias.dtype == torch.float64


def test_a_stand_in_draws_no_random_numbers_and_shows_no_size():
    torch.manual_seed(0)
    mechanism = tfa.BahdanauAttention(4)
    after = torch.rand(3)
    torch.manual_seed(0)
    assert torch.equal(after, torch.rand(3))
    assert "in_features=0, out_features=4" in repr(mechanism)
