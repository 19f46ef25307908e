"""Models: a decoder's training pass with and without feedback, a whole training step, a beam."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.config import from_preset
from regard.config.schema import AttentionConfig, DecoderConfig
from regard.data import Pair
from regard.data.pairs import ListedPairs
from regard.data.text import BOS, EOS, Field
from regard.decoding import Search, free_run, search
from regard.layers import RecurrentStack, ValueEmbedding, ValueHead
from regard.models import Encoded, EncoderDecoder
from regard.tasks.build import build_decoder
from regard.tasks.text_to_text.architectures import build_model
from regard.tasks.text_to_text.config import TextToTextConfig
from regard.tasks.text_to_text.model import TextToText
from regard.tasks.text_to_text.trainee import PairTrainee
from regard.training.accumulation import LocalBatch
from regard.training.device import move
from regard.training.step import Stepper
from speed import arithmetic, plain
from speed.case import OURS, PLAIN, Aim, Answer, Case, Contest, draw, draw_integers, with_gradients

LSTM, STEPWISE, PRODUCTS = "nn.LSTM only", "regard, step by step", "products only"
AT_ONCE = "plain, nn.LSTM and all steps at once"
_SIZES = {"B": 64, "T": 20, "S": 20, "E": 128, "D": 256}
_TINY = {"B": 4, "T": 6, "S": 6, "E": 16, "D": 32}


class Embedded(nn.Identity):
    """An embedding of inputs that are embedded already."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size


def configuration(E: int, D: int, *, M: int | None = None, feeds: bool = True) -> TextToTextConfig:
    """A bidirectional LSTM of M features (2·D if None), and an LSTM with additive attention; no dropout."""
    size = D if M is None else M // 2
    options = {
        "data.train": "none.tsv",
        "data.source.units": "whitespace",
        "model.encoder": f"{{cell: lstm, size: {size}, layers: 1, embedding_size: {E}, dropout: 0}}",
        "model.decoder": f"{{cell: lstm, size: {D}, embedding_size: {E}, dropout: 0, input_feeding: {feeds}}}",
        "model.attention": f"{{recipe: bahdanau, size: {D}}}",
        "training.label_smoothing": 0,
    }
    config = from_preset("text-to-text", [f"{key}={value}" for key, value in options.items()]).config
    assert isinstance(config, TextToTextConfig)
    return config


def build(dtype: torch.dtype, E: int, D: int, N: int, *, M: int | None = None, feeds: bool = True) -> EncoderDecoder:
    """The model, with the same weights each time."""
    torch.manual_seed(1)
    return build_model(configuration(E, D, M=M, feeds=feeds).model, num_source=N, num_target=N).to(dtype)


def decoder_pass(dtype: torch.dtype, *, feeds: bool = True, B: int, T: int, S: int, E: int, D: int, M: int) -> Contest:
    """Forward and backward of the decoder without its output layer; gradients of inputs and all weights."""
    decoder: Any = build(dtype, E, D, 8, M=M, feeds=feeds).decoder
    decoder.embedding = Embedded(E)
    embedded, values, *first = (
        draw(*shape, seed=seed).float().to(dtype).requires_grad_()
        for seed, shape in enumerate([(B, T, E), (B, S, M), (B, M), (B, M)])
    )
    probe = draw(B, T, D, seed=9).float().to(dtype)
    learned = {name: p for name, p in decoder.named_parameters() if not name.startswith("head")}
    leaves = {"inputs": embedded, "memory": values, **learned}
    encoded = Encoded(values, None, (tuple(first),))
    plain_decoder = plain.PlainDecoder(decoder)
    lstm = nn.LSTM(E + D if feeds else E, D, batch_first=True).to(dtype)
    lstm_inputs = draw(B, T, lstm.input_size, seed=8).float().to(dtype).requires_grad_()

    def answer(outputs: Tensor) -> Answer:
        return with_gradients("outputs", outputs, leaves, probe)

    def stepwise() -> Answer:
        memory = decoder.prepare(encoded)
        state, outputs = decoder.initial_state(memory), []
        for x in embedded.unbind(1):
            features, state = decoder.advance(x, memory, state)
            outputs.append(features.output)
        return answer(torch.stack(outputs, 1))

    def plainly(way: Callable[..., Tensor]) -> Callable[[], Answer]:
        return lambda: answer(way(embedded, values, decoder.bridge(encoded)[0]))

    sides = {
        OURS: lambda: answer(decoder.run(embedded, decoder.prepare(encoded)).output),
        STEPWISE: stepwise,
        **({} if feeds else {AT_ONCE: plainly(plain_decoder.run_at_once)}),
        PLAIN: plainly(plain_decoder.run),
    }
    yardsticks = {LSTM: lambda: torch.autograd.grad(lstm(lstm_inputs)[0], [lstm_inputs, *lstm.parameters()], probe)}
    with torch.no_grad():  # the largest sums in between are those of the gates
        features = decoder.run(embedded, decoder.prepare(encoded))
        factors = [embedded[:, 1:], *([features.output[:, :-1]] if feeds else []), features.cell[:, :-1]]
        weight = torch.cat([decoder.stack.layers[0].weight_ih_l0, decoder.stack.layers[0].weight_hh_l0], 1)
        terms = {"outputs": float((torch.cat(factors, -1).abs() @ weight.abs().t()).max())}
    return Contest(sides, yardsticks=yardsticks if feeds else {}, terms=terms, shares_terms=True)


