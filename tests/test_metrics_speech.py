"""Times of units, reading errors, durations and pitch are those of the plainest computation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard import metrics
from regard.data.speech import Intervals
from regard.errors import ConfigError, DataError, RegardError, ShapeError
from regard.metrics.monotonic_path import LEAST_WEIGHT

sizes = st.tuples(st.integers(1, 6), st.integers(1, 6), st.integers(0, 10_000))


def softmax(energies):
    weights = np.exp(energies - energies.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def drawn(steps, positions, seed, sharpness=2.0):
    return softmax(sharpness * np.random.default_rng(seed).standard_normal((steps, positions)))


def hard(*path, size):
    return np.eye(size)[list(path)]


def every_path(steps, positions):
    """All paths from 0 or 1 to the last position or the one before, that stay, move on or skip one."""
    for path in itertools.product(range(positions), repeat=steps):
        moves = [b - a for a, b in itertools.pairwise((-1, *path, positions))]
        inner = moves[1:-1]
        if moves[0] in (1, 2) and moves[-1] in (1, 2) and all(move in (0, 1, 2) for move in inner):
            yield path


def score(weights, path):
    return sum(math.log(max(weights[t, n], LEAST_WEIGHT)) for t, n in enumerate(path))


@settings(max_examples=80, deadline=None)
@given(sizes, st.booleans())
def test_the_best_path_is_the_best_of_all_paths(size, with_zeros):
    steps, positions, seed = size
    weights = drawn(steps, positions, seed)
    if with_zeros:
        weights[weights < 0.2] = 0
    found = metrics.monotonic_path(weights)
    paths = list(every_path(steps, positions))
    if not paths:
        assert (found == -1).all()
        assert 2 * steps < positions - 1
        return
    assert tuple(found) in paths
    assert score(weights, found) == pytest.approx(max(score(weights, path) for path in paths))


def test_paths_of_a_padded_batch_are_those_of_each_alone():
    shapes = [(7, 5), (3, 2), (9, 9), (2, 8), (1, 1), (0, 3), (4, 0)]
    alone = [drawn(t, s, i) if t * s else np.zeros((t, s)) for i, (t, s) in enumerate(shapes)]
    batch = np.full((len(shapes), 10, 11), np.nan)
    for i, weights in enumerate(alone):
        batch[i, : len(weights), : weights.shape[1]] = weights
    lengths = {"target_length": [t for t, _ in shapes], "source_length": [s for _, s in shapes]}
    paths = metrics.monotonic_path(batch, **lengths)
    steps = metrics.speech.StepTimes(sample_rate=1000, hop_length=20)
    times = metrics.speech.unit_times(batch, steps, **lengths)
    reading = metrics.speech.reading_errors(batch, **lengths)
    for i, weights in enumerate(alone):
        assert paths[i, : len(weights)].tolist() == metrics.monotonic_path(weights).tolist()
        assert (paths[i, len(weights) :] == -1).all()
        own = metrics.speech.unit_times(weights, steps)
        for name in ("centres", "ends"):
            np.testing.assert_allclose(getattr(times[i], name)[: weights.shape[1]], getattr(own, name), rtol=1e-12)
            assert np.isnan(getattr(times[i], name)[weights.shape[1] :]).all()
        one = metrics.speech.reading_errors(weights)
        assert [int(getattr(reading, k)[i]) for k in ("skipped", "repeated", "num_units", "is_cut")] == [
            int(getattr(one, k)[0]) for k in ("skipped", "repeated", "num_units", "is_cut")
        ]


def test_a_path_goes_through_weights_of_zero_where_it_must():
    weights = hard(0, 0, 3, 3, size=4)
    path = metrics.monotonic_path(weights)
    assert (np.diff(path) <= 2).all()
    assert path[0] == 0
    assert path[-1] == 3


def test_alignments_with_heads_keep_their_axes():
    weights = np.stack([drawn(6, 4, seed) for seed in range(4)]).reshape(2, 2, 6, 4)
    paths = metrics.monotonic_path(torch.tensor(weights), target_length=[6, 5])
    assert paths.shape == (2, 2, 6)
    assert paths[1, 1, :5].tolist() == metrics.monotonic_path(weights[1, 1, :5]).tolist()
    assert metrics.speech.unit_times(weights, metrics.speech.StepTimes(1000, 10)).centres.shape == (2, 2, 4)


def test_weights_that_are_none_are_refused_except_at_padding():
    weights = np.array([[0.5, 0.5], [np.nan, -1.0]])
    with pytest.raises(RegardError, match="target step 1, source position 0"):
        metrics.monotonic_path(weights)
    with pytest.raises(RegardError, match="target step 1, source position 1"):
        metrics.speech.unit_times(np.nan_to_num(weights), metrics.speech.StepTimes(1000, 10))
    metrics.monotonic_path(weights, target_length=1)
    with pytest.raises(ShapeError, match="at least the axes"):
        metrics.speech.reading_errors([0.5, 0.5])


@pytest.mark.parametrize("reduction", [1, 2, 3])
def test_a_step_is_centred_on_its_frames(reduction):
    times = metrics.speech.StepTimes(sample_rate=16000, hop_length=200, reduction=reduction)
    frames = np.arange(12) * 200 / 16000  # frame i is centred on sample i·hop
    groups = frames.reshape(-1, reduction)
    np.testing.assert_allclose(times.middles(len(groups)), groups.mean(1))
    edges = times.edges(len(groups))
    assert edges[0] == 0
    np.testing.assert_allclose(edges[1:], groups[:, -1] + 100 / 16000)
    assert times.seconds == pytest.approx(reduction * 0.0125)
    later = metrics.speech.StepTimes(16000, 200, reduction, first=100 / 16000)  # frame i is centred in its hop
    np.testing.assert_allclose(later.middles(len(groups)), groups.mean(1) + 100 / 16000)
    np.testing.assert_allclose(later.edges(len(groups)), np.arange(len(groups) + 1) * times.seconds)


@pytest.mark.parametrize("name", ["sample_rate", "hop_length", "reduction"])
def test_times_need_positive_numbers(name):
    with pytest.raises(ConfigError, match=f"{name} must be at least 1; got 0"):
        metrics.speech.StepTimes(**{"sample_rate": 1, "hop_length": 1, "reduction": 1, name: 0})


def test_units_end_where_the_path_leaves_them():
    steps = metrics.speech.StepTimes(sample_rate=1000, hop_length=10, reduction=2)
    times = metrics.speech.unit_times(hard(0, 0, 1, 3, 3, size=4), steps)
    edges = steps.edges(5)
    assert times.ends.tolist() == [edges[2], edges[3], edges[3], edges[5]]
    np.testing.assert_allclose(times.durations, np.diff([0, *times.ends]))
    assert times.durations[2] == 0
    middles = steps.middles(5)
    np.testing.assert_allclose(times.centres[[0, 1, 3]], [middles[:2].mean(), middles[2], middles[3:].mean()])
    assert np.isnan(times.centres[2])


@settings(max_examples=30, deadline=None)
@given(sizes)
def test_centres_are_means_of_times_by_weight(size):
    steps, positions, seed = size
    weights = 0.7 * drawn(steps, positions, seed)
    of = metrics.speech.StepTimes(sample_rate=8000, hop_length=100, reduction=3)
    found = metrics.speech.unit_times(weights, of).centres
    for n in range(positions):
        mass = sum(weights[t, n] for t in range(steps))
        time = sum(weights[t, n] * ((t + 0.5) * 3 - 0.5) * 100 / 8000 for t in range(steps)) / mass
        assert found[n] == pytest.approx(time)


LABELS = Intervals.of([(0.0, 0.2, "a"), (0.2, 0.2, " "), (0.2, 0.4, "b"), (0.4, 0.5, "c")])


def test_differences_leave_out_what_is_not_heard_and_what_has_no_label():
    times = metrics.speech.UnitTimes(np.array([0.1, 9, 0.35, 0.5, 9]), np.array([0.25, 9, 0.45, 0.5, 9]))
    differences = metrics.speech.timing_differences(times, LABELS)
    np.testing.assert_allclose(differences.centres, [0, 0.05, 0.05], atol=1e-12)
    np.testing.assert_allclose(differences.ends, [0.05, 0.05, 0], atol=1e-12)
    with pytest.raises(ShapeError, match="at least the 4 units"):
        metrics.speech.timing_differences(metrics.speech.UnitTimes(np.zeros(3), np.zeros(3)), LABELS)
    with pytest.raises(ShapeError, match="one sentence"):
        metrics.speech.timing_differences(metrics.speech.UnitTimes(np.zeros((2, 4)), np.zeros((2, 4))), LABELS)


def test_errors_keep_the_lag_which_stands_beside_them():
    nan = np.nan
    first = metrics.speech.TimingDifferences(np.array([0.1, nan]), np.array([0.03, 0.05]))
    second = metrics.speech.TimingDifferences(np.array([-0.2, 0.0]), np.array([0.01, nan]))
    errors = metrics.speech.timing_errors([first, second])
    assert (errors.num_units, errors.num_missing) == (4, 1)
    assert errors.lag_ms == pytest.approx(30)
    assert errors.boundary_ms == pytest.approx((30 + 50) / 2)  # of 10, 30, 50, 500
    assert errors.lagless_ms == pytest.approx((20 + 20) / 2)  # of 0, 20, 20, 500
    assert errors.near_share == 0.75
    assert errors.centre_ms == pytest.approx((100 + 500 + 200 + 0) / 4)
    assert "lag +30 ms, without it 20 ms" in str(errors)


def test_without_units_there_are_no_errors_and_without_times_all_are_missing():
    assert math.isnan(metrics.speech.timing_errors([]).boundary_ms)
    errors = metrics.speech.timing_errors([metrics.speech.TimingDifferences(np.full(2, np.nan), np.full(2, np.nan))])
    assert errors.boundary_ms == errors.centre_ms == 500
    assert errors.near_share == 0


def test_an_alignment_on_its_labels_has_no_errors_and_a_late_one_has_a_lag():
    steps = metrics.speech.StepTimes(sample_rate=1000, hop_length=10)
    durations = np.array([3, 1, 4, 2])
    ends = steps.edges(10)[durations.cumsum()]
    labels = Intervals(tuple("abcd"), np.array([-0.005, *ends[:-1]]), ends)
    path = np.repeat(np.arange(4), durations)
    errors = metrics.speech.timing_errors(
        [metrics.speech.timing_differences(metrics.speech.unit_times(hard(*path, size=4), steps), labels)]
    )
    assert errors.boundary_ms == pytest.approx(0, abs=1e-9)
    assert errors.lag_ms == pytest.approx(0, abs=1e-9)
    assert errors.centre_ms == pytest.approx(0, abs=1e-9)
    late = hard(0, 0, *path, size=4)
    errors = metrics.speech.timing_errors(
        [metrics.speech.timing_differences(metrics.speech.unit_times(late, steps), labels)]
    )
    assert errors.lag_ms == errors.boundary_ms == pytest.approx(20)
    assert errors.lagless_ms == pytest.approx(0, abs=1e-9)


def spread(alignment, width):
    """Weights that are spread over neighbouring units, as those of a mixture with wide components."""
    size = alignment.shape[-1]
    distance = np.arange(size)[:, None] - np.arange(size)
    weights = alignment @ np.exp(-((distance / width) ** 2) / 2)
    return weights / weights.sum(-1, keepdims=True)


def spoken_path(random, *, count=30):
    """The unit of each step of a sentence of uneven units, some of them long pauses, and its labels."""
    durations = random.integers(2, 9, count)
    durations[[8, 19]] = 40  # steps of 10 ms
    steps = metrics.speech.StepTimes(sample_rate=1000, hop_length=10)
    ends = steps.edges(durations.sum())[durations.cumsum()]
    starts = np.concatenate([[0.0], ends[:-1]])
    return np.repeat(np.arange(count), durations), Intervals(tuple("abcdefghij" * 3), starts, ends), steps


def test_the_figures_of_timing_rank_alignments_as_their_speech_is_heard():
    path, labels, steps = spoken_path(np.random.default_rng(0))
    size, seconds = len(labels), len(path) / 100
    late = lambda alignment, count: alignment[np.clip(np.arange(len(path)) - count, 0, len(path) - 1)]  # noqa: E731
    perfect = hard(*path, size=size)
    even = hard(*(np.arange(len(path)) * size // len(path)), size=size)
    no_pauses = hard(*np.minimum(np.arange(len(path)) // 6, size - 1), size=size)
    alignments = {
        "perfect": perfect,
        "soft": spread(perfect, 0.5),
        "reading 60 ms ahead": late(perfect, -6),
        "lagging by two steps": late(perfect, 2),
        "reading far ahead": late(spread(perfect, 1.5), -22),
        "lagging mixture": late(spread(perfect, 1.5), 17),
        "diagonal": even,
        "without the pauses": no_pauses,
    }
    errors = {
        name: metrics.speech.timing_errors(
            [metrics.speech.timing_differences(metrics.speech.unit_times(weights, steps), labels)]
        )
        for name, weights in alignments.items()
    }
    baseline = metrics.speech.timing_errors(
        [metrics.speech.timing_differences(metrics.speech.diagonal_times(size, seconds), labels)]
    )
    formed = [name for name, each in errors.items() if each.is_better_than(baseline)]
    assert formed == ["perfect", "soft", "reading 60 ms ahead", "lagging by two steps"]
    centres = [errors[name].centre_ms for name in ("perfect", "lagging by two steps", "lagging mixture")]
    assert centres == sorted(centres)
    boundaries = [errors[name].boundary_ms for name in ("perfect", "lagging by two steps", "lagging mixture")]
    assert boundaries == sorted(boundaries)
    # what flattered it: its boundaries are even once the lag is gone
    assert errors["lagging mixture"].lagless_ms < baseline.lagless_ms
    assert errors["lagging mixture"].lag_ms == pytest.approx(170, abs=20)


def test_blurred_speech_has_less_contrast_and_speech_without_pauses_keeps_none():
    random = np.random.default_rng(0)
    sounds = random.normal(0, 1, (12, 20))
    frames = np.repeat(sounds, 8, axis=0)
    silence = np.full((12, 20), -8.0)
    recorded = np.concatenate([silence, frames[:40], silence, frames[40:], silence])
    own = lambda mel, path: metrics.speech.clarity_scores([metrics.speech.clarity(mel, recorded, path)])  # noqa: E731
    same = own(recorded, np.stack([np.arange(len(recorded))] * 2, 1))
    assert (same.contrast_ratio, same.pauses_kept, same.pause_frames) == (1.0, 1.0, 12)
    blurred = recorded.copy()
    spoken = recorded[:, 0] > -8
    blurred[spoken] = 0.5 * recorded[spoken] + 0.5 * recorded[spoken].mean(0)
    assert own(blurred, np.stack([np.arange(len(recorded))] * 2, 1)).contrast_ratio == pytest.approx(0.5, abs=0.02)
    # the same sounds in a row: the pause of the recording is paired with the sounds around it
    hasty = np.concatenate([silence, frames, silence])
    at = np.arange(len(recorded))
    path = np.stack([np.where(at < 52, at, np.where(at < 64, 52, at - 12)), at], 1)
    hurried = own(hasty, path)
    assert hurried.pauses_kept == 0
    assert hurried.contrast_ratio == pytest.approx(1)
    assert "0% of the recordings' pauses kept" in str(hurried)
    never = metrics.speech.clarity_scores([metrics.speech.clarity(frames, frames, np.stack([np.arange(96)] * 2, 1))])
    assert "no pauses within sentences" in str(never)
    assert math.isnan(never.pauses_kept)
    with pytest.raises(ShapeError, match=r"\(T, M\)"):
        metrics.speech.spectral_contrast(np.zeros(3))


def test_pitch_without_voiced_frames_is_said_in_words():
    errors = metrics.speech.pitch_errors([0.0, 100.0], [100.0, 0.0], [[0, 0], [1, 1]])
    assert str(errors).startswith("pitch not compared: no frames voiced in both, voicing differs")
    assert "nan" not in str(errors)
    assert "nan" not in str(metrics.speech.PitchErrors.joined([]))


def test_baselines_fill_the_sentence():
    times = metrics.speech.diagonal_times(4, 2.0)
    np.testing.assert_allclose(times.ends, [0.5, 1, 1.5, 2])
    np.testing.assert_allclose(times.centres, [0.25, 0.75, 1.25, 1.75])
    means = metrics.speech.MeanDurations.of([LABELS, Intervals.of([(0, 0.4, "a")])])
    assert means.means["a"] == pytest.approx(0.3)
    assert means.means[" "] == 0
    assert means.overall == pytest.approx(0.9 / 5)
    times = means.times(["a", "?", " ", "c"], seconds=1.16)
    np.testing.assert_allclose(times.ends, [0.6, 0.96, 0.96, 1.16])
    np.testing.assert_allclose(times.centres, [0.3, 0.78, 0.96, 1.06])
    np.testing.assert_allclose(means.times([" ", " "], 1.0).ends, [0.5, 1])
    assert len(means.times([], 1.0)) == 0
    with pytest.raises(DataError, match="no unit"):
        metrics.speech.MeanDurations.of([])


def test_a_better_alignment_is_better_than_all_baselines():
    def errors(ms):
        return metrics.speech.TimingErrors(1, 0, ms, ms, 0, 0, 0)

    assert errors(40).is_better_than(errors(50), errors(41))
    assert not errors(45).is_better_than(errors(50), errors(41))


def read_plainly(weights, is_read, duration=1.0, reference=1.0):
    """The definition, one step after another."""
    steps, positions = weights.shape
    skipped = sum(is_read[n] and weights[:, n].sum() < 0.1 for n in range(positions))
    farthest = position = -1
    returns, was_behind = 0, False
    for t in range(steps):
        if weights[t].any():
            position = int(np.argmax(weights[t]))
        farthest = max(farthest, position)
        behind = farthest - position >= 2
        returns += behind and not was_behind
        was_behind = behind
    last = max([n for n in range(positions) if is_read[n]], default=-1)
    return skipped, returns, farthest < last, duration > 2 * reference


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 12), st.integers(1, 6), st.integers(0, 10_000))
def test_reading_errors_are_those_of_the_definition(steps, positions, seed):
    draw = np.random.default_rng(seed)
    weights = drawn(steps, positions, seed, sharpness=4.0) if steps else np.zeros((0, positions))
    weights[draw.random(steps) < 0.2] = 0
    is_read = draw.random(positions) < 0.8
    duration, reference = draw.random(2)
    found = metrics.speech.reading_errors(
        weights, is_read=is_read, duration=float(duration), reference_duration=float(reference)
    )
    assert (
        int(found.skipped[0]),
        int(found.repeated[0]),
        bool(found.is_cut[0]),
        bool(found.is_babble[0]),
    ) == read_plainly(weights, is_read, duration, reference)
    assert found.num_units[0] == is_read.sum()


def test_each_kind_of_reading_error_is_found():
    def kinds(*path, size=6, **options):
        found = metrics.speech.reading_errors(hard(*path, size=size), **options)
        return int(found.skipped[0]), int(found.repeated[0]), bool(found.is_cut[0]), bool(found.is_babble[0])

    assert kinds(0, 1, 2, 3, 4, 5) == (0, 0, False, False)
    assert kinds(0, 1, 3, 4, 5) == (1, 0, False, False)
    assert kinds(0, 1, 2, 1, 2, 3, 4, 5) == (0, 0, False, False)
    assert kinds(0, 1, 2, 3, 2, 1, 0, 1, 2, 3, 4, 5) == (0, 1, False, False)
    assert kinds(0, 3, 1, 3, 2, 1, 4, 5) == (0, 2, False, False)
    assert kinds(0, 1, 2) == (3, 0, True, False)
    assert kinds(0, 1, 2, 3, 4, is_read=[True] * 5 + [False]) == (0, 0, False, False)
    assert kinds(*range(6), duration=201, reference_duration=100) == (0, 0, False, True)
    assert kinds(*range(6), duration=200, reference_duration=100) == (0, 0, False, False)


def test_rates_are_over_all_units_and_clean_sentences_have_no_error_and_end():
    weights = np.stack([hard(0, 1, 2, 3, size=4), hard(0, 1, 1, 3, size=4), hard(0, 1, 2, 3, size=4)])
    found = metrics.speech.reading_errors(weights, has_ended=[True, True, False])
    assert found.is_clean.tolist() == [True, False, False]
    assert found.clean_share == pytest.approx(1 / 3)
    assert found.per_hundred() == pytest.approx(100 / 12)
    assert found.per_hundred("skipped") == pytest.approx(100 / 12)
    assert found.per_hundred("is_cut") == 0
    assert "1 did not end" in str(found)
    both = metrics.speech.ReadingErrors.joined([found, found[1]])
    assert len(both) == 4
    assert both.skipped.tolist() == [0, 1, 0, 1]
    assert found[-1].has_ended.tolist() == [False]
    none = metrics.speech.ReadingErrors.joined([])
    assert math.isnan(none.clean_share)
    assert math.isnan(none.per_hundred())


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"duration": 1.0}, "or neither"),
        ({"is_read": [1, 1, 1]}, "is_read must be bool"),
        ({"is_read": [True]}, "is_read must be"),
        ({"has_ended": [True, False]}, "has_ended must be"),
        ({"duration": [1.0, 2.0], "reference_duration": 1.0}, "duration must be"),
    ],
)
def test_arguments_of_reading_errors_fit_the_alignment(options, said):
    with pytest.raises(ShapeError, match=said):
        metrics.speech.reading_errors(np.eye(3), **options)
    with pytest.raises(ShapeError, match="one alignment per sentence"):
        metrics.speech.reading_errors(np.ones((1, 2, 3, 3)))


def test_durations_are_compared_by_unit_and_in_sum():
    times = metrics.speech.UnitTimes(np.zeros(5), np.array([0.1, 0.1, 0.4, 0.5, 0.7]))
    first = metrics.speech.duration_differences(times, LABELS, seconds=0.7, reference_seconds=0.5)
    np.testing.assert_allclose(first.units, [-0.1, 0.1, 0.0], atol=1e-12)
    second = metrics.speech.DurationDifferences(np.array([np.nan]), 0.1, 0.3)
    errors = metrics.speech.duration_errors([first, second])
    assert errors.ratio == pytest.approx(1)
    assert errors.unit_ms == pytest.approx((100 + 100 + 0 + 500) / 4)
    assert errors.num_units == 4
    assert math.isnan(metrics.speech.duration_errors([]).ratio)
    with pytest.raises(ShapeError, match="at least the 4 units"):
        metrics.speech.duration_differences(
            metrics.speech.diagonal_times(1, 1.0), LABELS, seconds=1, reference_seconds=1
        )


def test_pitch_is_compared_pair_by_pair():
    draw = np.random.default_rng(3)
    tracks = [np.where(draw.random((2, n)) < 0.4, 0, draw.uniform(80, 300, (2, n))) for n in (7, 5)]
    path = np.full((2, 11, 2), -1)
    pairs = [[(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (5, 4), (6, 4)], [(0, 0), (1, 0), (2, 1), (9, 4)]]
    for row, some in enumerate(pairs):
        path[row, : len(some)] = some
    found = metrics.speech.pitch_errors(torch.tensor(tracks[0]), tracks[1], torch.tensor(path))
    for row, some in enumerate(pairs):
        cents, differing = [], 0
        for t, u in some:
            f = tracks[0][row, t] if t < 7 else 0
            g = tracks[1][row, u]
            differing += (f > 0) != (g > 0)
            if f > 0 and g > 0:
                cents.append(1200 * math.log2(f / g))
        one = found[row]
        assert one.num_pairs.tolist() == [len(some)]
        assert one.num_differing.tolist() == [differing]
        assert one.voicing_error == pytest.approx(differing / len(some))
        assert one.num_voiced.tolist() == [len(cents)]
        if cents:
            assert one.cents == pytest.approx(math.sqrt(sum(c * c for c in cents) / len(cents)))
    assert len(metrics.speech.PitchErrors.joined([found, found[0]])) == 3
    assert math.isnan(metrics.speech.PitchErrors.joined([]).cents)


def test_nan_is_not_voiced_and_shapes_are_checked():
    found = metrics.speech.pitch_errors([np.nan, 100.0], [100.0, 100.0], [[0, 0], [1, 1]])
    assert found.num_differing.tolist() == [1]
    assert found.cents == 0
    with pytest.raises(ShapeError, match="path must be"):
        metrics.speech.pitch_errors([[1.0]], [[1.0]], [[[0.0, 0.0]]])
    with pytest.raises(ShapeError, match="with B=1"):
        metrics.speech.pitch_errors([[1.0], [1.0]], [[1.0]], [[[0, 0]]])


def sentence(id, shift, **options):
    return metrics.speech.SpokenSentence(
        id=id,
        timing=metrics.speech.TimingDifferences(np.array([0.01, 0.02]), np.array([shift, shift + 0.02])),
        **options,
    )


def test_scores_say_and_write_what_was_measured(tmp_path):
    reading = metrics.speech.reading_errors(np.stack([hard(0, 1, 2, size=3), hard(0, 0, 2, size=3)]))
    pitch = metrics.speech.pitch_errors([[100.0], [100.0]], [[100.0], [200.0]], [[[0, 0]], [[0, 0]]])
    sentences = [
        sentence("a", 0.03, reading=reading[0], pitch=pitch[0], distortion=5.0, resynthesis=4.0),
        sentence("b", 0.05, reading=reading[1], pitch=pitch[1], distortion=7.0),
    ]
    sentences[0] = metrics.speech.SpokenSentence(
        **{
            name: getattr(sentences[0], name) for name in metrics.speech.SpokenSentence.__slots__ if name != "alignment"
        },
        alignment=metrics.summary(np.eye(3)),
    )
    diagonal = metrics.speech.TimingErrors(4, 0, 100.0, 100.0, 0.2, 0.0, 100.0)
    scores = metrics.speech.SpeechScores(sentences, {"diagonal": diagonal})
    assert scores.is_aligned
    figures = scores.figures()
    assert figures["boundary_ms"] == pytest.approx(50)
    assert figures["lagless_boundary_ms"] == pytest.approx(10)
    assert figures["mcd_db"] == 6
    assert figures["resynthesis_mcd_db"] == 4
    assert figures["reading_errors"] == pytest.approx(100 / 6)
    assert figures["pitch_cents"] == pytest.approx(1200 / math.sqrt(2))
    assert figures["focus_rate"] == 1
    assert "duration_ms" not in figures
    text = str(scores)
    assert "nearer to the labels in centres and boundaries than diagonal" in text
    assert text.index("mel cepstral") < text.index("reading errors") < text.index("centres")
    assert "NOT" not in text
    assert "mel cepstral distortion 6.00 dB; the recordings' own spectrograms as sound: 4.00 dB" in text
    path = scores.write(tmp_path / "new" / "scores.tsv")
    header, first, second = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    assert header == ["id", *figures]
    assert [*path.parent.iterdir()] == [path]
    rows = [dict(zip(header, row, strict=True)) for row in (first, second)]
    assert [row["id"] for row in rows] == ["a", "b"]
    assert [float(row["boundary_ms"]) for row in rows] == pytest.approx([40, 60])
    assert [float(row["lag_ms"]) for row in rows] == pytest.approx([40, 60])
    assert [row["resynthesis_mcd_db"] for row in rows] == ["4", ""]
    assert [row["skipped"] for row in rows] == ["0", "1"]
    assert [row["focus_rate"] for row in rows] == ["1", ""]


def test_scores_say_when_an_alignment_is_no_better_than_a_baseline():
    scores = metrics.speech.SpeechScores(
        [sentence("a", 0.0)], {"means": metrics.speech.TimingErrors(4, 0, 1.0, 1.0, 0.9, 0.0, 1.0)}
    )
    assert scores.is_aligned is False
    assert "NOT nearer to the labels in centres and boundaries than means" in str(scores)


def test_scores_of_nothing_have_no_figures():
    scores = metrics.speech.SpeechScores([])
    assert scores.figures() == {}
    assert scores.table() == "id\n"
    assert str(scores) == "nothing was measured"
    assert scores.is_aligned is None
