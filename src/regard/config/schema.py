"""What a configuration may say: every key with its type, range, default and meaning. The one place for defaults."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, Strict, model_validator

File = Annotated[Path, Strict(False)]
Probability = Annotated[float, Field(ge=0.0, le=1.0)]
Fraction = Annotated[float, Field(ge=0.0, lt=1.0)]
Size = Annotated[int, Field(ge=1)]
Units = Literal["character", "word", "whitespace", "byte", "separator", "sentencepiece"]

FROM_DATA: dict[str, JsonValue] = {"follows_from_data": True}
"""Marks keys that follow from the data when they are not given (`regard.tasks.defaults`); their defaults here are for
programs that know no data."""


class Section(BaseModel):
    """A part of the configuration; unknown keys are errors, types are exact, values never change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class SideConfig(Section):
    """How the text of one side becomes symbols."""

    units: Units | Annotated[tuple[Units, ...], Strict(False)] = Field(
        default="character",
        description="what a symbol is; `word` splits off punctuation, `whitespace` does not; a list has the units of "
        "each column of the source (`source_field`)",
    )
    separator: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="what stands between the symbols of units `separator`, as `;`"
    )
    case: Literal["keep", "upper", "lower"] = Field(default="keep", description="letter case, applied to every text")
    unicode: Literal["keep", "NFC", "NFD", "NFKC", "NFKD"] = Field(default="NFC", description="Unicode normal form")
    min_count: Size = Field(default=1, description="rarer symbols count as unknown")
    vocabulary_size: Size | None = Field(
        default=None,
        description="the most frequent symbols kept; null keeps all. Sentencepiece: pieces that are learned; null: as "
        "many as the data suggest, 13.5 times the square root of the number of words",
    )
    sentencepiece_model: File | None = Field(default=None, description="a trained sentencepiece model; null trains one")


class ParallelFiles(Section):
    """Two text files whose lines belong together."""

    source: File = Field(description="a text file, one input a line")
    target: File = Field(description="a text file, one output a line, as many lines")


class DataConfig(Section):
    """Where the pairs are and how they are read."""

    train: File | ParallelFiles = Field(
        description="a TSV or JSONL file, or `source:` and `target:` text files; relative to the configuration"
    )
    dev: File | ParallelFiles | None = Field(
        default=None, description="held-out pairs; without them `dev_fraction` is cut off"
    )
    dev_fraction: Annotated[float, Field(gt=0.0, lt=0.5)] | None = Field(
        default=None,
        description="the share of training inputs held out by a fixed hash when no `dev` file is given; null: a tenth, "
        "and about 2,000 pairs at most",
    )
    format: Literal["auto", "tsv", "jsonl", "parallel"] = Field(
        default="auto", description="`auto`: by the file's suffix"
    )
    source_field: str | int | Annotated[tuple[str | int, ...], Strict(False)] = Field(
        default=0,
        description="TSV column, counted from 0, or JSONL field of the input; a list where an input has several "
        "columns, as a lemma and its tags",
    )
    target_field: str | int = Field(default=1, description="TSV column, counted from 0, or JSONL field of the output")
    autoencode: bool = Field(default=False, description="the output is the input itself: a sequence autoencoder")
    source: SideConfig = Field(default=SideConfig(), description="the input's text")
    target: SideConfig = Field(default=SideConfig(), description="the output's text")
    max_length: Size = Field(default=400, description="longer pairs (in symbols, either side) are left out and counted")

    @property
    def num_columns(self) -> int:
        """How many columns an input has."""
        return len(self.source_field) if isinstance(self.source_field, tuple) else 1


class EncoderConfig(Section):
    """The recurrent encoder."""

    cell: Literal["lstm", "gru", "rnn"] = Field(default="gru", description="`rnn` is the vanilla tanh cell")
    size: Size = Field(default=256, description="state size of one direction", json_schema_extra=FROM_DATA)
    layers: Size = Field(default=2, description="cells on top of each other")
    bidirectional: bool = Field(
        default=True, description="a second cell reads from right to left; both states are joined"
    )
    embedding_size: Size = Field(default=128, description="numbers a symbol is embedded in")
    dropout: Fraction = Field(default=0.3, description="on embeddings and between layers", json_schema_extra=FROM_DATA)
    residual: bool = Field(default=False, description="layers above the first add their input to their output")


