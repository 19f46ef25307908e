"""`torchrun -m regard`, as it is written in the documentation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFIG = """\
data:
  train: pairs.tsv
  dev_fraction: 0.2
  source: {units: whitespace}
  target: {units: whitespace}
model:
  encoder: {size: 4, embedding_size: 4}
  decoder: {size: 4, embedding_size: 4}
training: {epochs: 1, batch_tokens: 200, warmup_steps: 0, validate_every: 2, max_steps: 2, samples: 0, device: cpu}
decoding: {beam: 1, max_length: 4}
"""
LINES = 4500


def torchrun(folder, *arguments):
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    return subprocess.run(
        [sys.executable, *launcher, "-m", "regard", *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("torchrun")
    pairs = [f"{n % 7} {n % 5} {n % 3}\t{n % 3} {n % 5}\n" for n in range(105)]
    (made / "pairs.tsv").write_text("".join(pairs))
    (made / "small.yaml").write_text(CONFIG)
    (made / "many.txt").write_text("".join(f"{n % 7} {n % 5} {n % 4}\n" for n in range(LINES)))
    return made


@pytest.fixture(scope="module")
def trained(folder):
    done = torchrun(folder, "train", "small.yaml")
    assert done.returncode == 0, done.stderr
    return done


def test_two_processes_train_into_one_folder_and_speak_once(folder, trained):
    assert trained.stderr.count("validation  step 2") == 1
    lines = (folder / "runs" / "small" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["kind"] for line in lines].count("validation") == 1
    assert (folder / "runs" / "small" / "model.safetensors").exists()


def test_two_processes_predict_a_file_in_its_order(folder, trained):
    from regard.cli import run

    done = torchrun(folder, "predict", "--model", "runs/small", "-i", "many.txt", "-o", "two.tsv")
    assert done.returncode == 0, done.stderr
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert run(["predict", "--model", "runs/small", "-i", "many.txt", "-o", "one.tsv"]) == 0
    two = Path(folder / "two.tsv").read_text()
    assert two.count("\n") == LINES
    assert two == (folder / "one.tsv").read_text()


def test_a_mistake_is_explained_once(folder, trained):
    (folder / "other.yaml").write_text(CONFIG.replace("size: 4", "size: 5"))
    done = torchrun(folder, "train", "other.yaml", "--output", "runs/small")
    assert done.returncode != 0
    assert done.stderr.count("holds a run") == 1
