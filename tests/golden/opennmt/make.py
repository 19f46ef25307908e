"""Goldens of OpenNMT-py's attentions.

Program: OpenNMT-py 3.5.1, `onmt/modules/{global_attention,multi_headed_attn}.py`, on torch 2.13.0
(CPU). `import onmt` wants a whole training stack, so packages are entered without running their __init__.

    python3.11 -m venv peers
    peers/bin/pip install torch==2.13.0 numpy
    peers/bin/pip install --no-deps OpenNMT-py==3.5.1
    OMP_NUM_THREADS=1 peers/bin/python tests/golden/opennmt/make.py

Coverage is recorded with a fresh copy of the memory for every step, because the original adds coverage into the memory
in place (and then reads what it has changed: the tangent of memory + coverage). Its own decoder never passes coverage.
Sparsemax has no gradients here: the original writes into its input.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
import warnings
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from record import BATCH, LENGTHS, SOURCE, decoder_inputs, draw, record

SIZE, HEADS = 8, 2


def modules():
    """onmt's files without the __init__ of their packages."""
    (root,) = importlib.util.find_spec("onmt").submodule_search_locations
    for name in ("onmt", "onmt.modules", "onmt.utils"):
        package = types.ModuleType(name)
        package.__path__ = [str(Path(root, *name.split(".")[1:]))]
        sys.modules[name] = package
    return [importlib.import_module(f"onmt.modules.{name}") for name in ("global_attention", "multi_headed_attn")]


def run(attention, queries, memory, lengths):
    looks = [attention(query, memory, lengths) for query in queries.unbind(1)]
    return {
        "output": torch.stack([output for output, _ in looks], 1),
        "alignment": torch.stack([weights for _, weights in looks], 1)[:, None],
    }


def covered(attention, queries, memory, lengths):
    coverage, outputs, alignments = memory.new_zeros(memory.shape[:2]), [], []
    for query in queries.unbind(1):
        output, weights = attention(query, memory.clone(), lengths, coverage)
        coverage = coverage + weights
        outputs.append(output)
        alignments.append(weights)
    return {"output": torch.stack(outputs, 1), "alignment": torch.stack(alignments, 1)[:, None]}


def attended(attention, memory, lengths):
    """Self-attention over a padded batch."""
    attention.eval()
    mask = (torch.arange(memory.shape[1]) >= lengths[:, None])[:, None, None]
    output, weights = attention(memory, memory, memory, mask=mask, return_attn=True)
    return {"context": output, "alignment": weights}


def main() -> None:
    warnings.simplefilter("ignore")
    recurrent, many = modules()
    inputs = decoder_inputs() | {"queries": draw(8, BATCH, 5, SIZE), "memory": draw(9, BATCH, SOURCE, SIZE)}
    for kind in ("dot", "general", "mlp"):
        record(f"opennmt/{kind}", lambda kind=kind: recurrent.GlobalAttention(SIZE, attn_type=kind), run, inputs)
    record(
        "opennmt/general_sparsemax",
        lambda: recurrent.GlobalAttention(SIZE, attn_type="general", attn_func="sparsemax"),
        run,
        inputs,
        differentiable=False,
    )
    record(
        "opennmt/mlp_coverage", lambda: recurrent.GlobalAttention(SIZE, coverage=True, attn_type="mlp"), covered, inputs
    )
    self_inputs = {"memory": draw(9, BATCH, SOURCE, SIZE), "lengths": LENGTHS}

    def heads(**options):
        options = {"head_count": HEADS, "add_qkvbias": True, **options}
        return lambda: many.MultiHeadedAttention(
            model_dim=SIZE, dropout=0.0, is_decoder=False, attn_type="self", **options
        )

    for name, options in {
        "multi_head": {},
        "shaw": {"max_relative_positions": 2},
        "buckets": {"max_relative_positions": 6, "relative_positions_buckets": 8},
        "rotary_interleaved": {"max_relative_positions": -1, "rotary_interleave": True},
        "rotary_halves": {"max_relative_positions": -1, "rotary_interleave": False},
        "alibi": {"max_relative_positions": -2},
        "grouped": {"head_count": 4, "num_kv": 2},
    }.items():
        record(f"opennmt/{name}", heads(**options), attended, self_inputs)


if __name__ == "__main__":
    main()
