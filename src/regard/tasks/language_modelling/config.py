"""The configuration of language modelling: running text, and a model that predicts its next token."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Strict, model_validator

from regard.config.combinations import Method
from regard.config.conditions import only_with
from regard.config.schema import (
    COMMON,
    FROM_DATA,
    Config,
    DataSection,
    File,
    Fraction,
    HeldOut,
    Layers,
    Section,
    Size,
    TrainingConfig,
    TransformerLayersConfig,
)
from regard.config.search import Ranking, Search, Seed, Temperature, another

Files = File | Annotated[tuple[File, ...], Strict(False)]


class RunningTextConfig(DataSection):
    """Where the text is and how it is read."""

    train: Files = Field(
        description="a text file in UTF-8, or a list of them that follow one another; relative to the configuration's "
        "folder"
    )
    dev: Files | None = Field(
        default=None, description="held-out text; null: the end of the training text (`dev_fraction`)"
    )
    dev_fraction: HeldOut | None = Field(
        default=None,
        description="share of the text, at its end, that is held out if there is no `dev` file; null: a tenth, or "
        "about 200,000 tokens if that is less",
        json_schema_extra=only_with("dev", None),
    )
    units: Literal["character", "word", "whitespace", "byte"] = Field(
        default="character", description="what a token is; `word` splits off punctuation, `whitespace` does not"
    )
    case: Literal["keep", "upper", "lower"] = Field(
        default="keep", description="the letter case that the text is converted to"
    )
    unicode: Literal["keep", "NFC", "NFD", "NFKC", "NFKD"] = Field(
        default="NFC", description="the Unicode normal form of the text"
    )
    min_count: Size = Field(
        default=1,
        description="symbols that occur less often in the training text are unknown",
        json_schema_extra=only_with("units", unless="byte"),
    )
    vocabulary_size: Size | None = Field(
        default=None,
        description="the most symbols of the vocabulary, which keeps the most frequent; null: all",
        json_schema_extra=only_with("units", unless="byte"),
    )


class RecurrentLanguageConfig(Section):
    """A recurrent language model, which may attend to its past outputs (Daniluk 2017)."""

    architecture: Literal["recurrent"] = Field(default="recurrent", description="the kind of network")
    past: Literal["state", "attention", "key_value", "key_value_predict", "ngram"] = Field(
        default="attention",
        description="what the model uses of its past: only the state of its cells; attention over its last outputs, "
        "undivided, or divided into key and value, or into key, value and predicting part; or parts of "
        "the last outputs without attention",
    )
    cell: Literal["lstm", "gru", "rnn"] = Field(default="lstm", description="`rnn` is the vanilla tanh cell")
    size: Size = Field(default=256, description="state size of each layer", json_schema_extra=FROM_DATA)
    layers: Layers = Field(default=1, description="number of stacked layers")
    embedding_size: Size | None = Field(default=None, description="size of the vector of a symbol; null: `size`")
    reach: Size = Field(default=10, description="with attention: the number of earlier outputs that it attends to")
    heads: Size = Field(default=1, description="with attention: number of heads")
    order: Annotated[int, Field(ge=2)] = Field(
        default=4, description="with `past: ngram`: a prediction depends on the outputs at `order` - 1 tokens"
    )
    dropout: Fraction = Field(
        default=0.2,
        description="on embeddings, between layers and before the output layer",
        json_schema_extra=FROM_DATA,
    )
    tied_weights: bool = Field(default=False, description="the output layer shares the matrix of the embedding")


class TransformerLanguageConfig(TransformerLayersConfig):
    """A decoder-only Transformer (Liu 2018)."""

    architecture: Literal["transformer"] = Field(default="transformer", description="the kind of network")
    size: Size = Field(
        default=128, description="size of the layers, a multiple of `heads`", json_schema_extra=FROM_DATA
    )
    positions: Literal["rotary", "linear_bias", "buckets", "relative", "transformer_xl"] = Field(
        default="rotary", description="how attention represents distances between tokens (`regard info multi_head`)"
    )
    reach: Size | None = Field(
        default=None,
        description="the number of tokens that a token attends to, itself included; null: `training.window`",
    )
    tied_weights: bool = Field(default=True, description="the output layer shares the matrix of the embedding")


class TextWindowConfig(TrainingConfig):
    """The training loop, and the windows into which a text is cut."""

    window: Annotated[int, Field(ge=2)] = Field(
        default=128, description="tokens of a window; no state is passed between windows"
    )
    context: Size = Field(
        default=1,
        description="context of the first scored token of a window, in tokens; with more than 1 the windows overlap,"
        " and the first `context` - 1 tokens of each are not scored",
    )
    batch_size: Size = Field(default=32, description="windows in a batch", json_schema_extra=FROM_DATA)

    @model_validator(mode="after")
    def _context_is_inside(self) -> TextWindowConfig:
        if self.context > self.window:
            raise ValueError(f"context is {self.context}, but a window has {self.window} tokens")
        return self


NO_END = "a running text has no end, so every continuation has max_length tokens"
NOT_READ = {
    "coverage_penalty": "a continuation has no source that it has to cover",
    "attention_stop": "a continuation has no source that ends before it",
    "unknown_penalty": "a continuation never has the unknown symbol",
    **dict.fromkeys(("min_length", "eos_threshold", "stop", "patience", "keep_finished"), NO_END),
}
"""Keys of `Search` that are not for continuations."""


class ContinuationConfig(Search):
    """The search of continuations, and the context of evaluations."""

    never_read = NOT_READ

    method: Method = another("method", "sampling")
    length_penalty: Ranking = another("length_penalty", "none")
    temperature: Temperature = another("temperature", 0.8)
    seed: Seed = another("seed", 1)
    max_length: Size = Field(
        default=200, description="the number of tokens of a continuation", json_schema_extra=COMMON
    )
    context: Size | None = Field(
        default=None,
        description="in evaluations and validations: the least context of each scored token, in tokens, where the "
        "text has as many; null: half of the window",
    )
    window: Annotated[int, Field(ge=2)] | None = Field(
        default=None,
        description="in evaluations and validations: tokens of a window; null: `training.window`",
    )


class LanguageModellingConfig(Config):
    """A whole configuration of language modelling."""

    task: Literal["language_modelling"] = Field(default="language_modelling", description="what is learned")
    data: RunningTextConfig = Field(description="the text and how it is read")
    model: RecurrentLanguageConfig | TransformerLanguageConfig = Field(
        default=RecurrentLanguageConfig(), discriminator="architecture", description="the network"
    )
    training: TextWindowConfig = Field(default=TextWindowConfig(), description="the training loop")
    decoding: ContinuationConfig = Field(default=ContinuationConfig(), description="continuations and evaluations")
    select: str = Field(
        default="perplexity",
        description="the validation metric that chooses the best weights: perplexity (of a token), "
        "bits_per_character, loss (nats of a token)",
    )


CONFIG = LanguageModellingConfig
