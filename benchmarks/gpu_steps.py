"""Operators and host time of a training step on a GPU that is not there, beside another version of regard.

    git worktree add ../regard-before 8c3fd0f
    python benchmarks/gpu_steps.py --before ../regard-before

Tensors are fake, without numbers, so that nothing is computed and all that is timed is what the host does between two
launches. Kernels for the CPU are switched off, and recurrent layers compute as on a GPU. A step is the forward pass,
the loss and the backward pass of one batch from the middle of an epoch, without the optimiser.

Rules of counting:

- operators are those that torch dispatches and that are no views and not `empty`;
- a recurrent layer of torch over a sequence is one operator forward and one backward, as cuDNN's is; under autocast its
  inputs and weights are converted first, one operator each;
- half types are those of autocast on a CPU, which converts what products read; on a GPU it converts what softmax,
  norms and sums read to float32, too;
- a mask of dropout is one operator, as our kernel is, and keys are read as they are stored, as by our kernels; batch
  normalisation is that by masks, and other operations count as their formulas in torch's operations;
- the version before packs rows without padding and reads their lengths, which no table shows: its layers count as those
  over padded rows. It has no batches on a grid.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import torch
from preset_cases import built
from preset_data import DATA, path_of
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only

NOT_LAUNCHED = "aten.detach", "aten.empty", "aten.new_empty", "aten.sym_", "aten.promote_types", "prim."
"""Beginnings of the names of operators that launch nothing."""
PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16}


class Counting(TorchDispatchMode):
    """Counts operators that are no views."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not function.is_view and not str(function).startswith(NOT_LAUNCHED):
            self.counts[str(function)] += 1
        return function(*args, **(kwargs or {}))


class Layer(torch.autograd.Function):
    """A recurrent layer over rows (N, F) or (T, B, F): one operator in each direction."""

    @staticmethod
    def forward(ctx: Any, shape: Any, states: Any, x: Tensor, *weights: Tensor) -> Any:
        ctx.save_for_backward(x, *weights)
        ctx.set_materialize_grads(False)
        return x.new_empty(shape), *(x.new_empty(state) for state in states)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        return None, None, *(torch.empty_like(x) for x in ctx.saved_tensors)


def layer(count: int) -> Any:
    """In place of `torch.lstm` (two states) and the others (one)."""

    def call(x: Tensor, *args: Any) -> Any:
        _, weights, *_, is_bidirectional, is_batch_first = args
        rows, leading = x.shape[0 if is_batch_first else 1], x.shape[:2]
        directions = 2 if is_bidirectional else 1
        size, half = weights[1].shape[1], HALF_TYPE[0]
        inputs = [x, *weights] if half is None else [each.to(half) for each in (x, *weights)]
        states = [(directions, rows, size)] * count
        outputs, *last = Layer.apply((*leading, directions * size), states, *inputs)
        return outputs, *last

    return call


HALF_TYPE: list[torch.dtype | None] = [None]


def unpacked(stack: Any, inputs: Tensor, state: Any, mask: Tensor | None) -> Any:
    """In place of the layers over packed rows of the version before."""
    outputs, last = stack.through(stack._call, stack.layers, inputs, state)
    return outputs if mask is None else outputs.masked_fill(~mask[..., None], 0), last


def mask(items: Tensor, _: Any, width: int, *, dtype: torch.dtype, **options: Any) -> Tensor:
    """In place of the kernel of dropout's masks."""
    return items.new_empty(len(items), width, dtype=dtype)


@contextmanager
def gpu(network: Any, mode: FakeTensorMode, half: torch.dtype | None) -> Iterator[None]:
    """Within it fake tensors are taken for a GPU's, by the versions before and after."""
    import regard.layers.recurrent as recurrent
    from regard.ops import eligibility

    module, over_steps = (sys.modules.get(f"regard.ops.{name}") for name in ("dropout", "over_steps"))
    kinds = frozenset((*eligibility.TENSOR_TYPES, FakeTensor))
    with ExitStack() as stack:
        enter = stack.enter_context
        for name, count in (("lstm", 2), ("gru", 1), ("rnn_tanh", 1)):
            for place in (torch, torch._VF):
                enter(patch.object(place, name, layer(count), create=True))
        enter(patch.object(torch._C, "_len_torch_dispatch_stack", lambda: 0))
        enter(patch.object(eligibility, "TENSOR_TYPES", kinds))
        if hasattr(over_steps, "TENSOR_TYPES"):
            enter(patch.object(over_steps, "TENSOR_TYPES", kinds))
        for name in ("regard.ops.additive", "regard.ops.additive.front"):
            if hasattr(sys.modules.get(name), "_as_read"):
                enter(patch(f"{name}._as_read", lambda _, *inputs: inputs))
        norms = importlib.import_module("regard.ops.batch_norm")
        enter(patch.object(norms, "BATCH_NORM", norms.BATCH_NORM[-1:]))
        if hasattr(module, "MASKS"):
            enter(patch.dict(module.MASKS, reference=mask))
        else:
            enter(patch("regard.ops.dropout.reference.dropout_mask", mask))
        try:
            from regard.layers.cells import held

            refused = "no gate holds"
            enter(patch.object(held, "refuse", lambda cell, x, first: None if cell in held.GATES else refused))
        except ImportError:
            pass
        if hasattr(recurrent.RecurrentStack, "_run_in_torch"):
            enter(patch.object(recurrent.RecurrentStack, "_run_in_torch", unpacked))
        try:
            from regard.shapes import trusted

            enter(trusted())
        except ImportError:
            pass
        if half is not None:
            HALF_TYPE[0] = half
            try:
                from regard.ops.half import copied
                from regard.training.precision import weights_of_products

                enter(mode)
                enter(copied(weights_of_products(network), half))
            except ImportError:
                pass
            torch.set_autocast_enabled("cpu", True)
            torch.set_autocast_dtype("cpu", half)
            torch.autocast_increment_nesting()
        try:
            with mode:
                yield
        finally:
            if half is not None:
                torch.autocast_decrement_nesting()
                torch.clear_autocast_cache()
                torch.set_autocast_enabled("cpu", False)
                HALF_TYPE[0] = None


