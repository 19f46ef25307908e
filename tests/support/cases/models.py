"""Every encoder, decoder and classifier of documents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from regard import attention as a
from regard import layers, models
from regard.models import tacotron
from regard.testing.source import EncodedSource
from support import tiny
from support.cases.case import ClassifierCase, DecoderCase, EncoderCase
from support.cases.mechanisms.location import LOCATION

_POSITIONS: dict[Any, dict[str, Any]] = {
    "sinusoidal": {},
    "half_sinusoidal": {},
    "blocked_sinusoidal": {},
    "scaled_sinusoidal": {},
    "learned": {"max_length": 80},
    "rotary": {"num_key_value_heads": 1},
    "linear_bias": {},
    "buckets": {},
    "relative": {},
    "transformer_xl": {},
    None: {},
}
"""The positions of a Transformer, each with its further options."""

ENCODERS: tuple[EncoderCase, ...] = (
    EncoderCase(
        "recurrent encoder",
        (models.RecurrentEncoder,),
        lambda: models.RecurrentEncoder(
            layers.TokenEmbedding(7, 3), layers.RecurrentStack(3, 2, 2, cell="lstm", bidirectional=True)
        ),
    ),
    EncoderCase(
        "recurrent encoder, positions in its inputs",
        (models.RecurrentEncoder,),
        lambda: models.RecurrentEncoder(
            layers.PositionedEmbedding(layers.TokenEmbedding(7, 3)), layers.RecurrentStack(3, 2, bidirectional=True)
        ),
    ),
    EncoderCase(
        "Tacotron 2's encoder",
        (tacotron.ConvolutionalEncoder,),
        lambda: tacotron.ConvolutionalEncoder(
            layers.TokenEmbedding(7, 3),
            [layers.ConvolutionBlock(3, 4, 5), layers.ConvolutionBlock(4, 4, 3, norm="after")],
            layers.RecurrentStack(4, 2, bidirectional=True),
        ),
    ),
    EncoderCase(
        "Tacotron 2's encoder with zoneout",
        (tacotron.ConvolutionalEncoder, tacotron.BidirectionalCells),
        lambda: tacotron.ConvolutionalEncoder(
            layers.TokenEmbedding(7, 3),
            [layers.ConvolutionBlock(3, 4, 5)],
            tacotron.BidirectionalCells(*(layers.CellStack(4, 2, zoneout=0.1) for _ in range(2))),
        ),
    ),
    *(
        EncoderCase(
            f"Tacotron 1's encoder, {cell}",
            (tacotron.CbhgEncoder,),
            lambda cell=cell: tacotron.CbhgEncoder(  # type: ignore[misc]
                layers.TokenEmbedding(7, 3),
                layers.Prenet(3, (4, 3)),
                layers.CBHG(3, num_filters=4, bank_size=2, projections=(3,), highway_size=3, size=2, cell=cell),
            ),
        )
        for cell in ("gru", "gru_reset_before")
    ),
    *(
        EncoderCase(
            f"transformer encoder, {positions}",
            (models.transformer_encoder, models.TransformerEncoder, models.EncoderLayer),
            lambda options={"positions": positions, **options}: models.transformer_encoder(  # type: ignore[misc]
                layers.TokenEmbedding(7, 4), num_layers=2, num_heads=2, feed_forward_size=5, dropout=0.0, **options
            ),
        )
        for positions, options in _POSITIONS.items()
    ),
)

_SPOKEN = (tacotron.TacotronDecoder, tacotron.FrameHead, tacotron.StopHead)
_ASKED: tuple[tuple[str, Any, dict[str, Any]], ...] = (
    ("speech, location-sensitive", a.location_sensitive, {**LOCATION, "num_heads": 2}),
    (
        "speech, forward attention with an agent",
        a.forward_attention,
        {"size": 4, "transition_agent": True, "input_size": tiny.NUM_VALUES, "num_filters": 2, "kernel_size": 3},
    ),
)
"""Mechanisms that decoders of speech ask; tests of Tacotron ask with all others."""

_SIZES: dict[str, Any] = {"query_size": tiny.QUERY_SIZE, "memory_size": tiny.MEMORY_SIZE}
_STATE = {"readout": "state", "input_feeding": "context"}
_RECURRENT = (models.RecurrentDecoder, models.Bridge)


def _two_sources(combined: bool) -> Any:
    first = a.bahdanau(**_SIZES, size=4)
    if not combined:
        second = a.location_sensitive(query_size=tiny.QUERY_SIZE, memory_size=tiny.MEMORY_SIZE - 1, **LOCATION)
        return a.Parallel([first, second])
    narrow: dict[str, Any] = {"query_size": tiny.QUERY_SIZE, "memory_size": tiny.MEMORY_SIZE - 1}
    return a.Parallel(
        [a.multi_head(**_SIZES, size=4, num_heads=2), a.multi_head(**narrow, size=4, num_heads=2)],
        combination=a.bahdanau(query_size=tiny.QUERY_SIZE, memory_size=4, size=4),
    )


def _queried_by_states(num_layers: int, cell: Any, **options: Any) -> models.RecurrentDecoder:
    size = models.RecurrentDecoder.query_size(tiny.QUERY_SIZE, num_layers, cell=cell, query="state")
    attention = a.vinyals(query_size=size, memory_size=tiny.MEMORY_SIZE, num_heads=2, size=3)
    return tiny.recurrent(attention, cell=cell, num_layers=num_layers, query="state", **options)


def _of_values(
    name: str,
    shows: tuple[Any, ...],
    make: Callable[[], Any],
    sources: Callable[[], tuple[EncodedSource, ...]] = tiny.sources,
    *,
    further_inputs: int = 0,
) -> DecoderCase:
    num_features = tiny.NUM_VALUES + further_inputs
    return DecoderCase(name, shows, make, sources, num_tokens=None, num_features=num_features)


_LAYERS: tuple[tuple[str, Any, dict[str, Any]], ...] = (
    (
        "a linear attention layer of another width, without a bias",
        lambda: a.luong(**_SIZES),
        {"cell": "lstm", "readout": "linear", "layer_size": 5, "layer_bias": False},
    ),
    ("the last context is fed, the state is read", lambda: a.bahdanau(**_SIZES, size=4), _STATE),
    ("the context is fed and read", lambda: a.luong(**_SIZES, learned_scale=True), {"readout": "context"}),
    ("listen, attend and spell", lambda: a.bahdanau(**_SIZES, size=4, num_heads=2), {"input_feeding": "context"}),
    (
        "a linear layer is fed, the state is read, location-sensitive",
        lambda: a.location_sensitive(**_SIZES, **LOCATION),
        {"readout": "state", "input_feeding": "linear", "layer_size": 3},
    ),
    (
        "attending first, a first context of zeros, coverage",
        lambda: a.coverage(**_SIZES, size=4),
        {"order": "attend_then_recur", "first_context": "zeros", "readout": "linear"},
    ),
)
"""Attention layers, and what is fed and read."""
_PASTS: tuple[tuple[str, tuple[Any, ...], dict[str, Any]], ...] = (
    ("state", (), {"cell": "lstm"}),
    ("state", (), {"cell": "gru", "num_layers": 2}),
    ("attention", (models.LookBack,), {"cell": "gru"}),
    ("key_value", (models.LookBack,), {"cell": "gru"}),
    ("key_value_predict", (models.LookBack,), {"cell": "gru"}),
    ("key_value_predict", (models.LookBack,), {"cell": "lstm"}),
    ("ngram", (models.NgramOutput,), {"cell": "gru", "order": 3}),
    ("ngram", (models.NgramOutput,), {"cell": "rnn", "order": 2}),
)
"""What recurrent language models do with their past, with further options."""
_NO_HALF = {"autocast_changes_no_more_than_rounding": "torch runs whole sequences of LSTMs in float16 on few CPUs"}

DECODERS: tuple[DecoderCase, ...] = (
    DecoderCase(
        "bahdanau", _RECURRENT, lambda: tiny.recurrent(a.bahdanau(**_SIZES, size=4), order="attend_then_recur")
    ),
    DecoderCase("luong", _RECURRENT, lambda: tiny.recurrent(a.luong(**_SIZES), input_feeding=False)),
    DecoderCase(
        "luong with input feeding and an LSTM",
        _RECURRENT,
        lambda: tiny.recurrent(a.luong(**_SIZES), cell="lstm"),
        lambda: tiny.sources(cell="lstm"),
    ),
    DecoderCase(
        "luong with input feeding, positions in its inputs",
        _RECURRENT,
        lambda: tiny.recurrent(a.luong(**_SIZES), positioned=True),
    ),
    DecoderCase(
        "location-sensitive with 4 heads",
        _RECURRENT,
        lambda: tiny.recurrent(a.location_sensitive(**_SIZES, num_heads=4, **LOCATION)),
    ),
    DecoderCase(
        "vinyals, queried by the states of two LSTM layers",
        _RECURRENT,
        lambda: _queried_by_states(2, "lstm", input_feeding=False),
        lambda: tiny.sources(cell="lstm"),
    ),
    DecoderCase(
        "vinyals, queried by the previous states of two GRU layers",
        _RECURRENT,
        lambda: _queried_by_states(2, "gru", order="attend_then_recur"),
    ),
    DecoderCase("captioner", (*_RECURRENT, models.captioner, models.DeepReadout), lambda: tiny.captioner()),
    DecoderCase(
        "captioner as sgrvinod, two layers", (models.captioner,), lambda: tiny.captioner(like="sgrvinod", num_layers=2)
    ),
    DecoderCase(
        "deep readout with tanh of plane coverage with a gate",
        (*_RECURRENT, models.DeepReadout),
        lambda: tiny.recurrent(
            a.plane_coverage(**_SIZES, size=4, num_filters=2, kernel_size=3, gate="scalar"),
            order="attend_then_recur",
            readout=models.DeepReadout(
                tiny.QUERY_SIZE, embedding_size=tiny.EMBEDDING_SIZE, context_size=tiny.MEMORY_SIZE, tanh=True
            ),
        ),
    ),
    *(
        DecoderCase(
            name,
            _RECURRENT,
            lambda recipe=recipe, options=options: tiny.recurrent(recipe(), **options),  # type: ignore[misc]
            lambda options=options: tiny.sources(cell=options.get("cell", "gru")),  # type: ignore[misc]
        )
        for name, recipe, options in _LAYERS
    ),
    DecoderCase("mocha", _RECURRENT, lambda: tiny.recurrent(a.mocha(**_SIZES, size=4, chunk_size=2))),
    DecoderCase("gmm", _RECURRENT, lambda: tiny.recurrent(a.gmm(**_SIZES, size=4, num_components=2))),
    DecoderCase(
        "transformer", (models.TransformerDecoder, models.DecoderLayer, models.transformer_decoder), tiny.transformer
    ),
    DecoderCase(
        "transformer, further options",
        (models.TransformerDecoder,),
        lambda: tiny.transformer(
            num_layers=1,
            options=models.TransformerOptions(
                activation="swiglu", final_norm=False, query_key_norm=True, projection_bias=True, initialisation="small"
            ),
        ),
    ),
    *(
        DecoderCase(
            f"transformer, refined by {coverage} coverage",
            (models.TransformerDecoder,),
            lambda options=options: tiny.transformer(  # type: ignore[misc]
                num_layers=3, refinement=models.RefinementOptions(size=3, kernel_size=3, dimensions=1, **options)
            ),
        )
        for coverage, options in (("self- and cross-", {}), ("cross-", {"own": False}), ("self-", {"previous": False}))
    ),
    DecoderCase("transformer, post-norm", (models.TransformerDecoder,), lambda: tiny.transformer("post", 1)),
    *(
        DecoderCase(
            f"transformer, {positions}",
            (models.TransformerDecoder,),
            lambda options={"positions": positions, **options}: tiny.transformer(num_layers=1, **options),  # type: ignore[misc]
        )
        for positions, options in _POSITIONS.items()
        if positions not in ("sinusoidal", "half_sinusoidal", "blocked_sinusoidal", "scaled_sinusoidal", None)
    ),
    DecoderCase(
        "pointer",
        (models.PointerDecoder,),
        lambda: tiny.pointer(a.bahdanau(**_SIZES, size=4)),
        tiny.sources_to_copy,
        tiny.NUM_TOKENS + 2,
    ),
    DecoderCase(
        "pointer over mocha",
        (models.PointerDecoder,),
        lambda: tiny.pointer(a.mocha(**_SIZES, size=4), order="attend_then_recur"),
        tiny.sources_to_copy,
        tiny.NUM_TOKENS + 2,
    ),
    DecoderCase(
        "pointer over a transformer",
        (models.PointerDecoder,),
        lambda: tiny.pointer(None),
        tiny.sources_to_copy,
        tiny.NUM_TOKENS + 2,
    ),
    DecoderCase(
        "two sources", _RECURRENT, lambda: tiny.recurrent(_two_sources(False), bridge="zero"), tiny.pairs_of_sources
    ),
    DecoderCase(
        "two sources, combined",
        _RECURRENT,
        lambda: tiny.recurrent(_two_sources(True), bridge="zero"),
        tiny.pairs_of_sources,
    ),
    DecoderCase(
        "ensemble of a recurrent decoder and a transformer",
        (models.EnsembleDecoder,),
        lambda: models.EnsembleDecoder(
            [tiny.recurrent(a.bahdanau(**_SIZES, size=4), order="attend_then_recur"), tiny.transformer()],
            weights=(2, 1),
        ),
    ),
    DecoderCase(
        "ensemble of three decoders, one of which copies",
        (models.EnsembleDecoder,),
        lambda: models.EnsembleDecoder(
            [
                tiny.recurrent(a.luong(**_SIZES)),
                tiny.pointer(a.mocha(**_SIZES, size=4)),
                tiny.recurrent(a.location_sensitive(**_SIZES, num_heads=2, **LOCATION)),
            ],
            average="probabilities",
            main=1,
        ),
        tiny.sources_to_copy,
        tiny.NUM_TOKENS + 2,
    ),
    DecoderCase(
        "ensemble that averages log-probabilities",
        (models.EnsembleDecoder,),
        lambda: models.EnsembleDecoder(
            [tiny.transformer("post", 1), tiny.recurrent(a.luong(**_SIZES), input_feeding=False)],
            average="log_probabilities",
            weights=(0.3, 0.7),
        ),
    ),
    *(
        DecoderCase(
            f"without attention, {kind}",
            (models.RecurrentDecoder, models.FixedContext),
            lambda kind=kind: tiny.without_attention(kind, every_step=kind != "last"),  # type: ignore[misc]
        )
        for kind in ("last", "mean", "maximum", "learned")
    ),
    _of_values("values", _RECURRENT, lambda: tiny.recurrent(a.bahdanau(**_SIZES, size=4), continuous=True)),
    _of_values(
        "values, attending first, with an LSTM",
        _RECURRENT,
        lambda: tiny.recurrent(
            a.bahdanau(**_SIZES, size=4), cell="lstm", order="attend_then_recur", continuous=True, further_inputs=1
        ),
        lambda: tiny.sources(cell="lstm"),
        further_inputs=1,
    ),
    _of_values(
        "quantiles, location-sensitive",
        (*_RECURRENT, layers.QuantileHead),
        lambda: tiny.recurrent(
            a.location_sensitive(**_SIZES, num_heads=2, **LOCATION), continuous=True, levels=(0.1, 0.3, 0.5, 0.9)
        ),
    ),
    _of_values(
        "values without attention",
        (models.RecurrentDecoder, models.FixedContext),
        lambda: tiny.without_attention("mean", every_step=True, continuous=True),
    ),
    _of_values(
        "values of a transformer",
        (models.TransformerDecoder,),
        lambda: tiny.transformer(continuous=True, further_inputs=2),
        further_inputs=2,
    ),
    _of_values(
        "changes of values",
        (models.ChangeDecoder,),
        lambda: models.ChangeDecoder(tiny.recurrent(a.luong(**_SIZES), continuous=True, further_inputs=1)),
        further_inputs=1,
    ),
    _of_values(
        "changes of quantiles of a transformer",
        (models.ChangeDecoder,),
        lambda: models.ChangeDecoder(
            tiny.transformer("post", 1, continuous=True, levels=(0.2, 0.5, 0.8), positions="rotary")
        ),
    ),
    *(
        _of_values(
            name,
            _SPOKEN,
            lambda recipe=recipe, options=options: tiny.speech(  # type: ignore[misc]
                recipe(**_SIZES, **options), num_frames=2, dropout=0.1
            ),
            further_inputs=2,
        )
        for name, recipe, options in _ASKED
    ),
    *(
        _of_values(
            f"speech, {name}",
            _SPOKEN,
            lambda options=options: tiny.speech(a.bahdanau(**_SIZES, size=4), **options),  # type: ignore[misc]
            further_inputs=further,
        )
        for name, further, options in (
            ("Tacotron 1", 0, {"cell": "gru", "output": 2, "residual": True, "reads_context": False, "stops": False}),
            ("asking with the old state, zoneout", 0, {"query": 0, "output": 2, "zoneout": 0.1}),
            ("asking with the top state", 0, {"query": 2, "output": 0, "zoneout": 0.1, "zones_output": False}),
            ("a queue of frames", 2, {"num_frames": 3, "num_fed_frames": 5, "cell": "gru_reset_before"}),
        )
    ),
    _of_values(
        "speech of two sources",
        _SPOKEN,
        lambda: tiny.speech(_two_sources(False), num_frames=2, num_fed_frames=2),
        tiny.pairs_of_sources,
        further_inputs=2,
    ),
    *(
        DecoderCase(
            ", ".join(["language model", past, *(f"{key} {value}" for key, value in options.items())]),
            (models.RecurrentLanguageModel, models.recurrent_language_model, *shows),
            lambda past=past, options=options: tiny.language_model(past, **options),  # type: ignore[misc]
            tiny.contexts,
            exempt=_NO_HALF if options["cell"] == "lstm" else {},
        )
        for past, shows, options in _PASTS
    ),
    *(
        DecoderCase(
            f"transformer language model, {positions}",
            (models.TransformerLanguageModel, models.transformer_language_model, models.CausalLayer),
            lambda options={"positions": positions, **options}: tiny.transformer_language(**options),  # type: ignore[misc]
            tiny.contexts,
        )
        for positions, options in _POSITIONS.items()
    ),
    *(
        DecoderCase(
            f"transformer language model, {positions}, that reaches back {reach}",
            (models.TransformerLanguageModel, models.CausalLayer),
            lambda options={"positions": positions, "reach": reach}: tiny.transformer_language(**options),  # type: ignore[misc]
            tiny.contexts,
        )
        for positions, reach in (("rotary", 1), ("rotary", 3), ("sinusoidal", 2), ("buckets", 2), ("relative", 4))
    ),
)


_DOCUMENTS = (models.DocumentClassifier, models.Level, models.Pooling)
_NARROW: dict[str, Any] = {"embedding_size": 4, "size": 3, "attention_size": 4}


def _levels(word: Any, sentence: Any, cell: Any = "lstm") -> models.DocumentClassifier:
    stacks = layers.RecurrentStack(4, 3, 2, cell=cell, bidirectional=True), layers.RecurrentStack(6, 3, cell=cell)
    levels = [models.Level(s, models.Pooling(p, s.output_size)) for s, p in zip(stacks, (word, sentence), strict=True)]
    return models.DocumentClassifier(layers.TokenEmbedding(7, 4), levels[0], 3, sentence=levels[1])


CLASSIFIERS: tuple[ClassifierCase, ...] = (
    *(
        ClassifierCase(
            f"hierarchical attention, {options}",
            (models.hierarchical_attention, *_DOCUMENTS),
            lambda options=options: models.hierarchical_attention(7, 3, **_NARROW, **options),  # type: ignore[misc]
        )
        for options in ({}, {"cell": "lstm", "num_layers": 2}, {"num_heads": 2})
    ),
    *(
        ClassifierCase(
            f"levels pooled by {word} and {sentence}",
            _DOCUMENTS,
            lambda pools=(word, sentence): _levels(*pools),  # type: ignore[misc]
        )
        for word, sentence in (("last", "attention"), ("attention", "maximum"), ("maximum", "mean"), ("mean", "last"))
    ),
    *(
        ClassifierCase(
            f"pooled words, {options}",
            (models.pooled_words, *_DOCUMENTS),
            lambda options=options: models.pooled_words(7, 3, **_NARROW, **options),  # type: ignore[misc]
        )
        for options in (
            *({"pooling": kind} for kind in ("last", "mean", "maximum", "attention")),
            {"num_heads": 2},
            *({"pooling": kind, "cell": "none"} for kind in ("mean", "maximum", "attention")),
        )
    ),
)
