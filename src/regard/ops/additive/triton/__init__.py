"""Kernels for GPUs: the factored form of `regard.ops.additive.numba`, a tile of the energies at a time.

Every program owns a tile of what it computes, so that results are the same from run to run. A sentence with numbers
beyond reach takes e^{2(q+k)} itself instead of the product. The GPU decides that, so that the CPU need not wait for it.
"""

from __future__ import annotations

import torch
import triton  # type: ignore[import-untyped,import-not-found,unused-ignore]
from torch import Tensor

from regard.ops.additive.triton.backward import rows_kernel
from regard.ops.additive.triton.forward import energies_kernel, step_kernel
from regard.ops.additive.triton.powers import powers_kernel


def energies(query: Tensor, keys: Tensor, v: Tensor, slope: float | None) -> Tensor:
    """(B, *heads, T, S) from float32 or float64."""
    q, k, heads = _groups(query), _groups(keys), _heads(v)
    (groups, steps, size), positions = q.shape, k.shape[1]
    out = v.new_empty(groups, steps, positions)
    form = _form(slope, q)
    with torch.cuda.device_of(query):
        if not out.numel():
            pass
        # one step, as in a search: the powers of the keys would be used once
        elif steps == 1:
            tile = min(16, triton.next_power_of_2(positions))
            step_kernel[groups * triton.cdiv(positions, tile),](
                q, k, heads, out, len(heads), positions, size, **form, ROWS=tile, COLUMNS=64
            )
        else:
            # features outermost (groups, D, rows): a tile of rows reads each feature side by side
            tiles = [min(32, triton.next_power_of_2(n)) for n in (steps, positions)]
            a, b, far = _powers(q, k, slope, upright=False)
            count = groups * triton.cdiv(steps, tiles[0]) * triton.cdiv(positions, tiles[1])
            form = {**form, "STEPS": tiles[0], "POSITIONS": tiles[1]}
            energies_kernel[count,](q, k, a, b, heads, far, out, len(heads), steps, positions, size, **form)
    return out.view(query.shape[0], *v.shape[:-1], steps, positions)


def gradients(
    gradient: Tensor, query: Tensor, keys: Tensor, v: Tensor, slope: float | None
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of query, keys and v, of the shapes of each, from that of the energies (B, *heads, T, S)."""
    q, k, heads = _groups(query), _groups(keys), _heads(v)
    (groups, steps, size), positions = q.shape, k.shape[1]
    g = gradient.reshape(groups, steps, positions)
    grad_query, grad_keys = torch.zeros_like(q), torch.zeros_like(k)
    # shares (B·heads, tiles of steps, D): each tile's part of the gradient of v, summed at the end in a fixed order
    tile, columns = min(16, triton.next_power_of_2(max(steps, 1))), 64
    shares = q.new_zeros(groups, triton.cdiv(steps, tile), size)
    if g.numel() and size:
        with torch.cuda.device_of(query):
            # features innermost (groups, rows, D): a program reads a slice of features of each row
            a, b, far = _powers(q, k, slope, upright=True)
            form = {**_form(slope, q), "COLUMNS": columns}
            slices = triton.cdiv(size, columns)
            # the gradient of q, and of v with it; then that of k: both sides swapped, g read as its transpose
            rows_kernel[groups * shares.shape[1] * slices,](
                q, k, a, b, g, heads, far, grad_query, shares, len(heads), steps, positions, size,
                *g.stride(), **form, ROWS=tile, WITH_V=True,
            )  # fmt: skip
            tile = min(16, triton.next_power_of_2(positions))
            rows_kernel[groups * triton.cdiv(positions, tile) * slices,](
                k, q, b, a, g, heads, far, grad_keys, shares, len(heads), positions, steps, size,
                g.stride(0), g.stride(2), g.stride(1), **form, ROWS=tile, WITH_V=False,
            )  # fmt: skip
    # (B·heads, tiles, D): over tiles of steps, then over sentences
    grad_v = shares.sum(1).view(query.shape[0], len(heads), size).sum(0)
    return _joined(grad_query, query), _joined(grad_keys, keys), grad_v.view_as(v)


def _groups(x: Tensor) -> Tensor:
    """(B, T, *heads, D) as (B·heads, T, D), contiguous."""
    x = x.detach()
    return x.contiguous() if x.dim() == 3 else x.transpose(1, 2).flatten(0, 1).contiguous()


def _heads(v: Tensor) -> Tensor:
    """(heads, D), one head where v has none."""
    heads = v.detach().contiguous()
    return heads if heads.dim() == 2 else heads[None]


def _joined(x: Tensor, like: Tensor) -> Tensor:
    """(B·heads, T, D) as `like`, (B, T, *heads, D)."""
    return x if like.dim() == 3 else x.unflatten(0, (like.shape[0], -1)).transpose(1, 2).contiguous()


def _form(slope: float | None, x: Tensor) -> dict[str, float | bool]:
    """What kernels are compiled for; LARGE is that of `regard.ops.compiled.elementary`."""
    single = x.dtype == torch.float32
    return {"TANGENT": slope is None, "SLOPE": slope or 0.0, "LARGE": 1e9 if single else 1e18}


def _powers(q: Tensor, k: Tensor, slope: float | None, *, upright: bool) -> tuple[Tensor, Tensor, Tensor]:
    """What the kernels read: powers e^{2x}, or x itself for a rectifier, and which groups are beyond reach.

    Returns:
        For q and for k (groups, rows, D) if upright, else (groups, D, rows); and (groups) int32, not 0 where the powers
        must not be used.
    """
    far = torch.zeros(len(q), dtype=torch.int32, device=q.device)
    if slope is not None:
        return (q, k, far) if upright else (q.mT.contiguous(), k.mT.contiguous(), far)
    # one `far` for both: the factored form needs the powers of q and of k
    results = []
    for x in (q, k):
        (groups, rows, size), tile = x.shape, min(32, triton.next_power_of_2(max(x.shape[1], 1)))
        out = x.new_empty(x.shape if upright else (groups, size, rows))
        strides = (size, 1) if upright else (1, rows)
        reach = 43.0 if x.dtype == torch.float32 else 350.0
        powers_kernel[groups * triton.cdiv(rows, tile),](
            x, out, far, rows, size, *strides, REACH=reach, ROWS=tile, COLUMNS=32
        )
        results.append(out)
    return results[0], results[1], far
