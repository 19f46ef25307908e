"""Snippets of well-known notes on attention, ported: each runs in this library's calls and gives the formula's numbers.

A test is one snippet. What it computes is compared with the formula, written out here with torch's operations only. The
faults that the snippets have are numbered on the page "Migration"; where a port avoids one, a comment has its number.
"""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn
from torch.nn import functional

from regard.attention import (
    Mechanism,
    ScaledDotScore,
    SelfAttention,
    SoftmaxAlignment,
    WeightedSum,
    bahdanau,
    forward_attention,
    key_value,
    key_value_predict,
    location_sensitive,
    luong,
    multi_head,
)
from regard.attention.windows import InEvaluation
from regard.decoding import Search, free_run, search
from regard.interop import ibm, legacy_seq2seq
from regard.interop.annotated_transformer import AnnotatedLayerNorm
from regard.interop.annotated_transformer import change_transformer as annotated_transformer
from regard.interop.windows import argmax_window
from regard.layers import (
    FeedForward,
    PositionedEmbedding,
    RecurrentStack,
    Residual,
    TokenEmbedding,
    TokenHead,
    ValueHead,
)
from regard.models import (
    Bridge,
    EncoderDecoder,
    RecurrentDecoder,
    RecurrentEncoder,
    TransformerOptions,
    hierarchical_attention,
    transformer_decoder,
    transformer_encoder,
)

B, S, T = 2, 5, 3
MASK = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])


@pytest.fixture(autouse=True)
def in_double_precision():
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def close(ours, theirs, atol=1e-12):
    torch.testing.assert_close(ours, theirs, rtol=0, atol=atol)


def masked_softmax(energies, mask):
    """Softmax over the positions (B, S) of a mask, of energies (B, …, S)."""
    while mask.dim() < energies.dim():
        mask = mask[:, None]
    return energies.masked_fill(~mask, -torch.inf).softmax(-1)


# --- note 000: dot products, and the recurrent models of pytorch-seq2seq ---------------------------------------------


def test_ibm_attention_over_contexts():
    attention = ibm.Attention(256)
    context, output = torch.randn(5, 3, 256), torch.randn(5, 5, 256)
    attended, weights = attention(output, context)
    expected = (output @ context.transpose(1, 2)).softmax(-1)
    close(weights, expected)
    mixed = torch.cat([expected @ context, output], 2)
    close(attended, torch.tanh(mixed @ attention.linear_out.weight.T + attention.linear_out.bias))
    hidden = torch.arange(3) >= torch.tensor([3, 2, 1, 3, 2])[:, None]
    attention.set_mask(hidden)  # 2: no .data, and the mask belongs to this memory
    assert not attention(output, context)[1].transpose(1, 2)[hidden].any()


def test_ibm_seq2seq_with_its_encoder_and_decoder():
    encoder = ibm.EncoderRNN(20, 7, 4, bidirectional=True, variable_lengths=True, rnn_cell="lstm")
    decoder = ibm.DecoderRNN(20, 6, 8, sos_id=1, eos_id=2, rnn_cell="lstm", bidirectional=True, use_attention=True)
    model = ibm.Seq2seq(encoder, decoder, decode_function=functional.log_softmax)
    model.flatten_parameters()
    source, lengths = torch.randint(3, 20, (3, 7)), [7, 4, 2]
    target = torch.randint(3, 20, (3, 6))
    outputs, hidden, about = model(source, lengths, target, teacher_forcing_ratio=1)
    assert (len(outputs), outputs[0].shape, hidden[0].shape) == (5, (3, 20), (1, 3, 8))
    memory, (h, c) = encoder(source, lengths)
    state = tuple(torch.cat([part[0], part[1]], -1)[None] for part in (h, c))
    said, _ = decoder.rnn(decoder.embedding(target[:, :-1]), state)
    weights = masked_softmax(said @ memory.transpose(1, 2), torch.arange(7) < torch.tensor(lengths)[:, None])  # 8
    mixed = torch.tanh(decoder.attention.linear_out(torch.cat([weights @ memory, said], 2)))
    close(torch.stack(outputs, 1), decoder.out(mixed).log_softmax(-1))
    close(torch.cat(about["attention_score"], 1), weights)


