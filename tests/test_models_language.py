"""Language models: equations of the paper by plain arithmetic, windows with their context, caches, searches."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from regard import tree
from regard.data.text import Normalisation, RunningText, TextSpan, TextWindows, Vocabulary
from regard.data.text.field import Field
from regard.data.text.units import CharacterUnits
from regard.decoding import Search, search
from regard.errors import RegardError, ShapeError, UnsupportedError
from regard.layers import RecurrentStack, TokenEmbedding, TokenHead
from regard.metrics import Likelihood
from regard.models import (
    Encoded,
    LookBack,
    NgramOutput,
    RecurrentLanguageModel,
    negative_log_likelihood,
    recurrent_language_model,
    transformer_language_model,
)
from support.oracles.arithmetic import apply, dot, masked_softmax

NUM_TOKENS = 7
PASTS = ("state", "attention", "key_value", "key_value_predict", "ngram")


@pytest.fixture(autouse=True)
def same_numbers():
    torch.manual_seed(0)


def transformer(reach=None, **options):
    embedding = TokenEmbedding(NUM_TOKENS, 8, padding=None)
    settings = {"num_layers": 2, "num_heads": 2, "feed_forward_size": 12, "dropout": 0.0, "positions": "rotary"}
    model = transformer_language_model(
        embedding, TokenHead(8, NUM_TOKENS, tied=embedding), reach=reach, **{**settings, **options}
    )
    return model.double().eval()


def recurrent(past, **options):
    return recurrent_language_model(NUM_TOKENS, size=12, past=past, embedding_size=5, **options).double().eval()


MODELS = {
    **{past: lambda past=past: recurrent(past, reach=3) for past in PASTS},
    "transformer": transformer,
    "transformer that reaches back 3": lambda: transformer(3),
}
every_model = pytest.mark.parametrize("name", MODELS)


def ids(*shape):
    return torch.randint(NUM_TOKENS, shape)


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64)


@pytest.mark.parametrize("steps", [3, 4, 9, 12])
@pytest.mark.parametrize("num_parts", [1, 2, 3])
def test_attention_over_the_last_outputs_is_that_of_the_paper(num_parts, steps):
    reach, width = 4, 6 // num_parts
    past = LookBack(6, num_parts=num_parts, reach=reach).double()
    score = past.attention.mechanism.score
    w_y, w_h, w = score.key_projection.weight.tolist(), score.query_projection.weight.tolist(), score.v[0].tolist()
    w_r, w_x = past.from_context.weight.tolist(), past.from_output.weight.tolist()
    h = draw(2, steps, 6)
    features, _, _ = past(h, past.begin(2, h))
    shown, weights, _ = past(h, past.begin(2, h), alignment=True)
    for row in range(2):
        rows = h[row].tolist()
        k, p = ([x[:width] for x in rows], [x[6 - width :] for x in rows])
        v = [x[width : 2 * width] if num_parts > 1 else x for x in rows]
        for t in range(steps):
            window = range(max(0, t - reach), t)
            m = [[math.tanh(a + b) for a, b in zip(apply(w_y, k[j]), apply(w_h, k[t]))] for j in window]
            alpha = masked_softmax([dot(w, column) for column in m], [True] * len(m))
            r = [sum((a * v[j][d] for a, j in zip(alpha, window)), 0.0) for d in range(width)]
            expected = [math.tanh(a + b) for a, b in zip(apply(w_r, r), apply(w_x, p[t]))]
            for ours in (features, shown):
                torch.testing.assert_close(ours[row, t].tolist(), expected, rtol=0, atol=1e-12)
            seen = weights[row, 0, t, reach:]
            torch.testing.assert_close(seen[list(window)].tolist(), alpha, rtol=0, atol=1e-12)
            assert int((seen > 0).sum()) == len(window)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_an_ngram_network_joins_parts_of_the_last_outputs(order):
    past = NgramOutput(12, order=order).double()
    h, width = draw(2, 6, 12), 12 // (order - 1)
    features, weights, kept = past(h, past.begin(2, h))
    assert weights is None
    torch.testing.assert_close(kept, h[:, 6 - (order - 2) :])
    for row in range(2):
        for t in range(6):
            joined = []
            for distance in range(order - 1):
                part = slice(distance * width, (distance + 1) * width)
                joined += h[row, t - distance, part].tolist() if t >= distance else [0.0] * width
            expected = [math.tanh(x) for x in apply(past.projection.weight.tolist(), joined)]
            torch.testing.assert_close(features[row, t].tolist(), expected, rtol=0, atol=1e-12)


@every_model
def test_long_texts_are_read_at_once_as_step_by_step(name):
    model, text = MODELS[name](), ids(3, 30)
    whole = model(text, alignment=True)
    memory = model.prepare(text[:, :0])
    state = model.initial_state(memory)
    for t in range(30):
        output, state = model.step(text[:, t], memory, state, alignment=True)
        torch.testing.assert_close(output.log_probabilities, whole.log_probabilities[:, t], rtol=0, atol=1e-12)
        for key, weights in output.alignments.items():
            torch.testing.assert_close(weights, whole.alignments[key][:, :, t, : t + 1], rtol=0, atol=1e-12)
            assert not whole.alignments[key][:, :, t, t + 1 :].any()


@every_model
def test_a_text_goes_on_after_its_context_as_if_it_were_read_whole(name):
    model, text = MODELS[name](), ids(4, 20)
    whole = model(text, alignment=True)
    lengths = torch.tensor([1, 5, 12, 12])
    mask = torch.arange(12) < lengths[:, None]
    context = text[:, :12].masked_fill(~mask, 3)
    memory = model.prepare(Encoded(context, mask))
    rest = torch.stack([text[row, n - 1 : n + 7] for row, n in enumerate(lengths.tolist())])
    rest[:, 0] = 6  # is not read: the context's last token takes its place
    output = model(rest, memory, alignment=True)
    for row, n in enumerate(lengths.tolist()):
        expected = whole.log_probabilities[row, n - 1 : n + 7]
        torch.testing.assert_close(output.log_probabilities[row], expected, rtol=0, atol=1e-12)
        for key, weights in whole.alignments.items():
            seen = output.alignments[key][row, ..., : n + 7]
            torch.testing.assert_close(seen, weights[row, :, n - 1 : n + 7, : n + 7], rtol=0, atol=1e-12)


@every_model
def test_the_loss_is_that_of_the_scored_targets_and_sees_the_context(name):
    model, text = MODELS[name](), ids(2, 11)
    scored = torch.zeros(2, 10, dtype=torch.bool)
    scored[0, 6:] = scored[1, 4:9] = True
    loss, nats = model.cross_entropy(text[:, :-1], None, text[:, 1:], scored)
    said = model(text[:, :-1]).log_probabilities.gather(2, text[:, 1:, None])[..., 0]
    torch.testing.assert_close(nats, -said[scored].sum())
    gradients = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    assert all(gradient is None or gradient.isfinite().all() for gradient in gradients)
    other = text.clone()
    other[:, 0] = (other[:, 0] + 1) % NUM_TOKENS
    moved = model.cross_entropy(other[:, :-1], None, text[:, 1:], scored)[1]
    if name != "transformer that reaches back 3":  # two layers see four tokens back
        assert not torch.allclose(moved, nats, rtol=0, atol=1e-14)
    other = text.clone()
    other[1, -1] = (other[1, -1] + 1) % NUM_TOKENS  # padding
    torch.testing.assert_close(model.cross_entropy(other[:, :-1], None, other[:, 1:], scored)[1], nats)


@pytest.mark.parametrize("past", ["key_value_predict", "ngram"])
def test_the_cache_of_a_recurrent_model_does_not_grow(past):
    model = recurrent(past)
    state = model.initial_state(model.prepare(ids(2, 1)))
    sizes = set()
    for _ in range(9):
        _, state = model.step(ids(2), None, state)
        sizes.add(tuple(leaf.shape for leaf in tree.leaves(state)))
    assert len(sizes) == 1


def test_the_cache_of_a_transformer_that_reaches_back_is_bounded():
    for reach, most in ((3, 5), (1, 1), (None, 40)):
        model = transformer(reach)
        state = model.initial_state(model.prepare(ids(2, 1)))
        longest = 0
        for _ in range(40):
            _, state = model.step(ids(2), None, state)
            longest = max(longest, state.cache[0].memory.num_positions)
        assert longest == most


@every_model
def test_searches_and_samples_continue_prompts(name):
    model = MODELS[name]()
    prompts = Encoded(ids(2, 6), torch.arange(6) < torch.tensor([6, 2])[:, None])
    memory = model.prepare(prompts)
    for options in (Search(beam=1), Search(beam=3), Search(method="sampling", num_best=2, seed=3)):
        for row, hypotheses in enumerate(search(model, memory, options, bos=1, eos=2, max_length=9, alignment=True)):
            n = (6, 2)[row]
            for hypothesis in hypotheses:
                text = torch.cat([prompts.memory[row, :n], hypothesis.tokens])[None]
                said = model(text[:, :-1], alignment=True)
                costs = said.log_probabilities[0, n - 1 :].gather(1, hypothesis.tokens[:, None])[:, 0]
                torch.testing.assert_close(hypothesis.token_log_probabilities, costs, rtol=0, atol=1e-10)
                for key, weights in hypothesis.alignments.items():
                    width = text.shape[1] - 1
                    expected = said.alignments[key][0, :, n - 1 :]
                    torch.testing.assert_close(weights[..., :width], expected, rtol=0, atol=1e-10)


def test_tokens_that_are_never_predicted_are_not():
    model = recurrent_language_model(NUM_TOKENS, size=12, never=(0, 1, 2))
    assert (model(ids(2, 4)).log_probabilities[..., :3] == -math.inf).all()


def test_what_a_language_model_is_refused_says_why():
    model = recurrent("attention")
    with pytest.raises(ShapeError, match=r"must be ids \(B, S\)"):
        model.prepare(torch.zeros(2, 3))
    with pytest.raises(ShapeError, match="right-padded"):
        model.prepare(Encoded(ids(1, 2), torch.tensor([[False, True]])))
    with pytest.raises(ShapeError, match="step takes one input"):
        model.step(ids(2, 3), None, model.prepare(ids(2, 1)))
    with pytest.raises(ShapeError, match="inputs of all steps"):
        model(ids(2))
    with pytest.raises(UnsupportedError, match="past='words' must be one of state, attention"):
        recurrent_language_model(5, size=6, past="words")
    with pytest.raises(ShapeError, match="size=7 must be a multiple of order - 1"):
        recurrent_language_model(5, size=7, past="ngram")
    with pytest.raises(ShapeError, match="reach=0"):
        recurrent_language_model(5, size=6, past="attention", reach=0)
    with pytest.raises(UnsupportedError, match="reach=0"):
        transformer(0)
    stack = RecurrentStack(3, 4, bidirectional=True)
    with pytest.raises(UnsupportedError, match="bidirectional"):
        RecurrentLanguageModel(TokenEmbedding(5, 3), stack, TokenHead(8, 5))


def running_text(count):
    symbols = [chr(97 + index) for index in range(3)]
    numbers = np.random.default_rng(0).integers(4, 7, count).astype(np.int32)
    part = TextSpan(0, count, count, 1, 0)
    return RunningText(Field(Normalisation(), CharacterUnits(), Vocabulary(symbols)), numbers, part, part)


@every_model
def test_figures_score_every_token_once_whatever_the_windows(name):
    model, text = MODELS[name](), running_text(23)
    whole = torch.tensor(np.concatenate([[1], text.ids]))[None].long()
    said = model(whole[:, :-1]).log_probabilities.gather(2, whole[:, 1:, None]).sum()
    for length, batch_size in ((23, 1), (4, 3), (1, 50)):
        batches = TextWindows(text, text.held_out, length=length, context=23).in_order(batch_size)
        nats, count = negative_log_likelihood(model, batches)
        assert count == 23
        assert math.isclose(nats, -said.item(), rel_tol=1e-12)
    figures = Likelihood.of(nats, count, text.held_out)
    assert math.isclose(figures.perplexity, math.exp(nats / 23))
    with pytest.raises(RegardError, match="22 tokens were scored, but this part of the text has 23"):
        Likelihood.of(nats, 22, text.held_out)


@every_model
def test_a_few_steps_learn_a_text_that_repeats(name):
    model = MODELS[name]().float().train()
    text = torch.tensor([3, 4, 5, 6, 4] * 8)
    windows = text.unfold(0, 13, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for _ in range(60):
        loss, _ = model.cross_entropy(windows[:, :-1], None, windows[:, 1:])
        optimizer.zero_grad()
        loss.div(windows[:, 1:].numel()).backward()
        optimizer.step()
    scored = torch.zeros_like(windows[:, 1:], dtype=torch.bool)
    scored[:, 4:] = True
    nats = model.eval().cross_entropy(windows[:, :-1], None, windows[:, 1:], scored)[1] / scored.sum()
    assert nats < 0.15
