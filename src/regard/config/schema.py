"""What a configuration may say: every key with its type, range, default and meaning. The one place for defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Probability = Annotated[float, Field(ge=0.0, le=1.0)]
Dropout = Annotated[float, Field(ge=0.0, lt=1.0)]
Size = Annotated[int, Field(ge=1)]


class Section(BaseModel):
    """A part of the configuration; unknown keys are errors, values never change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class SideConfig(Section):
    """How the text of one side becomes symbols."""

    units: Literal["character", "word", "whitespace", "byte", "sentencepiece"] = Field(
        "character", description="what a symbol is; `word` splits off punctuation, `whitespace` does not"
    )
    case: Literal["keep", "upper", "lower"] = Field("keep", description="letter case, applied to every text")
    unicode: Literal["keep", "NFC", "NFD", "NFKC", "NFKD"] = Field("NFC", description="Unicode normal form")
    min_count: Size = Field(1, description="rarer symbols count as unknown")
    vocabulary_size: Size | None = Field(
        None, description="the most frequent symbols kept (sentencepiece: pieces, 4,000 unless told); None keeps all"
    )
    sentencepiece_model: Path | None = Field(None, description="a trained sentencepiece model; None trains one")


class ParallelFiles(Section):
    """Two text files whose lines belong together."""

    source: Path
    target: Path


class DataConfig(Section):
    """Where the pairs are and how they are read."""

    train: Path | ParallelFiles = Field(description="a TSV or JSONL file, or `source:` and `target:` text files")
    dev: Path | ParallelFiles | None = Field(None, description="held-out pairs; without them `dev_fraction` is cut off")
    dev_fraction: Annotated[float, Field(gt=0.0, lt=0.5)] = Field(
        0.05, description="the share of training inputs held out by a fixed hash when no `dev` file is given"
    )
    format: Literal["auto", "tsv", "jsonl", "parallel"] = Field("auto", description="told by the suffix when `auto`")
    source_field: str | int = Field(0, description="TSV column, counted from 0, or JSONL field of the input")
    target_field: str | int = Field(1, description="TSV column, counted from 0, or JSONL field of the output")
    autoencode: bool = Field(False, description="the output is the input itself: a sequence autoencoder")
    source: SideConfig = SideConfig()
    target: SideConfig = SideConfig()
    max_length: Size = Field(400, description="longer pairs (in symbols, either side) are left out and counted")


class EncoderConfig(Section):
    """The recurrent encoder."""

    cell: Literal["lstm", "gru", "rnn"] = Field("lstm", description="`rnn` is the vanilla tanh cell")
    size: Size = Field(256, description="state size of one direction")
    layers: Size = 1
    bidirectional: bool = True
    embedding_size: Size = 128
    dropout: Dropout = Field(0.3, description="on embeddings and between layers")
    residual: bool = Field(False, description="layers above the first add their input to their output")


class DecoderConfig(Section):
    """The recurrent decoder."""

    cell: Literal["lstm", "gru", "rnn"] = Field("lstm", description="`rnn` is the vanilla tanh cell")
    size: Size = 256
    layers: Size = 1
    embedding_size: Size = 128
    dropout: Dropout = Field(0.3, description="on embeddings, between layers and before the output layer")
    residual: bool = Field(False, description="layers above the first add their input to their output")
    order: Literal["recur_then_attend", "attend_then_recur"] = Field(
        "recur_then_attend", description="Luong's order (attend with the new state) or Bahdanau's (with the old one)"
    )
    input_feeding: bool | None = Field(
        None,
        description="feed the attentional output back into the cell; on unless told. `attend_then_recur` feeds the "
        "context by definition; without feedback all steps run at once",
    )
    bridge: Literal["dense", "copy", "zero"] = Field("dense", description="first state from the encoder's last states")
    context: Literal["last", "mean", "maximum", "learned"] = Field(
        "last", description="without attention: the fixed context vector c = q(h_1 … h_S)"
    )
    context_use: Literal["first_state", "every_step"] = Field(
        "first_state", description="without attention: c makes the first state only, or is fed at every step too"
    )
    tied_weights: bool = Field(False, description="the output layer uses the embedding's matrix")


class AttentionConfig(BaseModel):
    """A recipe of `regard list`, with its options by name."""

    model_config = ConfigDict(extra="allow", frozen=True)

    recipe: str = "bahdanau"

    @property
    def options(self) -> dict[str, Any]:
        """What is given to the recipe beside the sizes of query and memory."""
        return dict(self.model_extra or {})


