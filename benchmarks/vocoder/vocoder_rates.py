"""How fast a vocoder is on a CPU: whole and in parts of several sizes, turn by turn.

    regard data vocoder hifi-gan/
    python benchmarks/vocoder/vocoder_rates.py hifi-gan/ --seconds 2 --threads 1 2

Prints the computing time for a second of sound, summed over threads, and the largest difference of samples.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch
from torch import Tensor

from regard.audio.vocoder import GENERATORS, Generator, MelForm, Vocoder, load_vocoder


def main() -> None:
    arguments = parse()
    torch.manual_seed(0)
    if arguments.vocoder in GENERATORS:
        vocoder = Vocoder(Generator(GENERATORS[arguments.vocoder]), MelForm())
    else:
        vocoder = load_vocoder(arguments.vocoder)
    length = round(arguments.seconds * vocoder.mel.frame_rate)
    mels = 1.5 * torch.randn(1, length, vocoder.mel.num_mels) - 4
    ways: dict[str, Callable[[], Tensor]] = {"whole": lambda: vocoder.generator(mels)}
    ways |= {f"parts of {chunk}": lambda chunk=chunk: vocoder(mels, chunk=chunk) for chunk in arguments.chunks}
    for threads in arguments.threads:
        torch.set_num_threads(threads)
        print(f"{threads} threads, {length} frames")
        compare(ways, arguments.rounds, length / vocoder.mel.frame_rate)


def compare(ways: dict[str, Callable[[], Tensor]], rounds: int, seconds: float) -> None:
    """Prints the least time of each way, and how far its samples are from those of the first."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    samples: dict[str, Tensor] = {}
    with torch.no_grad():
        for turn in range(rounds + 1):
            for name, way in ways.items():
                start = time.process_time(), time.perf_counter()
                samples[name] = way()
                if turn:
                    taken[name].append((time.process_time() - start[0], time.perf_counter() - start[1]))
    first = next(iter(ways))
    fastest = min(cpu for cpu, _ in taken[first])
    for name, times in taken.items():
        cpu, wall = (min(column) for column in zip(*times, strict=True))
        away = float((samples[name] - samples[first]).abs().max())
        print(
            f"  {name:14} {cpu / seconds:.3f} CPU s, {wall / seconds:.3f} s for a second of sound; "
            f"{fastest / cpu:.2f} x; differs by {away:.1e}"
        )


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vocoder", help="a folder, or v1, v2, v3: random weights")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--chunks", type=int, nargs="+", default=[64, 128, 256])
    return parser.parse_args()


if __name__ == "__main__":
    main()
