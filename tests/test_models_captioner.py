"""Show, Attend and Tell's decoder, and as other programs compute it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from regard.attention import bahdanau
from regard.errors import DataError, ShapeError, UnsupportedError
from regard.interop.arctic import from_arctic
from regard.interop.sgrvinod import from_sgrvinod
from regard.layers import RecurrentStack, TokenEmbedding, TokenHead
from regard.models import Bridge, DeepReadout, RecurrentDecoder, captioner
from regard.models.contract import Encoded
from regard.testing.mechanism import move_weights

N, M, E, D, A, B, S, T = 9, 6, 4, 5, 3, 2, 12, 4
BOS = 1
SIZES = {"memory_size": M, "embedding_size": E, "size": D, "attention_size": A}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def softmax(x):
    return np.exp(log_softmax(x))


def drawn(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def captions():
    return torch.tensor([[BOS, 4, 6, 2], [BOS, 8, 4, 5]])


def made(**options):
    torch.manual_seed(0)
    decoder = captioner(N, **SIZES, **options).double().eval()
    move_weights(decoder)
    return decoder


def numbers(module, name):
    return module.get_parameter(name).detach().numpy()


def lstm(x, h, c, w_ih, w_hh, bias):
    """torch's order of gates: i, f, g, o."""
    i, f, g, o = np.split(w_ih @ x + w_hh @ h + bias, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def test_the_papers_decoder_is_its_equations():
    decoder = made()
    values, inputs = drawn(B, S, M).numpy(), captions().numpy()
    output = decoder(captions(), decoder.prepare(Encoded(drawn(B, S, M))), alignment=True)
    score, read = decoder.attention.score, decoder.attention.read
    w, b, u, v = (
        numbers(score, n) for n in ("query_projection.weight", "query_projection.bias", "key_projection.weight", "v")
    )
    for row in range(B):
        a = values[row]
        first = np.tanh(numbers(decoder, "bridge.maps.0.weight") @ a.mean(0) + numbers(decoder, "bridge.maps.0.bias"))
        h, c = first[:D], first[D:]
        for t in range(T):
            x = numbers(decoder, "embedding.table.weight")[inputs[row, t]]
            alpha = softmax(np.array([v[0] @ np.tanh(w @ h + b + u @ a[j]) for j in range(S)]))
            beta = sigmoid(numbers(read, "gate.weight")[0] @ h + numbers(read, "gate.bias")[0])
            z = beta * sum(alpha[j] * a[j] for j in range(S))
            cell = [
                numbers(decoder, f"stack.layers.0.{n}_l0") for n in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            ]
            h, c = lstm(np.concatenate([x, z]), h, c, cell[0], cell[1], cell[2] + cell[3])
            inner = x + numbers(decoder, "readout.of_state.weight") @ h + numbers(decoder, "readout.of_state.bias")
            inner = inner + numbers(decoder, "readout.of_context.weight") @ z
            said = log_softmax(
                numbers(decoder, "head.projection.weight") @ inner + numbers(decoder, "head.projection.bias")
            )
            np.testing.assert_allclose(output.log_probabilities[row, t].detach().numpy(), said, rtol=0, atol=1e-12)
            np.testing.assert_allclose(
                output.alignments["attention"][row, 0, t].detach().numpy(), alpha, rtol=0, atol=1e-12
            )


def sgrvinod_weights():
    """Named and shaped as the tutorial's decoder has them."""
    torch.manual_seed(3)
    layers = {
        "attention.encoder_att": nn.Linear(M, A),
        "attention.decoder_att": nn.Linear(D, A),
        "attention.full_att": nn.Linear(A, 1),
        "embedding": nn.Embedding(N, E),
        "decode_step": nn.LSTMCell(E + M, D),
        "init_h": nn.Linear(M, D),
        "init_c": nn.Linear(M, D),
        "f_beta": nn.Linear(D, M),
        "fc": nn.Linear(D, N),
    }
    weights = {f"{name}.{key}": w.double() for name, layer in layers.items() for key, w in layer.state_dict().items()}
    return weights, {name: layer.double() for name, layer in layers.items()}


def test_weights_of_sgrvinods_decoder_give_its_outputs():
    weights, layers = sgrvinod_weights()
    decoder = from_sgrvinod(weights).eval()
    a, inputs = drawn(B, S, M), captions()
    ours = decoder(inputs, decoder.prepare(Encoded(a)), alignment=True)
    h, c = layers["init_h"](a.mean(1)), layers["init_c"](a.mean(1))
    for t in range(T):
        hidden = functional.relu(layers["attention.encoder_att"](a) + layers["attention.decoder_att"](h)[:, None])
        alpha = layers["attention.full_att"](hidden)[:, :, 0].softmax(1)
        context = torch.sigmoid(layers["f_beta"](h)) * torch.einsum("bs,bsm->bm", alpha, a)
        h, c = layers["decode_step"](torch.cat([layers["embedding"](inputs[:, t]), context], 1), (h, c))
        said = layers["fc"](h).log_softmax(-1)
        torch.testing.assert_close(ours.log_probabilities[:, t], said, rtol=0, atol=1e-12)
        torch.testing.assert_close(ours.alignments["attention"][:, 0, t], alpha, rtol=0, atol=1e-12)


def arctic_weights():
    """Named and shaped as in the files of arctic-captions."""
    random = np.random.default_rng(5)
    shapes = {
        "Wemb": (N - 1, E),
        **{f"ff_{name}_W": (M, D) for name in ("state", "memory")},
        **{f"ff_{name}_b": (D,) for name in ("state", "memory")},
        "decoder_W": (E, 4 * D),
        "decoder_U": (D, 4 * D),
        "decoder_b": (4 * D,),
        "decoder_Wc": (M, 4 * D),
        "decoder_Wc_att": (M, M),
        "decoder_b_att": (M,),
        "decoder_Wd_att": (D, M),
        "decoder_U_att": (M, 1),
        "decoder_c_tt": (1,),
        "decoder_W_sel": (D, 1),
        "decoder_b_sel": (1,),
        "ff_logit_lstm_W": (D, E),
        "ff_logit_lstm_b": (E,),
        "ff_logit_ctx_W": (M, E),
        "ff_logit_ctx_b": (E,),
        "ff_logit_W": (E, N - 1),
        "ff_logit_b": (N - 1,),
    }
    return {name: random.normal(size=shape) * 0.5 for name, shape in shapes.items()}


def test_weights_of_arctic_captions_give_its_outputs():
    p = arctic_weights()
    decoder = from_arctic({**p, "history_errs": np.zeros(3)}).eval()
    a = drawn(B, S, M)
    words = np.array([[4, 6, 2, 0], [7, 4, 5, 1]])
    inputs = torch.tensor(np.concatenate([np.full((B, 1), N - 1), words[:, :-1]], 1))
    ours = decoder(inputs, decoder.prepare(Encoded(a)), alignment=True)
    assert ours.log_probabilities.shape == (B, T, N)
    assert ours.log_probabilities[..., -1].isneginf().all()
    for row in range(B):
        ctx = a[row].numpy()
        h, c = (np.tanh(ctx.mean(0) @ p[f"ff_{n}_W"] + p[f"ff_{n}_b"]) for n in ("state", "memory"))
        for t in range(T):
            emb = np.zeros(E) if t == 0 else p["Wemb"][words[row, t - 1]]
            hidden = np.tanh(ctx @ p["decoder_Wc_att"] + p["decoder_b_att"] + h @ p["decoder_Wd_att"])
            alpha = softmax((hidden @ p["decoder_U_att"])[:, 0] + p["decoder_c_tt"])
            context = (ctx * alpha[:, None]).sum(0) * sigmoid(h @ p["decoder_W_sel"] + p["decoder_b_sel"])
            preact = h @ p["decoder_U"] + emb @ p["decoder_W"] + p["decoder_b"] + context @ p["decoder_Wc"]
            i, f, o, g = np.split(preact, 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            inner = h @ p["ff_logit_lstm_W"] + p["ff_logit_lstm_b"] + emb
            inner = np.tanh(inner + context @ p["ff_logit_ctx_W"] + p["ff_logit_ctx_b"])
            said = log_softmax(inner @ p["ff_logit_W"] + p["ff_logit_b"])
            np.testing.assert_allclose(ours.log_probabilities[row, t, :-1].detach().numpy(), said, rtol=0, atol=1e-12)
            np.testing.assert_allclose(
                ours.alignments["attention"][row, 0, t].detach().numpy(), alpha, rtol=0, atol=1e-12
            )


def test_the_bilinear_decoder_attends_after_the_cell_and_masks_before_the_softmax():
    decoder = made(like="bilinear")
    mask, inputs = torch.ones(B, S, dtype=torch.bool), captions()
    mask[1, 7:] = False
    a = drawn(B, S, M).masked_fill(~mask[..., None], 0)
    output = decoder(inputs, decoder.prepare(Encoded(a, mask)), alignment=True)
    cells = nn.LSTM(E, D, batch_first=True).double()
    cells.load_state_dict(decoder.stack.layers[0].state_dict())
    first = torch.tanh(decoder.bridge.maps[0](a.sum(1) / mask.sum(1, keepdim=True))).split(D, 1)
    s, _ = cells(decoder.embedding(inputs), tuple(part[None].contiguous() for part in first))
    energies = torch.einsum("btd,dm,bsm->bts", s, decoder.attention.score.key_projection.weight, a)
    alpha = energies.masked_fill(~mask[:, None], -torch.inf).softmax(-1)
    w_s, w_c = decoder.readout.weight.split([D, M], 1)
    said = decoder.head(torch.tanh(s @ w_s.t() + alpha @ a @ w_c.t() + decoder.readout.bias))
    torch.testing.assert_close(output.log_probabilities, said, rtol=0, atol=1e-12)
    torch.testing.assert_close(output.alignments["attention"][:, 0], alpha, rtol=0, atol=1e-12)


@pytest.mark.parametrize("like", [None, "arctic", "sgrvinod", "bilinear"])
def test_steps_are_the_forced_pass(like):
    decoder = made(like=like, num_layers=2)
    memory = decoder.prepare(Encoded(drawn(B, S, M)))
    whole = decoder(captions(), memory).log_probabilities
    state = decoder.initial_state(memory)
    for t in range(T):
        output, state = decoder.step(captions()[:, t], memory, state)
        torch.testing.assert_close(output.log_probabilities, whole[:, t], rtol=0, atol=1e-12)


def test_arctics_captions_begin_with_zeros_that_never_learn():
    decoder = captioner(N, **SIZES, like="arctic", bos=BOS)
    assert (decoder.embedding.table.weight[BOS] == 0).all()
    decoder(captions(), decoder.prepare(Encoded(drawn(B, S, M).float()))).log_probabilities[..., 3].sum().backward()
    assert (decoder.embedding.table.weight.grad[BOS] == 0).all()
    assert decoder.embedding.table.weight.grad[4].any()


def test_hard_attention_reads_one_annotation_and_says_which():
    decoder = captioner(N, **SIZES, hard=True).train()
    output = decoder(captions(), decoder.prepare(Encoded(drawn(B, S, M).float())), alignment=True)
    assert (output.alignments["attention"].sum(-1) == 1).all()
    assert (output.alignments["attention"].amax(-1) == 1).all()
    assert output.auxiliary["attention.log_probability"].shape == (B, T, 1)


def test_another_attention_may_be_given():
    mechanism = bahdanau(query_size=D, memory_size=M, size=A)
    assert captioner(N, **SIZES, attention=mechanism).attention is mechanism


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"like": "keras"}, "like='keras' must be 'arctic', 'sgrvinod', 'bilinear', or None"),
        ({"like": "bilinear", "hard": True}, "leave out hard, mix and gate"),
        ({"attention": bahdanau(query_size=D, memory_size=M), "gate": None}, "leave them out if attention is given"),
    ],
)
def test_options_that_contradict_each_other_are_errors(options, message):
    with pytest.raises(UnsupportedError, match=message):
        captioner(N, **SIZES, **options)


