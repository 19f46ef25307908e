"""Kills trainings and predictions at random moments and checks that nothing is lost.

python benchmarks/kills/kill.py [--kills 20] [--prediction-kills 10] [--seed N] [--folder FOLDER]

Two configurations, A and B, are trained without a kill, A also by two processes. Then, in other folders and with
SIGKILL at random moments:

1. A is trained until it has ended: killed while it steps, validates, publishes and saves.
2. A finished run of A is replaced by B with --overwrite, and B is continued until it has ended.
3. A is trained by two processes, one of which, now the first and now the second, is killed.
4. The model of A predicts, killed and continued with --resume until the output is complete, in each format.

After every kill a model loads, from the run's folder or from the one that the error names, unless there was none
before; in (2) it is A's or B's. In (3) the other process ends as well. In (4) the output has the bytes of that of a
prediction without a kill, with the same exit status and the same counts. In the end the files are, byte for byte, those
of the trainings without a kill, and the user's own files that lie in the folder are as they were.

Half of the kills come when the process is about to change the disk for the nth time (`os.replace`, `unlink`, `link`,
`rmdir`, `mkdir`, `fsync`), the others at a random time after the first such change.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CONFIG = """\
data: {train: train.tsv, dev: dev.tsv, source: {units: whitespace}, target: {units: whitespace}}
model:
  encoder: {cell: gru, size: 16, embedding_size: 8}
  decoder: {cell: gru, size: 16, embedding_size: 8, input_feeding: false}
  attention: {recipe: luong}
training:
  epochs: 3
  batch_tokens: 256
  learning_rate: 0.01
  validate_every: 5
  log_every: 1
  save_every_minutes: 0.002
  average_checkpoints: 2
  scheduled_sampling: 0.2
  threads: 1
  samples: 1
  device: cpu
