"""The configuration of sequence labelling: sentences with a label for each token."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from regard.config.conditions import only_with
from regard.config.schema import (
    FROM_DATA,
    AttentionConfig,
    Config,
    DataSection,
    EncoderConfig,
    File,
    Fraction,
    HeldOut,
    Section,
    Size,
    TokenTrainingConfig,
    TrainingConfig,
)

SchemeName = Literal["bio", "iob1", "iob2", "ioe1", "ioe2", "bioes", "iobes", "bmes", "bilou"]
"""Schemes of spans (`regard.metrics.SpanScheme`)."""
ConlluColumn = Literal["id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc"]
"""The columns of CoNLL-U, in their order."""


class LabellingData(DataSection):
    """Where the sentences are and how they are read."""

    train: File = Field(
        description="a text file with one token and its label per line, and a blank line between sentences"
    )
    dev: File | None = Field(default=None, description="held-out sentences; null: a share of them (`dev_fraction`)")
    dev_fraction: HeldOut = Field(
        default=0.1,
        description="share of the sentences that a fixed hash holds out if there is no `dev` file",
        json_schema_extra=only_with("dev", None),
    )
    format: Literal["auto", "conll", "tsv", "conllu"] = Field(
        default="auto",
        description="how columns are separated: by spaces or tabs (`conll`), by tabs only (`tsv`, whose tokens may "
        "have spaces), or as in CoNLL-U; `auto`: `conllu` by the suffix `.conllu` or by its ten columns, else `tsv` if "
        "most lines have a tab",
    )
    token_column: int | ConlluColumn | None = Field(
        default=None,
        description="column of the token, counted from 0; -1 is the last; of CoNLL-U also by name; null: 0, and `form` "
        "of CoNLL-U",
    )
    label_column: int | ConlluColumn | None = Field(
        default=None,
        description="column of the label, counted from 0; -1 is the last; of CoNLL-U also by name, such as `xpos` or "
        "`deprel`; null: -1, and `upos` of CoNLL-U",
    )
    span_scheme: SchemeName | Literal["none"] | None = Field(
        default=None,
        description="how labels mark spans, for `span_f1`; `bio` is `iob2`, `bioes` is `iobes`; `none`: spans are "
        "not scored; null: inferred from the training labels",
        json_schema_extra=FROM_DATA,
    )
    case: Literal["keep", "lower"] = Field(
        default="lower", description="the letter case for the vectors of tokens; characters keep their case"
    )
    min_count: Size = Field(
        default=1, description="tokens that occur less often are unknown, except for their characters"
    )
    max_length: Size = Field(default=400, description="longer sentences are left out of the training and reported")


class SelfAttentionConfig(AttentionConfig):
    """The recipe of the attention of each token to the sentence."""

    recipe: str = Field(default="multi_head", description="the name of a recipe; all other keys here are its options")


class LabellingModel(Section):
    """Vectors of tokens and of their characters, a recurrent encoder, self-attention, and a label at each token."""

    character_size: Annotated[int, Field(ge=0)] = Field(
        default=32, description="state size of one direction of the encoder of characters; 0: tokens only"
    )
    encoder: EncoderConfig = Field(default=EncoderConfig(), description="reads the sentence")
    attention: SelfAttentionConfig | None = Field(
        default=SelfAttentionConfig(),
        description="each token attends to the whole sentence; null: no attention",
    )


class LabellingTraining(TokenTrainingConfig, TrainingConfig):
    """The training loop, with the keys of labelled sentences."""

    word_dropout: Fraction = Field(
        default=0.05, description="probability that a token's vector is that of an unknown token"
    )


class LabellingDecoding(Section):
    """The settings of predictions."""

    batch_tokens: Size = Field(default=8192, description="the most tokens of a batch, with padding")


class LabellingConfig(Config):
    """A whole configuration of sequence labelling."""

    task: Literal["labelling"] = Field(default="labelling", description="what is learned")
    data: LabellingData = Field(description="the sentences and how they are read")
    model: LabellingModel = Field(default=LabellingModel(), description="the network")
    training: LabellingTraining = Field(default=LabellingTraining(), description="the training loop")
    decoding: LabellingDecoding = Field(default=LabellingDecoding(), description="the settings of predictions")
    select: str = Field(
        default="token_error_rate",
        description="the validation metric that chooses the best weights: token_error_rate (error_rate), "
        "sentence_error_rate, macro_f1, span_f1 and span_f1_strict (of labels that mark spans), loss",
    )


CONFIG = LabellingConfig
