"""`record_attention` on models that go through torch's functions: weights, names, options, and what must not change."""

from __future__ import annotations

import copy
import gc
import threading
import weakref

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention as imported_by_name
from torch.profiler import ProfilerActivity, profile
from torch.utils.checkpoint import checkpoint

from regard import ConfigError, ShapeError, UnsupportedError, ops, record_attention
from regard.layers.recorders import active
from regard.record import Seen
from regard.record import weights as weighing

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")


def softmax_of(query, key, mask=None, scale=None):
    """What the definition says, in float64; a mask is True where a position may be attended to."""
    energies = query.double() @ key.double().mT * (query.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        energies = energies.masked_fill(~mask, -torch.inf) if mask.dtype == torch.bool else energies + mask
    return energies.softmax(-1).nan_to_num(0.0)


def close(ours, theirs, atol=1e-6):
    torch.testing.assert_close(ours.double(), theirs.double(), rtol=0, atol=atol)


class Attends(nn.Module):
    """Calls the function with its own arguments; weights can be learned."""

    def __init__(self, function=imported_by_name, **options):
        super().__init__()
        self.scaled = nn.Linear(4, 4)
        self.function, self.options = function, options

    def forward(self, query, key, value):
        return self.function(self.scaled(query), key, value, **self.options)


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


LEADS = {
    "no axes": ((), ()),
    "no heads": ((2,), (2,)),
    "queries of one sentence": ((1,), (2,)),
    "keys of one sentence": ((2, 4), (1, 4)),
    "keys of one head": ((2, 4), (2, 1)),
    "queries of one head": ((2, 1), (2, 4)),
    "five axes": ((3, 2, 4), (3, 2, 4)),
    "five axes, shared keys": ((3, 2, 4), (1, 2, 1)),
    "keys of fewer axes": ((2, 4), (4,)),
    "six axes": ((2, 1, 2, 4), (2, 3, 2, 4)),
    "grouped": ((2, 4), (2, 2)),
    "grouped, no batch": ((4,), (2,)),
    "grouped, five axes": ((3, 2, 4), (3, 2, 2)),
    "grouped, six axes": ((2, 3, 2, 4), (2, 3, 2, 1)),
}


@pytest.mark.parametrize("name", LEADS)
def test_axes_before_steps_broadcast_as_in_the_function(name):
    of_query, of_key = LEADS[name]
    grouped = name.startswith("grouped")
    query, key, value = draw(*of_query, 3, 4), draw(*of_key, 5, 4, seed=1), draw(*of_key, 5, 4, seed=2)
    whole = torch.broadcast_shapes(of_query, (*of_key[:-1], of_query[-1]) if grouped else of_key)
    read = value.repeat_interleave(of_query[-1] // of_key[-1], -3) if grouped else value
    one = (1,) * len(whole)
    shapes = [None, (3, 5), (1, 5), (*whole, 3, 5), (*one, 3, 5), (*whole[:-1], *one[-1:], 1, 5), (*whole[1:], 3, 5)]
    for shape in shapes:
        for kind in (torch.bool, torch.float32):
            mask = None if shape is None else draw(*shape, seed=3)
            mask = mask > -1 if mask is not None and kind == torch.bool else mask
            model = Attends(attn_mask=mask, enable_gqa=grouped)
            plain = model(query, key, value)
            with record_attention(model) as seen:
                assert torch.equal(model(query, key, value).nan_to_num(), plain.nan_to_num())
            (weights,) = seen.values()
            assert weights.dim() == 4
            close(weights.view(*whole, 3, 5) @ read, plain.nan_to_num(), atol=1e-5)


BOOL = draw(1, 1, 5, 7, seed=3) > -0.5
BOOL[..., 2, :] = False  # a query that may attend to nothing
CALLS = {
    "plain": ({}, 3),
    "bool mask": ({"attn_mask": BOOL}, 3),
    "bool mask of each sentence and head": ({"attn_mask": draw(2, 3, 5, 7, seed=4) > -1}, 3),
    "float mask": ({"attn_mask": draw(5, 7, seed=5)}, 3),
    "float mask that masks": (
        {"attn_mask": torch.zeros(2, 1, 1, 7).index_fill(3, torch.tensor([5, 6]), -torch.inf)},
        3,
    ),
    "causal": ({"is_causal": True}, 3),
    "scale": ({"scale": 0.3}, 3),
    "dropout": ({"dropout_p": 0.5}, 3),
    "grouped heads": ({"enable_gqa": True}, 1),
}


@pytest.mark.parametrize("blocks", [1 << 22, 20])
@pytest.mark.parametrize("name", CALLS)
def test_weights_of_a_call_are_those_of_its_definition(name, blocks, monkeypatch):
    monkeypatch.setattr(weighing, "BLOCK", blocks)
    options, groups = CALLS[name]
    model = Attends(**options)
    query, key, value = draw(2, 3, 5, 4), draw(2, groups, 7, 4, seed=1), draw(2, groups, 7, 4, seed=2)

    def run():
        torch.manual_seed(0)
        model.zero_grad()
        output = model(query, key, value)
        output.square().sum().backward()
        return output.detach(), model.scaled.weight.grad.clone()

    plain = run()
    with record_attention(model) as seen:
        recorded = run()
    assert all(map(torch.equal, recorded, plain))
    mask = torch.ones(5, 7, dtype=torch.bool).tril() if "is_causal" in options else options.get("attn_mask")
    expected = softmax_of(model.scaled(query), key.repeat_interleave(3 // groups, 1), mask, options.get("scale"))
    close(seen["Attends"], expected.detach())
    assert seen["Attends"].dtype == torch.float32
    assert not seen["Attends"].requires_grad


@pytest.mark.parametrize("axes", [2, 3, 4, 5])
def test_calls_of_other_axes_have_four(axes):
    leading = (2, 3, 2)[: axes - 2]
    query, key = draw(*leading, 5, 4), draw(*leading, 7, 4, seed=1)
    mask = draw(*leading[:-1], *[1] * (axes > 2), 5, 7, seed=2) > -1
    model = Attends(attn_mask=mask)
    with record_attention(model) as seen:
        model(query, key, key)
    expected = softmax_of(model.scaled(query), key, mask).detach()
    shapes = {2: (1, 1, 5, 7), 3: (2, 1, 5, 7), 4: (2, 3, 5, 7), 5: (6, 2, 5, 7)}
    close(seen["Attends"], expected.reshape(shapes[axes]))


def test_a_causal_bias_is_read_as_torch_reads_it():
    query, key = draw(1, 2, 5, 4), draw(1, 2, 7, 4, seed=1)
    model = Attends(attn_mask=causal_lower_right(5, 7))
    with record_attention(model) as seen:
        model(query, key, key)
    close(seen["Attends"], softmax_of(model.scaled(query), key, torch.ones(5, 7).tril(2).bool()).detach())


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
def test_nested_tensors_are_padded(layout):
    lengths = (5, 3)
    sentences = [draw(2, n, 4, seed=n) for n in lengths]
    if layout == torch.jagged:
        nested = torch.nested.nested_tensor([x.transpose(0, 1) for x in sentences], layout=layout).transpose(1, 2)
    else:
        nested = torch.nested.nested_tensor(sentences)
    model = Attends()
    model.scaled = nn.Identity()
    with record_attention(model) as seen, torch.no_grad():
        model(nested, nested, nested)
    for row, n in zip(seen["Attends"], lengths, strict=True):
        x = draw(2, n, 4, seed=n)
        close(row[:, :n, :n], softmax_of(x, x))
        assert (row[:, n:] == 0).all()
        assert (row[:, :, n:] == 0).all()


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16, torch.float64])
def test_weights_of_other_types_are_computed_in_float32_at_least(kind):
    query, key = draw(2, 3, 5, 4).to(kind), draw(2, 3, 7, 4, seed=1).to(kind)
    model = Attends().to(kind)
    with record_attention(model) as seen, torch.no_grad():
        plain = model(query, key, key)
    assert plain.dtype == kind
    assert seen["Attends"].dtype == (torch.float64 if kind == torch.float64 else torch.float32)
    close(seen["Attends"], softmax_of(model.scaled(query), key).detach(), 1e-6 if kind != torch.float64 else 1e-12)


def test_every_way_to_the_function_is_seen():
    class Model(nn.Module):
        def forward(self, x):
            x = F.scaled_dot_product_attention(x, x, x)
            x = imported_by_name(x, x, x)
            x = torch.nn.functional.scaled_dot_product_attention(query=x, key=x, value=x)
            return torch.ops.aten.scaled_dot_product_attention(x, x, x)

    model = Model()
    with record_attention(model) as seen, torch.no_grad():
        model(draw(1, 2, 3, 4))
    assert [*seen] == ["Model.0", "Model.1", "Model.2", "Model.3"]


def test_an_operation_of_this_library_is_seen_where_a_module_calls_it():
    class Model(nn.Module):
        def forward(self, x):
            return ops.dot_attention(x, x, x)

    model, x = Model(), draw(2, 5, 3, 4)  # (B, T, H, D)
    with record_attention(model) as seen, torch.no_grad():
        model(x)
    close(seen["Model"], softmax_of(x.transpose(1, 2), x.transpose(1, 2), scale=1.0))


def helper(x):
    return imported_by_name(x, x, x)


class Twice(nn.Module):
    """Two calls in a forward, from two places; `again` is a third, from another method."""

    def forward(self, x):
        return helper(x) + helper(2 * x)

    def again(self, x):
        return [helper(y) for y in (x, 3 * x)]


def test_places_within_a_module_are_numbered_and_calls_of_a_place_are_a_list():
    model = nn.ModuleDict({"inner": Twice()})
    x = draw(1, 2, 3, 4)
    with record_attention(model) as seen:
        for _ in range(2):
            model["inner"](x)
        model["inner"].again(x)
    assert [*seen] == ["inner.0", "inner.1", "inner.2"]
    assert [len(seen.calls(name)) for name in seen] == [2, 2, 2]
    close(seen["inner.0"][1], softmax_of(x, x))
    close(seen["inner.1"][0], softmax_of(2 * x, 2 * x))
    close(seen["inner.2"][1], softmax_of(3 * x, 3 * x))


def test_a_place_and_a_module_of_the_same_name_are_both_kept():
    class Sequence(nn.ModuleList):
        def forward(self, x):
            return self[0](helper(x) + helper(2 * x), x, x)

    model = nn.ModuleDict({"a": Sequence([Attends()])})
    x = draw(1, 2, 3, 4)
    with record_attention(model) as seen, torch.no_grad():
        model["a"](x)
    assert sorted(seen) == ["a.0", "a.0'", "a.1"]
    close(seen["a.0'"], softmax_of(x, x))


MULTI_HEAD = {
    "plain": {},
    "first axis steps": {"batch_first": False},
    "no bias": {"bias": False},
    "sizes of keys and values": {"kdim": 6, "vdim": 5},
    "bias of keys and values": {"add_bias_kv": True},
    "a zero position": {"add_zero_attn": True},
    "both": {"add_bias_kv": True, "add_zero_attn": True},
}
PADDING = torch.tensor([[False] * 7, [False] * 5 + [True] * 2])
CAUSAL = torch.ones(5, 7).triu(1).bool()
MASKS = {
    "none": {},
    "padding": {"key_padding_mask": PADDING},
    "causal": {"attn_mask": CAUSAL},
    "causal hint": {"attn_mask": CAUSAL, "is_causal": True},
    "both": {"key_padding_mask": PADDING, "attn_mask": CAUSAL},
    "of heads": {"attn_mask": draw(4, 5, 7, seed=9)},
    "float padding": {"key_padding_mask": torch.zeros(2, 7).masked_fill(PADDING, -torch.inf)},
}


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("options", MULTI_HEAD)
def test_weights_of_multi_head_attention_are_those_that_it_returns(options, masks):
    torch.manual_seed(0)
    settings = {"batch_first": True, "dropout": 0.3} | MULTI_HEAD[options]
    attention = nn.MultiheadAttention(4, 2, **settings)
    if attention.in_proj_bias is not None:
        nn.init.normal_(attention.in_proj_bias)
    query, key, value = draw(2, 5, 4), draw(2, 7, attention.kdim, seed=1), draw(2, 7, attention.vdim, seed=2)
    if not settings["batch_first"]:
        query, key, value = (x.transpose(0, 1) for x in (query, key, value))
    inputs = query, key, value
    expected = copy.deepcopy(attention).eval()(*inputs, **MASKS[masks], average_attn_weights=False)[1]
    for need_weights in (False, True):

        def run(need_weights=need_weights):
            torch.manual_seed(1)
            attention.zero_grad()
            output, weights = attention(*inputs, **MASKS[masks], need_weights=need_weights)
            output.square().sum().backward()
            return output.detach(), weights, attention.out_proj.weight.grad.clone()

        plain = run()
        with record_attention(attention) as seen:
            recorded = run()
        assert torch.equal(recorded[0], plain[0])
        assert torch.equal(recorded[2], plain[2])
        close(seen["MultiheadAttention"], expected.detach())


def test_multi_head_attention_without_a_batch():
    attention = nn.MultiheadAttention(4, 2).eval()
    x = draw(5, 4)
    padding = torch.tensor([False] * 4 + [True])
    with record_attention(attention) as seen:
        weights = attention(x, x, x, key_padding_mask=padding, average_attn_weights=False)[1]
    close(seen["MultiheadAttention"], weights[None].detach())


@pytest.mark.parametrize("masked", [False, True])
def test_multi_head_attention_keeps_its_fused_path(masked):
    attention = nn.MultiheadAttention(4, 2, batch_first=True).eval()
    x = draw(2, 5, 4)
    options = {"key_padding_mask": PADDING[:, 2:], "attn_mask": CAUSAL[:, :5]} if masked else {}
    expected = attention(x, x, x, average_attn_weights=False, **options)[1]
    with torch.inference_mode():
        plain = attention(x, x, x, need_weights=False, **options)[0]
        with profile(activities=[ProfilerActivity.CPU]) as profiled, record_attention(attention) as seen:
            recorded = attention(x, x, x, need_weights=False, **options)[0]
    assert "aten::_native_multi_head_attention" in {event.key for event in profiled.key_averages()}
    assert torch.equal(recorded, plain)
    close(seen["MultiheadAttention"], expected.detach())


def transformer(**options):
    torch.manual_seed(0)
    return nn.Transformer(8, 2, 2, 2, 16, batch_first=True, **options)


SOURCE, TARGET = draw(2, 7, 8), draw(2, 5, 8, seed=1)
BATCH = {
    "src_key_padding_mask": PADDING,
    "memory_key_padding_mask": PADDING,
    "tgt_mask": torch.ones(5, 5).triu(1).bool(),
}
NAMES = {
    **{f"encoder.layers.{i}.self_attn": (2, 2, 7, 7) for i in range(2)},
    **{f"decoder.layers.{i}.self_attn": (2, 2, 5, 5) for i in range(2)},
    **{f"decoder.layers.{i}.multihead_attn": (2, 2, 5, 7) for i in range(2)},
}


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("mode", ["train", "eval", "no_grad", "inference_mode"])
def test_a_transformer_of_torch_is_seen_in_training_and_in_its_fused_inference(mode, norm_first):
    model = transformer(norm_first=norm_first).train(mode == "train")
    context = {"no_grad": torch.no_grad, "inference_mode": torch.inference_mode}.get(mode, torch.enable_grad)

    def run():
        torch.manual_seed(2)
        model.zero_grad()
        output = model(SOURCE, TARGET, **BATCH)
        if output.requires_grad:
            output.square().sum().backward()
        return output.detach(), [p.grad for p in model.parameters() if p.grad is not None]

    with context():
        plain, gradients = run()
        with record_attention(model) as seen:
            recorded, recorded_gradients = run()
    assert torch.equal(recorded, plain)
    assert len(gradients) == len(recorded_gradients)
    assert all(map(torch.equal, recorded_gradients, gradients))
    assert {name: tuple(weights.shape) for name, weights in seen.items()} == NAMES
    for name, weights in seen.items():
        if name.startswith("encoder") or "multihead" in name:
            assert (weights[1, :, :, 5:] == 0).all()
        if name == "decoder.layers.0.self_attn":
            assert (weights.triu(1) == 0).all()


@pytest.mark.parametrize("masks", [{}, {"src_key_padding_mask": PADDING}, {"mask": torch.ones(7, 7).triu(1).bool()}])
@pytest.mark.parametrize("norm_first", [False, True])
def test_the_fused_layer_of_torch_shows_what_the_plain_one_shows(norm_first, masks):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=norm_first)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=not norm_first).eval()
    with record_attention(encoder) as plain:
        encoder(SOURCE, **masks)  # gradients are possible, so torch takes its layers' parts
    with torch.inference_mode(), profile(activities=[ProfilerActivity.CPU]) as profiled:  # noqa: SIM117
        with record_attention(encoder) as fused:
            encoder(SOURCE, **masks)
    assert "aten::_transformer_encoder_layer_fwd" in {event.key for event in profiled.key_averages()}
    assert [*fused] == [*plain] == ["layers.0.self_attn", "layers.1.self_attn"]
    for name in plain:
        real = torch.ones(2, 7, dtype=torch.bool)
        if masks.get("src_key_padding_mask") is not None:
            real = ~PADDING  # in the fused path there are no queries behind the end of a sentence
        for ours, theirs, rows in zip(fused[name], plain[name], real, strict=True):
            close(ours[:, rows], theirs[:, rows])


