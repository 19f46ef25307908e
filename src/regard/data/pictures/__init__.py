"""Tables of pictures with texts, their checks, and synthetic pictures with captions."""

from regard.data.pictures.checks import check_pictures
from regard.data.pictures.synthetic import (
    PictureBoxes,
    SyntheticPicture,
    read_boxes,
    synthetic_picture,
    write_synthetic_pictures,
)
from regard.data.pictures.tables import Picture, Pictures, open_pictures

__all__ = [
    "Picture",
    "PictureBoxes",
    "Pictures",
    "SyntheticPicture",
    "check_pictures",
    "open_pictures",
    "read_boxes",
    "synthetic_picture",
    "write_synthetic_pictures",
]
