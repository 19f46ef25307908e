"""The decoder of Tacotron 1 and 2: r frames of speech per step, with any attention."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator, Tensor, nn

from regard import tree
from regard.attention.contract import Tree
from regard.attention.interface import AbstractAttention, prepare_memory
from regard.errors import ConfigError, ShapeError, UnsupportedError
from regard.layers import CellStack, Prenet
from regard.layers.module_weights import overridden
from regard.layers.recurrent import CellState
from regard.models.contract import DecoderOutput, Encoded
from regard.models.loop import outputs_of_steps, take_steps
from regard.models.outputs import all_steps, chosen, main_name, named, one_step
from regard.models.tacotron.heads import FrameHead
from regard.shapes import Float, Int, describe, num_hypotheses


@dataclass(frozen=True, slots=True)
class TacotronMemory:
    """The memory of attention, and the seed (B,) of each sentence's prenet."""

    attention: Tree
    seeds: Int[Tensor, " B"]


@dataclass(frozen=True, slots=True)
class TacotronState:
    """The state between steps.

    Args:
        query, output: the cells' states, or None.
        attention: attention's state.
        context: (R, V), the last context; zeros at first.
        frames: (R, n·F), the last n frames; None if n is 1.
        position: (R,) long, the number of steps taken.
    """

    query: CellState | None
    output: CellState | None
    attention: Tree
    context: Float[Tensor, "R V"]
    frames: Float[Tensor, "R nF"] | None
    position: Int[Tensor, " R"]


@dataclass(frozen=True, slots=True)
class TacotronFeatures:
    """The features before the head, of a step (R, …) or of a sequence (B, T, …).

    Args:
        output: d, D features.
        context: c, V features.
        alignment, auxiliary: of attention, if alignments are requested.
    """

    output: Tensor
    context: Tensor
    alignment: Tree = None
    auxiliary: Tree = None


