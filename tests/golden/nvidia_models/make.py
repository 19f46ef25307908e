"""A tiny Tacotron 2 of NVIDIA's with random weights, saved as it saves, with what it says.

Program: NVIDIA/tacotron2 at commit 185cd24, on torch 2.13.0 (CPU), through `nvidia_peer.py` of benchmarks/conversion.

git clone https://github.com/NVIDIA/tacotron2 && git -C tacotron2 checkout 185cd24
python3.11 -m venv peers
peers/bin/pip install torch==2.13.0 numpy safetensors
OMP_NUM_THREADS=1 peers/bin/python tests/golden/nvidia_models/make.py tacotron2
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from safetensors.torch import load_file

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks" / "conversion"))
import nvidia_peer

HERE = Path(__file__).parent
SIZES = {
    "symbols_embedding_dim": 6, "encoder_embedding_dim": 6, "encoder_n_convolutions": 2, "attention_rnn_dim": 7,
    "decoder_rnn_dim": 7, "attention_dim": 4, "attention_location_n_filters": 3, "attention_location_kernel_size": 3,
    "prenet_dim": 5, "postnet_embedding_dim": 4, "postnet_n_convolutions": 5,
}  # fmt: skip
STEPS = 8

if __name__ == "__main__":
    nvidia_peer.RUN["max_decoder_steps"] = nvidia_peer.STEPS = STEPS
    nvidia_peer.run(sys.argv[1], HERE, SIZES, ("is it so?", "yes"))
    said = {name: values.tolist() for name, values in load_file(HERE / "said.safetensors").items()}
    rounded = {
        name: json.loads(json.dumps(values), parse_float=lambda x: round(float(x), 6)) for name, values in said.items()
    }
    text = ",\n".join(f"{json.dumps(name)}: {json.dumps(values)}" for name, values in sorted(rounded.items()))
    (HERE / "said.json").write_text(f"{{\n{text}\n}}\n", encoding="utf-8")
    (HERE / "said.safetensors").unlink()
