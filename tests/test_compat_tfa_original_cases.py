"""Cases of tensorflow-addons' own tests of beam search, whose numbers were written by hand there.

Source of the numbers: tensorflow_addons/seq2seq/tests/beam_search_decoder_test.py and beam_search_ops_test.py.
"""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.errors import RegardError
from regard.interop import tfa


def by_step(rows):
    """(T, B, K) from a list of sentences."""
    return torch.tensor(rows).transpose(0, 1)


IDS = [[1, 2, 3], [4, 5, 6], [7, 8, 9]]
PARENTS = [[0, 0, 0], [0, 1, 1], [2, 1, 2]]
NOTHING = [-1, -1, -1]


def test_gather_tree_traces_two_sentences():
    ids = by_step([IDS, [[2, 3, 4], [5, 6, 7], [8, 9, 10]]])
    parents = by_step([PARENTS, [[0, 0, 0], [1, 2, 0], [2, 1, 1]]])
    expected = by_step([[[2, 2, 2], [6, 5, 6], [7, 8, 9]], [[2, 4, 4], [7, 6, 6], [8, 9, 10]]])
    assert torch.equal(tfa.gather_tree(ids, parents, [3, 3], 11), expected)


def test_gather_tree_gives_end_tokens_beyond_the_longest_sequence():
    found = tfa.gather_tree(by_step([[*IDS, NOTHING]]), by_step([[*PARENTS, NOTHING]]), [3], 10)
    assert torch.equal(found, by_step([[[2, 2, 2], [6, 5, 6], [7, 8, 9], [10, 10, 10]]]))


def test_gather_tree_refuses_a_parent_that_is_no_hypothesis():
    parents = by_step([[[0, 0, 0], [0, -1, 1], [2, 1, 2], NOTHING]])
    with pytest.raises(RegardError, match="parent"):
        tfa.gather_tree(by_step([[*IDS, NOTHING]]), parents, [3], 10)


def test_gather_tree_has_end_tokens_after_the_first_for_any_lengths():
    torch.manual_seed(0)
    lengths, end = [0, 1, 2, 4, 7, 8, 9, 10, 11, 0], 5
    ids, parents = torch.randint(0, end + 1, (8, 10, 15)), torch.randint(0, 14, (8, 10, 15))
    found = tfa.gather_tree(ids, parents, lengths, end)
    assert found.shape == (8, 10, 15)
    for sentence, length in enumerate(lengths):
        assert found[length:, sentence].eq(end).all()
    over = (found == end).cumsum(0) > 0
    assert found[over].eq(end).all()
    assert found.ge(0).all()


@pytest.mark.parametrize("merged", [False, True])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_gather_tree_from_array_orders_arrays_of_any_depth(depth, merged):
    array = by_step([[*IDS, [0, 0, 0]], [[2, 3, 4], [5, 6, 7], [8, 9, 10], [11, 12, 0]]])
    parents = by_step([[*PARENTS, NOTHING], [[0, 0, 0], [1, 1, 0], [2, 0, 1], [0, 1, 0]]])
    expected = by_step([[[2, 2, 2], [6, 5, 6], [7, 8, 9], [0, 0, 0]], [[2, 3, 2], [7, 5, 7], [8, 9, 8], [11, 12, 0]]])
    if merged:
        array, expected = array.flatten(1), expected.flatten(1)
    for _ in range(depth):
        array, expected = torch.stack([array, array + 1], -1), torch.stack([expected, expected + 1], -1)
    found = tfa.gather_tree_from_array(array.float(), parents, torch.tensor([[3, 3, 3], [4, 4, 3]]))
    assert torch.equal(found, expected.float())


def test_gather_tree_from_array_follows_a_complex_trajectory():
    array = [[25, 12, 114, 89, 97], [9, 91, 64, 11, 162], [34] * 5, [2, 4, 2, 2, 4], [2, 3, 6, 2, 2], [2, 2, 2, 3, 2]]
    parents = [[0] * 5, [0] * 5, [0, 1, 2, 3, 4], [0, 0, 1, 2, 1], [0, 1, 1, 2, 3], [0, 1, 3, 1, 2], [0, 1, 2, 3, 4]]
    expected = [[25] * 5, [9, 9, 91, 9, 9], [34] * 5, [2, 4, 2, 4, 4], [2, 3, 6, 3, 6], [2, 2, 2, 3, 2]]
    found = tfa.gather_tree_from_array(
        torch.tensor([*array, [2] * 5])[:, None, :, None].float(),
        torch.tensor(parents)[:, None],
        torch.tensor([[4, 6, 4, 7, 6]]),
    )
    assert torch.equal(found[:, 0, :, 0], torch.tensor([*expected, [2] * 5]).float())