class TacotronDecoder(nn.Module):
    """An autoregressive decoder of frames.

    p_i = prenet(the last n frames before step i; zeros before the first), then

    - with query cells:    s_i = query_cells([p_i; c_{i-1}]),  c_i = attend(s_i),  d_i = output_cells([s_i; c_i]), or
      d_i = s_i without output cells;
    - without query cells: c_i = attend(h_{i-1}), h the first output cell's state,  d_i = output_cells([p_i; c_i]);

    and the head computes r frames and the stop logits from [d_i; c_i]. Tacotron 1 has a query GRU and two residual
    output GRUs, NVIDIA's Tacotron 2 an LSTM for each; Rayhane Mamah's has two query LSTMs and no output cells; ESPnet's
    has two output LSTMs, and its query is the old state of the first.

    Inputs and values of a step are r consecutive frames, (R, r·F): the values of a step are the inputs of the next one,
    from which the decoder takes the frames for the prenet. The width of the inputs determines r, which may be any
    number up to the head's and may change between calls ("gradual r"):
    `free_run(decoder, memory, decoder.first_inputs(memory, r), …)`.

    Args:
        prenet: over n·F features, n = `num_fed_frames`.
        query_cells: over the prenet's and the context's features; if None, the query is the old state of the output
            cells.
        attention: a `Mechanism` or `Parallel`, whose queries are the query cells' outputs. Its `inputs` are the n·F fed
            features, for transition agents.
        output_cells: over [s; c], or over [p; c] without query cells; if None, the query is the output.
        head: over the output of the cells, and optionally the context.
        num_fed_frames: n: 1 for the last frame, which is usual; r for all frames of the last step, as NVIDIA's; more
            for a memory queue of the last n frames, oldest first.

    Raises:
        UnsupportedError: without any cells.
        ConfigError: for widths that do not fit together.

    Numerics: with a prenet that drops in synthesis, results depend on the seeds of `prepare` but not on the batch
    (`Prenet`).

    Source: Wang et al. 2017, Tacotron (arXiv 1703.10135), section 3.3; Shen et al. 2018, Natural TTS Synthesis by
    Conditioning WaveNet on Mel Spectrogram Predictions (arXiv 1712.05884), section 2.2.
    """

    prenet: Any
    attention: AbstractAttention

    def __init__(
        self,
        prenet: Prenet,
        attention: AbstractAttention,
        head: FrameHead,
        *,
        query_cells: CellStack | None = None,
        output_cells: CellStack | None = None,
        num_fed_frames: int = 1,
    ) -> None:
        super().__init__()
        if query_cells is None and output_cells is None:
            raise UnsupportedError("A decoder needs query cells, output cells or both; got neither.")
        if num_fed_frames < 1:
            raise ConfigError(f"num_fed_frames={num_fed_frames}: the prenet reads at least one frame.")
        self.prenet = prenet
        self.query_cells = query_cells
        self.attention = attention
        self.output_cells = output_cells
        self.head = head
        self.num_fed_frames = num_fed_frames
        self.continuous = True
        self.main_attention = main_name("attention", attention)
        self._check_widths()

    @property
    def num_features(self) -> int:
        """F, of a frame."""
        return self.head.num_features

    @property
    def num_frames(self) -> int:
        """The largest r."""
        return self.head.num_frames

    @property
    def _like(self) -> Tensor:
        """A tensor with the dtype and device of the head's weights."""
        return next(self.head.parameters(), torch.zeros(()))

    @property
    def feeds_back(self) -> str:
        """Why steps are computed one by one."""
        return "the last context is an input of the cells"

    def prepare(
        self, encoded: Encoded, *, seeds: Int[Tensor, " B"] | None = None, pace: Float[Tensor, " B"] | None = None
    ) -> TacotronMemory:
        """The memory, which depends only on the source, B rows.

        Args:
            seeds: (B,) whole numbers from 0, for the draws of a prenet that drops in synthesis; 0 for all if None.
            pace: (B,) factors, as `Mechanism.at_pace` takes them.
        """
        memory = prepare_memory(self.attention, encoded.memory, encoded.mask, encoded.grid)
        if pace is not None:
            memory = self.attention.at_pace(memory, pace)
        batch = tree.rows(encoded.memory)
        device = next(leaf for leaf in tree.leaves(encoded.memory) if leaf is not None).device
        if seeds is None:
            seeds = torch.zeros(batch, dtype=torch.long, device=device)
        elif seeds.shape != (batch,) or seeds.is_floating_point():
            raise ShapeError(
                f"seeds must be (B={batch},) integers, one for each sentence.\n" + describe({"seeds": ("B", seeds)})
            )
        return TacotronMemory(memory, seeds.to(device))

    def initial_state(self, memory: TacotronMemory, num_hypotheses: int = 1) -> TacotronState:
        """The state before the first step: zeros, and attention's first state."""
        rows = len(memory.seeds) * num_hypotheses
        like = self._like.new_zeros(()).to(memory.seeds.device)
        queue = self.num_fed_frames * self.num_features if self.num_fed_frames > 1 else 0
        return TacotronState(
            None if self.query_cells is None else self.query_cells.zero_state(rows, like),
            None if self.output_cells is None else self.output_cells.zero_state(rows, like),
            self.attention.initial_state(memory.attention, num_hypotheses),
            like.new_zeros(rows, self.attention.context_size),
            like.new_zeros(rows, queue) if queue else None,
            torch.zeros(rows, dtype=torch.long, device=memory.seeds.device),
        )

    def first_inputs(self, memory: TacotronMemory, num_frames: int | None = None) -> Float[Tensor, "B rF"]:
        """The inputs of the first step: r frames of zeros, (B, r·F); the largest r if `num_frames` is None."""
        count = self.num_frames if num_frames is None else num_frames
        return self._like.new_zeros(len(memory.seeds), count * self.num_features)

    def step(
        self,
        inputs: Tensor,
        memory: TacotronMemory,
        state: TacotronState,
        *,
        alignment: bool = False,
        generator: Generator | None = None,
    ) -> tuple[DecoderOutput, TacotronState]:
        """One output step: r frames from the r frames before them, inputs (R, r·F)."""
        if inputs.dim() != 2:
            raise ShapeError(one_step(inputs))
        num_frames = self._num_frames(inputs)
        fed = inputs[:, -self.num_features :]
        if state.frames is not None:
            fed = torch.cat([state.frames, inputs], 1)[:, -state.frames.shape[1] :]
            state = replace(state, frames=fed)
        seeds = memory.seeds.repeat_interleave(num_hypotheses(len(inputs), len(memory.seeds)))
        features = self.prenet(fed, seeds=seeds, start=state.position)
        outcome, state = self._advance(features, fed, memory, state, alignment, generator)
        return self.head_output(outcome, num_frames), state

    def forward(
        self,
        inputs: Tensor,
        memory: TacotronMemory,
        *,
        alignment: bool = False,
        generator: Generator | None = None,
    ) -> DecoderOutput:
        """All steps, teacher-forced, from inputs (B, T, r·F): `decoder_inputs` of the grouped reference."""
        if inputs.dim() != 3:
            raise ShapeError(all_steps(inputs))
        if overridden(self, TacotronDecoder, "step") is not None:
            return outputs_of_steps(self, inputs, memory, alignment=alignment, generator=generator)
        features = self.run(inputs, memory, alignment=alignment, generator=generator)
        return self.head_output(features, self._num_frames(inputs))

    def run(
        self,
        inputs: Tensor,
        memory: TacotronMemory,
        *,
        alignment: bool = False,
        generator: Generator | None = None,
    ) -> TacotronFeatures:
        """`forward` without the head: the prenet over all steps, then a loop of the cells."""
        self._num_frames(inputs)
        fed = self._fed_frames(inputs)
        features = self.prenet(fed, seeds=memory.seeds)
        return take_steps(
            lambda x, frames, state: self._advance(x, frames, memory, state, alignment, generator),
            self.initial_state(memory),
            features,
            fed,
        )

    def head_output(self, features: TacotronFeatures, num_frames: int) -> DecoderOutput:
        """The decoder's output of r frames per step from the features of `run`."""
        values, further = self.head(features.output, features.context, num_frames)
        alignments = named("attention", features.alignment)
        return DecoderOutput(
            values=values,
            alignments=alignments,
            auxiliary={**further, **chosen("attention", features.auxiliary)},
        )

    def _advance(
        self,
        features: Tensor,
        fed: Tensor,
        memory: TacotronMemory,
        state: TacotronState,
        alignment: bool,
        generator: Generator | None,
    ) -> tuple[TacotronFeatures, TacotronState]:
        """One step from the prenet's features (R, P)."""
        query_state, output_state = state.query, state.output
        if self.query_cells is not None:
            assert query_state is not None
            query, query_state = self.query_cells.step(torch.cat([features, state.context], -1), query_state)
        else:
            assert output_state is not None
            query = output_state[0][0]
        attended, attention = self.attention.step(
            query, memory.attention, state.attention, inputs=fed, alignment=alignment, generator=generator
        )
        output = query
        if self.output_cells is not None:
            assert output_state is not None
            first = features if self.query_cells is None else query
            output, output_state = self.output_cells.step(torch.cat([first, attended.context], -1), output_state)
        state = replace(
            state,
            query=query_state,
            output=output_state,
            attention=attention,
            context=attended.context,
            position=state.position + 1,
        )
        requested = (attended.alignment, attended.auxiliary) if alignment else (None, None)
        return TacotronFeatures(output, attended.context, *requested), state

    def _fed_frames(self, inputs: Float[Tensor, "B T rF"]) -> Float[Tensor, "B T nF"]:
        """The last n frames before each step."""
        if self.num_fed_frames == 1:
            return inputs[..., -self.num_features :]
        batch, steps, width = inputs.shape
        frames = inputs.reshape(batch, -1, self.num_features)
        zeros = frames.new_zeros(batch, self.num_fed_frames, self.num_features)
        each = width // self.num_features
        # windows (B, ·, F, n) that end with each frame, of which every r-th ends a step
        windows = torch.cat([zeros, frames], 1).unfold(1, self.num_fed_frames, 1)[:, each::each]
        return windows.transpose(2, 3).reshape(batch, steps, -1)

    def _num_frames(self, inputs: Tensor) -> int:
        count, rest = divmod(inputs.shape[-1], self.num_features)
        if rest or not 1 <= count <= self.num_frames:
            letters = "B T rF" if inputs.dim() == 3 else "R rF"
            raise ShapeError(
                f"inputs must be r consecutive frames of F={self.num_features} features, r from 1 to "
                f"{self.num_frames}.\n{describe({'inputs': (letters, inputs)})}\n"
                "  Use `group_frames` for frames (B, T, F); features must be the last axis, not (B, F, T)."
            )
        return count

    def _check_widths(self) -> None:
        context, fed = self.attention.context_size, self.num_fed_frames * self.num_features
        first = self.prenet.layers[0].in_features if isinstance(self.prenet, Prenet) else fed
        wanted = {"prenet": (first, fed, "num_fed_frames · F")}
        after = self.prenet.size + context
        if self.query_cells is not None:
            wanted["query_cells"] = (self.query_cells.input_size, after, "the prenet's and the context's features")
            after = self.query_cells.output_size + context
        if self.output_cells is not None:
            wanted["output_cells"] = (self.output_cells.input_size, after, "the preceding features and the context")
        for name, (size, expected, source) in wanted.items():
            if size != expected:
                raise ConfigError(f"{name} reads {size} features, but its inputs have {expected}: {source}.")
