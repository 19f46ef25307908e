"""Goldens of ESPnet's Tacotron 2, with one frame and with two frames in a step.

Program: espnet 202511, `espnet.nets.pytorch_backend.tacotron2` with `AttLoc`, put together as `espnet2.tts.tacotron2`
does, on torch 2.13.0 (CPU).

    python3.11 -m venv peers
    peers/bin/pip install torch==2.13.0 numpy
    peers/bin/pip install --no-deps espnet==202511
    OMP_NUM_THREADS=1 peers/bin/python tests/golden/espnet/make_tacotron.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from espnet.nets.pytorch_backend.rnn.attentions import AttLoc
from espnet.nets.pytorch_backend.tacotron2.decoder import Decoder
from espnet.nets.pytorch_backend.tacotron2.encoder import Encoder
from speech import BATCH, FEATURES, SOURCE, STEPS, SYMBOLS, joined, record_speech


class Tacotron2(torch.nn.Module):
    """Encoder and decoder."""

    def __init__(self, num_frames):
        super().__init__()
        self.enc = Encoder(SYMBOLS, embed_dim=5, eunits=6, econv_chans=6, econv_filts=5)
        self.dec = Decoder(
            6,
            FEATURES,
            AttLoc(6, 7, 4, 3, 1),
            dunits=7,
            prenet_units=5,
            postnet_chans=5,
            reduction_factor=num_frames,
        )


def names(num_frames, refined, stop, alignment, frames=None):
    kept = {
        "refined": refined,
        "stop": stop.view(len(refined), STEPS, num_frames),
        "alignment": alignment[:, None],
    }
    return kept if frames is None else kept | {"frames": frames}


def of(num_frames):
    def run(model, ids, frames):
        hidden, lengths = model.enc(ids, torch.full((BATCH,), SOURCE))
        refined, before, stop, alignment = model.dec(hidden, lengths, frames)
        free = []
        for one in ids:
            alone = model.enc.inference(one)
            said, probabilities, weights = model.dec.inference(
                alone, threshold=2.0, maxlenratio=(STEPS * num_frames + 0.5) / SOURCE
            )
            free.append(names(num_frames, said[None], probabilities.logit()[None], weights[None]))
        return names(num_frames, refined, stop, alignment, before) | joined(free)

    return run


def main() -> None:
    record_speech("espnet/tacotron2", lambda: Tacotron2(1), of(1))
    record_speech("espnet/tacotron2_two_frames", lambda: Tacotron2(2), of(2), 2)


if __name__ == "__main__":
    main()
