"""The configuration of documents: labelled texts, and a classifier of them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Strict

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
    Probability,
    Section,
    Size,
    TrainingConfig,
)

Pooling = Literal["attention", "multi_head", "mean", "maximum", "last_state"]


class DocumentDataConfig(DataSection):
    """Where the documents are and how they are read."""

    train: File = Field(
        description="a CSV, TSV or JSONL file, or a folder of text files in a folder for each label; relative to the "
        "configuration's folder"
    )
    dev: File | None = Field(
        default=None, description="held-out documents; null: a share of the training documents (`dev_fraction`)"
    )
    dev_fraction: HeldOut | None = Field(
        default=None,
        description="share of training texts that a fixed hash holds out if there is no `dev` file; null: a tenth, "
        "or about 2,000 documents if that is less",
        json_schema_extra=only_with("dev", None),
    )
    format: Literal["auto", "csv", "tsv", "jsonl", "folder"] = Field(
        default="auto", description="`auto`: by the file's suffix"
    )
    text_field: str | int | Annotated[tuple[str | int, ...], Strict(False)] | None = Field(
        default=None,
        description="column or field of the text, several joined by blank lines; null: `text`, or without a header the "
        "column after the label",
    )
    label_field: str | int | None = Field(
        default=None, description="column or field of the label; null: `label`, or without a header the first column"
    )
    label_separator: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="the text between labels, if documents may have none or several; null: one each"
    )
    delimiter: Annotated[str, Field(min_length=1, max_length=1)] = Field(
        default=",", description="the character between the columns of a CSV file"
    )
    header: bool | None = Field(
        default=None,
        description="whether the first line of a CSV or TSV file names its columns; null: it does in CSV, and in TSV "
        "if it has `text` and `label` or fields are names",
    )
    units: Literal["word", "whitespace", "character", "byte"] = Field(
        default="word", description="what a word is; `word` splits off punctuation, `whitespace` does not"
    )
    case: Literal["keep", "upper", "lower"] = Field(
        default="lower", description="the letter case that every text is converted to"
    )
    unicode: Literal["keep", "NFC", "NFD", "NFKC", "NFKD"] = Field(
        default="NFC", description="the Unicode normal form of every text"
    )
    min_count: Size = Field(default=2, description="words that occur less often in the training texts are unknown")
    vocabulary_size: Size | None = Field(
        default=None, description="the most words of the vocabulary, which keeps the most frequent; null: all"
    )
    sentences: Literal["paragraph", "line", "space", "none"] = Field(
        default="paragraph",
        description="which line ends end a sentence, besides punctuation: those before blank lines, all, or none of "
        "them; `none`: texts are not split into sentences",
    )
    max_sentence_length: Size = Field(
        default=50, description="the most words of a sentence; a longer one is divided into equal parts"
    )
    max_sentences: Size | None = Field(
        default=None, description="the most sentences of a document; further ones are left out; null: all"
    )


class LevelConfig(Section):
    """One level of a network: an encoder over a sequence, and pooling of its states to one vector."""

    cell: Literal["gru", "lstm", "rnn", "none"] = Field(
        default="gru", description="`rnn` is the vanilla tanh cell; `none`: no encoder, the vectors are pooled directly"
    )
    size: Size = Field(default=50, description="state size of one direction of the encoder")
    layers: Layers = Field(default=1, description="number of stacked layers of the encoder")
    bidirectional: bool = Field(default=True, description="a second cell reads from the end; states are concatenated")
    pooling: Pooling = Field(
        default="attention",
        description="the pooling of outputs to one vector: learned weights of one head or of several, the mean, the "
        "maximum, or the last state",
    )
    attention_size: Size = Field(default=100, description="width of the vectors that attention compares, of all heads")
    heads: Size = Field(default=4, description="number of heads of pooling `multi_head`")


class HierarchicalConfig(Section):
    """Words to sentences to the document (hierarchical attention, Yang 2016)."""

    architecture: Literal["hierarchical"] = Field(default="hierarchical", description="words, then sentences")
    embedding_size: Size = Field(default=100, description="size of the vector of a word")
    words: LevelConfig = Field(default=LevelConfig(), description="from the words of a sentence to its vector")
    sentences: LevelConfig = Field(default=LevelConfig(), description="from the sentences to the document's vector")
    dropout: Fraction = Field(
        default=0.3,
        description="on embeddings, between layers, and on the vectors of sentences and documents",
        json_schema_extra=FROM_DATA,
    )


class FlatConfig(Section):
    """All words of a document as one sequence."""

    architecture: Literal["flat"] = Field(default="flat", description="words of all sentences as one sequence")
    embedding_size: Size = Field(default=100, description="size of the vector of a word")
    words: LevelConfig = Field(default=LevelConfig(), description="from all words to the document's vector")
    dropout: Fraction = Field(
        default=0.3,
        description="on embeddings, between layers, and on the document's vector",
        json_schema_extra=FROM_DATA,
    )


class DocumentTrainingConfig(TrainingConfig):
    """The training loop, with the keys of documents."""

    batch_words: Size = Field(
        default=4096, description="the most words of a batch, with padding", json_schema_extra=FROM_DATA
    )
    label_smoothing: Fraction = Field(
        default=0.1, description="share of the target probability that is distributed over all labels"
    )
    word_dropout: Fraction = Field(
        default=0.1, description="share of the words that are randomly replaced by the unknown word"
    )
    class_weights: Literal["none", "balanced"] = Field(
        default="none",
        description="`balanced`: documents of rare labels count more, so that all labels count the same",
    )


class DocumentDecodingConfig(Section):
    """The settings of predictions."""

    num_best: Size = Field(
        default=1,
        description="labels of each document, the most probable first, with their probabilities; 1: its label, or all "
        "labels above `threshold` if documents may have several",
        json_schema_extra=COMMON,
    )
    threshold: Probability = Field(
        default=0.5,
        description="the least probability of a predicted label, if a document may have several",
        json_schema_extra=COMMON | only_with("data.label_separator", unless=None),
    )
    batch_words: Size = Field(default=16384, description="the most words of a batch, with padding")


class DocumentsConfig(Config):
    """A whole configuration of documents."""

    task: Literal["documents"] = Field(default="documents", description="what is learned")
    data: DocumentDataConfig = Field(description="the documents and how they are read")
    model: HierarchicalConfig | FlatConfig = Field(
        default=HierarchicalConfig(), discriminator="architecture", description="the network"
    )
    training: DocumentTrainingConfig = Field(default=DocumentTrainingConfig(), description="the training loop")
    decoding: DocumentDecodingConfig = Field(
        default=DocumentDecodingConfig(), description="the defaults of predictions"
    )
    select: str = Field(
        default="error_rate",
        description="the validation metric that chooses the best weights: error_rate, accuracy (exact_match), "
        "macro_f1, micro_f1, loss",
    )


CONFIG = DocumentsConfig
