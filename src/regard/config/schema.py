"""The sections of configurations that tasks share: every key with its type, range, default and meaning."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, JsonValue, Strict, ValidationInfo, model_validator

from regard.config.conditions import both, only_with, unread
from regard.config.place import KeyPath, cut
from regard.errors import ConfigError
from regard.lazy import OnDemand

File = Annotated[Path, Strict(False)]
Probability = Annotated[float, Field(ge=0.0, le=1.0)]
Fraction = Annotated[float, Field(ge=0.0, lt=1.0)]
HeldOut = Annotated[float, Field(gt=0.0, lt=0.5)]
"""A share of the training data that is held out: less than what remains."""
Size = Annotated[int, Field(ge=1)]
Layers = Annotated[int, Field(ge=1, le=1000)]
"""The number of stacked layers; more would take too long to build."""
Threads = Annotated[int, Field(ge=1, le=1024)]
Weight = Annotated[float, Field(ge=0.0)]
LARGEST = 2**31
"""Whole numbers are below it, so that counts and sizes of tensors do not overflow."""

FROM_DATA: dict[str, JsonValue] = {"follows_from_data": True}
"""Marks keys that follow from the data if they are not set (`AbstractTask.resolve`); their defaults are for programs
without data."""
COMMON: dict[str, JsonValue] = {"common": True}
"""Marks settings of predictions that the help of a command has without `--help-all`."""
CONVERTED: dict[str, JsonValue] = {"of_converted_models": True}
"""Marks keys that exist so that a model of another program is a configuration; lists have them only on request."""


class Section(BaseModel):
    """A part of the configuration: unknown keys are errors, types are exact, and values never change after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _fill_in_kinds(cls, values: Any) -> Any:
        """Sets a missing discriminator to that of the first of several sections."""
        for name, field in cls.model_fields.items():
            kind, value = field.discriminator, values.get(name) if isinstance(values, dict) else None
            if isinstance(kind, str) and isinstance(value, dict) and kind not in value:
                first = next(part for part in get_args(field.annotation) if issubclass(part, Section))
                values = {**values, name: {kind: first.model_fields[kind].default, **value}}
        return values

    @model_validator(mode="after")
    def _numbers_are_bounded(self) -> Self:
        for name, value in self:
            if any(
                isinstance(item, int) and abs(item) >= LARGEST
                for item in (value if isinstance(value, tuple) else [value])
            ):
                raise ConfigError(f"{name} is {cut(str(value))}; it must be below {LARGEST}", (name,))
        return self

    @model_validator(mode="after")
    def _settings_are_read(self, info: ValidationInfo) -> Self:
        """Refuses keys that are set but that nothing reads; for files, `unread_settings` does this."""
        judged = self.model_fields_set if info.context is None else self.model_fields_set & info.context
        for path, message in unread(self, lambda path: path[0] in judged, deep=False):
            raise ConfigError(message, path)
        return self


class DataSection(Section):
    """The data, and how they are read."""

    on_error: Literal["stop", "skip"] = Field(
        default="stop",
        description="what happens to items that cannot be read (lines, rows, pictures, recordings): `stop` at the "
        "first; `skip` leaves them out of the training and prints their number",
    )


CellName = Literal["lstm", "gru", "rnn", "gru_reset_before"]
CELL: Any = Field(
    default="gru",
    description="`rnn` is the vanilla tanh cell; `gru_reset_before`, TensorFlow 1's GRU, resets the state before it is "
    "multiplied",
)
RESIDUAL: Any = Field(
    default=False,
    description="layers above the first add their input to their output",
    json_schema_extra=only_with("layers", unless=1),
)


class EncoderConfig(Section):
    """The recurrent encoder."""

    cell: CellName = CELL
    size: Size = Field(default=256, description="state size of one direction", json_schema_extra=FROM_DATA)
    layers: Layers = Field(default=2, description="number of stacked layers")
    bidirectional: bool = Field(
        default=True, description="a second cell reads from right to left; the states of both are concatenated"
    )
    embedding_size: Size = Field(default=128, description="size of the vector of a symbol")
    dropout: Fraction = Field(default=0.3, description="on embeddings and between layers", json_schema_extra=FROM_DATA)
    residual: bool = RESIDUAL


