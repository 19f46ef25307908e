"""How well confidences agree with what is right, before and after the temperature, and which temperature suits texts.

    python benchmarks/calibration.py error MODEL TEST [MODEL TEST ...]
    python benchmarks/calibration.py texts MODEL FIT TEST

`error` prints the expected calibration error (15 bins) of trained models on test files, at temperature 1 and at the
temperature that the training has fitted to its held-out data, and what is kept and right at a confidence of 0.9.

`texts` compares definitions of the confidence of a text, each with one temperature fitted to FIT and judged on TEST:
p^(1/T) of the sequence; the same of the mean log-probability of a symbol; the product over symbols with the softmax of
each divided by T; the same with each symbol against all others together; that of the least sure symbol alone; and the
softmax of log p/T over the beam.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from regard.data.text import EOS
from regard.metrics.calibration import calibration_error
from regard.runs.calibration import Calibration
from regard.runs.store import load

Values = NDArray[np.float64]
GRID = np.exp(np.linspace(-3, 3, 121))


def error(model: Any, path: Path) -> str:
    """A row of the table: the error before and after, and what is kept at 0.9."""
    calibration: Calibration = model.calibration
    errors = []
    for each in (None, calibration):
        model.calibration = each
        scored = model.evaluate(path).scored
        confidences, right = (np.array([getattr(e, name) for e in scored]) for name in ("confidence", "is_right"))
        errors.append(calibration_error(confidences, right))
    kept = confidences >= 0.9
    temperatures = ", ".join(f"{value:.3g}" for value in calibration.temperatures.values())
    return (
        f"| {model.name} | {len(scored):,} | {right.mean():.2%} | {temperatures} | {errors[0]:.4f} | {errors[1]:.4f} "
        f"| {kept.mean():.1%} | {right[kept].mean():.2%} |"
    )


class Outputs:
    """What definitions of the confidence of a text read: of the outputs of a file, and whether they are right."""

    def __init__(self, model: Any, path: Path) -> None:
        search = model.config.decoding
        search = search.replace(num_best=search.beam)
        evaluation = model.evaluate(path, search=search)
        self.right = np.array([each.is_right for each in evaluation.scored])
        self.beams = [
            np.array([p.log_probability, *(other.log_probability for other in p.alternatives)])
            for p in (each.prediction for each in evaluation.scored)
        ]
        self.totals = np.array([beam[0] for beam in self.beams])
        self.steps = [self._steps(model, each) for each in evaluation.scored]

    def _steps(self, model: Any, entry: Any) -> tuple[Values, Values]:
        """(T, N) log-probabilities of every symbol at each step of an output, and (T,) those of its symbols."""
        (source,) = model.sources([entry.item.source])
        prediction = entry.prediction
        tokens = prediction.tokens[:-1] if prediction.stop_reason == "eos" else prediction.tokens
        ids = [*source.spelling.ids(tokens), *[EOS] * (prediction.stop_reason == "eos")]
        inputs = torch.tensor([[model.begin, *ids[:-1]]])
        with torch.inference_mode():
            memory = model.encode([source]).memory
            every = model.module.decoder.forward(inputs, memory).log_probabilities[0].double().numpy()
        return every, every[np.arange(len(ids)), ids]


def sequence(outputs: Outputs, temperature: float) -> Values:
    """p^(1/T)."""
    return np.exp(outputs.totals / temperature)


def mean_symbol(outputs: Outputs, temperature: float) -> Values:
    """p^(1/(T n)) of n symbols."""
    return np.array([np.exp(chosen.mean() / temperature) for _, chosen in outputs.steps])


def symbols(outputs: Outputs, temperature: float) -> Values:
    """The product of softmax(z/T)."""
    results = []
    for every, chosen in outputs.steps:
        scaled = np.maximum(every, -1e4) / temperature
        results.append(np.exp((chosen / temperature - np.logaddexp.reduce(scaled, axis=1)).sum()))
    return np.array(results)


def each_symbol(outputs: Outputs, temperature: float) -> Values:
    """The product of sigmoid(logit(p)/T)."""
    results = []
    for _, chosen in outputs.steps:
        chosen = np.clip(chosen, -50, -1e-9)
        logits = chosen - np.log(-np.expm1(chosen))
        results.append(np.exp(-np.logaddexp(0, -logits / temperature).sum()))
    return np.array(results)


def least_sure(outputs: Outputs, temperature: float) -> Values:
    """sigmoid(logit(p)/T) of the least probable symbol."""
    least = np.clip([chosen.min() for _, chosen in outputs.steps], -50, -1e-9)
    return np.exp(-np.logaddexp(0, -(least - np.log(-np.expm1(least))) / temperature))


def beam(outputs: Outputs, temperature: float) -> Values:
    """softmax(log p/T) over the hypotheses of the beam."""
    return np.array([np.exp(b[0] / temperature - np.logaddexp.reduce(b / temperature)) for b in outputs.beams])


DEFINITIONS: dict[str, Callable[[Outputs, float], Values]] = {
    "sequence": sequence,
    "mean symbol": mean_symbol,
    "symbols, softmax": symbols,
    "symbols, each against the others": each_symbol,
    "the least sure symbol": least_sure,
    "beam": beam,
}


def loss(confidences: Values, right: NDArray[np.bool_]) -> float:
    """The mean negative log-likelihood of what is right."""
    confidences = np.clip(confidences, 1e-9, 1 - 1e-9)
    return float(-np.where(right, np.log(confidences), np.log1p(-confidences)).mean())


def ranking(confidences: Values, right: NDArray[np.bool_]) -> float:
    """The share of pairs of a right and a wrong output in which the right one has more confidence (AUROC)."""
    ranks = confidences.argsort().argsort() + 1
    count = right.sum()
    return float((ranks[right].sum() - count * (count + 1) / 2) / (count * (~right).sum()))


def texts(model: Any, fit: Path, test: Path) -> None:
    """Prints a table of the definitions."""
    fitted, judged = Outputs(model, fit), Outputs(model, test)
    print("| definition | T | error at T = 1 | error | loss | ranking |\n|---|---:|---:|---:|---:|---:|")
    for name, definition in DEFINITIONS.items():
        temperature = min(GRID, key=lambda T: loss(definition(fitted, T), fitted.right))
        before, after = definition(judged, 1.0), definition(judged, temperature)
        print(
            f"| {name} | {temperature:.3g} | {calibration_error(before, judged.right):.4f} | "
            f"{calibration_error(after, judged.right):.4f} | {loss(after, judged.right):.4f} | "
            f"{ranking(after, judged.right):.3f} |"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one of the commands above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("error", "texts"))
    parser.add_argument("names", nargs="+")
    options = parser.parse_args(arguments)
    if options.command == "texts":
        name, fit, test = options.names
        texts(load(name, device="cpu"), Path(fit), Path(test))
        return
    print("| model | items | right | temperature | error at T = 1 | error | kept at 0.9 | right of these |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for name, path in zip(options.names[::2], options.names[1::2], strict=True):
        print(error(load(name, device="cpu"), Path(path)))


if __name__ == "__main__":
    main()
