"""Whatever a user puts on a module inside a model is honoured on every path, as it is where no path is fast.

One module at a time gets one thing. What training passes, both searches, given outputs and gradients make of it has to
be what they make of it within `regard.plain()`. Function transforms and forward mode: `test_models_transforms.py`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from regard import attention as a
from regard.decoding import Search, force_align, search
from regard.layers import RecurrentStack, TokenEmbedding, TokenHead
from regard.models import (
    Bridge,
    EncoderDecoder,
    PointerDecoder,
    RecurrentDecoder,
    RecurrentEncoder,
    transformer_decoder,
)
from regard.models.contract import Encoded
from regard.ops import plain

B, S, T, E, D, N, BOS, EOS = 3, 4, 3, 3, 4, 7, 1, 2
MASK = torch.arange(S) < torch.tensor([4, 2, 3])[:, None]
IDS = torch.randint(3, N, (B, S), generator=torch.Generator().manual_seed(1))
TARGETS = torch.randint(3, N, (B, T), generator=torch.Generator().manual_seed(2))


def recurrent(mechanism: Any = None, **options: Any) -> EncoderDecoder:
    torch.manual_seed(0)
    mechanism = mechanism or a.bahdanau(query_size=D, memory_size=D, size=D)
    cell = options.pop("cell", "gru")
    fed = RecurrentDecoder.input_size(E, D, attention=mechanism, **options)
    encoder = RecurrentEncoder(TokenEmbedding(N, E), RecurrentStack(E, D // 2, cell=cell, bidirectional=True))
    stack = RecurrentStack(fed, D, 2, cell=cell, dropout=0.2)
    decoder = RecurrentDecoder(
        TokenEmbedding(N, E),
        stack,
        TokenHead(D, N, never=(0, BOS)),
        Bridge(encoder.stack, stack, "dense"),
        attention=mechanism,
        dropout=0.2,
        **options,
    )
    return EncoderDecoder(encoder, decoder)


def pointer() -> EncoderDecoder:
    model = recurrent()
    model.decoder = PointerDecoder(model.decoder)
    return model


def transformer() -> EncoderDecoder:
    decoder = transformer_decoder(
        TokenEmbedding(N, D), TokenHead(D, N), memory_size=D, num_layers=1, num_heads=2, feed_forward_size=5
    )
    return EncoderDecoder(recurrent().encoder, decoder)


MODELS: dict[str, Callable[[], EncoderDecoder]] = {
    "additive, fed back": recurrent,
    "dot, attended first": lambda: recurrent(
        a.luong(query_size=D, memory_size=D, score="general"), order="attend_then_recur", cell="lstm"
    ),
    "nothing fed back": lambda: recurrent(input_feeding=False),
    "location": lambda: recurrent(
        a.location_sensitive(query_size=D, memory_size=D, size=D, num_filters=2, kernel_size=3)
    ),
    "pointer": pointer,
    "transformer": transformer,
}


def scaled(found: Any) -> Any:
    """The first floating tensor of an output, times a number with which shares still sum to less than 1."""
    if isinstance(found, Tensor):
        is_logarithm = found.is_floating_point() and bool((found <= 0).all())
        return found * (1.25 if is_logarithm else 0.75) if found.is_floating_point() else found
    if type(found) is tuple and found:
        return (scaled(found[0]), *found[1:])
    return found


class Scale(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return 0.75 * weight


def weights_of(module: nn.Module) -> list[str]:
    return [name for name, weight in module.named_parameters(recurse=False) if weight.is_floating_point()]


def parametrised(module: nn.Module, calls: list[int]) -> None:
    for name in weights_of(module):
        parametrize.register_parametrization(module, name, Scale())


def normed(module: nn.Module, calls: list[int]) -> None:
    for name in weights_of(module):
        if getattr(module, name).dim() == 2:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                nn.utils.weight_norm(module, name)
            with torch.no_grad():
                getattr(module, f"{name}_g").mul_(0.75)


def spectral(module: nn.Module, calls: list[int]) -> None:
    for name in weights_of(module):
        if getattr(module, name).dim() == 2:
            nn.utils.spectral_norm(module, name)


def forward_hook(module: nn.Module, calls: list[int]) -> None:
    def hook(module: nn.Module, given: Any, found: Any) -> Any:
        calls.append(1)
        return scaled(found)

    module.register_forward_hook(hook)


def pre_hook(module: nn.Module, calls: list[int]) -> None:
    def hook(module: nn.Module, given: Any) -> Any:
        calls.append(1)
        return scaled(given)

    module.register_forward_pre_hook(hook)


def backward_hook(module: nn.Module, calls: list[int]) -> None:
    module.register_full_backward_hook(
        lambda module, inputs, outputs: tuple(
            0.75 * x if x is not None and x.is_floating_point() else x for x in inputs
        )
    )


def own_forward(module: nn.Module, calls: list[int]) -> None:
    kind = type(module)

    class Own(kind):  # type: ignore[misc, valid-type]
        def forward(self, *given: Any, **options: Any) -> Any:
            calls.append(1)
            return scaled(super().forward(*given, **options))

    module.__class__ = Own


def replaced_forward(module: nn.Module, calls: list[int]) -> None:
    original = module.forward

    def forward(*given: Any, **options: Any) -> Any:
        calls.append(1)
        return scaled(original(*given, **options))

    module.forward = forward  # type: ignore[method-assign]


def own_step(module: nn.Module, calls: list[int]) -> None:
    kind: Any = type(module)

    class Own(kind):
        def step(self, *given: Any, **options: Any) -> Any:
            calls.append(1)
            found, state = super().step(*given, **options)
            return scaled(found), state

    module.__class__ = Own


FIRST = "additive, fed back"
AT_ONCE = "nothing fed back"
CHANGES = {
    "forward hook": forward_hook,
    "pre-hook": pre_hook,
    "backward hook": backward_hook,
    "parametrisation": parametrised,
    "weight norm": normed,
    "spectral norm": spectral,
    "own forward": own_forward,
    "replaced forward": replaced_forward,
    "own step": own_step,
}


def modules(name: str) -> dict[str, nn.Module]:
    found = MODELS[name]().named_modules()
    return {path: one for path, one in found if path and not isinstance(one, nn.ModuleList | nn.Identity)}


def places(name: str, kind: str) -> Iterator[str]:
    """The modules to which this can be done, each to be asked once.

    A hook on every one of the first model, a third of the other things on each; of the other models what the first one
    lacks, one of each kind, and what is computed for all steps at once.
    """
    seen = set() if name == FIRST else {_kind(path, one) for path, one in modules(FIRST).items()}
    for index, (path, module) in enumerate(modules(name).items()):
        if path.startswith("encoder") and (name, kind) != (FIRST, "forward hook"):
            continue
        if _kind(path, module) in seen and not (name == AT_ONCE and path.startswith("decoder.attention.")):
            continue
        seen.add(_kind(path, module))
        if kind != "forward hook" and index % 3 != list(CHANGES).index(kind) % 3 and not isinstance(module, nn.Linear):
            continue
        if kind in ("parametrisation", "weight norm", "spectral norm") and not weights_of(module):
            continue
        if kind == "own step" and not isinstance(module, RecurrentStack):
            continue
        yield path


def _kind(path: str, module: nn.Module) -> tuple[type, str]:
    return type(module), path.rpartition(".")[2]


def memory_of(model: EncoderDecoder) -> Any:
    encoded = model.encoder.encode(IDS, MASK)
    if isinstance(model.decoder, PointerDecoder):
        encoded = Encoded(encoded.memory, encoded.mask, encoded.final_state, source_ids=IDS)
    return model.decoder.prepare(encoded)


def answers(name: str, path: str, kind: str) -> tuple[dict[str, Any], int]:
    """What a model with something put on one of its modules makes of the same data, and how often that was called."""
    torch.manual_seed(3)
    model, calls = MODELS[name]().double(), []
    CHANGES[kind](model.get_submodule(path), calls)
    found: dict[str, Any] = {}
    inputs = torch.cat([torch.full((B, 1), BOS), TARGETS[:, :-1]], 1)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.eval()  # other paths draw other masks
    memory = memory_of(model)
    said = model.decoder(inputs, memory).log_probabilities
    found["outputs"] = said.masked_fill(said.isneginf(), 0)
    loss = -said.gather(2, TARGETS[..., None]).sum()
    if hasattr(model.decoder, "cross_entropy"):
        loss = model.decoder.cross_entropy(inputs, memory, TARGETS)[0]
    wanted = [weight for weight in model.parameters() if weight.requires_grad]
    found["loss"] = loss
    found["gradients"] = torch.autograd.grad(loss, wanted, materialize_grads=True)
    model.eval()
    with torch.no_grad():
        memory = memory_of(model)
    for beam in (1, 2):
        best = search(model.decoder, memory, Search(beam=beam), bos=BOS, eos=EOS, max_length=2)
        found[f"tokens, beam={beam}"] = [one[0].tokens.tolist() for one in best]
        found[f"scores, beam={beam}"] = torch.tensor([one[0].log_probability for one in best])
    forced = force_align(model.decoder, memory, list(TARGETS), bos=BOS, eos=EOS)
    found["given outputs"] = torch.tensor([one.log_probability for one in forced])
    return found, len(calls)


def differences(found: dict[str, Any], expected: dict[str, Any]) -> Iterator[str]:
    for name, value in found.items():
        try:
            torch.testing.assert_close(value, expected[name], rtol=1e-6, atol=1e-8, equal_nan=True)
        except AssertionError as error:
            yield f"{name}: {str(error).splitlines()[0]}"


CALLED = ("projection", "table", "score", "window", "alignment", "read", "head", "readout", "norm", "inner", "outer")
"""The last names of modules that are called as such; others have verbs, which hooks of torch's do not see."""
ASKED = ("forward hook", "pre-hook", "own forward", "replaced forward")


