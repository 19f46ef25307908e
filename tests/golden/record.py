"""How a golden is made: the same numbers go through an original in float32 and in float64, and both results are kept.

Inputs and weights are drawn in float32, so that both precisions begin with the same numbers. The probe, Σ r · output
over all outputs with fixed random r, is what gradients are taken of. Needs numpy, and for `record` torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent
PRECISIONS = ("float32", "float64")
BATCH, SOURCE, STEPS, QUERY, MEMORY = 3, 7, 5, 5, 6
LENGTHS = np.array([7, 5, 3])

Arrays = dict[str, np.ndarray]


def draw(seed: int, *shape: int, scale: float = 1.0) -> np.ndarray:
    """Normal numbers in float32."""
    return np.asarray(np.random.default_rng(seed).standard_normal(shape) * scale, dtype=np.float32)


def decoder_inputs() -> Arrays:
    """What most mechanisms get: a query per step, a memory whose padding is not zero, lengths."""
    return {
        "queries": draw(1, BATCH, STEPS, QUERY),
        "memory": draw(2, BATCH, SOURCE, MEMORY),
        "lengths": LENGTHS,
    }


def draw_weights(shapes: dict[str, tuple[int, ...]], scale: float = 0.6) -> Arrays:
    """A weight for every name, biases and scalars too."""
    return {name: draw(100 + i, *shape, scale=scale) for i, (name, shape) in enumerate(shapes.items())}


def draw_probes(outputs: Arrays) -> Arrays:
    """r for every output."""
    return {name: draw(1000 + i, *value.shape) for i, (name, value) in enumerate(outputs.items())}


def save(
    path: str, inputs: Arrays, weights: Arrays, probes: Arrays, outputs: dict[str, Arrays], gradients: dict[str, Arrays]
) -> None:
    """Writes `path`.npz under this folder and says how far the original's float32 is from its own float64."""
    groups = {"input": inputs, "weight": weights, "probe": probes}
    groups |= {f"{precision}/output": outputs[precision] for precision in PRECISIONS}
    groups |= {f"{precision}/gradient": gradients[precision] for precision in PRECISIONS}
    target = FOLDER / f"{path}.npz"
    target.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(
        target, **{f"{group}/{name}": value for group, kept in groups.items() for name, value in kept.items()}
    )
    worst = [max((deviation(kind, name) for name in kind["float64"]), default=0.0) for kind in (outputs, gradients)]
    print(f"{path:60} outputs {worst[0]:.1e}  gradients {worst[1]:.1e}  {target.stat().st_size / 1000:.1f} kB")


def deviation(kind: dict[str, Arrays], name: str) -> float:
    """The largest difference between the precisions."""
    single, double = (kind[precision][name].astype(np.float64) for precision in PRECISIONS)
    if not double.size:
        return 0.0
    return float(np.nan_to_num(np.abs(single - double), nan=np.inf).max())


@contextmanager
def precision_of(name: str) -> Iterator[Any]:
    """torch's default is `name`; `Tensor.float` and `torch.float32`, which some originals ask for, are that too."""
    import torch

    dtype, single, to_float = getattr(torch, name), torch.float32, torch.Tensor.float
    torch.set_default_dtype(dtype)
    torch.float32, torch.Tensor.float = dtype, lambda tensor: tensor.to(dtype)
    try:
        yield dtype
    finally:
        torch.float32, torch.Tensor.float = single, to_float
        torch.set_default_dtype(single)


def record(
    path: str,
    build: Callable[[], Any],
    run: Callable[..., dict[str, Any]],
    inputs: Arrays | None = None,
    *,
    scale: float = 0.6,
    differentiable: bool = True,
) -> None:
    """Records a torch original.

    Args:
        path: original/mechanism.
        build: gives the module (or None for a function); its parameters are overwritten with drawn ones.
        run: (module, **inputs) to outputs by name.
        inputs: by name; gradients are taken of all floats.
        scale: of the drawn weights.
        differentiable: whether the original can be differentiated; some write into what autograd needs.
    """
    import torch

    torch.set_num_threads(1)
    inputs = decoder_inputs() if inputs is None else inputs
    weights: Arrays = {}
    probes: Arrays = {}
    outputs: dict[str, Arrays] = {}
    gradients: dict[str, Arrays] = {}
    for precision in PRECISIONS:
        with precision_of(precision) as dtype:
            torch.manual_seed(0)
            module = build()
            parameters = {} if module is None else dict(module.named_parameters())
            weights = draw_weights({name: tuple(value.shape) for name, value in parameters.items()}, scale)
            with torch.no_grad():
                for name, value in parameters.items():
                    value.copy_(torch.from_numpy(weights[name]))
            given = {name: torch.from_numpy(np.array(value)) for name, value in inputs.items()}
            for name, value in given.items():
                if value.is_floating_point():
                    given[name] = value.to(dtype).requires_grad_(differentiable)
            got = run(module, **given)
            outputs[precision] = {name: value.detach().numpy().copy() for name, value in got.items()}
            assert all(value.dtype == np.dtype(precision) for value in outputs[precision].values()), path
            probes = probes or draw_probes(outputs[precision])
            probe = sum((got[name] * torch.from_numpy(value).to(dtype)).sum() for name, value in probes.items())
            leaves = {name: value for name, value in (given | parameters).items() if value.requires_grad}
            leaves = leaves if differentiable else {}
            found = torch.autograd.grad(probe, list(leaves.values()), allow_unused=True) if leaves else ()
            gradients[precision] = {
                name: (torch.zeros_like(leaf) if gradient is None else gradient).numpy().copy()
                for (name, leaf), gradient in zip(leaves.items(), found, strict=True)
            }
    save(path, inputs, weights, probes, outputs, gradients)
