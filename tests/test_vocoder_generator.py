"""The generator: a sentence has the samples that it has alone and as a whole."""

from __future__ import annotations

import copy
from dataclasses import fields, replace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from regard.audio.vocoder import GENERATORS, Generator, GeneratorOptions, synthesise
from regard.errors import ConfigError, ShapeError

pytest.importorskip("transformers", "4.57", reason="needs the extra vocoder")

PAIRED = GeneratorOptions(
    num_mels=5,
    channels=16,
    upsample_rates=(4, 2),
    upsample_kernel_sizes=(8, 4),
    kernel_sizes=(3, 7),
    dilations=((1, 3), (1, 5)),
)
SINGLE = replace(PAIRED, paired=False, kernel_sizes=(3, 5, 1), dilations=((1, 2), (2, 6), (1,)))
UNEVEN = replace(PAIRED, upsample_rates=(3, 2, 1), upsample_kernel_sizes=(3, 8, 3))
KINDS = {"paired": PAIRED, "single": SINGLE, "uneven": UNEVEN}
LENGTHS = torch.tensor([30, 7, 0, 1, 19])


def made(options, dtype=torch.float32):
    """A generator whose samples are neither 0 nor all at their limits."""
    generator = Generator(options).to(dtype)
    with torch.no_grad():
        for weight in generator.parameters():
            weight.normal_(0, 0.5 / weight[0].numel() ** 0.5 if weight.dim() > 1 else 0.1)
    return generator


def frames(batch=1, length=30, dtype=torch.float32):
    return torch.randn(batch, length, 5, dtype=dtype)


@pytest.mark.parametrize(("name", "millions"), [("v1", 13.92), ("v2", 0.92), ("v3", 1.46)])
def test_the_published_generators_have_the_published_numbers_of_parameters(name, millions):
    with torch.device("meta"):
        generator = Generator(GENERATORS[name])
        samples = generator(torch.zeros(2, 3, 80))
    assert sum(weight.numel() for weight in generator.parameters()) / 1e6 == pytest.approx(millions, abs=0.01)
    assert samples.shape == (2, 3 * 256)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("chunk", [1, 4, 13, 29, 30, 99])
def test_parts_of_any_size_are_equal_to_the_whole(kind, chunk):
    generator, mels = made(KINDS[kind], torch.float64), frames(dtype=torch.float64)
    whole = generator(mels)
    assert 0.02 < whole.abs().mean() < 0.98
    torch.testing.assert_close(synthesise(generator, mels, chunk=chunk), whole, rtol=0, atol=1e-13)


@pytest.mark.parametrize("kind", KINDS)
def test_a_sentence_in_a_batch_has_the_samples_that_it_has_alone(kind):
    generator, mels = made(KINDS[kind], torch.float64), frames(5, dtype=torch.float64)
    for row, length in enumerate(LENGTHS):
        mels[row, length:] = float("nan")
    hop = generator.options.hop_length
    together = synthesise(generator, mels, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        if length:
            alone = generator(mels[row : row + 1, :length])[0]
            torch.testing.assert_close(together[row, : length * hop], alone, rtol=0, atol=1e-13)
        assert not together[row, length * hop :].any()


def test_synthesis_of_a_batch_has_each_sentences_bits():
    generator, mels = made(PAIRED), frames(5)
    mels[1, 7:] = float("inf")
    together = synthesise(generator, mels, LENGTHS, chunk=11)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = synthesise(generator, mels[row : row + 1, :length], chunk=11)[0]
        assert torch.equal(together[row, : length * 8], alone)
        assert not together[row, length * 8 :].any()


@pytest.mark.parametrize("kind", KINDS)
def test_samples_depend_on_the_context_and_on_nothing_beyond_it(kind):
    generator, mels = made(KINDS[kind], torch.float64), frames(length=80, dtype=torch.float64)
    context, hop = generator.context, generator.options.hop_length
    mels.requires_grad_()
    generator(mels).view(80, hop)[40].sum().backward()
    frames_read = mels.grad[0].any(1).nonzero().flatten()
    assert frames_read.tolist() == list(range(40 - context, 40 + context + 1))


class Largest(TorchDispatchMode):
    """The most numbers that the result of a convolution has."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_dispatch__(self, function, kinds, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        if "convolution" in str(function):
            self.numbers = max(self.numbers, result.numel())
        return result


def test_memory_does_not_grow_with_the_input():
    generator = made(PAIRED)
    numbers = []
    for length in (100, 400):
        mels = frames(length=length)
        with Largest() as largest:
            synthesise(generator, mels, chunk=20)
        numbers.append(largest.numbers)
    assert 0 < numbers[0] == numbers[1]


def test_inputs_and_weights_are_not_changed():
    generator, mels = made(PAIRED), frames()
    before, weights = mels.clone(), copy.deepcopy(generator.weights())
    synthesise(generator, mels)
    generator(mels)
    assert torch.equal(mels, before)
    assert all(torch.equal(value, weights[name]) for name, value in generator.weights().items())


def test_gradients_flow_through_the_generator_and_not_through_synthesis():
    generator, mels = made(PAIRED, torch.float64), frames(length=3, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(generator, (mels,), fast_mode=True)
    assert not synthesise(generator, mels).requires_grad


def test_nothing_makes_nothing():
    generator = made(PAIRED)
    assert synthesise(generator, frames(0)).shape == (0, 240)
    assert synthesise(generator, frames(2, 0)).shape == (2, 0)


@pytest.mark.parametrize(
    ("mels", "lengths", "message"),
    [
        (torch.zeros(1, 4, 6), None, r"\(B, T, M=5\).*M=6"),
        (torch.zeros(1, 5, 9), None, r"mels.transpose\(1, 2\)"),
        (torch.zeros(4, 5), None, r"mels\[None\]"),
        (torch.zeros(1, 4, 5, dtype=torch.long), None, "int64"),
        (torch.zeros(1, 4, 5), torch.tensor([5]), "between 0 and S=4; got 5 to 5"),
        (torch.zeros(1, 4, 5), torch.tensor([2.0]), "lengths must be"),
    ],
)
def test_frames_that_do_not_fit_are_refused(mels, lengths, message):
    generator = made(PAIRED)
    with pytest.raises(ShapeError, match=f"(?s){message}"):
        synthesise(generator, mels, lengths)
    if lengths is None:
        with pytest.raises(ShapeError, match=f"(?s){message}"):
            generator(mels)


def test_a_part_has_a_frame_at_least():
    with pytest.raises(ConfigError, match="chunk must be at least 1 frame; got 0"):
        synthesise(made(PAIRED), frames(), chunk=0)


def test_every_option_changes_the_generator():
    others = {
        "num_mels": 6,
        "channels": 20,
        "upsample_rates": (4, 4),
        "upsample_kernel_sizes": (8, 6),
        "kernel_sizes": (3, 5),
        "dilations": ((1, 3), (1, 2)),
        "paired": False,
    }
    assert set(others) == {field.name for field in fields(GeneratorOptions)}
    original = repr(Generator(PAIRED))
    for name, value in others.items():
        assert repr(Generator(replace(PAIRED, **{name: value}))) != original
    assert GeneratorOptions.from_json(PAIRED.to_json()) == PAIRED
