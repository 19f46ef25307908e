"""The configuration of speech: recorded sentences, and a model that reads texts aloud."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, Strict, model_validator

from regard.config.conditions import both, only_with
from regard.config.schema import (
    COMMON,
    CONVERTED,
    FROM_DATA,
    AlignmentTrainingConfig,
    AttentionConfig,
    Config,
    DataSection,
    FeedbackConfig,
    File,
    Fraction,
    Layers,
    Section,
    Size,
    TrainingConfig,
    Weight,
)
from regard.errors import ConfigError
from regard.interop.variants import FORMS, FrontEndName, TacotronName
from regard.tasks.text_to_speech.forms import check_form, completed

Sizes = Annotated[tuple[Size, ...], Strict(False)]
Positive = Annotated[float, Field(gt=0.0)]
Name = Annotated[str, Field(min_length=1)]


class SpeechDataConfig(DataSection):
    """Where the sentences and their recordings are and how they are read."""

    train: File = Field(
        description="a table like LJSpeech's metadata.csv, `id|text|normalised text` without quoting; the folder "
        "`wavs` next to it has ID.wav. Relative to the configuration's folder"
    )
    dev: File | None = Field(default=None, description="a table of held-out sentences; null: a share of `train`")
    dev_fraction: Fraction | None = Field(
        default=None,
        description="the share of `train` that is held out if there is no `dev`; null: follows from its size",
        json_schema_extra=only_with("dev", None),
    )
    units: Literal["characters", "phones"] = Field(
        default="characters",
        description="the inputs of the model: the characters of the last column, or the phones of the table `phones`",
    )
    phones: File | None = Field(
        default=None,
        description="a table of phones with their times (id, start, end, phone); null: phones.tsv next to `train`",
        json_schema_extra=only_with("units", "phones"),
    )
    letters: File | None = Field(
        default=None,
        description="a table of letters with their times (id, index, start, end, letter), by which alignments of "
        "characters are measured; null: letters.tsv next to `train`, if it exists",
    )
    source_end: bool = Field(
        default=True,
        description="an end symbol follows every text; models of other programs may have been trained without it",
        json_schema_extra=CONVERTED,
    )
    normaliser: Name | None = Field(
        default=None,
        description="a function from texts to texts, `package.module:function`, in Python's path or the current "
        "folder; it is not stored with the model (`regard.load(…, normaliser=function)`, `--normaliser`)",
        json_schema_extra=only_with("units", "characters"),
    )
    replacements: File | None = Field(
        default=None,
        description="a table of words or phrases and their replacements, with a tab between both, which is stored "
        "with the model; `{number}` in both stands for any number",
        json_schema_extra=only_with("units", "characters"),
    )
    abbreviations: Name | None = Field(
        default=None,
        description="the language in which abbreviations and units are written out, such as `en`, by abbr2words "
        "(extra `speech`); null: they are not",
        json_schema_extra=only_with("units", "characters"),
    )
    numbers: Name | None = Field(
        default=None,
        description="the language in which numbers are written in words, such as `en`, by num2words (extra "
        "`speech`); null: they are not",
        json_schema_extra=only_with("units", "characters"),
    )
    case: Literal["keep", "lower", "upper"] = Field(
        default="keep", description="the case of letters, which is changed last"
    )
    unicode: Literal["keep", "NFC", "NFD", "NFKC", "NFKD"] = Field(
        default="NFC", description="the Unicode normal form of texts"
    )
    front_end: FrontEndName = Field(
        default="regard",
        description="the kind of mel spectrograms: `regard` at 16 kHz, `regard-22k` for HiFi-GAN's published "
        "vocoders, or those of other systems",
    )
    trim_silence: bool = Field(default=False, description="leave out the silence before and after each sentence")
    max_seconds: Positive = Field(default=20.0, description="longer recordings are not trained on")
    cache: File | None = Field(
        default=None, description="a folder in which spectrograms are stored for later runs; null: none"
    )


class SpeechEncoderConfig(Section):
    """The encoder of texts."""

    size: Size = Field(default=256, description="size of both directions together, an even number")
    embedding_size: Size = Field(default=256, description="size of a symbol's vector")
    convolutions: Layers = Field(
        default=3,
        description="convolutions of Tacotron 2",
        json_schema_extra=only_with("model.architecture", "tacotron2"),
    )
    dropout: Fraction = Field(
        default=0.5,
        description="after the convolutions of Tacotron 2",
        json_schema_extra=only_with("model.architecture", "tacotron2"),
    )
    filters: Size = Field(
        default=16,
        description="K, widths of the convolutions of Tacotron 1's CBHG",
        json_schema_extra=only_with("model.architecture", "tacotron1"),
    )


class SpeechDecoderConfig(Section):
    """The decoder of frames."""

    size: Size = Field(default=256, description="size of the cells")
    prenet_sizes: Sizes = Field(default=(128, 128), description="sizes of the layers of the prenet")
    prenet_drops: Literal["training", "always"] = Field(
        default="always", description="whether the prenet drops units in training only, or in synthesis as well"
    )
    num_frames: Size = Field(
        default=3, description="r, the frames of a step; the largest r, if `reductions` has others"
    )
    reductions: Annotated[tuple[Annotated[tuple[int, int], Strict(False)], ...], Strict(False)] = Field(
        default=(), description="pairs of a training step and the r from that step on"
    )
    num_fed_frames: Size = Field(default=1, description="the number of last frames that are the prenet's input")
    query: Literal["new", "top", "old"] = Field(
        default="new",
        description="the query of attention: the state of separate cells, that of the uppermost cell, or that of the"
        " output cells before the step",
    )
    dropout: Fraction | None = Field(default=None, description="on the states of cells; null: as the architecture")
    zoneout: Fraction = Field(default=0.0, description="probability that a unit of a state keeps its value")
    coarse_frames: Size | None = Field(
        default=None, description="r of a second decoder, for double-decoder consistency; null: none"
    )
    stops: bool = Field(
        default=True,
        description="stop logits; false: a sentence ends with a step of silence (Tacotron 1's paper), which follows "
        "every training sentence",
    )


class SpeechPostnetConfig(Section):
    """The postnet of whole sentences."""

    size: Size = Field(
        default=256,
        description="filters; in Tacotron 1 the size of both directions together",
        json_schema_extra=only_with("layers", unless=0),
    )
    layers: Annotated[int, Field(ge=0, le=1000)] = Field(
        default=5,
        description="convolutions of Tacotron 2; 0: no postnet",
        json_schema_extra=only_with("model.architecture", "tacotron2", free=0),
    )


class TacotronConfig(Section):
    """An encoder of texts and a decoder of frames with attention."""

    architecture: Literal["tacotron1", "tacotron2"] = Field(default="tacotron2", description="the kind of network")
    encoder: SpeechEncoderConfig = Field(default=SpeechEncoderConfig(), description="reads the text")
    decoder: SpeechDecoderConfig = Field(default=SpeechDecoderConfig(), description="predicts frames, r in a step")
    postnet: SpeechPostnetConfig = Field(default=SpeechPostnetConfig(), description="refines the frames")
    attention: AttentionConfig = Field(
        default=AttentionConfig(recipe="forward_attention"), description="the attention mechanism"
    )
    like: TacotronName | None = Field(
        default=None,
        description="the network of another implementation (`regard.interop`): the defaults, including attention, "
        "are then those that were published, and keys that the network fixes cannot be changed",
        json_schema_extra=CONVERTED,
    )

    @model_validator(mode="before")
    @classmethod
    def _take_form(cls, values: Any) -> Any:
        """The published sizes of the implementation that is imitated."""
        like = values.get("like") if isinstance(values, dict) else None
        return completed(values, like) if isinstance(like, str) and like in FORMS else values

    @model_validator(mode="after")
    def _form_is_kept(self) -> TacotronConfig:
        if self.like is not None:
            check_form(self)
        return self


class SpeechTrainingConfig(AlignmentTrainingConfig, FeedbackConfig, TrainingConfig):
    """The training loop, with the keys of speech."""

    batch_frames: Size = Field(
        default=6000, description="the most frames of a batch with padding", json_schema_extra=FROM_DATA
    )
    squared_error: Weight = Field(default=1.0, description="weight of the squared error of frames")
    absolute_error: Weight = Field(default=1.0, description="weight of the absolute error of frames")
    stop_weight: Weight = Field(
        default=1.0,
        description="weight of the loss of stopping",
        json_schema_extra=only_with("model.decoder.stops", True),
    )
    stop_positive_weight: Positive = Field(
        default=5.0,
        description="factor of the stop loss of the last step of a sentence",
        json_schema_extra=both(only_with("stop_weight", unless=0), only_with("model.decoder.stops", True)),
    )
    consistency_weight: Weight = Field(
        default=1.0,
        description="weight of double-decoder consistency: Σ_j |α_tj - β_nj|, the mean over steps",
        json_schema_extra=only_with("model.decoder.coarse_frames", unless=None),
    )
    alignment_losses_until: Size | None = Field(
        default=None,
        description="the step from which on the losses on alignments are omitted; null: never. The default is chosen"
        " for bahdanau, dynamic_convolution and gmm, which the guided loss keeps at a constant speed",
        json_schema_extra=FROM_DATA | only_with("alignment_losses", unless=None),
    )
    align_by: Size | None = Field(
        default=None,
        description="the step by which an alignment should have formed; `train` warns if it has not",
        json_schema_extra=FROM_DATA,
    )
    validation_sentences: Size = Field(default=16, description="held-out sentences that validations synthesise")


class SpeechDecodingConfig(Section):
    """The settings of synthesis."""

    stop_threshold: Annotated[float, Field(gt=0.0, lt=1.0)] = Field(
        default=0.5,
        description="the probability of stopping at which a sentence ends",
        json_schema_extra=COMMON | only_with("model.decoder.stops", True),
    )
    max_frames_per_unit: Positive = Field(
        default=30.0,
        description="the most frames for each unit of the text; a sentence that reaches them is cut",
        json_schema_extra=COMMON,
    )
    pace: Annotated[float, Field(ge=0.25, le=4.0)] = Field(
        default=1.0,
        description="how fast attention moves on: 2 is faster and 0.5 slower than the recordings. It multiplies the "
        "odds of moving on (forward_attention with a transition agent) or the steps of mixtures (gmm), so the length "
        "of the sound is not exactly divided by it",
        json_schema_extra=COMMON | only_with("model.attention.recipe", "forward_attention", "gmm"),
    )
    silence_threshold: Positive = Field(
        default=0.5,
        description="without stop logits (`model.decoder.stops`): a sentence ends with a step whose frames are, in "
        "every channel, less than this many standard deviations above silence",
        json_schema_extra=only_with("model.decoder.stops", False),
    )
    attention_stop: Size | None = Field(
        default=None,
        description="a sentence also ends after attention has been at its last unit for this many steps; null: never",
    )
    seed: Annotated[int, Field(ge=0, lt=2**31)] = Field(
        default=0, description="the seed of the prenet's dropout and of the initial phases"
    )
    iterations: Annotated[int, Field(ge=0, le=100_000)] = Field(default=30, description="of Griffin-Lim")
    batch_sentences: Size = Field(default=16, description="the most sentences of a batch")


class TextToSpeechConfig(Config):
    """A whole configuration of speech."""

    task: Literal["text_to_speech"] = Field(default="text_to_speech", description="what is learned")
    data: SpeechDataConfig = Field(description="the sentences and their recordings")
    model: TacotronConfig = Field(default=TacotronConfig(), description="the network")
    training: SpeechTrainingConfig = Field(default=SpeechTrainingConfig(), description="the training loop")
    decoding: SpeechDecodingConfig = Field(default=SpeechDecodingConfig(), description="the settings of synthesis")
    select: str = Field(
        default="mel_cepstral_distortion",
        description="the validation metric that chooses the best weights: mel_cepstral_distortion (mcd) of speech that "
        "runs freely, reading_errors, centre_ms and boundary_ms (with labels), teacher_forced_loss (loss)",
    )

    @model_validator(mode="after")
    def _frames_are_trained(self) -> TextToSpeechConfig:
        if not self.training.squared_error and not self.training.absolute_error:
            raise ConfigError(
                "squared_error and absolute_error are both 0, and nothing else trains the frames; give one of them a "
                "weight",
                ("training", "absolute_error"),
            )
        return self

    @model_validator(mode="after")
    def _reductions_fit(self) -> TextToSpeechConfig:
        for step, count in self.model.decoder.reductions:
            if step < 0 or not 1 <= count <= self.model.decoder.num_frames:
                raise ConfigError(
                    f"[{step}, {count}]: steps are 0 or more, and r is from 1 to num_frames="
                    f"{self.model.decoder.num_frames}",
                    ("model", "decoder", "reductions"),
                )
        return self


CONFIG = TextToSpeechConfig
