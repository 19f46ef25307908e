"""The trainee of speech: a model with its recorded sentences, for the training loop."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from regard.data import EOS, bucket
from regard.losses import absolute_error, alignment_consistency, low_frequency_error, squared_error, stop_loss
from regard.models import DecoderOutput, step_mask, stop_targets
from regard.tasks.alignment_losses import alignment_loss
from regard.tasks.encoded import pad
from regard.tasks.store import save
from regard.tasks.text_to_speech.evaluation import quick_scores
from regard.tasks.text_to_speech.model import SpeechModel
from regard.tasks.text_to_speech.prediction import Speech
from regard.tasks.text_to_speech.reading import RecordedSentence, SpeechMaterial
from regard.training import Loss, Validation
from regard.viz import plot_alignment

LOW_HERTZ = 3000
"""Below, the linear spectrogram of Tacotron 1 counts twice."""


class SpeechTrainee:
    """A `SpeechModel` with the sentences that it is trained on.

    Args:
        model: the model.
        material: training and held-out sentences.
    """

    def __init__(self, model: SpeechModel, material: SpeechMaterial) -> None:
        self.model = model
        self.module = model.module
        self.config = model.config
        self.material = material
        self.ids = [model.field.encode(item.text).ids for item in material.train]
        self.mels = [model.scale(item.mel) for item in material.train]
        self.silence = model.scale(model.front_end.silence)
        self.units = np.array([len(ids) + 1 for ids in self.ids])
        self.frames = np.array([len(mel) for mel in self.mels])

    def descriptions(self, epoch: int) -> Sequence[Any]:
        """Batches of indices of sentences of similar length."""
        size = self.config.training.batch_frames
        return bucket(self.units, self.frames, batch_tokens=size, seed=self.config.seed, epoch=epoch)

    def batch(self, description: Any) -> dict[str, Tensor]:
        """Padded ids and spectrograms of some training sentences."""
        return self._batch([self.ids[i] for i in description], [self.mels[i] for i in description])

    def places(self, description: Any) -> Sequence[str]:
        """The lines of the sentences of a batch."""
        return [self.material.train[i].utterance.place for i in description]

    def divide(self, description: Any, count: int) -> Sequence[Any]:
        """Every `count`-th sentence."""
        return [description[number::count] for number in range(min(count, len(description)))]

    def item_ids(self, description: Any) -> Tensor:
        """The indices of the training sentences."""
        return torch.from_numpy(np.asarray(description, dtype=np.int64))

    def loss(self, batch: dict[str, Tensor], *, step: int, generator: torch.Generator) -> Loss:
        """The errors of frames and stops, and the losses on alignments, teacher-forced; the count is of frames."""
        reduction = self._reduction(step)
        if reduction != int(self.module.reduction):
            self.module.reduction.fill_(reduction)
        until = self.config.training.alignment_losses_until
        total, count, figures = self._loss(batch, guided=until is None or step < until, generator=generator)
        return Loss(total, count, figures)

    @torch.no_grad()
    def validate(self) -> Validation:
        """Free-running speech and the teacher-forced loss on held-out sentences, with pictures."""
        total = count = 0.0
        dev, size = self.material.dev, self.config.decoding.batch_sentences
        for start in range(0, len(dev), size):
            part = dev[start : start + size]
            ids = [self.model.field.encode(item.text).ids for item in part]
            batch = self._batch(ids, [self.model.scale(item.mel) for item in part])
            batch = {name: tensor.to(self.model.device) for name, tensor in batch.items()}
            own, number, _ = self._loss(batch, guided=False, generator=None)
            total, count = total + float(own), count + float(number)
        chosen = dev[: self.config.training.validation_sentences]
        scores, spoken = quick_scores(self.model, chosen, self.material.train)
        metrics = {**scores, "teacher_forced_loss": total / max(count, 1)}
        shown = self.config.training.samples
        samples = [_sample(item, speech) for item, speech in zip(chosen[:shown], spoken, strict=False)]
        pictures = [
            (
                f"{number:02d}.png",
                partial(_draw, speech.alignment, (*self.model.field.split(item.text), "</s>")),
            )
            for number, (item, speech) in enumerate(zip(chosen[:shown], spoken, strict=False))
            if speech.alignment is not None
        ]
        ended = [speech.stop_reason == "stop" for speech in spoken]
        concern = None if any(ended) or not ended else "No held-out sentence was read to an end: the model never stops."
        return Validation(metrics, samples, pictures, concern)

    @property
    def examples(self) -> Iterator[str]:
        """The held-out texts."""
        return (item.text for item in self.material.dev)

    def save(self, folder: Path) -> None:
        """Saves everything that prediction needs."""
        save(self.model, folder)

    def _reduction(self, step: int) -> int:
        """r at a step."""
        decoder = self.config.model.decoder
        begun = [pair for pair in decoder.reductions if pair[0] <= step]
        return max(begun)[1] if begun else decoder.num_frames

    def _batch(self, ids: Sequence[Any], mels: Sequence[Tensor]) -> dict[str, Tensor]:
        inputs, mask = pad(ids, end=EOS)
        longest = max(len(mel) for mel in mels)
        frames = self.silence.float().expand(len(mels), longest, -1).clone()
        for row, mel in enumerate(mels):
            frames[row, : len(mel)] = mel
        lengths = torch.tensor([len(mel) for mel in mels])
        return {
            "inputs": inputs,
            "mask": mask,
            "frames": frames,
            "frame_mask": torch.arange(longest) < lengths[:, None],
        }

    def _loss(
        self, batch: dict[str, Tensor], *, guided: bool, generator: torch.Generator | None
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """The sum of the loss over frames, their number, and further sums."""
        training, tacotron = self.config.training, self.module.tacotron
        frames, real, mask = batch["frames"], batch["frame_mask"], batch["mask"]
        reduction = int(self.module.reduction)
        output = tacotron(batch["inputs"], frames, mask, real, num_frames=reduction, silence=0.0, generator=generator)
        count, width = real.sum(), frames.shape[-1]
        errors = [output.frames]
        if "mel" in output.refined:
            errors.append(output.refined["mel"])
        total = frames.new_zeros(())
        for said in errors:
            if training.squared_error:
                total = total + training.squared_error * squared_error(said, frames, real)[0] / width
            if training.absolute_error:
                total = total + training.absolute_error * absolute_error(said, frames, real)[0] / width
        if "linear" in output.refined:
            total = total + self._linear(output.refined["linear"], batch)
        figures = {"frame_error": absolute_error(errors[-1], frames, real)[0].detach() / width}
        steps = step_mask(real, reduction)
        if output.stop is not None and training.stop_weight:
            targets = stop_targets(real, reduction)[..., : output.stop.shape[-1]]
            stops, _ = stop_loss(output.stop, targets, steps, positive_weight=training.stop_positive_weight)
            figures["stop_loss"] = stops.detach() * reduction / output.stop.shape[-1]
            total = total + training.stop_weight * stops * reduction / output.stop.shape[-1]
        if guided and training.alignment_weights:
            added, terms = alignment_loss(training, tacotron.decoder, cast(DecoderOutput, output), mask, steps)
            total = total + reduction * added
            figures |= {name: reduction * value for name, value in terms.items()}
        if output.coarse is not None:
            total = total + self._coarse(output, batch, mask, steps, reduction)
        return total, count, figures

    def _coarse(self, output: Any, batch: dict[str, Tensor], mask: Tensor, steps: Tensor, reduction: int) -> Tensor:
        """The second decoder's errors of frames, and that it attends otherwise than the first."""
        tacotron, frames = self.module.tacotron, batch["frames"]
        coarse, width = tacotron.coarse, frames.shape[-1]
        said = output.coarse.values.reshape(len(frames), -1, width)[:, : frames.shape[1]]
        total = absolute_error(said, frames, batch["frame_mask"])[0] / width
        names = [
            net.main_attention or list(alignments)[-1]
            for net, alignments in ((tacotron.decoder, output.alignments), (coarse, output.coarse.alignments))
        ]
        mean = alignment_consistency(
            output.alignments[names[0]],
            output.coarse.alignments[names[1]],
            mask,
            steps,
            num_frames=reduction,
            coarse_frames=coarse.num_frames,
        )
        return total + self.config.training.consistency_weight * mean * batch["frame_mask"].sum()

    def _linear(self, said: Tensor, batch: dict[str, Tensor]) -> Tensor:
        """The error of a linear spectrogram, whose reference is made of the mel's magnitudes."""
        front_end = self.model.front_end
        low = max(1, int(LOW_HERTZ / (front_end.sample_rate / 2) * front_end.num_bins))
        mel = self.model.scale.inverse(batch["frames"])
        with torch.no_grad():
            magnitudes = front_end.mel_to_magnitudes(mel, "pseudo_inverse")
            targets = front_end.compression(magnitudes**front_end.power)
        return low_frequency_error(said, targets, low, batch["frame_mask"])[0] / said.shape[-1]


def _sample(item: RecordedSentence, speech: Speech) -> str:
    """A line about a sentence that was read aloud."""
    recorded = len(item.mel) * speech.hop_length / speech.sample_rate
    how = "stopped" if speech.stop_reason == "stop" else "did not stop"
    return f"{item.utterance.id}: {speech.seconds:.2f} s (recorded {recorded:.2f} s), {how}"


def _draw(alignment: Tensor, tokens: Sequence[str], path: Path) -> object:
    return plot_alignment(alignment, path, list(tokens), [str(step) for step in range(len(alignment))])