def test_ibm_decoder_returns_weights_lengths_and_symbols():
    decoder = ibm.DecoderRNN(10, 6, 4, sos_id=1, eos_id=2, n_layers=2, input_dropout_p=0.1, dropout_p=0.2)
    assert (decoder.input_dropout.p, decoder.rnn.dropout) == (0.1, 0.2)  # 5
    outputs, _, about = decoder.eval()(torch.tensor([[1, 4, 5, 6]] * 3))  # 7: a batch of inputs without a state
    symbols = torch.cat(about[decoder.KEY_SEQUENCE], 1)
    assert symbols.shape == (3, 3)
    assert torch.equal(symbols, torch.stack(outputs, 1).argmax(-1))
    for row, length in zip(symbols.tolist(), about[decoder.KEY_LENGTH]):
        assert length == (row.index(2) + 1 if 2 in row else 3)


def test_the_old_attention_cell_of_mozilla():
    annotations, frames = torch.randn(B, 12, 6), torch.randn(B, 8, 5)
    mask = torch.arange(12) < torch.tensor([12, 9])[:, None]
    attention = bahdanau(query_size=7, memory_size=6, size=4, like="mozilla").eval()
    cell = nn.GRUCell(5 + 6, 7)
    memory = attention.prepare(annotations, mask=mask)  # 12: True where a position may be attended to
    state, context, hidden = attention.initial_state(memory), torch.zeros(B, 6), torch.zeros(B, 7)
    weights = dict(attention.named_parameters())
    peak = [0] * B
    for frame in frames.unbind(1):
        previous = hidden
        hidden = cell(torch.cat([frame, context], -1), previous)
        attended, state = attention.step(hidden, memory, state, alignment=True)
        context = attended.context
        keys = annotations @ weights["score.key_projection.weight"].T
        query = hidden @ weights["score.query_projection.weight"].T + weights["score.query_projection.bias"]  # 15: s_i
        energies = torch.tanh(query[:, None] + keys) @ weights["score.v"][0]
        for row in range(B):  # 13, 14: each row has a window of its own, over the source's positions
            allowed = [j for j in range(12) if mask[row, j] and peak[row] - 3 <= j <= peak[row] + 5]
            expected = torch.zeros(12)
            expected[allowed] = energies[row, allowed].sigmoid() / energies[row, allowed].sigmoid().sum()
            close(attended.alignment[row, 0], expected)
            close(context[row], expected @ annotations[row])
            peak[row] = int(expected.argmax())


# --- note 000: location-sensitive and forward attention --------------------------------------------------------------


@pytest.mark.parametrize("cumulative", [True, False], ids=["cumulative", "previous"])
@pytest.mark.parametrize("smoothing", [False, True], ids=["softmax", "smoothing"])
def test_location_sensitive_attention_as_in_rayhanes_tacotron(cumulative, smoothing):
    attention = location_sensitive(
        query_size=6,
        memory_size=5,
        size=4,
        num_filters=3,
        kernel_size=5,
        location="cumulative" if cumulative else "previous",
        alignment="smoothed_sigmoid" if smoothing else "softmax",  # 30
    )
    w = dict(attention.named_parameters())
    source, queries = torch.randn(B, S, 5), torch.randn(B, T, 6)
    memory = attention.prepare(source, mask=MASK)
    state, past = attention.initial_state(memory), torch.zeros(B, S)
    for query in queries.unbind(1):
        attended, state = attention.step(query, memory, state, alignment=True)
        filtered = functional.conv1d(past[:, None], w["score.filters.weight"], padding=2)
        located = filtered.transpose(1, 2) @ w["score.location_projection"][0]
        asked = query @ w["score.content.query_projection.weight"].T + w["score.content.query_projection.bias"]
        keys = source @ w["score.content.key_projection.weight"].T
        energies = (w["score.content.v"][0] * torch.tanh(asked[:, None] + keys + located)).sum(2)  # 26: a sum
        weights = energies.sigmoid() * MASK if smoothing else masked_softmax(energies, MASK)
        weights = weights / weights.sum(-1, keepdim=True)
        close(attended.alignment[:, 0], weights)
        past = past + weights if cumulative else weights


