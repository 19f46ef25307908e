"""Transformers train by sublayers that are one operation each, and compute what their modules would."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from torch.optim import SGD

from regard.attention import CausalWindow, Mechanism, SlidingWindow, bahdanau, multi_head
from regard.attention.alignments import SoftmaxAlignment
from regard.attention.reads import ProjectedSum
from regard.attention.scores import RotaryDotScore, ScaledDotScore
from regard.layers import FeedForward, GatedFeedForward, Residual, TokenEmbedding, TokenHead
from regard.layers.items import ItemDraws, drawing, sites
from regard.models import (
    EncoderDecoder,
    TransformerOptions,
    sublayers,
    transformer_decoder,
    transformer_encoder,
    transformer_language_model,
)
from regard.models.sublayers import CROSS_ATTENTION, FEED_FORWARD, FUSED, MEMORY, SELF_ATTENTION
from regard.ops import plain

B, S, T, D, N = 4, 9, 11, 64, 40
MASK = torch.arange(S) < torch.tensor([9, 4, 7, 1])[:, None]
TARGET_MASK = torch.arange(T) < torch.tensor([5, 11, 7, 3])[:, None]
IDS, TARGETS = (torch.randint(4, N, (B, n), generator=torch.Generator().manual_seed(n)) for n in (S, T))
ITEMS = torch.tensor([5, 7, 1, 2])


def translation(dtype=torch.float64, **options):
    torch.manual_seed(0)
    sizes = {"num_layers": 2, "num_heads": 2, "feed_forward_size": 96, "dropout": 0.2} | options
    embedding = TokenEmbedding(N, D)
    encoder = transformer_encoder(embedding, **{k: v for k, v in sizes.items() if k != "cross_attention"})
    decoder = transformer_decoder(embedding, TokenHead(D, N, tied=embedding), memory_size=D, **sizes)
    return EncoderDecoder(encoder, decoder).to(dtype)


def language(dtype=torch.float64, **options):
    torch.manual_seed(0)
    sizes = {"num_layers": 2, "num_heads": 2, "feed_forward_size": 96, "dropout": 0.2} | options
    embedding = TokenEmbedding(N, D, padding=None)
    return transformer_language_model(embedding, TokenHead(D, N, tied=embedding), **sizes).to(dtype)


def loss_of(model, items=True):
    torch.manual_seed(5)
    with drawing(ItemDraws(sites(model), ITEMS, seed=3, step=4) if items else None):
        if isinstance(model, EncoderDecoder):
            memory = model.prepare(IDS, MASK)
            return model.decoder.cross_entropy(TARGETS, memory, TARGETS, TARGET_MASK, smoothing=0.1)[0]
        return model.cross_entropy(TARGETS, model.prepare(TARGETS[:, :0]), TARGETS, TARGET_MASK)[0]


def nodes(loss):
    """How many sublayers are one node of the graph."""
    seen, waiting = set(), [loss.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [following for following, _ in node.next_functions]
    return sum(type(node).__name__ == "_SublayerBackward" for node in seen)


def assert_same(model, items, tolerance, count):
    loss = loss_of(model, items)
    assert nodes(loss) == count
    parameters = [p for p in model.parameters() if p.requires_grad]
    found = torch.autograd.grad(loss, parameters)
    with plain():
        expected_loss = loss_of(model, items)
    assert nodes(expected_loss) == 0
    expected = torch.autograd.grad(expected_loss, parameters)
    torch.testing.assert_close(loss, expected_loss, rtol=tolerance, atol=0)
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance * max(float(theirs.abs().max()), 1e-3))


@pytest.mark.parametrize("items", [True, False], ids=["masks by item", "masks from the generator"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"norm": "post"},
        {"num_key_value_heads": 1},
        {"num_heads": 1},
        {"dropout": 0.0},
    ],
    ids=str,
)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 5e-6)])
def test_a_training_pass_is_that_of_the_modules_with_the_same_dropout(options, items, dtype, tolerance):
    assert_same(translation(dtype, **options), items, tolerance, 2 * (2 + 3))


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({"activation": "gelu", "projection_bias": True, "norm_epsilon": 1e-2}, 10),
        ({"activation": "silu", "activation_dropout": 0.4}, 10),
        ({"activation": "swiglu", "initialisation": "xavier"}, 10),
        ({"attention_dropout": 0.3}, 4),  # on weights, which operations do not keep: feed-forward only
        ({"query_key_norm": True}, 4),
    ],
    ids=str,
)
def test_options_of_transformers_are_computed_or_left_to_the_modules(options, count):
    assert_same(translation(options=TransformerOptions(**options)), True, 1e-10, count)


@pytest.mark.parametrize("groups", [1, 2])
def test_queries_of_cross_attention_are_rotated_to_their_positions(groups):
    cross = partial(multi_head, query_size=D, memory_size=D, size=D, num_heads=2, num_key_value_heads=groups)
    assert_same(translation(cross_attention=partial(cross, positions="rotary")), True, 1e-10, 10)


@pytest.mark.parametrize(
    ("positions", "count"),
    [
        ("rotary", 4),
        ("learned", 4),
        ("linear_bias", 2),  # attention adds biases, which no operation knows: feed-forward only
    ],
)
def test_so_is_that_of_a_language_model(positions, count):
    options = {"max_length": 20} if positions == "learned" else {}
    assert_same(language(positions=positions, **options), True, 1e-10, count)


def test_a_window_is_left_to_the_modules_where_it_is_shorter_than_the_text():
    assert_same(language(positions="rotary", reach=T), True, 1e-10, 4)
    assert_same(language(positions="rotary", reach=4), True, 1e-10, 2)


def test_a_step_of_the_optimiser_is_the_same():
    found = []
    for context in (plain, None):
        model = translation()
        optimizer = SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            if context is None:
                loss_of(model).div(100).backward()
            else:
                with context():
                    loss_of(model).div(100).backward()
            optimizer.step()
        found.append(model.state_dict())
    assert found[0].keys() == found[1].keys()
    for name, value in found[0].items():
        torch.testing.assert_close(found[1][name], value, rtol=1e-9, atol=1e-10)


def attention(**parts):
    given = {
        "score": ScaledDotScore(D, D, D, num_heads=2),
        "alignment": SoftmaxAlignment(),
        "read": ProjectedSum(D, D, num_heads=2),
    } | parts
    return Mechanism(**given)


class Louder(FeedForward):
    def forward(self, x):
        return 2 * super().forward(x)


def without_weights(residual):
    residual.norm = nn.LayerNorm(D, elementwise_affine=False)
    return residual


def with_option(module):
    module.sharpness = 2.0
    return module


X = torch.zeros(2, 10, D)


@pytest.mark.parametrize(
    ("table", "inputs", "reason"),
    [
        (SELF_ATTENTION, (Residual(D), attention()), None),
        (SELF_ATTENTION, (Residual(D), attention(window=CausalWindow())), None),
        (SELF_ATTENTION, (Residual(D), attention(window=SlidingWindow(back=3, front=0))), "SlidingWindow"),
        (SELF_ATTENTION, (Residual(D), attention(window=SlidingWindow(back=9, front=0))), None),
        (SELF_ATTENTION, (Residual(D), bahdanau(query_size=D, memory_size=D, size=D)), "AdditiveScore"),
        (SELF_ATTENTION, (Residual(D), multi_head(query_size=D, memory_size=D, size=D, positions="relative")), "Rel"),
        (
            SELF_ATTENTION,
            (Residual(D), multi_head(query_size=D, memory_size=D, alignment="sparsemax", size=D)),
            "Spars",
        ),
        (
            SELF_ATTENTION,
            (Residual(D), attention(score=RotaryDotScore(D, D, D, num_heads=2, layout="half"))),
            "no product of complex numbers",
        ),
        (
            SELF_ATTENTION,
            (Residual(D), multi_head(query_size=D, memory_size=D, size=D, positions="rotary", normalised=True)),
            "NormalisedDotScore",
        ),
        (SELF_ATTENTION, (Residual(D), attention(read=ProjectedSum(D, D, num_heads=2, output_size=32))), "widths"),
        (SELF_ATTENTION, (without_weights(Residual(D)), attention()), "no weight or no bias"),
        (CROSS_ATTENTION, (Residual(D), attention(), X, None), None),
        (CROSS_ATTENTION, (Residual(D), attention(window=CausalWindow()), X, None), "CausalWindow"),
        (CROSS_ATTENTION, (Residual(D), attention(score=RotaryDotScore(D, D, D, num_heads=2)), X, None), None),
        (
            CROSS_ATTENTION,
            (Residual(D), attention(score=RotaryDotScore(D, D, D, num_heads=2, rotary_size=2)), X, None),
            "no product of complex numbers",
        ),
        (FEED_FORWARD, (Residual(D), FeedForward(D, 32)), None),
        (FEED_FORWARD, (Residual(D), Louder(D, 32)), "Louder"),
        (FEED_FORWARD, (Residual(D), with_option(FeedForward(D, 32))), "does not know the sharpness"),
        (FEED_FORWARD, (Residual(D), FeedForward(D, 32, activation="gelu")), None),
        (FEED_FORWARD, (Residual(D), GatedFeedForward(D, 32)), None),
        (FEED_FORWARD, (Residual(D), with_option(GatedFeedForward(D, 32))), "does not know the sharpness"),
        (FEED_FORWARD, (with_option(Residual(D)), FeedForward(D, 32)), "does not know the sharpness of residual"),
        (MEMORY, (attention(),), None),
        (MEMORY, (bahdanau(query_size=D, memory_size=D, size=D),), "AdditiveScore"),
    ],
)
def test_what_an_operation_does_not_know_is_refused_with_the_reason(table, inputs, reason):
    inputs = inputs if table is CROSS_ATTENTION else (*inputs, X)
    found = sublayers.explain(table, *inputs)
    assert (found is None) == (reason is None), found
    assert reason is None or reason in found, found
    assert table[0].name == FUSED
    with plain():
        assert "switched off" in sublayers.explain(table, *inputs)


def test_weights_that_are_asked_for_are_computed():
    model = translation().eval()
    memory = model.prepare(IDS, MASK)
    output = model.decoder(TARGETS, memory, alignment=True)
    assert output.alignments is not None
    quick = model.decoder(TARGETS, memory)
    torch.testing.assert_close(output.log_probabilities, quick.log_probabilities, rtol=0, atol=1e-10)


def test_explanations_name_what_is_one_operation_and_why_another_is_not():
    model = translation()
    assert "each sublayer is one operation" in model.decoder.explain()
    model.decoder.layers[1].feed_forward.register_forward_hook(lambda *given: None)
    assert "feed-forward of layer 1" in model.decoder.explain()
    assert "hooks of feed_forward" in model.decoder.explain()


def test_compiled_and_transformed_passes_are_those_of_the_modules():
    model = translation(dropout=0.0)
    parameters = dict(model.named_parameters())

    def loss(parameters):
        memory = torch.func.functional_call(model, parameters, (IDS, TARGETS), {"mask": MASK}, tie_weights=True)
        return memory.log_probabilities[..., 4:].sum()

    found = torch.func.grad(loss)(parameters)
    expected = torch.autograd.grad(loss(parameters), list(parameters.values()), allow_unused=True)
    for ours, theirs in zip(found.values(), expected, strict=True):
        torch.testing.assert_close(ours, torch.zeros_like(ours) if theirs is None else theirs, rtol=1e-7, atol=1e-7)
