"""Output layers whose forbidden ids count in the softmax, as of programs that forbid them only when they search."""

from __future__ import annotations

import pytest
import torch

from regard.layers import TokenEmbedding, TokenHead
from regard.losses import cross_entropy
from regard.ops.over_steps import Loop
from regard.tasks.text_to_text.architectures import build_model
from regard.tasks.text_to_text.config import TextToTextConfig

FORBIDDEN = (0, 3)


def make(**options):
    torch.manual_seed(0)
    return TokenHead(4, 6, never=FORBIDDEN, never_counts=True, **options)


@pytest.mark.parametrize("tied", [None, TokenEmbedding(6, 3)])
def test_the_others_have_the_probabilities_that_the_softmax_over_all_gives_them(tied):
    head = make(tied=tied)
    features = torch.randn(2, 5, 4)
    plain = head.projection(head.adapter(features)).log_softmax(-1)
    said = head(features)
    assert said[..., FORBIDDEN].isneginf().all()
    assert torch.equal(said[..., [1, 2, 4, 5]], plain[..., [1, 2, 4, 5]])
    assert (said.exp().sum(-1) < 1).all()


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_that_of_the_outputs(smoothing):
    head, features = make(), torch.randn(2, 5, 4, requires_grad=True)
    targets, mask = torch.tensor([[1, 2, 4, 5, 1]] * 2), torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    expected = cross_entropy(head(features), targets, mask, smoothing=smoothing)
    for ours, theirs in zip(head.cross_entropy(features, targets, mask, smoothing=smoothing), expected, strict=True):
        torch.testing.assert_close(ours, theirs)
    (gradient,) = torch.autograd.grad(expected[0], features)
    assert gradient.isfinite().all()


def test_a_loop_of_searches_says_the_same():
    head, features = make(), torch.randn(7, 4)
    with torch.inference_mode():
        expected = head(features)
        with Loop():
            torch.testing.assert_close(head(features), expected)


@pytest.mark.parametrize("architecture", ["recurrent", "transformer"])
def test_a_configuration_chooses_whether_the_forbidden_count(architecture):
    model = {"architecture": architecture, "decoder": {"specials": "forbidden"}}
    config = TextToTextConfig.model_validate({"data": {"train": "pairs.tsv"}, "model": model})
    head = build_model(config.model, num_source=9, num_target=9).decoder.head
    assert (head.forbidden, head.never_counts) == ((0, 1), True)
