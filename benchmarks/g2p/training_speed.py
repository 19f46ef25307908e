"""Steps of the recipe of g2p-en, turn by turn with another version of regard.

    git worktree add ../regard-before bf59423
    python benchmarks/g2p/training_speed.py train.tsv dev.tsv --before ../regard-before

Every program makes the same batches in the trainer's own step, and has its turn while the rest wait.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median

HERE = Path(__file__).resolve()
STEPS = 10


def serve(train: str, dev: str, precision: str) -> None:
    """Builds the model; then every line on stdin is answered with the seconds of a step."""
    import torch

    from regard.config import load
    from regard.runs import training
    from regard.tasks.text_to_text.model import TextToText
    from regard.tasks.text_to_text.trainee import PairTrainee
    from regard.training.step import Stepper

    try:  # versions that draw dropout by item ask which items a batch has
        from regard.training.accumulation import LocalBatch

        def described(batch: dict[str, torch.Tensor]) -> object:
            return LocalBatch(range(len(batch["source"])))
    except ImportError:

        def described(batch: dict[str, torch.Tensor]) -> object:
            return "drawn"

    told = [f"data.train={train}", f"data.dev={dev}", f"training.precision={precision}"]
    config = load(HERE.with_name("g2p-en.yaml"), told).config
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    try:  # what `regard train` does first, where this version does it
        from regard.training.allocator import keep_memory

        keep_memory()
    except ImportError:
        pass
    data = training.read_data(config.data)
    parts = data if isinstance(data, tuple) else (data.train, data.dev, data.source, data.target)  # as versions have it
    train_pairs, dev_pairs, source, target = parts
    torch.manual_seed(1)
    model = TextToText.build(config, source, target, name="speed")
    trainee = PairTrainee(model, train_pairs, dev_pairs)
    model.module.train()
    batches = [trainee.batch(indices) for indices in trainee.descriptions(0)[: 4 * STEPS]]
    stepper, generator = Stepper(trainee, config.training, torch.device("cpu")), torch.Generator()

    def run(first: int) -> float:
        start = time.perf_counter()
        for step in range(first, first + STEPS):
            batch = batches[step % len(batches)]
            stepper(
                [(described(batch), batch)],
                step=step,
                learning_rate=config.training.learning_rate,
                generator=generator,
            )
        return (time.perf_counter() - start) / STEPS

    run(0)
    print(sum(int(batch["mask"].sum()) for batch in batches) / len(batches), flush=True)
    for turn, _ in enumerate(sys.stdin):
        print(run(STEPS * turn), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("train")
    parser.add_argument("dev")
    parser.add_argument("--before", type=Path, help="another checkout")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--serve", metavar="PRECISION", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.train, options.dev, options.serve)
        return
    here = HERE.parents[2] / "src"
    wanted = [("now", here, "float32"), ("now", here, "bfloat16")]
    if options.before:
        wanted.insert(0, ("before", options.before.resolve() / "src", "float32"))
    programs = []
    for _, folder, precision in wanted:
        environment = {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": str(options.threads)}
        command = [sys.executable, str(HERE), options.train, options.dev, "--serve", precision]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        programs.append(subprocess.Popen(command, env=environment, text=True, **pipes))
    symbols = [float(program.stdout.readline()) for program in programs]
    times: list[list[float]] = [[] for _ in programs]
    for _ in range(options.turns):
        for program, seconds in zip(programs, times, strict=True):
            program.stdin.write("\n")
            program.stdin.flush()
            seconds.append(float(program.stdout.readline()))
    for program in programs:
        program.stdin.close()
        program.wait()
    print("| version | precision | ms a step | target symbols a second | times as fast as the first |")
    print("| --- | --- | --- | --- | --- |")
    for (version, _, precision), seconds, count in zip(wanted, times, symbols, strict=True):
        faster = median(first / own for first, own in zip(times[0], seconds, strict=True))
        own = median(seconds)
        print(f"| {version} | {precision} | {1000 * own:.0f} | {count / own:,.0f} | {faster:.2f} |")


if __name__ == "__main__":
    main()