class DecoderConfig(Section):
    """The recurrent decoder."""

    cell: CellName = CELL
    size: Size = Field(default=256, description="state size", json_schema_extra=FROM_DATA)
    layers: Layers = Field(default=1, description="number of stacked layers")
    embedding_size: Size = Field(default=128, description="size of the vector of a symbol")
    dropout: Fraction = Field(
        default=0.3,
        description="on embeddings, between layers and before the output layer",
        json_schema_extra=FROM_DATA,
    )
    residual: bool = RESIDUAL
    query: Literal["output", "state"] = Field(
        default="output",
        description="the query of attention: the output of the top layer, or the concatenated states of all layers "
        "(h and, of an LSTM, c; Vinyals 2015)",
    )
    order: Literal["recur_then_attend", "attend_then_recur"] = Field(
        default="recur_then_attend",
        description="Luong's order (attend with the new state) or Bahdanau's (attend with the old state)",
    )
    input_feeding: bool | Literal["context", "linear", "tanh"] | None = Field(
        default=None,
        description="feed the input of the output layer back into the cell (Luong 2015), or the last context, or the"
        " attention layer whatever the input of the output layer; null: off, except that "
        "`attend_then_recur` always feeds the context. Without feedback all steps are computed in one "
        "pass",
        json_schema_extra=only_with("order", "recur_then_attend"),
    )
    readout: Literal["tanh", "linear", "context", "state", "deep"] = Field(
        default="tanh",
        description="the input of the output layer: an attention layer, tanh(W [state; context]) or without tanh "
        "(where attention comes first, W [state; input; context]); only the context or the state; or the"
        " sum of the embedded input and maps of state and context, the deep output of Xu 2015",
    )
    layer_size: Size | None = Field(
        default=None, description="size of the attention layer; null: `size`", json_schema_extra=CONVERTED
    )
    layer_bias: bool = Field(default=True, description="the attention layer has a bias", json_schema_extra=CONVERTED)
    first_context: Literal["attended", "zeros"] = Field(
        default="attended",
        description="with `attend_then_recur`: the context of the first step, that of the first state or zeros",
    )
    bridge: Literal["dense", "linear", "tanh", "relu", "copy", "zero"] = Field(
        default="dense",
        description="how the first state is computed from the encoder's last states: a linear map with tanh (only h "
        "of an LSTM), without tanh, or with tanh for h and c; `relu`, a map of those of all layers "
        "together with max(0, ·); a copy; or zeros",
    )
    bridge_layers: Literal["matched", "top"] = Field(
        default="matched",
        description="the encoder layer from which the first state of a layer is computed: the one at the same "
        "distance from the top, or the top one",
        json_schema_extra=CONVERTED | only_with("layers", unless=1),
    )
    context: Literal["last", "mean", "maximum", "learned"] = Field(
        default="last", description="without attention: the fixed context vector c = q(h_1 … h_S)"
    )
    context_use: Literal["first_state", "every_step"] = Field(
        default="first_state",
        description="without attention: c determines only the first state, or is also an input of every step",
    )
    tied_weights: bool = Field(default=False, description="the output layer shares the matrix of the embedding")


