"""Golden of NVIDIA's Tacotron 2.

Program: NVIDIA/tacotron2 at commit 185cd24, `model.Tacotron2`, on torch 2.13.0 (CPU).

    git clone https://github.com/NVIDIA/tacotron2 && git -C tacotron2 checkout 185cd24
    python3.11 -m venv peers
    peers/bin/pip install torch==2.13.0 numpy
    OMP_NUM_THREADS=1 peers/bin/python tests/golden/nvidia_tacotron2/make_tacotron.py tacotron2

Its modules of audio and text are not needed and stand empty; masks of lengths are made here: its own are on a GPU.
"""

from __future__ import annotations

import sys
import types
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from speech import BATCH, FEATURES, SOURCE, STEPS, SYMBOLS, joined, record_speech

HPARAMS = {
    "mask_padding": True,
    "fp16_run": False,
    "n_mel_channels": FEATURES,
    "n_frames_per_step": 1,
    "n_symbols": SYMBOLS,
    "symbols_embedding_dim": 6,
    "encoder_kernel_size": 5,
    "encoder_n_convolutions": 3,
    "encoder_embedding_dim": 6,
    "attention_rnn_dim": 7,
    "attention_dim": 4,
    "attention_location_n_filters": 3,
    "attention_location_kernel_size": 3,
    "decoder_rnn_dim": 7,
    "prenet_dim": 5,
    "max_decoder_steps": STEPS,
    "gate_threshold": 2.0,
    "p_attention_dropout": 0.1,
    "p_decoder_dropout": 0.1,
    "postnet_embedding_dim": 5,
    "postnet_kernel_size": 5,
    "postnet_n_convolutions": 5,
}


class Empty(types.ModuleType):
    """A module in which every name is None."""

    def __getattr__(self, name: str) -> None:
        return None


def names(mel, refined, stop, alignment):
    return {
        "frames": mel.transpose(1, 2),
        "refined": refined.transpose(1, 2),
        "stop": stop.view(len(mel), -1, 1),
        "alignment": alignment[:, None],
    }


def run(model, ids, frames):
    lengths = torch.full((BATCH,), SOURCE)
    forced = model((ids, lengths, frames.transpose(1, 2), SOURCE, torch.full((BATCH,), STEPS)))
    return names(*forced) | joined([names(*model.inference(one[None])) for one in ids])


def main() -> None:
    for name in ("librosa", "librosa.filters", "audio_processing", "stft", "utils"):
        sys.modules[name] = Empty(name)
    sys.modules["utils"].get_mask_from_lengths = lambda lengths: torch.arange(int(lengths.max())) < lengths[:, None]
    sys.path.insert(0, sys.argv[1])
    from model import Tacotron2

    record_speech("nvidia_tacotron2/tacotron2", lambda: Tacotron2(types.SimpleNamespace(**HPARAMS)), run)


if __name__ == "__main__":
    main()
