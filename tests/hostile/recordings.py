"""Models whose attention is recorded: functions and layers of torch in random shapes, with random masks."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from hostile.trial import Trial
from regard import record_attention


class Calls(nn.Module):
    """A model that is one call of `scaled_dot_product_attention`."""

    def __init__(self, options: dict[str, Any]) -> None:
        super().__init__()
        self.options = options

    def forward(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(query, key, value, **self.options)


def draw(random: Random, folder: Path) -> Trial:
    make = random.choice((_function, _layer, _encoder))
    torch.manual_seed(random.randrange(1 << 30))
    return make(random)


def _mask(random: Random, shape: tuple[int, ...]) -> Tensor:
    """One that broadcasts to a shape (…, T, S): of booleans, True for what may be attended to, or of numbers."""
    kept = shape[random.randrange(len(shape) - 1) :] if random.random() < 0.4 else shape
    sizes = [1 if place < len(kept) - 1 and random.random() < 0.3 else size for place, size in enumerate(kept)]
    mask = torch.rand(sizes) < 0.7
    if random.random() < 0.7:
        mask[..., 0] = True  # else some queries may attend to nothing
    if random.random() < 0.4:
        return torch.randn(sizes).masked_fill(~mask, -torch.inf)
    return mask


def _weights(query: Tensor, key: Tensor, mask: Tensor | None, scale: float) -> Tensor:
    """The definition, in float64: a query that may attend to nothing has weights of 0."""
    energies = scale * query.double() @ key.double().mT
    if mask is not None:
        energies = energies.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else energies + mask.double()
    return energies.softmax(-1).nan_to_num(0.0)


def _function(random: Random) -> Trial:
    axes, steps, positions, size = random.randint(2, 6), *(random.randint(1, 6) for _ in range(3))
    leading = [random.randint(1, 3) for _ in range(axes - 2)]
    query, shared = torch.randn(*leading, steps, size), list(leading)
    options: dict[str, Any] = {}
    repeats = 1
    if axes > 2 and random.random() < 0.4:
        repeats = random.randint(1, 3)
        query = torch.randn(*leading[:-1], leading[-1] * repeats, steps, size)
        options["enable_gqa"] = True
    key, value = torch.randn(*shared, positions, size), torch.randn(*shared, positions, random.choice((size, 3)))
    mask = None
    if random.random() < 0.3:
        options["is_causal"] = True
        mask = torch.ones(steps, positions, dtype=torch.bool).tril()
    elif random.random() < 0.8:
        mask = options["attn_mask"] = _mask(random, (*query.shape[:-1], positions))
    if random.random() < 0.3:
        options["scale"] = random.choice((0.1, 1.0, -1.0, 0.0))
    if random.random() < 0.2:
        options["dropout_p"] = 0.5

    def act() -> str | None:
        model = Calls(options)
        try:
            with torch.random.fork_rng():
                plain = model(query, key, value)
        except (RuntimeError, ValueError):  # torch itself refuses the call
            return None
        with record_attention(model) as seen:
            recorded = model(query, key, value)
        if not torch.equal(plain, recorded) and not (plain.isnan() & recorded.isnan()).any():
            return "the output is another one while it is recorded"
        keys = key.repeat_interleave(repeats, -3) if repeats > 1 else key
        expected = _weights(query, keys, mask, options.get("scale", size**-0.5))
        return _difference(seen["Calls"], expected)

    shapes = [None if x is None else tuple(x.shape) for x in (query, key, mask)]
    return Trial(f"query, key and mask {shapes}, {sorted(options)}", act)


def _difference(weights: Tensor, expected: Tensor) -> str | None:
    if weights.numel() != expected.numel():
        return f"weights {tuple(weights.shape)} for {tuple(expected.shape)}"
    error = float((weights.double() - expected.reshape(weights.shape)).abs().max()) if weights.numel() else 0.0
    return f"weights differ by {error}" if error > 1e-5 else None


def _layer(random: Random) -> Trial:
    heads, batch, steps, positions = (random.randint(1, 4) for _ in range(4))
    size, first = heads * random.randint(1, 4), random.random() < 0.5
    sizes = {"kdim": random.randint(1, 5), "vdim": random.randint(1, 5)} if random.random() < 0.3 else {}
    extra = {name: random.random() < 0.2 for name in ("add_bias_kv", "add_zero_attn")}
    layer = nn.MultiheadAttention(size, heads, batch_first=first, bias=random.random() < 0.7, **extra, **sizes)
    itself = not sizes and random.random() < 0.4
    query = torch.randn(batch, steps, size)
    key = query if itself else torch.randn(batch, positions, sizes.get("kdim", size))
    value = query if itself else torch.randn(batch, positions, sizes.get("vdim", size))
    options: dict[str, Any] = {"average_attn_weights": False}
    if random.random() < 0.5:
        options["key_padding_mask"] = torch.arange(key.shape[1]) >= torch.randint(1, key.shape[1] + 1, (batch, 1))
    if random.random() < 0.4:
        mask = torch.rand(steps, key.shape[1]) < 0.3
        mask[:, 0] = False
        options["attn_mask"] = mask
    layer.train(random.random() < 0.5)
    if not first:
        query, key, value = (x.transpose(0, 1) for x in (query, key, value))

    def act() -> str | None:
        output, expected = layer(query, key, value, need_weights=True, **options)
        quick = random.random() < 0.5
        with record_attention(layer) as seen:
            recorded, _ = layer(query, key, value, need_weights=quick, **options)
        if float((output - recorded).nan_to_num(0.0).abs().max()) > 1e-5:
            return "the output is another one while it is recorded"
        return _difference(next(iter(seen.values())), expected.nan_to_num(0.0))

    return Trial(f"{layer}, {options.keys()}, query {tuple(query.shape)}, key {tuple(key.shape)}", act)


def _encoder(random: Random) -> Trial:
    heads, batch, steps, layers = (random.randint(1, 3) for _ in range(4))
    size = 2 * heads * random.randint(1, 2)
    layer = nn.TransformerEncoderLayer(
        size, heads, 6, 0.0, batch_first=random.random() < 0.7, norm_first=random.random() < 0.5
    )
    model = nn.TransformerEncoder(layer, layers, enable_nested_tensor=random.random() < 0.5)
    model.train(random.random() < 0.3)
    x = torch.randn(batch, steps, size)
    if not layer.self_attn.batch_first:
        x = x.transpose(0, 1)
    options: dict[str, Any] = {}
    if random.random() < 0.5:
        options["src_key_padding_mask"] = torch.arange(steps) >= torch.randint(1, steps + 1, (batch, 1))
    if random.random() < 0.4:
        options["mask"] = torch.ones(steps, steps, dtype=torch.bool).triu(1)

    def act() -> str | None:
        with torch.no_grad():
            plain = model(x, **options)
            with record_attention(model) as seen:
                recorded = model(x, **options)
            if not torch.equal(plain.nan_to_num(0.0), recorded.nan_to_num(0.0)):
                return "the output is another one while it is recorded"
            if len(seen) != layers:
                return f"{layers} layers and the weights of {list(seen)}"
            h = model.layers[0].norm1(x) if layer.norm_first else x
            h = h if layer.self_attn.batch_first else h.transpose(0, 1)
        allowed = torch.ones(batch, 1, steps, steps, dtype=torch.bool)
        if "src_key_padding_mask" in options:
            allowed = allowed & ~options["src_key_padding_mask"][:, None, None]
        if "mask" in options:
            allowed = allowed & ~options["mask"]
        weights = model.layers[0].self_attn.in_proj_weight, model.layers[0].self_attn.in_proj_bias
        q, k = (part.unflatten(2, (heads, -1)).transpose(1, 2) for part in F.linear(h, *weights).chunk(3, -1)[:2])
        expected = _weights(q, k, allowed, (size // heads) ** -0.5)
        found = next(iter(seen.values())).double()
        real = torch.ones(batch, steps, dtype=torch.bool)
        if "src_key_padding_mask" in options:  # what queries of padding attend to is not defined
            real = ~options["src_key_padding_mask"]
        found, expected = found[:, :, : expected.shape[2]], expected[:, :, : found.shape[2], : found.shape[3]]
        rows = real[:, None, : found.shape[2], None]
        return _difference(found * rows, (expected * rows).detach())

    return Trial(
        f"{layers} layers of {heads} heads, x {tuple(x.shape)}, {list(options)}, training {model.training}", act
    )
