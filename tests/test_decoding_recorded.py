"""Steps of searches and free runs that are recorded: on a tape in place of a GPU they give what ordinary ones give."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils import backend_registration

from regard import attention as a
from regard.config import from_preset
from regard.config.search import Search
from regard.decoding import SearchSource, recorded, search
from regard.layers import RecurrentStack, TokenEmbedding, TokenHead
from regard.models import (
    Bridge,
    Encoded,
    RecurrentDecoder,
    TransformerDecoder,
    TransformerLanguageModel,
    transformer_decoder,
    transformer_language_model,
)
from regard.ops.recording import Recordings
from support import tape
from test_models_free_runs import decoder as speech_decoder
from test_models_free_runs import run as speak
from test_training_recording import trainee_of

LENGTHS = (6, 2, 4, 5, 6, 3, 1)
SEARCHES = {
    "greedy": {"beam": 1},
    "beam": {"beam": 3, "num_best": 2},
    "average": {"beam": 3, "length_penalty": "average"},
    "gnmt": {"beam": 2, "length_penalty": "gnmt", "min_length": 3},
    "coverage": {"beam": 3, "coverage_penalty": "gnmt"},
    "groups": {"beam": 4, "num_groups": 2, "diversity": 0.5},
    "first": {"beam": 3, "stop": "first"},
    "patience": {"beam": 3, "stop": "patience", "patience": 2.0},
    "top": {"beam": 3, "stop": "top"},
    "full": {"beam": 3, "stop": "full"},
    "kept": {"beam": 3, "keep_finished": True},
    "sampling": {"method": "sampling", "num_best": 3, "seed": 4, "top_k": 4},
}


def model(mechanism: str = "bahdanau", seed: int = 0) -> RecurrentDecoder:
    """A decoder whose outputs have different lengths."""
    torch.manual_seed(seed)
    made = {
        "bahdanau": lambda: a.bahdanau(query_size=8, memory_size=6, size=5),
        "location": lambda: a.location_sensitive(query_size=8, memory_size=6, size=5, num_filters=3, kernel_size=3),
        "luong": lambda: a.luong(query_size=8, memory_size=6, score="general"),
        "monotonic": lambda: a.monotonic(query_size=8, memory_size=6, size=5),
        "coverage": lambda: a.coverage(query_size=8, memory_size=6, size=5),
    }
    attention = made[mechanism]()
    embedding = TokenEmbedding(9, 4)
    size = RecurrentDecoder.input_size(4, 8, attention=attention)
    stack = RecurrentStack(size, 8, cell="lstm")
    found = RecurrentDecoder(embedding, stack, TokenHead(8, 9), Bridge(6, stack), attention=attention)
    for weight in found.parameters():
        nn.init.normal_(weight, std=0.7)
    return found.double().eval()


def transformer(positions: Any, seed: int) -> TransformerDecoder:
    """Two layers; the outputs have different lengths."""
    torch.manual_seed(seed)
    limit = {"max_length": 30} if positions == "learned" else {}
    options = {"num_layers": 2, "num_heads": 2, "feed_forward_size": 12, "dropout": 0.0, "positions": positions}
    parts = TokenEmbedding(9, 8), TokenHead(8, 9)
    made = transformer_decoder(*parts, memory_size=6, **options, **limit).double().eval()
    for weight in made.parameters():
        nn.init.normal_(weight, std=0.7)
    return made


def found(decoder: Any, attention: str = "attention", device: Any = "cpu", **settings: Any) -> list[Any]:
    """What a search finds, as plain data."""
    torch.manual_seed(3)
    dtype = next(decoder.parameters()).dtype
    memory = torch.randn(len(LENGTHS), max(LENGTHS), 6, dtype=torch.float64).to(device, dtype)
    mask = (torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS)[:, None]).to(device)
    with torch.no_grad():
        prepared = decoder.prepare(Encoded(memory, mask))
    limits, source = torch.tensor([25, 3, 25, 9, 25, 25, 25]).to(device), SearchSource(mask=mask)
    outputs = search(
        decoder, prepared, Search(**settings), bos=0, eos=1, max_length=limits, alignment=True, source=source
    )
    return [[(h.tokens.tolist(), h.stop_reason, h.score, h.alignments[attention]) for h in each] for each in outputs]


def recordings(decoder: Any) -> Recordings:
    """Those of a decoder."""
    made: Recordings = recorded._THREAD.recordings[decoder]
    return made


def require_recordings(decoder: Any) -> None:
    """Steps were recorded, and a recording reads nothing but its inputs and the decoder's weights.

    Whatever else was there when it was made may be freed before it is replayed.
    """
    made = recordings(decoder)
    assert made.failures == {}
    assert made._kept, "steps were recorded"
    weights = [*decoder.parameters(), *decoder.buffers()]
    assert [stranger for recording in made._kept.values() for stranger in tape.strangers(recording, weights)] == []


def require_same(one: list[Any], other: list[Any]) -> None:
    """Outputs of two searches are equal, numbers to rounding."""
    assert [[h[:2] for h in each] for each in one] == [[h[:2] for h in each] for each in other]
    for first, second in zip((h for each in one for h in each), (h for each in other for h in each), strict=True):
        assert first[2] == pytest.approx(second[2], rel=1e-12)
        torch.testing.assert_close(first[3], second[3], rtol=1e-12, atol=1e-14)


def require_recorded(decoder: Any, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> None:
    """Recorded searches find what ordinary ones find, whatever the weights are by then."""
    expected = found(decoder, **settings)
    assert len({len(h[0]) for each in expected for h in each}) > 1, "sentences leave at different steps"
    with monkeypatch.context() as patch:
        patch.setattr(recorded, "capture_for", lambda device: lambda: tape.capture)
        for _ in range(3):
            require_same(found(decoder, **settings), expected)
        require_recordings(decoder)
        with torch.no_grad():
            for weight in decoder.parameters():
                weight.mul_(1.1)
        replayed = found(decoder, **settings)
    require_same(replayed, found(decoder, **settings))


@pytest.mark.parametrize("name", SEARCHES)
def test_recorded_searches_find_what_ordinary_ones_find(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require_recorded(model(), monkeypatch, **SEARCHES[name])


@pytest.mark.parametrize("mechanism", ["location", "luong", "monotonic", "coverage"])
def test_recorded_steps_of_mechanisms(mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    require_recorded(model(mechanism), monkeypatch, beam=3)


@pytest.mark.parametrize(
    ("positions", "seed"),
    [("sinusoidal", 2), ("relative", 4), ("learned", 2), ("rotary", 1), ("linear_bias", 1), ("buckets", 1)],
)
def test_recorded_steps_of_a_transformer_have_room_for_all(
    positions: Any, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder = transformer(positions, seed)
    monkeypatch.setattr(TransformerDecoder, "unsupported_in_search", lambda self, memory=None: "it is on a GPU")
    require_recorded(decoder, monkeypatch, beam=3, attention="cross.1")


@pytest.mark.parametrize("reach", [None, 4])
def test_recorded_steps_of_a_language_model(reach: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    embedding = TokenEmbedding(9, 8)
    made = {"num_layers": 2, "num_heads": 2, "feed_forward_size": 12, "dropout": 0.0, "reach": reach}
    decoder = transformer_language_model(embedding, TokenHead(8, 9), **made).double().eval()
    for weight in decoder.parameters():
        nn.init.normal_(weight, std=0.7)
    ids = torch.randint(2, 9, (4, 5), generator=torch.Generator().manual_seed(1))
    memory = decoder.prepare(Encoded(ids, torch.arange(5) < torch.tensor([5, 0, 1, 3])[:, None]))

    def continued() -> list[list[int]]:
        outputs = search(decoder, memory, Search(beam=3), bos=0, eos=1, max_length=torch.tensor([25, 20, 3, 25]))
        return [each[0].tokens.tolist() for each in outputs]

    expected = continued()
    monkeypatch.setattr(recorded, "capture_for", lambda device: lambda: tape.capture)
    monkeypatch.setattr(TransformerLanguageModel, "unsupported_in_search", lambda self, memory=None: "it is on a GPU")
    for _ in range(3):
        assert continued() == expected
    made_for = recordings(decoder)
    assert made_for.failures == {}
    assert bool(made_for._kept) is (reach is None), "a cache of the last tokens grows and shrinks"


@pytest.mark.parametrize("mechanism", ["location", "forward", "dca", "stepwise"])
def test_recorded_free_runs_of_speech_are_ordinary_ones(mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = speech_decoder(mechanism)
    expected = speak(decoder, steps=(19, 4, 13))
    monkeypatch.setattr(recorded, "capture_for", lambda device: lambda: tape.capture)
    for _ in range(3):
        for one, other in zip(speak(decoder, steps=(19, 4, 13)), expected, strict=True):
            assert one.stop_reason == other.stop_reason
            torch.testing.assert_close(one.values, other.values, rtol=1e-12, atol=1e-14)
            torch.testing.assert_close(dict(one.alignments), dict(other.alignments), rtol=1e-12, atol=1e-14)
    require_recordings(decoder)


def test_what_python_does_beside_tensors_is_not_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = model()
    assert recorded.unsupported_reason(decoder) is None
    assert recorded.unsupported_reason(model().train()) == "the decoder is in training mode"
    assert "is no nn.Module" in str(recorded.unsupported_reason(object()))
    hooked = model()
    hooked.head.register_forward_hook(lambda *_: None)
    assert recorded.unsupported_reason(hooked) == "head has forward hooks"

    class Own(nn.Linear):
        pass

    changed = model()
    changed.readout = Own(3, 3)
    assert "readout is a Own" in str(recorded.unsupported_reason(changed))
    monkeypatch.setattr(recorded, "capture_for", lambda device: lambda: tape.capture)
    found(decoder, beam=2, no_repeat_ngram_size=2)  # a processor reads tokens
    assert decoder not in vars(recorded._THREAD).get("recordings", {})


def test_a_step_that_cannot_be_recorded_is_called_and_warns_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def capture(function: Any) -> Any:
        raise RuntimeError("no room")

    decoder = model()
    expected = found(decoder, beam=2)
    monkeypatch.setattr(recorded, "capture_for", lambda device: lambda: capture)
    with pytest.warns(RuntimeWarning, match="Steps are not recorded: RuntimeError: no room") as warned:
        require_same(found(decoder, beam=2), expected)
    assert len(warned) == len(recordings(decoder).failures)


def test_a_recording_copies_what_is_new_and_what_recordings_write() -> None:
    recordings_, total = Recordings(tape.capture), torch.zeros(())
    kept = torch.ones(())
    for number in range(1, 6):
        (total, same) = recordings_.call("sum", (total, kept), lambda inputs: (inputs[0] + inputs[1], inputs[1]))
        assert (float(total), float(same)) == (number, 1)


@pytest.mark.parametrize("copies", [False, True])
def test_sources_of_similar_lengths_share_recordings(
    copies: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["".join("abcde"[(i >> k) % 5] for k in range(2 + i % 4)) for i in range(60)]
    (tmp_path / "pairs.tsv").write_text("".join(f"{word}\t{word[::-1]}\n" for word in words))
    overrides = [f"data.train={tmp_path / 'pairs.tsv'}", "training.device=cpu", "decoding.beam=2"]
    config = from_preset("copying" if copies else "text-to-text", overrides).config
    writer = trainee_of(config).model
    writer.module.eval()

    def predicted(texts: list[str]) -> list[tuple[str, list[int]]]:
        return [(p.text, list(p.alignment.shape)) for p in writer.predict(texts, alignment=True)]

    batches = ["abcd"], ["bc"], ["abcda"], ["a"]
    expected = [predicted(batch) for batch in batches]
    monkeypatch.setattr(recorded, "capture_for", lambda device: lambda: tape.capture)
    monkeypatch.setattr("regard.tasks.text_to_text.model.capture_for", lambda device: tape.capture)
    assert [predicted(batch) for batch in batches] == expected
    made = recordings(writer.module.decoder)
    assert made.failures == {}
    # the second step follows one hypothesis a sentence; symbols outside of the vocabulary have a width of their own
    assert len(made._kept) == 2 + copies


ELSEWHERE = """
import torch
torch.set_num_threads(1)
torch.inference_mode = torch.no_grad  # a stand-in for a device has no tensors of inference
from support.other_device import DEVICE, OtherDevice
from support.tape import Watched
import test_decoding_recorded as cases
from regard.decoding import recorded