class DecoderConfig(Section):
    """The recurrent decoder."""

    cell: Literal["lstm", "gru", "rnn"] = Field(default="gru", description="`rnn` is the vanilla tanh cell")
    size: Size = Field(default=256, description="state size", json_schema_extra=FROM_DATA)
    layers: Size = Field(default=1, description="cells on top of each other")
    embedding_size: Size = Field(default=128, description="numbers a symbol is embedded in")
    dropout: Fraction = Field(
        default=0.3,
        description="on embeddings, between layers and before the output layer",
        json_schema_extra=FROM_DATA,
    )
    residual: bool = Field(default=False, description="layers above the first add their input to their output")
    query: Literal["output", "state"] = Field(
        default="output",
        description="what attention is asked with: the top layer's output, or the states of all layers side by side "
        "(h and, of an LSTM, c; Vinyals 2015)",
    )
    order: Literal["recur_then_attend", "attend_then_recur"] = Field(
        default="recur_then_attend",
        description="Luong's order (attend with the new state) or Bahdanau's (with the old one)",
    )
    input_feeding: bool | None = Field(
        default=None,
        description="feed the attentional output back into the cell (Luong 2015); off if null, except that "
        "`attend_then_recur` feeds the context by definition. Without feedback all steps run at once",
    )
    bridge: Literal["dense", "copy", "zero"] = Field(
        default="dense", description="first state from the encoder's last states"
    )
    context: Literal["last", "mean", "maximum", "learned"] = Field(
        default="last", description="without attention: the fixed context vector c = q(h_1 … h_S)"
    )
    context_use: Literal["first_state", "every_step"] = Field(
        default="first_state",
        description="without attention: c makes the first state only, or is fed at every step too",
    )
    tied_weights: bool = Field(default=False, description="the output layer uses the embedding's matrix")