@pytest.mark.parametrize(("constraint", "back", "front"), [("rayhane_window", 4, 2), ("rayhane_monotonic", 0, 6)])
def test_location_sensitive_attention_is_constrained_in_synthesis(constraint, back, front):
    window = InEvaluation(argmax_window(constraint))
    attention = location_sensitive(query_size=6, memory_size=5, size=4, window=window)
    memory = attention.prepare(torch.randn(B, 20, 5))
    trained, _ = attention.train().step(torch.randn(B, 6), memory, attention.initial_state(memory), alignment=True)
    assert trained.alignment.ne(0).all()
    state, peak = attention.eval().initial_state(memory), torch.zeros(B, dtype=torch.long)
    for _ in range(8):
        attended, state = attention.step(3 * torch.randn(B, 6), memory, state, alignment=True)
        for row in range(B):
            allowed = range(max(0, int(peak[row]) - back), min(20, int(peak[row]) + front + 1))  # 30, 31
            assert attended.alignment[row, 0].nonzero()[:, 0].tolist() == list(allowed)
        peak = attended.alignment[:, 0].argmax(-1)


@pytest.mark.parametrize("agent", [False, True], ids=["stays or moves", "transition agent"])
def test_forward_attention(agent):
    options = {"transition_agent": True, "agent_size": 3, "input_size": 4} if agent else {}
    attention = forward_attention(query_size=6, memory_size=5, size=4, score="additive", **options)
    w = dict(attention.named_parameters())
    source, queries, said = torch.randn(B, S, 5), torch.randn(B, T, 6), torch.randn(B, T, 4)
    memory = attention.prepare(source, mask=MASK)
    state = attention.initial_state(memory)
    alpha = functional.one_hot(torch.zeros(B, dtype=torch.long), S).to(source)
    moving = torch.full((B, 1), 0.5)
    for query, last in zip(queries.unbind(1), said.unbind(1)):
        attended, state = attention.step(query, memory, state, inputs=last, alignment=True)
        asked = query @ w["score.query_projection.weight"].T + w["score.query_projection.bias"]
        keys = source @ w["score.key_projection.weight"].T
        y = masked_softmax(torch.tanh(asked[:, None] + keys) @ w["score.v"][0], MASK)
        shifted = functional.pad(alpha, (1, 0))[:, :-1]
        alpha = ((1 - moving) * alpha + moving * shifted) * y  # 32: y_t(n) times the sum
        alpha = alpha / alpha.sum(-1, keepdim=True)
        close(attended.alignment[:, 0], alpha)
        context = torch.einsum("bs,bsm->bm", alpha, source)
        close(attended.context, context)
        if agent:
            joined = torch.cat([context, last, query], -1)
            hidden = torch.tanh(joined @ w["alignment.agent.hidden.weight"].T + w["alignment.agent.hidden.bias"])
            moving = (hidden @ w["alignment.agent.output.weight"].T + w["alignment.agent.output.bias"]).sigmoid()


# --- note 000: the annotated Transformer -----------------------------------------------------------------------------


def scaled_dot(query, key, value, mask=None):
    """softmax(Q Kᵀ / √d) V and its weights; K is transposed (33)."""
    energies = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
    if mask is not None:
        energies = energies.masked_fill(~mask, -torch.inf)
    weights = energies.softmax(-1)
    return weights @ value, weights


def heads_of(w, name, query, memory, num_heads, mask):
    """Multi-head attention by the weights of a layer's attention."""

    def project(kind, x):
        x = x @ w[f"{name}.{kind}.weight"].T + w[f"{name}.{kind}.bias"]
        return x.unflatten(-1, (num_heads, -1)).transpose(1, 2)

    read, _ = scaled_dot(
        project("score.query_projection", query),
        project("score.key_projection", memory),
        project("read.values.value_projection", memory),
        mask[:, None],
    )
    joined = read.transpose(1, 2).flatten(2)
    return (
        joined @ w[f"{name}.read.values.output_projection.weight"].T + w[f"{name}.read.values.output_projection.bias"]
    )


