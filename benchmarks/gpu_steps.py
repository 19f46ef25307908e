"""Operators and host time of a training step on a GPU that is not there, beside another version of regard.

    git worktree add ../regard-before 8c3fd0f
    python benchmarks/gpu_steps.py --before ../regard-before

Tensors on the GPU are fake: they have shapes, types and a device, and nothing is computed. What asks for their device
is told that it is a GPU, so both versions choose what they choose there; for torch they are on a device of its place
for other backends. All that is timed is what the host does, most of it for fake tensors. A step is the forward pass,
the loss and the backward pass of one batch from the middle of an epoch, without the optimiser.

Rules of counting:

- operators are those that torch dispatches for tensors on the GPU and that are no views and not `empty`; conversions
  are `_to_copy`;
- integers and truth values have their numbers on the host, too, so that what reads them (lengths, selected rows,
  checks) goes on as with a GPU. What the host has to wait for is counted as a wait and as an operator: a number that
  is read, a copy to the host, a shape that follows from numbers;
- a recurrent layer of torch over a sequence, attention by torch's kernel, Triton's additive energies and masks of
  dropout are one operator in each direction; other operations count as their formulas in torch's operations;
- under autocast products read half types, and norms, powers and losses float32, as torch converts on a GPU;
- the version before records the passes of a few decoders as CUDA graphs, which are counted as what they launch. The
  version after records whole steps, which are counted as what is launched where they are not recorded.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import torch
from preset_cases import built
from preset_data import DATA, path_of
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map, tree_map_only
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend

NOT_LAUNCHED = "aten.detach", "aten.empty", "aten.new_empty", "aten.sym_", "aten.promote_types", "prim."
"""Beginnings of the names of operators that launch nothing."""
READS = (
    "aten._local_scalar_dense",
    "aten.nonzero",
    "aten.masked_select",
    "aten._unique2",
    "aten.repeat_interleave.Tensor",
    "aten.equal",
    "aten._pack_padded_sequence.",
)
"""Beginnings of the names of operators whose results, or their shapes, follow from numbers."""
TO_HALF = (
    *("linear", "matmul", "mm", "addmm", "mv", "addmv", "bmm", "baddbmm", "addbmm", "addr", "einsum", "prelu"),
    *("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "convolution"),
    *("lstm_cell", "gru_cell", "rnn_tanh_cell", "_thnn_fused_lstm_cell", "_thnn_fused_gru_cell"),
)
TO_FLOAT = (
    *("layer_norm", "native_layer_norm", "group_norm", "exp", "expm1", "log", "log1p", "log2", "log10", "pow", "rsqrt"),
    *("reciprocal", "softplus", "tan", "sinh", "cosh", "asin", "acos", "logsumexp", "cosine_similarity", "nll_loss"),
    *("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "binary_cross_entropy_with_logits"),
)
INTO_FLOAT = "softmax", "log_softmax", "cumsum", "cumprod", "sum", "prod"
"""Operators that autocast on a GPU lets read half types or float32, or read what there is and write float32."""


class Absent(_DummyBackendModule):
    """A backend of which nothing is there."""

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]


_setup_privateuseone_for_python_backend("absent", Absent())
PLACE, GPU = torch.device("absent:0"), torch.device("cuda:0")
"""The device of fake tensors, and what is said of it."""
PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16}
COLUMNS = "operators", "conversions", "waits"


def numbers(x: Any) -> Tensor | None:
    """The numbers of a tensor on the host, or of one on the GPU that has them there, too; None if it has none."""
    return getattr(x, "numbers", None) if isinstance(x, FakeTensor) else x


def on_gpu(x: Tensor) -> Any:
    """A tensor on the GPU, which keeps the numbers of integers and truth values."""
    fake: Any = torch.empty(x.shape, dtype=x.dtype, device=PLACE)
    if not x.is_floating_point():
        fake.numbers = x
    return fake


class Launches(TorchDispatchMode):
    """Counts what is launched, within a mode of fake tensors, and answers what is read."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()
        self.waits = 0

    def __torch_dispatch__(self, function: Any, kinds: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        target = torch.device(kwargs.get("device") or (PLACE if any(map(is_fake, tensors)) else "cpu"))
        if kwargs.get("device") is not None and target.type == "cuda":
            kwargs["device"] = PLACE
        if target.type == "cpu" and not any(map(is_fake, tensors)):
            with unset_fake_temporarily():  # the host's own work
                return function(*args, **kwargs)
        name = str(function)
        if not function.is_view and not name.startswith(NOT_LAUNCHED):
            self.counts[name] += 1
        is_copy = name.startswith("aten.copy_") and not is_fake(args[0])
        if name.startswith(READS) or target.type == "cpu" or is_copy or reads_mask(name, args):
            self.waits += 1
            return answer(name, function, args, kwargs)
        if name.startswith("aten._to_copy") and not is_fake(args[0]):
            real = on_host(function, args, kwargs)
            with inside():
                return on_gpu(real)
        with inside():
            result = FORMS.get(name, function)(*args, **kwargs)
        outputs = [x for x in tree_leaves(result) if isinstance(x, FakeTensor) and not x.is_floating_point()]
        if outputs:
            if any(numbers(x) is None for x in tensors):
                known = [None] * len(outputs)
            else:
                real = on_host(function, args, kwargs)
                known = [x for x in tree_leaves(real) if isinstance(x, Tensor) and not x.is_floating_point()]
            for x, value in zip(outputs, known, strict=True):
                x.numbers = value
        return result


INSIDE = [0]


@contextmanager
def inside() -> Iterator[None]:
    """Within it tensors tell torch where they are for torch."""
    INSIDE[0] += 1
    try:
        yield
    finally:
        INSIDE[0] -= 1


def is_fake(x: Any) -> bool:
    """Whether a tensor is on the GPU."""
    return isinstance(x, FakeTensor)


def reads_mask(name: str, args: Any) -> bool:
    """Whether an operator selects by truth values."""
    return name.startswith("aten.index.") and any(x is not None and x.dtype == torch.bool for x in args[1])


def on_host(function: Any, args: Any, kwargs: Any) -> Any:
    """The result of an operator on the host, where numbers that are not known are zeros."""

    def known(x: Tensor) -> Tensor:
        value = numbers(x)
        return torch.zeros((), dtype=x.dtype).expand(x.shape) if value is None else value

    with unset_fake_temporarily():
        args, kwargs = tree_map_only(Tensor, known, (args, kwargs))
        return function(*args, **{**kwargs, **({"device": "cpu"} if kwargs.get("device") is not None else {})})


def answer(name: str, function: Any, args: Any, kwargs: Any) -> Any:
    """The result of an operator that waits for the GPU."""
    if name.startswith("aten._local_scalar_dense") and numbers(args[0]) is None:
        raise RuntimeError("a step reads a number that is not known without computing it")
    real = on_host(function, args, kwargs)
    with inside():
        return placed(name, real)


def placed(name: str, real: Any) -> Any:
    """A result of the host where it belongs: the sizes of packed batches and copies stay on the host."""
    if name.startswith("aten._pack_padded_sequence."):
        return on_gpu(real[0]), real[1]
    is_copy = name.startswith(("aten._to_copy", "aten.copy_"))
    return real if is_copy else tree_map(lambda x: on_gpu(x) if isinstance(x, Tensor) else x, real)


def gru_cell(gates: Tensor, _: Any, state: Tensor, *biases: Any) -> Any:
    """The new state, and five numbers of each unit for the backward pass."""
    return torch.empty_like(state), state.new_empty(len(state), 5 * state.shape[1])


def gru_cell_backward(gradient: Tensor, _: Any, has_bias: bool) -> Any:
    """The gradients of both gates, of the state, and of both biases."""
    rows, size = gradient.shape
    gates = [gradient.new_empty(rows, 3 * size) for _ in range(2)]
    biases = [gradient.new_empty(3 * size) if has_bias else None for _ in range(2)]
    return *gates, torch.empty_like(gradient), *biases


FORMS = {
    "aten._thnn_fused_gru_cell.default": gru_cell,
    "aten._thnn_fused_gru_cell_backward.default": gru_cell_backward,
}
"""By name, operators of a GPU of which torch does not know the shapes of the results."""


class Kernel(torch.autograd.Function):
    """One operator in each direction, from inputs to outputs of some shapes."""

    @staticmethod
    def forward(ctx: Any, shapes: Any, *inputs: Tensor) -> Any:
        ctx.save_for_backward(*inputs)
        ctx.set_materialize_grads(False)
        first, *others = shapes
        return inputs[0].new_zeros(first), *(inputs[0].new_empty(shape) for shape in others)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        first, *others = ctx.saved_tensors
        return None, torch.zeros_like(first), *(torch.empty_like(x) for x in others)


class Autocast:
    """torch's autocast on a GPU, for the place of fake tensors."""

    def __init__(self) -> None:
        self.half: torch.dtype | None = None
        self._copies: dict[int, tuple[Tensor, Tensor]] = {}
        self._library, self._others = (torch.library.Library(name, "IMPL") for name in ("aten", "_"))
        self._others.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
        for names, call in ((TO_HALF, self.to_half), (TO_FLOAT, self.to_float), (INTO_FLOAT, self.into_float)):
            for operator in (getattr(torch.ops.aten, name) for name in names):
                for overload in operator.overloads():
                    if "out" not in overload:
                        chosen = getattr(operator, overload)
                        self._library.impl(chosen, partial(call, chosen), "AutocastPrivateUse1")

    def copies(self, *inputs: Any) -> Any:
        """Inputs in the half type; of a weight one copy."""
        return tree_map_only(Tensor, self._copy, inputs) if self.half is not None else inputs

    def _copy(self, x: Tensor) -> Tensor:
        if x.dtype != torch.float32:
            return x
        if not (x.is_leaf and x.requires_grad):
            return x.to(self.half)
        if id(x) not in self._copies:
            self._copies[id(x)] = x, x.to(self.half)
        return self._copies[id(x)][1]

    def to_half(self, operator: Any, *args: Any, **kwargs: Any) -> Any:
        with excluded():
            return operator(*self.copies(*args), **kwargs)

    def to_float(self, operator: Any, *args: Any, **kwargs: Any) -> Any:
        with excluded():
            return operator(*tree_map_only(Tensor, lambda x: x.float() if x.dtype == self.half else x, args), **kwargs)

    def into_float(self, operator: Any, *args: Any, **kwargs: Any) -> Any:
        with excluded():
            if args[0].dtype == self.half and not any(isinstance(x, torch.dtype) for x in (*args, *kwargs.values())):
                kwargs["dtype"] = torch.float32
            return operator(*args, **kwargs)

    @contextmanager
    def on(self, half: torch.dtype | None) -> Iterator[None]:
        """Within it autocast is on, if a half type is given."""
        self.half = half
        for kind in ("cuda", PLACE.type):  # what is asked for by name, and what is done
            torch.set_autocast_enabled(kind, half is not None)
            torch.set_autocast_dtype(kind, half or torch.float16)
        try:
            yield
        finally:
            self.half = None
            self._copies.clear()
            for kind in ("cuda", PLACE.type):
                torch.set_autocast_enabled(kind, False)


def excluded() -> Any:
    """Within it operators are not autocast's."""
    return torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1))


