from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from regard.errors import ConfigError
from regard.tasks import compilation
from training_compiled import MODELS, Words, build, configuration

PROGRAM = Path(__file__).with_name("training_compiled.py")


@pytest.fixture(scope="module")
def compiled() -> dict[str, Any]:
    """What is found of each kind, one after the other in a process of their own.

    The Transformer with its derivative captured, too; the program takes inductor as well, whose C++ is slow.
    """
    kinds = [f"{kind}={'aot_eager' if kind == 'transformer' else 'eager'}" for kind in MODELS]
    done = subprocess.run([sys.executable, str(PROGRAM), *kinds], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.mark.parametrize("kind", MODELS)
def test_batches_of_many_shapes_are_compiled_once_and_learn_the_same(compiled: dict[str, Any], kind: str) -> None:
    seen = compiled[kind]
    assert set(seen["graphs"]) == {seen["graphs"][0]}
    assert seen["graphs"][0] == 1 if kind == "transformer" else seen["graphs"][0] >= 1
    assert max(seen["errors"]) < 1e-5
    assert not seen["draws"]
    assert not seen["gradients"]


@pytest.mark.parametrize("change", ["training.scheduled_sampling=0.2", "training.sequence_teacher_forcing=0.5"])
def test_fed_back_outputs_are_not_compiled(change: str) -> None:
    with pytest.raises(ConfigError, match="anew for every length") as info:
        compilation.check_compilable(configuration(change).training)
    assert info.value.path == ("training", "compile")


def test_a_machine_without_a_compiler_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from torch._inductor import cpp_builder
    from torch._inductor.exc import InvalidCxxCompiler

    def absent() -> str:
        raise InvalidCxxCompiler

    monkeypatch.setattr(cpp_builder, "get_cpp_compiler", absent)
    with pytest.raises(ConfigError, match=r"Install g\+\+"):
        compilation.check_compilable(configuration().training)


def test_a_compiler_that_fails_is_told_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(graph: Any, examples: Any) -> Any:
        raise RuntimeError("Python.h: no such file\nand much more")

    torch.compiler.reset()
    monkeypatch.setattr(compilation, "BACKEND", broken)
    trainee = build("transformer", Words([(3, 4)] * 6))
    with pytest.raises(ConfigError, match=r"torch.compile failed: .*Python\.h: no such file\nOn a CPU it needs g\+\+"):
        trainee.loss(trainee.batch([0, 1]), step=0, generator=torch.Generator())
    torch.compiler.reset()
