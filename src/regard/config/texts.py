"""Sections of tasks whose outputs are texts: their symbols, decoders, training and search."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, Strict, model_validator

from regard.config.conditions import only_with
from regard.config.schema import (
    COMMON,
    CONVERTED,
    FROM_DATA,
    AlignmentTrainingConfig,
    AttentionConfig,
    DecoderConfig,
    FeedbackConfig,
    File,
    Layers,
    Probability,
    Section,
    Size,
    SmoothedTrainingConfig,
    TrainingConfig,
    TransformerLayersConfig,
)
from regard.config.search import Natural, Search
from regard.errors import ConfigError
from regard.interop.variants import TRANSFORMER_DEFAULTS, TRANSFORMERS, TransformerName

Texts = str | Annotated[tuple[str, ...], Strict(False)]
"""One text, or several."""
Units = Literal["character", "letter", "word", "whitespace", "byte", "separator", "sentencepiece"]


class ParallelFiles(Section):
    """Two text files whose lines belong together."""

    source: File = Field(description="a text file with one input per line")
    target: File = Field(description="a text file with the output of each line")

    def __str__(self) -> str:
        return f"{self.source} and {self.target}"


class WeightedPairs(Section):
    """A file of pairs, or two parallel files, of several that are mixed."""

    file: File | ParallelFiles = Field(description="a file, several that a pattern such as `*.tsv` names, or two")
    weight: Annotated[float, Field(gt=0)] = Field(
        default=1.0, description="how often each of its pairs occurs in an epoch; of 0.5 another half in each"
    )

    def __str__(self) -> str:
        return str(self.file)


class SideConfig(Section):
    """Normalisation and symbols of one side."""

    units: Units | Annotated[tuple[Units, ...], Strict(False)] = Field(
        default="character",
        description="what a symbol is. `letter` divides characters into letters and marks, such as Hangul syllables, "
        "and joins them again; in pairs of texts it takes the place of `character` if many characters are rare and "
        "have few letters. `word` splits off punctuation, `whitespace` does not. A list has the units of each column "
        "of the input (`source_field`)",
        json_schema_extra=FROM_DATA,
    )
    separator: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="the text between the symbols of units `separator`, for example `;`"
    )
    case: Literal["keep", "upper", "lower"] = Field(
        default="keep", description="the letter case that every text is converted to"
    )
    unicode: Literal["keep", "NFC", "NFD", "NFKC", "NFKD"] = Field(
        default="NFC", description="the Unicode normal form of every text"
    )
    min_count: Size = Field(default=1, description="symbols that occur less often are unknown")
    vocabulary_size: Size | None = Field(
        default=None,
        description="the most symbols of the vocabulary, which keeps the most frequent; null: all. With sentencepiece: "
        "the number of pieces to learn; null: 13.5 times the square root of the number of words",
    )
    sentencepiece_model: File | None = Field(default=None, description="file of a sentencepiece model; null: train one")


class TargetConfig(SideConfig):
    """Normalisation and symbols of outputs, and the direction in which they are written."""

    direction: Literal["left_to_right", "right_to_left", "both"] = Field(
        default="left_to_right",
        description="the direction in which the symbols of an output are learned and predicted; predictions from "
        "right to left are reversed to the order of the text. Such a model can rerank the outputs of "
        "others (`decoding.reranker`). `both`: one decoder learns both directions (`decoding.direction`,"
        " `decoding.joint`)",
    )


class RecurrentKind(Section):
    """The kind of a recurrent encoder or decoder."""

    architecture: Literal["recurrent"] = Field(default="recurrent", description="the kind of network")
    positions: Literal["sinusoidal", "blocked_sinusoidal"] | None = Field(
        default=None,
        description="in recurrent networks: sinusoids that are added to the embeddings times the square root of "
        "their size, as by default in eole; null: none",
        json_schema_extra=CONVERTED,
    )


class WritingConfig(Section):
    """Options of all decoders of texts."""

    specials: Literal["excluded", "forbidden"] = Field(
        default="excluded",
        description="padding and the begin symbol, which are never predicted: `excluded` from the softmax, or "
        "`forbidden` after it, so that the other probabilities sum to less than 1, as in programs that "
        "forbid them only in searches",
        json_schema_extra=CONVERTED,
    )


class RecurrentDecoderConfig(DecoderConfig, WritingConfig, RecurrentKind):
    """A recurrent decoder."""


class MultiHeadConfig(AttentionConfig):
    """A recipe of attention, with its options by name, in a Transformer."""

    recipe: str = Field(default="multi_head", description="the name of a recipe; all other keys here are its options")


class TransformerKind(Section):
    """The kind of a Transformer's encoder or decoder."""

    architecture: Literal["transformer"] = Field(default="transformer", description="the kind of network")