def norm(w, name, x, epsilon=1e-6):
    return (
        w[f"{name}.weight"] * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + epsilon) + w[f"{name}.bias"]
    )


def feed(w, name, x):
    inner = (x @ w[f"{name}.inner.weight"].T + w[f"{name}.inner.bias"]).relu()
    return inner @ w[f"{name}.outer.weight"].T + w[f"{name}.outer.bias"]


def sinusoids(length, size):
    table = torch.zeros(length, size)
    for position in range(length):
        for i in range(0, size, 2):
            angle = position / 10000 ** (i / size)
            table[position, i] = math.sin(angle)
            if i + 1 < size:  # 37: an odd width ends in a sine
                table[position, i + 1] = math.cos(angle)
    return table


def test_attention_of_the_annotated_transformer():
    mechanism = Mechanism(ScaledDotScore(8, 8, 8), SoftmaxAlignment(), WeightedSum(8))
    with torch.no_grad():  # without projections
        mechanism.score.query_projection.weight.copy_(torch.eye(8))
        mechanism.score.key_projection.weight.copy_(torch.eye(8))
    query, memory = torch.randn(B, T, 8), torch.randn(B, S, 8)
    attended, _ = mechanism(query, mechanism.prepare(memory, mask=MASK), alignment=True)
    expected, weights = scaled_dot(query, memory, memory, MASK[:, None])
    close(attended.context, expected)
    close(attended.alignment[:, 0], weights)
    half, _ = mechanism.half()(query.half(), mechanism.prepare(memory.half(), mask=MASK), alignment=True)
    assert half.alignment[:, 0].isfinite().all()  # 37: no fill that overflows
    assert not half.alignment[1, 0, :, 3:].any()


def test_multi_head_attention_of_the_annotated_transformer():
    mechanism = multi_head(query_size=8, memory_size=8, size=8, num_heads=2, bias=True, dropout=0.1).eval()
    query, memory = torch.randn(B, T, 8), torch.randn(B, S, 8)
    attended, _ = mechanism(query, mechanism.prepare(memory, mask=MASK))
    w = {f"layer.{name}": value for name, value in mechanism.named_parameters()}
    close(attended.context, heads_of(w, "layer", query, memory, 2, MASK[:, None]))


def test_layer_norm_sublayer_and_feed_forward_of_the_annotated_transformer():
    x = torch.randn(B, S, 8)
    ours = AnnotatedLayerNorm(8)
    w = {f"n.{name}": value for name, value in ours.named_parameters()}  # 34: parameters, and ε is added to σ
    close(ours(x), norm(w, "n", x))
    assert (ours(x) - functional.layer_norm(x, (8,))).abs().max() > 1e-3
    feed_forward = FeedForward(8, 16, dropout=0.1).eval()  # 35
    close(feed_forward(x), feed({f"f.{name}": value for name, value in feed_forward.named_parameters()}, "f", x))
    residual = Residual(8, dropout=0.1).eval()
    residual.norm = ours
    close(residual.leave(x, feed_forward(residual.enter(x))), x + feed_forward(ours(x)))


@pytest.mark.parametrize("size", [8, 7])
def test_positions_of_the_annotated_transformer(size):
    embedding = TokenEmbedding(10, size)
    ids = torch.randint(1, 10, (B, 60))
    ours = PositionedEmbedding(embedding, positions="sinusoidal", scaled=True)(ids, torch.arange(60))
    close(ours, embedding.table.weight[ids] * math.sqrt(size) + sinusoids(60, size))  # 36: times √D


def make_model(source_symbols, target_symbols, layers=2, size=8, feed_forward_size=16, num_heads=2, dropout=0.1):
    """The model as it is assembled there: encoder, decoder, embeddings times √D, positions, generator."""
    options = TransformerOptions(projection_bias=True, norm_epsilon=1e-6, attention_dropout=dropout)  # 37
    shared = {"num_layers": layers, "num_heads": num_heads, "feed_forward_size": feed_forward_size, "norm": "pre"}
    shared |= {"dropout": dropout, "options": options}
    encoder = transformer_encoder(TokenEmbedding(source_symbols, size), **shared)
    head = TokenHead(size, target_symbols)
    decoder = transformer_decoder(TokenEmbedding(target_symbols, size), head, memory_size=size, **shared)
    for part in (encoder, decoder):
        annotated_transformer(part)
    return EncoderDecoder(encoder, decoder)