def random_pairs(count: int, source: int, target: int, num_words: int) -> list[Pair]:
    """Pairs of random words; all sources have one length, and so have all targets."""
    words = draw_integers(0, num_words, count, source + target)
    texts = [list(map(str, row)) for row in words.tolist()]
    return [Pair(" ".join(row[:source]), " ".join(row[source:]), Path("drawn"), i) for i, row in enumerate(texts, 1)]


def training_step(dtype: torch.dtype, *, B: int, T: int, S: int, E: int, D: int, N: int) -> Contest:
    """A step of the trainer on a batch of text; T and S include the end symbol, N the four special symbols."""
    config = configuration(E, D)
    pairs = random_pairs(B, S - 1, T - 1, N - 4)
    field = Field.build(config.data.source, [" ".join(map(str, range(N - 4)))], name="words")
    torch.manual_seed(1)
    model = TextToText.build(config, field, field)
    model.module.to(dtype).train()
    listed = ListedPairs(pairs)
    trainee = PairTrainee(model, listed, listed)
    device = torch.get_default_device()
    batch = move(trainee.batch(range(B)), device)
    training = config.training
    assert training.clip_norm is not None
    plain_step = plain.training_step(
        model.module,
        batch["source"],
        batch["inputs"],
        batch["targets"],
        learning_rate=training.learning_rate,
        clip_norm=training.clip_norm,
    )
    stepper = Stepper(trainee, training, device)
    generator = torch.Generator("cpu")

    def step() -> Answer:
        batches = [(LocalBatch(range(B)), batch)]
        (figures,) = stepper(batches, step=0, learning_rate=training.learning_rate, generator=generator)
        return {"loss": torch.tensor(figures.loss, dtype=dtype, device=device), **plain.gradients(model.module)}

    return Contest({OURS: step, PLAIN: plain_step}, shares_terms=True)


def beam(dtype: torch.dtype, *, B: int, K: int, T: int, S: int, E: int, D: int, N: int) -> Contest:
    """A beam search of width K from B sources of S ids to the best outputs, of T tokens each."""
    model = build(dtype, E, D, N).eval()
    source = draw_integers(4, N, B, S)
    options = Search(beam=K, length_penalty="none", min_length=T)

    def ours() -> Answer:
        with torch.inference_mode():
            memory = model.prepare(source)
        hypotheses = search(model.decoder, memory, options, bos=BOS, eos=EOS, max_length=T)
        found = [best.log_probability for (best,) in hypotheses]
        return {"log-probabilities": torch.tensor(found, dtype=dtype, device=source.device)}

    def plain_search() -> Answer:
        return {"log-probabilities": plain.beam(model, source, width=K, length=T, bos=BOS, eos=EOS)}

    return Contest({OURS: ours, PLAIN: plain_search}, yardsticks={PRODUCTS: _products(dtype, B, K, T, S, E, D, N)})