def test_nothing_is_paid_and_nothing_is_left_when_nobody_records():
    model = transformer().eval()
    attends = Attends()
    x = draw(2, 2, 5, 4)

    def kernels():
        with torch.inference_mode(), profile(activities=[ProfilerActivity.CPU]) as profiled:
            model(SOURCE, TARGET, **BATCH)
            attends(x, x, x)
        return sorted((event.key, event.count) for event in profiled.key_averages() if event.key.startswith("aten::"))

    before, function = kernels(), torch.overrides.has_torch_function
    both = nn.ModuleList([model, attends])
    attributes = [{**module.__dict__} for module in both.modules()]
    with record_attention(both), torch.inference_mode():
        model(SOURCE, TARGET, **BATCH)
    assert {"aten::_transformer_encoder_layer_fwd", "aten::_scaled_dot_product_flash_attention_for_cpu"} <= {
        name for name, _ in before
    }
    assert kernels() == before
    assert torch.overrides.has_torch_function is function
    assert torch.overrides._get_current_function_mode_stack() == []
    assert active() == ()
    for module, attributes_before in zip(both.modules(), attributes, strict=True):
        assert module.__dict__ == attributes_before
        assert not module._forward_hooks
        assert not module._forward_pre_hooks


def test_a_recorder_keeps_the_kernels_of_the_model():
    model = Attends()
    x = draw(2, 2, 5, 4)
    with record_attention(model), torch.no_grad(), profile(activities=[ProfilerActivity.CPU]) as profiled:
        model(x, x, x)
    assert "aten::_scaled_dot_product_flash_attention_for_cpu" in {event.key for event in profiled.key_averages()}


