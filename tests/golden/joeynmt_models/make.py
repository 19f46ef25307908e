"""Tiny models of Joey NMT with random weights, saved by it, with what they say.

Program: joeynmt 2.3.0 with torch 2.13.0 (CPU), through `joeynmt_peer.py` of benchmarks/conversion.

    python3.11 -c "from environments import python; ..."  # benchmarks/peers/environments.py makes `joey_nmt`
    joey_nmt/bin/python tests/golden/joeynmt_models/make.py

The tables of positions have 40 rows in place of 5,000, so that the files are small; all else is the program's.
`said.json` has for each model inputs, outputs, greedy outputs and teacher-forced log-probabilities, to six decimals.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import sentencepiece
import torch
import yaml

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks" / "conversion"))
import joeynmt_peer
from joeynmt.config import load_config, parse_global_args
from joeynmt.model import build_model
from joeynmt.transformer_layers import PositionalEncoding
from joeynmt.vocabulary import build_vocab

HERE = Path(__file__).parent
LONGEST = 9
PAIRS = [
    ("a", "x y"),
    ("b a c a d", "y z x"),
    ("C c b e", "w w z y x v"),
    ("d a f b unseen", "v"),
    ("e f a b c d a", "z v w x z"),
]
RECURRENT = {"type": "recurrent", "embeddings": {"embedding_dim": 6, "scale": False}, "dropout": 0.1}
TRANSFORMER = {
    "type": "transformer", "num_layers": 2, "num_heads": 2, "embeddings": {"embedding_dim": 8, "scale": True},
    "hidden_size": 8, "ff_size": 12, "dropout": 0.1, "activation": "relu",
}  # fmt: skip
CASES = {
    "lstm": {
        "sides": ("word", "word"),
        "encoder": {**RECURRENT, "rnn_type": "lstm", "hidden_size": 5, "num_layers": 2, "bidirectional": True},
        "decoder": {
            **RECURRENT, "rnn_type": "lstm", "hidden_size": 7, "num_layers": 2, "init_hidden": "bridge",
            "attention": "luong",
        },
    },
    "gru": {
        "sides": ("char", "char"),
        "encoder": {**RECURRENT, "rnn_type": "gru", "hidden_size": 7, "num_layers": 1, "bidirectional": True},
        "decoder": {
            **RECURRENT, "rnn_type": "gru", "hidden_size": 7, "num_layers": 2, "init_hidden": "last",
            "attention": "bahdanau",
        },
    },
    "gru_scaled": {
        "sides": ("word", "word"),
        "tied_softmax": True,
        "encoder": {**RECURRENT, "rnn_type": "gru", "hidden_size": 3, "num_layers": 1, "bidirectional": True},
        "decoder": {
            **RECURRENT, "embeddings": {"embedding_dim": 6, "scale": True}, "rnn_type": "gru", "hidden_size": 6,
            "num_layers": 1, "init_hidden": "zero", "attention": "bahdanau", "input_feeding": False,
        },
    },
    "lstm_last": {
        "sides": ("word", "word"),
        "encoder": {**RECURRENT, "rnn_type": "gru", "hidden_size": 3, "num_layers": 1, "bidirectional": True},
        "decoder": {
            **RECURRENT, "rnn_type": "lstm", "hidden_size": 6, "num_layers": 1, "init_hidden": "last",
            "attention": "luong",
        },
    },
    "transformer": {
        "sides": ("word", "word"),
        "tied_softmax": True,
        "encoder": {**TRANSFORMER, "layer_norm": "pre"},
        "decoder": {**TRANSFORMER, "layer_norm": "pre", "num_layers": 1},
    },
    "transformer_bare": {  # no layer_norm: the encoder has its norms before the sublayers and none behind them
        "sides": ("word", "word"),
        "encoder": {**TRANSFORMER, "activation": "swish"},
        "decoder": {**TRANSFORMER, "embeddings": {"embedding_dim": 8, "scale": False}},
    },
    "transformer_post": {
        "sides": ("bpe", "bpe"),
        "tied_embeddings": True,
        "tied_softmax": True,
        "encoder": {**TRANSFORMER, "layer_norm": "post", "activation": "gelu"},
        "decoder": {**TRANSFORMER, "layer_norm": "post", "activation": "gelu"},
    },
}  # fmt: skip


def symbols(case: str, folder: Path) -> None:
    """Vocabularies, and a model of pieces of which a few are not used."""
    special = [joeynmt_peer.SPECIAL[f"{name}_token"] for name in ("unk", "pad", "bos", "eos")]
    for side, (name, level) in enumerate(zip(("src", "trg"), CASES[case]["sides"])):
        texts = [pair[side].lower().replace(" unseen", "") for pair in PAIRS]
        tokens = sorted({token for text in texts for token in (text.split() if level == "word" else text)})
        tokens = [joeynmt_peer.BLANK if token == " " else token for token in tokens]
        if level == "bpe":
            both = [pair[side].lower() for side in (0, 1) for pair in PAIRS] * 4
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(both), model_prefix=str(folder / "pieces"), vocab_size=30, model_type="bpe",
                character_coverage=1.0, bos_id=-1, eos_id=-1, pad_id=-1, num_threads=1, minloglevel=2,
                normalization_rule_name="identity",
            )  # fmt: skip
            pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "pieces.model"))
            names = [pieces.id_to_piece(i) for i in range(len(pieces)) if not pieces.is_unknown(i)]
            tokens = [name for name in names if len(name) == 1 or names.index(name) % 3]
            (folder / "pieces.vocab").unlink()
        (folder / f"{name}_vocab.txt").write_text("".join(f"{token}\n" for token in [*special, *tokens]))


def configuration(case: str, folder: Path) -> dict:
    options = {name: value for name, value in CASES[case].items() if name != "sides"}

    def side(lang: str, level: str) -> dict:
        found = {"lang": lang, "level": level, "lowercase": True}
        return found | ({"tokenizer_cfg": {"model_file": str(folder / "pieces.model")}} if level == "bpe" else {})

    return {
        "name": case,
        "joeynmt_version": "2.3.0",
        "model_dir": str(folder),
        "use_cuda": False,
        "data": {
            "src": side("a", CASES[case]["sides"][0]), "trg": side("b", CASES[case]["sides"][1]),
            "special_symbols": dict(joeynmt_peer.SPECIAL),
        },
        "testing": {"beam_size": 5, "beam_alpha": 1.0, "max_output_length": LONGEST},
        "training": {"optimizer": "adam", "batch_size": 5, "batch_type": "sentence", "epochs": 1},
        "model": {"tied_embeddings": False, "tied_softmax": False, **options},
    }  # fmt: skip


def main() -> None:
    torch.set_num_threads(1)
    PositionalEncoding.__init__.__defaults__ = (0, 40)
    said = {}
    for number, case in enumerate(CASES):
        folder = HERE / case
        folder.mkdir(exist_ok=True)
        symbols(case, folder)
        (folder / "config.yaml").write_text(yaml.safe_dump(configuration(case, folder), sort_keys=False))
        settings = parse_global_args(load_config(str(folder / "config.yaml")), mode="test")
        torch.manual_seed(number)
        model = build_model(settings.model, *build_vocab(settings.data, model_dir=folder))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(std=0.7)
        torch.save({"model_state": model.state_dict(), "optimizer_state": {}}, folder / "best.ckpt")
        saved = joeynmt_peer.Saved(folder)
        targets = [saved.target_units(text) for _, text in PAIRS]
        greedy = [saved.search(source, 1)[0] for source, _ in PAIRS]
        assert not any("<pad>" in words for words in greedy), f"{case}: choose other weights"
        steps = [saved.log_probabilities(source, target) for (source, _), target in zip(PAIRS, targets)]
        said[case] = {
            "symbols": saved.shown(saved.target._itos),
            "sources": [source for source, _ in PAIRS],
            "targets": [target for _, target in PAIRS],
            "greedy": [saved.shown(words) for words in greedy],
            "log_probabilities": [[[round(x, 6) for x in row] for row in rows.tolist()] for rows in steps],
        }
        (folder / "config.yaml").write_text((folder / "config.yaml").read_text().replace(str(folder), "."))
    text = ",\n".join(f"{json.dumps(case)}: {json.dumps(each)}" for case, each in said.items())
    (HERE / "said.json").write_text(f"{{\n{text}\n}}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
