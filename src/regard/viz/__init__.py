"""Pictures and HTML pages of alignments, documents, forecasts, speech, captions, handwriting and curves."""

from typing import TYPE_CHECKING

from regard.lazy import on_demand

if TYPE_CHECKING:
    from regard.viz.aligned import Aligned, ReadingOptions
    from regard.viz.aligned_speech import AlignedSpeech
    from regard.viz.captioned_image import CaptionedImage
    from regard.viz.captions import plot_captioned_image
    from regard.viz.curves import plot_curves
    from regard.viz.document import plot_document, save_documents
    from regard.viz.files import alignment_record, load_alignment, save_alignment
    from regard.viz.forecast import plot_forecast
    from regard.viz.plot import plot_alignment
    from regard.viz.speech import plot_speech
    from regard.viz.strokes import plot_strokes
    from regard.viz.weighted import WeightedDocument

__all__ = [
    "Aligned",
    "AlignedSpeech",
    "CaptionedImage",
    "ReadingOptions",
    "WeightedDocument",
    "alignment_record",
    "load_alignment",
    "plot_alignment",
    "plot_captioned_image",
    "plot_curves",
    "plot_document",
    "plot_forecast",
    "plot_speech",
    "plot_strokes",
    "save_alignment",
    "save_documents",
]

__getattr__ = on_demand(
    __name__,
    {
        "aligned": ["Aligned", "ReadingOptions"],
        "aligned_speech": ["AlignedSpeech"],
        "captioned_image": ["CaptionedImage"],
        "captions": ["plot_captioned_image"],
        "curves": ["plot_curves"],
        "document": ["plot_document", "save_documents"],
        "files": ["alignment_record", "load_alignment", "save_alignment"],
        "forecast": ["plot_forecast"],
        "plot": ["plot_alignment"],
        "speech": ["plot_speech"],
        "strokes": ["plot_strokes"],
        "weighted": ["WeightedDocument"],
    },
)