AUTOCAST = Autocast()


def layer(count: int) -> Any:
    """In place of `torch.lstm` (two states) and the others (one), over padded and packed rows."""

    def call(x: Tensor, *args: Any) -> Any:
        if isinstance(args[0], Tensor) and args[0].dtype == torch.int64:  # the sizes of batches of packed rows
            sizes, _, weights, *_, is_bidirectional = args
            leading, rows = x.shape[:1], int(sizes[0])
        else:
            _, weights, *_, is_bidirectional, is_batch_first = args
            leading, rows = x.shape[:2], x.shape[0 if is_batch_first else 1]
        directions, size = (2 if is_bidirectional else 1), weights[1].shape[1]
        states = [(directions, rows, size)] * count
        outputs, *last = Kernel.apply([(*leading, directions * size), *states], *AUTOCAST.copies(x, *weights))
        return outputs, *last

    return call


def attention(query: Tensor, keys: Tensor, values: Tensor, *args: Any, **options: Any) -> Tensor:
    """In place of `scaled_dot_product_attention`."""
    output: Tensor = Kernel.apply([(*query.shape[:-1], values.shape[-1])], *AUTOCAST.copies(query, keys, values))[0]
    return output


def energies(query: Tensor, keys: Tensor, v: Tensor, slope: float | None) -> Tensor:
    """In place of Triton's kernels of additive energies."""
    return query.new_zeros(query.shape[0], *v.shape[:-1], query.shape[1], keys.shape[1])


