"""Keys that are not the values, vectors with several jobs, queries that are states, sequences and themselves."""

from __future__ import annotations

import math

import pytest
import torch

from regard.attention import (
    Divided,
    Memory,
    SelfAttention,
    SlidingWindow,
    StepInputs,
    bahdanau,
    key_value,
    key_value_predict,
    self_attention,
    self_pooling,
    vinyals,
)
from regard.errors import ShapeError, UnsupportedError
from regard.models import RecurrentDecoder
from regard.testing.source import encode
from support import tiny
from support.oracles.arithmetic import apply, dot, masked_softmax

REACH = 3


@pytest.fixture(autouse=True)
def same_numbers():
    torch.manual_seed(0)


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def language_model(h, score, sizes, w_r, w_x):
    """r_t and tanh(W_r r_t + W_x x_t) of every step as in the paper, over the last `REACH` steps without this one."""
    w_y, w_h, w = score.key_projection.weight.tolist(), score.query_projection.weight.tolist(), score.v[0].tolist()
    k = [x[: sizes[0]] for x in h]
    v = [x[sizes[0] : sizes[0] + sizes[1]] if len(sizes) > 1 else x for x in h]
    p = [x[len(x) - sizes[-1] :] for x in h]
    found = []
    for t in range(len(h)):
        window = range(max(0, t - REACH), t)
        energies = []
        for j in window:
            hidden = zip(apply(w_y, k[j]), apply(w_h, k[t]), strict=True)
            energies.append(dot(w, [math.tanh(a + b) for a, b in hidden]))
        weights = masked_softmax(energies, [True] * len(energies))
        r = [sum((a * v[j][d] for a, j in zip(weights, window, strict=True)), 0.0) for d in range(len(v[0]))]
        found.append((r, [math.tanh(a + b) for a, b in zip(apply(w_r, r), apply(w_x, p[t]), strict=True)]))
    return found


@pytest.mark.parametrize("num_parts", [1, 2, 3])
def test_a_language_model_that_looks_back_is_that_of_the_paper_at_once_and_step_by_step(num_parts):
    attention = key_value_predict(size=6, num_parts=num_parts, reach=REACH).double()
    width = 6 // num_parts
    h, w_r, w_x = draw(2, 7, 6), draw(width, width), draw(width, width)
    at_once = attention(h, attention.prepare(h))[0].context
    memory = attention.prepare(h[:, :0])
    state, steps = attention.initial_state(memory), []
    for t in range(7):
        seen, state = attention.step(h[:, t], memory, state)
        memory = attention.extend(memory, h[:, t : t + 1])
        steps.append(seen.context)
    torch.testing.assert_close(torch.stack(steps, 1), at_once)
    predicts = attention.divide(h)[2]
    predicted = torch.tanh(at_once @ w_r.T + predicts @ w_x.T)
    for row in range(2):
        expected = language_model(
            h[row].tolist(), attention.mechanism.score, attention.sizes, w_r.tolist(), w_x.tolist()
        )
        torch.testing.assert_close(at_once[row].tolist(), [r for r, _ in expected], rtol=0, atol=1e-12)
        torch.testing.assert_close(predicted[row].tolist(), [x for _, x in expected], rtol=0, atol=1e-12)


def test_the_first_step_of_a_language_model_sees_nothing():
    attention = key_value_predict(size=6, num_parts=2)
    h = torch.randn(2, 3, 6)
    seen, _ = attention(h, attention.prepare(h), alignment=True)
    assert not seen.context[:, 0].any()
    assert not seen.alignment[:, :, 0].any()
    assert seen.alignment[:, :, 1, 0].tolist() == [[1.0], [1.0]]


def test_a_window_may_leave_the_present_out():
    window, memory = SlidingWindow(back=2, front=-1), Memory(read=torch.zeros(1, 4, 1, 1))
    support = window(StepInputs(torch.zeros(3, 1), memory, torch.tensor([0, 1, 3])), None)[0].support[:, 0]
    assert support.int().tolist() == [[0, 0, 0, 0], [1, 0, 0, 0], [0, 1, 1, 0]]
    assert window.width == 2


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Divided(bahdanau(query_size=2, memory_size=2), (1, 1, 1, 1)), r"sizes=\(1, 1, 1, 1\) must be"),
        (lambda: key_value_predict(size=7), "size=7 must be a multiple"),
        (lambda: key_value_predict(size=6).prepare(torch.zeros(2, 3, 5)), r"2 \+ 2 \+ 2"),
    ],
)
def test_vectors_that_do_not_divide_are_refused(make, message):
    with pytest.raises(ShapeError, match=message):
        make()


def test_keys_that_are_the_values_are_additive_attention():
    plain = bahdanau(query_size=5, memory_size=6, size=4).double()
    keyed = key_value(query_size=5, memory_size=6, size=4).double()
    keyed.load_state_dict(plain.state_dict())
    values, queries = draw(2, 7, 6), draw(2, 3, 5)
    expected = plain(queries, plain.prepare(values))[0].context
    torch.testing.assert_close(keyed(queries, keyed.prepare(values, keys=values))[0].context, expected)
    other = keyed(queries, keyed.prepare(values, keys=draw(2, 7, 6)))[0].context
    assert not torch.allclose(other, expected)