def moved(module: torch.nn.Module, mode: FakeTensorMode) -> None:
    """Puts fake tensors in place of a module's parameters and buffers, those that are shared once."""
    made: dict[int, Any] = {}

    def fake(x: Tensor) -> Any:
        if id(x) not in made:
            own: Any = torch.empty(x.shape, dtype=x.dtype)
            made[id(x)] = torch.nn.Parameter(own, x.requires_grad) if isinstance(x, torch.nn.Parameter) else own
        return made[id(x)]

    with mode:
        for each in module.modules():
            for kept in (each._parameters, each._buffers):
                for name, x in kept.items():
                    if x is not None:
                        setattr(each, name, fake(x))


def step_of(preset: str, folder: Path, precision: str) -> Any:
    """A call that makes the passes of a batch from the middle of an epoch."""
    from regard.layers import items

    model, trainee = built(preset, path_of(preset, folder))
    module, descriptions = model.module.train(), trainee.descriptions(0)
    description = descriptions[len(descriptions) // 2]
    batch, sites = trainee.batch(description), items.sites(module)
    ids = trainee.item_ids(description) if hasattr(trainee, "item_ids") else None
    if hasattr(trainee, "padded"):
        batch = trainee.padded(batch)
        rows = len(next(iter(batch.values())))
        ids = torch.nn.functional.pad(ids, (0, rows - len(ids)))
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    moved(module, mode)
    with mode:
        inputs = tree_map_only(Tensor, lambda x: torch.empty(x.shape, dtype=x.dtype), dict(batch))
        rows = None if ids is None else torch.empty(ids.shape, dtype=ids.dtype)
        number = torch.empty((), dtype=torch.int64)

    def call(counting: Any = None) -> None:
        draws = None if rows is None else items.ItemDraws(sites, rows, seed=1, step=number)
        for weight in module.parameters():
            weight.grad = None
        with counting or nullcontext(), gpu(module, mode, PRECISIONS[precision]), items.drawing(draws):
            trainee.loss(inputs, step=3, generator=torch.Generator()).total.backward()

    return call


def measure(preset: str, precision: str, folder: Path, repetitions: int) -> dict[str, Any]:
    """The operators of a step, and the median of its seconds."""
    torch.backends.mkldnn.set_flags(_enabled=False)
    call = step_of(preset, folder, precision)
    call()
    counting, seconds = Counting(), []
    call(counting)
    for _ in range(repetitions):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    conversions = counting.counts["aten._to_copy.default"]
    return {
        "operators": counting.counts.total(),
        "conversions": conversions,
        "seconds": median(seconds) if seconds else 0.0,
        "counts": dict(counting.counts.most_common()),
    }


def asked(version: Path, preset: str, folder: Path, repetitions: int) -> dict[str, Any] | None:
    """What another process measures of a version."""
    command = [sys.executable, __file__, "--measure", preset, str(folder), str(repetitions)]
    environment = {**os.environ, "PYTHONPATH": str(version / "src"), "OMP_NUM_THREADS": "1", "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{version.name} {preset}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return None
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, help="a checkout of the version before")
    parser.add_argument("--presets", nargs="*", default=sorted(DATA))
    parser.add_argument("--rounds", type=int, default=3, help="processes of each version, in turn")
    parser.add_argument("--repetitions", type=int, default=5, help="steps that a process times")
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        preset, folder, repetitions = options.measure
        made = {name: measure(preset, name, Path(folder), int(repetitions)) for name in PRECISIONS}
        print(json.dumps(made))
        return
    versions = [*([options.before] if options.before else []), Path(__file__).parents[1]]
    print("| preset | precision | operators | conversions | host, ms |\n|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for preset in options.presets:
            results: list[list[Any]] = [[] for _ in versions]
            for _ in range(options.rounds):
                for version, known in zip(versions, results, strict=True):
                    known.append(asked(version, preset, Path(folder), options.repetitions))
            for precision in PRECISIONS:
                rows = [[each[precision] for each in known if each is not None] for known in results]
                cells = [
                    " → ".join(str(known[0][name]) if known else "–" for known in rows)
                    for name in ("operators", "conversions")
                ]
                host = [f"{1e3 * median(x['seconds'] for x in known):.0f}" if known else "–" for known in rows]
                print(f"| {preset} | {precision} | {' | '.join(cells)} | {' → '.join(host)} |", flush=True)


if __name__ == "__main__":
    main()
