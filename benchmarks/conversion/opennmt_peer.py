"""OpenNMT-py's side of the comparison: trains small models, and says what they say. Runs in its own environment.

python opennmt_peer.py train CASE FOLDER     trains FOLDER/model.pt on the numerals in FOLDER
python opennmt_peer.py say FOLDER ASKED SAID reads questions (JSON) and writes the answers
python opennmt_peer.py translate MODEL SOURCES OUTPUTS  runs the command of the program
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from importlib.machinery import ModuleSpec
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import torch
import yaml

for package in ("spacy", "fasttext"):  # imported at the start, and not used
    sys.modules[package] = MagicMock(__spec__=ModuleSpec(package, None), __path__=[])

from onmt.bin.train import _get_parser, train  # noqa: E402
from onmt.bin.translate import main as onmt_translate  # noqa: E402
from onmt.model_builder import load_test_model  # noqa: E402
from onmt.opts import translate_opts  # noqa: E402
from onmt.translate.beam_search import GNMTGlobalScorer  # noqa: E402
from onmt.translate.translator import Translator  # noqa: E402
from onmt.utils.parse import ArgumentParser  # noqa: E402

LONGEST = 60
RECURRENT = {
    "encoder_type": "brnn", "decoder_type": "rnn", "rnn_type": "LSTM", "layers": 1, "hidden_size": 64,
    "word_vec_size": 32, "learning_rate": 0.003,
}  # fmt: skip
TRANSFORMER = {
    "encoder_type": "transformer", "decoder_type": "transformer", "layers": 2, "hidden_size": 64, "word_vec_size": 64,
    "heads": 4, "transformer_ff": 128, "position_encoding": True, "learning_rate": 0.002, "param_init": 0,
    "param_init_glorot": True,
}  # fmt: skip
CASES = {
    "lstm_general": {**RECURRENT, "layers": 2, "global_attention": "general", "input_feed": 1},
    "gru_mlp": {**RECURRENT, "rnn_type": "GRU", "global_attention": "mlp", "input_feed": 1},
    "lstm_dot_bridge": {
        **RECURRENT, "layers": 2, "global_attention": "dot", "input_feed": 0, "bridge": True,
        "share_decoder_embeddings": True, "word_vec_size": 64,
    },
    "transformer": TRANSFORMER,
    "transformer_rotary": {
        **TRANSFORMER, "position_encoding": False, "max_relative_positions": -1, "num_kv": 2, "add_qkvbias": True,
        "pos_ffn_activation_fn": "silu", "share_decoder_embeddings": True,
    },
    "transformer_relative": {
        **TRANSFORMER, "position_encoding": False, "max_relative_positions": 8, "pos_ffn_activation_fn": "gelu",
    },
}  # fmt: skip
"""What is trained: the options that differ from the program's defaults."""


def learn(case: str, folder: Path) -> None:
    """Trains a model and leaves its last checkpoint as FOLDER/model.pt."""
    for side in ("num", "eng"):
        counts = Counter((folder / f"train.{side}").read_text(encoding="utf-8").split())
        lines = "".join(f"{word}\t{count}\n" for word, count in counts.most_common())
        (folder / f"vocab.{side}").write_text(lines, encoding="utf-8")
    options = {
        "data": {
            "corpus": {"path_src": str(folder / "train.num"), "path_tgt": str(folder / "train.eng")},
            "valid": {"path_src": str(folder / "dev.num"), "path_tgt": str(folder / "dev.eng")},
        },
        "src_vocab": str(folder / "vocab.num"), "tgt_vocab": str(folder / "vocab.eng"), "overwrite": True,
        "save_model": str(folder / "checkpoint"), "save_checkpoint_steps": STEPS, "train_steps": STEPS,
        "valid_steps": STEPS, "keep_checkpoint": 1, "batch_size": 40, "batch_type": "sents", "bucket_size": 2000,
        "num_workers": 0, "optim": "adam", "max_grad_norm": 1.0, "dropout": [0.1], "attention_dropout": [0.1],
        "label_smoothing": 0.1, "seed": 1, "report_every": 200, "model_dtype": "fp32", **CASES[case],
    }  # fmt: skip
    (folder / "options.yaml").write_text(yaml.safe_dump(options), encoding="utf-8")
    train(_get_parser().parse_known_args(["-config", str(folder / "options.yaml")])[0])
    (folder / f"checkpoint_step_{STEPS}.pt").replace(folder / "model.pt")


STEPS = 1200


