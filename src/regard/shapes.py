"""The legend of dimension letters, used in annotations, einsum strings and error texts.

| letter | meaning | letter | meaning |
|---|---|---|---|
| `B` | sentences of a batch | `V` | value size |
| `R` | rows: sentences times hypotheses, sentence-major | `D` | model size |
| `T` | target steps | `N` | vocabulary |
| `S` | source positions | `L` | layers |
| `H` | heads | `F` | filters or features |
| `G` | key-value heads | `W` | window or chunk; words of a sentence |
| `Q` | query size | `C` | mixture components; labels |
| `K` | key size (only in the contract: hypotheses per sentence) | `M` | memory size before projection |

Batch first everywhere; a step's alignment is `(R, H, S)`, a sequence's `(R, H, T, S)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.errors import ShapeError

__all__ = [
    "Bool",
    "Float",
    "Int",
    "describe",
    "is_readable",
    "is_trusted",
    "keep_mask",
    "keep_right_padding",
    "num_hypotheses",
    "trusted",
]


def describe(tensors: Mapping[str, tuple[str, Tensor]]) -> str:
    """Lists tensors with their letters and sizes, one per line, for error texts.

    >>> print(describe({"mask": ("B S", torch.ones(4, 36, dtype=torch.bool))}))
      mask  (B=4, S=36) bool
    """
    width = max(map(len, tensors), default=0)
    lines = []
    for name, (letters, tensor) in tensors.items():
        names = letters.split()
        sizes = [f"{names[i]}={n}" if i < len(names) else str(n) for i, n in enumerate(tensor.shape)]
        lines.append(f"  {name:<{width}}  ({', '.join(sizes)}) {str(tensor.dtype).removeprefix('torch.')}")
    return "\n".join(lines)


def keep_mask(
    values: Tensor, mask: Tensor | None = None, lengths: Tensor | None = None, name: str = "values"
) -> Tensor | None:
    """The mask of a source, from a mask or from lengths: (B, S) bool, True where a position may be attended to.

    Args:
        values: (B, S, ...), the tensor that the mask belongs to.
        mask: (B, S) bool, or None.
        lengths: (B,) integers between 0 and S, or None. At most one of the two.

    Raises:
        ShapeError: for both at once, a wrong shape or a wrong type; the text shows the right call.
    """
    if mask is not None and lengths is not None:
        raise ShapeError("Give mask or lengths, not both: each defines the positions that may be attended to.")
    for argument, value in (("mask", mask), ("lengths", lengths)):
        if value is not None and not isinstance(value, Tensor):
            raise ShapeError(f"{argument} must be a tensor; got {type(value).__name__}. Use torch.tensor({argument}).")
    batch, source = values.shape[:2]
    if lengths is not None:
        if lengths.shape != (batch,) or lengths.is_floating_point() or lengths.dtype == torch.bool:
            raise ShapeError(
                f"lengths must be (B,) integers, one for each sentence of {name}.\n"
                + describe({name: ("B S M", values), "lengths": ("B", lengths)})
            )
        if batch and (int(lengths.max()) > source or int(lengths.min()) < 0):
            raise ShapeError(
                f"lengths must lie between 0 and S={source}; got {int(lengths.min())} to {int(lengths.max())}."
            )
        return torch.arange(source, device=values.device) < lengths.to(values.device)[:, None]
    if mask is None or (mask.dtype == torch.bool and mask.shape == (batch, source)):
        return mask
    shown = describe({name: ("B S M", values), "mask": ("B S", mask)})
    if mask.dtype != torch.bool:
        raise ShapeError(
            f"mask must be bool, True where a position may be attended to.\n{shown}\n"
            "  For a 0/1 tensor use mask.bool(); for a torch key_padding_mask (True = padding) use ~mask."
        )
    hint = ""
    if mask.dim() == 2 and mask.shape[1] == source - 1:
        hint = "\n  The mask is one shorter. Was it built before the end-of-sequence token was added?"
    elif mask.dim() == 2 and mask.shape == (source, batch):
        hint = "\n  The mask is time-first; use mask.T."
    raise ShapeError(f"{name} and mask disagree on (B, S).\n{shown}{hint}")


def keep_right_padding(values: Tensor, mask: Tensor | None, name: str = "values") -> Tensor | None:
    """The mask of a source that is read in order: (B, S) bool, in every row True first and then False.

    Compilers and function transforms do not let values be read, so only shape and type are checked there.

    Args:
        values, mask, name: as in `keep_mask`.

    Raises:
        ShapeError: for a wrong shape or type, or padding that is not on the right; the text shows the right call.
    """
    mask = keep_mask(values, mask, name=name)
    if mask is None or mask.shape[1] < 2 or not is_readable(mask):
        return mask
    returns = mask[:, 1:] > mask[:, :-1]
    if not bool(returns.any()):
        return mask
    row = int(returns.any(1).nonzero()[0, 0])
    shown = "".join("T" if real else "F" for real in mask[row, :24].tolist()) + ("..." if mask.shape[1] > 24 else "")
    inverted = not bool((mask[:, 1:] < mask[:, :-1]).any())
    raise ShapeError(
        f"mask must be right-padded: True at the first positions of every row, False at the rest.\n"
        f"{describe({name: ('B S M', values), 'mask': ('B S', mask)})}\n"
        f"  Row {row} of the mask is {shown}. "
        + (
            "If True means padding, as in torch's key_padding_mask, use ~mask; if the source is left-padded, move its "
            "padding to the right."
            if inverted
            else "Move the padding to the end of every row."
        )
    )


_TRUSTED: ContextVar[bool] = ContextVar("values are trusted", default=False)


@contextmanager
def trusted() -> Iterator[None]:
    """Inside the block only sizes of tensors are checked, not values, since reading them from a GPU waits for it.

    For batches that the library itself has made.
    """
    token = _TRUSTED.set(True)
    try:
        yield
    finally:
        _TRUSTED.reset(token)


def is_trusted() -> bool:
    """Whether values of tensors are not checked (`trusted`)."""
    return _TRUSTED.get()


def is_readable(x: Tensor) -> bool:
    """Whether the values of a tensor can be read and are to be checked."""
    return not (
        is_trusted()
        or torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or torch._C._get_tracing_state() is not None
        or x.is_meta
        or type(x) is not Tensor
        or torch._C._len_torch_dispatch_stack() > 0
    )


def num_hypotheses(rows: int, sentences: int) -> int:
    """K, the hypotheses per sentence, from R rows of queries over B sentences of memory."""
    if sentences == 0:
        return 1
    if rows % sentences:
        raise ShapeError(
            f"R={rows} rows of queries are not a multiple of B={sentences} sentences of memory.\n"
            "  Rows are sentence-major: hypothesis k of sentence b is row b·K + k."
        )
    return rows // sentences


def merge_rows(x: Tensor) -> Tensor:
    """(A, B, ...) as (A·B, ...), a view if possible.

    In an export, x is first flattened to one axis: otherwise the stride of the merged axes would be a minimum over
    symbols, from which torch cannot prove that they may be split again for any T.
    """
    if not torch.compiler.is_exporting():
        return x.flatten(0, 1)
    return x.reshape(-1).view(x.shape[0] * x.shape[1], *x.shape[2:])
