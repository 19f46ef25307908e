"""Goldens of SpeechBrain's attentions.

Program: speechbrain 1.1.2, `speechbrain/nnet/attention.py`, on torch 2.13.0 (CPU). The package wants an audio stack at
import, so the file is loaded by itself; of what it imports, `length_to_mask` is taken from its own file and the logger
is Python's.

    python3.11 -m venv peers
    peers/bin/pip install torch==2.13.0 numpy
    peers/bin/pip install --no-deps speechbrain==1.1.2
    OMP_NUM_THREADS=1 peers/bin/python tests/golden/speechbrain/make.py

Its relative sinusoids have the same sine for what is before and behind the query; the relative attention, which takes
them as an input, is given signed ones, as Transformer-XL has them.
"""

from __future__ import annotations

import ast
import importlib.util
import logging
import sys
import types
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from record import BATCH, LENGTHS, MEMORY, QUERY, SOURCE, decoder_inputs, draw, record

SIZE, OUTPUT, WIDE, HEADS = 4, 5, 8, 2


def attention_file():
    """`speechbrain.nnet.attention` beside the two names that it imports."""
    (root,) = importlib.util.find_spec("speechbrain").submodule_search_locations
    source = Path(root, "dataio/dataio.py")
    functions = [node for node in ast.parse(source.read_text()).body if isinstance(node, ast.FunctionDef)]
    names = {"torch": torch}
    wanted = [node for node in functions if node.name == "length_to_mask"]
    exec(compile(ast.Module(wanted, []), str(source), "exec"), names)
    given = {
        "speechbrain.dataio.dataio": {"length_to_mask": names["length_to_mask"]},
        "speechbrain.utils.logger": {"get_logger": logging.getLogger},
    }
    for name in ("speechbrain", "speechbrain.dataio", "speechbrain.utils", *given):
        sys.modules[name] = types.ModuleType(name)
        vars(sys.modules[name]).update(given.get(name, {}))
    spec = importlib.util.spec_from_file_location("attention", Path(root, "nnet/attention.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(attention, queries, memory, lengths):
    attention.reset()
    looks = [attention(memory, lengths, query) for query in queries.unbind(1)]
    weights = torch.stack([weights for _, weights in looks], 1)
    return {
        "context": torch.stack([context for context, _ in looks], 1),
        "alignment": weights[:, None] if weights.dim() == 3 else weights.transpose(1, 2),
    }


def positioned(kinds):
    def over(attention, memory, lengths):
        positions = kinds.RelPosEncXL(WIDE, memory.dtype)(memory)
        positions[:, memory.shape[1] :, 0::2] *= -1
        hidden = torch.arange(memory.shape[1]) >= lengths[:, None]
        context, weights = attention(memory, memory, memory, positions, key_padding_mask=hidden)
        return {
            "context": context,
            "alignment": weights,
        }

    return over


def main() -> None:
    kinds = attention_file()
    inputs = decoder_inputs()
    record("speechbrain/content_based", lambda: kinds.ContentBasedAttention(MEMORY, QUERY, SIZE, OUTPUT), run, inputs)
    record(
        "speechbrain/location_aware",
        lambda: kinds.LocationAwareAttention(MEMORY, QUERY, SIZE, OUTPUT, 3, 1),
        run,
        inputs,
    )
    record("speechbrain/key_value", lambda: kinds.KeyValueAttention(MEMORY, QUERY, SIZE, OUTPUT), run, inputs)
    record(
        "speechbrain/rel_pos_mha_xl",
        lambda: kinds.RelPosMHAXL(WIDE, HEADS, vbias=True),
        positioned(kinds),
        {"memory": draw(9, BATCH, SOURCE, WIDE), "lengths": LENGTHS},
    )


if __name__ == "__main__":
    main()
