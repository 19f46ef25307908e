"""The configuration of text to text: pairs of texts, and a model that turns one into the other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, Strict, model_validator

from regard.config.schema import (
    FROM_DATA,
    AlignmentLossConfig,
    AlignmentTrainingConfig,
    AttentionConfig,
    Config,
    DecoderConfig,
    EncoderConfig,
    FeedbackConfig,
    File,
    Probability,
    Section,
    Size,
    TokenTrainingConfig,
    TrainingConfig,
    TransformerLayersConfig,
    Weight,
)
from regard.config.search import Natural, Search
from regard.errors import ConfigError

Texts = str | Annotated[tuple[str, ...], Strict(False)]
"""One text, or several."""
Units = Literal["character", "word", "whitespace", "byte", "separator", "sentencepiece"]


class SideConfig(Section):
    """How the text of one side becomes symbols."""

    units: Units | Annotated[tuple[Units, ...], Strict(False)] = Field(
        default="character",
        description="what a symbol is; `word` splits off punctuation, `whitespace` does not; a list has the units of "
        "each column of the input (`source_field`)",
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
    """How the text of outputs becomes symbols, and in which order they are written."""

    direction: Literal["left_to_right", "right_to_left"] = Field(
        default="left_to_right",
        description="the order in which the symbols of an output are learned and predicted; what is predicted from "
        "right to left is turned round again. Such a model reranks the outputs of others (`decoding.reranker`)",
    )


class ParallelFiles(Section):
    """Two text files whose lines belong together."""

    source: File = Field(description="a text file with one input per line")
    target: File = Field(description="a text file with the output of each line")


class DataConfig(Section):
    """Where the pairs are and how they are read."""

    train: File | ParallelFiles = Field(
        description="a TSV or JSONL file, or text files `source:` and `target:`; relative to the configuration's folder"
    )
    dev: File | ParallelFiles | None = Field(
        default=None, description="held-out pairs; null: a share of the training pairs (`dev_fraction`)"
    )
    dev_fraction: Annotated[float, Field(gt=0.0, lt=0.5)] | None = Field(
        default=None,
        description="share of training inputs that a fixed hash holds out if there is no `dev` file; null: a tenth, "
        "or about 2,000 pairs if that is less",
    )
    format: Literal["auto", "tsv", "jsonl", "parallel"] = Field(
        default="auto", description="`auto` goes by the file's suffix"
    )
    source_field: str | int | Annotated[tuple[str | int, ...], Strict(False)] = Field(
        default=0,
        description="TSV column, counted from 0, or JSONL field of the input; a list if an input has several "
        "columns, such as a lemma and its tags",
    )
    target_field: str | int = Field(default=1, description="TSV column, counted from 0, or JSONL field of the output")
    autoencode: bool = Field(
        default=False, description="whether the output is the input itself: a sequence autoencoder"
    )
    alignments: File | None = Field(
        default=None,
        description="a text file with the reference alignment of each line of `train`: links `0-0 1-2` from the input "
        "to the output, counted from 0 (`alignment_units`); for `training.alignment_losses.supervision`",
    )
    alignment_units: Literal["symbol", "word"] = Field(
        default="symbol",
        description="what the links of `alignments` count: symbols, or words, which are what stands between blanks; "
        "every symbol of a word has the links of its word",
    )
    joint_vocabulary: bool = Field(
        default=False,
        description="inputs and outputs have the same symbols, learned from the texts of both; their settings must be "
        "equal",
    )
    source: SideConfig = Field(default=SideConfig(), description="the texts of inputs")
    target: TargetConfig = Field(default=TargetConfig(), description="the texts of outputs")
    max_length: Size = Field(
        default=400, description="pairs with more symbols on either side are left out and reported"
    )

    @property
    def is_reversed(self) -> bool:
        """Whether outputs are written from right to left."""
        return self.target.direction == "right_to_left"

    @property
    def sides_are_alike(self) -> bool:
        """Whether inputs and outputs are read the same way."""
        return self.source.model_dump() == self.target.model_dump(exclude={"direction"})

    @property
    def num_columns(self) -> int:
        """The number of columns of an input."""
        return len(self.source_field) if isinstance(self.source_field, tuple) else 1

    @model_validator(mode="after")
    def _sides_agree(self) -> DataConfig:
        if not self.joint_vocabulary:
            return self
        if self.num_columns > 1:
            raise ConfigError("an input of several columns has symbols of its own", ("joint_vocabulary",))
        for name in SideConfig.model_fields:
            source, target = getattr(self.source, name), getattr(self.target, name)
            if source != target:
                values = " and ".join("null" if value is None else repr(value) for value in (source, target))
                raise ConfigError(
                    f"source and target differ in {name} ({values}), so they have no joint vocabulary; make them equal",
                    ("joint_vocabulary",),
                )
        return self


class PointerConfig(Section):
    """Copying symbols of the input, also those that the vocabulary of the outputs lacks (See 2017)."""

    layer: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="the attention whose weights copy, such as `cross.2` of a Transformer; null: the last",
    )
    head: Natural | None = Field(default=None, description="its head, from 0; null: the mean of all")


class RecurrentKind(Section):
    """What chooses a recurrent encoder or decoder."""

    architecture: Literal["recurrent"] = Field(default="recurrent", description="the kind of network")


class RecurrentEncoderConfig(EncoderConfig, RecurrentKind):
    """A recurrent encoder."""


class RecurrentDecoderConfig(DecoderConfig, RecurrentKind):
    """A recurrent decoder."""


class MultiHeadConfig(AttentionConfig):
    """A recipe of attention, with its options by name, in a Transformer."""

    recipe: str = Field(default="multi_head", description="the name of a recipe; all other keys here are its options")


class TransformerKind(Section):
    """What chooses the encoder or decoder of a Transformer."""

    architecture: Literal["transformer"] = Field(default="transformer", description="the kind of network")


class TransformerSideConfig(TransformerLayersConfig, TransformerKind):
    """What the encoder and the decoder of a Transformer have in common."""

    layers: Size = Field(default=4, description="number of layers", json_schema_extra=FROM_DATA)
    positions: (
        Literal[
            "sinusoidal",
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
        description="vectors that are added to embeddings (the first three), or how self-attention knows distances "
        "(`regard info multi_head`); null: none",
    )
    max_positions: Size | None = Field(
        default=None,
        description="with `positions: learned`: the number of positions, end symbols included; null: `data.max_length` "
        "+ 1. Longer inputs are refused, and outputs are no longer",
    )
    self_attention: MultiHeadConfig = Field(
        default=MultiHeadConfig(),
        description="how symbols of one side attend to one another: a recipe that is not recurrent",
    )
    like: Literal["annotated_transformer"] | None = Field(
        default=None,
        description="as another implementation computes it (`regard.models.peers`), with its defaults: of the "
        "Annotated Transformer `projection_bias: true` and `norm_epsilon: 1e-6`",
    )

    @model_validator(mode="before")
    @classmethod
    def _take_defaults(cls, values: Any) -> Any:
        """The defaults of the implementation that is imitated."""
        if isinstance(values, dict) and values.get("like") == "annotated_transformer":
            return {"projection_bias": True, "norm_epsilon": 1e-6, **values}
        return values


class TransformerEncoderConfig(TransformerSideConfig):
    """The encoder of a Transformer."""


class TransformerDecoderConfig(TransformerSideConfig):
    """The decoder of a Transformer."""

    tied_weights: bool = Field(default=False, description="the output layer shares the matrix of the embedding")


POINTER: Any = Field(
    default=None,
    description="a pointer, which may copy each symbol of the output from the input, `{}` with its defaults; "
    "null: none",
)
SHARED_EMBEDDINGS: Any = Field(
    default=False,
    description="encoder and decoder share the matrix of their embeddings; needs `data.joint_vocabulary`",
)


class RecurrentConfig(Section):
    """A sequence-to-sequence model, recurrent where its parts do not say otherwise."""

    architecture: Literal["recurrent"] = Field(
        default="recurrent", description="the kind of encoder and decoder where they do not say theirs"
    )
    encoder: RecurrentEncoderConfig | TransformerEncoderConfig = Field(
        default=RecurrentEncoderConfig(), discriminator="architecture", description="reads the input"
    )
    decoder: RecurrentDecoderConfig | TransformerDecoderConfig = Field(
        default=RecurrentDecoderConfig(), discriminator="architecture", description="writes the output"
    )
    attention: AttentionConfig | None = Field(
        default=AttentionConfig(),
        description="the attention mechanism; null: none, so that the decoder gets only one vector (`decoder.context`)",
    )
    pointer: PointerConfig | None = POINTER
    shared_embeddings: bool = SHARED_EMBEDDINGS


class TransformerConfig(Section):
    """A sequence-to-sequence model, a Transformer where its parts do not say otherwise (Vaswani 2017)."""

    architecture: Literal["transformer"] = Field(
        default="transformer", description="the kind of encoder and decoder where they do not say theirs"
    )
    encoder: TransformerEncoderConfig | RecurrentEncoderConfig = Field(
        default=TransformerEncoderConfig(), discriminator="architecture", description="reads the input"
    )
    decoder: TransformerDecoderConfig | RecurrentDecoderConfig = Field(
        default=TransformerDecoderConfig(), discriminator="architecture", description="writes the output"
    )
    attention: MultiHeadConfig | None = Field(
        default=MultiHeadConfig(),
        description="how the decoder attends to the input, a Transformer in each of its layers; null: a recurrent "
        "decoder gets only one vector (`decoder.context`)",
    )
    pointer: PointerConfig | None = POINTER
    shared_embeddings: bool = SHARED_EMBEDDINGS


ModelConfig = RecurrentConfig | TransformerConfig
"""The section of any architecture; the first is meant where `architecture` is left out."""


class PairAlignmentLossConfig(AlignmentLossConfig):
    """Losses on alignments, with that of reference alignments."""

    supervision: Weight = Field(
        default=0.0,
        description="towards `data.alignments`: -Σ_j α*_tj log α_tj, the mean over steps, of which those without links "
        "count as 0 (Liu 2016)",
    )
    supervision_layer: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="the attention of `supervision`, such as `cross.4`, the last but one of six layers (Garg 2019); "
        "null: the decoder's main one, which is the last",
    )
    supervision_head: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="the head of `supervision`, from 0; null: all heads"
    )
    settings: ClassVar[tuple[str, ...]] = (*AlignmentLossConfig.settings, "supervision_layer", "supervision_head")


class TextTrainingConfig(AlignmentTrainingConfig, FeedbackConfig, TokenTrainingConfig, TrainingConfig):
    """The training loop, with what pairs of texts add to it."""

    alignment_losses: PairAlignmentLossConfig = Field(
        default=PairAlignmentLossConfig(), description="losses on alignments; all weights are 0 by default"
    )
    learning_rate: Annotated[float, Field(gt=0.0)] = Field(
        default=0.002,
        description=TrainingConfig.model_fields["learning_rate"].description,
        json_schema_extra=FROM_DATA,
    )
    label_smoothing_others: bool = Field(
        default=False,
        description="`label_smoothing` is distributed over all symbols but the right one, as in the Annotated "
        "Transformer and Joey NMT",
    )


class DecodingConfig(Search):
    """The search of predictions, and of validations with a beam of their own."""

    max_length: Size | None = Field(
        default=None, description="the most symbols of an output; null: max_length_ratio × source symbols + 10"
    )
    max_length_ratio: Annotated[float, Field(gt=0.0)] = Field(default=3.0, description="see `max_length`")
    min_length_ratio: Annotated[float, Field(ge=0.0)] = Field(
        default=0.0,
        description="the fewest symbols of an output as a multiple of the input's, if these are more than `min_length`",
    )
    prefix: str = Field(default="", description="the text with which every output begins")
    include: Texts = Field(
        default=(), description="a text that every finished output contains, or a list of them; needs a beam"
    )
    exclude: Texts = Field(default=(), description="a text that no output contains, or a list of them")
    max_source_length: Size | None = Field(
        default=None,
        description="the most symbols of an input; a longer one gets a warning and no output; null: ten times "
        "`data.max_length`",
    )
    batch_tokens: Size = Field(
        default=16384, description="the most source symbols times hypotheses or samples decoded at once"
    )
    alignment_layer: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="the attention that the alignment of a prediction shows, such as `cross.3`; `mean`: all; null: the "
        "supervised one, or else the last",
    )
    alignment_head: Annotated[int, Field(ge=0)] | None = Field(
        default=None, description="the head of `alignment_layer`, from 0; null: the supervised one, or else their mean"
    )
    ensemble: File | Annotated[tuple[File, ...], Strict(False)] = Field(
        default=(),
        description="a model, or a list of them, with the same vocabularies: run folders or names of shipped models. "
        "Outputs are searched for with the mean of their predictions and this model's",
    )
    ensemble_weights: Annotated[tuple[Annotated[float, Field(gt=0.0)], ...], Strict(False)] | None = Field(
        default=None, description="of an ensemble: the weight of this model and of each other one; null: equal"
    )
    ensemble_average: Literal["probabilities", "log_probabilities"] = Field(
        default="probabilities", description="of an ensemble: what is averaged"
    )
    ensemble_alignment: Natural | None = Field(
        default=None,
        description="of an ensemble: the model whose alignment is shown, 0 for this one; null: the mean of all",
    )
    reranker: File | None = Field(
        default=None,
        description="a second model that helps to rank the hypotheses of the beam, or the samples: a run folder or the "
        "name of a shipped model, mostly one that writes from right to left (`data.target.direction`)",
    )
    reranker_weight: Probability = Field(
        default=0.5, description="of a reranker: its share of the score, beside that of the search"
    )
    validation_beam: Size = Field(
        default=1, description="the beam of validations; `regard predict` and `regard evaluate` use `beam`"
    )

    @property
    def members(self) -> tuple[Path, ...]:
        """The further models of the ensemble."""
        return self.ensemble if isinstance(self.ensemble, tuple) else (self.ensemble,)

    @model_validator(mode="after")
    def _limits_agree(self) -> DecodingConfig:
        for name, value in self:
            if isinstance(value, int) and value >= 2**31:
                raise ConfigError(f"{name} is {value}; it must be below 2147483648", (name,))
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
        if self.max_length is None and self.min_length_ratio > self.max_length_ratio:
            raise ConfigError(
                f"min_length_ratio is {self.min_length_ratio}, above max_length_ratio {self.max_length_ratio}",
                ("min_length_ratio",),
            )
        for name in ("include", "exclude"):
            value = getattr(self, name)
            if any(not text.strip() for text in ((value,) if isinstance(value, str) else value)):
                raise ConfigError(f"{name} has an empty text", (name,))
        if self.include and (self.method != "beam" or self.beam == 1):
            searched = "sampling" if self.method != "beam" else "greedy search (beam 1)"
            raise ConfigError(f"include needs a beam of at least 2; {searched} has only one hypothesis", ("include",))
        return self


class TextToTextConfig(Config):
    """A whole configuration of text to text."""

    task: Literal["text_to_text"] = Field(default="text_to_text", description="what is learned")
    data: DataConfig = Field(description="the pairs and how they are read")
    model: ModelConfig = Field(default=RecurrentConfig(), discriminator="architecture", description="the network")
    training: TextTrainingConfig = Field(default=TextTrainingConfig(), description="the training loop")
    decoding: DecodingConfig = Field(default=DecodingConfig(), description="the search")
    select: str = Field(
        default="sequence_error_rate",
        description="the validation metric that chooses the best weights: sequence_error_rate (wer), "
        "symbol_error_rate (per), loss, bleu, chrf",
    )
