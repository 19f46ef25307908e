"""A small model that tensorflow-addons trained, and what it says of 12 inputs.

Program: tensorflow-addons 0.23.0.
Trained and asked by `benchmarks/conversion/tensorflow_addons_peer.py` in the environment `tensorflow_addons_rnn` of
`benchmarks/peers/environments.py` (tensorflow-cpu 2.15.1, numpy 1.26.4, keras 2.15.0), whose python runs

    python tests/golden/tensorflow_addons_model/make.py

in a minute: `asked.json` has the inputs; in `tiny`, `model.npz` has the arrays by the names of TensorFlow, `model.json`
the facts beside them, and `said.npz` for input n

- n.logits (T, N) and n.alignment (T, S) of a teacher-forced pass;
- n.greedy (T), n.greedy_alignment: of GreedyEmbeddingSampler, with the end symbol;
- n.scores (K), n.beam.k, n.beam_alignment.k: of BeamSearchDecoder, best first, with alignments of a forced pass.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "benchmarks" / "conversion"))

import numerals  # noqa: E402
from tensorflow_addons_peer import learn, say  # noqa: E402

with tempfile.TemporaryDirectory() as folder:
    place = Path(folder)
    numerals.write(place)
    learn("tiny", place)
    some = [{"source": source, "target": target} for source, target in numerals.pairs("test")[:12]]
    (HERE / "asked.json").write_text(json.dumps(some, indent=1) + "\n", encoding="utf-8")
    for name in ("model.npz", "model.json"):
        (HERE / "tiny" / name).write_bytes((place / name).read_bytes())
    say(place, HERE / "asked.json", HERE / "tiny" / "said.npz")
