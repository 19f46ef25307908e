"""A decoder's loss without log-probabilities is the loss of its log-probabilities, with every gradient."""

from __future__ import annotations

import copy
import subprocess
import sys

import pytest
import torch
from torch import nn

from regard import losses
from regard.errors import UnsupportedError
from regard.layers import TokenEmbedding, TokenHead
from regard.models import EncoderDecoder, RecurrentDecoder, transformer_decoder, transformer_encoder
from regard.tasks.decoder_losses import forced_cross_entropy
from regard.tasks.text_to_text.architectures import build_model
from regard.tasks.text_to_text.config import RecurrentConfig

N = 11


def recurrent(**decoder):
    model = {
        "encoder": {"size": 8, "embedding_size": 6, "dropout": 0.0},
        "decoder": {"size": 10, "embedding_size": 6, "dropout": 0.3, **decoder},
        "attention": {"recipe": "bahdanau", "size": 8},
    }
    return build_model(RecurrentConfig(**model), num_source=N, num_target=N)


def transformer():
    source, target = TokenEmbedding(N, 8), TokenEmbedding(N, 8)
    options = {"num_layers": 2, "num_heads": 2, "feed_forward_size": 12, "dropout": 0.3}
    head = TokenHead(8, N, tied=target, never=(0, 1))
    return EncoderDecoder(
        transformer_encoder(source, **options), transformer_decoder(target, head, memory_size=8, **options)
    )


MODELS = {
    "recurrent": lambda: recurrent(input_feeding=True),
    "recurrent, nothing fed back": lambda: recurrent(input_feeding=False),
    "recurrent, tied through a map": lambda: recurrent(tied_weights=True, input_feeding=True),
    "recurrent, tied": lambda: recurrent(tied_weights=True, embedding_size=10, input_feeding=True),
    "transformer, tied": transformer,
}


def made(name, dtype=torch.float64):
    torch.manual_seed(0)
    return MODELS[name]().to(dtype)


def batch():
    mask = torch.arange(5) < torch.tensor([5, 3, 1, 4])[:, None]
    given = torch.Generator().manual_seed(0)
    source, inputs, targets = (torch.randint(2, N, (4, 5), generator=given) for _ in range(3))
    return source, inputs, targets.masked_fill(~mask, 0), mask


def gradients(model, loss):
    """The loss, the likelihood and every gradient of a copy, with the same dropout."""
    own = copy.deepcopy(model)
    source, *others = batch()
    torch.manual_seed(1)
    total, likelihood = loss(own.decoder, own.prepare(source, batch()[-1]), *others)
    (total / 13).backward()
    return {"loss": total.detach(), "likelihood": likelihood, **{n: p.grad for n, p in own.named_parameters()}}


def plainly(decoder, memory, inputs, targets, mask, smoothing=0.1):
    return losses.cross_entropy(decoder.forward(inputs, memory).log_probabilities, targets, mask, smoothing=smoothing)


@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float64, 1e-11), (torch.float32, 1e-5)], ids=str)
@pytest.mark.parametrize("name", MODELS)
def test_losses_and_all_gradients_are_those_of_log_probabilities(name, dtype, rtol):
    model = made(name, dtype)
    found = gradients(
        model, lambda decoder, memory, *given: decoder.cross_entropy(given[0], memory, *given[1:], smoothing=0.1)
    )
    right = gradients(model, plainly)
    for key, theirs in right.items():
        size = float(theirs.abs().max())
        torch.testing.assert_close(found[key], theirs, rtol=0, atol=rtol * max(size, 1e-2), msg=key)


@pytest.mark.parametrize("name", ["recurrent", "transformer, tied"])
def test_no_log_probabilities_are_made_and_without_gradients_neither(name, monkeypatch):
    model = made(name).eval()
    source, inputs, targets, mask = batch()
    memory = model.prepare(source, mask)
    expected = plainly(model.decoder, memory, inputs, targets, mask)
    monkeypatch.setattr(TokenHead, "forward", None)
    with torch.no_grad():
        found = model.decoder.cross_entropy(inputs, memory, targets, mask, smoothing=0.1)
    torch.testing.assert_close(found, tuple(x.detach() for x in expected))
    assert not found[0].requires_grad


