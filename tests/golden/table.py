"""Prints the table of README.md: `python tests/golden/table.py`."""

from __future__ import annotations

import numpy as np
from record import FOLDER, PRECISIONS, deviation

VERSIONS = {
    "bshall_tacotron": "bshall/Tacotron 6fee34a",
    "coqui": "coqui-tts 0.28.0",
    "entmax": "entmax 1.3",
    "espnet": "espnet 202511",
    "front_ends/bshall": "bshall/Tacotron 6fee34a",
    "front_ends/coqui": "coqui-tts 0.28.0",
    "front_ends/coqui-ln": "coqui-tts 0.28.0",
    "front_ends/espnet": "espnet 202511",
    "front_ends/hifi-gan": "jik876/hifi-gan 4769534",
    "front_ends/keithito": "keithito/tacotron d26c763",
    "front_ends/nvidia": "NVIDIA/tacotron2 185cd24",
    "front_ends/rayhane": "Rayhane-mamah/Tacotron-2 ab5cb08",
    "front_ends/regard": "librosa 0.11.0",
    "front_ends/speechbrain": "speechbrain 1.1.2",
    "hifi_gan": "jik876/hifi-gan 4769534",
    "ibm_seq2seq": "IBM/pytorch-seq2seq f146087",
    "joeynmt": "joeynmt 2.3.0",
    "keras": "keras 3.15.1",
    "leonius_chen": "LeoniusChen/Attentions-in-Tacotron 8215012",
    "neural_sp": "hirofumi0810/neural_sp b91877c",
    "nvidia_tacotron2": "NVIDIA/tacotron2 185cd24",
    "opennmt": "OpenNMT-py 3.5.1",
    "speechbrain": "speechbrain 1.1.2",
    "tensorflow_addons": "tensorflow-addons 0.23.0",
    "torch_nn": "torch 2.13.0",
    "transformers": "transformers 4.57.1",
    "x_transformers": "x-transformers 2.31.10",
    "zhang_forward": "jxzhanggg/nonparaSeq2seqVC_code 4c03a6b",
}


def differences(path) -> list[str]:
    """How far float32 is from float64, relative to the largest number: outputs, gradients."""
    with np.load(path) as kept:
        found = []
        for group in ("output", "gradient"):
            names = [name.split("/", 2)[2] for name in kept.files if name.startswith(f"float64/{group}/")]
            kind = {p: {name: kept[f"{p}/{group}/{name}"] for name in names} for p in PRECISIONS}
            size = max((np.abs(value).max(initial=0) for value in kind["float64"].values()), default=0)
            worst = max((deviation(kind, name) for name in names), default=None)
            found.append("none" if worst is None else f"{worst / max(size, 1):.0e}")
        return found


def main() -> None:
    print("| Original | Mechanism | Outputs | Gradients |\n|---|---|---|---|")
    for path in sorted(FOLDER.glob("**/*.npz")):
        name = path.relative_to(FOLDER).with_suffix("").as_posix()
        original = VERSIONS.get(name) or VERSIONS[name.partition("/")[0]]
        print(f"| {original} | `{name}` | {' | '.join(differences(path))} |")


if __name__ == "__main__":
    main()