decoding: {beam: 2}
"""
SAME = ("model.safetensors", "config.yaml", "source.json", "target.json", "data.json")
USERS = {"train.jsonl": "mine", "notes.json": "{}", "pictures/me.png": "me"}
CHANGES = ("replace", "unlink", "link", "rmdir", "mkdir", "fsync", "ftruncate")
SUFFIXES = ("tsv", "csv", "jsonl", "txt", "parquet")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20, help="of trainings, in all")
    parser.add_argument("--prediction-kills", type=int, default=10, help="of predictions, in each format")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(10**6), help="of the moments")
    parser.add_argument("--folder", type=Path, help="to work in; a temporary one if not given")
    parser.add_argument("--child", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        train_and_die(options.child)
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        result = measure(folder.resolve(), options.kills, options.prediction_kills, random.Random(options.seed))
    print(json.dumps({"seed": options.seed, **result}, indent=1))


def measure(folder: Path, kills: int, prediction_kills: int, draw: random.Random) -> dict[str, Any]:
    """The four trials; raises AssertionError where something is lost."""
    from regard.data.text import synthetic

    synthetic.write(folder / "train.tsv", synthetic.generate("reverse", 200, max_length=5, num_symbols=6, seed=1))
    synthetic.write(folder / "dev.tsv", synthetic.generate("reverse", 20, max_length=5, num_symbols=6, seed=2))
    (folder / "a.yaml").write_text(CONFIG)
    (folder / "b.yaml").write_text(CONFIG.replace("learning_rate: 0.01", "learning_rate: 0.02"))
    train(folder, "a.yaml", "whole-a")
    predictions = {suffix: predict(folder, suffix, prediction_kills, draw) for suffix in SUFFIXES}
    if not kills:
        return {"predictions": predictions}
    train(folder, "b.yaml", "whole-b")
    train(folder, "a.yaml", "whole-a-2", processes=2)
    third = kills // 3
    trainings = trial(folder, "a", third, draw, folder / "whole-a")
    replacements = trial(folder, "b", kills - 2 * third, draw, folder / "whole-b", replaced=folder / "whole-a")
    pairs = trial(folder, "a", third, draw, folder / "whole-a-2", processes=2)
    counts = {"kills": kills, "trainings": trainings, "replacements": replacements, "two processes": pairs}
    return {**counts, "predictions": predictions}


def trial(
    folder: Path,
    name: str,
    kills: int,
    draw: random.Random,
    whole: Path,
    *,
    replaced: Path | None = None,
    processes: int = 1,
) -> dict[str, int]:
    """Kills a training until enough kills are made, beginning again when one ends too soon.

    Args:
        whole: the same training without a kill.
        replaced: a finished run that lies where this one is to be.
    """
    made = completed = loaded = 0
    from_replaced = 0
    while made < kills:
        run = folder / f"killed-{name}-{processes}"
        shutil.rmtree(run, ignore_errors=True)
        if replaced is not None:
            shutil.copytree(replaced, run)
            add_users_files(run)
        begun = replaced is None
        had_model = replaced is not None
        while True:
            moment = draw.choice([str(draw.randint(1, 400)), f"{draw.uniform(0.0, 3.0):.3f}s"]) if made < kills else "0"
            flags = [] if begun else ["--overwrite"]
            victim = draw.randrange(processes)
            if victim and moment != "0":  # only the first one writes
                moment = f"{draw.uniform(0.0, 3.0):.3f}s"
            killed = not train(
                folder, f"{name}.yaml", run.name, *flags, moment=moment, processes=processes, victim=victim
            )
            made += killed
            begun = begun or ((run / "checkpoints/config.yaml").is_file() and is_of(run, whole))
            if (run / "run.json").exists() and not (run / "notes.json").exists():
                add_users_files(run)
            if killed:
                place = model_of(run)
                assert place is not None or not had_model, f"no model in {run}"
                had_model = had_model or place is not None
                loaded += place is not None
                from_replaced += place is not None and place.name == ".replaced"
            else:
                break
        completed += 1
        for file in SAME:
            assert (run / file).read_bytes() == (whole / file).read_bytes(), file
        assert metrics(run) == metrics(whole)
        assert not (run / ".replaced").exists()
        assert all((run / user).read_text() == text for user, text in USERS.items()), "the user's files"
    return {"kills": made, "loaded": loaded, "from .replaced": from_replaced, "ended with the same bytes": completed}


def predict(folder: Path, suffix: str, kills: int, draw: random.Random) -> dict[str, int]:
    """Kills a prediction until enough kills are made, beginning again when one ends too soon."""
    from regard.data.text import synthetic

    lines = [source for source, _ in synthetic.generate("reverse", 3000, max_length=5, num_symbols=6, seed=3)]
    lines[::500] = [" ".join("0" * 5000)] * len(lines[::500])  # which have no output
    (folder / "in.csv").write_text("word,nr\n" + "".join(f"{line},{i}\n" for i, line in enumerate(lines)))
    flags = [] if suffix == "txt" else ["--scores", "--confidence"]
    command = ["predict", "--model", "whole-a", "--input", "in.csv", "--num-best", "2", "--at-least", "0.3", *flags]
    output, made, resumed, completed = folder / f"out.{suffix}", 0, 0, 0
    expected, whole = run_child(folder, [*command, "--output", f"whole.{suffix}"])
    while made < kills:
        output.unlink(missing_ok=True)
        status = -signal.SIGKILL
        while status == -signal.SIGKILL:
            moment = draw.choice([str(draw.randint(1, 40)), f"{draw.uniform(0.0, 3.0):.3f}s"]) if made < kills else "0"
            begun = [path for path in folder.glob(f"{output.name}*") if path.suffix != ".jsonl" or path == output]
            resume = ["--resume"] if begun else []
            status, said = run_child(folder, [*command, "--output", output.name, *resume], moment)
            made += status == -signal.SIGKILL
            resumed += bool(resume)
        completed += 1
        assert status == expected == 1, said
        assert output.read_bytes() == (folder / f"whole.{suffix}").read_bytes(), output
        assert said.splitlines()[-2:] == whole.splitlines()[-2:]
        assert [path.name for path in folder.glob(f"{output.name}*")] == [output.name]
    return {"kills": made, "continued": resumed, "ended with the same bytes": completed}


def run_child(folder: Path, arguments: list[str], moment: str = "0") -> tuple[int, str]:
    """The status and stderr of a command in a copy of this process, which has imported torch, killed at a moment."""
    import torch

    import regard.tasks  # noqa: F401

    torch.set_num_threads(1)
    said = folder.parent / "said.txt"
    process = os.fork()
    if not process:
        os.chdir(folder)
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        os.environ |= {"KILL_FLAGS": "", "KILL_RANK": "0"}
        status = 2
        try:
            train_and_die([moment, *arguments])
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), said.read_text(encoding="utf-8")


def train(
    folder: Path, config: str, output: str, *flags: str, moment: str = "0", processes: int = 1, victim: int = 0
) -> bool:
    """One command; False if it was killed.

    Args:
        victim: the rank of the process that is killed.
    """
    command = [__file__, "--child", moment, "train", config, "--output", output]
    if processes > 1:
        command = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}", *command]
    environment = {**os.environ, "KILL_FLAGS": " ".join(flags), "KILL_RANK": str(victim), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    killed = done.returncode == -signal.SIGKILL if processes == 1 else "Signal 9 (SIGKILL)" in done.stderr
    assert killed or done.returncode == 0, done.stderr
    return not killed


def train_and_die(arguments: list[str]) -> None:
    """A command in this process, killed at the nth change of the disk or some time after the first."""
    moment, *command = arguments
    changes = itertools.count(1)

    def kill() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def kill_later() -> None:
        if moment.endswith("s"):
            threading.Thread(target=lambda: (time.sleep(float(moment[:-1])), kill()), daemon=True).start()

    def watch(function: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            number = next(changes)
            if number == 1:
                kill_later()
            if str(number) == moment:
                kill()
            return function(*args, **kwargs)

        return watched

    import torch  # what is imported late would count as changes of the disk

    import regard.tasks  # noqa: F401
    from regard.cli import run, unfinished

    unfinished.RECORD_EVERY = 0.1

    torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))])
    if os.environ.get("RANK", "0") == os.environ["KILL_RANK"]:
        for name in CHANGES if os.environ["KILL_RANK"] == "0" else ():  # others change nothing on the disk
            setattr(os, name, watch(getattr(os, name)))
        if os.environ["KILL_RANK"] != "0":
            kill_later()
    sys.exit(run([*command, *os.environ["KILL_FLAGS"].split()]))


def model_of(run: Path) -> Path | None:
    """The folder from which a model loads: the run's, or the one that the error names."""
    import regard
    from regard.errors import RegardError

    try:
        model = regard.load(run, device="cpu")
    except RegardError as error:
        named = re.search(r"\S+\.replaced", str(error))
        if named is None:
            return None
        run = Path(named[0].rstrip("."))
        model = regard.load(run, device="cpu")
    assert len(model.predict(["0 1 2"])) == 1
    return run


def add_users_files(run: Path) -> None:
    """Puts a user's files beside a run's."""
    for name, text in USERS.items():
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_text(text)


def is_of(run: Path, whole: Path) -> bool:
    """Whether a folder has the configuration of another."""
    return (run / "checkpoints/config.yaml").read_bytes() == (whole / "checkpoints/config.yaml").read_bytes()


def metrics(run: Path) -> list[dict[str, Any]]:
    """The log without what a clock says."""
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [{key: value for key, value in json.loads(line).items() if key != "timing"} for line in lines]


if __name__ == "__main__":
    main()