def test_recorders_may_be_nested_and_each_sees_its_model():
    model = transformer().eval()
    with torch.inference_mode(), record_attention(model) as outer:
        model.encoder(SOURCE)
        with record_attention(model.decoder) as inner:
            plain = model(SOURCE, TARGET)
        model.encoder(SOURCE)
    assert [len(outer.calls(name)) for name in NAMES if name in outer] == [3, 3, 1, 1, 1, 1]
    assert {f"decoder.{name}" for name in inner} == {name for name in NAMES if name.startswith("decoder")}
    assert torch.equal(inner["layers.0.self_attn"], outer["decoder.layers.0.self_attn"])
    with torch.inference_mode():
        assert torch.equal(model(SOURCE, TARGET), plain)


def test_places_keep_their_numbers_whoever_else_records():
    model = Twice()
    x = draw(1, 2, 3, 4)
    with record_attention(model) as outer:
        model(x)
        with record_attention(model):
            model(x)
    assert [len(outer.calls(name)) for name in outer] == [2, 2]


def test_an_exception_inside_leaves_nothing():
    model = Attends()
    with pytest.raises(ZeroDivisionError), record_attention(model) as seen:  # noqa: PT012
        x = draw(1, 2, 3, 4)
        model(x, x, x)
        raise ZeroDivisionError
    assert len(seen) == 1
    assert active() == ()
    assert torch.overrides._get_current_function_mode_stack() == []