steps = []

class Watching:
    failures = {}

    def call(self, form, inputs, function):
        steps.append(form)
        with Watched():
            return function(inputs)

recorded.recordings_of = lambda decoder, like: (Watching(), None)
class Generator(torch.Generator):
    def __new__(cls, device="cpu"):
        return super().__new__(cls)

torch.Generator = Generator
for name, settings in cases.SEARCHES.items():
    with OtherDevice():
        decoder = cases.model().float().to(DEVICE)
        cases.found(decoder, device=DEVICE, **settings)
for positions in ("sinusoidal", "rotary"):
    with OtherDevice():
        cases.found(cases.transformer(positions, 1).float().to(DEVICE), device=DEVICE, attention="cross.1", beam=3)
assert len(steps) > 150, len(steps)
print("done")
"""


@pytest.mark.skipif(
    not hasattr(backend_registration, "_setup_privateuseone_for_python_backend"),
    reason="this torch has no backends in Python",
)
def test_steps_of_every_search_wait_for_nothing_and_copy_nothing_between_devices() -> None:
    paths = os.pathsep.join([*filter(None, sys.path), str(Path(__file__).parent)])
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE], env=environment, capture_output=True, text=True, timeout=200
    )
    assert done.stdout == "done\n", done.stdout + done.stderr[-3000:]
