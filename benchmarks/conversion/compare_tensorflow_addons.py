"""Small models of tensorflow-addons 0.23.0, trained by it, converted and compared on 200 inputs.

python benchmarks/conversion/compare_tensorflow_addons.py

Compared are log-probabilities and alignments of a teacher-forced pass; the greedy outputs; and all five hypotheses of
the beam (`BeamSearchDecoder` there, `keep_finished` here): their symbols in order, their scores and their alignments.
These are of a teacher-forced pass there, since the history that a beam keeps there is one choice late.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "peers"))
from environments import ENVIRONMENTS, python
from numerals import pairs, write

from regard.data.text import BOS, EOS, UNKNOWN
from regard.decoding import Search, search
from regard.interop import convert
from regard.tasks import load
from regard.tasks.encoded import pad

CASES = ("luong", "bahdanau", "bahdanau_layer")
PEER = Path(__file__).with_name("tensorflow_addons_peer.py")
ENVIRONMENT = "tensorflow_addons_rnn"
COLUMNS = (
    "model",
    "parameters",
    "log-probabilities",
    "alignments",
    "greedy outputs equal",
    "their alignments",
    "whole beams equal",
    "hypotheses equal",
    "their scores",
    "their alignments",
)


def main() -> None:
    """Trains what is not there, converts, compares, and prints a table of counts and largest differences."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", type=Path, default=Path("runs") / "conversion", help="of environments and models")
    parser.add_argument("--cases", nargs="*", default=CASES)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    where = python(ENVIRONMENT, arguments.folder / "environments", torch.__version__.split("+")[0])
    print(f"{ENVIRONMENTS[ENVIRONMENT].program}, torch {torch.__version__}, one thread, {date.today()}\n")
    print(f"| {' | '.join(COLUMNS)} |\n|---|{'---:|' * (len(COLUMNS) - 1)}")
    for case in arguments.cases:
        folder = (arguments.folder / "tfa" / case).resolve()
        asked = folder / "asked.json"
        if not (folder / "model.npz").exists():
            write(folder)
            _ask(where, "train", case, folder)
        if not (folder / "said.npz").exists():
            asked.write_text(json.dumps([{"source": s, "target": t} for s, t in pairs("test")]), encoding="utf-8")
            _ask(where, "say", folder, asked, folder / "said.npz")
        convert("tfa", folder / "model.npz", folder / "converted", overwrite=True)
        model = load(folder / "converted", device="cpu")
        counts, worst = compared(model, folder / "model.json", json.loads(asked.read_text()), folder / "said.npz")
        inputs, hypotheses = counts["inputs"], counts["inputs"] * model.config.decoding.beam
        row = (
            case,
            f"{model.num_parameters:,}",
            f"{worst['logits']:.1e}",
            f"{worst['alignment']:.1e}",
            f"{counts['greedy']} of {inputs}",
            f"{worst['greedy_alignment']:.1e}",
            f"{counts['beams']} of {inputs}",
            f"{counts['hypotheses']} of {hypotheses}",
            f"{worst['scores']:.1e}",
            f"{worst['beam_alignment']:.1e}",
        )
        print(f"| {' | '.join(row)} |", flush=True)


@torch.inference_mode()
def compared(
    model: Any, facts: Path, questions: Sequence[dict[str, str]], said: Path
) -> tuple[dict[str, int], dict[str, float]]:
    """How much is equal, and the largest differences.

    Args:
        model: the converted model.
        facts: the file beside the arrays.
        questions: the sources and targets.
        said: what tensorflow-addons says of them.
    """
    target = json.loads(facts.read_text())["target"]
    symbols: list[str] = target["symbols"]
    specials = {target["end"]: EOS, target["unknown"]: UNKNOWN}
    ours = torch.tensor([specials.get(s, model.target.vocabulary.number(s)) for s in symbols])
    decoder, settings = model.module.decoder, model.config.decoding
    counts = dict.fromkeys(("inputs", "greedy", "beams", "hypotheses"), 0)
    worst = dict.fromkeys(("logits", "alignment", "greedy_alignment", "scores", "beam_alignment"), 0.0)

    def differ(name: str, x: Any, y: Any) -> None:
        worst[name] = max(worst[name], float((torch.as_tensor(x) - torch.as_tensor(y)).abs().max()))

    with np.load(said, allow_pickle=False) as arrays:
        for number, question in enumerate(questions):
            theirs = {name: arrays[f"{number}.{name}"] for name in ("logits", "alignment", "greedy", "scores")}
            ids, _ = pad([model.source.encode(question["source"]).ids], end=model.source_end)
            memory = model.module.prepare(ids)
            inputs = torch.tensor([[BOS, *model.target.encode(question["target"]).ids]])
            output = decoder(inputs, memory, alignment=True)
            differ("logits", output.log_probabilities[0][:, ours], torch.from_numpy(theirs["logits"]).log_softmax(-1))
            differ("alignment", output.alignments["attention"][0, 0], theirs["alignment"])
            options: Any = {"bos": BOS, "eos": EOS, "max_length": settings.max_length, "alignment": True}
            ((greedy,),) = search(decoder, memory, Search(beam=1, length_penalty="none"), **options)
            counts["inputs"] += 1
            if list(greedy.tokens) == ours[theirs["greedy"]].tolist():
                counts["greedy"] += 1
                differ("greedy_alignment", greedy.alignments["attention"][0], arrays[f"{number}.greedy_alignment"])
            kept = {"keep_finished": True, "length_penalty": "gnmt", "alpha": settings.alpha}
            wanted = Search(beam=settings.beam, num_best=settings.beam, **kept)
            (hypotheses,) = search(decoder, memory, wanted, **options)
            equal = [
                list(hypothesis.tokens) == ours[arrays[f"{number}.beam.{k}"]].tolist()
                for k, hypothesis in enumerate(hypotheses)
            ]
            counts["hypotheses"] += sum(equal)
            counts["beams"] += sum(equal) == settings.beam
            for k in (k for k, same in enumerate(equal) if same):
                differ("scores", hypotheses[k].score, theirs["scores"][k])
                shown = hypotheses[k].alignments["attention"][0]
                differ("beam_alignment", shown, arrays[f"{number}.beam_alignment.{k}"])
    return counts, worst


def _ask(where: Path, *words: Any) -> None:
    """Runs the script in the program's environment."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"OMP_NUM_THREADS": "1"}
    done = subprocess.run([where, PEER, *map(str, words)], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr[-2000:])


if __name__ == "__main__":
    main()
