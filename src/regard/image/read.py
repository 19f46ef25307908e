"""Picture files: PNG, JPEG and other formats of Pillow."""

from __future__ import annotations

import os
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from io import BytesIO
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.typing import NDArray

from regard.errors import DataError, RegardError

Colour = Literal["grey", "rgb"]
Report = Callable[[str], None]
MAX_PIXELS = 50_000_000
"""The default limit of the pixels of a file."""
ORIENTATION = 0x0112
"""EXIF's tag of the orientation, 1 to 8."""
TRANSPOSITIONS = {2: 0, 3: 3, 4: 1, 5: 5, 6: 4, 7: 6, 8: 2}
"""Pillow's number of the transposition that sets a picture upright, by orientation."""
SIXTEEN_BITS = 257
"""White of 16 bits, 65535, divided by white of 8 bits."""


def read_image(
    path: str | os.PathLike[str] | bytes | Any,
    *,
    colour: Colour = "grey",
    max_pixels: int = MAX_PIXELS,
    report: Report | None = None,
) -> NDArray[np.uint8]:
    """A picture, (H, W, C) uint8 from 0, black, to 255, white.

    EXIF's orientation is applied, transparent pixels are put on white, 16 bits are scaled to 8, and CMYK and palettes
    are converted. The first picture of a file with several is read.

    Args:
        path: the file, its content, or a `PIL.Image.Image`.
        colour: `grey`, C = 1 (luma 0.299 R + 0.587 G + 0.114 B), or `rgb`, C = 3.
        max_pixels: the limit, which is checked before decoding, so that a small file cannot fill the memory.
        report: called with a sentence about pictures left out, which names the file; None: a warning.

    Raises:
        DataError: for a file that is missing, empty, not a picture, damaged, or larger than `max_pixels`. The text
            names the file.
    """
    if colour not in ("grey", "rgb"):
        raise RegardError(f"colour must be 'grey' or 'rgb'; got {colour!r}.")
    is_open, content = is_pillow(path), path if isinstance(path, bytes) else None
    file = Path(getattr(path, "filename", "") or "a picture of Pillow") if is_open else _named(path)
    opened: Any = nullcontext(path) if is_open else _opened(file, content)
    with opened as picture:
        width, height = picture.size
        if width * height > max_pixels:
            raise DataError(
                f"{file}: {width:,} × {height:,} pixels are more than max_pixels={max_pixels:,}; it is not decoded.\n"
                "  Make it smaller, or raise max_pixels if the size is correct."
            )
        orientation = _orientation(picture)
        if (count := _num_frames(picture)) > 1:
            text = f"{file}: {count} pictures in one file, an animation or pages; the first is read."
            (report or _warn)(text)
        try:
            picture.load()
            flat = _flat(picture, colour, file)
        except DataError:
            raise
        except Exception as error:  # decoders raise errors of any type for damaged data
            raise DataError(f"{file}: the picture is truncated or damaged: {_reason(error)}.") from None
        if orientation in TRANSPOSITIONS:
            flat = flat.transpose(TRANSPOSITIONS[orientation])
        pixels = np.array(flat, dtype=np.uint8)
    return pixels if pixels.ndim == 3 else pixels[..., None]


def is_pillow(image: Any) -> bool:
    """Whether an object is a picture of Pillow."""
    return hasattr(image, "getexif") and hasattr(image, "convert")


def image_size(path: str | os.PathLike[str] | bytes) -> tuple[int, int]:
    """Height and width of a picture, upright, from the header of a file, or of its content.

    Raises:
        DataError: for a file that is missing, empty or not a picture. The text names the file.
    """
    with _opened(_named(path), path if isinstance(path, bytes) else None) as picture:
        width, height = picture.size
        return (width, height) if _orientation(picture) >= 5 else (height, width)


def _named(path: str | os.PathLike[str] | bytes) -> Path:
    """The name in messages."""
    return Path("the picture") if isinstance(path, bytes) else Path(path)