class Doubtful(RecurrentDecoder):
    """Says everything half as loudly."""

    def head_output(self, features):
        said = super().head_output(features)
        return type(said)((said.log_probabilities / 2).log_softmax(-1))


class Shifted(TokenHead):
    """Has another preference."""

    def forward(self, features):
        return (super().forward(features) + torch.arange(N)).log_softmax(-1)


class Doubled(nn.Linear):
    """Another projection than its weight and bias say."""

    def forward(self, features):
        return 2 * super().forward(features)


def doubtful(decoder):
    decoder.__class__ = Doubtful


def another_head(decoder):
    decoder.head.__class__ = Shifted


def another_projection(decoder):
    decoder.head.projection.__class__ = Doubled


def hooked(decoder):
    decoder.head.projection.register_forward_hook(lambda module, inputs, outputs: 2 * outputs)


def hooked_head(decoder):
    decoder.head.register_forward_hook(lambda module, inputs, outputs: (2 * outputs).log_softmax(-1))


@pytest.mark.parametrize("change", [hooked_head, doubtful, another_head, another_projection, hooked])
def test_what_changes_the_outputs_changes_the_loss(change):
    model = made("recurrent").eval()
    source, *given = batch()
    memory = model.prepare(source)
    before = plainly(model.decoder, memory, *given)[0]
    change(model.decoder)
    found = model.decoder.cross_entropy(given[0], memory, *given[1:], smoothing=0.1)[0]
    torch.testing.assert_close(found, plainly(model.decoder, memory, *given)[0])
    assert abs(float((found - before).detach())) > 1e-3


def test_a_continuous_decoder_has_no_cross_entropy():
    model = made("recurrent")
    model.decoder.continuous, model.decoder.head = True, nn.Linear(10, 3).double()
    source, inputs, targets, mask = batch()
    with pytest.raises(UnsupportedError, match="continuous"):
        model.decoder.cross_entropy(inputs, model.prepare(source), targets, mask)


@pytest.mark.parametrize("fed", ["reference", "own", "a decoder without the verb"])
def test_training_asks_for_the_loss_where_only_the_reference_is_fed(fed, monkeypatch):
    model = made("recurrent").eval()
    source, inputs, targets, mask = batch()
    memory = model.prepare(source, mask)
    own = torch.zeros_like(mask)
    own[:, 0] = True
    expected = plainly(model.decoder, memory, inputs, targets, mask)
    if fed == "own":
        own[:, 2] = True
    if fed == "a decoder without the verb":
        monkeypatch.delattr(RecurrentDecoder, "cross_entropy")
    asked = []
    if fed != "a decoder without the verb":
        verb = RecurrentDecoder.cross_entropy
        monkeypatch.setattr(RecurrentDecoder, "cross_entropy", lambda *x, **y: asked.append(1) or verb(*x, **y))
    found = forced_cross_entropy(model.decoder, memory, inputs, targets, mask, own, smoothing=0.1)
    assert len(asked) == (fed == "reference")
    assert torch.allclose(found[0], expected[0], rtol=1e-12) == (fed != "own")


COMPILED = """
import torch
from regard.layers import TokenHead
head, features = TokenHead(8, 11, never=(0, 1)), torch.randn(4, 5, 8)
targets, mask = torch.randint(2, 11, (4, 5)), torch.rand(4, 5) > 0.2
speak = lambda x: head.cross_entropy(x, targets, mask, smoothing=0.1)
compiled = torch.compile(speak, fullgraph=True, backend="eager")
torch.testing.assert_close(compiled(features), speak(features))
"""


def test_the_compiler_makes_one_graph_of_an_output_layer_and_its_loss():
    subprocess.run([sys.executable, "-c", COMPILED], check=True, timeout=120)  # without this process's checks of types