def test_threads_record_for_themselves():
    model = Attends().eval()
    ready = threading.Barrier(2)
    results = {}

    def work(index):
        x = draw(1, 1 + index, 3, 4)
        ready.wait()
        if index:
            with record_attention(model) as seen:
                for _ in range(20):
                    model(x, x, x)
                results["seen"] = seen
        else:
            for _ in range(20):
                model(x, x, x)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {tuple(weights.shape) for weights in results["seen"].calls("Attends")} == {(1, 2, 3, 3)}
    assert len(results["seen"].calls("Attends")) == 20


def test_a_checkpoint_is_seen_once():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Attends()

        def forward(self, x):
            return checkpoint(self.inner, x, x, x, use_reentrant=False)

    model, x = Model(), draw(1, 2, 3, 4)
    with record_attention(model) as seen:
        model(x).sum().backward()
    assert len(seen.calls("inner")) == 1


def test_transforms_of_functions_are_seen_or_named():
    model, x = Attends(), draw(2, 2, 3, 4)
    with record_attention(model) as seen:
        torch.func.grad(lambda y: model(y, x, x).sum())(x)
    assert type(seen["Attends"]) is torch.Tensor
    close(seen["Attends"], softmax_of(model.scaled(x), x).detach())
    mapped = torch.vmap(lambda y: model(y, y, y))
    with pytest.warns(UserWarning, match=r"not recorded in torch\.vmap"), record_attention(model) as seen:
        mapped(x[:, None])
    assert not seen