class TransformerSideConfig(TransformerLayersConfig, TransformerKind):
    """Options of both sides of a Transformer."""

    layers: Layers = Field(default=4, description="number of layers", json_schema_extra=FROM_DATA)
    positions: (
        Literal[
            "sinusoidal",
            "half_sinusoidal",
            "blocked_sinusoidal",
            "scaled_sinusoidal",
            "learned",
            "rotary",
            "linear_bias",
            "buckets",
            "relative",
            "transformer_xl",
        ]
        | None
    ) = Field(
        default="sinusoidal",
        description="vectors that are added to embeddings (the first five; `half_sinusoidal` and "
        "`blocked_sinusoidal` have all sines before all cosines, as in Marian and, with other "
        "frequencies, in fairseq), or the representation of distances in self-attention (`regard info "
        "multi_head`); null: none",
    )
    max_positions: Size | None = Field(
        default=None,
        description="with `positions: learned`: the number of positions, end symbols included; null: `data.max_length` "
        "+ 1. Longer inputs are refused, and outputs are no longer",
    )
    self_attention: MultiHeadConfig = Field(
        default=MultiHeadConfig(),
        description="the self-attention of the symbols of one side: a recipe that is not recurrent",
    )
    like: TransformerName | None = Field(
        default=None,
        description="the computation and defaults of another implementation (`regard.interop`): the Annotated "
        "Transformer has `projection_bias: true` and `norm_epsilon: 1e-6`",
        json_schema_extra=CONVERTED,
    )

    @model_validator(mode="before")
    @classmethod
    def _take_defaults(cls, values: Any) -> Any:
        """The defaults of the implementation that is imitated."""
        like = values.get("like") if isinstance(values, dict) else None
        return {**TRANSFORMER_DEFAULTS[like], **values} if isinstance(like, str) and like in TRANSFORMERS else values


class RefinementConfig(Section):
    """Refinement of attention by coverage, in every layer but the first (Zhao 2022)."""

    own: bool = Field(default=True, description="the coverage includes the layer's own weights of earlier steps")
    previous: bool = Field(default=True, description="the coverage includes the weights of the previous layer")
    size: Size = Field(default=32, description="number of filters over the coverage")
    kernel_size: Annotated[int, Field(ge=1)] = Field(
        default=5, description="their width, an odd number of positions, or of cells in both dimensions of an image"
    )
    norm: Literal["batch", "none"] = Field(
        default="none",
        description="`batch` normalises the corrections over a batch, as the authors do; training then depends on "
        "the composition of batches",
    )

    @model_validator(mode="after")
    def _reads_something(self) -> Self:
        if self.kernel_size % 2 == 0:
            raise ConfigError(f"kernel_size is {self.kernel_size}; it must be odd", ("kernel_size",))
        if not (self.own or self.previous):
            raise ConfigError("own and previous are both false; leave one of them out", ("own",))
        return self


class TransformerDecoderConfig(TransformerSideConfig, WritingConfig):
    """The decoder of a Transformer."""

    tied_weights: bool = Field(default=False, description="the output layer shares the matrix of the embedding")
    refinement: RefinementConfig | None = Field(
        default=None,
        description="corrections of the attention to the input by that of earlier steps, `{}` for the defaults; "
        "null: none",
    )


class WriterTrainingConfig(AlignmentTrainingConfig, FeedbackConfig, SmoothedTrainingConfig, TrainingConfig):
    """The training of models whose outputs are texts."""

    learning_rate: Annotated[float, Field(gt=0.0)] = Field(
        default=0.002,
        description=TrainingConfig.model_fields["learning_rate"].description,
        json_schema_extra=FROM_DATA | only_with("schedule", unless="noam"),
    )
    label_smoothing_others: bool = Field(
        default=False,
        description="`label_smoothing` is distributed over all symbols except the right one, as in the Annotated "
        "Transformer and Joey NMT",
        json_schema_extra=CONVERTED | only_with("label_smoothing", unless=0),
    )


