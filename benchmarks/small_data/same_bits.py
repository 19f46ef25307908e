"""Whether two checkouts train the small-data presets to the same bits: `python same_bits.py OLD NEW FOLDER`.

Each preset is trained for 30 steps on 300 made pairs, by the code of both checkouts. Compared are all weights, the
metrics without times, and all keys of the resolved configuration that the old checkout has.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import torch
import yaml
from safetensors.torch import load_file

PRESETS = ("autoencoder", "g2p", "inflection", "no-attention", "text-to-text", "translation-rnn", "transliteration")
STEPS = ("training.max_steps=30", "training.validate_every=15", "training.device=cpu", "training.threads=1")


def write(path: Path, preset: str) -> None:
    """Pairs of the kind that the preset reads."""
    random, lines = Random(1), []
    for _ in range(300):
        words = ["".join(random.choices("abcdefghij", k=random.randint(2, 7))) for _ in range(5)]
        turned = " ".join(word[::-1] for word in words)
        lines.append(
            {
                "autoencoder": words[0],
                "g2p": f"{words[0]}\t{' '.join(words[0].upper())}",
                "inflection": f"{words[0]}\t{words[0]}en\tV;{random.choice(['PST', 'PRS'])}",
                "translation-rnn": f"{' '.join(words)}\t{turned}",
            }.get(preset, f"{words[0]}\t{words[0][::-1]}")
        )
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def trained(checkout: Path, preset: str, data: Path, folder: Path) -> Path:
    """The run folder of a training by the code of a checkout."""
    command = [sys.executable, "-m", "regard", "train", "--preset", preset, "--output", str(folder)]
    for setting in (f"data.train={data}", *STEPS):
        command += ["--set", setting]
    environment = {**os.environ, "PYTHONPATH": str(checkout.resolve() / "src"), "OMP_NUM_THREADS": "1"}
    subprocess.run(command, env=environment, check=True, capture_output=True, cwd=folder.parent)
    return folder


def differences(old: Path, new: Path) -> list[str]:
    """What differs between two run folders."""
    weights, others = (load_file(run / "model.safetensors") for run in (old, new))
    found = [name for name in weights.keys() | others.keys() if not _equal(weights.get(name), others.get(name))]
    if _metrics(old) != _metrics(new):
        found.append("metrics.jsonl")
    before, after = (yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8")) for run in (old, new))
    return found + [key for key in _leaves(before) if _leaves(before)[key] != _leaves(after).get(key)]


def _equal(left: Any, right: Any) -> bool:
    return left is not None and right is not None and torch.equal(left, right)


def _metrics(run: Path) -> list[dict[str, Any]]:
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return [{key: value for key, value in json.loads(line).items() if key != "timing"} for line in lines]


def _leaves(values: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(values, dict):
        return {path: values}
    return {name: leaf for key, value in values.items() for name, leaf in _leaves(value, f"{path}.{key}").items()}


def main(old: Path, new: Path, folder: Path) -> int:
    folder.mkdir(parents=True)
    total = 0
    for preset in PRESETS:
        data = folder.resolve() / f"{preset}.tsv"
        write(data, preset)
        runs = [
            trained(code, preset, data, folder.resolve() / f"{preset}-{name}")
            for code, name in ((old, "old"), (new, "new"))
        ]
        found = differences(*runs)
        total += len(found)
        print(
            f"{preset:16}",
            "the same bits" if not found else f"{len(found)} differences: {', '.join(found[:5])}",
            flush=True,
        )
    return bool(total)


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
