"""The configuration of text to text: pairs of texts, and a model that turns one into the other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, Strict, model_validator

from regard.config.conditions import only_with
from regard.config.schema import (
    ATTENTION,
    COMMON,
    CONVERTED,
    AlignmentLossConfig,
    AttentionConfig,
    Config,
    DataSection,
    EncoderConfig,
    File,
    HeldOut,
    Probability,
    Section,
    Size,
    TokenTrainingConfig,
    Weight,
)
from regard.config.search import Natural
from regard.config.texts import (
    MultiHeadConfig,
    ParallelFiles,
    RecurrentDecoderConfig,
    RecurrentKind,
    SideConfig,
    TargetConfig,
    TextDecodingConfig,
    TransformerDecoderConfig,
    TransformerSideConfig,
    WeightedPairs,
    WriterTrainingConfig,
)
from regard.errors import ConfigError

PairFiles = (
    File
    | ParallelFiles
    | Annotated[tuple[File | ParallelFiles | WeightedPairs, ...], Strict(False), Field(min_length=1)]
)
"""What `data.train` names."""


class PairDataConfig(DataSection):
    """Where the pairs are and how they are read."""

    train: PairFiles = Field(
        description="a TSV, CSV or JSONL file, or text files `source:` and `target:`; also Parquet, data sets of "
        "Hugging Face, patterns such as `part-*.tsv`, and a list of these, with weights ([large data](large-data.md)); "
        "relative to the configuration's folder"
    )
    temperature: Annotated[float, Field(ge=1)] = Field(
        default=1.0,
        description="mixes several files: of a file with n pairs, an epoch has pairs in proportion to n^(1/temperature)"
        ", so that small files occur more often",
    )
    dev: File | ParallelFiles | None = Field(
        default=None, description="held-out pairs; null: a share of the training pairs (`dev_fraction`)"
    )
    dev_fraction: HeldOut | None = Field(
        default=None,
        description="share of training inputs that a fixed hash holds out if there is no `dev` file; null: a tenth, "
        "or about 2,000 pairs if that is less",
        json_schema_extra=only_with("dev", None),
    )
    format: Literal["auto", "tsv", "csv", "jsonl", "parallel"] = Field(
        default="auto",
        description="`auto`: by the file's suffix; lines of a TSV may also have ` ||| ` between their texts",
    )
    source_field: str | int | Annotated[tuple[str | int, ...], Strict(False)] = Field(
        default=0,
        description="column of the input, counted from 0, or its name in the first line, or JSONL field "
        "(`translation.en` within another); a list if an input has several columns, such as a lemma and its tags",
    )
    target_field: str | int = Field(
        default=1, description="column or JSONL field of the output", json_schema_extra=only_with("autoencode", False)
    )
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
        description="the units of `alignments`: symbols, or words separated by blanks; every symbol of a word has "
        "the links of its word",
    )
    joint_vocabulary: bool = Field(
        default=False,
        description="inputs and outputs share one vocabulary, learned from the texts of both; their settings must be"
        " equal",
    )
    source: SideConfig = Field(default=SideConfig(), description="the texts of inputs")
    source_end: bool = Field(
        default=True,
        description="an end symbol follows every input, to which the decoder can attend at its end "
        "([0003](decisions/0003-sources-end-with-an-end-symbol.md)); models of other programs may have "
        "been trained without it",
        json_schema_extra=CONVERTED,
    )
    source_begin: bool = Field(
        default=False,
        description="the begin symbol precedes every input, as in some other programs",
        json_schema_extra=CONVERTED,
    )
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
    def _links_count_symbols(self) -> PairDataConfig:
        if self.source_begin and self.alignments is not None:
            raise ConfigError("links count the symbols of inputs without a begin symbol", ("source_begin",))
        return self

    @model_validator(mode="after")
    def _sides_agree(self) -> PairDataConfig:
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
    """Copying symbols of the input, also those outside the vocabulary of the outputs (See 2017)."""

    layer: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="the attention whose weights copy, such as `cross.2` of a Transformer; null: the last",
    )
    head: Natural | None = Field(default=None, description="its head, from 0; null: the mean of all")


class RecurrentEncoderConfig(EncoderConfig, RecurrentKind):
    """A recurrent encoder."""


class TransformerEncoderConfig(TransformerSideConfig):
    """The encoder of a Transformer."""


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
    """A sequence-to-sequence model, recurrent unless a part has another architecture."""

    architecture: Literal["recurrent"] = Field(
        default="recurrent", description="the kind of encoder and decoder, unless their sections set it"
    )
    encoder: RecurrentEncoderConfig | TransformerEncoderConfig = Field(
        default=RecurrentEncoderConfig(), discriminator="architecture", description="reads the input"
    )
    decoder: RecurrentDecoderConfig | TransformerDecoderConfig = Field(
        default=RecurrentDecoderConfig(), discriminator="architecture", description="writes the output"
    )
    attention: AttentionConfig | None = ATTENTION
    pointer: PointerConfig | None = POINTER
    shared_embeddings: bool = SHARED_EMBEDDINGS


class TransformerConfig(Section):
    """A sequence-to-sequence model, a Transformer unless a part has another architecture (Vaswani 2017)."""

    architecture: Literal["transformer"] = Field(
        default="transformer", description="the kind of encoder and decoder, unless their sections set it"
    )
    encoder: TransformerEncoderConfig | RecurrentEncoderConfig = Field(
        default=TransformerEncoderConfig(), discriminator="architecture", description="reads the input"
    )
    decoder: TransformerDecoderConfig | RecurrentDecoderConfig = Field(
        default=TransformerDecoderConfig(), discriminator="architecture", description="writes the output"
    )
    attention: MultiHeadConfig | None = Field(
        default=MultiHeadConfig(),
        description="the mechanism of attention to the input, in each layer of a Transformer; null: none, a "
        "recurrent decoder then gets only one vector (`decoder.context`)",
    )
    pointer: PointerConfig | None = POINTER
    shared_embeddings: bool = SHARED_EMBEDDINGS


ModelConfig = RecurrentConfig | TransformerConfig
"""The section of any architecture; the first is meant where `architecture` is left out."""


class PairAlignmentLossConfig(AlignmentLossConfig):
    """Losses on alignments, with that of reference alignments."""

    supervision: Weight = Field(
        default=0.0,
        description="towards `data.alignments`: -Σ_j α*_tj log α_tj, the mean over steps, with 0 for steps without "
        "links (Liu 2016)",
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


class TextTrainingConfig(TokenTrainingConfig, WriterTrainingConfig):
    """The training loop, with the keys of pairs of texts."""

    alignment_losses: PairAlignmentLossConfig = Field(
        default=PairAlignmentLossConfig(), description="losses on alignments; all weights are 0 by default"
    )
    teachers: File | Annotated[tuple[File, ...], Strict(False)] = Field(
        default=(),
        description="a model, or a list of them: run folders or names of shipped models. The mean of their "
        "probabilities at each symbol of the training pairs is learned, too (knowledge distillation)",
    )
    teacher_weight: Probability = Field(
        default=0.5,
        description="the share of `teachers` in the loss; the rest is that of the right symbol",
        json_schema_extra=only_with("teachers", unless=()),
    )

    @property
    def taught_by(self) -> tuple[Path, ...]:
        """The teachers, as a tuple."""
        return (self.teachers,) if isinstance(self.teachers, Path) else self.teachers


class DecodingConfig(TextDecodingConfig):
    """The search of predictions, and of validations with a beam of their own."""

    max_length: Size | None = Field(
        default=None,
        description="the most symbols of an output; null: max_length_ratio × source symbols + max_length_extra, at "
        "most max_length_cap",
        json_schema_extra=COMMON,
    )
    max_length_ratio: Annotated[float, Field(gt=0.0)] = Field(
        default=3.0, description="see `max_length`", json_schema_extra=only_with("max_length", None)
    )
    max_length_extra: Annotated[float, Field(ge=0.0)] = Field(
        default=10.0, description="see `max_length`", json_schema_extra=only_with("max_length", None)
    )
    max_length_cap: Size | None = Field(
        default=None, description="see `max_length`; null: none", json_schema_extra=only_with("max_length", None)
    )
    min_length_ratio: Annotated[float, Field(ge=0.0)] = Field(
        default=0.0,
        description="the fewest symbols of an output as a multiple of the input's, if more than `min_length`",
    )
    max_source_length: Size | None = Field(
        default=None,
        description="the most symbols of an input; a longer one gets a warning and no output; null: ten times "
        "`data.max_length`",
    )
    batch_tokens: Size = Field(
        default=12_000,
        description="the most source symbols times hypotheses or samples (at least four) in a batch",
    )

    @model_validator(mode="after")
    def _ratios_agree(self) -> Self:
        if self.max_length is None and self.min_length_ratio > self.max_length_ratio:
            raise ConfigError(
                f"min_length_ratio is {self.min_length_ratio}, above max_length_ratio {self.max_length_ratio}",
                ("min_length_ratio",),
            )
        return self


class TextToTextConfig(Config):
    """A whole configuration of text to text."""

    task: Literal["text_to_text"] = Field(default="text_to_text", description="what is learned")
    data: PairDataConfig = Field(description="the pairs and how they are read")
    model: ModelConfig = Field(default=RecurrentConfig(), discriminator="architecture", description="the network")
    training: TextTrainingConfig = Field(default=TextTrainingConfig(), description="the training loop")
    decoding: DecodingConfig = Field(default=DecodingConfig(), description="the search")
    select: str = Field(
        default="sequence_error_rate",
        description="the validation metric that chooses the best weights: sequence_error_rate (wer), "
        "symbol_error_rate (per), teacher_forced_loss (loss), bleu, chrf",
    )


CONFIG = TextToTextConfig
