"""The conformance suite of attention mechanisms."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import nn

from regard.testing.laws import batches, conduct, laws_of, masks, numerics, steps
from regard.testing.subject import Subject

SubjectT = TypeVar("SubjectT")

LAWS: Mapping[str, Callable[[Subject], None]] = laws_of(batches, conduct, masks, numerics, steps)
"""Every law by its name; its docstring states the law."""

_TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-5}


def check_mechanism(
    mechanism: nn.Module,
    *,
    query_size: int,
    memory_size: int | Sequence[int],
    input_size: int | None = None,
    key_size: int | None = None,
    dtype: torch.dtype = torch.float64,
    only: Iterable[str] | None = None,
    exempt: Mapping[str, str] | None = None,
) -> None:
    """Tests a mechanism against the contract, with small random sources; takes a second or two on a CPU.

    The mechanism is not changed: a converted copy is tested in evaluation mode, with slightly different weights, since
    biases that start at zero hide errors.

    Args:
        mechanism: a `Mechanism`, a `Parallel`, or your own module with the same interface.
        query_size: Q; any number for a mechanism without a query.
        memory_size: M, or a sequence with the M of each of several memories.
        input_size: F, if `step` reads `inputs`.
        key_size: M2, if keys are given besides the values; only for a single memory.
        dtype: float64 or float32; gradients are always checked in float64, and half types are checked, too.
        only: names of laws (`LAWS`) to check; all if None.
        exempt: laws that do not hold by design, with the reasons.

    Raises:
        AssertionError: for a broken law; the text has its name and docstring, and the difference.
        NameError, ImportError: of the mechanism's code, with a note that names the law.
        ValueError: for an unknown law, an exemption without a reason, or another dtype.

    >>> from regard.attention import bahdanau
    >>> check_mechanism(bahdanau(query_size=3, memory_size=4, size=4), query_size=3, memory_size=4)
    """
    names = chosen_laws(LAWS, only, exempt)
    if dtype not in _TOLERANCES:
        raise ValueError(f"dtype={dtype} must be torch.float64 or torch.float32.")
    examined = copy.deepcopy(mechanism).to(dtype).eval()
    move_weights(examined)
    several = not isinstance(memory_size, int)
    sizes = (memory_size,) if isinstance(memory_size, int) else tuple(memory_size)
    subject = Subject(examined, query_size, sizes, several, input_size, key_size, dtype, _TOLERANCES[dtype])
    for name in names:
        keep_law(name, LAWS[name], subject, _describe(mechanism))


def chosen_laws(
    laws_by_name: Mapping[str, Any], only: Iterable[str] | None, exempt: Mapping[str, str] | None
) -> list[str]:
    """The names of the laws to check.

    Raises:
        ValueError: for an unknown name, or an exemption without a reason.
    """
    exempt = {} if exempt is None else exempt
    names = list(laws_by_name if only is None else only)
    for name in [*names, *exempt]:
        if name not in laws_by_name:
            raise ValueError(f"{name!r} is not a law. The laws are: {', '.join(laws_by_name)}.")
    if unexplained := [name for name, reason in exempt.items() if not reason.strip()]:
        raise ValueError(f"An exemption needs a reason: {', '.join(unexplained)}.")
    return [name for name in names if name not in exempt]


def keep_law(name: str, law: Callable[[SubjectT], None], subject: SubjectT, described: str) -> None:
    """Checks a law; errors other than NameError and ImportError become an AssertionError that names the law."""
    try:
        law(subject)
    except (NameError, ImportError) as error:
        error.add_note(f"{described} could not run; the error was raised in the check of the law {name}.")
        raise
    except Exception as error:
        reason = str(error) if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
        raise AssertionError(
            f"{described} breaks the law {name}.\n  Law: {law.__doc__}\n  Failure: {reason}"
        ) from error


def move_weights(module: nn.Module) -> None:
    """Adds small random numbers to all weights, since biases that start at zero hide errors."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64).to(parameter))


def _describe(mechanism: Any) -> str:
    names = ("score", "window", "alignment", "read")
    parts = [type(getattr(mechanism, name)).__name__ for name in names if hasattr(mechanism, name)]
    return type(mechanism).__name__ + (f" ({', '.join(parts)})" if parts else "")
