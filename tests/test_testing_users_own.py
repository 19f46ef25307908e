"""The suite as a user meets it: a mechanism and a decoder of their own, from nothing but the verbs."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.attention import Attended
from regard.decoding import SimpleDecoder
from regard.errors import UnsupportedError
from regard.shapes import keep_mask
from regard.testing import EncodedSource, check_decoder, check_mechanism, draw_source, encode
from regard.testing.assertion import require_close


class Nearest(nn.Module):
    """Looks at what is near: weights are exp(-|q - h|²), normalised. Memory and state are plain dicts."""

    uses_query = is_normalised = True
    is_recurrent = is_random = False

    def __init__(self, size, overflows=False):
        super().__init__()
        self.context_size = size
        self.overflows = overflows
        self.width = nn.Parameter(torch.ones(()))

    def prepare(self, values, *, keys=None, mask=None, lengths=None):
        mask = keep_mask(values, mask, lengths)
        mask = values.new_ones(values.shape[:2], dtype=torch.bool) if mask is None else mask
        return {"values": values.masked_fill(~mask[..., None], 0), "mask": mask}

    def extend(self, memory, values, *, keys=None, mask=None):
        raise UnsupportedError("This memory cannot grow: it was made for sources that are known at once.")

    def initial_state(self, memory, num_hypotheses=1):
        return {"steps": torch.zeros(len(memory["values"]) * num_hypotheses, dtype=torch.long)}

    def step(self, query, memory, state, *, inputs=None, alignment=False, generator=None):
        seen = self._look(query[:, None], memory)
        weights = seen.alignment[:, :, 0] if alignment else None
        return Attended(seen.context[:, 0], weights), {"steps": state["steps"] + 1}

    def forward(self, queries, memory, state=None, *, inputs=None, alignment=False, generator=None):
        state = self.initial_state(memory, len(queries) // len(memory["values"])) if state is None else state
        seen = self._look(queries, memory)
        return Attended(seen.context, seen.alignment if alignment else None), {
            "steps": state["steps"] + queries.shape[1]
        }

    def _look(self, queries, memory):
        count = len(queries) // len(memory["values"])
        values, mask = (memory[key].repeat_interleave(count, 0) for key in ("values", "mask"))
        apart = queries[:, :, None] - values[:, None]
        apart = apart if self.overflows or apart.element_size() > 2 else apart.float()
        distance = apart.square().sum(-1) * self.width.square().to(apart)
        energies = (-distance).masked_fill(~mask[:, None], float("-inf"))
        dead = ~mask.any(1)[:, None, None]
        weights = energies.masked_fill(dead, 0).softmax(-1).masked_fill(dead, 0).to(values)
        return Attended(weights @ values, weights[:, None])


GROWTH = {"memory_may_grow": "sources are known at once; extend says so"}


def test_a_mechanism_of_the_users_own_can_prove_itself():
    check_mechanism(Nearest(4), query_size=4, memory_size=4, exempt=GROWTH)


def test_energies_that_overflow_in_half_precision_are_found():
    with pytest.raises(AssertionError, match=r"large energies in torch.float16 .* NaN or infinite"):
        check_mechanism(Nearest(4, overflows=True), query_size=4, memory_size=4, only=["extreme_energies_stay_finite"])


def test_a_refusal_to_grow_needs_a_reason_to_be_exempt():
    with pytest.raises(AssertionError, match="breaks the law memory_may_grow"):
        check_mechanism(Nearest(4), query_size=4, memory_size=4, only=["memory_may_grow"])


def decoder_of_two_functions(fault=None):
    torch.manual_seed(0)
    cell, head = nn.GRUCell(3 + 6, 6).double(), nn.Linear(6, 4).double()
    table = torch.randn(4, 3, dtype=torch.float64)

    def init(encoded):
        return {"values": encoded.memory, "mask": encoded.mask}, encoded.memory.new_zeros(len(encoded.memory), 6)

    def step(ids, memory, h):
        values, mask = memory["values"], memory["mask"]
        energies = torch.einsum("rd,rsd->rs", h + 1, values)
        weights = (energies if fault == "mask" else energies.masked_fill(~mask, float("-inf"))).softmax(-1)
        context = torch.einsum("rs,rsd->rd", weights, values)
        h = cell(torch.cat([table[ids], context], -1), h)
        if fault == "batch":
            h = h - h.mean(0)
        logits = head(h)
        return logits if fault == "logits" else logits.log_softmax(-1), h, weights

    return SimpleDecoder(init, step)


SOURCES = [draw_source(length, 6, seed=length) for length in (5, 2, 3)]


def test_a_decoder_of_two_functions_can_prove_itself():
    check_decoder(decoder_of_two_functions(), sources=SOURCES, num_tokens=4)


@pytest.mark.parametrize(
    ("fault", "law"),
    [
        ("mask", "sentence_is_independent_of_batch_and_padding"),
        ("batch", "sentence_is_independent_of_batch_and_padding"),
        ("logits", "log_probabilities_sum_to_one"),
    ],
)
def test_a_fault_in_it_is_named(fault, law):
    with pytest.raises(AssertionError, match=f"SimpleDecoder breaks the law {law}"):
        check_decoder(decoder_of_two_functions(fault), sources=SOURCES, num_tokens=4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sources": SOURCES[:1], "num_tokens": 4}, "two sources or more, of different length; got 1"),
        ({"sources": SOURCES}, "Give num_tokens"),
        ({"sources": SOURCES, "num_tokens": 4, "num_features": 2}, "Give num_tokens"),
        ({"sources": SOURCES, "num_tokens": 4, "only": ["gravity"]}, "'gravity' is not a law"),
    ],
)
def test_a_check_that_makes_no_sense_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        check_decoder(decoder_of_two_functions(), **options)


def test_sources_of_several_memories_and_extended_ids_are_padded_side_by_side():
    both = [draw_source((3, 1), (2, 4), seed=0), draw_source((2, 5), (2, 4), seed=1)]
    encoded = encode(both, padding=1)
    assert [values.shape for values in encoded.memory] == [(2, 4, 2), (2, 6, 4)]
    assert [mask.sum(1).tolist() for mask in encoded.mask] == [[3, 2], [1, 5]]
    copied = [EncodedSource(torch.zeros(n, 2), None, torch.arange(n), torch.ones(n, dtype=torch.bool)) for n in (1, 2)]
    encoded = encode(copied)
    assert encoded.source_ids.tolist() == [[0, 0], [0, 1]]
    assert encoded.extension.tolist() == [[True, False], [True, True]]


def test_lengths_and_sizes_of_several_memories_come_together():
    with pytest.raises(ValueError, match="must both be numbers or both be tuples"):
        draw_source((3, 1), 2, seed=0)


@pytest.mark.parametrize("wrong", [float("nan"), float("inf"), 1.001])
def test_what_differs_is_found_even_where_it_is_nan(wrong):
    actual = torch.ones(2, 3, dtype=torch.float64)
    actual[1, 2] = wrong
    with pytest.raises(AssertionError, match=r"it differs at \(1, 2\)"):
        require_close(actual, torch.ones(2, 3).double(), "it", 1e-6)
    with pytest.raises(AssertionError, match="shape"):
        require_close(actual, torch.ones(2, 2), "it", 1e-6)


@pytest.mark.parametrize(("broken", "error"), [("undefined_name", NameError), ("import no_such_module", ImportError)])
def test_a_name_or_a_package_that_is_missing_is_no_broken_law(broken, error):
    class Broken(Nearest):
        def step(self, query, memory, state, **options):
            exec(broken)
            return super().step(query, memory, state, **options)

    with pytest.raises(error) as caught:
        check_mechanism(Broken(5), query_size=5, memory_size=5)
    (note,) = caught.value.__notes__
    assert note.startswith("Broken could not run; the error was raised in the check of the law ")
