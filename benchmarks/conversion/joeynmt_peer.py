"""Joey NMT's side of the comparison: trains small models, and says what they say. Runs in its own environment.

python joeynmt_peer.py train CASE FOLDER     trains FOLDER/model on the numerals in FOLDER
python joeynmt_peer.py say FOLDER ASKED SAID reads questions (JSON) and writes the answers
python joeynmt_peer.py translate MODEL SOURCES OUTPUTS  runs the command of the program
"""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import sentencepiece
import torch
import yaml
from joeynmt.__main__ import main as joeynmt
from joeynmt.batch import Batch
from joeynmt.config import load_config, parse_global_args
from joeynmt.model import build_model
from joeynmt.search import search
from joeynmt.tokenizers import build_tokenizer
from joeynmt.training import train
from joeynmt.vocabulary import build_vocab

BLANK = "▁"
SPECIAL = {
    "unk_token": "<unk>", "unk_id": 0, "pad_token": "<pad>", "pad_id": 1,
    "bos_token": "<s>", "bos_id": 2, "eos_token": "</s>", "eos_id": 3,
}  # fmt: skip
RECURRENT = {"type": "recurrent", "embeddings": {"embedding_dim": 32, "scale": False}, "dropout": 0.1}
TRANSFORMER = {
    "type": "transformer",
    "num_layers": 2,
    "num_heads": 4,
    "embeddings": {"embedding_dim": 64, "scale": True},
    "hidden_size": 64,
    "ff_size": 128,
    "dropout": 0.1,
    "activation": "relu",
}
CASES = {
    "lstm": {
        "sides": ("word", "word"),
        "model": {
            "encoder": {**RECURRENT, "rnn_type": "lstm", "hidden_size": 48, "bidirectional": True, "num_layers": 2},
            "decoder": {
                **RECURRENT, "rnn_type": "lstm", "hidden_size": 64, "num_layers": 2, "hidden_dropout": 0.1,
                "input_feeding": True, "init_hidden": "bridge", "attention": "luong",
            },
        },
    },
    "gru": {
        "sides": ("char", "char"),
        "model": {
            "encoder": {**RECURRENT, "rnn_type": "gru", "hidden_size": 64, "bidirectional": True, "num_layers": 1},
            "decoder": {
                **RECURRENT, "rnn_type": "gru", "hidden_size": 64, "num_layers": 1,
                "input_feeding": True, "init_hidden": "last", "attention": "bahdanau",
            },
        },
    },
    "transformer": {
        "sides": ("word", "word"),
        "model": {
            "tied_softmax": True,
            "encoder": {**TRANSFORMER, "layer_norm": "pre"},
            "decoder": {**TRANSFORMER, "layer_norm": "pre"},
        },
    },
    "transformer_post": {
        "sides": ("bpe", "bpe"),
        "model": {
            "tied_embeddings": True,
            "tied_softmax": True,
            "encoder": {**TRANSFORMER, "layer_norm": "post", "activation": "gelu"},
            "decoder": {**TRANSFORMER, "layer_norm": "post", "activation": "gelu"},
        },
    },
}  # fmt: skip
"""What is trained: the levels of both sides, and the section `model`."""


def configuration(case: str, folder: Path) -> dict:
    """The whole configuration of a training on the numerals of a folder."""

    def side(lang: str, level: str) -> dict:
        found = {"lang": lang, "level": level, "lowercase": True, "max_length": 100}
        if level == "bpe":
            pieces = {"model_file": str(folder / "pieces.model")}
            found |= {
                "tokenizer_type": "sentencepiece",
                "tokenizer_cfg": pieces,
                "voc_file": str(folder / "pieces.txt"),
            }
        return found

    levels = CASES[case]["sides"]
    model = {
        "initializer": "xavier_uniform", "bias_initializer": "zeros", "embed_initializer": "normal",
        "embed_init_weight": 0.1, "tied_embeddings": False, "tied_softmax": False, **CASES[case]["model"],
    }  # fmt: skip
    return {
        "name": f"numerals_{case}",
        "joeynmt_version": "2.3.0",
        "model_dir": str(folder / "model"),
        "use_cuda": False,
        "random_seed": 42,
        "data": {
            **{part: str(folder / part) for part in ("train", "dev", "test")},
            "dataset_type": "plain",
            "src": side("num", levels[0]),
            "trg": side("eng", levels[1]),
            "special_symbols": dict(SPECIAL),
        },
        "testing": {
            "beam_size": 5, "beam_alpha": 1.0, "eval_metrics": ["bleu"], "max_output_length": 90, "batch_size": 50,
            "batch_type": "sentence", "return_prob": "none",
        },
        "training": {
            "optimizer": "adam", "learning_rate": 0.003, "batch_size": 40, "batch_type": "sentence",
            "scheduling": "exponential", "decrease_factor": 0.8, "early_stopping_metric": "loss",
            "label_smoothing": 0.1, "epochs": 6, "validation_freq": 400, "logging_freq": 200, "overwrite": True,
            "shuffle": True,
            "print_valid_sents": [0], "keep_best_ckpts": 1, "normalization": "batch",
        },
        "model": model,
    }  # fmt: skip


