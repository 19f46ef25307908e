"""Builds the classifier of a configuration."""

from __future__ import annotations

from regard.config.place import KeyPath
from regard.errors import ConfigError
from regard.layers import RecurrentStack, TokenEmbedding
from regard.models import DocumentClassifier, Level, Pooling
from regard.tasks.documents.config import FlatConfig, HierarchicalConfig, LevelConfig

DEFAULT = LevelConfig()
ENCODER = ("size", "layers", "bidirectional")
"""Keys of a level that have no effect without an encoder."""


def build_classifier(config: HierarchicalConfig | FlatConfig, *, num_words: int, num_labels: int) -> DocumentClassifier:
    """The network, freshly initialised."""
    embedding = TokenEmbedding(num_words, config.embedding_size, dropout=config.dropout)
    words = _level(config.words, config.embedding_size, config.dropout, ("model", "words"))
    sentences = None
    if isinstance(config, HierarchicalConfig):
        sentences = _level(config.sentences, words.context_size, config.dropout, ("model", "sentences"))
    return DocumentClassifier(embedding, words, num_labels, sentence=sentences, dropout=config.dropout)


def _level(config: LevelConfig, input_size: int, dropout: float, path: KeyPath) -> Level:
    _check_unused(config, path)
    stack = None
    if config.cell != "none":
        stack = RecurrentStack(
            input_size,
            config.size,
            config.layers,
            cell=config.cell,
            bidirectional=config.bidirectional,
            dropout=dropout,
        )
    width = input_size if stack is None else stack.output_size
    heads = config.heads if config.pooling == "multi_head" else 1
    if config.attention_size % heads:
        raise ConfigError(
            f"attention_size={config.attention_size} must be a multiple of heads={heads}", (*path, "attention_size")
        )
    kinds = {"multi_head": "attention", "last_state": "last"}
    kind = kinds.get(config.pooling, config.pooling)
    return Level(stack, Pooling(kind, width, attention_size=config.attention_size, num_heads=heads))  # type: ignore[arg-type]


def _check_unused(config: LevelConfig, path: KeyPath) -> None:
    """Refuses settings without effect."""
    if config.cell == "none" and config.pooling == "last_state":
        raise ConfigError(
            "pooling: last_state needs an encoder, and there is none with cell: none; choose another of them",
            (*path, "pooling"),
        )
    unused = [(key, "cell: none") for key in ENCODER if config.cell == "none"]
    for key, kinds in (("attention_size", ("attention", "multi_head")), ("heads", ("multi_head",))):
        unused += [(key, f"pooling: {config.pooling}")] * (config.pooling not in kinds)
    for key, setting in unused:
        if getattr(config, key) != getattr(DEFAULT, key):
            raise ConfigError(f"{key} has no effect with {setting}; leave it out", (*path, key))