@contextmanager
def _opened(path: Path, content: bytes | None = None) -> Iterator[Any]:
    """The picture of a file, or of its content, before decoding."""
    from PIL import Image, UnidentifiedImageError  # not at the start of every command

    with ExitStack() as stack:
        stack.enter_context(_QUIET)
        try:
            file: IO[bytes] = stack.enter_context(path.open("rb") if content is None else BytesIO(content))
            if not file.seekable():  # a pipe
                file = BytesIO(file.read())
            picture = stack.enter_context(Image.open(file))
        except Image.DecompressionBombError as error:
            number = re.search(r"\d+", str(error))
            count = f"{int(number[0]):,} pixels" if number else "the pixels"
            raise DataError(f"{path}: {count} are more than Pillow decodes; make the picture smaller.") from None
        except FileNotFoundError:
            folder = "" if path.parent.is_dir() else f" the folder {path.parent} does not exist."
            raise DataError(f"{path}: no such file.{folder}") from None
        except IsADirectoryError:
            raise DataError(f"{path} is a folder; expected the file of a picture.") from None
        except UnidentifiedImageError:
            raise DataError(f"{path}: {_no_picture(path, content)}") from None
        except OSError as error:
            if os.path.isdir(path):  # PermissionError on Windows
                raise DataError(f"{path} is a folder; expected the file of a picture.") from None
            raise DataError(f"{path}: the picture cannot be read: {_reason(error)}.") from None
        except Exception as error:  # readers of headers raise errors of any type for damaged data
            raise DataError(f"{path}: the picture's header is damaged: {_reason(error)}.") from None
        yield picture


def _flat(picture: Any, colour: Colour, path: Path) -> Any:
    """The picture in mode L or RGB."""
    from PIL import Image

    mode = "L" if colour == "grey" else "RGB"
    if picture.mode.startswith("I;16") or (picture.mode == "I" and picture.format in ("PNG", "PPM")):
        wide = np.asarray(picture).astype(np.int64)
        grey = Image.fromarray(((wide + SIXTEEN_BITS // 2) // SIXTEEN_BITS).clip(0, 255).astype(np.uint8))
        return grey if mode == "L" else grey.convert("RGB")
    if picture.mode in ("I", "F"):
        kind = "32-bit integers" if picture.mode == "I" else "floating-point numbers"
        raise DataError(f"{path}: its pixels are {kind} with unknown white; save it with 8 or 16 bits.")
    if "transparency" in picture.info or picture.mode in ("RGBA", "LA", "PA", "RGBa", "La"):
        ink = picture.convert("RGBA")
        paper = Image.new("RGBA", ink.size, (255, 255, 255, 255))
        picture = Image.alpha_composite(paper, ink).convert("RGB")
    elif picture.mode not in ("1", "L", "RGB"):
        picture = picture.convert("RGB")
    return picture if picture.mode == mode else picture.convert(mode)


def _orientation(picture: Any) -> int:
    """EXIF's orientation; 1 if there is none, it cannot be read, or Pillow applies it."""
    if picture.format == "TIFF":
        return 1
    if picture.format == "PNG" and "exif" not in picture.info:
        return 1  # getexif would decode the picture
    try:
        number = picture.getexif().get(ORIENTATION, 1)
    except Exception:  # damaged EXIF
        return 1
    return number if number in TRANSPOSITIONS else 1


def _num_frames(picture: Any) -> int:
    if picture.format == "MPO":  # a photograph with a second view or a smaller copy
        return 1
    try:
        return int(getattr(picture, "n_frames", 1))
    except Exception:  # a damaged second picture
        return 1


def _no_picture(path: Path, content: bytes | None) -> str:
    """The reason why a file is not a picture."""
    if content is None and not path.is_file():
        return "the data of the pipe are in no format of Pillow."
    with path.open("rb") if content is None else BytesIO(content) as file:
        head = file.read(1024)
    if not head:
        return "the file is empty."
    if head.startswith(b"version https://git-lfs"):
        return "a pointer of git-lfs and not the picture itself; fetch it: git lfs pull"
    if head.startswith((b"\x1f\x8b", b"PK\x03\x04")):
        return "a compressed file; unpack it first."
    if b"<svg" in head:
        return "SVG, a drawing without pixels; export it as PNG first."
    words = head.decode("utf-8", errors="ignore").split()
    if len("".join(words).encode()) >= 0.5 * len(head) and all(map(str.isprintable, words)):
        return f"text, not a picture; it begins with {' '.join(words)[:40]!r}."
    return "the file is in no format of Pillow."


def _reason(error: Exception) -> str:
    text = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return str(text).strip().rstrip(".")


class _Quiet:
    """Silences Pillow's warnings while pictures are read, also in several threads.

    As `warnings.catch_warnings` of one thread would restore the filters of another, the first thread that enters sets
    the filters, and the last that leaves restores them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._caught = ExitStack()

    def __enter__(self) -> None:
        with self._lock:
            self._count += 1
            if self._count == 1:
                self._caught.enter_context(warnings.catch_warnings())
                warnings.filterwarnings("ignore", module=r"PIL(\.|$)")

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._count -= 1
            if self._count == 0:
                self._caught.close()


_QUIET = _Quiet()


def _warn(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=3)
