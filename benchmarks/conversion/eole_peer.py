"""eole's side of the comparison: trains small models, and says what they say. Runs in its own environment.

python eole_peer.py train CASE FOLDER     trains FOLDER/model on the numerals in FOLDER
python eole_peer.py say FOLDER ASKED SAID reads questions (JSON) and writes the answers
python eole_peer.py translate MODEL SOURCES OUTPUTS  runs the command of the program
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

for package in (
    "spacy",
    "fasttext",
    "torchcodec",
    "datasets",
    "pandas",
    "aiohttp",
    "requests",
):  # imported at the start, and not used
    sys.modules[package] = MagicMock(__spec__=ModuleSpec(package, None), __path__=[])

from eole.bin.main import main as eole  # noqa: E402
from eole.config.run import PredictConfig, TrainConfig  # noqa: E402
from eole.models.model import get_model_class  # noqa: E402
from eole.predict.beam_search import GNMTGlobalScorer  # noqa: E402
from eole.predict.translator import Translator  # noqa: E402
from eole.train_single import main as train  # noqa: E402
from eole.utils.misc import set_random_seed  # noqa: E402

LONGEST, STEPS = 60, 1200
RECURRENT = {
    "architecture": "custom", "layers": 1, "hidden_size": 64,
    # without this, eole adds positions to the embeddings of recurrent models
    "embeddings": {"word_vec_size": 32, "position_encoding_type": None},
}  # fmt: skip
TRANSFORMER = {
    "architecture": "transformer", "layers": 2, "hidden_size": 64, "heads": 4, "transformer_ff": 128,
    "embeddings": {"word_vec_size": 64, "position_encoding_type": "SinusoidalInterleaved"}, "add_ffnbias": True,
}  # fmt: skip
CASES = {
    "lstm_general": {
        **RECURRENT, "layers": 2, "input_feed": 1,
        "encoder": {"encoder_type": "brnn", "rnn_type": "LSTM"},
        "decoder": {"decoder_type": "rnn", "rnn_type": "LSTM", "global_attention": "general"},
    },
    "lstm_positions": {
        "architecture": "custom", "layers": 1, "hidden_size": 64, "embeddings": {"word_vec_size": 32}, "input_feed": 1,
        "encoder": {"encoder_type": "brnn", "rnn_type": "LSTM"},
        "decoder": {"decoder_type": "rnn", "rnn_type": "LSTM", "global_attention": "general"},
    },
    "gru_mlp": {
        **RECURRENT, "input_feed": 0,
        "encoder": {"encoder_type": "rnn", "rnn_type": "GRU", "bridge": True},
        "decoder": {"decoder_type": "rnn", "rnn_type": "GRU", "global_attention": "mlp"},
    },
    "transformer": {**TRANSFORMER, "share_decoder_embeddings": True},
    "transformer_rotary": {
        **TRANSFORMER, "embeddings": {"word_vec_size": 64, "position_encoding_type": "Rotary"}, "heads_kv": 2,
        # the last is said, as the program else loads an encoder with a bias there that was never trained nor saved
        "mlp_activation_fn": "gated-silu", "rope_config": {"rotary_interleave": False}, "add_qkvbias": True,
        "add_final_linear_bias": True,
    },
    "transformer_learned": {
        **TRANSFORMER, "mlp_activation_fn": "gelu", "add_ffnbias": False, "generator_bias": False,
        "embeddings": {"word_vec_size": 64, "position_encoding_type": "Learned", "n_positions": 64},
    },
}  # fmt: skip
"""What is trained: the sections `model`."""


def learn(case: str, folder: Path) -> None:
    """Trains a model and leaves it in FOLDER/model."""
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
        "vocab_size_multiple": 8, "seed": 1, "report_every": 200,
        "training": {
            "model_path": str(folder / "model"), "save_checkpoint_steps": STEPS, "train_steps": STEPS,
            "valid_steps": STEPS, "keep_checkpoint": 1, "batch_size": 40, "batch_type": "sents", "bucket_size": 2000,
            "num_workers": 0, "optim": "adam", "learning_rate": 0.002, "max_grad_norm": 1.0,
            "dropout": [0.1], "dropout_steps": [0], "attention_dropout": [0.1], "label_smoothing": 0.1,
            "compute_dtype": "fp32", "use_amp": False, "world_size": 0, "gpu_ranks": [],
            **({"param_init": 0, "param_init_method": "xavier_uniform"} if case.startswith("transformer") else {}),
        },
        "model": CASES[case],
    }  # fmt: skip
    set_random_seed(1, False)
    train(TrainConfig(**options), device_id=-1)


class Saved:
    """A trained model, asked directly."""

    def __init__(self, folder: Path) -> None:
        config = PredictConfig(
            model_path=[str(folder)], src="none", beam_size=5, max_length=LONGEST, max_length_ratio=0,
            length_penalty="none", self_attn_backend="pytorch", compute_dtype="fp32", world_size=0, gpu_ranks=[],
        )  # fmt: skip
        self.config = config
        kind = get_model_class(config.model)
        loaded = kind.for_inference(config, device_id=-1, model_path=str(folder))
        self.model, self.vocabularies, self.model_config = loaded
        self.model.eval()
        self.source, self.target = self.vocabularies["src"], self.vocabularies["tgt"]

    def inputs(self, source: str) -> torch.Tensor:
        """(1, S)."""
        return torch.tensor([[self.source[word] for word in source.split(" ")]])

    @torch.no_grad()
    def log_probabilities(self, source: str, target: list[str]) -> torch.Tensor:
        """(T + 1, N), teacher-forced, of a sentence by itself."""
        inputs, end = self.inputs(source), self.target["</s>"]
        # one symbol more than is read, since an input of one is taken for a step of a search
        fed = torch.tensor([[self.target["<s>"], *(self.target[word] for word in target), end, end]])
        if hasattr(self.model.decoder, "_disable_cache"):
            self.model.decoder._disable_cache()
        said, *_ = self.model(inputs, fed, torch.tensor([inputs.shape[1]]))
        return self.model.generator(said[0, : len(target) + 1]).log_softmax(-1)

    @torch.no_grad()
    def search(self, source: str, beam: int) -> tuple[list[str], bool]:
        """The words of the output, and whether it ended."""
        self.config.beam_size = beam
        translator = Translator(
            self.model, self.vocabularies, self.config, self.model_config, device_id=-1,
            global_scorer=GNMTGlobalScorer.from_config(self.config), report_score=False,
        )  # fmt: skip
        inputs = self.inputs(source)
        asked = {"src": inputs, "srclen": torch.tensor([inputs.shape[1]]), "cid": None}
        asked["ind_in_bucket"] = torch.arange(1)
        ids = translator.predict_batch(asked, attn_debug=False)["predictions"][0][0].tolist()
        ends = ids[-1:] == [self.target["</s>"]]
        return [self.target.ids_to_tokens[i] for i in ids[: len(ids) - ends]], ends

    def score(self, source: str, target: list[str], ended: bool) -> float:
        """Of a hypothesis, by the formula of the search without a penalty: the sum of log-probabilities."""
        ids = [self.target[word] for word in target] + [self.target["</s>"]] * ended
        steps = self.log_probabilities(source, target)[: len(ids)]
        return steps[torch.arange(len(ids)), torch.tensor(ids)].sum().item()


def say(folder: Path, asked: Path, said: Path) -> None:
    """Answers questions: for each input the log-probabilities of an output, the greedy output and that of a beam."""
    saved = Saved(folder)
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


def translate(model: Path, sources: Path, outputs: Path, *options: str) -> None:
    """`eole predict --model_path MODEL --src SOURCES --output OUTPUTS`, with further options."""
    sys.argv = [
        "eole",
        "predict",
        "--model_path",
        str(model),
        "--src",
        str(sources),
        "--output",
        str(outputs),
        *options,
    ]
    eole()


if __name__ == "__main__":
    verb, *arguments = sys.argv[1:]
    torch.set_num_threads(1)
    if verb == "train":
        learn(arguments[0], Path(arguments[1]))
    elif verb == "translate":
        translate(*map(Path, arguments[:3]), *arguments[3:])
    else:
        say(*map(Path, arguments))
