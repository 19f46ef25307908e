"""Encoders of images: padding never counts, cells, positions, norms."""

from __future__ import annotations

import contextlib
import math

import pytest
import torch
from torch import nn

import regard
from regard.errors import ConfigError, ShapeError
from regard.layers.items import ItemDraws, drawing, sites
from regard.models.vision import BACKBONES as NAMED
from regard.models.vision import (
    ChannelNorm,
    DenseBackbone,
    ImageConvolution,
    ImageEncoder,
    LearnedPlanePositions,
    MaskedGroupNorm,
    MaximumPool,
    MeanPool,
    PlainBackbone,
    ResidualBackbone,
    ResNet,
    SinusoidalPlanePositions,
    backbone_named,
    cell_mask,
    multiply_adds,
)
from regard.testing.mechanism import move_weights
from support.cases import IMAGE_ENCODERS

ENCODERS = pytest.mark.parametrize("case", IMAGE_ENCODERS, ids=lambda case: case.name)
SIZES = ((13, 22), (7, 9), (16, 5), (1, 1))


def moved(module):
    module = module.double().eval()
    move_weights(module)
    with torch.no_grad():
        for name, buffer in module.named_buffers():
            if "running" in name:
                buffer.copy_(0.5 + torch.rand_like(buffer))
    return module


def batch_of(sizes, channels=2, margin=(0, 0), filler=float("nan")):
    torch.manual_seed(0)
    images = [torch.randn(1, channels, *size, dtype=torch.float64) for size in sizes]
    height, width = (max(size[axis] for size in sizes) + margin[axis] for axis in (0, 1))
    padded = torch.full((len(sizes), channels, height, width), filler, dtype=torch.float64)
    mask = torch.zeros(len(sizes), height, width, dtype=torch.bool)
    for row, (image, (h, w)) in enumerate(zip(images, sizes, strict=True)):
        padded[row, :, :h, :w] = image[0]
        mask[row, :h, :w] = True
    return images, padded, mask


def same(ours, theirs, tolerance=1e-10):
    """Relative to the largest number, if that is large."""
    scale = float(theirs.detach().abs().max().clamp(min=1)) if theirs.numel() else 1.0
    torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance * scale)


@pytest.mark.parametrize("margin", [(0, 0), (5, 3), (16, 32)])
@ENCODERS
def test_an_image_has_the_same_memory_and_gradients_alone_and_in_any_batch(case, margin):
    encoder = moved(case.make())
    images, padded, mask = batch_of(SIZES, margin=margin)
    padded.requires_grad_()
    together = encoder.encode(padded, mask)
    height, width = together.grid
    assert (height, width) == tuple(math.ceil(side / encoder.stride) for side in padded.shape[2:])
    torch.manual_seed(1)
    probe = torch.randn(len(SIZES), height, width, 6, dtype=torch.float64)
    parameters = list(encoder.parameters())
    (together.memory * probe.flatten(1, 2)).sum().backward()
    gradients = [p.grad.clone() for p in parameters]
    assert not padded.grad.masked_select(~mask[:, None]).any()
    assert not together.memory[~together.mask].any()
    encoder.zero_grad()
    for row, image in enumerate(images):
        image.requires_grad_()
        alone = encoder.encode(image)
        h, w = alone.grid
        assert (h, w) == tuple(math.ceil(side / encoder.stride) for side in image.shape[2:])
        cells = together.mask[row].view(height, width)
        assert cells[:h, :w].all()
        assert int(cells.sum()) == h * w
        same(together.memory[row].view(height, width, -1)[:h, :w], alone.memory[0].view(h, w, -1))
        (alone.memory[0].view(h, w, -1) * probe[row, :h, :w]).sum().backward()
        same(padded.grad[row, :, : image.shape[2], : image.shape[3]], image.grad[0])
    for p, gradient in zip(parameters, gradients, strict=True):
        same(gradient, p.grad)


@ENCODERS
def test_in_float32_an_image_alone_and_in_a_batch_differ_by_rounding(case):
    encoder = moved(case.make()).float()
    images, padded, mask = batch_of(SIZES, margin=(3, 9))
    together = encoder.encode(padded.float(), mask)
    for row, image in enumerate(images):
        alone = encoder.encode(image.float())
        h, w = alone.grid
        same(together.memory[row].view(*together.grid, -1)[:h, :w].flatten(0, 1), alone.memory[0], 1e-5)


