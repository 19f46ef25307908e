"""Weights of other programs, loaded by their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import TypeVar

import torch
from torch import Tensor, nn

from regard.errors import DataError

Names = Mapping[str, str]
ModuleT = TypeVar("ModuleT", bound=nn.Module)


def load_named(
    module: ModuleT,
    theirs: Mapping[str, Tensor],
    names: Names,
    *,
    skip: Sequence[str] = (),
    without_bias: Sequence[str] = (),
) -> ModuleT:
    """Loads weights into a module, which becomes float64 if all of them are.

    Args:
        module: is changed.
        theirs: weights by the names that the other program gives them.
        names: their names of our modules, or of single weights; a module that is missing has the same name.
        skip: parts of the names of our weights that are not loaded.
        without_bias: patterns of the names of their modules (`*.feed_forward.*`) that may lack a bias; ours is then 0.

    Raises:
        DataError: for a weight that is missing, of another shape, of whole numbers (quantised), not finite, or left
            over; it names the first, or all left over.

    >>> layer = load_named(nn.Linear(2, 1), {"out.weight": torch.ones(1, 2)}, {"": "out"}, without_bias=["out"])
    >>> layer.bias.item()
    0.0
    """
    unread = set(theirs)
    if all(tensor.dtype == torch.float64 for tensor in theirs.values()):
        module.double()
    with torch.no_grad():
        for name, parameter in module.named_parameters(remove_duplicate=False):
            if any(part in name for part in skip):
                continue
            owner, _, kind = name.rpartition(".")
            their_name = names.get(name) or f"{names.get(owner, owner)}.{kind}"
            tensor = theirs.get(their_name)
            unread.discard(their_name)
            their_module = their_name.rpartition(".")[0]
            if tensor is None and kind == "bias" and any(fnmatchcase(their_module, each) for each in without_bias):
                parameter.zero_()
            elif tensor is None:
                raise DataError(f"There is no weight {their_name}, from which {name} is read.")
            elif tensor.shape != parameter.shape:
                raise DataError(f"{their_name} is {tuple(tensor.shape)}; {name} needs {tuple(parameter.shape)}.")
            elif not tensor.is_floating_point():
                raise DataError(f"{their_name} is {tensor.dtype}; {name} needs floating-point numbers (not quantised).")
            elif not bool(tensor.isfinite().all()):
                raise DataError(
                    f"{their_name} has numbers that are not finite (NaN or infinite); take another checkpoint."
                )
            else:
                parameter.copy_(tensor)
    if unread:
        raise DataError(f"Weights that no module here has: {', '.join(sorted(unread))}.")
    return module