def gradients(gradient: Tensor, query: Tensor, keys: Tensor, v: Tensor, slope: float | None) -> Any:
    """In place of Triton's kernels of the gradients of additive energies."""
    return torch.zeros_like(query), torch.empty_like(keys), torch.empty_like(v)


def mask(items: Tensor, _: Any, width: int, *, dtype: torch.dtype, **options: Any) -> Tensor:
    """In place of the kernel of dropout's masks."""
    return items.new_zeros(len(items), width, dtype=dtype)


def module(*names: str) -> Any:
    """The first module of these names that this version has."""
    for name in names:
        try:
            return import_module(f"regard.{name}")
        except ImportError:
            pass
    return None


@contextmanager
def gpu(network: Any, half: torch.dtype | None) -> Iterator[None]:
    """Within it fake tensors are taken as a GPU's, by the versions before and after."""
    eligibility = module("ops.eligibility")
    kinds = frozenset((*eligibility.TENSOR_TYPES, FakeTensor))
    with ExitStack() as stack:
        enter = stack.enter_context
        for name, count in (("lstm", 2), ("gru", 1), ("rnn_tanh", 1)):
            for place in (torch, torch._VF):
                enter(patch.object(place, name, layer(count), create=True))
        enter(patch.object(torch._C, "_len_torch_dispatch_stack", lambda: 0))
        where = FakeTensor.device.fget
        for name, get in (
            ("device", lambda x: where(x) if INSIDE[0] else GPU),
            ("is_cuda", lambda x: not INSIDE[0]),
            ("is_cpu", lambda x: False),
        ):
            enter(patch.object(FakeTensor, name, property(get), create=True))
        for place in (eligibility, module("ops.over_steps")):
            if hasattr(place, "TENSOR_TYPES"):
                enter(patch.object(place, "TENSOR_TYPES", kinds))
        enter(patch.object(module("layers.module_weights"), "_WEIGHTS", (*kinds, type(None))))
        enter(
            patch.object(
                module("ops.dot_attention.fused", "ops.dot_attention"), "scaled_dot_product_attention", attention
            )
        )
        chunked = module("ops.additive.chunked", "ops.kernels.additive_chunked")
        enter(patch.multiple(chunked, energies=energies, gradients=gradients))
        kernels = SimpleNamespace(energies=energies, gradients=gradients)
        triton = "regard.ops.additive.triton", "regard.ops.kernels.additive_triton"
        enter(patch.dict(sys.modules, dict.fromkeys(triton, kernels)))
        dropout = module("ops.dropout")
        if hasattr(dropout, "MASKS"):
            enter(patch.dict(dropout.MASKS, triton=mask, reference=mask))
        else:
            enter(patch.object(module("ops.dropout.reference"), "dropout_mask", mask))
        if (graphs := module("models.fused.graphs")) is not None:
            enter(patch.dict(graphs.RECORDERS, clear=True))
        if hasattr(module("shapes"), "trusted"):
            enter(module("shapes").trusted())
        if half is not None and (copies := module("ops.half")) is not None:
            enter(copies.copied(module("training.precision").weights_of_products(network), half))
        enter(AUTOCAST.on(half))
        torch._C._set_only_lift_cpu_tensors(True)  # `torch.tensor` makes numbers on the host and copies them
        stack.callback(torch._C._set_only_lift_cpu_tensors, False)
        yield