@ENCODERS
def test_statistics_in_training_and_gradients_through_them_do_not_know_padding(case):
    """With any padding, running statistics and gradients are those of a batch without more padding than it needs."""
    results = []
    for margin in ((0, 0), (9, 20)):
        torch.manual_seed(0)
        encoder = case.make().double().train()
        _, padded, mask = batch_of(((13, 22), (7, 9)), margin=margin)
        encoded = encoder.encode(padded, mask)
        h, w = -(-13 // encoder.stride), -(-22 // encoder.stride)
        memory = encoded.memory.view(2, *encoded.grid, -1)[:, :h, :w]
        memory.square().mul(torch.arange(w, dtype=torch.float64)[:, None] + 1).sum().backward()
        results.append([memory.detach(), *(p.grad for p in encoder.parameters()), *encoder.buffers()])
    for first, second in zip(*results, strict=True):
        same(first.double(), second.double())


def test_statistics_are_those_of_the_real_pixels_of_all_images():
    convolution = ImageConvolution(2, 3, 1, activation="none").double()
    images, padded, mask = batch_of(SIZES)
    convolution(padded.nan_to_num(nan=7.0), mask)
    pixels = torch.cat([convolution.filters(image)[0].flatten(1) for image in images], 1)
    same(convolution.norm.running_mean, 0.1 * pixels.mean(1))
    same(convolution.norm.running_var, 0.9 + 0.1 * pixels.var(1))


def test_a_cell_is_real_if_it_covers_any_real_pixel():
    mask = torch.rand(3, 11, 13) < 0.1
    for stride in (1, 2, 3, 8):
        cells = cell_mask(mask, stride)
        assert cells.shape == (3, -(-11 // stride), -(-13 // stride))
        for b, y, x in torch.cartesian_prod(*(torch.arange(n) for n in cells.shape)).tolist():
            part = mask[b, y * stride : (y + 1) * stride, x * stride : (x + 1) * stride]
            assert bool(cells[b, y, x]) == bool(part.any())
    assert torch.equal(cell_mask(cell_mask(mask, 2), 4), cell_mask(mask, 8))
    assert cell_mask(None, 2) is None


@pytest.mark.parametrize(
    ("pool", "windows"),
    [
        (MaximumPool(2, 2), [(0, 2)]),
        (MaximumPool(3, 2), [(-1, 2)]),
        (MeanPool(2), [(0, 2)]),
        (MeanPool(3), [(0, 3)]),
    ],
    ids=str,
)
def test_pools_are_loops_over_the_real_pixels_of_windows(pool, windows):
    torch.manual_seed(0)
    x, mask = -torch.rand(2, 3, 7, 5, dtype=torch.float64) - 1, torch.rand(2, 7, 5) < 0.6
    x = x.masked_fill(~mask[:, None], 0)
    y, cells = pool(x, mask)
    size = getattr(pool, "kernel_size", pool.stride)
    before = windows[0][0]
    assert torch.equal(cells, cell_mask(mask, pool.stride))
    for b, i, j in torch.cartesian_prod(*(torch.arange(n) for n in cells.shape)).tolist():
        rows, columns = (slice(max(k * pool.stride + before, 0), k * pool.stride + before + size) for k in (i, j))
        real = x[b, :, rows, columns][:, mask[b, rows, columns]]
        if not cells[b, i, j]:
            assert not y[b, :, i, j].any()
            continue
        same(y[b, :, i, j], real.amax(1) if isinstance(pool, MaximumPool) else real.mean(1))


@pytest.mark.parametrize("kind", [lambda: MaskedGroupNorm(6, 3), lambda: ChannelNorm(6)])
def test_without_padding_norms_are_those_of_torch(kind):
    ours = kind().double()
    move_weights(ours)
    theirs = (nn.GroupNorm(3, 6) if isinstance(ours, MaskedGroupNorm) else nn.LayerNorm(6)).double()
    theirs.load_state_dict(ours.state_dict())
    x = torch.randn(2, 4, 5, 6, dtype=torch.float64)
    expected = theirs(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1) if isinstance(theirs, nn.GroupNorm) else theirs(x)
    same(ours(x), expected)
    same(ours(x, torch.ones(2, 4, 5, dtype=torch.bool)), expected)


def test_sinusoidal_positions_are_their_equation():
    grid, size = (3, 4), 12
    vectors = SinusoidalPlanePositions(size)(grid, None, torch.zeros(1, dtype=torch.float64))
    for y in range(3):
        for x in range(4):
            for part, t in enumerate((y, x)):
                for i in range(3):
                    angle = t / 10000 ** (2 * i / 6)
                    assert vectors[y, x, 6 * part + 2 * i].item() == pytest.approx(math.sin(angle), abs=1e-12)
                    assert vectors[y, x, 6 * part + 2 * i + 1].item() == pytest.approx(math.cos(angle), abs=1e-12)


def test_normalised_positions_are_shares_of_an_image_and_not_of_its_batch():
    mask = torch.zeros(2, 5, 6, dtype=torch.bool)
    mask[0], mask[1, :2, :3] = True, True
    positions = SinusoidalPlanePositions(8, normalised=True)
    like = torch.zeros(1, dtype=torch.float64)
    together = positions((5, 6), mask, like)
    same(together[0], positions((5, 6), None, like))
    same(together[1, :2, :3], positions((2, 3), None, like))
    assert together[0, 4, 5, 0].item() == pytest.approx(math.sin(2 * math.pi), abs=1e-12)
    assert together[1, 0, 2, 0].item() == pytest.approx(math.sin(math.pi), abs=1e-12)


def test_learned_positions_end():
    positions = LearnedPlanePositions(4, (2, 3))
    vectors = positions((2, 2), None, torch.zeros(1))
    assert torch.equal(vectors[1, 0], torch.cat([positions.rows.weight[1], positions.columns.weight[0]]))
    with pytest.raises(ShapeError, match=r"3 rows and 1 columns.*max_grid=\(2, 3\)"):
        positions((3, 1), None, torch.zeros(1))


def test_wrong_calls_are_told():
    encoder = ImageEncoder(PlainBackbone(1, widths=(4,)))
    with pytest.raises(ShapeError, match=r"images must be \(B, C=1, H, W\)"):
        encoder.encode(torch.zeros(2, 3, 8, 8))
    with pytest.raises(ShapeError, match="must have pixels"):
        encoder.encode(torch.zeros(2, 1, 8, 0))
    with pytest.raises(ShapeError, match=r"use mask\[:, 0\]"):
        encoder.encode(torch.zeros(2, 1, 8, 8), torch.ones(2, 1, 8, 8, dtype=torch.bool))
    with pytest.raises(ShapeError, match="True at real pixels"):
        encoder.encode(torch.zeros(2, 1, 8, 8), torch.ones(2, 8, 8))
    for options, match in (({"positions": "rotary"}, "rotary"), ({"precision": "half"}, "half"), ({"size": 5}, "even")):
        with pytest.raises(ConfigError, match=match):
            ImageEncoder(PlainBackbone(1, widths=(4,)), **options)
    for make, match in (
        (lambda: PlainBackbone(widths=()), "at least one stage"),
        (lambda: PlainBackbone(widths=(4, 0)), "widths=0"),
        (lambda: PlainBackbone(norm="instance"), "instance"),
        (lambda: ResidualBackbone(widths=(4,), depths=(1, 1)), "1 and 2"),
        (lambda: ImageConvolution(1, 2, 4), "kernel_size=4"),
        (lambda: MaskedGroupNorm(6, 4), "num_groups=4"),
    ):
        with pytest.raises(ConfigError, match=match):
            make()


def test_an_image_gets_the_dropout_that_it_gets_in_any_batch():
    encoder = ImageEncoder(PlainBackbone(2, widths=(4,), norm="none"), size=6, dropout=0.5).double().train()
    images, padded, mask = batch_of(((8, 6), (4, 4)), margin=(4, 6))

    def encoded(images, mask, items):
        with drawing(ItemDraws(sites(encoder), torch.tensor(items), seed=1, step=2)):
            return encoder.encode(images, mask)

    together = encoded(padded, mask, [5, 9])
    for row, image in enumerate(images):
        alone = encoded(image, None, [[5, 9][row]])
        h, w = alone.grid
        assert (alone.memory == 0).any()
        same(together.memory[row].view(*together.grid, -1)[:h, :w].flatten(0, 1), alone.memory[0])


def test_a_frozen_backbone_keeps_weights_and_statistics():
    encoder = ImageEncoder(PlainBackbone(1, widths=(4,)), size=6, freeze=True).train()
    before = {name: value.clone() for name, value in encoder.backbone.state_dict().items()}
    optimiser = torch.optim.SGD([p for p in encoder.parameters() if p.requires_grad], lr=1.0)
    encoder.encode(torch.rand(2, 1, 8, 8)).memory.square().sum().backward()
    optimiser.step()
    assert all(torch.equal(value, before[name]) for name, value in encoder.backbone.state_dict().items())
    assert encoder.projection.weight.grad.any()
    assert encoder.projection.training
    assert not encoder.backbone.training


def test_reduced_precision_is_near_and_keeps_types():
    torch.manual_seed(0)
    encoder = ImageEncoder(ResidualBackbone(1, widths=(8, 16), depths=(1, 1)), size=6, precision="bfloat16").train()
    images = torch.rand(2, 1, 24, 32)
    mask = torch.ones(2, 24, 32, dtype=torch.bool)
    mask[1, :, 17:] = False
    reduced = encoder.encode(images, mask).memory
    reduced.sum().backward()
    assert reduced.dtype == torch.float32
    assert all(p.grad.dtype == torch.float32 for p in encoder.parameters())
    encoder.precision = "float32"
    whole = encoder.encode(images, mask).memory
    assert 0 < float((reduced - whole).detach().abs().max()) < 0.1 * float(whole.detach().abs().max())


def test_the_receptive_field_is_what_a_feature_depends_on():
    for backbone in (
        PlainBackbone(1, widths=(3, 3), norm="none"),
        ResidualBackbone(1, widths=(3,), depths=(2,), norm="none"),
    ):
        backbone = moved(backbone)
        field = backbone.receptive_field
        images = torch.rand(1, 1, 96, 96, dtype=torch.float64, requires_grad=True)
        for parameter in backbone.parameters():
            parameter.data.abs_()
        features, _ = backbone(images)
        middle = features.shape[2] // 2
        features[0, :, middle, middle].sum().backward()
        touched = images.grad[0, 0].any(0).nonzero()[:, 0]
        assert int(touched.max() - touched.min()) + 1 <= field
        if isinstance(backbone, ResidualBackbone):
            assert int(touched.max() - touched.min()) + 1 == field


LOCAL = [case for case in IMAGE_ENCODERS if not case.name.endswith(("group", "layer"))]
"""Encoders whose features depend on what is near and not on the whole image."""


@pytest.mark.parametrize("case", LOCAL, ids=lambda case: case.name)
def test_the_shift_of_a_cell_is_where_its_features_come_from(case):
    """The middle of the gradient of a cell's features, with filters that are alike at every place of their windows."""
    torch.manual_seed(0)
    backbone = case.make().backbone.double().eval()
    for module in backbone.modules():
        for name, parameter in module.named_parameters(recurse=False):
            if isinstance(module, nn.Conv2d) and name == "weight":
                parameter.data.copy_(parameter.data.abs().mean((2, 3), keepdim=True).expand_as(parameter))
            elif name == "bias":
                parameter.data.zero_()
    side = max(6, -(-backbone.receptive_field // backbone.stride) + 2) * backbone.stride
    images = 1e-6 * torch.rand(
        24 if side < 100 else 4, backbone.channels, side, side, dtype=torch.float64
    )  # no unit is saturated
    images.requires_grad = True
    features, _ = backbone(images)
    row = column = side // backbone.stride // 2
    features[:, :, row, column].sum().backward()
    share = images.grad.sum((0, 1)).abs()
    places = torch.arange(side, dtype=torch.float64) + 0.5
    for along in (share.sum(1), share.sum(0)):
        middle = float((along * places).sum() / along.sum()) - (row + 0.5) * backbone.stride
        assert middle == pytest.approx(backbone.shift, abs=0.1 * backbone.stride)


@pytest.mark.parametrize("name", [*(case.name for case in IMAGE_ENCODERS), 34, 50])
def test_strides_sizes_and_multiply_adds_are_those_of_the_layers_that_run(name):
    made = {case.name: case.make for case in IMAGE_ENCODERS}
    backbone = made[name]().backbone if name in made else ResNet(name, 2, stride=16)
    height, width = 41, 70
    products = []

    def counted(module, inputs, output):
        products.append(output.numel() * module.weight[0].numel())

    handles = [m.register_forward_hook(counted) for m in backbone.modules() if isinstance(m, nn.Conv2d)]
    features, _ = backbone.eval()(torch.zeros(1, 2, height, width))
    for handle in handles:
        handle.remove()
    cells = math.ceil(height / backbone.stride), math.ceil(width / backbone.stride)
    assert features.shape == (1, backbone.output_size, *cells)
    assert multiply_adds(backbone, height, width) * 1e9 == pytest.approx(sum(products))
    encoder = ImageEncoder(backbone, size=10)
    projected = backbone.output_size * 10 * cells[0] * cells[1]
    assert multiply_adds(encoder, height, width) * 1e9 == pytest.approx(sum(products) + projected)


def test_published_networks_have_the_multiply_adds_of_their_papers():
    for name, billions in (("resnet18", 1.8), ("resnet34", 3.6), ("resnet50", 4.1)):
        assert multiply_adds(backbone_named(name, channels=3), 224, 224) == pytest.approx(billions, rel=0.03)
    lite = backbone_named("efficientnet-lite0", channels=3)
    assert multiply_adds(lite, 224, 224) + 1280 * 1000 / 1e9 == pytest.approx(0.385, rel=0.01)


@pytest.mark.parametrize("name", NAMED)
def test_backbones_have_names_and_say_what_they_do_not_know(name):
    backbone = backbone_named(name, channels=1)
    assert backbone.channels == 1
    with pytest.raises(ConfigError, match=rf"{name} has no option 'width'. It has .*(norm|weights)"):
        backbone_named(name, channels=1, width=3)


def test_an_unknown_backbone_is_told_which_there_are():
    with pytest.raises(ConfigError, match=r"no backbone 'vgg'. Backbones are plain, residual, dense, .*resnet50"):
        backbone_named("vgg", channels=1)


@pytest.mark.parametrize("norm", ["none", "batch", "group"])
def test_layers_with_hooks_or_of_another_kind_are_called(norm):
    torch.manual_seed(0)
    backbone = ResidualBackbone(1, widths=(4, 6), depths=(1, 1), norm=norm).eval()
    images = torch.rand(2, 1, 12, 14)
    expected, _ = backbone(images)
    called = []
    modules = [m for m in backbone.modules() if not [*m.children()] and not isinstance(m, MaximumPool)]
    handles = [m.register_forward_hook(lambda m, *_: called.append(m)) for m in modules]
    same(backbone(images)[0], expected, 1e-5)
    assert set(called) == set(modules)
    for handle in handles:
        handle.remove()
    block = backbone.blocks[1]
    block.second.filters = nn.Sequential(block.second.filters, nn.Identity())
    same(backbone(images)[0], expected, 1e-5)
    filters = block.first.filters
    nn.utils.parametrizations.weight_norm(filters)
    filters.parametrizations.weight.original0.data.mul_(-1.0)
    assert float((backbone(images)[0] - expected).detach().abs().max()) > 1e-3


@pytest.mark.parametrize("stride", [1, 2, 3])
def test_a_convolution_of_one_cell_is_a_product_of_matrices_with_any_stride(monkeypatch, stride):
    """torch's own has gradients of bfloat16 that are written beyond their end, for few channels and a stride."""
    torch.manual_seed(0)
    convolution = ImageConvolution(4, 8, 1, stride=stride, norm="none", activation="none")
    x = torch.randn(3, 4, 6, 11).to(memory_format=torch.channels_last).requires_grad_()
    expected = torch.nn.functional.conv2d(x, *convolution.filters.parameters(), stride)
    grads = torch.autograd.grad(expected.square().sum(), [x, *convolution.parameters()])
    monkeypatch.setattr(torch.nn.functional, "conv2d", None)
    (y, _) = convolution(x)
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(torch.autograd.grad(y.square().sum(), [x, *convolution.parameters()]), grads)
    assert convolution(x.bfloat16())[0].dtype == torch.bfloat16


def test_a_block_without_copies_is_a_block_of_concatenations():
    torch.manual_seed(0)
    backbone = DenseBackbone(1, growth=3, depth=3, num_blocks=2).double()
    images, mask = torch.rand(2, 1, 24, 40, dtype=torch.float64), torch.ones(2, 24, 40, dtype=torch.bool)
    mask[1, :, 21:] = False
    results = []
    for context in (contextlib.nullcontext(), regard.plain()):
        backbone.zero_grad()
        with context:
            features, _ = backbone(images, mask)
            features.square().sum().backward()
        results.append([features.detach(), *(p.grad.clone() for p in backbone.parameters())])
    for ours, plain in zip(*results, strict=True):
        same(ours, plain)


@pytest.mark.parametrize("kind", [PlainBackbone, DenseBackbone])
def test_a_compiled_encoder_computes_the_same(kind):
    torch.manual_seed(0)
    options = {"widths": (4,)} if kind is PlainBackbone else {"growth": 3, "depth": 2, "num_blocks": 1}
    encoder = ImageEncoder(kind(1, **options), size=6).eval()
    images, mask = torch.rand(2, 1, 12, 14), torch.ones(2, 12, 14, dtype=torch.bool)
    mask[1, 7:] = False
    expected = encoder.encode(images, mask).memory
    compiled = torch.compile(lambda *inputs: encoder.encode(*inputs).memory, backend="aot_eager", fullgraph=True)
    same(compiled(images, mask), expected, 1e-5)