def test_heads_of_vinyals_are_mechanisms_of_full_width_side_by_side():
    both = vinyals(query_size=5, memory_size=6, num_heads=2).double()
    values, queries = draw(2, 7, 6), draw(2, 3, 5)
    context = both(queries, both.prepare(values))[0].context
    for head in range(2):
        one, rows = vinyals(query_size=5, memory_size=6).double(), slice(6 * head, 6 * head + 6)
        one.score.query_projection.weight.data.copy_(both.score.query_projection.weight[rows])
        one.score.key_projection.weight.data.copy_(both.score.key_projection.weight[rows])
        one.score.v.data.copy_(both.score.v[head : head + 1])
        torch.testing.assert_close(one(queries, one.prepare(values))[0].context, context[..., rows])


@pytest.mark.parametrize("order", ["recur_then_attend", "attend_then_recur"])
def test_a_decoder_that_asks_with_all_states_and_hears_the_top_one_alone_asks_with_its_output(order):
    size = RecurrentDecoder.query_size(tiny.QUERY_SIZE, 2, cell="lstm", query="state")
    assert size == 4 * tiny.QUERY_SIZE
    top = slice(2 * tiny.QUERY_SIZE, 3 * tiny.QUERY_SIZE)  # h of the second layer: h, c, h, c
    decoders = {}
    for query, width in (("state", size), ("output", tiny.QUERY_SIZE)):
        attention = vinyals(query_size=width, memory_size=tiny.MEMORY_SIZE)
        decoders[query] = tiny.recurrent(attention, cell="lstm", num_layers=2, query=query, order=order)
    weights = decoders["output"].state_dict()
    name = "attention.score.query_projection.weight"
    weights[name] = torch.nn.functional.pad(weights[name], (top.start, size - top.stop))
    decoders["state"].load_state_dict(weights)
    encoded = encode(tiny.sources(cell="lstm"))
    ids = torch.tensor([[0, 1, 3, 2], [1, 2, 0, 0]])
    found = [decoder(ids, decoder.prepare(encoded)).log_probabilities for decoder in decoders.values()]
    torch.testing.assert_close(*found)


def test_what_a_decoder_cannot_be_asked_with_is_refused():
    with pytest.raises(UnsupportedError, match="query='context' must be"):
        tiny.recurrent(bahdanau(query_size=4, memory_size=6), query="context")
    with pytest.raises(UnsupportedError, match="without attention there is no query"):
        tiny.without_attention("mean", query="state")


def test_a_decoder_that_asks_with_its_states_says_why_it_takes_steps():
    decoder = tiny.recurrent(bahdanau(query_size=8, memory_size=6), cell="lstm", query="state", input_feeding=False)
    assert decoder.feeds_back == "the query is the state of all layers"


def test_self_attention_reads_every_position_from_the_rows_of_the_softmax():
    attention = SelfAttention(self_attention(size=6, bias=True)).double()
    torch.nn.init.eye_(attention.mechanism.read.output_projection.weight)
    torch.nn.init.zeros_(attention.mechanism.read.output_projection.bias)
    x = draw(2, 5, 6)
    score, read = attention.mechanism.score, attention.mechanism.read
    q, k, v = score.query_projection(x), score.key_projection(x), read.value_projection(x)
    weights = (q @ k.transpose(1, 2) / math.sqrt(6)).softmax(2)
    seen = attention(x, alignment=True)
    torch.testing.assert_close(seen.alignment[:, 0], weights)
    torch.testing.assert_close(seen.context, weights @ v)
    assert attention(x).alignment is None


def test_padding_neither_is_looked_at_nor_looks():
    attention = SelfAttention(self_attention(size=6, num_heads=2, causal=True)).double()
    x = draw(2, 5, 6)
    x[1, 3:] = math.nan
    x.requires_grad_()
    seen = attention(x, lengths=torch.tensor([5, 3]), alignment=True)
    assert not seen.context[1, 3:].any()
    assert not seen.alignment[1, :, 3:].any()
    assert not seen.alignment[1, :, :, 3:].any()
    torch.testing.assert_close(seen.context[1:, :3], attention(x[1:, :3]).context)
    seen.context.sum().backward()
    assert not x.grad[1, 3:].any()
    assert x.grad.isfinite().all()


def test_a_language_models_vectors_may_look_at_themselves():
    attention = SelfAttention(key_value_predict(size=6, reach=2))
    assert attention(torch.randn(2, 5, 6)).context.shape == (2, 5, attention.context_size)


def hierarchy(pooling, rows):
    """Σ α_t h_t with α = softmax(uᵀ tanh(W h_t + b)), over plain rows; zeros of no rows."""
    score = pooling.score
    u, weight, bias = score.context_vector[0].tolist(), score.key_projection.weight, score.key_projection.bias
    energies = [dot(u, [math.tanh(x) for x in apply(weight.tolist(), h, bias.tolist())]) for h in rows]
    weights = masked_softmax(energies, [True] * len(rows))
    return [sum((a * h[d] for a, h in zip(weights, rows, strict=True)), 0.0) for d in range(4)]


def test_words_and_sentences_are_pooled_with_masks_at_both_levels():
    words, sentences = (self_pooling(memory_size=4, size=3).double() for _ in range(2))
    lengths = [[3, 1, 2], [2, 0, 0], [0, 0, 0]]
    documents = draw(3, 3, 3, 4)
    flat, real = documents.flatten(0, 1), torch.tensor(lengths)
    pooled = words.pool(words.prepare(flat, lengths=real.flatten())).context.unflatten(0, (3, 3))
    document = sentences.pool(sentences.prepare(pooled, mask=real > 0)).context
    for row, counts in enumerate(lengths):
        kept = [hierarchy(words, documents[row, s, :n].tolist()) for s, n in enumerate(counts) if n]
        torch.testing.assert_close(document[row].tolist(), hierarchy(sentences, kept), rtol=0, atol=1e-12)
    assert not document[2].any()
