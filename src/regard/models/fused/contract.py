"""What attention is in the steps of a fused pass of speech: a plan, its steps forward, and its steps backward."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

Flat = Sequence[Any]
ReferenceStep = Callable[[Tensor, Tensor], tuple[Tensor, Any]]
"""From the query and the frames that were fed to the context, and alignment and auxiliary."""


class AbstractAttending(ABC):
    """Attention in all steps of a pass, after which it runs backward from the last step to the first."""

    @property
    @abstractmethod
    def beside(self) -> Any:
        """The tree of alignment and auxiliary of a step, of which there must have been one."""

    @abstractmethod
    def forward(self, t: int, query: Tensor, fed: Tensor, contexts: Tensor) -> None:
        """Asks with a query (B, Q) and writes the context into `contexts[t]` (B, V)."""

    @abstractmethod
    def results(self) -> list[Tensor]:
        """The leaves of `beside`, each (T, B, …)."""

    @abstractmethod
    def reverse(self, grad_contexts: Tensor, grad_results: Sequence[Tensor | None]) -> AbstractAttendingBackward:
        """The backward steps; `grad_contexts` (T, B, V) is filled row by row by the caller."""


class AbstractAttendingBackward(ABC):
    """Attention backward."""

    @property
    @abstractmethod
    def grad_fed(self) -> Tensor | None:
        """The gradient of the frames that were fed, (T, B, n·F), if they need it."""

    @abstractmethod
    def backward(self, t: int) -> Tensor | None:
        """The gradient of the query (B, Q), from that of the context, `grad_contexts[t]`."""

    @abstractmethod
    def gradients(self) -> list[Tensor | None]:
        """Of the plan's flat inputs."""


class AbstractPlan(ABC):
    """What is fixed of attention in a pass, and its inputs one after the other."""

    @property
    @abstractmethod
    def is_random(self) -> bool:
        """Whether it draws at random, so that it cannot be computed again."""

    @abstractmethod
    def flat(self) -> list[Tensor | None]:
        """The inputs that may get gradients."""

    @abstractmethod
    def begin(self, flat: Flat, needs: Sequence[bool], fed: Tensor, records: bool) -> AbstractAttending:
        """The steps, of frames (T, B, n·F).

        Args:
            flat: the inputs.
            needs: which of them need gradients, and last whether the frames do.
            records: whether they will run backward.
        """

    @abstractmethod
    def reference(self, flat: Flat) -> ReferenceStep:
        """A step in torch's own operations, which keeps the state for the next call."""
