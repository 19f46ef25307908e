"""Tiny models, saved by the program after a short training, with what they say.

Program: OpenNMT-py 3.5.1 (`onmt.bin.train`, `opennmt_peer.py` of benchmarks/conversion).

    python3.11 -c "from environments import python; ..."  # benchmarks/peers/environments.py makes `opennmt_py`
    opennmt_py/bin/python tests/golden/opennmt_models/make.py

The table of positions has 40 rows in place of 5,000, so that the files are small; every option else is the program's.
`said.json` has for each model inputs, outputs, greedy outputs and teacher-forced log-probabilities, to six decimals.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks" / "conversion"))
import opennmt_peer
import torch
import yaml
from onmt.bin.train import _get_parser, train
from onmt.modules.embeddings import PositionalEncoding

HERE = Path(__file__).parent
LONGEST, STEPS = 9, 300
PositionalEncoding.__init__.__defaults__ = (40,)
opennmt_peer.LONGEST = LONGEST
PAIRS = [
    ("a", "x y"),
    ("b a c a d", "y z x"),
    ("c c b e", "w w z y x v"),
    ("d a f b unseen", "v"),
    ("e f a b c d a", "z v w x z"),
]
RECURRENT = {"encoder_type": "brnn", "decoder_type": "rnn", "hidden_size": 8, "word_vec_size": 6, "param_init": 0.7}
TRANSFORMER = {
    "encoder_type": "transformer", "decoder_type": "transformer", "hidden_size": 8, "word_vec_size": 8, "heads": 2,
    "transformer_ff": 12, "param_init": 0.7,
}  # fmt: skip
CASES = {
    "lstm_general": {**RECURRENT, "rnn_type": "LSTM", "layers": 2, "global_attention": "general", "bridge": True},
    "gru_mlp": {**RECURRENT, "encoder_type": "rnn", "rnn_type": "GRU", "layers": 1, "global_attention": "mlp"},
    "gru_dot": {
        **RECURRENT, "rnn_type": "GRU", "layers": 1, "global_attention": "dot", "input_feed": 0,
        "global_attention_function": "sparsemax",
    },
    "lstm_none": {**RECURRENT, "rnn_type": "LSTM", "layers": 1, "global_attention": "none", "input_feed": 0},
    "transformer": {
        **TRANSFORMER, "layers": 2, "position_encoding": True, "share_vocab": True, "share_embeddings": True,
        "share_decoder_embeddings": True,
    },
    "transformer_rotary": {
        **TRANSFORMER, "layers": 1, "max_relative_positions": -1, "rotary_interleave": False, "num_kv": 1,
        "add_qkvbias": True, "pos_ffn_activation_fn": "silu", "rotary_theta": 500,
    },
    "transformer_relative": {
        **TRANSFORMER, "enc_layers": 2, "dec_layers": 1, "max_relative_positions": 2, "pos_ffn_activation_fn": "gelu",
    },
    "transformer_concat": {
        **TRANSFORMER, "layers": 1, "position_encoding": True, "position_encoding_type": "SinusoidalConcat",
        "decoder_start_token": "</s>",
    },
    "transformer_alibi": {**TRANSFORMER, "layers": 1, "max_relative_positions": -2},
}  # fmt: skip


def learn(case: str) -> None:
    """A short training in the present folder; `model_step_40.pt`."""
    sides = [[pair[side] for pair in PAIRS] for side in (0, 1)]
    shared = CASES[case].get("share_vocab", False)
    for name, lines in zip(("src", "tgt"), sides):
        Path(f"{name}.txt").write_text("".join(f"{line}\n" for line in lines).replace(" unseen", ""))
        words = sorted({word for line in ([*sides[0], *sides[1]] if shared else lines) for word in line.split()})
        Path(f"{name}.vocab").write_text("".join(f"{word}\t9\n" for word in words if word != "unseen"))
    options = {
        "data": {"corpus": {"path_src": "src.txt", "path_tgt": "tgt.txt"}}, "src_vocab": "src.vocab",
        "tgt_vocab": "tgt.vocab", "save_model": "model", "save_checkpoint_steps": STEPS, "train_steps": STEPS,
        "batch_size": 5, "batch_type": "sents", "num_workers": 0, "bucket_size": 10, "report_every": 10, "optim": "sgd",
        "learning_rate": 0.2, "dropout": [0.0], "attention_dropout": [0.0], "seed": 3,
        "model_dtype": "fp32", "input_feed": 1, **CASES[case],
    }  # fmt: skip
    Path("options.yaml").write_text(yaml.safe_dump(options))
    train(_get_parser().parse_known_args(["-config", "options.yaml"])[0])


def main() -> None:
    torch.set_num_threads(1)
    for case in sys.argv[1:] or CASES:
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            learn(case)
            checkpoint = HERE / f"{case}.pt"
            checkpoint.write_bytes(Path(f"model_step_{STEPS}.pt").read_bytes())
            os.chdir(HERE)
        searching, forced = (
            opennmt_peer.Saved(checkpoint),
            opennmt_peer.Saved(checkpoint),
        )  # ALiBi keeps a table between calls
        greedy = [searching.search(source, 1)[0] for source, _ in PAIRS]
        arrays = [forced.log_probabilities(source, target.split()).numpy() for source, target in PAIRS]
        path = HERE / "said.json"
        everything = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        everything[case] = {
            "symbols": list(forced.target.ids_to_tokens),
            "sources": [source for source, _ in PAIRS],
            "targets": [target for _, target in PAIRS],
            "greedy": [" ".join(words) for words in greedy],
            "log_probabilities": [np.round(array.astype(float), 6).tolist() for array in arrays],
        }
        lines = [f"{json.dumps(name)}: {json.dumps(everything[name])}" for name in sorted(everything)]
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
