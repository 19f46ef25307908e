"""A decoder whose cross-attention coverage refines, by the authors' code.

Program: Green-Wood/CoMER ee15cdb (its Transformer decoder with the attention refinement module).

    git clone --no-checkout https://github.com/Green-Wood/CoMER
    git -C CoMER checkout ee15cdb -- comer/model/transformer
    python3.11 -m venv peers
    peers/bin/pip install torch==2.13.0 einops==0.8.2
    PYTHONPATH=CoMER/comer/model peers/bin/python tests/golden/comer/make.py

All weights, statistics and inputs are cosines of running numbers (`cosines`), which the test makes again, so the file
has outputs only: (B, T, D) of three layers over a grid of 3 by 4 cells, of which the second image lacks the last
column; in training, where the batch norm counts the real cells of the batch, and in evaluation. There is no dropout.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from transformer.arm import AttentionRefinementModule
from transformer.transformer_decoder import TransformerDecoder, TransformerDecoderLayer

FILE = Path(__file__).with_name("decoder.json")
SIZE, HEADS, INNER, FILTERS, LAYERS, HEIGHT, WIDTH, STEPS = 8, 2, 12, 4, 3, 3, 4, 6


def cosines(*shape: int, seed: int) -> torch.Tensor:
    """Numbers between -1 and 1."""
    count = torch.Size(shape).numel()
    return torch.cos(17.0 * torch.arange(count, dtype=torch.float64) + seed).view(shape)


def main() -> None:
    refinement = AttentionRefinementModule(HEADS, FILTERS, True, True)
    decoder = TransformerDecoder(TransformerDecoderLayer(SIZE, HEADS, INNER, 0.0), LAYERS, refinement).double()
    with torch.no_grad():
        for seed, (_, weight) in enumerate(sorted(decoder.named_parameters())):
            weight.copy_(cosines(*weight.shape, seed=seed))
    norm = refinement.post_norm.bn
    norm.running_mean.copy_(cosines(HEADS, seed=100))
    norm.running_var.copy_(cosines(HEADS, seed=101) + 2)
    targets = cosines(2, STEPS, SIZE, seed=102)
    padding = torch.zeros(2, HEIGHT, WIDTH, dtype=torch.bool)
    padding[1, :, 3:] = True
    padding = padding.flatten(1)
    memory = cosines(2, HEIGHT * WIDTH, SIZE, seed=103).masked_fill(padding[..., None], 0)
    later = torch.ones(STEPS, STEPS, dtype=torch.bool).triu(1)
    outputs = {}
    for name in ("evaluation", "training"):  # training changes the statistics
        decoder.train(name == "training")
        output = decoder(
            targets.transpose(0, 1),
            memory.transpose(0, 1),
            HEIGHT,
            tgt_mask=later,
            memory_key_padding_mask=padding,
        )
        outputs[name] = output.transpose(0, 1).tolist()
    FILE.write_text(json.dumps(outputs), encoding="utf-8")


if __name__ == "__main__":
    main()