def moved(network: torch.nn.Module) -> None:
    """Puts tensors on the GPU in place of a module's parameters and buffers, those that are shared once."""
    made: dict[int, Any] = {}

    def fake(x: Tensor) -> Any:
        if id(x) not in made:
            own = on_gpu(x)
            made[id(x)] = torch.nn.Parameter(own, x.requires_grad) if isinstance(x, torch.nn.Parameter) else own
        return made[id(x)]

    for each in network.modules():
        for kept in (each._parameters, each._buffers):
            for name, x in kept.items():
                if x is not None:
                    setattr(each, name, fake(x))


def step_of(preset: str, folder: Path, precision: str) -> Any:
    """A call that makes the passes of a batch from the middle of an epoch, and returns what they launch."""
    from regard.layers import items

    model, trainee = built(preset, path_of(preset, folder))
    network, descriptions = model.module.train(), trainee.descriptions(0)
    description = descriptions[len(descriptions) // 2]
    batch, sites = trainee.batch(description), items.sites(network)
    ids = trainee.item_ids(description) if hasattr(trainee, "item_ids") else None
    if hasattr(trainee, "padded"):
        batch = trainee.padded(batch)
        rows = len(next(iter(batch.values())))
        ids = torch.nn.functional.pad(ids, (0, rows - len(ids)))
    mode, step = FakeTensorMode(allow_non_fake_inputs=True), torch.tensor(3)
    with mode:
        moved(network)
        inputs = tree_map_only(Tensor, on_gpu, dict(batch))
        ids = None if ids is None else on_gpu(ids)
        number = on_gpu(step) if module("ops.recording") is not None else 3

    def call() -> Launches:
        launches = Launches()
        draws = None if ids is None else items.ItemDraws(sites, ids, seed=1, step=number)
        for weight in network.parameters():
            weight.grad = None
        with mode, launches, gpu(network, PRECISIONS[precision]), items.drawing(draws):
            trainee.loss(inputs, step=3, generator=torch.Generator()).total.backward()
        return launches

    return call


def measure(preset: str, precision: str, folder: Path, repetitions: int) -> dict[str, Any]:
    """The operators of a step, and the median of its seconds."""
    call, seconds = step_of(preset, folder, precision), []
    launches = call()
    for _ in range(repetitions):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return {
        "operators": launches.counts.total(),
        "conversions": launches.counts["aten._to_copy.default"],
        "waits": launches.waits,
        "seconds": median(seconds) if seconds else 0.0,
        "counts": dict(launches.counts.most_common()),
    }


def asked(version: Path, preset: str, folder: Path, repetitions: int) -> dict[str, Any] | None:
    """What another process measures of a version."""
    command = [sys.executable, __file__, "--measure", preset, str(folder), str(repetitions)]
    environment = {**os.environ, "PYTHONPATH": str(version / "src"), "OMP_NUM_THREADS": "1"}
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
    head = "preset", "precision", *COLUMNS, "host, ms"
    print(f"| {' | '.join(head)} |\n|{'---|' * len(head)}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for preset in options.presets:
            results: list[list[Any]] = [[] for _ in versions]
            for _ in range(options.rounds):
                for version, known in zip(versions, results, strict=True):
                    known.append(asked(version, preset, Path(folder), options.repetitions))
            for precision in PRECISIONS:
                rows = [[each[precision] for each in known if each is not None] for known in results]
                cells = [" → ".join(f"{known[0][name]:,}" if known else "–" for known in rows) for name in COLUMNS]
                host = [f"{1e3 * median(x['seconds'] for x in known):,.0f}" if known else "–" for known in rows]
                print(f"| {preset} | {precision} | {' | '.join(cells)} | {' → '.join(host)} |", flush=True)


if __name__ == "__main__":
    main()
