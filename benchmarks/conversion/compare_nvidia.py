"""Converts a Tacotron 2 of NVIDIA/tacotron2 with random weights of the published sizes, and compares what both say.

    git clone https://github.com/NVIDIA/tacotron2 && git -C tacotron2 checkout 185cd24
    python benchmarks/conversion/compare_nvidia.py tacotron2 --folder FOLDER

Frames, refined frames, logits of stopping and alignments, teacher-forced and free, of five texts; the largest
differences have to be below 1e-4. Dropout is off on both sides.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

import torch
from nvidia_peer import STEPS, TEXTS
from safetensors.torch import load_file
from torch import Tensor

from regard import load
from regard.decoding import free_run
from regard.interop import convert

TOLERANCE = 1e-4


@torch.no_grad()
def said(tacotron: torch.nn.Module, ids: Tensor, frames: Tensor) -> dict[str, Tensor]:
    """What our model says of a text, by the names of the other program's."""
    forced = tacotron(ids[None], frames[None], num_frames=1)
    memory = tacotron.decoder.prepare(tacotron.encode(ids[None]))
    (free,) = free_run(
        tacotron.decoder, memory, tacotron.decoder.first_inputs(memory, 1), max_length=STEPS, alignment=True
    )
    values = free.values.reshape(-1, frames.shape[1])
    return {
        "forced.frames": forced.frames[0],
        "forced.refined": forced.refined["mel"][0],
        "forced.stop": forced.stop[0].flatten(),
        "forced.alignment": forced.alignments["attention"][0].mean(0),
        "free.frames": values,
        "free.refined": tacotron.refine(values[None])["mel"][0],
        "free.stop": free.auxiliary["stop"].flatten(),
        "free.alignment": free.alignments["attention"].mean(0),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("repository", type=Path, help="a clone of NVIDIA/tacotron2")
    parser.add_argument("--folder", type=Path, required=True, help="where the models are written")
    parser.add_argument("--python", default=sys.executable, help="an interpreter with torch and safetensors")
    arguments = parser.parse_args()
    peer = Path(__file__).with_name("nvidia_peer.py")
    subprocess.run([arguments.python, peer, arguments.repository, arguments.folder], check=True)
    convert("nvidia", arguments.folder / "checkpoint.pt", arguments.folder / "converted", overwrite=True)
    model = load(arguments.folder / "converted", device="cpu")
    tacotron = model.module.tacotron
    tacotron.decoder.prenet.dropout.p = 0.0
    theirs = load_file(arguments.folder / "said.safetensors")
    worst: dict[str, float] = {}
    for number, text in enumerate(TEXTS):
        ids = torch.from_numpy(model.field.encode(text).ids)
        assert len(ids) == len(theirs[f"{number}.ids"]), text
        for name, ours in said(tacotron, ids, theirs[f"{number}.frames"]).items():
            difference = float((ours - theirs[f"{number}.{name}"]).abs().max())
            worst[name] = max(worst.get(name, 0.0), difference)
    for name, difference in worst.items():
        print(f"{name:20} {difference:.1e}")
    failed = [name for name, difference in worst.items() if not difference < TOLERANCE]
    sys.exit(f"above {TOLERANCE}: {', '.join(failed)}" if failed else 0)


if __name__ == "__main__":
    main()
