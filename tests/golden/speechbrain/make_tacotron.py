"""Golden of SpeechBrain's Tacotron 2.

Program: speechbrain 1.1.2, `lobes/models/Tacotron2.py`, on torch 2.13.0 (CPU). The file is loaded beside the two names
that it imports, since the package wants an audio stack.

    python3.11 -m venv peers
    peers/bin/pip install torch==2.13.0 numpy
    peers/bin/pip install --no-deps speechbrain==1.1.2
    OMP_NUM_THREADS=1 peers/bin/python tests/golden/speechbrain/make_tacotron.py
"""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from speech import BATCH, FEATURES, SOURCE, STEPS, SYMBOLS, joined, record_speech

SIZES = {
    "mask_padding": True,
    "n_mel_channels": FEATURES,
    "n_symbols": SYMBOLS,
    "symbols_embedding_dim": 6,
    "encoder_kernel_size": 5,
    "encoder_n_convolutions": 3,
    "encoder_embedding_dim": 6,
    "attention_rnn_dim": 7,
    "attention_dim": 4,
    "attention_location_n_filters": 3,
    "attention_location_kernel_size": 3,
    "n_frames_per_step": 1,
    "decoder_rnn_dim": 7,
    "prenet_dim": 5,
    "max_decoder_steps": STEPS,
    "gate_threshold": 2.0,
    "p_attention_dropout": 0.1,
    "p_decoder_dropout": 0.1,
    "postnet_embedding_dim": 5,
    "postnet_kernel_size": 5,
    "postnet_n_convolutions": 5,
    "decoder_no_early_stopping": True,
}


def padding(lengths, max_len=None):
    return torch.arange(int(lengths.max() if max_len is None else max_len)) >= lengths[:, None]


def tacotron_file():
    """`speechbrain.lobes.models.Tacotron2` beside the names that it imports."""
    (root,) = importlib.util.find_spec("speechbrain").submodule_search_locations
    given = {
        "speechbrain.lobes.models.transformer.Transformer": {"get_mask_from_lengths": padding},
        "speechbrain.nnet.loss.guidedattn_loss": {"GuidedAttentionLoss": None},
    }
    for name in given:
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            sys.modules[".".join(parts[:end])] = types.ModuleType(parts[end - 1])
        vars(sys.modules[name]).update(given[name])
    spec = importlib.util.spec_from_file_location("tacotron2", Path(root, "lobes/models/Tacotron2.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(model, ids, frames):
    lengths = torch.full((BATCH,), SOURCE)
    mel, refined, stop, alignment = model((ids, lengths, frames.transpose(1, 2), SOURCE, torch.full((BATCH,), STEPS)))
    free = []
    for one in ids:
        said, _, weights = model.infer(one[None], lengths[:1])
        free.append({"refined": said.transpose(1, 2), "alignment": weights.reshape(1, 1, STEPS, SOURCE)})
    return {
        "frames": mel.transpose(1, 2),
        "refined": refined.transpose(1, 2),
        "stop": stop.view(BATCH, STEPS, 1),
        "alignment": alignment[:, None],
    } | joined(free)


def main() -> None:
    kinds = tacotron_file()
    record_speech("speechbrain/tacotron2", lambda: kinds.Tacotron2(**SIZES), run)


if __name__ == "__main__":
    main()
