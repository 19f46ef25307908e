"""regard.interop.tfa's sequence_loss in all modes, beside the numbers of tensorflow-addons."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch.nn.functional import cross_entropy

from regard.errors import ConfigError, DataError, ShapeError
from regard.interop import tfa
from tfa_models import close, golden

torch.set_num_threads(1)
MODES = {
    "mean": (True, True, False, False),
    "mean_time": (True, False, False, False),
    "mean_batch": (False, True, False, False),
    "sum": (False, False, True, True),
    "sum_time": (False, False, True, False),
    "sum_batch": (False, False, False, True),
    "none": (False, False, False, False),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
def test_sequence_loss_in_all_modes_with_ids_and_distributions_and_its_gradients(dtype):
    """Divided by the weights or by the number of them that are not 0; 0 where there are none."""
    tolerance = 1e-5 if dtype == torch.float32 else 1e-11
    kept = golden("sequence_loss", dtype)
    given = {name: kept.inputs[name].clone().requires_grad_() for name in ("logits", "weights", "soft")}
    targets, probe = kept.inputs["targets"], torch.zeros((), dtype=dtype)
    for name, flags in MODES.items():
        for kind, labels in {"ids": targets, "soft": given["soft"].softmax(-1)}.items():
            loss = tfa.sequence_loss(given["logits"], labels, given["weights"], *flags)
            close(loss, kept.outputs[f"{name}.{kind}"], tolerance)
            probe = probe + (loss * kept.probes[f"{name}.{kind}"].to(dtype)).sum()
    loss = tfa.SequenceLoss()(targets, given["logits"], given["weights"])
    close(loss, kept.outputs["class"], tolerance)
    (probe + loss * kept.probes["class"].to(dtype)).backward()
    for name, tensor in given.items():
        close(tensor.grad, kept.gradients[name], tolerance)


def test_sequence_loss_takes_a_softmax_loss_function_by_named_arguments():
    inputs = golden("sequence_loss").inputs

    def doubled(*, labels, logits):
        assert (labels.shape, logits.shape) == ((12,), (12, 5))
        return 2 * cross_entropy(logits, labels.long(), reduction="none")

    arguments = (inputs["logits"], inputs["targets"], inputs["weights"])
    close(tfa.sequence_loss(*arguments, softmax_loss_function=doubled), 2 * tfa.sequence_loss(*arguments))
    close(
        tfa.SequenceLoss(softmax_loss_function=doubled)(arguments[1], arguments[0], arguments[2]),
        2 * tfa.SequenceLoss()(arguments[1], arguments[0], arguments[2]),
    )


@pytest.mark.parametrize("flags", list(itertools.product([True, False], repeat=4)), ids=str)
def test_averages_and_sums_of_one_axis_or_in_an_ambiguous_order_are_refused(flags):
    mean_time, mean_batch, sum_time, sum_batch = flags
    refused = (mean_time and sum_time) or (mean_batch and sum_batch)
    refused = refused or (mean_batch and sum_time) or (sum_batch and mean_time)
    assert refused == (flags not in MODES.values())
    arguments = (torch.zeros(1, 2, 3), torch.zeros(1, 2, dtype=torch.long), torch.ones(1, 2))
    if refused:
        with pytest.raises(ConfigError, match="are both true"):
            tfa.sequence_loss(*arguments, *flags)
        with pytest.raises(ConfigError, match="are both true"):
            tfa.SequenceLoss(*flags)
    else:
        assert tfa.sequence_loss(*arguments, *flags).isfinite().all()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"logits": torch.zeros(2, 3)}, ShapeError, r"logits must be numbers \(B, T, N\)"),
        ({"targets": torch.zeros(2, dtype=torch.long)}, ShapeError, r"targets must be ids \(B, T\) or distributions"),
        ({"targets": torch.zeros(2, 3)}, ShapeError, "whole numbers, ids"),
        ({"weights": torch.ones(2)}, ShapeError, r"weights must be \(B, T\)"),
        ({"targets": torch.full((2, 3), 4)}, DataError, r"targets\[0, 0\] is 4, which is none of the N=4 ids"),
        ({"targets": torch.full((2, 3), -1)}, DataError, "Padding also needs an id"),
    ],
    ids=str,
)
def test_sequence_loss_refuses_shapes_and_ids_that_do_not_fit(change, error, message):
    given = {
        "logits": torch.zeros(2, 3, 4),
        "targets": torch.zeros(2, 3, dtype=torch.long),
        "weights": torch.ones(2, 3),
    }
    with pytest.raises(error, match=message):
        tfa.sequence_loss(**{**given, **change})


def test_sequence_loss_object_sums_by_default_and_weights_may_be_left_out():
    loss = tfa.SequenceLoss()
    assert (loss.sum_over_timesteps, loss.sum_over_batch) == (True, True)
    assert (loss.average_across_timesteps, loss.average_across_batch) == (False, False)
    targets, logits = torch.tensor([[1, 0]]), torch.randn(1, 2, 3)
    close(loss(targets, logits), loss(targets, logits, torch.ones(1, 2)))


def test_targets_and_weights_of_a_loss_may_be_lists():
    logits = torch.randn(2, 3, 4)
    targets, weights = [[1, 0, 3], [2, 2, 0]], [[1, 1, 1], [1, 0, 0]]
    as_tensors = tfa.sequence_loss(logits, torch.tensor(targets), torch.tensor(weights))
    assert torch.equal(tfa.sequence_loss(logits, targets, weights), as_tensors)
