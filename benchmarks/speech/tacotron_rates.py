"""Tacotron 2 for training and synthesis beside other programs and beside its own plain steps, turn by turn.

    OMP_NUM_THREADS=1 python benchmarks/speech/tacotron_rates.py train --peers speechbrain espnet coqui nvidia=FOLDER
    OMP_NUM_THREADS=1 python benchmarks/speech/tacotron_rates.py speak --peers speechbrain espnet coqui nvidia=FOLDER
    OMP_NUM_THREADS=1 python benchmarks/speech/tacotron_rates.py pass --attention forward

`train`: a step of training, with the loss (squared errors before and after the postnet, stop) and Adam. `speak`: one
sentence, free-running, to a given number of frames. `pass`: the decoder's teacher-forced pass forward and backward.
Every model has the same sizes and inputs. Rows give medians: CPU seconds, frames a CPU
second, and the ratio of a turn to `regard`'s.
The folder has NVIDIA's model.py and layers.py; the others are installed without their dependencies:

    pip install --no-deps speechbrain==1.1.2 espnet==202511 typeguard coqui-tts==0.28.0
"""

from __future__ import annotations

import argparse
import logging
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from tacotron_peers import PAPER, PEERS
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, mse_loss

from regard import attention as a
from regard.decoding import free_run
from regard.models import decoder_inputs, group_frames, stop_targets, tacotron2
from regard.models.contract import Encoded
from regard.ops import plain

FEATURES, SYMBOLS = 80, 40
ATTENTION: dict[str, Callable[..., Any]] = {
    "location": a.location_sensitive,
    "additive": partial(a.bahdanau, size=128),
    "forward": a.forward_attention,
    "agent": partial(a.forward_attention, transition_agent=True, input_size=FEATURES),
    "dca": a.dynamic_convolution,
    "gmm": a.gmm,
    "stepwise": a.stepwise_monotonic,
}


def ours(options: argparse.Namespace) -> Any:
    """The model; `like=nvidia` has both channels, as the others but ESPnet's."""
    sizes = {
        "embedding_size": options.size,
        "encoder_size": options.size,
        "size": 2 * options.size if options.size == PAPER else options.size,
        "prenet_sizes": (options.prenet, options.prenet),
        "postnet_size": options.size,
        "num_frames": options.frames,
    }
    attention = ATTENTION[options.attention]
    if options.attention == "location":
        attention = partial(attention, location="both", bias=False)
    return tacotron2(SYMBOLS, attention=attention, **sizes)


def loss(before: Tensor, after: Tensor, stop: Tensor, frames: Tensor, targets: Tensor) -> Tensor:
    """Of sentences without padding."""
    errors = mse_loss(before, frames) + mse_loss(after, frames)
    return errors + binary_cross_entropy_with_logits(stop.reshape(-1)[: targets.numel()], targets.reshape(-1))


class Race:
    """The models and their inputs."""

    def __init__(self, options: argparse.Namespace) -> None:
        torch.manual_seed(0)
        self.options = options
        self.models = {"regard": ours(options)}
        for peer in options.peers:
            name, _, folder = peer.partition("=")
            sizes = SYMBOLS, FEATURES, options.size, options.prenet, options.frames
            self.models[name] = PEERS[name](*([folder] if folder else []), *sizes)
        self.adams = {name: torch.optim.Adam(model.parameters(), 1e-3) for name, model in self.models.items()}
        self.ids = torch.randint(1, SYMBOLS, (options.batch, options.symbols))
        self.frames = torch.randn(options.batch, options.length, FEATURES)
        self.mask = torch.ones(options.batch, options.symbols, dtype=torch.bool)
        self.frame_mask = torch.ones(options.batch, options.length, dtype=torch.bool)
        self.targets = stop_targets(self.frame_mask, options.frames).float()

    def turns(self, mode: str) -> dict[str, Callable[[], object]]:
        """What is done in a turn, by name."""
        if mode == "pass":
            return {"regard": self.decode, "plain steps": partial(self.plain, self.decode)}
        if mode == "train":
            return {
                **{name: partial(self.train, name) for name in self.models},
                "plain steps": partial(self.plain, partial(self.train, "regard")),
            }
        for model in self.models.values():
            model.eval()
        return {name: partial(self.speak, name) for name in self.models}

    def plain(self, work: Callable[[], object]) -> None:
        """By torch's operations alone."""
        with plain():
            work()

    def train(self, name: str) -> None:
        """A step of training."""
        model = self.models[name]
        if name == "regard":
            output = model(self.ids, self.frames, self.mask, self.frame_mask)
            parts = output.frames, output.refined["mel"], output.stop
        else:
            parts = model(self.ids, self.frames)
        # SpeechBrain and NVIDIA have one logit for a step
        targets = self.targets if parts[2].numel() == self.targets.numel() else self.targets[..., -1]
        self.adams[name].zero_grad()
        loss(*parts, self.frames, targets).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        self.adams[name].step()

    def decode(self) -> None:
        """The decoder's pass."""
        decoder = self.models["regard"].decoder
        decoder.zero_grad()
        memory = torch.randn(self.options.batch, self.options.symbols, self.options.size, requires_grad=True)
        inputs = decoder_inputs(group_frames(self.frames, self.options.frames))
        values = decoder(inputs, decoder.prepare(Encoded(memory)), alignment=True).values
        values.square().mean().backward()

    def speak(self, name: str) -> None:
        """One sentence, without an end."""
        model, steps = self.models[name], self.options.length // self.options.frames
        with torch.inference_mode():
            if name != "regard":
                model.speak(self.ids[:1], steps)
                return
            decoder = model.decoder
            memory = decoder.prepare(model.encode(self.ids[:1]))
            (said,) = free_run(decoder, memory, decoder.first_inputs(memory), max_length=steps)
            model.refine(said.values.view(1, -1, FEATURES))


def seconds(work: Callable[[], object]) -> float:
    """CPU time of a call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    """Prints a row for each."""
    logging.disable()  # ESPnet warns in every call
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("train", "speak", "pass"))
    parser.add_argument("--peers", nargs="*", default=[])
    parser.add_argument("--attention", default="location", choices=list(ATTENTION))
    parser.add_argument("--frames", type=int, default=1, help="r")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=300, help="frames of each sentence")
    parser.add_argument("--symbols", type=int, default=60)
    parser.add_argument("--size", type=int, default=256, help="of encoder, cells and postnet; 512 is the paper's")
    parser.add_argument("--prenet", type=int, default=128)
    options = parser.parse_args()
    turns = Race(options).turns(options.mode)
    measured: dict[str, list[float]] = {name: [] for name in turns}
    for turn in range(options.rounds + 1):
        for name, work in turns.items():
            value = seconds(work)
            if turn:
                measured[name].append(value)
    for name, values in measured.items():
        ratio = statistics.median(x / y for x, y in zip(values, measured["regard"], strict=True))
        rate = options.batch * options.length if options.mode != "speak" else options.length
        median = statistics.median(values)
        row = (
            options.mode,
            options.attention,
            options.frames,
            name,
            f"{median:.3f}",
            f"{rate / median:.0f}",
            f"{ratio:.2f}",
        )
        print("|", " | ".join(map(str, row)), "|", flush=True)


if __name__ == "__main__":
    main()