def test_make_model_of_the_annotated_transformer():
    model = make_model(11, 13).eval()
    source, target = torch.randint(1, 11, (B, S)), torch.randint(1, 13, (B, T))
    output = model(source, target, mask=MASK)
    w = dict(model.named_parameters())
    x = w["encoder.embedding.embedding.table.weight"][source] * math.sqrt(8) + sinusoids(S, 8)
    for i in range(2):
        name = f"encoder.layers.{i}"
        attended = norm(w, f"{name}.residuals.0.norm", x)
        x = x + heads_of(w, f"{name}.attention", attended, attended, 2, MASK[:, None])
        x = x + feed(w, f"{name}.feed_forward", norm(w, f"{name}.residuals.1.norm", x))
    memory = norm(w, "encoder.norm", x)
    past = torch.ones(T, T, dtype=torch.bool).tril()[None]
    x = w["decoder.embedding.embedding.table.weight"][target] * math.sqrt(8) + sinusoids(T, 8)
    for i in range(2):
        name = f"decoder.layers.{i}"
        attended = norm(w, f"{name}.residuals.0.norm", x)
        x = x + heads_of(w, f"{name}.attention", attended, attended, 2, past)
        asked = norm(w, f"{name}.residuals.1.norm", x)
        x = x + heads_of(w, f"{name}.cross_attention", asked, memory, 2, MASK[:, None])
        x = x + feed(w, f"{name}.feed_forward", norm(w, f"{name}.residuals.2.norm", x))
    logits = norm(w, "decoder.norm", x) @ w["decoder.head.projection.weight"].T + w["decoder.head.projection.bias"]
    close(output.log_probabilities, logits.log_softmax(-1), atol=1e-10)


def test_the_annotated_transformer_writes_a_sentence_symbol_by_symbol():
    model = make_model(11, 13, layers=1).eval()
    source = torch.randint(1, 11, (B, S))
    with torch.no_grad():
        memory = model.prepare(source, MASK)
        found = search(model.decoder, memory, Search(beam=1), bos=1, eos=2, max_length=6)
        written = torch.full((B, 1), 1)
        for _ in range(6):
            said = model(source, written, mask=MASK).log_probabilities[:, -1]
            written = torch.cat([written, said.argmax(-1, keepdim=True)], 1)
    for row, (hypothesis,) in enumerate(found):
        assert hypothesis.tokens.tolist() == written[row, 1 : len(hypothesis.tokens) + 1].tolist()


# --- notes 001 and 002: scores, global attention, pooling, keys and values, self-attention ---------------------------


@pytest.mark.parametrize("score", ["dot", "multiplicative", "additive", "concat"])
def test_scores_of_the_notes(score):
    query, memory = torch.randn(B, 1, 6), torch.randn(B, S, 6 if score == "dot" else 5)
    sizes = {"query_size": 6, "memory_size": memory.shape[-1]}
    if score == "additive":
        mechanism = bahdanau(**sizes, size=4)
        v, w_1, w_2 = (
            dict(mechanism.score.named_parameters())[n]
            for n in ("v", "key_projection.weight", "query_projection.weight")
        )
        assert w_2.shape == (4, 6)  # 38: W₂ is d₃ × d₂
        energies = torch.tanh(memory @ w_1.T + query @ w_2.T) @ v[0]
    elif score == "concat":
        mechanism = luong(**sizes, score="concat", size=4)
        w = dict(mechanism.score.named_parameters())
        joined = torch.cat([w["additive.query_projection.weight"], w["additive.key_projection.weight"]], 1)
        pairs = torch.cat([query.expand(-1, S, -1), memory], -1)
        energies = torch.tanh(pairs @ joined.T) @ w["additive.v"][0]  # 43: W acts on the two beside each other
    elif score == "multiplicative":
        mechanism = luong(**sizes, score="general")
        energies = torch.einsum("btq,qm,bsm->bs", query, mechanism.score.key_projection.weight, memory)
    else:
        mechanism = luong(**sizes, score="dot")
        energies = torch.einsum("btq,bsq->bs", query, memory)  # 39: from h_1 on
    attended, _ = mechanism(query, mechanism.prepare(memory, mask=MASK), alignment=True)
    weights = masked_softmax(energies, MASK)  # 40: the denominator sums over its own index
    close(attended.alignment[:, 0, 0], weights)
    close(attended.context[:, 0], torch.einsum("bs,bsm->bm", weights, memory))