def test_compiled_modules_are_refused_and_compiled_functions_are_named():
    model = Attends()
    with (
        pytest.raises(UnsupportedError, match=r"it is compiled by torch\.compile.*_orig_mod"),
        record_attention(torch.compile(model)),
    ):
        pass
    with (
        pytest.raises(UnsupportedError, match=r"its module 0 is compiled"),
        record_attention(nn.ModuleList([torch.compile(model)])),
    ):
        pass
    in_place = Attends()
    in_place.compile()
    with pytest.raises(UnsupportedError, match=r"module\.compile"), record_attention(in_place):
        pass
    scripted = torch.jit.trace(nn.Linear(2, 2), torch.zeros(1, 2))
    with pytest.raises(UnsupportedError, match=r"torch\.jit"), record_attention(nn.ModuleList([scripted])):
        pass


def test_attention_in_a_compiled_function_is_named():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = 2.0

        def forward(self, x):
            return compiled(x)

    compiled = torch.compile(lambda x: imported_by_name(x, x, x), backend="eager")
    model, x = Model(), draw(1, 2, 3, 4)
    plain = model(x)
    with pytest.warns(UserWarning, match=r"functions that torch\.compile compiled"), record_attention(model):
        recorded = model(x)
    assert torch.equal(recorded, plain)


