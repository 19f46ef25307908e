"""Goldens of transformers' Marian model, tiny, with random weights.

Program: transformers 4.57.1 with torch 2.13.0 (CPU), `MarianMTModel`.

    python3.11 -m venv peers
    peers/bin/pip install torch==2.13.0 numpy transformers==4.57.1
    OMP_NUM_THREADS=1 peers/bin/python tests/golden/transformers/make.py
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import torch
from transformers import GenerationConfig, MarianConfig, MarianMTModel

sys.path.insert(0, str(Path(__file__).parents[1]))
from record import LENGTHS, PRECISIONS, draw, save

CONFIG = {
    "vocab_size": 13,
    "d_model": 8,
    "encoder_layers": 2,
    "decoder_layers": 3,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 10,
    "decoder_ffn_dim": 12,
    "activation_function": "swish",
    "scale_embedding": True,
    "max_position_embeddings": 32,
    "pad_token_id": 12,
    "eos_token_id": 0,
    "decoder_start_token_id": 12,
    "forced_eos_token_id": None,
    "dropout": 0.0,
}
STEPS, SPOKEN = 5, 6


def ids(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(1, CONFIG["pad_token_id"], shape)


def computed(name: str) -> bool:
    """Whether a weight is a copy of another, or follows from the sizes."""
    return "embed_" in name or name == "lm_head.weight"


def main() -> None:
    torch.manual_seed(0)
    model = MarianMTModel(MarianConfig(**CONFIG)).eval()
    model.generation_config.forced_eos_token_id = None
    kept = [name for name in model.state_dict() if not computed(name)]
    weights = {
        name: draw(100 + i, *model.state_dict()[name].shape, scale=0.5) + float(name.endswith("norm.weight"))
        for i, name in enumerate(kept)
    }
    inputs = {
        "source": ids(1, 3, 7),
        "lengths": LENGTHS,
        "target": np.concatenate([np.full((3, 1), CONFIG["decoder_start_token_id"]), ids(2, 3, STEPS - 1)], 1),
        "config": np.frombuffer(json.dumps(CONFIG).encode(), np.uint8),
    }
    source, target, lengths = (torch.from_numpy(inputs[name]) for name in ("source", "target", "lengths"))
    mask = (torch.arange(7) < lengths[:, None]).long()
    greedy = GenerationConfig(
        num_beams=1,
        do_sample=False,
        max_new_tokens=SPOKEN,
        bad_words_ids=[[CONFIG["pad_token_id"]]],
        pad_token_id=CONFIG["pad_token_id"],
        eos_token_id=CONFIG["eos_token_id"],
        decoder_start_token_id=CONFIG["decoder_start_token_id"],
    )
    outputs = {}
    for precision in PRECISIONS:
        module = model.to(getattr(torch, precision))
        module.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()}, strict=False)
        with torch.no_grad():
            said = module(input_ids=source, attention_mask=mask, decoder_input_ids=target)
            spoken = module.generate(input_ids=source, attention_mask=mask, generation_config=greedy)
        outputs[precision] = {
            "memory": said.encoder_last_hidden_state.numpy(),
            "logits": said.logits.numpy(),
            "spoken": spoken.numpy().astype(precision),
        }
    save("transformers/marian", inputs, weights, {}, outputs, {precision: {} for precision in PRECISIONS})


if __name__ == "__main__":
    main()
