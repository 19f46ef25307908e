"""Puts a trained run into the package as the model `g2p-en`: half-precision weights, card, configuration, log.

python benchmarks/g2p/ship.py RUN_FOLDER DEV_FILE src/regard/pretrained/g2p-en
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import torch

import regard
from regard.runs.calibration import reliability_of
from regard.runs.store import save
from regard.training import Outcome

CARD = """\
# g2p-en

English spelling to pronunciation: from letters to ARPAbet phones without stress.

## Figures

On the {items:,} held-out words of `dev.tsv`, with beam {beam} and the shipped half-precision weights: word error rate
**{wer:.2%}** (an output is right if it equals any of the word's pronunciations), phone error rate **{per:.2%}** (edit
distance to the nearest pronunciation over its length). Recipe and checkpoint were chosen on other words: 2,670 of the
training words, which the model was not trained on either. Nine models, of this and of other recipes, were evaluated on
`dev.tsv`, and none on the 12,000 test words of the literature's split.

Its confidences have temperature {temperature:.2f}, fitted to the words that the recipe was chosen on; on `dev.tsv`
their calibration error is {calibration:.3f}.

## Data

The CMU Pronouncing Dictionary in the split of the literature (Chen 2003; Bisani & Ney 2008; Yao & Zweig 2015), stress
removed: the 106,837 training words, of which twice 2,670 were held out at random. The file is public:
`jg2p-core/src/test/resources/g014b2b.train` of github.com/steveash/jg2p, commit 9ef91103. CMUdict is (c) Carnegie
Mellon University, under a licence like BSD-2-Clause (see NOTICE). `data.json` has the SHA-256 of both files
(`teachers.0.train`, `teachers.0.dev`).

## Model

A bidirectional GRU encoder of two layers; location-sensitive attention, whose query is the new state of a GRU decoder,
without feedback; {parameters:,} parameters. It is the student of two teachers of the same size, of which one has
location-sensitive and one additive attention. `config.yaml` has all settings, including the seed; `metrics.jsonl` is
the log.

## Training

    cd benchmarks/g2p
    python hold_out.py train.tsv fit.tsv chosen_on.tsv
    regard train g2p-en.yaml --output runs/location
    regard train g2p-en.yaml --output runs/additive --set model.attention.recipe=bahdanau
    regard distill runs/location runs/additive fit.tsv --dev chosen_on.tsv --output runs/g2p-en \\
        --set training.start_from=runs/location --set training.epochs=12 --set training.learning_rate=0.001 \\
        --set training.warmup_steps=200 --set training.batch_tokens=2048 --set training.validate_every=540
    python ship.py runs/g2p-en dev.tsv ../../src/regard/pretrained/g2p-en

{steps:,} steps of the student in {minutes:.0f} minutes, after 13,500 of each teacher in about an hour, on two cores of
an AMD EPYC, which also did other work; torch {torch}. The weights are {weights}.

## Limits

Training had words of up to 22 letters; predicting warns of longer ones. Names, foreign words and abbreviations are
treated like English words. The model reads only letters (plus apostrophe, period and hyphen, as far as the dictionary
has them) and writes no stress. CMUdict is North American English.
"""


def main(run: Path, dev: Path, target: Path) -> None:
    model = regard.load(run, device="cpu")
    outcome = Outcome.read(run)
    assert outcome is not None, "The run is not finished."
    data = model.config.data.model_copy(update={"train": Path("fit.tsv"), "dev": Path("chosen_on.tsv")})
    location, additive = Path("runs/location"), Path("runs/additive")
    training = model.config.training.model_copy(
        update={"start_from": location, "teachers": (location, additive), "device": "auto"}
    )
    model.config = model.config.model_copy(update={"data": data, "training": training})
    shutil.rmtree(target, ignore_errors=True)
    save(model, target, half=True)
    shutil.copy(run / "metrics.jsonl", target / "metrics.jsonl")
    shipped = regard.load(target, device="cpu")
    evaluation = shipped.evaluate(dev)
    metrics, curve = evaluation.metrics, reliability_of(evaluation.scored)
    assert shipped.calibration is not None
    assert curve is not None
    (target / "card.md").write_text(
        CARD.format(
            items=int(metrics["items"]),
            beam=model.config.decoding.beam,
            wer=metrics["sequence_error_rate"],
            per=metrics["symbol_error_rate"],
            temperature=shipped.calibration.temperatures["output"],
            calibration=curve.error,
            parameters=sum(parameter.numel() for parameter in model.module.parameters()),
            steps=outcome.steps,
            minutes=outcome.seconds / 60,
            torch=torch.__version__.partition("+")[0],
            weights=f"those of step {outcome.weights[0]:,}"
            if len(outcome.weights) == 1
            else f"the mean of the last {len(outcome.weights)} validations'",
        ),
        encoding="utf-8",
    )
    print(json.dumps(metrics, indent=1), sum(file.stat().st_size for file in target.iterdir()), "bytes")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