def test_all_queries_at_once_are_softmax_of_q_kt_times_v():
    mechanism = luong(query_size=6, memory_size=6, score="dot")
    query, memory = torch.randn(B, T, 6), torch.randn(B, S, 6)
    attended, _ = mechanism(query, mechanism.prepare(memory))
    close(attended.context, (query @ memory.transpose(1, 2)).softmax(-1) @ memory)


class GlobalAttention(nn.Module):
    """Note 002's class: general scores, and tanh over context and state; of all steps, or of one."""

    def __init__(self, encoder_size, decoder_size, output_size):
        super().__init__()
        self.attention = luong(query_size=decoder_size, memory_size=encoder_size)
        self.of_context = nn.Linear(encoder_size, output_size, bias=False)
        self.of_state = nn.Linear(decoder_size, output_size)

    def forward(self, states, memory):
        attended, _ = self.attention(states, memory, alignment=True)
        return torch.tanh(self.of_context(attended.context) + self.of_state(states)), attended.alignment[:, 0]

    def step(self, state, memory):
        first = self.attention.initial_state(memory)
        attended, _ = self.attention.step(state, memory, first, alignment=True)
        return torch.tanh(self.of_context(attended.context) + self.of_state(state)), attended.alignment[:, 0]


def test_global_attention_of_all_steps_and_of_one():
    model = GlobalAttention(5, 6, 4)
    source, states = torch.randn(B, S, 5), torch.randn(B, T, 6)
    memory = model.attention.prepare(source, mask=MASK)
    output, weights = model(states, memory)
    energies = torch.einsum("btd,dm,bsm->bts", states, model.attention.score.key_projection.weight, source)
    expected = masked_softmax(energies, MASK)  # 41: padding has -∞ before the softmax, and so no weight
    close(weights, expected)
    assert not weights[1, :, 3:].any()
    wrong = (energies * MASK[:, None]).softmax(-1)
    assert wrong[1, :, 3:].sum(-1).min() > 0.05
    close(output, torch.tanh(model.of_context(expected @ source) + model.of_state(states)))
    single = [model.step(state, memory) for state in states.unbind(1)]
    close(torch.stack([step[0] for step in single], 1), output)
    close(torch.stack([step[1] for step in single], 1), weights)


def test_hierarchical_attention_over_words_and_sentences():
    model = hierarchical_attention(12, 3, embedding_size=6, size=4, attention_size=5).eval()
    documents = torch.tensor([[[4, 5, 6], [7, 8, 0]], [[9, 10, 0], [0, 0, 0]]])
    output = model(documents, documents != 0)
    w = dict(model.named_parameters())

    def pooled(level, vectors):
        states, _ = getattr(model, level).stack(vectors[None])
        names = [name for name in w if name.startswith(f"{level}.pooling")]
        context, weight, bias = (
            next(w[n] for n in names if n.endswith(end)) for end in ("context_vector", "weight", "bias")
        )
        u = torch.tanh(states @ weight.T + bias)  # 44: the learned context vector is u_w, not u_it
        alpha = (u @ context[0]).softmax(-1)
        return torch.einsum("bs,bsm->bm", alpha, states)[0], alpha[0]

    table = next(value for name, value in w.items() if name.endswith("table.weight"))
    for row, document in enumerate(documents):
        sentences = [[int(word) for word in sentence if word] for sentence in document]
        sentences = [sentence for sentence in sentences if sentence]
        words = [pooled("word", table[torch.tensor(sentence)]) for sentence in sentences]
        vector, alpha = pooled("sentence", torch.stack([vector for vector, _ in words]))
        logits = next(layer for layer in model.children() if isinstance(layer, nn.Linear))(vector)
        close(output.logits[row], logits)
        close(output.sentence_weights[row, : len(sentences)], alpha)
        for i, (_, weights) in enumerate(words):
            close(output.word_weights[row, i, : len(weights)], weights)


