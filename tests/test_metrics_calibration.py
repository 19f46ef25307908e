"""Confidences and what is right: the calibration error, and temperatures against the values that must come out."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from regard.errors import DataError, ShapeError
from regard.metrics.calibration import (
    calibration_error,
    power_confidence,
    power_temperature,
    reliability,
    sigmoid_confidence,
    sigmoid_temperature,
    softmax_confidence,
    softmax_temperature,
)
from regard.runs.calibration import CALIBRATION, OUTPUT, Calibration, Stated


def test_the_calibration_error_is_that_of_a_calculation_by_hand() -> None:
    confidences = [0.95, 0.92, 0.55, 0.51, 0.05]
    is_right = [True, False, True, True, False]
    # bins of a tenth: (0.9, 1]: |0.5 - 0.935| twice, (0.5, 0.6]: |1 - 0.53| twice, (0, 0.1]: |0 - 0.05|
    expected = (2 * 0.435 + 2 * 0.47 + 0.05) / 5
    assert calibration_error(confidences, is_right, bins=10) == pytest.approx(expected)
    assert reliability(confidences, is_right, bins=10).counts.tolist() == [1, 2, 2]
    assert reliability(confidences, is_right, bins=10).edges.tolist() == [[0.0, 0.1], [0.5, 0.6], [0.9, 1.0]]


@pytest.mark.parametrize(("confidence", "number"), [(0.0, 0), (0.1, 0), (0.1000001, 1), (0.999, 9), (1.0, 9)])
def test_a_bin_has_its_upper_limit(confidence: float, number: int) -> None:
    curve = reliability([confidence], [True], bins=10)
    assert curve.edges.tolist() == [[number / 10, (number + 1) / 10]]


def test_an_error_without_outputs_is_no_number() -> None:
    assert math.isnan(calibration_error([], []))


@pytest.mark.parametrize(("confidences", "is_right"), [([0.5, 1.2], [True, True]), ([0.5], [True, False]), (0.5, True)])
def test_other_confidences_are_refused(confidences: object, is_right: object) -> None:
    with pytest.raises(ShapeError):
        calibration_error(confidences, is_right)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_temperatures_are_those_that_classes_were_drawn_with(temperature: float) -> None:
    random = np.random.default_rng(1)
    logits = 3 * random.normal(size=(20_000, 5))
    shares = softmax_confidence(logits, temperature)
    classes = (shares.cumsum(1) > random.random((len(logits), 1))).argmax(1)
    assert softmax_temperature(logits, classes) == pytest.approx(temperature, rel=0.05)
    logarithms = logits - np.log(np.exp(logits).sum(1, keepdims=True))  # a constant for each row changes nothing
    assert softmax_temperature(logarithms, classes) == pytest.approx(softmax_temperature(logits, classes), rel=1e-6)


@pytest.mark.parametrize("temperature", [0.3, 1.0, 2.5])
def test_temperatures_are_those_that_labels_and_outputs_were_drawn_with(temperature: float) -> None:
    random = np.random.default_rng(2)
    probabilities = random.random((20_000, 3))
    present = random.random(probabilities.shape) < sigmoid_confidence(probabilities, temperature)
    assert sigmoid_temperature(probabilities, present) == pytest.approx(temperature, rel=0.05)
    logarithms = np.log(random.random(20_000))
    is_right = random.random(20_000) < power_confidence(logarithms, temperature)
    assert power_temperature(logarithms, is_right) == pytest.approx(temperature, rel=0.05)


def test_a_calibrated_model_has_less_error_where_it_was_too_sure() -> None:
    random = np.random.default_rng(3)
    logits = 4 * random.normal(size=(5_000, 3))
    classes = (softmax_confidence(logits, 4.0).cumsum(1) > random.random((5_000, 1))).argmax(1)
    is_right = logits.argmax(1) == classes
    before, after = (
        calibration_error(softmax_confidence(logits, each).max(1), is_right)
        for each in (1.0, softmax_temperature(logits, classes))
    )
    assert before > 0.2
    assert after < 0.03


@pytest.mark.parametrize("is_right", [True, False])
def test_temperatures_stay_finite_if_all_outputs_are_right_or_wrong(is_right: bool) -> None:
    temperature = power_temperature([-1.0] * 30, [is_right] * 30)
    assert 0.04 < temperature < 21
    assert (power_confidence(-1.0, temperature) > math.exp(-1)) == is_right
    sure = softmax_temperature(np.log([[0.6, 0.4]] * 30), [0 if is_right else 1] * 30)
    assert (sure < 1) == is_right


def test_probabilities_of_zero_and_one_are_handled() -> None:
    with np.errstate(divide="ignore"):
        assert np.isfinite(softmax_temperature(np.log([[1.0, 0.0], [0.0, 1.0]] * 10), [0, 0] * 10))
    assert np.isfinite(power_temperature([0.0, -np.inf] * 10, [False, True] * 10))
    assert sigmoid_confidence([0.0, 1.0], 0.5).tolist() == pytest.approx([0.0, 1.0], abs=1e-9)


def test_a_calibration_is_read_as_it_was_written_and_only_for_its_weights(tmp_path: Path) -> None:
    calibration = Calibration.fitted({OUTPUT: 1.5}, [0.9] * 20, [0.5] * 20, [True, False] * 10)
    assert (calibration.before, calibration.after) == (pytest.approx(0.4), pytest.approx(0.0))
    assert Calibration.load(tmp_path, "abc") is None
    calibration.save(tmp_path, "abc")
    loaded = Calibration.load(tmp_path, "abc")
    assert loaded is not None
    assert (loaded.temperatures, loaded.items, loaded.before) == ({OUTPUT: 1.5}, 20, calibration.before)
    assert Calibration.load(tmp_path, "def") is None


@pytest.mark.parametrize("change", [{"temperatures": {"output": 0}}, {"temperatures": []}, {"items": "many"}])
def test_a_damaged_calibration_is_an_error(tmp_path: Path, change: dict[str, object]) -> None:
    Calibration({OUTPUT: 1.5}, 20, 0.1, 0.0).save(tmp_path, "abc")
    path = tmp_path / CALIBRATION
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(DataError, match="not the calibration of a model"):
        Calibration.load(tmp_path, "abc")


def test_too_few_items_are_not_fitted() -> None:
    with pytest.raises(DataError, match="3 held-out items, and at least 20"):
        Calibration.fitted({OUTPUT: 1.5}, [0.9] * 3, [0.5] * 3, [True] * 3)


def test_outputs_below_a_level_are_withheld() -> None:
    assert [Stated(at_least=0.9).withholds(each) for each in (0.89, 0.9, None)] == [True, False, False]
    assert not Stated().withholds(0.0)