PAIRS = [(name, "forward hook") for name in MODELS] + [(FIRST, kind) for kind in CHANGES if kind != "forward hook"]
"""All refusals ask one predicate, so one thing is put on modules of every model, and all things on those of one."""


def failures(name: str, kind: str, path: str) -> Iterator[str]:
    with plain():
        expected, times = answers(name, path, kind)
    found, calls = answers(name, path, kind)
    yield from (f"{path}: {one}" for one in differences(found, expected))
    if bool(times) != bool(calls):
        yield f"{path}: called {calls} times, plainly {times}"
    if kind in ASKED and path.endswith(CALLED) and not calls:
        yield f"{path}: never called"


@pytest.mark.parametrize(("name", "kind"), PAIRS)
def test_what_is_put_on_any_module_is_honoured_on_every_path(name, kind):
    found = [one for path in places(name, kind) for one in failures(name, kind, path)]
    assert not found, "\n".join(found)


def test_beams_are_searched_without_fast_paths():
    model = recurrent().eval()
    with plain():
        expected = [
            one[0].tokens.tolist()
            for one in search(model.decoder, memory_of(model), Search(beam=3), bos=BOS, eos=EOS, max_length=4)
        ]
    found = search(model.decoder, memory_of(model), Search(beam=3), bos=BOS, eos=EOS, max_length=4)
    assert [one[0].tokens.tolist() for one in found] == expected


@pytest.mark.parametrize("name", MODELS)
def test_autocast_is_honoured_on_every_path(name):
    """Also where kernels compute in float32 only: what torch would compute in bfloat16 they refuse, or do as well."""
    torch.manual_seed(0)
    model = MODELS[name]().eval()
    inputs, found = torch.cat([torch.full((B, 1), BOS), TARGETS[:, :-1]], 1), []
    for context in (nullcontext, plain):
        with context(), torch.autocast("cpu", torch.bfloat16):
            said = model.decoder(inputs, memory_of(model)).log_probabilities
            best = search(model.decoder, memory_of(model), Search(beam=2), bos=BOS, eos=EOS, max_length=3)
        assert said.dtype == torch.float32
        found.append((said.masked_fill(said.isneginf(), 0), torch.tensor([one[0].log_probability for one in best])))
    for x, y in zip(*found, strict=True):
        torch.testing.assert_close(x, y, rtol=0.05, atol=0.05)