@pytest.mark.parametrize("method", ["forward", "attend"])
def test_attention_in_a_compiled_method_is_not_recorded_as_the_warning_says(method):
    class Model(nn.Module):
        def attend(self, x):
            return imported_by_name(x, x, x) + imported_by_name(2 * x, x, x)

        def forward(self, x):
            return self.attend(x)

    model, x = Model(), draw(1, 2, 3, 4)
    setattr(model, method, torch.compile(getattr(model, method), backend="eager"))
    for _ in range(2):  # compiled in the first call
        said = r"not recorded in functions that torch\.compile compiled"
        with pytest.warns(UserWarning, match=said) as given, record_attention(model) as seen:
            model(x)
        assert not seen
        assert len(given) == 1


def test_a_model_without_attention_and_names_that_match_nothing_are_named():
    model = nn.Linear(2, 2)
    said = "recorded nothing. The model was not called .* attn_implementation='sdpa'"
    with pytest.warns(UserWarning, match=said), record_attention(model):
        model(torch.zeros(1, 2))
    attends, x = nn.ModuleDict({"a": Attends()}), draw(1, 2, 3, 4)
    with pytest.warns(UserWarning, match="matched any of: a"), record_attention(attends, names="b*"):
        attends["a"](x, x, x)
    with pytest.raises(UnsupportedError, match=r"takes an nn\.Module.*got int"), record_attention(3):
        pass


def test_names_choose():
    model = transformer().eval()

    def seen(**options):
        with record_attention(model, **options) as recorded, torch.inference_mode():
            model(SOURCE, TARGET)
        return [*recorded]

    assert seen(names="*.multihead_attn") == [name for name in NAMES if "multihead" in name]
    assert seen(names=["encoder.*", "*1.multihead_attn"]) == [
        *(name for name in NAMES if name.startswith("encoder")),
        "decoder.layers.1.multihead_attn",
    ]
    assert seen(layers=-1) == [name for name in sorted(NAMES, key=[*NAMES].index) if ".1." in name]
    assert seen(layers=[0], names="encoder*") == ["encoder.layers.0.self_attn"]