class Says(tfa.RNNCell):
    """A cell that says given logits."""

    state_size, output_size = 1, 5

    def __init__(self, logits):
        super().__init__()
        self.logits = logits

    def forward(self, inputs, state):
        return self.logits.flatten(0, 1), state


LOGITS = {(0, 0, 2): 1.9, (0, 0, 3): 2.1, (0, 1, 3): 3.1, (0, 1, 4): 0.9, (1, 0, 1): 0.5}


def one_step(further, lengths, finished, totals=None):
    """A step of a beam over five tokens, of which 0 is the end: output, next state, totals, log-probabilities."""
    width = len(lengths[0])
    logits = torch.full((2, width, 5), 0.0001)
    for place, value in (LOGITS | further).items():
        logits[place] = value
    decoder = tfa.BeamSearchDecoder(Says(logits), width, length_penalty_weight=0.6)
    state = torch.zeros(2 * width, 1)
    _, inputs, first = decoder.initialize(torch.zeros(5, 1), start_tokens=[1, 1], end_token=0, initial_state=state)
    totals = torch.ones(2, width).log_softmax(-1) if totals is None else totals
    before = first._replace(log_probs=totals, lengths=torch.tensor(lengths), finished=torch.tensor(finished))
    output, after, _, _ = decoder.step(2, inputs, before)
    return output, after, totals, logits.log_softmax(-1)


def test_a_step_of_a_beam():
    output, after, totals, said = one_step(
        {(1, 1, 2): 2.7, (1, 2, 2): 10.0, (1, 2, 3): 0.2}, [[2] * 3] * 2, [[False] * 3] * 2
    )
    assert output.predicted_ids.tolist() == [[3, 3, 2], [2, 2, 1]]
    assert output.parent_ids.tolist() == [[1, 0, 0], [2, 1, 0]]
    assert after.lengths.tolist() == [[3] * 3] * 2
    assert not after.finished.any()
    added = torch.stack([said[0, [1, 0, 0], [3, 3, 2]], said[1, [2, 1, 0], [2, 2, 1]]])
    torch.testing.assert_close(after.log_probs, totals + added)


def test_a_step_of_a_beam_with_finished_hypotheses():
    output, after, totals, said = one_step(
        {(1, 1, 2): 5.7, (1, 2, 2): 1.0, (1, 2, 3): 0.2},
        [[2, 1, 2], [2, 2, 1]],
        [[False, True, False], [False, False, True]],
    )
    assert output.parent_ids.tolist() == [[1, 0, 0], [1, 2, 0]]
    assert output.predicted_ids.tolist() == [[0, 3, 2], [2, 0, 1]]
    assert after.lengths.tolist() == [[1, 3, 3], [3, 1, 3]]
    assert after.finished.tolist() == [[True, False, False], [False, True, False]]
    nothing = torch.tensor(0.0)
    added = torch.stack([nothing, said[0, 0, 3], said[0, 0, 2], said[1, 1, 2], nothing, said[1, 0, 1]]).view(2, 3)
    torch.testing.assert_close(after.log_probs, totals + added)  # the end costs a finished hypothesis nothing


def test_the_first_step_of_a_beam_wider_than_the_vocabulary():
    alive = [False] + [True] * 7
    totals = torch.zeros(2, 8).masked_fill(torch.tensor(alive), -torch.inf)
    output, after, _, _ = one_step(
        {(1, 1, 2): 2.7, (1, 2, 2): 10.0, (1, 2, 3): 0.2}, [[2] + [0] * 7] * 2, [alive] * 2, totals
    )
    assert output.predicted_ids[0, :2].tolist() == [3, 2]
    assert int(output.predicted_ids[1, 0]) == 1
    assert after.log_probs[:, 5:].eq(-torch.inf).all()
    assert after.log_probs[:, :5].isfinite().all()
    assert after.lengths[:, :5].gt(0).all()
    assert after.lengths[:, 5:].tolist() == [[0] * 3] * 2


def test_a_beam_without_an_embedding_is_an_error():
    decoder = tfa.BeamSearchDecoder(nn.LSTMCell(5, 5), beam_width=4)
    with pytest.raises(RegardError, match="embedding"):
        decoder(None, start_tokens=torch.ones(6).long(), end_token=2, initial_state=(torch.zeros(24, 5),) * 2)