class ModelConfig(Section):
    """A recurrent sequence-to-sequence model."""

    encoder: EncoderConfig = EncoderConfig()
    decoder: DecoderConfig = DecoderConfig()
    attention: AttentionConfig | None = Field(
        AttentionConfig(), description="null: the encoder's last word is a single vector"
    )


class TrainingConfig(Section):
    """The training loop."""

    epochs: Annotated[int, Field(ge=0)] = 30
    max_steps: Size | None = Field(None, description="stop after so many optimiser steps, whatever the epochs say")
    batch_tokens: Size = Field(4096, description="a batch holds at most so many symbols of its larger side, padding included")
    accumulation: Size = Field(1, description="batches whose gradients make one step")
    optimizer: Literal["adam", "adamw"] = "adamw"
    learning_rate: Annotated[float, Field(gt=0.0)] = 0.001
    betas: tuple[Probability, Probability] = (0.9, 0.999)
    weight_decay: Annotated[float, Field(ge=0.0)] = 0.0
    schedule: Literal["constant", "inverse_square_root", "cosine", "plateau"] = Field(
        "plateau", description="`plateau` lowers the rate when the selected metric stands still"
    )
    warmup_steps: Annotated[int, Field(ge=0)] = Field(0, description="linear rise from 0, before any schedule")
    plateau_factor: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.5
    plateau_patience: Annotated[int, Field(ge=0)] = Field(2, description="validations without improvement before lowering")
    min_learning_rate: Annotated[float, Field(ge=0.0)] = 1e-6
    label_smoothing: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.1
    clip_norm: Annotated[float, Field(gt=0.0)] | None = Field(1.0, description="largest gradient norm; null never clips")
    scheduled_sampling: Probability = Field(
        0.0, description="probability, drawn at each step, that the decoder is fed its own last output (Bengio 2015)"
    )
    scheduled_sampling_warmup: Annotated[int, Field(ge=0)] = Field(
        0, description="optimiser steps over which that probability rises linearly from 0"
    )
    sequence_teacher_forcing: Probability = Field(
        1.0, description="probability, drawn once a sequence, that it is teacher-forced; else it is free-running"
    )
    validate_every: Size | None = Field(None, description="optimiser steps between validations; null: once an epoch")
    early_stopping: Size | None = Field(10, description="validations without improvement before stopping; null: never")
    average_checkpoints: Annotated[int, Field(ge=0)] = Field(
        0, description="the saved model is the mean of the last so many validations' weights; 0 or 1: the best one's"
    )
    precision: Literal["float32", "bfloat16", "float16"] = Field("float32", description="type of the forward pass")
    device: str = Field("auto", description="auto, cpu, cuda or cuda:1")
    threads: Size | None = Field(None, description="CPU threads; null leaves torch's choice")
    log_every: Size = Field(50, description="optimiser steps between lines of metrics")
    save_every_minutes: Annotated[float, Field(gt=0.0)] = Field(5.0, description="minutes between resumable checkpoints")
    tensorboard: bool = Field(False, description="also write TensorBoard events (extra `log`)")
    samples: Annotated[int, Field(ge=0)] = Field(4, description="outputs and pictures shown at each validation")


class DecodingConfig(Section):
    """The search used for validation and, unless told otherwise, for predictions."""

    beam: Size = Field(5, description="1 is greedy search")
    num_best: Size = 1
    length_penalty: Literal["none", "average", "gnmt"] = "gnmt"
    alpha: Annotated[float, Field(ge=0.0)] = Field(0.6, description="strength of the gnmt penalty")
    min_length: Annotated[int, Field(ge=0)] = 0
    max_length: Size | None = Field(None, description="symbols of output; null: max_length_ratio × source + 10")
    max_length_ratio: Annotated[float, Field(gt=0.0)] = 3.0
    batch_tokens: Size = Field(8192, description="source symbols times beam decoded at once")
    validation_beam: Size = Field(1, description="beam during training; the final evaluation uses `beam`")


class Config(Section):
    """A whole configuration."""

    task: Literal["text_to_text"] = "text_to_text"
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 1
    data: DataConfig
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()
    decoding: DecodingConfig = DecodingConfig()
    select: str = Field(
        "sequence_error_rate", description="the validation metric that names the best checkpoint: sequence_error_rate (wer), "
        "symbol_error_rate (per), loss"
    )