def test_keys_find_values():
    mechanism = key_value(query_size=6, memory_size=5, key_size=4, size=3)
    query, keys, values = torch.randn(B, 6), torch.randn(B, S, 4), torch.randn(B, S, 5)
    memory = mechanism.prepare(values, keys=keys, mask=MASK)
    attended, _ = mechanism.step(query, memory, mechanism.initial_state(memory), alignment=True)
    w = dict(mechanism.score.named_parameters())
    hidden = torch.tanh((query @ w["query_projection.weight"].T)[:, None] + keys @ w["key_projection.weight"].T)
    weights = masked_softmax(hidden @ w["v"][0], MASK)
    close(attended.context, torch.einsum("bs,bsm->bm", weights, values))


def test_key_value_predict_attention_over_the_last_steps():
    attention = key_value_predict(size=12, reach=3)
    h = torch.randn(B, 6, 12)
    attended, _ = attention(h, attention.prepare(h), alignment=True)
    w = dict(attention.mechanism.score.named_parameters())
    keys, values = h[..., :4], h[..., 4:8]
    for t in range(6):
        past = list(range(max(0, t - 3), t))  # h_t is not in its own memory
        if not past:
            assert not attended.context[:, t].any()
            continue
        hidden = torch.tanh(
            (keys[:, t] @ w["query_projection.weight"].T)[:, None] + keys[:, past] @ w["key_projection.weight"].T
        )
        weights = (hidden @ w["v"][0]).softmax(-1)
        close(attended.context[:, t], torch.einsum("bs,bsm->bm", weights, values[:, past]))


def test_single_head_self_attention_of_keras():
    x = torch.randn(B, 20, 512)
    score = ScaledDotScore(512, 512, 64, bias=True)  # 46: scaled by √d for any d
    mechanism, value = Mechanism(score, SoftmaxAlignment(), WeightedSum(64)), nn.Linear(512, 64)
    attended, _ = mechanism(x, mechanism.prepare(value(x), keys=x), alignment=True)
    query, key = score.query_projection(x), score.key_projection(x)
    weights = (query @ key.transpose(1, 2) / 8).softmax(-1)
    close(attended.alignment[:, 0], weights)
    assert attended.context.shape == (B, 20, 64)
    close(attended.context, weights @ value(x))  # 45: the sum runs over the memory, not over the queries
    contracted = torch.einsum("bsd,bsq->bdq", value(x), weights)
    assert (contracted.transpose(1, 2) - attended.context).abs().max() > 1e-3
    assert SelfAttention(multi_head(query_size=512, memory_size=512, size=64, num_heads=1))(x).context.shape == (
        B,
        20,
        64,
    )


# --- note 003: attention_decoder -------------------------------------------------------------------------------------


def test_attention_decoder_returns_where_it_looked():
    cell = nn.LSTMCell(3, 4)
    scope = legacy_seq2seq.AttentionDecoder(cell, 6, num_heads=2, input_size=3, attention_size=5)
    inputs, states = [torch.randn(B, 3) for _ in range(T)], torch.randn(B, S, 5)
    first = (torch.randn(B, 4), torch.randn(B, 4))
    outputs, (h, c), locations = legacy_seq2seq.attention_decoder(
        inputs,
        first,
        states,
        cell,
        6,
        num_heads=2,
        scope=scope,
        initial_state_attention=True,
        mask=MASK,  # 47, 50
    )
    w = dict(scope.named_parameters())

    def attend(h, c):
        query = torch.cat([h, c], -1) @ w["attention.score.query_projection.weight"].T
        query = (query + w["attention.score.query_projection.bias"]).unflatten(-1, (2, 5))
        keys = (states @ w["attention.score.key_projection.weight"].T).unflatten(-1, (2, 5))
        energies = (torch.tanh(keys + query[:, None]) * w["attention.score.v"]).sum(-1).transpose(1, 2)
        weights = masked_softmax(energies, MASK)
        return (weights @ states).flatten(1), weights

    read, _ = attend(*first)
    state = first
    for t in range(T):
        state = cell(scope.input_layer(torch.cat([inputs[t], read], 1)), state)
        read, weights = attend(*state)
        close(outputs[t], scope.output_layer(torch.cat([state[0], read], 1)))
        assert [location.shape for location in locations[t]] == [(B, S)] * 2  # 49: of each head
        close(torch.stack(locations[t], 1), weights)
    close((h, c), state)


