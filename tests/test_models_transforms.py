"""Function transforms and higher derivatives of decoders and whole models are those of the plain way."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.func import functional_call, grad, hessian, jvp, vmap

from regard.layers import RecurrentStack, TokenEmbedding
from regard.models import EncoderDecoder, RecurrentEncoder
from regard.ops import plain
from test_models_recurrent_steps import MECHANISMS, ORDERS, build

B, S, T = 2, 5, 3
MASK = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])


def model(mechanism="additive", cell="lstm", order=ORDERS[0], **options):
    decoder = build(MECHANISMS[mechanism](), cell, order, **options)
    encoder = RecurrentEncoder(TokenEmbedding(7, 2), RecurrentStack(2, 3, cell=cell, bidirectional=True)).double()
    return EncoderDecoder(encoder, decoder).eval()


def inputs():
    torch.manual_seed(1)
    return torch.randint(1, 7, (B, S)), torch.randint(0, 4, (B, T))


def loss_of(made, source, ids, weights=None, mask=MASK):
    given = (source, ids), {"mask": mask}
    output = made(*given[0], **given[1]) if weights is None else functional_call(made, weights, *given)
    return -output.log_probabilities[..., 1].sum()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
def test_grad_of_a_functional_call_is_the_gradient(cell, order):
    made, (source, ids) = model(cell=cell, order=order), inputs()
    weights = {name: p.detach() for name, p in made.named_parameters()}
    found = grad(lambda weights: loss_of(made, source, ids, weights))(weights)
    expected = torch.autograd.grad(loss_of(made, source, ids), list(made.parameters()))
    for (name, x), y in zip(found.items(), expected, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-9, atol=1e-10, msg=name)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("mechanism", ["additive", "general"])
def test_per_sentence_gradients_are_those_of_each_sentence(mechanism, order):
    made, (source, ids) = model(mechanism, "lstm", order), inputs()
    weights = {name: p.detach() for name, p in made.named_parameters()}

    def alone(weights, source, ids, mask):
        return loss_of(made, source[None], ids[None], weights, mask[None])

    together = vmap(grad(alone), (None, 0, 0, 0))(weights, source, ids, MASK)
    for b in range(B):
        expected = torch.autograd.grad(
            loss_of(made, source[b : b + 1], ids[b : b + 1], mask=MASK[b : b + 1]), list(made.parameters())
        )
        for (name, x), y in zip(together.items(), expected, strict=True):
            torch.testing.assert_close(x[b], y, rtol=1e-9, atol=1e-10, msg=name)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_forward_mode_agrees_with_backward_mode(cell, order):
    made, (source, ids) = model("general", cell, order), inputs()
    weights = {name: p.detach() for name, p in made.named_parameters()}
    tangents = {name: torch.randn_like(p) for name, p in weights.items()}
    _, found = jvp(lambda weights: loss_of(made, source, ids, weights), (weights,), (tangents,))
    gradients = torch.autograd.grad(loss_of(made, source, ids), list(made.parameters()))
    expected = sum((g * t).sum() for g, t in zip(gradients, tangents.values(), strict=True))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "residual": True}])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("mechanism", ["additive, 2 heads, normalised, sharp", "scaled dot, heads share keys"])
def test_second_derivatives_by_kernels_are_those_of_the_plain_steps(mechanism, cell, options, order):
    made, (source, ids) = model(mechanism, cell, order, **options), inputs()
    found = penalty_gradients(made, source, ids)
    with plain():
        expected = penalty_gradients(made, source, ids)
    for x, y in zip(found, expected, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("order", ORDERS)
def test_second_derivatives_know_what_dropout_dropped(order):
    made, (source, ids) = model(order=order, num_layers=2, dropout=0.5), inputs()
    made.decoder.stack.dropout.train()
    weight, step = made.decoder.readout.weight, 1e-5
    torch.manual_seed(4)
    (found,) = torch.autograd.grad(penalty(made, source, ids), [weight])
    values = []
    for change in (step, -2 * step):
        with torch.no_grad():
            weight[0, 0] += change
        torch.manual_seed(4)
        values.append(float(penalty(made, source, ids).detach()))
    assert float(found[0, 0]) == pytest.approx((values[0] - values[1]) / (2 * step), rel=1e-4)


def penalty(made, source, ids):
    """The squared norm of all gradients."""
    loss, parameters = loss_of(made, source, ids), list(made.parameters())
    return sum(g.square().sum() for g in torch.autograd.grad(loss, parameters, create_graph=True))


def penalty_gradients(made, source, ids):
    parameters = list(made.parameters())
    found = torch.autograd.grad(penalty(made, source, ids), parameters, allow_unused=True)
    return [torch.zeros_like(p) if g is None else g for g, p in zip(found, parameters, strict=True)]


def test_a_hessian_by_torch_func_is_that_of_autograd():
    made, (source, ids) = model("general", "gru"), inputs()
    name = "decoder.readout.bias"
    bias = dict(made.named_parameters())[name].detach()

    def loss(bias):
        return loss_of(made, source, ids, {name: bias})

    torch.testing.assert_close(hessian(loss)(bias), torch.autograd.functional.hessian(loss, bias))


def test_models_that_attend_to_all_steps_at_once_are_transformed_too():
    made = model("additive")
    made.decoder.reading = replace(made.decoder.reading, fed=None)
    made.decoder.stack = RecurrentStack(3, 4).double()
    source, ids = inputs()
    weights = {name: p.detach() for name, p in made.named_parameters()}
    found = grad(lambda weights: loss_of(made, source, ids, weights))(weights)
    expected = torch.autograd.grad(loss_of(made, source, ids), list(made.parameters()))
    for x, y in zip(found.values(), expected, strict=True):
        torch.testing.assert_close(x, y)


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
def test_a_recurrent_stack_under_a_transform_is_the_stack(cell, bidirectional):
    stack = RecurrentStack(2, 3, 2, cell=cell, bidirectional=bidirectional, residual=True).double()
    x = torch.randn(B, S, 2).double()
    x[~MASK] = float("nan")
    seen = stack(x.masked_fill(~MASK[..., None], 0), mask=MASK)
    outputs, final = vmap(lambda x: stack(x, mask=MASK))(x[None])
    torch.testing.assert_close(outputs[0], seen[0])
    torch.testing.assert_close(
        [part[0] for layer in final for part in layer], [part for layer in seen[1] for part in layer]
    )
    gradient = grad(lambda x: stack(x, mask=MASK)[0].sum())(x)
    assert gradient.isfinite().all()
    assert not gradient[~MASK].any()
