"""What a second of sound costs from a text: decoder, Griffin-Lim, vocoder; and `regard predict` from a text to a WAV.

    OMP_NUM_THREADS=1 python benchmarks/speech/real_time.py RUN TEXT [--vocoder FOLDER] [--rounds 5]

RUN is a trained model, and TEXT what it reads: phones with blanks between them for a model of phones. All are CPU
seconds (`time.process_time`) for a second of sound on one thread, the least of the rounds: the text once, and eight
times at once. The vocoder gets the spectrogram of the made sound in its own form. The command is `regard predict
--files`, with the start of Python: user and system seconds of the process.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch

import regard
from regard.audio import FRONT_ENDS, resample
from regard.audio.vocoder import load_vocoder

SENTENCES = (1, 8)


def least(job: Callable[[], Any], rounds: int) -> tuple[Any, float]:
    """The result, and the least CPU seconds of the rounds; the first one, which loads kernels, does not count."""
    result, seconds = job(), []
    for _ in range(rounds):
        begin = time.process_time()
        result = job()
        seconds.append(time.process_time() - begin)
    return result, min(seconds)


def command(run: str, text: str) -> float:
    """The CPU seconds of `regard predict`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        argv = [sys.executable, "-m", "regard", "predict", "--model", run, text, "--files", folder]
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Prints a line for each part."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("text")
    parser.add_argument("--vocoder")
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = regard.load(options.run)
    griffin_lim = model.synthesis()
    seconds = 0.0
    for count in SENTENCES:
        said, decoder = least(lambda count=count: model.predict([options.text] * count, sound=False), options.rounds)
        sounds, lim = least(
            lambda said=said: griffin_lim([speech.mel for speech in said], [speech.linear for speech in said]),
            options.rounds,
        )
        seconds = sum(speech.seconds for speech in said)
        print(f"{count} x {said[0].seconds:.2f} s, r {said[0].num_frames}")
        print(f"  encoder, decoder and postnet  {decoder / seconds:.4f}")
        print(f"  Griffin-Lim                   {lim / seconds:.4f}")
    if options.vocoder is not None:
        vocoder, front_end = load_vocoder(options.vocoder), FRONT_ENDS["regard-22k"]
        mel = front_end.mel(resample(sounds[0], model.front_end.sample_rate, front_end.sample_rate))[None]
        samples, cost = least(lambda: vocoder(mel), min(options.rounds, 2))
        print(f"  vocoder                       {cost / (samples.shape[-1] / front_end.sample_rate):.4f}")
    costs = sorted(command(options.run, options.text) for _ in range(options.rounds))
    between = f"from {costs[0]:.2f} to {costs[-1]:.2f}"
    print(f"regard predict, start included: {statistics.median(costs):.2f} CPU s ({between})")


if __name__ == "__main__":
    main()
