"""The two networks of a text-to-text model as functions of tensors: the computation once per source, and a step.

Axes: B sentences, S source positions, J hypotheses of a sentence before a step and K after it, N symbols. Memories have
B rows and are shared by the hypotheses of a sentence; every tensor of a state is (B, J, ...). A step reorders the state
itself: one of its inputs is the hypothesis that each of the K new ones continues.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from regard import tree
from regard.attention.alignments.monotonic import AbstractReader
from regard.decoding.result import chosen_heads
from regard.errors import ShapeError, UnsupportedError
from regard.models import EncoderDecoder
from regard.ops import plain
from regard.shapes import Bool, Float, Int, merge_rows

Leaves = tuple[Tensor, ...]
Axes = dict[int, str]
"""The letters of the varying axes of a tensor, by axis."""
EXAMPLE_LENGTHS = (7, 5, 2)
"""Source positions of example sentences."""
OTHER_LENGTHS = (9, 3, 4)
NUM_HYPOTHESES = 2
READERS = 3, 16_383
"""The fewest and the most positions of monotonic readers, whose scan over S - 1 steps has more passes beyond that."""
FIRST_SYMBOL = 4
"""The first id of an ordinary symbol."""


def real_positions(source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"]) -> Bool[Tensor, "B S"]:
    """True at the first `lengths` positions."""
    return torch.arange(source.shape[1], device=source.device) < lengths[:, None]


class Form:
    """The structure of a tree, and a list of its distinct tensors: one that is in it twice is listed once.

    Args:
        example: a tree of tensors or None.
    """

    def __init__(self, example: Any) -> None:
        self.example = example
        leaves = list(tree.leaves(example))
        first: dict[int, int] = {}
        for state in leaves:
            first.setdefault(id(state), len(first))
        self.places = [first[id(state)] for state in leaves]

    def listed(self, value: Any) -> Leaves:
        """The distinct tensors of a tree of this form."""
        distinct: dict[int, Tensor] = {}
        for place, state in zip(self.places, tree.leaves(value), strict=True):
            distinct.setdefault(place, state)
        return tuple(distinct.values())

    def built(self, leaves: Sequence[Tensor]) -> Any:
        """The tree of the listed tensors."""
        places = iter(self.places)
        return tree.map(lambda _: leaves[next(places)], self.example)


class SourceNetwork(nn.Module):
    """The computation once per source: the tensors of the memory, and those of the first state with J = 1.

    Args:
        model: encoder and decoder.
        memory: the form of the decoder's memory.
    """

    def __init__(self, model: EncoderDecoder, memory: Form) -> None:
        super().__init__()
        self.model, self.memory = model, memory

    def forward(self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"]) -> tuple[Leaves, Leaves]:
        """The memory and the state of sources of these lengths, end symbols included."""
        memory = self.model.prepare(source, real_positions(source, lengths))
        state = self.model.decoder.initial_state(memory)
        return self.memory.listed(memory), tuple(_first(part_state).unsqueeze(1) for part_state in tree.leaves(state))


class StepNetwork(nn.Module):
    """One step of all hypotheses, each of which continues a hypothesis of the previous step.

    Args:
        model: encoder and decoder.
        memory: the form of the decoder's memory.
        state: a state of the decoder.
        axes: for each tensor of the memory and of the state, the letters of its varying axes, by axis.
        layer, head: of the returned attention weights (`chosen_heads`).
    """

    def __init__(
        self,
        model: EncoderDecoder,
        memory: Form,
        state: Any,
        *,
        axes: Sequence[Axes] = (),
        layer: str | None = None,
        head: int | None = None,
    ) -> None:
        super().__init__()
        self.decoder, self.memory, self.state = model.decoder, memory, state
        self.axes = ({0: "B", 1: "K"}, {0: "B", 1: "K"}, *axes)
        self.layer, self.head = layer, head

    def forward(
        self, tokens: Int[Tensor, "B K"], parents: Int[Tensor, "B K"], memory: Leaves, state: Leaves
    ) -> tuple[Float[Tensor, "B K N"], tuple[Float[Tensor, "B K S"], ...], Leaves]:
        """Log-probabilities, the selected attention weights if there are any, and the state, with K hypotheses.

        Args:
            tokens: the last symbol of each hypothesis.
            parents: the hypothesis, below J, that each continues.
            memory: the tensors of the memory, B rows.
            state: the tensors of the state, (B, J, ...).

        Raises:
            ShapeError: for inputs that disagree on an axis.
        """
        require_agreement((tokens, parents, *memory, *state), self.axes)
        sentences, before = state[0].shape[:2]
        rows = merge_rows(torch.arange(sentences, device=tokens.device)[:, None] * before + parents)
        leaves = iter([merge_rows(part_state).index_select(0, rows) for part_state in state])
        output, after = self.decoder.step(
            merge_rows(tokens),
            self.memory.built(memory),
            tree.map(lambda _: next(leaves), self.state),
            alignment=True,
        )
        divided = (sentences, tokens.shape[1])
        weights = []
        if output.alignments:
            heads = {name: value.unsqueeze(-2) for name, value in output.alignments.items()}  # (R, H, T=1, S)
            shown = chosen_heads(heads, self.decoder, layer=self.layer, head=self.head).mean(-3)
            weights.append(shown.reshape(*divided, -1))
        states = tuple(part_state.reshape(*divided, *part_state.shape[1:]) for part_state in tree.leaves(after))
        return output.log_probabilities.reshape(*divided, -1), tuple(weights), states


class ForcedNetwork(nn.Module):
    """All steps of given outputs, teacher-forced.

    Args:
        model: encoder and decoder.
    """

    def __init__(self, model: EncoderDecoder) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, source: Int[Tensor, "B S"], lengths: Int[Tensor, " B"], inputs: Int[Tensor, "B T"]
    ) -> Float[Tensor, "B T N"]:
        """Log-probabilities after each input; inputs are the begin symbol and the target without its last symbol."""
        memory = self.model.prepare(source, real_positions(source, lengths))
        output: Tensor = self.model.decoder(inputs, memory).log_probabilities
        return output


@dataclass(frozen=True, slots=True)
class Networks:
    """A model's networks, with example inputs and the varying axes.

    Args:
        model: encoder and decoder.
        source_inputs, step_inputs: example inputs.
        memory_axes, state_axes: for each tensor the letters of its varying axes, by axis.
        has_alignment: whether a step returns weights.
        feeds_back: the reason why not all steps can be computed at once, or None.
        positions: the smallest and the largest S of a torch program; None for no limit.
    """

    model: EncoderDecoder
    source: SourceNetwork
    step: StepNetwork
    source_inputs: tuple[Tensor, Tensor]
    step_inputs: tuple[Tensor, Tensor, Leaves, Leaves]
    memory_axes: tuple[Axes, ...]
    state_axes: tuple[Axes, ...]
    has_alignment: bool
    feeds_back: str | None
    positions: tuple[int, int | None]

    @classmethod
    def of(cls, model: EncoderDecoder, *, layer: str | None = None, head: int | None = None) -> Networks:
        """The networks of a model in evaluation mode, which must be on the CPU.

        Args:
            layer, head: of the attention whose weights a step returns.

        Raises:
            UnsupportedError: for a decoder whose state changes its form from one step to the next.
        """
        with exporting():
            inputs, memory, state = _example(model, EXAMPLE_LENGTHS, layer, head)
            others, _, _ = _example(model, OTHER_LENGTHS, layer, head)
            form = Form(memory)
            source = example_sources(EXAMPLE_LENGTHS)
            step = StepNetwork(model, form, state, layer=layer, head=head).eval()
            _, weights, after = step(*inputs)
            memory_axes = tuple({0: "B", **_differing(a, b, "S", 1)} for a, b in zip(inputs[2], others[2], strict=True))
            state_axes = tuple(
                {0: "B", 1: "J", **_differing(a, grown, "T", 2), **_differing(a, b, "S", 2)}
                for a, grown, b in zip(inputs[3], after, others[3], strict=True)
            )
            step = StepNetwork(model, form, state, axes=(*memory_axes, *state_axes), layer=layer, head=head).eval()
        return cls(
            model=model,
            source=SourceNetwork(model, form).eval(),
            step=step,
            source_inputs=source,
            step_inputs=inputs,
            memory_axes=memory_axes,
            state_axes=state_axes,
            has_alignment=bool(weights),
            feeds_back=_feeds_back(model.decoder),
            positions=READERS if any(isinstance(m, AbstractReader) for m in model.modules()) else (2, None),
        )


def require_agreement(inputs: Sequence[Tensor], axes: Sequence[Axes]) -> None:
    """Refuses tensors whose axes of one letter differ in size; exports take these sizes as equal from here."""
    sizes: dict[str, int] = {}
    for x, letters in zip(inputs, axes, strict=False):
        for axis, letter in letters.items():
            if x.shape[axis] != sizes.setdefault(letter, x.shape[axis]):
                raise ShapeError(f"Inputs of a step disagree on {letter}: {sizes[letter]} and {x.shape[axis]}.")


@contextmanager
def exporting() -> Iterator[None]:
    """In this context models use only torch operations, without gradients."""
    with torch.no_grad(), plain():
        yield


def example_sources(lengths: Sequence[int]) -> tuple[Int[Tensor, "B S"], Int[Tensor, " B"]]:
    """Sources of these lengths, of one symbol."""
    return torch.full((len(lengths), max(lengths)), FIRST_SYMBOL), torch.tensor(lengths)


def _example(
    model: EncoderDecoder, lengths: Sequence[int], layer: str | None, head: int | None
) -> tuple[tuple[Tensor, Tensor, Leaves, Leaves], Any, Any]:
    """The inputs of the third step over sources of these lengths, their memory, and the first state."""
    source, counts = example_sources(lengths)
    memory = model.prepare(source, real_positions(source, counts))
    state = model.decoder.initial_state(memory, NUM_HYPOTHESES)
    form = Form(memory)
    step = StepNetwork(model, form, state, layer=layer, head=head).eval()
    states = tuple(part_state.unflatten(0, (-1, NUM_HYPOTHESES)) for part_state in tree.leaves(state))
    tokens = torch.full((len(lengths), NUM_HYPOTHESES), FIRST_SYMBOL)
    parents = torch.arange(NUM_HYPOTHESES).expand(len(lengths), -1).clone()
    for _ in range(2):
        _, _, after = step(tokens, parents, form.listed(memory), states)
        if [part_state.dim() for part_state in after] != [part_state.dim() for part_state in states]:
            raise UnsupportedError(
                f"The state of {type(model.decoder).__name__} changes its form from step to step, so one program "
                "cannot compute all steps."
            )
        states = after
    return (tokens, parents, form.listed(memory), states), memory, state


def _feeds_back(decoder: Any) -> str | None:
    """The reason why the steps of a decoder cannot be computed at once, or None."""
    if (reason := getattr(decoder, "feeds_back", None)) is not None:
        return str(reason)
    is_recurrent = getattr(getattr(decoder, "attention", None), "is_recurrent", False)
    return "its attention depends on the weights of earlier steps" if is_recurrent else None


def _first(state: Tensor) -> Tensor:
    """A tensor of a first state; an empty cache is made anew, since ONNX cannot reshape empty tensors."""
    if any(isinstance(size, int) and size == 0 for size in state.shape[1:]):
        return state.new_zeros(state.shape)
    return state


def _differing(a: Tensor, b: Tensor, letter: str, first: int) -> dict[int, str]:
    """The axes from `first` on that differ in size."""
    return {axis: letter for axis in range(first, a.dim()) if a.shape[axis] != b.shape[axis]}