class TransformerLayersConfig(Section):
    """The layers of a Transformer."""

    size: Size = Field(
        default=256, description="size of the layers, a multiple of `heads`", json_schema_extra=FROM_DATA
    )
    layers: Layers = Field(default=4, description="number of layers")
    heads: Size = Field(default=4, description="number of heads of each layer")
    key_value_heads: Size | None = Field(
        default=None,
        description="number of heads of keys and values, a divisor of `heads` (1: multi-query, between: grouped); "
        "null: `heads`",
    )
    query_key_norm: bool = Field(
        default=False,
        description="queries and keys have length 1, and a learned number scales their products (Henry 2020)",
    )
    projection_bias: bool = Field(
        default=False, description="the projections of multi-head attention have biases", json_schema_extra=CONVERTED
    )
    feed_forward_size: Size | None = Field(
        default=None, description="size inside the feed-forward sublayers; null: 4 × `size`"
    )
    activation: Literal["relu", "gelu", "silu", "swiglu"] = Field(
        default="relu",
        description="of the feed-forward sublayers; `swiglu` multiplies two linear maps, one of them through `silu`,"
        " and has three matrices instead of two (Shazeer 2020)",
    )
    norm: Literal["pre", "post"] = Field(default="pre", description="layer norms before or after the sublayers")
    norm_epsilon: Annotated[float, Field(gt=0.0)] = Field(
        default=1e-5, description="added to the variance in layer norms", json_schema_extra=CONVERTED
    )
    final_norm: bool | None = Field(
        default=None,
        description="a layer norm follows the last layer; null: with `norm: pre`",
        json_schema_extra=CONVERTED,
    )
    scaled_embeddings: bool = Field(
        default=True, description="embeddings are multiplied by the square root of `size`", json_schema_extra=CONVERTED
    )
    dropout: Fraction = Field(
        default=0.1, description="on embeddings and on the outputs of sublayers", json_schema_extra=FROM_DATA
    )
    attention_dropout: Fraction = Field(default=0.0, description="on the weights of self-attention and cross-attention")
    activation_dropout: Fraction | None = Field(
        default=None, description="inside the feed-forward sublayers, after the activation; null: `dropout`"
    )
    initialisation: Literal["default", "xavier", "small", "depth_scaled"] = Field(
        default="default",
        description="of the matrices of the layers: `xavier`, uniform, as in the authors' code; `small`, normal with "
        "variance 2 / (5 × `size`) (Nguyen 2019); `depth_scaled`, `xavier` divided by the square root of the number of "
        "the layer, for deep models with `norm: post` (Zhang 2019); `default`, `xavier` in feed-forward sublayers and "
        "torch's in attention",
    )


class AttentionConfig(BaseModel):
    """A recipe of `regard list recipes`, with its options by name."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    recipe: str = Field(default="bahdanau", description="the name of a recipe; all other keys here are its options")

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of the recipe, without the sizes that follow from encoder and decoder."""
        return dict(self.model_extra or {})


ATTENTION: Any = Field(
    default=AttentionConfig(),
    description="the attention mechanism; null: none, the decoder then gets only one vector (`decoder.context`)",
)


