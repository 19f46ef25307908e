"""Tiny models, saved by the program after a short training, with what they say.

Program: eole 0.6.4 (`eole.train_single`, `eole_peer.py` of benchmarks/conversion).

    python3.11 -c "from environments import python; ..."  # benchmarks/peers/environments.py makes `eole_rnn`
    eole_rnn/bin/python tests/golden/eole_models/make.py

The table of positions has 40 rows in place of 5,000, so that the files are small; every option else is the program's.
`said.json` has for each model inputs, outputs, greedy outputs and teacher-forced log-probabilities, to six decimals.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks" / "conversion"))
import eole_peer
from eole.config.run import TrainConfig
from eole.modules.embeddings import PositionalEncoding
from eole.train_single import main as train
from eole.utils.misc import set_random_seed

HERE = Path(__file__).parent
LONGEST, STEPS = 9, 300
PositionalEncoding.__init__.__defaults__ = (40,)
eole_peer.LONGEST = LONGEST
PAIRS = [
    ("a", "x y"),
    ("b a c a d", "y z x"),
    ("c c b e", "w w z y x v"),
    ("d a f b unseen", "v"),
    ("e f a b c d a", "z v w x z"),
]
RECURRENT = {"architecture": "custom", "hidden_size": 8}
PLAIN = {"word_vec_size": 6, "position_encoding_type": None}
TRANSFORMER = {"architecture": "transformer", "hidden_size": 8, "heads": 2, "transformer_ff": 12}
CASES = {
    "lstm_dot": {
        **RECURRENT, "layers": 2, "input_feed": 1, "embeddings": PLAIN,
        "encoder": {"encoder_type": "brnn", "rnn_type": "LSTM"},
        "decoder": {"decoder_type": "rnn", "rnn_type": "LSTM", "global_attention": "dot"},
    },
    "lstm_positions": {  # as the program has it unless it is told otherwise
        **RECURRENT, "layers": 1, "input_feed": 1, "embeddings": {"word_vec_size": 6},
        "encoder": {"encoder_type": "brnn", "rnn_type": "LSTM"},
        "decoder": {"decoder_type": "rnn", "rnn_type": "LSTM", "global_attention": "general"},
    },
    "gru_mlp": {
        **RECURRENT, "layers": 1, "input_feed": 0, "embeddings": PLAIN,
        "encoder": {"encoder_type": "rnn", "rnn_type": "GRU", "bridge": True},
        "decoder": {"decoder_type": "rnn", "rnn_type": "GRU", "global_attention": "mlp"},
    },
    "transformer": {
        **TRANSFORMER, "layers": 2, "add_ffnbias": True, "share_embeddings": True, "share_decoder_embeddings": True,
        "embeddings": {"word_vec_size": 8, "position_encoding_type": "SinusoidalInterleaved"},
    },
    "transformer_rotary": {
        **TRANSFORMER, "layers": 1, "heads_kv": 1, "mlp_activation_fn": "gated-silu",
        "add_qkvbias": True, "add_final_linear_bias": True,  # without the last, a bias is loaded that was not saved
        "embeddings": {"word_vec_size": 8, "position_encoding_type": "Rotary", "normalize": True},
        "rope_config": {"rotary_interleave": False, "rotary_theta": 500},
    },
    "transformer_relative": {
        **TRANSFORMER, "mlp_activation_fn": "gelu", "generator_bias": False,
        "embeddings": {"word_vec_size": 8, "position_encoding_type": "Relative", "n_positions": 2},
        "encoder": {"encoder_type": "transformer", "layers": 2},
        "decoder": {"decoder_type": "transformer", "layers": 1},
    },
    "transformer_learned": {
        **TRANSFORMER, "layers": 1, "mlp_activation_fn": "silu",
        "embeddings": {"word_vec_size": 8, "position_encoding_type": "Learned", "n_positions": 16},
    },
}  # fmt: skip


def learn(case: str) -> None:
    """A short training in the present folder; `model`."""
    sides = [[pair[side] for pair in PAIRS] for side in (0, 1)]
    shared = CASES[case].get("share_embeddings", False)
    for name, lines in zip(("src", "tgt"), sides):
        Path(f"{name}.txt").write_text("".join(f"{line}\n" for line in lines).replace(" unseen", ""))
        words = sorted({word for line in ([*sides[0], *sides[1]] if shared else lines) for word in line.split()})
        Path(f"{name}.vocab").write_text("".join(f"{word}\t9\n" for word in words if word != "unseen"))
    options = {
        "data": {"corpus": {"path_src": "src.txt", "path_tgt": "tgt.txt"}}, "src_vocab": "src.vocab",
        "tgt_vocab": "tgt.vocab", "share_vocab": shared, "seed": 3, "report_every": 100,
        "training": {
            "model_path": "model", "save_checkpoint_steps": STEPS, "train_steps": STEPS, "batch_size": 5,
            "batch_type": "sents", "bucket_size": 10, "num_workers": 0, "optim": "sgd", "learning_rate": 0.2,
            "dropout": [0.0], "dropout_steps": [0], "attention_dropout": [0.0], "compute_dtype": "fp32",
            "use_amp": False, "world_size": 0, "gpu_ranks": [], "param_init": 0.7,
        },
        "model": CASES[case],
    }  # fmt: skip
    set_random_seed(3, False)
    train(TrainConfig(**options), device_id=-1)


def greedy_of(saved: eole_peer.Saved, source: str) -> list[str]:
    """The greedy output by forced passes. The program's search counts relative positions from the end of its cache,
    which is longer than the output so far, so that it decodes another model than it trained."""
    words: list[str] = []
    while len(words) < LONGEST:
        word = saved.target.ids_to_tokens[int(saved.log_probabilities(source, words)[-1].argmax())]
        if word == "</s>":
            break
        words.append(word)
    return words


def main() -> None:
    torch.set_num_threads(1)
    for case in sys.argv[1:] or CASES:
        folder = HERE / case
        folder.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory() as place:
            os.chdir(place)
            learn(case)
            for name in ("config.json", "vocab.json", "model.00.safetensors"):
                (folder / name).write_bytes(Path("model", name).read_bytes())
            os.chdir(HERE)
        saved = eole_peer.Saved(folder)
        of_forced = case == "transformer_relative"
        greedy = [greedy_of(saved, source) if of_forced else saved.search(source, 1)[0] for source, _ in PAIRS]
        saved = eole_peer.Saved(folder)
        forced = [saved.log_probabilities(source, target.split()).numpy() for source, target in PAIRS]
        path = HERE / "said.json"
        everything = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        everything[case] = {
            "symbols": list(saved.target.ids_to_tokens),
            "sources": [source for source, _ in PAIRS],
            "targets": [target for _, target in PAIRS],
            "greedy": [" ".join(words) for words in greedy],
            "log_probabilities": [np.round(array.astype(float), 6).tolist() for array in forced],
        }
        lines = [f"{json.dumps(name)}: {json.dumps(everything[name])}" for name in sorted(everything)]
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
