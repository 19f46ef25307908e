"""A decoder with refined cross-attention equals that of the authors of CoMER."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import nn

from regard.layers import TokenHead
from regard.models import Encoded, RefinementOptions, TransformerOptions, transformer_decoder

FILE = Path(__file__).parent / "golden" / "comer" / "decoder.json"
SIZE, HEADS, INNER, FILTERS, LAYERS, HEIGHT, WIDTH, STEPS = 8, 2, 12, 4, 3, 3, 4, 6
MODULES = {
    "linear1.": "feed_forward.inner.",
    "linear2.": "feed_forward.outer.",
    "norm1.": "residuals.0.norm.",
    "norm2.": "residuals.1.norm.",
    "norm3.": "residuals.2.norm.",
}
PROJECTIONS = ("score.query_projection", "score.key_projection", "read.value_projection")


def cosines(*shape, seed):
    count = torch.Size(shape).numel()
    return torch.cos(17.0 * torch.arange(count, dtype=torch.float64) + seed).view(shape)


def shapes():
    """The authors' weights by name."""
    attention = {
        "in_proj_weight": (3 * SIZE, SIZE), "in_proj_bias": (3 * SIZE,),
        "out_proj.weight": (SIZE, SIZE), "out_proj.bias": (SIZE,),
    }  # fmt: skip
    layer = {
        "linear1.weight": (INNER, SIZE), "linear1.bias": (INNER,),
        "linear2.weight": (SIZE, INNER), "linear2.bias": (SIZE,),
        **{f"norm{i}.{name}": (SIZE,) for i in (1, 2, 3) for name in ("weight", "bias")},
        **{f"{name}.{key}": shape for name in ("self_attn", "multihead_attn") for key, shape in attention.items()},
    }  # fmt: skip
    found = {f"layers.{i}.{key}": shape for i in range(LAYERS) for key, shape in layer.items()}
    found |= {"arm.conv.weight": (FILTERS, 2 * HEADS, 5, 5), "arm.conv.bias": (FILTERS,)}
    return found | {
        "arm.proj.weight": (HEADS, FILTERS, 1, 1),
        "arm.post_norm.bn.weight": (HEADS,), "arm.post_norm.bn.bias": (HEADS,),
    }  # fmt: skip


def state():
    """The weights by our names; all refined layers have the same corrections."""
    ours = {}
    for seed, (name, shape) in enumerate(sorted(shapes().items())):
        weight = cosines(*shape, seed=seed)
        if name.startswith("arm."):
            key = {"conv": "convolution", "proj": "projection", "post_norm": "norm"}[name.split(".")[1]]
            weight = weight[..., 0] if key == "projection" else weight
            for i in range(1, LAYERS):
                ours[f"layers.{i}.cross_attention.correction.{key}.{name.rsplit('.')[-1]}"] = weight
            continue
        _, i, rest = name.split(".", 2)
        if not rest.startswith(("self_attn", "multihead_attn")):
            module = next(module for module in MODULES if rest.startswith(module))
            ours[f"layers.{i}.{MODULES[module]}{rest.removeprefix(module)}"] = weight
            continue
        inside = "cross_attention" + (".attention" if int(i) else "")
        inside = "attention" if rest.startswith("self_attn") else inside
        kind = "weight" if rest.endswith("weight") else "bias"
        if "out_proj" in rest:
            ours[f"layers.{i}.{inside}.read.output_projection.{kind}"] = weight
        else:
            for projection, part in zip(PROJECTIONS, weight.chunk(3), strict=True):
                ours[f"layers.{i}.{inside}.{projection}.{kind}"] = part
    for i in range(1, LAYERS):
        norm = f"layers.{i}.cross_attention.correction.norm"
        ours[f"{norm}.running_mean"], ours[f"{norm}.running_var"] = cosines(2, seed=100), cosines(2, seed=101) + 2
    return ours


class Given(nn.Module):
    """An embedding of inputs that are embedded already."""

    size = SIZE

    def forward(self, x):
        return x


@pytest.mark.parametrize("mode", ["evaluation", "training"])
def test_outputs_are_those_of_the_authors(mode):
    decoder = transformer_decoder(
        Given(),
        TokenHead(SIZE, 3),
        memory_size=SIZE,
        num_layers=LAYERS,
        num_heads=HEADS,
        feed_forward_size=INNER,
        positions=None,
        norm="post",
        dropout=0.0,
        refinement=RefinementOptions(size=FILTERS, norm="batch"),
        options=TransformerOptions(projection_bias=True, scaled_embeddings=False),
    ).double()
    missing, unknown = decoder.load_state_dict(state(), strict=False)
    assert not unknown
    assert all(name.startswith("head") or name.endswith("num_batches_tracked") for name in missing)
    decoder.train(mode == "training")
    mask = torch.ones(2, HEIGHT, WIDTH, dtype=torch.bool)
    mask[1, :, 3:] = False
    mask = mask.flatten(1)
    values = cosines(2, HEIGHT * WIDTH, SIZE, seed=103) * mask[..., None]
    memory = decoder.prepare(Encoded(values, mask, grid=(HEIGHT, WIDTH)))
    features, _ = decoder._run(cosines(2, STEPS, SIZE, seed=102), memory, False, None)
    expected = torch.tensor(json.loads(FILE.read_text(encoding="utf-8"))[mode], dtype=torch.float64)
    torch.testing.assert_close(features, expected, rtol=0, atol=1e-10)