class TrainingConfig(Section):
    """The training loop."""

    epochs: Annotated[int, Field(ge=0)] = Field(
        default=30, description="passes over the training data", json_schema_extra=FROM_DATA
    )
    max_steps: Size | None = Field(default=None, description="the most optimiser steps, whatever `epochs` is")
    start_from: File | None = Field(
        default=None,
        description="a run folder or a shipped model's name; training starts from its weights, as far as they fit, "
        "and keeps its symbols and labels; for few new data, steps and learning rate follow from it",
    )
    replay: Weight | None = Field(
        default=None,
        description="adapts the model of `start_from`: for each training item this many of the data that it was "
        "trained on are trained on again, 0 for none; null: no adaptation",
        json_schema_extra=only_with("start_from", unless=None),
    )
    former: File | None = Field(
        default=None,
        description="the training data of the model of `start_from`; null: those that its configuration names",
        json_schema_extra=only_with("start_from", unless=None),
    )
    accumulation: Size = Field(default=1, description="number of batches whose gradients make one step")
    optimizer: Literal["adam", "adamw", "muon"] = Field(
        default="adamw",
        description="`adamw` decouples weight decay from the gradient; `muon` makes the updates of hidden layers' "
        "matrices orthogonal, which trains Transformers in fewer steps, and leaves the other parameters to `adamw`",
    )
    learning_rate: Annotated[float, Field(gt=0.0)] = Field(
        default=0.002,
        description="the rate after warm-up, before the schedule lowers it; without effect on `noam`",
        json_schema_extra=FROM_DATA | only_with("schedule", unless="noam"),
    )
    betas: Annotated[tuple[Fraction, Fraction], Strict(False)] = Field(
        default=(0.9, 0.999), description="decay rates of the running means of the gradient and its square"
    )
    weight_decay: Annotated[float, Field(ge=0.0)] = Field(
        default=0.0, description="strength of the weight decay; 0: none"
    )
    schedule: Literal["constant", "inverse_square_root", "cosine", "plateau", "noam"] = Field(
        default="cosine",
        description="`plateau` lowers the rate when the selected metric stops improving; the rate of `noam` is "
        "factor × d^-0.5 × min(step^-0.5, step × warmup_steps^-1.5) (Vaswani 2017)",
    )
    noam_factor: Annotated[float, Field(gt=0.0)] = Field(
        default=1.0, description="the factor of `noam`", json_schema_extra=only_with("schedule", "noam")
    )
    noam_size: Size | None = Field(
        default=None,
        description="d of `noam`; null: the size of the model",
        json_schema_extra=FROM_DATA | only_with("schedule", "noam"),
    )
    warmup_steps: Annotated[int, Field(ge=0)] = Field(
        default=0, description="optimiser steps in which the rate rises linearly from 0", json_schema_extra=FROM_DATA
    )
    plateau_factor: Annotated[float, Field(gt=0.0, lt=1.0)] = Field(
        default=0.5,
        description="the factor by which `plateau` lowers the rate",
        json_schema_extra=only_with("schedule", "plateau"),
    )
    plateau_patience: Annotated[int, Field(ge=0)] = Field(
        default=2,
        description="validations without improvement before `plateau` lowers the rate",
        json_schema_extra=only_with("schedule", "plateau"),
    )
    min_learning_rate: Annotated[float, Field(ge=0.0)] = Field(
        default=1e-6,
        description="the lowest rate that a schedule reaches",
        json_schema_extra=only_with("schedule", unless="constant"),
    )
    clip_norm: Annotated[float, Field(gt=0.0)] | None = Field(
        default=1.0, description="the largest norm of the gradient; null: no clipping"
    )
    validate_every: Size | None = Field(
        default=None,
        description="optimiser steps between validations; null: once per epoch",
        json_schema_extra=FROM_DATA,
    )
    allow_trained_dev: bool = Field(
        default=False,
        description="validate on held-out items most of which are training items, to test whether a model can "
        "memorise data; otherwise such `data.dev` are refused",
    )
    early_stopping: Size | None = Field(
        default=None, description="validations without improvement before training stops; null: never"
    )
    average_checkpoints: Annotated[int, Field(ge=0)] = Field(
        default=5,
        description="the saved weights are the mean of those of this many last validations, if that is better than "
        "the best single validation; 0 or 1: always the best",
    )
    precision: Literal["float32", "bfloat16", "float16"] = Field(
        default="float32", description="number type of the forward pass"
    )
    compile: bool = Field(
        default=False,
        description="compile the loss with torch.compile, except loops over steps and batches of one pair",
    )
    graphs: Literal["auto", "none"] = Field(
        default="auto",
        description="on a GPU, record each form of a step as a CUDA graph and replay it, where the model allows it",
    )
    sharding: Literal["none", "fsdp"] = Field(
        default="none",
        description="with several processes (torchrun): `none` keeps the whole model in each, `fsdp` shards weights, "
        "gradients and the optimiser's state",
    )
    device: str = Field(default="auto", description="auto (a GPU if there is one), cpu, cuda or cuda:1")
    threads: Threads | None = Field(default=None, description="CPU threads; null: torch's choice")
    log_every: Size = Field(default=50, description="optimiser steps between lines of metrics")
    save_every_minutes: Annotated[float, Field(gt=0.0)] = Field(default=5.0, description="minutes between checkpoints")
    keep_checkpoints: Literal["latest", "all", "none"] = Field(
        default="latest",
        description="the content of `checkpoints/` after a training: `latest`, for continuing it (the optimiser's "
        "state and the best weights, four times the model); `all`, also the weights of the last "
        "validations and the previous checkpoint; `none`, and it cannot be continued",
    )
    tensorboard: bool = Field(default=False, description="also write TensorBoard events (extra `log`)")
    samples: Annotated[int, Field(ge=0)] = Field(
        default=4,
        description="number of outputs shown, and of pictures drawn each time that the steps have tripled",
    )


