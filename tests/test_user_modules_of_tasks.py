"""What users put on linear maps and cells of every task's model is what a model with the effective weights computes.

Adapters, norms of weights, hooks, subclasses and compiled modules are put on all linear maps, or all cells, of a model
at once. Its loss, its gradients and its predictions are compared with those of the unchanged model whose weights are
the effective ones; gradients go through the effective weights by the chain rule.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.nn.utils import parametrizations, parametrize

from regard.config import load as read_config
from regard.layers import Linear
from regard.runs.contract import TASKS
from task_cases import LOOP, TASK_CASES

SEED = 5
STILL = (parametrizations._SpectralNorm, nn.Dropout)
SMALL = {"size": 8, "layers": 1}
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "recurrent": ("text_to_text", {}),
    "dot, LSTM": (
        "text_to_text",
        {"attention": {"recipe": "luong", "score": "general"}, "decoder": {"cell": "lstm", "size": 8}},
    ),
    "Transformer": (
        "text_to_text",
        {
            "architecture": "transformer",
            "encoder": {"size": 8, "layers": 1, "heads": 2},
            "decoder": {"size": 8, "layers": 1, "heads": 2},
        },
    ),
    "pointer": ("text_to_text", {"pointer": {}}),
    "Tacotron 2": ("text_to_speech", {}),
    "Tacotron 1": (
        "text_to_speech",
        {
            "architecture": "tacotron1",
            "encoder": {"size": 8, "embedding_size": 6},
            "decoder": {"size": 8, "prenet_sizes": [6]},
            "attention": {"recipe": "bahdanau", "size": 6},
        },
    ),
    "captioner": ("image_to_text", {}),
    "documents": ("documents", {}),
    "language model": ("language_modelling", {"tied_weights": False}),
    "key, value, predict": (
        "language_modelling",
        {"architecture": "recurrent", "past": "key_value_predict", "size": 9, "reach": 3},
    ),
    "forecaster": ("forecasting", {}),
    "labelling": ("labelling", {}),
}
"""Tasks, with the sections of `model` that replace those of the task's case."""
REPLACED = {"Transformer", "Tacotron 1", "key, value, predict"}
"""Models of which no section of the task's case is kept."""


@pytest.fixture(scope="module", params=MODELS)
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Any, Any, list[Any]]:
    """A model's name, the untrained model, the material of its trainee and inputs to predict."""
    (task, changes), name = MODELS[request.param], request.param
    case, folder = TASK_CASES[task], tmp_path_factory.mktemp("task")
    case.write(folder)
    sections = copy.deepcopy(case.sections)
    sections["model"] = changes if name in REPLACED else sections["model"] | changes
    training = {**LOOP, **case.training}
    if name == "Tacotron 1":
        training.pop("alignment_losses")
    path = folder / "config.yaml"
    path.write_text(yaml.safe_dump({"task": task, **sections, "training": training}), encoding="utf-8")
    config, kind = read_config(path).config, TASKS[task]
    material = kind.read(config)
    check = kind.checked if hasattr(kind, "checked") else kind.check
    torch.manual_seed(SEED)
    model = kind.build(kind.resolve(config, material, check(config, material)).config, material, name="tiny")
    with torch.no_grad():
        for weight in model.module.parameters():
            if weight.dim() > 1 and not weight.any():
                weight.normal_(0, 0.2)  # zeros have no direction, which a norm of weights needs
    return name, model, (kind, material), read_inputs(task, model, case.inputs, folder)


def read_inputs(task: str, model: Any, inputs: Any, folder: Path) -> list[Any]:
    if task == "image_to_text":
        return [model.read(str(folder / name)) for name in inputs]
    if task == "forecasting":
        return [str(folder / name) for name in inputs]
    return list(inputs)


def answers(model: Any, made: Any, inputs: list[Any]) -> tuple[Tensor, list[Any]]:
    """The loss of a training batch, with its graph, and what the model predicts."""
    kind, material = made
    trainee = kind.trainee(model, material)
    model.module.train()
    for module in model.module.modules():
        if isinstance(module, STILL) or type(module).__name__.startswith("Zoneout"):
            module.eval()  # no power iterations, and no masks, of which other paths draw others
    torch.manual_seed(SEED)
    batch, generator = trainee.batch(trainee.descriptions(0)[0]), torch.Generator().manual_seed(SEED)
    loss = trainee.loss(batch, step=1, generator=generator).total
    model.module.eval()
    torch.manual_seed(SEED)
    return loss, predictions(model, inputs)


def predictions(model: Any, inputs: list[Any]) -> list[Any]:
    """What a model predicts; of speech, spectrograms and no sound, which Griffin-Lim would start from."""
    return list(model.predict(inputs, **({"sound": False} if "sound" in signature(model.predict).parameters else {})))


