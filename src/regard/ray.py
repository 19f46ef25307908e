"""Models in pipelines of Ray Data (extra `regard[ray]`)."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.data.objects import text_at
from regard.errors import ConfigError, DataError, UnsupportedError, counted
from regard.runs.calibration import Stated
from regard.runs.contract import AbstractModel
from regard.runs.store import load
from regard.training.allocator import keep_memory

__all__ = ["Predictor"]


class Predictor:
    """A model for `map_batches` of a dataset of Ray: adds columns with outputs to those of a batch.

    Each worker loads the model once. With `num_gpus=1` in `map_batches` it uses the GPU that Ray gives it. Outputs are
    those of `regard predict`; of speech they are WAV files as bytes.

    Args:
        model: the name of a shipped model, a run folder that all machines reach, or a model.
        input: the column of texts, or the columns of an input that has several.
        output: the new column. The further ones are named after it.
        scores: adds `<output>_score`, the score of each output; of labels their probabilities.
        confidence: adds `<output>_confidence`, the probability that the output is right.
        warnings: adds `<output>_warnings`, why an input was changed or has no output; empty for most.
        at_least: leaves outputs with less confidence empty.
        settings: keys of `decoding`, such as `{"beam": 10}`.
        device: as of `regard.load`; None: the GPU that Ray gives, or the CPU.

    Raises:
        UnsupportedError: for models that read files, and for confidences or scores that a model does not have.
        ConfigError: for another number of columns than an input of the model has, and for wrong settings.

    >>> predictor = Predictor("g2p-en", input="word", confidence=True)
    >>> batch = predictor({"word": np.array(["attention", "regard"], dtype=object)})
    >>> batch["prediction"].tolist(), batch["prediction_confidence"].round(2).tolist()
    (['AH T EH N SH AH N', 'R AH G AA R D'], [0.5, 0.73])
    """

    def __init__(
        self,
        model: str | Path | AbstractModel[Any],
        *,
        input: str | Sequence[str] = "text",
        output: str = "prediction",
        scores: bool = False,
        confidence: bool = False,
        warnings: bool = False,
        at_least: float = 0.0,
        settings: Mapping[str, Any] | None = None,
        device: str | None = None,
    ) -> None:
        loaded = model if isinstance(model, AbstractModel) else load(model, device=device or _given_device())
        self._model = loaded.with_decoding(**settings) if settings else loaded
        self._columns, self._output = [input] if isinstance(input, str) else list(input), output
        self._scores, self._confidence, self._warnings = scores, confidence, warnings
        self._stated = Stated(confidence, at_least)
        task, fields = loaded.config.task, loaded.input_fields
        if loaded.input_kind == "file":
            raise UnsupportedError(f"Predictor is for models whose inputs are texts; those of {task} read files.")
        if len(self._columns) != len(fields):
            raise ConfigError(
                f"input is {counted(len(self._columns), 'column|columns')} ({', '.join(self._columns)}); an input of "
                f"{loaded.name} has {len(fields)} ({', '.join(map(str, fields))})."
            )
        if loaded.no_confidence and self._stated != Stated():
            raise UnsupportedError(f"Models of {task} have no confidence: {loaded.no_confidence}.")
        if loaded.sounds and scores:
            raise UnsupportedError(f"Models of {task} have no scores.")
        if loaded.device.type == "cpu":
            keep_memory()

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """The batch with the new columns.

        Args:
            batch: arrays by column, as Ray passes them unless another `batch_format` is asked for.

        Raises:
            DataError: for a column that is missing or exists already, or a value that is no text.
        """
        if not isinstance(batch, Mapping):
            raise DataError(f"the batch is a {type(batch).__name__}; leave out batch_format, or give 'numpy'.")
        if missing := [name for name in self._columns if name not in batch]:
            raise DataError(f"the dataset has no column {missing[0]}; it has {', '.join(batch)}.")
        rows = zip(*(batch[name].tolist() for name in self._columns), strict=True)
        texts = [
            "\t".join(text_at(value, f"row {i} of the batch", name) for name, value in zip(self._columns, row))
            for i, row in enumerate(rows, start=1)
        ]
        sound = {"sound": True} if self._model.sounds else {}
        predictions = self._model.predict(texts, alignment=False, **sound)
        added = self._added(predictions)
        if taken := [name for name in added if name in batch]:
            raise DataError(f"the dataset has a column {taken[0]} already: name another one by output.")
        return {**batch, **added}

    def _added(self, predictions: Sequence[Any]) -> dict[str, Any]:
        """The new columns."""
        model, column, name = self._model, self._model.output_column, self._output
        if model.sounds:
            outputs: list[Any] = [model.sound(each) for each in predictions]
        else:
            rows = [model.rows(each, scores=self._scores)[0] for each in predictions]
            outputs = [getattr(each, "text", row[column]) for each, row in zip(predictions, rows)]
        added = {}
        if self._scores:
            is_number = model.is_number("score")
            added["score"] = np.array([row[column + 1] for row in rows], dtype=np.float64 if is_number else object)
        if self._stated != Stated():
            confidences = [model.row_confidences(each)[0] for each in predictions]
            outputs = ["" if self._stated.withholds(p) else text for p, text in zip(confidences, outputs)]
            if self._confidence:
                added["confidence"] = np.array(confidences, dtype=np.float64)
        if self._warnings:
            added["warnings"] = np.array(["; ".join(each.warnings) for each in predictions], dtype=object)
        whole = {name: np.array(outputs, dtype=object)}
        return whole | {f"{name}_{kind}": values for kind, values in added.items()}


def _given_device() -> str:
    """The GPU that Ray has given this process, or the CPU; without Ray a GPU if there is one."""
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return "auto"
    return "cuda" if ray.get_gpu_ids() else "cpu"