def learn(case: str, folder: Path) -> None:
    """Trains a model: `config.yaml`, `best.ckpt` and the vocabularies in FOLDER/model."""
    (folder / "model").mkdir(parents=True, exist_ok=True)
    if "bpe" in CASES[case]["sides"]:
        both = [line for name in ("num", "eng") for line in (folder / f"train.{name}").read_text().splitlines()]
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(both), model_prefix=str(folder / "pieces"), vocab_size=120, model_type="bpe",
            character_coverage=1.0, bos_id=-1, eos_id=-1, pad_id=-1, num_threads=1, minloglevel=2,
        )  # fmt: skip
        pieces = sentencepiece.SentencePieceProcessor(model_file=str(folder / "pieces.model"))
        names = [pieces.id_to_piece(i) for i in range(len(pieces)) if not pieces.is_unknown(i)]
        kept = names[:90] + [name for name in names[90:] if len(name) == 1]  # fewer than the model of pieces has
        (folder / "pieces.txt").write_text("".join(f"{name}\n" for name in kept))
    config = configuration(case, folder)
    (folder / "model" / "config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
    train(rank=0, world_size=None, cfg=load_config(str(folder / "model" / "config.yaml")), skip_test=True)


class Saved:
    """A trained model, asked directly."""

    def __init__(self, folder: Path) -> None:
        config = load_config(str(folder / "config.yaml"))
        self.settings = parse_global_args(config, rank=0, mode="test")
        self.source, self.target = build_vocab(self.settings.data, model_dir=folder)
        tokenizers = build_tokenizer(self.settings.data)
        sides = [tokenizers[self.settings.data[side]["lang"]] for side in ("src", "trg")]
        for tokenizer, vocabulary in zip(sides, (self.source, self.target)):
            tokenizer.set_vocab(vocabulary)
        self.source_units, self.target_units = sides
        self.model = build_model(self.settings.model, src_vocab=self.source, trg_vocab=self.target).eval()
        saved = torch.load(folder / "best.ckpt", map_location="cpu", weights_only=True)
        self.model.load_state_dict(saved["model_state"])
        self.model.loss_function = ("crossentropy", 0.0)

    def shown(self, tokens: list[str]) -> list[str]:
        """Symbols as they stand in texts: characters are written with a mark for the blank."""
        return [" " if token == BLANK else token for token in tokens] if self.target_units.level == "char" else tokens

    def read(self, tokens: list[str]) -> list[str]:
        """The inverse of `shown`."""
        return [BLANK if token == " " else token for token in tokens] if self.target_units.level == "char" else tokens

    def batch(self, source: str, target: list[str] | None) -> Batch:
        """One input, with an output if there is one."""
        tokens = self.source_units(self.source_units.pre_process(source))
        ids, lengths, _ = self.source.sentences_to_ids([tokens], bos=False, eos=True)
        said = None
        if target is not None:
            said = torch.tensor(self.target.sentences_to_ids([target], bos=True, eos=True)[0])
        return Batch(
            src=torch.tensor(ids), src_length=torch.tensor(lengths), src_prompt_mask=None, trg=said,
            trg_prompt_mask=None, indices=torch.arange(1), device=torch.device("cpu"), pad_index=self.model.pad_index,
            eos_index=self.model.eos_index, is_train=target is not None,
        )  # fmt: skip

    @torch.no_grad()
    def log_probabilities(self, source: str, target: list[str]) -> torch.Tensor:
        """(T + 1, N), teacher-forced."""
        return self.model(return_type="loss", **vars(self.batch(source, target)))[1][0]

    @torch.no_grad()
    def search(self, source: str, beam: int) -> tuple[list[str], bool]:
        """The symbols of the output, and whether it ended."""
        limit = self.settings.test.max_output_length
        options = {"beam_size": beam, "beam_alpha": 1.0, "min_output_length": 1}
        ids = search(self.model, self.batch(source, None), limit, **options)[0][0].tolist()
        ends = self.model.eos_index in ids
        return [self.target._itos[i] for i in ids[: ids.index(self.model.eos_index) if ends else None]], ends

    def score(self, source: str, target: list[str], ended: bool) -> float:
        """Of a hypothesis, by the formula of the beam search: log P / ((5 + T) / 6)^1, with the end symbol in T."""
        ids = [self.target.lookup(token) for token in target] + [self.model.eos_index] * ended
        steps = self.log_probabilities(source, target)[: len(ids)]
        total = steps[torch.arange(len(ids)), torch.tensor(ids)].sum().item()
        return total / ((5 + len(ids)) / 6)


def say(folder: Path, asked: Path, said: Path) -> None:
    """Answers questions: for each input the log-probabilities of an output, the greedy output and that of a beam."""
    saved = Saved(folder)
    answers = []
    arrays = {}
    for number, question in enumerate(json.loads(asked.read_text())):
        source = question["source"]
        if "hypotheses" in question:
            given = [(saved.read(tokens), ended) for tokens, ended in question["hypotheses"]]
            answers.append([saved.score(source, *hypothesis) for hypothesis in given])
            continue
        target = saved.target_units(saved.target_units.pre_process(question["target"]))
        arrays[str(number)] = saved.log_probabilities(source, target).numpy()
        (greedy, ends), beam = saved.search(source, 1), saved.search(source, 5)
        answers.append({
            "target": saved.shown(target), "greedy": [saved.shown(greedy), ends],
            "beam": [saved.shown(beam[0]), beam[1]], "score": saved.score(source, *beam),
        })  # fmt: skip
    said.write_text(json.dumps({"symbols": saved.shown(saved.target._itos), "answers": answers}))
    np.savez(said.with_suffix(".npz"), **arrays)


def translate(model: Path, sources: Path, outputs: Path) -> None:
    """`joeynmt translate MODEL/config.yaml < SOURCES > OUTPUTS`."""
    sys.argv = ["joeynmt", "translate", str(model / "config.yaml")]
    with sources.open() as sys.stdin, outputs.open("w") as file, redirect_stdout(file):
        joeynmt()


if __name__ == "__main__":
    verb, *arguments = sys.argv[1:]
    torch.set_num_threads(1)
    if verb == "train":
        learn(arguments[0], Path(arguments[1]))
    elif verb == "translate":
        translate(*map(Path, arguments))
    else:
        say(*map(Path, arguments))