def numbers(value: Any, depth: int = 3) -> Iterator[Any]:
    """The tensors, numbers and texts of a prediction."""
    if isinstance(value, Tensor | str | bool | int | float):
        yield value
    elif depth and is_dataclass(value):
        for field in fields(value):
            yield from numbers(getattr(value, field.name), depth - 1)
    elif depth and isinstance(value, list | tuple):
        for each in value:
            yield from numbers(each, depth - 1)


class Adapter(nn.Module):
    """A linear map and a change of low rank."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base
        self.down = nn.Parameter(0.3 * torch.randn(2, base.in_features))
        self.up = nn.Parameter(0.3 * torch.randn(base.out_features, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.base(x) + linear(linear(x, self.down), self.up)


class Scale(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return 0.75 * weight


Effective = dict[str, Callable[[], Tensor]]
"""How the weights that a model has in effect follow from its parameters; those that are left out are themselves."""
Change = Callable[[nn.Module, str, nn.Module, list[str]], Effective]
"""Changes a module of a model at a path, lets its calls be noted, and gives the effective weights."""


def replace(model: nn.Module, path: str, module: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    setattr(model.get_submodule(parent), name, module)


def noted(module: nn.Module, path: str, calls: list[str]) -> None:
    module.register_forward_hook(lambda *_: calls.append(path))


def adapted(model: nn.Module, path: str, module: Any, calls: list[str]) -> Effective:
    adapter, weight = Adapter(module), module.weight
    replace(model, path, adapter)
    noted(adapter, path, calls)
    return {f"{path}.weight": lambda: weight + adapter.up @ adapter.down}


def parametrised(kind: Callable[[nn.Module, str], object]) -> Change:
    def change(model: nn.Module, path: str, module: nn.Module, calls: list[str]) -> Effective:
        names = [name for name, weight in module.named_parameters(recurse=False) if weight.dim() == 2]
        for name in names:
            kind(module, name)
        return {f"{path}.{name}": lambda name=name: getattr(module, name) for name in names}  # type: ignore[misc]

    return change


def forward_hook(model: nn.Module, path: str, module: Any, calls: list[str]) -> Effective:
    def hook(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        calls.append(path)
        return 0.75 * output

    module.register_forward_hook(hook)
    scaled = {f"{path}.{name}": weight for name, weight in module.named_parameters()}
    return {name: lambda weight=weight: 0.75 * weight for name, weight in scaled.items()}  # type: ignore[misc]


def pre_hook(model: nn.Module, path: str, module: Any, calls: list[str]) -> Effective:
    def hook(module: nn.Module, inputs: Any) -> Any:
        calls.append(path)
        return (0.75 * inputs[0],)

    module.register_forward_pre_hook(hook)
    return {f"{path}.weight": lambda: 0.75 * module.weight}


def backward_hook(model: nn.Module, path: str, module: Any, calls: list[str]) -> Effective:
    module.register_full_backward_hook(lambda *_: calls.append(path))
    return {}


def own_forward(model: nn.Module, path: str, module: Any, calls: list[str]) -> Effective:
    class Own(type(module)):  # type: ignore[misc]
        def forward(self, x: Tensor) -> Tensor:
            calls.append(path)
            return linear(x, 0.75 * self.weight, self.bias)

    module.__class__ = Own
    return {f"{path}.weight": lambda: 0.75 * module.weight}


def compiled(model: nn.Module, path: str, module: nn.Module, calls: list[str]) -> Effective:
    inner: Any = torch.compile(module, backend="eager", dynamic=True)
    replace(model, path, inner)
    noted(inner, path, calls)
    return {}


def watched(model: nn.Module, path: str, module: nn.Module, calls: list[str]) -> Effective:
    noted(module, path, calls)
    return {}


LINEAR: dict[str, Change] = {
    "adapter": adapted,
    "weight norm": parametrised(lambda module, name: halved(parametrizations.weight_norm(module, name), name)),
    "spectral norm": parametrised(parametrizations.spectral_norm),
    "forward hook": forward_hook,
    "pre-hook": pre_hook,
    "backward hook": backward_hook,
    "own forward": own_forward,
    "compiled": compiled,
}
CELLS: dict[str, Change] = {
    "parametrisation": parametrised(lambda module, name: parametrize.register_parametrization(module, name, Scale())),
    "weight norm": LINEAR["weight norm"],
    "spectral norm": LINEAR["spectral norm"],
    "watching hook": watched,
}


def halved(module: nn.Module, name: str) -> None:
    """Another norm than that which the weight had."""
    with torch.no_grad():
        module.parametrizations[name].original0.mul_(0.5)  # type: ignore[index, union-attr]


def is_cell(module: nn.Module) -> bool:
    return isinstance(module, nn.RNNBase | nn.RNNCellBase)


def changed(model: nn.Module, change: Change, wanted: Callable[[nn.Module], bool]) -> tuple[Effective, list[str]]:
    """Puts something on all modules of a kind; the effective weights, and the list where calls are noted."""
    calls, effective = list[str](), Effective()
    for path, module in [(path, module) for path, module in model.named_modules() if wanted(module)]:
        effective |= change(model, path, module, calls)
    return effective, calls


def failures(case: Any, change: Change, wanted: Callable[[nn.Module], bool], *, is_called: bool) -> Iterator[str]:
    _, original, made, inputs = case
    model, oracle = copy.deepcopy(original), copy.deepcopy(original)
    paths = {path for path, module in model.module.named_modules() if wanted(module)}
    before = dict(model.module.named_parameters())
    torch.manual_seed(SEED)
    effective, calls = changed(model.module, change, wanted)
    with torch.no_grad():
        for name, weight in oracle.module.named_parameters():
            if name in effective:
                weight.copy_(effective[name]())
    expected_loss, expected = answers(oracle, made, inputs)
    loss, predicted = answers(model, made, inputs)
    try:
        torch.testing.assert_close(loss, expected_loss, rtol=1e-5, atol=1e-6)
    except AssertionError:
        yield f"loss {loss.item()}, expected {expected_loss.item()}"
    yield from gradients(model.module, loss, oracle.module, expected_loss, before, effective)
    for index, (one, other) in enumerate(zip(predicted, expected, strict=True)):
        try:
            for x, y in zip(numbers(one), numbers(other), strict=True):
                if isinstance(x, str):
                    assert x == y
                else:
                    torch.testing.assert_close(x, y, rtol=1e-3, atol=1e-4, equal_nan=True)
        except AssertionError as error:
            yield f"prediction {index}: {str(error).splitlines()[0]}"
    if is_called and (never := sorted(paths - set(calls))):
        yield f"never called: {', '.join(never)}"


def gradients(
    module: nn.Module,
    loss: Tensor,
    oracle: nn.Module,
    expected_loss: Tensor,
    before: Mapping[str, Tensor],
    effective: Effective,
) -> Iterator[str]:
    """Where the gradients are not those of the oracle, through the effective weights."""
    names, weights = zip(*oracle.named_parameters(), strict=True)
    asked = torch.autograd.grad(expected_loss, weights, materialize_grads=True, allow_unused=True)
    own, parameters = zip(*module.named_parameters(), strict=True)
    outputs = [effective[name]() if name in effective else before[name] for name in names]
    with torch.enable_grad():
        wanted = torch.autograd.grad(outputs, parameters, asked, materialize_grads=True, allow_unused=True)
    found = torch.autograd.grad(loss, parameters, materialize_grads=True, allow_unused=True)
    wrong = [
        f"{name} by {float((x - y).abs().max()):.1e}"
        for name, x, y in zip(own, found, wanted, strict=True)
        if not torch.allclose(x, y, rtol=1e-3, atol=1e-3 * max(1.0, float(y.abs().max())))
    ]
    if wrong:
        yield f"gradients of {len(wrong)} of {len(own)} weights differ, as of {wrong[0]}, {wrong[-1]}"


@pytest.mark.parametrize("change", LINEAR)
def test_what_is_put_on_linear_maps_is_in_effect(made: Any, change: str) -> None:
    counted = change not in ("weight norm", "spectral norm")
    found = list(failures(made, LINEAR[change], lambda module: isinstance(module, nn.Linear), is_called=counted))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("change", CELLS)
def test_what_is_put_on_cells_is_in_effect(made: Any, change: str) -> None:
    found = list(failures(made, CELLS[change], is_cell, is_called=change == "watching hook"))
    assert not found, "\n".join(found)


def quantised(model: nn.Module) -> nn.Module:
    """The model with dynamic int8 linear maps, as the documentation of `layers.Linear` says."""
    for module in model.modules():
        if type(module) is Linear:
            module.__class__ = nn.Linear
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return torch.ao.quantization.quantize_dynamic(model, {nn.Linear})


def test_quantised_linear_maps_are_called(made: Any) -> None:
    _, original, _, inputs = made
    model = copy.deepcopy(original)
    paths = {path for path, module in model.module.named_modules() if isinstance(module, nn.Linear)}
    expected = [numbers(one) for one in predictions(model, inputs)]
    model.module = quantised(model.module)
    calls: list[str] = []
    for path in paths:
        noted(model.module.get_submodule(path), path, calls)
    with torch.no_grad():
        for one, other in zip(predictions(model, inputs), expected, strict=True):
            for x, y in zip(numbers(one), other):
                if isinstance(x, Tensor) and isinstance(y, Tensor) and x.shape == y.shape and x.is_floating_point():
                    torch.testing.assert_close(x, y, rtol=0.1, atol=0.1, equal_nan=True)
    assert sorted(paths - set(calls)) == []