def test_a_place_may_be_chosen_by_its_number():
    model, x = Twice(), draw(1, 2, 3, 4)
    with record_attention(model, names="Twice.1") as seen:
        model(x)
    assert [*seen] == ["Twice.1"]
    close(seen["Twice.1"], softmax_of(2 * x, 2 * x))


def test_heads_types_devices_and_numbers_of_calls_choose():
    model = transformer().eval()
    attends, x = Attends(), draw(2, 3, 5, 4)
    both = nn.ModuleList([model, attends])
    with torch.inference_mode(), record_attention(both) as whole:
        model(SOURCE, TARGET)
        attends(x, x, x)
    options = {"heads": [-1, 0], "dtype": torch.float16, "device": "cpu", "max_calls": 2}
    with torch.inference_mode(), record_attention(both, **options) as seen:
        for _ in range(3):
            model(SOURCE, TARGET)
            attends(x, x, x)
    for name, weights in whole.items():
        calls = seen.calls(name)
        assert len(calls) == 2
        assert calls[0].dtype == torch.float16
        close(calls[0], weights[:, [-1, 0]], atol=1e-3)
        assert calls[0].untyped_storage().nbytes() == 2 * calls[0].numel()
    with pytest.raises(ShapeError, match=r"heads=\[5\].*has 3 heads"), record_attention(attends, heads=5):
        attends(x, x, x)
    for wrong in ({"max_calls": 0}, {"dtype": torch.long}, {"dtype": "float16"}):
        with pytest.raises(ConfigError), record_attention(attends, **wrong):
            pass


def test_a_recording_does_not_keep_the_model_or_its_inputs():
    model, x = Attends(), draw(2, 3, 5, 4)
    with record_attention(model) as seen:
        model(x, x, x)
    alive = weakref.ref(model), weakref.ref(x)
    del model, x
    gc.collect()
    assert [one() for one in alive] == [None, None]
    assert seen["Attends"].shape == (2, 3, 5, 5)


def test_calls_of_a_loop_with_a_cache_are_joined():
    model, x = Attends(), draw(2, 3, 4, 4)
    with record_attention(model) as seen, torch.no_grad():
        for t in range(1, 5):
            model(x[:, :, t - 1 : t], x[:, :, :t], x[:, :, :t])
    with record_attention(model) as whole, torch.no_grad():
        Attends.forward(model, x, x, x)
    assert isinstance(seen["Attends"], list)
    close(seen.joined("Attends"), softmax_of(model.scaled(x), x, torch.ones(4, 4).tril().bool()).detach())
    assert whole.joined("Attends").shape == (2, 3, 4, 4)
    with record_attention(model) as other, torch.no_grad():
        model(x, x, x)
        model(x[:1], x[:1], x[:1])
    with pytest.raises(ShapeError, match=r"\(2, 3, 4, 4\), \(1, 3, 4, 4\)"):
        other.joined("Attends")


def test_a_table_shows_names_calls_shapes_and_entropies():
    model, x = Attends(), draw(2, 3, 4, 4)
    model.scaled.weight.data.zero_()
    model.scaled.bias.data.zero_()
    with record_attention(model) as seen:
        for t in (4, 2):
            model(x, x[:, :, :t], x[:, :, :t])
    assert str(seen).splitlines() == [
        "name     calls  B, H, T, S    entropy",
        "Attends      2  2, 3, 4, 2–4    1.040",
    ]
    assert seen.entropy("Attends") == pytest.approx((torch.tensor(4.0).log() + torch.tensor(2.0).log()) / 2)
    assert str(Seen()) == "Seen: no attention was recorded"
    with pytest.raises(KeyError, match="recorded attentions are: Attends"):
        seen["attends"]


def test_rows_without_weight_do_not_count_in_the_entropy():
    seen = Seen()
    seen.add("a", (), torch.tensor([[[[0.5, 0.5], [0.0, 0.0]]]]))
    seen.add("b", (), torch.zeros(1, 1, 2, 2))
    assert seen.entropy("a") == pytest.approx(torch.tensor(2.0).log())
    assert seen.entropy("b") != seen.entropy("b")


def test_autocast_does_not_change_what_is_computed_beside():
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    x = draw(2, 5, 4)
    expected = attention(x, x, x, average_attn_weights=False)[1]
    with record_attention(attention) as seen, torch.autocast("cpu", torch.bfloat16):
        attention(x, x, x, need_weights=False)
    close(seen["MultiheadAttention"], expected.detach())