class Saved:
    """A trained model, asked directly."""

    def __init__(self, path: Path) -> None:
        parser = ArgumentParser()
        translate_opts(parser)
        words = ["-model", str(path), "-src", "none", "-beam_size", "5", "-gpu", "-1", "-max_length", str(LONGEST)]
        words += ["-max_length_ratio", "0"]
        self.options = parser.parse_known_args(words)[0]
        self.options.models = [str(path)]
        ArgumentParser.validate_translate_opts(self.options)
        # the program calls torch.load without weights_only, whose default has changed since
        original = torch.load
        torch.load = lambda *arguments, **named: original(*arguments, **{"weights_only": False, **named})
        self.vocabularies, self.model, self.model_options = load_test_model(self.options)
        torch.load = original
        self.model.eval()
        self.source, self.target = self.vocabularies["src"], self.vocabularies["tgt"]

    def ids(self, text: str, side: str) -> list[int]:
        """The numbers of the words of a text."""
        vocabulary = self.vocabularies[side]
        return [vocabulary[word] for word in text.split(" ")]

    @torch.no_grad()
    def log_probabilities(self, source: str, target: list[str]) -> torch.Tensor:
        """(T + 1, N), teacher-forced, of a sentence by itself."""
        inputs = torch.tensor([self.ids(source, "src")])[..., None]
        begin = self.target[self.vocabularies["decoder_start_token"]]
        fed = torch.tensor([[begin, *(self.target[word] for word in target), self.target["</s>"]]])
        said, _ = self.model(inputs, fed[..., None], torch.tensor([inputs.shape[1]]))
        return self.model.generator(said[0]).log_softmax(-1)

    @torch.no_grad()
    def search(self, source: str, beam: int) -> tuple[list[str], bool]:
        """The words of the output, and whether it ended."""
        self.options.beam_size = beam
        translator = Translator.from_opt(
            self.model, self.vocabularies, self.options, self.model_options,
            global_scorer=GNMTGlobalScorer.from_opt(self.options), report_score=False,
        )  # fmt: skip
        inputs = torch.tensor([self.ids(source, "src")])[..., None]
        asked = {"src": inputs, "srclen": torch.tensor([inputs.shape[1]]), "indices": torch.arange(1)}
        ids = translator.translate_batch(asked, attn_debug=False)["predictions"][0][0].tolist()
        ends = ids[-1:] == [self.target["</s>"]]
        return [self.target.ids_to_tokens[i] for i in ids[: len(ids) - ends]], ends

    def score(self, source: str, target: list[str], ended: bool) -> float:
        """Of a hypothesis, by the formula of the search without a penalty: the sum of log-probabilities."""
        ids = [self.target[word] for word in target] + [self.target["</s>"]] * ended
        steps = self.log_probabilities(source, target)[: len(ids)]
        return steps[torch.arange(len(ids)), torch.tensor(ids)].sum().item()


def say(path: Path, asked: Path, said: Path) -> None:
    """Answers questions: for each input the log-probabilities of an output, the greedy output and that of a beam."""
    saved = Saved(path)
    answers, arrays = [], {}
    for number, question in enumerate(json.loads(asked.read_text())):
        source = question["source"]
        if "hypotheses" in question:
            answers.append([saved.score(source, *hypothesis) for hypothesis in question["hypotheses"]])
            continue
        target = question["target"].split(" ")
        arrays[str(number)] = saved.log_probabilities(source, target).numpy()
        greedy, beam = saved.search(source, 1), saved.search(source, 5)
        answers.append({"target": target, "greedy": greedy, "beam": beam, "score": saved.score(source, *beam)})
    said.write_text(json.dumps({"symbols": list(saved.target.ids_to_tokens), "answers": answers}))
    if arrays:
        np.savez(said.with_suffix(".npz"), **arrays)


def translate(model: Path, sources: Path, outputs: Path) -> None:
    """`onmt_translate -model MODEL -src SOURCES -output OUTPUTS`."""
    original = torch.load  # the program calls it without weights_only, whose default has changed since
    torch.load = lambda *arguments, **named: original(*arguments, **{"weights_only": False, **named})
    sys.argv = ["onmt_translate", "-model", str(model), "-src", str(sources), "-output", str(outputs)]
    onmt_translate()


if __name__ == "__main__":
    verb, *arguments = sys.argv[1:]
    torch.set_num_threads(1)
    if verb == "train":
        learn(arguments[0], Path(arguments[1]))
    elif verb == "translate":
        translate(*map(Path, arguments))
    else:
        say(*map(Path, arguments))
