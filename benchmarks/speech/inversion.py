"""Sound from spectrograms of real speech: how far it is from them, and what it costs on one thread.

    OMP_NUM_THREADS=1 python benchmarks/speech/inversion.py SOUND... [--front-end regard] [--seconds 30]

Of each file (WAV or FLAC) the spectrogram is made, turned into magnitudes and into sound by Griffin-Lim, and the
spectrogram of that is compared with the first. The distance is mel cepstral distortion without warping, as the frames
correspond: with the orthonormal cosine transform c of ln mel,

    MCD = 10 √2 / ln 10 · mean over frames of |c_1..13 - c'_1..13|     in dB

Costs are CPU seconds of the calling thread for a second of sound.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import torch
from torch import Tensor

from regard.audio import FRONT_ENDS, FrontEnd, griffin_lim, read_wave

Result = TypeVar("Result")
SETTINGS = ((30, 0.99), (60, 0.99), (30, 0.0), (100, 0.0))


def distortion(first: Tensor, second: Tensor) -> float:
    """The mel cepstral distortion of ln mel spectrograms (T, F), frame by frame."""
    frames = min(len(first), len(second))
    size = first.shape[1]
    orders, places = torch.arange(1, 14).double()[:, None], torch.arange(size).double() + 0.5
    cosines = torch.cos(math.pi / size * orders * places) * math.sqrt(2 / size)
    difference = (first[:frames] - second[:frames]).double() @ cosines.T
    return float(10 * math.sqrt(2) / math.log(10) * difference.norm(dim=1).mean())


def timed(job: Callable[[], Result]) -> tuple[Result, float]:
    """The result and the CPU seconds of this thread."""
    begin = time.thread_time()
    return job(), time.thread_time() - begin


def compare(sounds: list[Tensor], front_end: FrontEnd) -> list[str]:
    """A line of the table for each kind of magnitudes and each setting."""
    rows: dict[tuple[str, int, float], list[tuple[float, float, float]]] = {}
    for samples in sounds:
        seconds = len(samples) / front_end.sample_rate
        magnitudes = front_end.magnitudes(samples)
        mel = front_end.magnitudes_to_mel(magnitudes)
        kinds = {
            "true": lambda magnitudes=magnitudes: magnitudes,
            "least squares": lambda mel=mel: front_end.mel_to_magnitudes(mel),
            "pseudo-inverse": lambda mel=mel: front_end.mel_to_magnitudes(mel, "pseudo_inverse"),
        }
        for name, kind in kinds.items():
            found, inverting = timed(kind)
            for iterations, momentum in SETTINGS:
                sound, rebuilding = timed(
                    lambda f=found, i=iterations, m=momentum: griffin_lim(f, front_end, iterations=i, momentum=m)
                )
                row = distortion(front_end.mel(sound), mel), inverting / seconds, rebuilding / seconds
                rows.setdefault((name, iterations, momentum), []).append(row)
    lines = ["| magnitudes | iterations | momentum | MCD, dB | inverse | Griffin-Lim |", "|---|---|---|---|---|---|"]
    for (name, iterations, momentum), found in rows.items():
        far, inverse, rebuilding = (sum(column) / len(found) for column in zip(*found, strict=True))
        lines.append(f"| {name} | {iterations} | {momentum:g} | {far:.2f} | {inverse:.4f} | {rebuilding:.4f} |")
    return lines


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sounds", nargs="+", type=Path)
    parser.add_argument("--front-end", default="regard", choices=sorted(FRONT_ENDS))
    parser.add_argument("--seconds", type=float, default=30.0, help="how much sound is enough")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    front_end = FRONT_ENDS[arguments.front_end]
    sounds: list[Tensor] = []
    for path in arguments.sounds:
        if sum(map(len, sounds)) < arguments.seconds * front_end.sample_rate:
            sounds.append(read_wave(path, front_end.sample_rate)[0])
    griffin_lim(front_end.magnitudes(sounds[0]), front_end, iterations=1)
    front_end.mel_to_magnitudes(front_end.mel(sounds[0]))
    total = sum(map(len, sounds)) / front_end.sample_rate
    print(f"{len(sounds)} sounds, {total:.1f} s, front end {arguments.front_end}\n")
    print(*compare(sounds, front_end), sep="\n")


if __name__ == "__main__":
    main()