class FeedbackConfig(Section):
    """The decoder's inputs in training."""

    scheduled_sampling: Probability = Field(
        default=0.0,
        description="probability, at each step, that the decoder's input is its own last output (Bengio 2015)",
    )
    scheduled_sampling_start: Annotated[int, Field(ge=0)] = Field(
        default=0,
        description="optimiser steps before `scheduled_sampling` begins; until then the decoder is teacher-forced",
        json_schema_extra=only_with("scheduled_sampling", unless=0),
    )
    scheduled_sampling_warmup: Annotated[int, Field(ge=0)] = Field(
        default=0,
        description="following optimiser steps, in which `scheduled_sampling` rises from 0",
        json_schema_extra=only_with("scheduled_sampling", unless=0),
    )
    scheduled_sampling_schedule: Literal["linear", "cosine"] = Field(
        default="linear",
        description="the form of the rise: `cosine` is (1 - cos(π x)) / 2 of the share x of the warm-up",
        json_schema_extra=both(
            only_with("scheduled_sampling", unless=0), only_with("scheduled_sampling_warmup", unless=0)
        ),
    )
    sequence_teacher_forcing: Probability = Field(
        default=1.0,
        description="probability that a sequence is teacher-forced throughout; the others are free-running",
    )

    @property
    def feeds_back(self) -> bool:
        """Whether the decoder is ever fed its own output."""
        return self.scheduled_sampling > 0 or self.sequence_teacher_forcing < 1


class AlignmentLossConfig(Section):
    """Losses on the alignments of a training, with their weights in the loss."""

    settings: ClassVar[tuple[str, ...]] = ("guided_attention_width", "doubly_stochastic_rate")
    """The keys that are not weights."""

    guided_attention: Weight = Field(
        default=0.0,
        description="towards the diagonal: Σ_j α_tj (1 - exp(-(j/S - t/T)² / 2g²)), the mean over steps (Tachibana "
        "2018); 1 - Σ_j α_tj counts fully",
    )
    guided_attention_width: Annotated[float, Field(gt=0.0)] = Field(
        default=0.2, description="g of `guided_attention`", json_schema_extra=only_with("guided_attention", unless=0)
    )
    coverage: Weight = Field(
        default=0.0,
        description="against attending to a position twice: Σ_j min(α_tj, Σ_{t' < t} α_t'j), the mean over steps "
        "(See 2017)",
    )
    doubly_stochastic: Weight = Field(
        default=0.0,
        description="for attending to every position: Σ_j (τ - Σ_t α_tj)² of each sequence, added to the sum of the "
        "losses of its steps (Xu 2015)",
    )
    doubly_stochastic_rate: Annotated[float, Field(gt=0.0)] | None = Field(
        default=1.0,
        description="τ of `doubly_stochastic`; null: T/S of each sequence",
        json_schema_extra=only_with("doubly_stochastic", unless=0),
    )
    entropy: Weight = Field(
        default=0.0, description="against attending to many positions: -Σ_j α_tj log α_tj, the mean over steps"
    )
    forward_sum: Weight = Field(
        default=0.0,
        description="for reading the whole input in order: -log of the probability of all such paths, per position, of "
        "each sequence whose output is at least as long as its input (Badlani 2021)",
    )


class ReinforceConfig(Section):
    """The REINFORCE estimator for hard attention: a draw is rewarded by the log-probability of later outputs."""

    weight: Annotated[float, Field(gt=0.0)] = Field(
        default=1.0, description="λ_r, the factor of the estimated gradient; 1: that of the expected log-probability"
    )
    entropy_weight: Weight = Field(default=0.002, description="λ_e, the weight of the entropy of the draws")