class TextDecodingConfig(Search):
    """The search for outputs that are texts, in predictions and, with `validation_beam`, in validations."""

    max_length: Size | None = Field(
        default=None, description="the most symbols of an output; null: it follows from the input"
    )
    prefix: str = Field(default="", description="the text that starts every output", json_schema_extra=COMMON)
    include: Texts = Field(
        default=(),
        description="a text that every finished output contains, or a list of them; needs a beam",
        json_schema_extra=COMMON,
    )
    exclude: Texts = Field(
        default=(), description="a text that no output contains, or a list of them", json_schema_extra=COMMON
    )
    alignment_layer: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="the attention of a prediction's alignment, such as `cross.3`; `mean`: the mean of all; null: "
        "the supervised one, or else the last",
    )
    alignment_head: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="the head of `alignment_layer`, from 0; null: the supervised one, or else their mean"
    )
    ensemble: File | Annotated[tuple[File, ...], Strict(False)] = Field(
        default=(),
        description="a model, or a list of them, with the same vocabularies: run folders or names of shipped models."
        " The search averages their predictions and this model's",
        json_schema_extra=COMMON,
    )
    ensemble_weights: Annotated[tuple[Annotated[float, Field(gt=0.0)], ...], Strict(False)] | None = Field(
        default=None, description="of an ensemble: the weight of this model and of each other one; null: equal"
    )
    ensemble_average: Literal["probabilities", "log_probabilities"] = Field(
        default="probabilities", description="of an ensemble: the averaged quantity"
    )
    ensemble_alignment: Natural | None = Field(
        default=None,
        description="of an ensemble: the model whose alignment is returned, 0 for this one; null: the mean of all",
    )
    reranker: File | None = Field(
        default=None,
        description="a second model for ranking the hypotheses of the beam, or the samples: a run folder or the name"
        " of a shipped model, usually one that writes from right to left (`data.target.direction`)",
    )
    reranker_weight: Probability = Field(default=0.5, description="of a reranker: its share of the score")
    direction: Literal["left_to_right", "right_to_left"] | None = Field(
        default=None,
        description="the direction in which a model of `data.target.direction: both` writes; null: left to right",
    )
    joint: bool = Field(
        default=False,
        description="a model of `data.target.direction: both` searches in both directions and ranks by the sum of "
        "both scores",
    )
    validation_beam: Size = Field(
        default=1, description="the beam of validations; `regard predict` and `regard evaluate` use `beam`"
    )

    @property
    def members(self) -> tuple[Path, ...]:
        """The further models of the ensemble."""
        return self.ensemble if isinstance(self.ensemble, tuple) else (self.ensemble,)

    @model_validator(mode="after")
    def _limits_agree(self) -> Self:
        if (weights := self.ensemble_weights) is not None and len(weights) != len(self.members) + 1:
            raise ConfigError(
                f"ensemble_weights has {len(weights)} numbers, but with this model there are {len(self.members) + 1}",
                ("ensemble_weights",),
            )
        for name in ("alignment_layer", "alignment_head"):
            if self.members and getattr(self, name) is not None:
                raise ConfigError(
                    f"{name} has no effect with an ensemble, whose models have attentions of their own; "
                    "ensemble_alignment chooses the model whose alignment is shown",
                    (name,),
                )
        if (shown := self.ensemble_alignment) is not None and shown > len(self.members):
            raise ConfigError(
                f"ensemble_alignment is {shown}, but the last model is number {len(self.members)}",
                ("ensemble_alignment",),
            )
        if self.max_length is not None and self.min_length > self.max_length:
            raise ConfigError(
                f"min_length is {self.min_length}, above max_length {self.max_length}; lower it or raise max_length",
                ("min_length",),
            )
        for name in ("include", "exclude"):
            value = getattr(self, name)
            if any(not text.strip() for text in ((value,) if isinstance(value, str) else value)):
                raise ConfigError(f"{name} has an empty text", (name,))
        if self.include and (self.method != "beam" or self.beam == 1):
            searched = "sampling" if self.method != "beam" else "greedy search (beam 1)"
            raise ConfigError(f"include needs a beam of at least 2; {searched} has only one hypothesis", ("include",))
        if self.include and self.keep_finished:
            raise ConfigError(
                "include does not combine with keep_finished: the places of a beam that keeps what has ended are not "
                "shared among texts; leave out one of them",
                ("include",),
            )
        return self


def check_directions(direction: str, decoding: TextDecodingConfig, training: AlignmentTrainingConfig | None) -> None:
    """Refuses searches in a direction that a model has not learned, and losses that require one direction."""
    for name in ("joint", "direction"):
        if direction != "both" and (value := getattr(decoding, name)):
            raise ConfigError(
                f"{name} is {str(value).lower()}, but the model has learned one order only "
                f"(data.target.direction: {direction}); leave it out, or train with both",
                ("decoding", name),
            )
    if training is None or direction != "both" or not training.trains_alignments:
        return
    losses = [*training.alignment_weights, *(["reinforce"] if training.reinforce is not None else [])]
    path = ("training", "reinforce") if losses[0] == "reinforce" else ("training", "alignment_losses", losses[0])
    raise ConfigError(
        f"{losses[0]} is for models that learn one order, and data.target.direction is both; leave out one of them",
        path,
    )