class AttentionConfig(BaseModel):
    """A recipe of `regard list`, with its options by name."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    recipe: str = Field(default="bahdanau", description="a recipe's name; all other keys here are its options")

    @property
    def options(self) -> dict[str, Any]:
        """What is given to the recipe beside the sizes of query and memory."""
        return dict(self.model_extra or {})


class ModelConfig(Section):
    """A recurrent sequence-to-sequence model."""

    encoder: EncoderConfig = Field(default=EncoderConfig(), description="reads the input")
    decoder: DecoderConfig = Field(default=DecoderConfig(), description="writes the output")
    attention: AttentionConfig | None = Field(
        default=AttentionConfig(), description="null: none; all that the decoder gets is one vector (`decoder.context`)"
    )


class TrainingConfig(Section):
    """The training loop."""

    epochs: Annotated[int, Field(ge=0)] = Field(
        default=30, description="passes over the training data", json_schema_extra=FROM_DATA
    )
    max_steps: Size | None = Field(
        default=None, description="stop after so many optimiser steps, whatever the epochs say"
    )
    batch_tokens: Size = Field(
        default=4096,
        description="a batch holds at most so many symbols of its larger side, padding included",
        json_schema_extra=FROM_DATA,
    )
    start_from: File | None = Field(
        default=None,
        description="a run folder, or a shipped model's name, whose weights training starts with, as far as they fit",
    )
    accumulation: Size = Field(default=1, description="batches whose gradients make one step")
    optimizer: Literal["adam", "adamw"] = Field(
        default="adamw", description="`adamw` decays weights apart from the gradient"
    )
    learning_rate: Annotated[float, Field(gt=0.0)] = Field(
        default=0.002, description="after warm-up, before any lowering"
    )
    betas: Annotated[tuple[Fraction, Fraction], Strict(False)] = Field(
        default=(0.9, 0.999), description="decay of the running means of the gradient and of its square"
    )
    weight_decay: Annotated[float, Field(ge=0.0)] = Field(default=0.0, description="strength; 0 is none")
    schedule: Literal["constant", "inverse_square_root", "cosine", "plateau"] = Field(
        default="cosine", description="`plateau` lowers the rate when the selected metric stands still"
    )
    warmup_steps: Annotated[int, Field(ge=0)] = Field(
        default=0, description="linear rise from 0, before any schedule", json_schema_extra=FROM_DATA
    )
    plateau_factor: Annotated[float, Field(gt=0.0, lt=1.0)] = Field(
        default=0.5, description="`plateau` multiplies by it"
    )
    plateau_patience: Annotated[int, Field(ge=0)] = Field(
        default=2, description="validations without improvement before lowering"
    )
    min_learning_rate: Annotated[float, Field(ge=0.0)] = Field(default=1e-6, description="no schedule goes below it")
    label_smoothing: Annotated[float, Field(ge=0.0, lt=1.0)] = Field(
        default=0.1, description="share of the target probability spread over all symbols"
    )
    clip_norm: Annotated[float, Field(gt=0.0)] | None = Field(
        default=1.0, description="largest gradient norm; null never clips"
    )
    scheduled_sampling: Probability = Field(
        default=0.0,
        description="probability, drawn at each step, that the decoder is fed its own last output (Bengio 2015)",
    )
    scheduled_sampling_warmup: Annotated[int, Field(ge=0)] = Field(
        default=0, description="optimiser steps over which that probability rises linearly from 0"
    )
    sequence_teacher_forcing: Probability = Field(
        default=1.0,
        description="probability, drawn once a sequence, that it is teacher-forced; else it is free-running",
    )
    validate_every: Size | None = Field(
        default=None,
        description="optimiser steps between validations; null: once an epoch",
        json_schema_extra=FROM_DATA,
    )
    early_stopping: Size | None = Field(
        default=None, description="validations without improvement before stopping; null: never"
    )
    average_checkpoints: Annotated[int, Field(ge=0)] = Field(
        default=5,
        description="the saved model is the mean of the last so many validations' weights; 0 or 1: the best one's",
    )
    precision: Literal["float32", "bfloat16", "float16"] = Field(
        default="float32", description="type of the forward pass"
    )
    compile: bool = Field(
        default=False,
        description="compile the loss with torch.compile; loops over steps and batches of one pair stay as they are",
    )
    sharding: Literal["none", "fsdp"] = Field(
        default="none",
        description="of several processes (torchrun) each has the whole model, or with `fsdp` a part of weights, "
        "gradients and the optimiser's state",
    )
    device: str = Field(default="auto", description="auto, cpu, cuda or cuda:1")
    threads: Size | None = Field(default=None, description="CPU threads; null leaves torch's choice")
    log_every: Size = Field(default=50, description="optimiser steps between lines of metrics")
    save_every_minutes: Annotated[float, Field(gt=0.0)] = Field(
        default=5.0, description="minutes between resumable checkpoints"
    )
    tensorboard: bool = Field(default=False, description="also write TensorBoard events (extra `log`)")
    samples: Annotated[int, Field(ge=0)] = Field(default=4, description="outputs and pictures shown at each validation")


class DecodingConfig(Section):
    """The search used for validation and, unless other options are given, for predictions."""

    beam: Size = Field(default=5, description="1 is greedy search")
    num_best: Size = Field(default=1, description="outputs given back for each input, best first")
    length_penalty: Literal["none", "average", "gnmt"] = Field(
        default="gnmt",
        description="what hypotheses are ranked by: the sum of log-probabilities, their mean, or the sum over "
        "((5 + length) / 6)^alpha (Wu 2016)",
    )
    alpha: Annotated[float, Field(ge=0.0)] = Field(default=0.6, description="strength of the gnmt penalty")
    min_length: Annotated[int, Field(ge=0)] = Field(default=0, description="symbols before the output may end")
    max_length: Size | None = Field(default=None, description="symbols of output; null: max_length_ratio × source + 10")
    max_length_ratio: Annotated[float, Field(gt=0.0)] = Field(default=3.0, description="see `max_length`")
    max_source_length: Size | None = Field(
        default=None,
        description="symbols of an input that is read; a longer one gets a warning and no output; null: ten times "
        "`data.max_length`",
    )
    batch_tokens: Size = Field(default=16384, description="source symbols times beam decoded at once")
    validation_beam: Size = Field(default=1, description="beam during training; the final evaluation uses `beam`")

    @model_validator(mode="after")
    def _limits_agree(self) -> DecodingConfig:
        for name, value in self:
            if isinstance(value, int) and value >= 2**31:
                raise ValueError(f"{name} is 2147483648 or more; give a smaller number")
        if self.num_best > 1 and self.beam == 1:
            raise ValueError(f"num_best is {self.num_best} but greedy search (beam 1) finds one output; widen the beam")
        if self.max_length is not None and self.min_length > self.max_length:
            raise ValueError(f"min_length is {self.min_length} but max_length is {self.max_length}; no output can end")
        return self


class Config(Section):
    """A whole configuration."""

    task: Literal["text_to_text"] = Field(default="text_to_text", description="what is learnt")
    seed: Annotated[int, Field(ge=0, lt=2**31)] = Field(default=1, description="the one source of all randomness")
    data: DataConfig = Field(description="the pairs and how they are read")
    model: ModelConfig = Field(default=ModelConfig(), description="the network")
    training: TrainingConfig = Field(default=TrainingConfig(), description="the training loop")
    decoding: DecodingConfig = Field(default=DecodingConfig(), description="the search")
    select: str = Field(
        default="sequence_error_rate",
        description="the validation metric that names the best checkpoint: sequence_error_rate (wer), "
        "symbol_error_rate (per), loss, bleu, chrf",
    )
