"""The configuration of forecasting: series, and a model that continues them."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Strict, model_validator

from regard.config.conditions import both, only_with
from regard.config.schema import (
    ATTENTION,
    COMMON,
    FROM_DATA,
    AttentionConfig,
    Config,
    DataSection,
    DecoderConfig,
    EncoderConfig,
    FeedbackConfig,
    File,
    Fraction,
    Layers,
    Probability,
    Section,
    Size,
    TrainingConfig,
)

Names = Annotated[tuple[str, ...], Strict(False)]
Level = Annotated[float, Field(gt=0.0, lt=1.0)]
Levels = Annotated[tuple[Level, ...], Strict(False)]
TimeFeature = Literal["hour_of_day", "day_of_week", "day_of_year", "month"]


class SplitConfig(Section):
    """The rows of each series for training, validation and test, in order of time, by one of three settings."""

    fractions: Annotated[tuple[Fraction, Fraction, Fraction], Strict(False)] = Field(
        default=(0.7, 0.1, 0.2),
        description="shares of the rows for training, validation and test",
        json_schema_extra=both(only_with("counts", None), only_with("validation_from", None)),
    )
    counts: Annotated[tuple[int, int, int], Strict(False)] | None = Field(
        default=None, description="numbers of rows for training, validation and test, instead of `fractions`"
    )
    validation_from: str | int | None = Field(
        default=None,
        description="the time (ISO 8601, a local time of each series unless it has an offset) at which validation "
        "begins, instead of `fractions`",
    )
    test_from: str | int | None = Field(
        default=None,
        description="the time at which the test part begins; null: there is none, if `validation_from` is set",
    )

    @model_validator(mode="after")
    def _single_split(self) -> SplitConfig:
        if self.counts is not None and self.validation_from is not None:
            raise ValueError("counts and validation_from both define the split; leave one of them out")
        if self.test_from is not None and self.validation_from is None:
            raise ValueError("test_from needs validation_from")
        return self


class SeriesDataConfig(DataSection):
    """Where the series are and how they are read."""

    train: File = Field(
        description="a CSV file whose first column is the time, or a Parquet file (extra `series`); relative to the "
        "configuration's folder"
    )
    dev: File | None = Field(
        default=None, description="a file of held-out series; null: the validation part of `train` (`split`)"
    )
    header: bool | None = Field(
        default=None,
        description="whether the first line has the names of the columns, otherwise `column 1`, `column 2` and so "
        "on; null: inferred from the line",
    )
    decimal: Literal[".", ","] | None = Field(
        default=None, description="the decimal mark; null: a point, or a comma where no number has a point"
    )
    missing_values: Annotated[tuple[float | str, ...], Strict(False)] = Field(
        default=(),
        description="numbers and texts that stand for missing values, such as [-9999], besides empty cells, NA, NaN,"
        " null, - and ?",
    )
    numbered_rows: bool = Field(
        default=False, description="the file has no column of times; its rows are numbered from 0"
    )
    time: str | None = Field(
        default=None,
        description="the column of the times; null: the first that is not an index of another program",
        json_schema_extra=only_with("numbered_rows", False),
    )
    time_format: str | None = Field(
        default=None,
        description="the format of times, as in Python's strptime; null: ISO 8601, whole numbers, or the only common"
        " format that reads them",
        json_schema_extra=only_with("numbered_rows", False),
    )
    time_zone: str | None = Field(
        default=None,
        description="the zone of the calendar, such as Europe/Berlin: times without an offset are its local times, "
        "and hours, days and months are those of its clocks; null: inferred from the offsets of the "
        "times",
        json_schema_extra=only_with("numbered_rows", False),
    )
    step: str | None = Field(
        default=None,
        description="the time between rows: business_days, days, weeks, months, quarters, years, hours, minutes, "
        "seconds, a number of these (15 minutes), or rows, each of which is a step whatever its time; "
        "null: inferred from the times",
    )
    series: str | None = Field(
        default=None, description="the column that names the series of each row; null: the file has one series"
    )
    wide: bool = Field(default=False, description="every target column is a series of its own")
    targets: Names | None = Field(default=None, description="the columns that are forecast; null: all others")
    known: Names = Field(
        default=(),
        description="columns that are known in advance, such as holidays, with values in future rows",
    )
    time_features: Annotated[tuple[TimeFeature, ...], Strict(False)] | None = Field(
        default=None,
        description="positions in the cycles of the calendar, as further known inputs; null: those that vary at the "
        "step of the series",
    )
    fill_gaps: bool = Field(
        default=True, description="omitted rows are rows of missing values; otherwise they are errors"
    )
    minimum: float | dict[str, float] | None = Field(
        default=None,
        description="the least value of forecasts and quantiles, for all targets or by name; null: none. If it is not "
        "set, it is 0 for counts (whole numbers from 0 on)",
        json_schema_extra=FROM_DATA,
    )
    history: Size = Field(
        default=96, description="steps before a forecast that are the model's input", json_schema_extra=FROM_DATA
    )
    horizon: Size = Field(default=24, description="steps of a forecast", json_schema_extra=FROM_DATA)
    stride: Size = Field(default=1, description="steps between the starts of two training forecasts")
    dev_stride: Size = Field(
        default=1,
        description="steps between the starts of two forecasts of validations",
        json_schema_extra=FROM_DATA,
    )
    split: SplitConfig = Field(default=SplitConfig(), description="training, validation and test in order of time")
    window_scale: Literal["none", "last", "mean", "standard"] = Field(
        default="last",
        description="what is subtracted from each window, besides the scale of its series: nothing, the last value "
        "or the mean of its history; or standardisation by the mean and deviation of its history",
    )


class SeriesEncoderConfig(EncoderConfig):
    """The recurrent encoder of the history."""

    size: Size = Field(default=64, description="state size of one direction", json_schema_extra=FROM_DATA)
    layers: Layers = Field(default=1, description="number of stacked layers")
    bidirectional: bool = Field(
        default=False, description="a second cell reads from right to left; the states of both are concatenated"
    )
    embedding_size: Size = Field(default=32, description="size of the vector of a step's inputs")
    dropout: Fraction = Field(default=0.1, description="on embeddings and between layers", json_schema_extra=FROM_DATA)


class SeriesDecoderConfig(DecoderConfig):
    """The recurrent decoder of the horizon."""

    size: Size = Field(default=64, description="state size", json_schema_extra=FROM_DATA)
    embedding_size: Size = Field(default=32, description="size of the vector of a step's inputs")
    dropout: Fraction = Field(
        default=0.1,
        description="on embeddings, between layers and before the output layer",
        json_schema_extra=FROM_DATA,
    )
    tied_weights: Literal[False] = Field(
        default=False, description="only for decoders of symbols; a decoder of values has no embedding matrix"
    )


class RecurrentForecasterConfig(Section):
    """A recurrent encoder of the history and a recurrent decoder of the horizon."""

    architecture: Literal["recurrent"] = Field(default="recurrent", description="the kind of network")
    encoder: SeriesEncoderConfig = Field(default=SeriesEncoderConfig(), description="reads the history")
    decoder: SeriesDecoderConfig = Field(
        default=SeriesDecoderConfig(), description="forecasts the horizon, step by step"
    )
    attention: AttentionConfig | None = ATTENTION
    channels: Literal["separate", "joint"] = Field(
        default="separate",
        description="one target at a time with the same weights for all, or all targets of a step together",
    )
    adds_to: Literal["linear", "previous", "nothing"] = Field(
        default="linear",
        description="the base to which the outputs of the decoder are added: a linear map of the history, fitted by "
        "ridge regression before the training; the value of the previous step; nothing",
    )
    linear_penalty: Annotated[float, Field(gt=0.0)] = Field(
        default=1.0, description="the penalty of the ridge regression, which is also the linear baseline"
    )
    quantiles: Levels | None = Field(
        default=None,
        description="levels of the quantiles that are forecast, with 0.5 among them, such as [0.1, 0.5, 0.9]; null: "
        "points",
    )


class ForecastTrainingConfig(FeedbackConfig, TrainingConfig):
    """The training loop, with the keys of series."""

    samples: Annotated[int, Field(ge=0)] = Field(
        default=1,
        description="number of forecasts shown, and of pictures drawn each time that the steps have tripled",
    )
    sequence_teacher_forcing: Probability = Field(
        default=1.0,
        description="probability that a sequence is teacher-forced throughout; the others are free-running. "
        "Quantiles of teacher-forced models are those of single steps, which are too narrow",
        json_schema_extra=FROM_DATA,
    )
    batch_windows: Size = Field(default=32, description="windows of a batch", json_schema_extra=FROM_DATA)
    loss: Literal["squared_error", "absolute_error", "pinball_loss"] | None = Field(
        default=None,
        description="the training loss; null: pinball_loss for models of quantiles, squared_error for others",
    )


class ForecastDecodingConfig(Section):
    """The settings of forecasts."""

    steps: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        default=None, description="steps of a forecast; null: `data.horizon`", json_schema_extra=COMMON
    )
    quantiles: Levels | None = Field(
        default=None,
        description="the model's levels in tables and pictures; null: all",
        json_schema_extra=COMMON,
    )
    hold_back: Annotated[int, Field(ge=0)] = Field(
        default=0,
        description="last rows of each series that are not read but shown as the truth",
        json_schema_extra=COMMON,
    )
    batch_windows: Size = Field(default=256, description="the most windows of a batch")


class ForecastingConfig(Config):
    """A whole configuration of forecasting."""

    task: Literal["forecasting"] = Field(default="forecasting", description="what is learned")
    data: SeriesDataConfig = Field(description="the series and how they are read")
    model: RecurrentForecasterConfig = Field(default=RecurrentForecasterConfig(), description="the network")
    training: ForecastTrainingConfig = Field(default=ForecastTrainingConfig(), description="the training loop")
    decoding: ForecastDecodingConfig = Field(default=ForecastDecodingConfig(), description="the forecasts")
    select: str = Field(
        default="mean_squared_error",
        description="the validation metric that chooses the best weights: mean_squared_error (mse), "
        "mean_absolute_error (mae), pinball_loss, teacher_forced_loss (loss)",
    )


CONFIG = ForecastingConfig