def test_weights_that_do_not_fit_are_errors():
    weights, _ = sgrvinod_weights()
    with pytest.raises(DataError, match="There is no weight f_beta"):
        from_sgrvinod({name: w for name, w in weights.items() if not name.startswith("f_beta")})
    with pytest.raises(DataError, match="no module here has: resnet"):
        from_sgrvinod({**weights, "resnet": torch.zeros(1)})
    with pytest.raises(DataError, match=r"gate.weight is \(1, 5\); .*gate.weight needs \(6, 5\)"):
        from_sgrvinod({**weights, "f_beta.weight": torch.zeros(1, D), "f_beta.bias": torch.zeros(1)})


def with_readout(readout, *, order="attend_then_recur", embedding_size=E, **options):
    mechanism = bahdanau(query_size=D, memory_size=M, size=A)
    width = RecurrentDecoder.input_size(embedding_size, D, attention=mechanism, order=order, **options)
    stack = RecurrentStack(width, D)
    head = TokenHead(readout.size if isinstance(readout, DeepReadout) else D, N)
    parts = TokenEmbedding(N, embedding_size), stack, head, Bridge(M, stack)
    return RecurrentDecoder(*parts, attention=mechanism, order=order, readout=readout, **options)


@pytest.mark.parametrize("order", ["attend_then_recur", "recur_then_attend"])
@pytest.mark.parametrize("tanh", [False, True])
def test_a_deep_readout_adds_what_its_options_say(order, tanh):
    options = {} if order == "attend_then_recur" else {"input_feeding": False}
    for previous in (True, False):
        for context in (True, False):
            deep = {"previous": previous, "context": context, "tanh": tanh}
            readout = DeepReadout(D, embedding_size=E, context_size=M, **deep)
            decoder = with_readout(readout, order=order, **options).double()
            features = decoder.run(captions(), decoder.prepare(Encoded(drawn(B, S, M))))
            total = readout.of_state(features.cell)
            total = total + readout.of_context(features.context) if context else total
            total = total + features.embedded if previous else total
            torch.testing.assert_close(features.output, total.tanh() if tanh else total, rtol=0, atol=1e-14)


@pytest.mark.parametrize(
    ("error", "readout", "options", "message"),
    [
        (ShapeError, DeepReadout(D, embedding_size=E, context_size=M + 1), {}, "context_size=7"),
        (ShapeError, DeepReadout(D + 1, embedding_size=E, context_size=M), {}, "size=6"),
        (
            ShapeError,
            DeepReadout(D, embedding_size=E, context_size=M),
            {"order": "recur_then_attend"},
            "input_feeding=False",
        ),
        (UnsupportedError, "state", {"order": "recur_then_attend"}, "order='attend_then_recur'"),
        (UnsupportedError, "cubic", {}, "readout='cubic' must be"),
    ],
)
def test_a_readout_that_does_not_fit_is_an_error(error, readout, options, message):
    with pytest.raises(error, match=message):
        with_readout(readout, **options)
