"""Tacotron: an encoder, a decoder of frames and a postnet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor, nn

from regard.errors import ConfigError, DataError, ShapeError
from regard.models.contract import DecoderOutput, Encoded
from regard.models.loop import fed_outputs, feeds_back
from regard.models.tacotron.decoder import TacotronDecoder
from regard.models.tacotron.frames import decoder_inputs, group_frames, silent_frame, ungroup_frames
from regard.models.tacotron.heads import STOP
from regard.shapes import Bool, Float, Int, describe, is_readable, keep_right_padding


@dataclass(frozen=True, slots=True)
class TacotronOutput:
    """The output of a pass over T frames in N = ⌈T / r⌉ steps.

    Args:
        frames: (B, T, F), of the decoder.
        refined: the outputs of the postnets by name: frames (B, T, F) or spectrograms (B, T, ·).
        stop: (B, N, r) logits, or (B, N, 1); None for a decoder without them.
        alignments: by name, (B, H, N, S).
        coarse: the output of the second decoder, with more frames per step; None without one.
    """

    frames: Float[Tensor, "B T F"]
    refined: Mapping[str, Tensor]
    stop: Tensor | None
    alignments: Mapping[str, Tensor]
    coarse: DecoderOutput | None = None


class Tacotron(nn.Module):
    """Text to spectrogram.

    Args:
        encoder: with `encode(inputs, mask) -> Encoded`.
        decoder: of frames.
        postnets: by name, modules over (frames, mask); `mel` refines frames, `linear` computes a linear spectrogram.
        coarse: a second decoder with a larger r, for double-decoder consistency: it is trained with the first, and a
            loss compares their alignments (`losses.alignment_consistency`); synthesis does not use it.

    Raises:
        ConfigError: for decoders with different features of a frame, or a second one that is not coarser.

    Source: Wang et al. 2017 (arXiv 1703.10135); Shen et al. 2018 (arXiv 1712.05884); double-decoder consistency:
    Gölge 2020.
    """

    encoder: Any

    def __init__(
        self,
        encoder: nn.Module,
        decoder: TacotronDecoder,
        postnets: Mapping[str, nn.Module] | None = None,
        *,
        coarse: TacotronDecoder | None = None,
    ) -> None:
        super().__init__()
        if coarse is not None and (
            coarse.num_features != decoder.num_features or coarse.num_frames <= decoder.num_frames
        ):
            raise ConfigError(
                "The second decoder must have the same F and a larger r; got F="
                f"{coarse.num_features}, r={coarse.num_frames} and F={decoder.num_features}, r={decoder.num_frames} of "
                "the first."
            )
        self.encoder = encoder
        self.decoder = decoder
        self.postnets = nn.ModuleDict(dict(postnets or {}))
        self.coarse = coarse

    def forward(
        self,
        inputs: Int[Tensor, "B S"],
        frames: Float[Tensor, "B T F"],
        mask: Bool[Tensor, "B S"] | None = None,
        frame_mask: Bool[Tensor, "B T"] | None = None,
        *,
        num_frames: int | None = None,
        silence: float | Float[Tensor, " F"] = 0.0,
        feedback: Bool[Tensor, "B N"] | None = None,
        generator: Generator | None = None,
    ) -> TacotronOutput:
        """A pass over the reference, teacher-forced except where `feedback` is True. A second decoder always is.

        Args:
            inputs, mask: texts and their real symbols, right-padded.
            frames, frame_mask: the reference and its real frames, right-padded.
            num_frames: r; the decoder's largest if None.
            silence: a silent frame, or one number for all its features, which follows the end of a sentence, also in
                its last step if r does not divide its frames.
            feedback: (B, N) for N = ⌈T / r⌉ steps, True where the decoder's own r frames of the step before, with their
                gradient, replace the reference's; its first column has no effect. With any True, steps are a loop.
            generator: for attention that draws random numbers.

        Raises:
            DataError: for a text without symbols.
            ShapeError: for frames that are not (B, T, F), or feedback that does not match these steps.
        """
        if frames.dim() != 3 or frames.shape[2] != self.decoder.num_features:
            raise ShapeError(
                f"frames must be (B, T, F) with F={self.decoder.num_features}, a frame in each row, not (B, F, T).\n"
                + describe({"frames": ("B T F", frames)})
            )
        frame_mask = keep_right_padding(frames, frame_mask, name="frames")
        if frame_mask is not None:
            frames = torch.where(frame_mask[..., None], frames, silent_frame(silence, frames))
        encoded = self.encode(inputs, mask)
        count = self.decoder.num_frames if num_frames is None else num_frames
        output = forced(self.decoder, encoded, frames, count, silence=silence, feedback=feedback, generator=generator)
        assert output.values is not None
        predicted = ungroup_frames(output.values, self.decoder.num_features)[:, : frames.shape[1]]
        coarse = None
        if self.coarse is not None:
            coarse = forced(self.coarse, encoded, frames, self.coarse.num_frames, silence=silence, generator=generator)
        return TacotronOutput(
            predicted, self.refine(predicted, frame_mask), output.auxiliary.get(STOP), output.alignments, coarse
        )

    def encode(self, inputs: Int[Tensor, "B S"], mask: Bool[Tensor, "B S"] | None = None) -> Encoded:
        """The encoded texts, none of which may be empty.

        Raises:
            DataError: for a text without symbols; the error names the rows.
            ShapeError: for a mask of another shape or type, or one that is not right-padded.
        """
        mask = keep_right_padding(inputs, mask, name="inputs")
        if inputs.shape[1] == 0 and len(inputs):
            raise DataError("The texts have no symbols (S=0).")
        if mask is not None and is_readable(mask) and not bool(mask[:, :1].all()):
            rows = (~mask[:, 0]).nonzero()[:, 0].tolist()
            named = ", ".join(map(str, rows[:10])) + (", …" if len(rows) > 10 else "")
            raise DataError(f"Row {named} of the batch has no symbols. Leave it out.")
        encoded: Encoded = self.encoder.encode(inputs, mask)
        return encoded

    def refine(self, frames: Float[Tensor, "B T F"], mask: Bool[Tensor, "B T"] | None = None) -> Mapping[str, Tensor]:
        """The outputs of the postnets by name; after synthesis the mask is that of the predicted frames."""
        return {name: postnet(frames, mask) for name, postnet in self.postnets.items()}


def forced(
    decoder: TacotronDecoder,
    encoded: Encoded,
    frames: Float[Tensor, "B T F"],
    num_frames: int,
    *,
    silence: float | Float[Tensor, " F"] = 0.0,
    feedback: Bool[Tensor, "B N"] | None = None,
    generator: Generator | None = None,
) -> DecoderOutput:
    """A decoder's output for all steps of a reference, with alignments.

    Args:
        frames: the reference, silence at padding.
        num_frames: r.
        feedback: as in `Tacotron.forward`.

    Raises:
        ShapeError: for feedback that does not match these steps.
    """
    inputs = decoder_inputs(group_frames(frames, num_frames, silence=silence))
    if feedback is not None and (feedback.shape != inputs.shape[:2] or feedback.dtype != torch.bool):
        raise ShapeError(
            f"feedback must be (B, N) bool, for N = ⌈T / r⌉ steps of r={num_frames} frames.\n"
            + describe({"frames": ("B T F", frames), "feedback": ("B N", feedback)})
        )
    memory = decoder.prepare(encoded)
    if feeds_back(feedback):
        return fed_outputs(decoder, memory, inputs, feedback, alignment=True, generator=generator)
    return decoder(inputs, memory, alignment=True, generator=generator)