class AlignmentTrainingConfig(Section):
    """Losses on alignments, and REINFORCE."""

    alignment_losses: AlignmentLossConfig = Field(
        default=AlignmentLossConfig(), description="losses on alignments; all weights are 0 by default"
    )
    reinforce: ReinforceConfig | None = Field(
        default=None, description="REINFORCE, for attention that draws its positions (`hard: true`); null: none"
    )

    @property
    def trains_alignments(self) -> bool:
        """Whether the loss has a term of the alignments."""
        return self.reinforce is not None or bool(self.alignment_weights)

    @property
    def alignment_weights(self) -> dict[str, float]:
        """The losses on alignments whose weight is not 0."""
        losses = self.alignment_losses
        return {name: value for name, value in losses if name not in losses.settings and value}


class SmoothedTrainingConfig(Section):
    """The training of models that predict symbols."""

    label_smoothing: Annotated[float, Field(ge=0.0, lt=1.0)] = Field(
        default=0.1, description="share of the target probability that is distributed over all symbols"
    )


class TokenTrainingConfig(SmoothedTrainingConfig):
    """The training of models that read and predict symbols."""

    batch_tokens: Size = Field(
        default=4096,
        description="the most symbols of a batch, counted on its larger side with padding",
        json_schema_extra=FROM_DATA,
    )


class SweepConfig(Section):
    """A search for settings: the keys that it varies, and its length (`regard sweep`)."""

    ranges: dict[str, Any] = Field(
        description="the keys to vary, in their sections or with dots: each has `{low: …, high: …}`, to which `log: "
        "true` or a `step` may be added, or a list of choices"
    )
    trials: Size = Field(
        default=20, description="the number of trainings with drawn settings, after one with the configuration as it is"
    )
    seconds: Annotated[float, Field(gt=0.0)] | None = Field(
        default=None, description="no training begins after this time of training in all; null: no limit"
    )
    halving: Annotated[int, Field(ge=2)] | None = Field(
        default=3,
        description="successive halving (Li 2018): of the trainings that have reached a certain validation, only the "
        "best 1/`halving` by `select` continue; null: all train to their end",
    )
    halving_from: Annotated[float, Field(gt=0.0, lt=1.0)] = Field(
        default=0.1,
        description="the share of a training's steps at the first such validation; the next ones are at its multiples "
        "by `halving`, `halving`², …",
        json_schema_extra=only_with("halving", unless=None),
    )


class Config(Section):
    """A whole configuration. Every task has its own sections (`regard.tasks`)."""

    task: str = Field(description="what is learned")
    seed: Annotated[int, Field(ge=0, lt=2**31)] = Field(default=1, description="the only source of randomness")
    data: DataSection = Field(description="the data and how they are read")
    model: Section = Field(description="the network")
    training: TrainingConfig = Field(default=TrainingConfig(), description="the training loop")
    decoding: Section = Field(description="the search")
    select: str = Field(description="the validation metric that chooses the best weights")
    sweep: SweepConfig | None = Field(
        default=None, description="a search for settings, for `regard sweep`; null: none", exclude=True
    )

    @model_validator(mode="after")
    def _sections_are_read(self, info: ValidationInfo) -> Self:
        """Refuses keys that are set but that nothing reads because of another section."""
        for path, message in unread(self, lambda path: is_set(self, path)) if info.context is None else ():
            raise ConfigError(message, path)
        return self


def is_set(config: Section, path: KeyPath) -> bool:
    """Whether the file, the preset, an override or the caller has set the key."""
    section: Any = config
    for name in path:
        if not isinstance(section, Section) or name not in section.model_fields_set:
            return False
        section = getattr(section, str(name))
    return True


TASK_NAMES = (
    "text_to_text", "documents", "forecasting", "language_modelling", "labelling", "text_to_speech", "image_to_text",
)  # fmt: skip
"""The values of `task`, of which the first is the default."""


def task_named(file: Path) -> str | None:
    """The task of a saved configuration, without reading the rest of it."""
    match = re.search(r"^task: *(\w+)", file.read_text(encoding="utf-8", errors="replace"), re.MULTILINE)
    return match[1] if match and match[1] in TASK_NAMES else None


SCHEMAS: OnDemand[type[Config]] = OnDemand({name: f"regard.tasks.{name}.config:CONFIG" for name in TASK_NAMES})
"""The configuration of each task."""