# --- note 004: a forecaster ------------------------------------------------------------------------------------------


class AsItIs(nn.Module):
    """Values as the cell's input, without a layer of their own."""

    def __init__(self, size):
        super().__init__()
        self.size = size

    def forward(self, values):
        return values


def forecaster(features=3, size=7):
    """Encoder and decoder of LSTMs; the decoder's input is the last value beside what the old state attends to."""
    encoder = RecurrentEncoder(AsItIs(features), RecurrentStack(features, size, cell="lstm"))
    attention = luong(query_size=size, memory_size=size, score="dot")
    stack = RecurrentStack(features + size, size, cell="lstm")
    decoder = RecurrentDecoder(
        AsItIs(features),
        stack,
        ValueHead(size, features),  # 54: F values from D features
        Bridge(encoder.stack, stack, "copy"),  # 53
        attention=attention,
        order="attend_then_recur",
        readout="state",
        continuous=True,
    )
    return EncoderDecoder(encoder, decoder)  # 51


def forecast(model, past, steps, future=None, mask=None):
    """The note's loop: what the old state attends to, then the cell; fed the truth, or what was said."""
    mask = torch.ones(past.shape[:2], dtype=torch.bool) if mask is None else mask
    encoded = model.encoder(past, mask)
    ((h, c),), memory = encoded.final_state, encoded.memory
    w = dict(model.decoder.stack.named_parameters())
    fed = past[torch.arange(len(past)), mask.sum(1) - 1]  # 55: the last value
    said, looks = [], []
    for t in range(steps):
        weights = masked_softmax((h[:, None] * memory).sum(-1), mask)  # 57: over the features
        context = (weights[..., None] * memory).sum(1)  # 52
        x = torch.cat([fed, context], 1)
        gates = x @ w["layers.0.weight_ih_l0"].T + w["layers.0.bias_ih_l0"]
        gates = gates + h @ w["layers.0.weight_hh_l0"].T + w["layers.0.bias_hh_l0"]
        i, f, g, o = gates.chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        said.append(model.decoder.head(h))
        looks.append(weights)
        fed = said[-1] if future is None else future[:, t]
    return torch.stack(said, 1), torch.stack(looks, 1)


def test_a_forecaster_is_trained_on_true_values():
    model = forecaster()
    past, future = torch.randn(4, 12, 3), torch.randn(4, 6, 3)
    inputs = torch.cat([past[:, -1:], future[:, :-1]], 1)
    output = model(past, inputs, alignment=True)
    values, weights = forecast(model, past, 6, future)
    close(output.values, values)
    assert output.values.dtype == past.dtype  # 56
    close(output.alignments["attention"][:, 0], weights)


def test_a_forecaster_is_fed_what_it_said():
    model = forecaster().eval()
    past = torch.randn(4, 12, 3)
    mask = torch.arange(12) < torch.tensor([12, 9, 12, 5])[:, None]
    first = past[torch.arange(4), mask.sum(1) - 1]
    with torch.no_grad():
        trajectories = free_run(model.decoder, model.prepare(past, mask), first, max_length=6, alignment=True)
        values, weights = forecast(model, past, 6, mask=mask)
    close(torch.stack([trajectory.values for trajectory in trajectories]), values)
    close(torch.stack([trajectory.alignments["attention"][0] for trajectory in trajectories]), weights)