def free_runs(dtype: torch.dtype, *, B: int, T: int, S: int, F: int, E: int, D: int) -> Contest:
    """Free runs of T steps of F values each, from encoded histories of S steps of D features."""
    torch.manual_seed(1)
    config = AttentionConfig.model_validate({"recipe": "bahdanau", "size": D})
    stack = RecurrentStack(E, D, cell="lstm")
    decoder: Any = build_decoder(
        DecoderConfig(cell="lstm", size=D, embedding_size=E, dropout=0.0, bridge="copy", input_feeding=False),
        config,
        stack,
        embedding=lambda: ValueEmbedding(F, E),
        head=lambda size, _: ValueHead(size, F),
        continuous=True,
    )
    decoder.to(dtype).eval()
    values, first = draw(B, S, D, seed=1).to(dtype), draw(B, F, seed=2).to(dtype)
    states = draw(B, D, seed=3).to(dtype), draw(B, D, seed=4).to(dtype)
    plain_decoder = plain.PlainDecoder(decoder)

    def ours() -> Answer:
        with torch.inference_mode():
            memory = decoder.prepare(Encoded(values, None, (states,)))
        trajectories = free_run(decoder, memory, first, max_length=T)
        return {"values": torch.stack([trajectory.values for trajectory in trajectories]).to(first.device)}

    @torch.inference_mode()
    def plainly() -> Answer:
        keys, state, x, outputs = plain_decoder.keys(values), states, first, []
        for _ in range(T):
            output, state = plain_decoder.step(decoder.embedding(x), state, None, keys, values)
            x = decoder.head(output)
            outputs.append(x)
        return {"values": torch.stack(outputs, 1)}

    return Contest({OURS: ours, PLAIN: plainly})


def _products(dtype: torch.dtype, B: int, K: int, T: int, S: int, E: int, D: int, N: int) -> Any:
    """The matrix products of a beam search only: no gates, tanh, softmax, ranking or copying."""
    make = partial(torch.randn, dtype=dtype)
    rows = B * K
    steps = [(E + 2 * D, 4 * D), (D, D), (3 * D, D), (D, N)]
    factors = [(make(rows, a), make(b, a).T) for a, b in steps]
    attended = make(B, K, S), make(B, S, 2 * D)
    embedded, state = (make(B * S, E), make(E, 8 * D)), (make(B, D), make(D, 4 * D))
    memory, keys = make(B * S, 2 * D), make(2 * D, D)

    @torch.inference_mode()
    def products() -> None:
        torch.mm(*embedded)
        for _ in range(2 * S):
            torch.mm(*state)
        torch.mm(memory, keys)
        for _ in range(T):
            for a, b in factors:
                torch.mm(a, b)
            torch.bmm(*attended)

    return products


MODELS = (
    Case(
        "decoder",
        "decoder's training pass: LSTM, additive attention, input feeding",
        decoder_pass,
        {**_SIZES, "M": 256},
        {**_TINY, "M": 32},
        aims=(Aim(PLAIN, 1.7), Aim(LSTM, 1 / 1.8)),
        work=arithmetic.decoder_pass,
        measures_memory=True,
    ),
    Case(
        "decoder-wide-memory",
        "the same over a memory as wide as that of a bidirectional encoder",
        decoder_pass,
        {**_SIZES, "M": 512},
        {**_TINY, "M": 64},
        work=arithmetic.decoder_pass,
    ),
    Case(
        "decoder-no-feedback",
        "decoder's training pass without input feeding",
        partial(decoder_pass, feeds=False),
        {**_SIZES, "T": 50, "S": 50, "M": 512},
        {**_TINY, "M": 64},
        aims=(Aim(PLAIN, 5),),
        work=partial(arithmetic.decoder_pass, feeds=False),
        measures_memory=True,
    ),
    Case(
        "training",
        "whole training step: encoder, decoder, output layer, loss, clipping, AdamW",
        training_step,
        {**_SIZES, "N": 5000},
        {**_TINY, "N": 50},
        work=arithmetic.training_step,
        measures_memory=True,
    ),
    Case(
        "beam",
        "beam search, from source to best output",
        beam,
        {**_SIZES, "K": 5, "N": 5000},
        {**_TINY, "K": 3, "N": 50},
        aims=(Aim(PRODUCTS, 1 / 1.4),),
        work=arithmetic.beam,
    ),
    Case(
        "free-run",
        "free run of a decoder of values",
        free_runs,
        {"B": 256, "T": 24, "S": 96, "F": 1, "E": 32, "D": 64},
        {"B": 4, "T": 4, "S": 6, "F": 2, "E": 8, "D": 8},
    ),
)
