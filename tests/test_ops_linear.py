"""Products by oneDNN are those of torch, whatever the layout, and it is refused where it cannot compute."""

import subprocess
import sys

import pytest
import torch

from regard import ops
from regard.ops import onednn
from regard.ops.linear import PackedProduct, linear, outer

missing = onednn.unsupported_reason(packs=True)


@pytest.fixture
def wide(monkeypatch):
    """oneDNN computes also where another library is as fast."""
    monkeypatch.setattr(onednn, "IS_WIDE", True)


def here(test):
    """A test of oneDNN."""
    return pytest.mark.usefixtures("wide")(pytest.mark.skipif(missing is not None, reason=str(missing))(test))


def inputs(kind, dtype=torch.float32):
    """x (…, 96), W (256, 96) and b (256), laid out in some way."""
    torch.manual_seed(3)
    x, weight, bias = (
        torch.randn(130, 96, dtype=dtype),
        torch.randn(256, 96, dtype=dtype),
        torch.randn(256, dtype=dtype),
    )
    if kind == "columns of others":
        x, weight = torch.randn(130, 200, dtype=dtype)[:, 5:101], torch.randn(256, 150, dtype=dtype)[:, 7:103]
    if kind == "transposed":
        x, weight = x.t().contiguous().t(), weight.t().contiguous().t()
    if kind == "three dimensions, strided":
        x = torch.randn(13, 10, 120, dtype=dtype)[..., :96]
    return x, weight, bias


@here
@pytest.mark.parametrize("kind", ["plain", "columns of others", "transposed", "three dimensions, strided"])
@pytest.mark.parametrize("biased", [True, False])
def test_products_are_those_of_torch(kind, biased):
    x, weight, bias = inputs(kind)
    bias = bias if biased else None
    assert onednn.unsupported_reason(x, weight, bias) is None
    expected = torch.nn.functional.linear(x.double(), weight.double(), bias.double() if biased else None)
    packed = PackedProduct(weight)
    for found in (linear(x, weight, bias), packed(x, bias), packed(x[:7], bias)):
        torch.testing.assert_close(found.double(), expected[: len(found)], rtol=0, atol=3e-5)


@pytest.mark.parametrize("kind", ["plain", "columns of others", "transposed", "three dimensions, strided"])
@pytest.mark.parametrize("rows", [130, 2])
def test_narrow_products_are_of_rounded_numbers_and_sums_of_whole_ones(kind, rows):
    x, weight, bias = inputs(kind)
    x = x[:rows]
    rounded = (one.bfloat16().double() for one in (x, weight))
    expected = torch.nn.functional.linear(*rounded)
    for found in (linear(x, weight, bias, bfloat16=True), PackedProduct(weight, bfloat16=True)(x, bias)):
        assert found.dtype == torch.float32
        torch.testing.assert_close(found.double() - bias.double(), expected, rtol=2**-7, atol=1e-4)
    if x.dim() == 2:
        gradient = outer(x, x, bfloat16=True)
        assert gradient.dtype == torch.float32
        torch.testing.assert_close(gradient, outer(x, x), rtol=2**-6, atol=0.2)


@here
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda x, w: (x.double(), w.double()), "float32"),
        (lambda x, w: (x[:1], w), "too small"),
        (lambda x, w: (x.to("meta"), w.to("meta")), "the kernels are for the CPU"),
    ],
)
def test_it_is_refused_with_a_reason_and_torch_computes(change, reason):
    x, weight = change(*inputs("plain")[:2])
    assert reason in onednn.unsupported_reason(x, weight)
    assert "reference: taken" in ops.explain("linear", x, weight)
    assert linear(x, weight).shape == (len(x), 256)


@here
@pytest.mark.parametrize("kind", ["plain", "three dimensions, strided"])
def test_products_with_gradients_are_onednns_in_both_directions(kind):
    found = []
    for kind_of_number, name in ((torch.float32, "onednn, with gradients"), (torch.float64, "reference")):
        x, weight, bias = (one.to(kind_of_number).requires_grad_() for one in inputs(kind))
        assert f"{name}: taken" in ops.explain("linear", x, weight, bias)
        y = linear(x, weight, bias)
        probe = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)
        once = torch.autograd.grad((y * probe).square().sum(), (x, weight, bias), create_graph=True)
        twice = torch.autograd.grad(sum(gradient.square().sum() for gradient in once), (x, weight, bias))
        found.append([y, *once, *twice])
    for ours, exact in zip(*found, strict=True):
        scale = float(exact.detach().abs().max())
        torch.testing.assert_close(ours.double(), exact, rtol=0, atol=2e-5 * scale)


@here
@pytest.mark.parametrize("shape", [(130, 96, 256), (130, 256, 96)])
def test_gradients_of_weights_are_those_of_torch(shape):
    rows, left, right = shape
    x, y = torch.randn(rows, left), torch.randn(rows, right)
    assert onednn.outer_reason(x, y) is None
    torch.testing.assert_close(outer(x, y).double(), x.double().t() @ y.double(), rtol=0, atol=1e-4)
    assert "too small" in onednn.outer_reason(x[:2], y[:2])


@here
def test_without_wide_vectors_only_large_packed_weights_are_onednns(monkeypatch):
    monkeypatch.setattr(onednn, "IS_WIDE", False)
    x, weight, bias = torch.randn(64, 512), torch.randn(1024, 512), torch.randn(1024)
    assert "without AVX-512" in onednn.unsupported_reason(x, weight)
    assert "without AVX-512" in onednn.outer_reason(x, x)
    assert "weight is too small" in onednn.unsupported_reason(x, weight[:256], packs=True)
    large = PackedProduct(weight)
    torch.testing.assert_close(large(x, bias), torch.nn.functional.linear(x, weight, bias), rtol=0, atol=1e-3)


def test_without_onednn_torch_computes(monkeypatch):
    x, weight, bias = inputs("plain")
    with torch.backends.mkldnn.flags(enabled=False):
        assert "switched off" in onednn.unsupported_reason(x, weight)
        torch.testing.assert_close(linear(x, weight, bias), torch.nn.functional.linear(x, weight, bias))
    monkeypatch.setattr(onednn, "_multiply", None)
    assert "without oneDNN" in onednn.unsupported_reason()


def test_nothing_is_multiplied_by_nothing():
    assert PackedProduct(torch.ones(3, 2))(torch.ones(0, 2)).shape == (0, 3)
    assert linear(torch.ones(4, 0), torch.ones(3, 0), torch.ones(3)).tolist() == [[1.0] * 3] * 4


MEGABYTES = 100
"""Far below what the code for 600 shapes would take (some 400 MB), and far above what is kept."""
MANY_SHAPES = """
import torch
from regard.ops import onednn
from regard.ops.linear import linear

def megabytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096 / 1e6

torch.set_num_threads(1)
onednn.IS_WIDE = True
with torch.inference_mode():
    weight, xs = torch.randn(256, 256), torch.randn(1000, 256)
    assert onednn.unsupported_reason(xs[:100], weight) is None
    linear(xs[:100], weight)
    before = megabytes()
    for rows in range(100, 700):
        linear(xs[:rows], weight)
    print(megabytes() - before)
"""


@here
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_products_of_many_shapes_do_not_fill_the_memory():
    ran = subprocess.run([sys.executable, "-c", MANY_SHAPES], capture_output=True, text=True, timeout=120, check=True)
    assert float(ran.stdout) < MEGABYTES
