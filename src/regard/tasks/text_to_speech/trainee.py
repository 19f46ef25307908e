"""The trainee of speech: a model with its recorded sentences, for the training loop."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import torch
from torch import Tensor

from regard.data import bucket
from regard.decoding import chosen_heads
from regard.losses import absolute_error, alignment_consistency, low_frequency_error, squared_error, stop_loss
from regard.metrics import ItemTerms, ShownItem
from regard.models import DecoderOutput, group_frames, step_mask, stop_targets
from regard.models.tacotron import STOP
from regard.runs.trainee import AbstractArrayTrainee, numbered_pictures
from regard.tasks.decoder_losses import alignment_loss
from regard.tasks.encoded import pad
from regard.tasks.text_to_speech.advice import milestone
from regard.tasks.text_to_speech.evaluation import Speech, validation_metrics, validation_scores
from regard.tasks.text_to_speech.model import SpeechModel, as_picture
from regard.tasks.text_to_speech.reading import RecordedSentence, SpeechMaterial, linear_spectrogram
from regard.training import Loss, Validation, feedback_mask
from regard.viz import plot_speech

LOW_HERTZ = 3000
"""The frequency below which the linear spectrogram of Tacotron 1 counts twice."""


class SpeechTrainee(AbstractArrayTrainee):
    """A `SpeechModel` with the sentences that it is trained on."""

    model: SpeechModel
    counted = "frames"
    axes: ClassVar[Mapping[str, str]] = {
        "inputs": "BS",
        "mask": "BS",
        "frames": "BT.",
        "frame_mask": "BT",
        "linear": "BT.",
        "silence": ".",
        "linear_silence": ".",
    }

    def __init__(self, model: SpeechModel, material: SpeechMaterial) -> None:
        self.model = model
        self.material = material
        self.ids = [model.field.encode(item.text).ids for item in material.train]
        scale, silence = model.linear_scale, model.front_end.linear_silence
        self.silence = model.scale(model.front_end.silence).float()
        self.linear_silence = silence if scale is None else scale(silence).float()
        self.silent_steps = 0 if model.config.model.decoder.stops else 1
        self.units = np.array([len(ids) + 1 for ids in self.ids])
        self.frames = np.array([len(item.mel) for item in material.train])

    def descriptions(self, epoch: int) -> Sequence[Any]:
        size = self.config.training.batch_frames
        return bucket(self.units, self.frames, batch_tokens=size, seed=self.config.seed, epoch=epoch)

    def batch(self, description: Any) -> dict[str, Tensor]:
        return self._batch([self.ids[i] for i in description], [self.material.train[i] for i in description])

    def places(self, description: Any) -> Sequence[str]:
        return [self.material.train[i].utterance.place for i in description]

    def loss(self, batch: dict[str, Tensor], *, step: int, generator: torch.Generator) -> Loss:
        """The errors of frames and stops, and the losses on alignments; the count is of frames.

        The decoder is teacher-forced, or fed its own frames as configured (`training.feedback_mask`). Every term is a
        sum over sentences, so that a batch may be divided.
        """
        reduction = self._reduction(step)
        self.module.reduction.fill_(reduction)  # a comparison before would wait for the device
        rows, frames = batch["frame_mask"].shape
        steps = -(-frames // reduction) + self.silent_steps
        feedback = feedback_mask(self.config.training, rows, steps, step=step, generator=generator)
        total, count, figures = self._loss(
            batch, reduction, guided=self._guided(step), feedback=feedback, generator=generator
        )
        return Loss(total, count, figures)

    def program(self, step: int) -> Hashable:
        """The frames of a step, whether there are losses on alignments, and the feedback of own frames."""
        return self._reduction(step), self._guided(step), super().program(step)

    def padded(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        """A batch with sizes on a grid; silence follows the end of each sentence."""
        whole = super().padded(batch)
        for name, silence in (("frames", "silence"), ("linear", "linear_silence")):
            if name in batch:
                whole[name] = torch.where(whole["frame_mask"][..., None], whole[name], batch[silence])
        return whole

    @torch.no_grad()
    def validate(self) -> Validation:
        """Free-running speech and the teacher-forced loss on held-out sentences, with pictures."""
        total = count = 0.0
        dev, size, reduction = self.material.dev, self.config.decoding.batch_sentences, int(self.module.reduction)
        for start in range(0, len(dev), size):
            part = dev[start : start + size]
            batch = self._batch([self.model.field.encode(item.text).ids for item in part], part)
            loss, number, _ = self._loss(self.on_device(batch), reduction, guided=False, generator=None)
            total, count = total + float(loss), count + float(number)
        chosen = dev[: self.config.training.validation_sentences]
        scores, spoken = validation_scores(self.model, chosen)
        metrics = {**validation_metrics(scores), "teacher_forced_loss": total / max(count, 1)}
        shown = list(zip(chosen, spoken, strict=True))[: self.config.training.samples]
        samples = [_sample(item, speech) for item, speech in shown]
        pictures = numbered_pictures(partial(self._draw, item, speech) for item, speech in shown)
        ended = any(speech.stop_reason == "stop" for speech in spoken)
        concern = None if ended else "No held-out sentence was read to an end: the model never stops."
        by = self.config.training.align_by
        alignment = None if by is None else milestone(self.config, scores, by)
        return Validation(metrics, samples, pictures, concern, alignment=alignment)

    @torch.no_grad()
    def held_out_terms(self) -> ItemTerms:
        chosen = self.material.dev[: self.config.training.validation_sentences]
        scores, _ = validation_scores(self.model, chosen)
        places = [item.utterance.place for item in chosen]
        return ItemTerms(places, scores.terms(), lambda index: ShownItem(places[index], chosen[index].text))

    @property
    def examples(self) -> Iterator[str]:
        return (item.text for item in self.material.dev)

    def _draw(self, item: RecordedSentence, speech: Speech, path: Path) -> object:
        named = replace(speech, text=item.text, tokens=self.model.units_of(item.text))
        return plot_speech(as_picture(named), path, title=f"{item.utterance.id}: {item.text}")

    def _guided(self, step: int) -> bool:
        """Whether a step has losses on alignments."""
        until = self.config.training.alignment_losses_until
        return until is None or step < until

    def _reduction(self, step: int) -> int:
        """r at a step."""
        decoder = self.config.model.decoder
        past = [pair for pair in decoder.reductions if pair[0] <= step]
        return max(past)[1] if past else decoder.num_frames

    def _batch(self, ids: Sequence[Any], items: Sequence[RecordedSentence]) -> dict[str, Tensor]:
        """Padded ids and spectrograms; silence follows the end of each sentence."""
        inputs, mask = pad(ids, end=self.model.end)
        lengths = torch.tensor([len(item.mel) for item in items])
        longest = int(lengths.max())
        batch = {"inputs": inputs, "mask": mask, "frame_mask": torch.arange(longest) < lengths[:, None]}
        mels = [self.model.scale(item.mel).float() for item in items]
        batch["frames"], batch["silence"] = _padded(mels, longest, self.silence), self.silence
        if self.model.linear_scale is not None:
            scale, data = self.model.linear_scale, self.config.data
            linear = [scale(linear_spectrogram(data, item.utterance)).float() for item in items]
            batch["linear"] = _padded(linear, longest, self.linear_silence)
            batch["linear_silence"] = self.linear_silence
        return batch

    def _loss(
        self,
        batch: dict[str, Tensor],
        reduction: int,
        *,
        guided: bool,
        generator: torch.Generator | None,
        feedback: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """The sum of the loss over frames, their number, and further sums.

        All frames of a sentence's last step count, with the silence after its end, since synthesis produces them. For a
        model that ends with silence, a further step of silence counts.
        """
        training, tacotron = self.config.training, self.module.tacotron
        mask, silence = batch["mask"], batch["silence"]
        frames = _whole_steps(batch["frames"], reduction, silence, further=self.silent_steps)
        steps = step_mask(batch["frame_mask"], reduction)
        steps = torch.cat([steps[:, :1].expand(-1, self.silent_steps), steps], 1)
        real = steps.repeat_interleave(reduction, 1)
        output = tacotron(
            batch["inputs"],
            frames,
            mask,
            real,
            num_frames=reduction,
            silence=silence,
            feedback=feedback,
            generator=generator,
        )
        count, width = real.sum(), frames.shape[-1]
        errors = [output.frames, *([output.refined["mel"]] if "mel" in output.refined else [])]
        total = torch.stack([self._frame_loss(predicted, frames, real) for predicted in errors]).sum()
        if "linear" in output.refined:
            front_end, linear = self.model.front_end, output.refined["linear"]
            low = max(1, int(LOW_HERTZ / (front_end.sample_rate / 2) * front_end.num_bins))
            quiet = batch["linear_silence"]
            targets = _whole_steps(batch["linear"], reduction, quiet, further=self.silent_steps)
            total = total + low_frequency_error(linear, targets, low, real)[0] / linear.shape[-1]
        figures = {"frame_error": absolute_error(errors[-1], frames, real)[0].detach() / width}
        if output.stop is not None and training.stop_weight:
            stops = self._stop_loss(output.stop, real, reduction)
            figures["stop_loss"] = stops.detach()
            total = total + training.stop_weight * stops
        if guided and training.alignment_weights:
            added, terms = alignment_loss(training, tacotron.decoder, cast(DecoderOutput, output), mask, steps)
            total = total + reduction * added
            figures |= {name: reduction * value for name, value in terms.items()}
        if output.coarse is not None:
            added = self._coarse(output, frames, mask, real, reduction)
            figures["consistency"] = added.detach()
            total = total + added
        return total, count, figures

    def _frame_loss(self, predicted: Tensor, frames: Tensor, real: Tensor) -> Tensor:
        """The errors of frames, summed over them."""
        training, width = self.config.training, frames.shape[-1]
        total = frames.new_zeros(())
        if training.squared_error:
            total = total + training.squared_error * squared_error(predicted, frames, real)[0] / width
        if training.absolute_error:
            total = total + training.absolute_error * absolute_error(predicted, frames, real)[0] / width
        return total

    def _stop_loss(self, logits: Tensor, real: Tensor, reduction: int) -> Tensor:
        """The loss of stopping, summed over frames."""
        targets = stop_targets(real, reduction)[..., : logits.shape[-1]]
        weight = self.config.training.stop_positive_weight
        total, _ = stop_loss(logits, targets.to(logits.device), step_mask(real, reduction), positive_weight=weight)
        return total * reduction / logits.shape[-1]

    def _coarse(self, output: Any, frames: Tensor, mask: Tensor, real: Tensor, reduction: int) -> Tensor:
        """The second decoder's errors, and the difference of its alignment from the first decoder's."""
        tacotron, training = self.module.tacotron, self.config.training
        coarse, width = tacotron.coarse, frames.shape[-1]
        assert coarse is not None
        predicted = output.coarse.values.reshape(len(frames), -1, width)[:, : frames.shape[1]]
        total = self._frame_loss(predicted, frames, real)
        if STOP in output.coarse.auxiliary and training.stop_weight:
            total = total + training.stop_weight * self._stop_loss(
                output.coarse.auxiliary[STOP], real, coarse.num_frames
            )
        steps = step_mask(real, reduction)
        mean = alignment_consistency(
            chosen_heads(output.alignments, tacotron.decoder),
            chosen_heads(output.coarse.alignments, coarse),
            mask,
            steps,
            num_frames=reduction,
            coarse_frames=coarse.num_frames,
        )
        cells = (mask.sum(1) * steps.sum(1)).sum()
        return total + training.consistency_weight * mean * cells * reduction


def _padded(spectrograms: Sequence[Tensor], longest: int, silence: Tensor) -> Tensor:
    """(B, T, F), silence after the end of each."""
    frames = silence.expand(len(spectrograms), longest, -1).clone()
    for row, spectrogram in enumerate(spectrograms):
        frames[row, : len(spectrogram)] = spectrogram
    return frames


def _whole_steps(frames: Tensor, reduction: int, silence: Tensor, *, further: int = 0) -> Tensor:
    """Frames (B, T, F), with silence up to a multiple of r, and further steps of silence."""
    whole = group_frames(frames, reduction, silence=silence).reshape(len(frames), -1, frames.shape[-1])
    return torch.cat([whole, silence.expand(len(frames), further * reduction, -1)], 1)


def _sample(item: RecordedSentence, speech: Speech) -> str:
    """A line about the speech of a sentence."""
    recorded = len(item.mel) * speech.hop_length / speech.sample_rate
    end = "stopped" if speech.stop_reason == "stop" else "did not stop"
    return f"{item.utterance.id}: {speech.seconds:.2f} s (recorded {recorded:.2f} s), {end}"
