"""Which parameters Muon trains, how, and that its state continues."""

from __future__ import annotations

import copy
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from regard.config.schema import TrainingConfig
from regard.errors import ConfigError
from regard.training import processes
from regard.training.optimizers import Muon, divided_parameters, optimizer_of
from regard.training.step import Stepper, unrecorded
from support import tiny


def network() -> nn.ModuleDict:
    torch.manual_seed(1)
    return nn.ModuleDict({"table": nn.Embedding(40, 16), "layer": nn.Linear(16, 32), "head": nn.Linear(32, 40)})


def loss(module: nn.ModuleDict, seed: int) -> torch.Tensor:
    ids = torch.randint(40, (200,), generator=torch.Generator().manual_seed(seed))
    hidden = module["layer"](module["table"](ids)).tanh()
    return nn.functional.cross_entropy(module["head"](hidden), ids.roll(1))


def step(module: nn.ModuleDict, optimizer: torch.optim.Optimizer, seed: int) -> None:
    optimizer.zero_grad()
    loss(module, seed).backward()
    optimizer.step()


CONFIG = TrainingConfig(optimizer="muon", learning_rate=0.01, weight_decay=0.1)


@pytest.mark.parametrize("module", [tiny.captioner(), tiny.transformer(), tiny.transformer_language()])
def test_the_matrices_of_hidden_layers_are_muons(module: nn.Module) -> None:
    hidden, others = divided_parameters(module)
    names = {id(parameter): f".{name}" for name, parameter in module.named_parameters()}
    muons = [names[id(p)] for p in hidden]
    assert all(p.ndim == 2 and min(p.shape) > 1 for p in hidden)
    assert muons
    assert not [name for name in muons if "table" in name or ".head." in name or "bias" in name]
    left = [names[id(p)] for p in others if p.ndim == 2 and min(p.shape) > 1]
    assert all("table" in name or ".head." in name for name in left)
    assert len(hidden) + len(others) == len(list(module.parameters()))


def test_an_update_of_a_matrix_is_orthogonal_and_of_the_size_of_adamws() -> None:
    module = network()
    before = module["layer"].weight.detach().clone()
    step(module, optimizer_of(module, CONFIG.model_copy(update={"weight_decay": 0.0})), 1)
    values = torch.linalg.svdvals((before - module["layer"].weight.detach()) / (0.2 * 32**0.5 * 0.01))
    assert len(values) == 16
    assert values.min() > 0.6  # the iteration of torch ends between about 0.7 and 1.2
    assert values.max() < 1.3


def test_all_other_parameters_are_trained_as_by_adamw() -> None:
    ours, theirs = network(), network()
    step(ours, optimizer_of(ours, CONFIG), 1)
    step(theirs, optimizer_of(theirs, CONFIG.model_copy(update={"optimizer": "adamw"})), 1)
    for name, parameter in ours.named_parameters():
        is_same = torch.equal(parameter, theirs.get_parameter(name))
        assert is_same == (name != "layer.weight"), name


def test_its_state_continues_in_another_optimizer() -> None:
    whole, continued = network(), network()
    first, second = optimizer_of(whole, CONFIG), optimizer_of(continued, CONFIG)
    for seed in range(3):
        step(whole, first, seed)
        step(continued, second, seed)
    third = Muon(continued, lr=0.01, betas=CONFIG.betas, weight_decay=0.1)
    third.load_state_dict(copy.deepcopy(second.state_dict()))
    for seed in range(3, 6):
        step(whole, first, seed)
        step(continued, third, seed)
    for name, parameter in whole.named_parameters():
        assert torch.equal(parameter, continued.get_parameter(name)), name


def test_it_is_not_recorded_and_needs_whole_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    assert unrecorded(CONFIG) == "training.optimizer is muon"
    module = network()
    exchange = SimpleNamespace(is_sharded=True)
    monkeypatch.setattr("regard.training.step.Exchange", lambda *_: exchange)
    assert processes.size() == 1
    with pytest.raises(ConfigError, match="muon needs the whole gradient of a matrix, and with sharding: fsdp no"):
        Stepper(SimpleNamespace(module=module), CONFIG, torch.device("cpu"))  # type: ignore[arg-type]
