"""`record_attention` on models of transformers and x-transformers, where they are installed."""

from __future__ import annotations

import copy
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pytest
import torch

from regard import record_attention

IDS = torch.randint(5, 50, (2, 9), generator=torch.Generator().manual_seed(0))
TARGETS = torch.randint(5, 50, (2, 6), generator=torch.Generator().manual_seed(1))
MASK = torch.arange(9) < torch.tensor([9, 6])[:, None]


def installed(package: str) -> Any:
    """The module of a package, or a skip; folders of goldens have such names, too."""
    try:
        version(package)
    except PackageNotFoundError:
        pytest.skip(f"{package} is not installed")
    return import_module(package.replace("-", "_"))


@pytest.fixture(scope="module")
def transformers() -> Any:
    return installed("transformers")


def sharpened(model: Any) -> Any:
    """Larger weights, so that attention is far from even."""
    torch.manual_seed(0)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    return model.eval()


def pair(kind: Any, config: Any) -> tuple[Any, Any]:
    """A model whose attention is fused, and the same model whose attention returns weights."""
    fused = sharpened(kind._from_config(copy.deepcopy(config), attn_implementation="sdpa"))
    eager = kind._from_config(copy.deepcopy(config), attn_implementation="eager").eval()
    eager.load_state_dict(fused.state_dict())
    return fused, eager


def close(ours: Any, theirs: Any) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize("grad", [False, True])
def test_bert_shows_what_its_eager_attention_returns(transformers, grad):
    config = transformers.BertConfig(
        vocab_size=50, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=64
    )
    fused, eager = pair(transformers.BertModel, config)
    options = {"input_ids": IDS, "attention_mask": MASK.long()}
    with torch.set_grad_enabled(grad):
        plain = fused(**options).last_hidden_state
        with record_attention(fused) as seen:
            recorded = fused(**options).last_hidden_state
        expected = eager(**options, output_attentions=True).attentions
    assert torch.equal(recorded, plain)
    assert [*seen] == [f"encoder.layer.{index}.attention.self" for index in range(3)]
    for weights, own in zip(seen.values(), expected, strict=True):
        close(weights, own.detach())
        assert (weights[1, :, :, 6:] == 0).all()


@pytest.fixture(scope="module")
def marian(transformers):
    heads = {f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in SIDE.items()}
    config = transformers.MarianConfig(
        vocab_size=50,
        d_model=32,
        max_position_embeddings=64,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        forced_eos_token_id=None,
        **heads,
    )
    return pair(transformers.MarianMTModel, config)


SIDE = {"layers": 2, "attention_heads": 4, "ffn_dim": 64}


def test_marian_shows_what_its_eager_attention_returns(marian):
    fused, eager = marian
    options = {"input_ids": IDS, "attention_mask": MASK.long(), "decoder_input_ids": TARGETS}
    with torch.inference_mode():
        plain = fused(**options).logits
        with record_attention(fused) as seen:
            recorded = fused(**options).logits
        own = eager(**options, output_attentions=True)
    assert torch.equal(recorded, plain)
    expected = {}
    for index in range(2):
        expected[f"model.encoder.layers.{index}.self_attn"] = own.encoder_attentions[index]
        expected[f"model.decoder.layers.{index}.self_attn"] = own.decoder_attentions[index]
        expected[f"model.decoder.layers.{index}.encoder_attn"] = own.cross_attentions[index]
    assert seen.keys() == expected.keys()
    for name, weights in expected.items():
        close(seen[name], weights)


def test_marian_is_seen_while_it_generates_with_a_cache(marian):
    fused, eager = marian
    options = {
        "input_ids": IDS,
        "attention_mask": MASK.long(),
        "num_beams": 1,
        "do_sample": False,
        "max_new_tokens": 6,
        "min_new_tokens": 6,
    }
    plain = fused.generate(**options)
    with record_attention(fused, names="model.decoder.*") as seen:
        recorded = fused.generate(**options)
    own = eager.generate(**options, output_attentions=True, return_dict_in_generate=True)
    assert torch.equal(recorded, plain)
    assert torch.equal(own.sequences, plain)
    for index in range(2):
        for name, steps in (("encoder_attn", own.cross_attentions), ("self_attn", own.decoder_attentions)):
            name = f"model.decoder.layers.{index}.{name}"
            for weights, step in zip(seen.calls(name), steps, strict=True):
                close(weights, step[index])
            assert seen.joined(name).shape == (2, 4, 6, 9 if "encoder" in name else 6)


def test_grouped_heads_of_llama_are_seen(transformers):
    config = transformers.LlamaConfig(
        vocab_size=50,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=64,
    )
    fused, eager = pair(transformers.LlamaForCausalLM, config)
    with torch.no_grad():
        with record_attention(fused) as seen:
            fused(input_ids=IDS)
        expected = eager(input_ids=IDS, output_attentions=True).attentions
    for weights, own in zip(seen.values(), expected, strict=True):
        close(weights, own)


def test_x_transformers_shows_what_its_plain_attention_keeps():
    peer = installed("x-transformers")

    def make(**options: Any) -> Any:
        layers = peer.Decoder(dim=32, depth=2, heads=4, **options)
        return peer.TransformerWrapper(num_tokens=50, max_seq_len=64, attn_layers=layers).eval()

    fused, plain = sharpened(make(attn_flash=True)), make()
    plain.load_state_dict(fused.state_dict())
    with torch.no_grad():
        output = fused(IDS)
        with record_attention(fused) as seen:
            recorded = fused(IDS)
        kept = plain(IDS, return_intermediates=True)[1].attn_intermediates
    assert torch.equal(recorded, output)
    assert [*seen] == [f"attn_layers.layers.{index}.1.attend" for index in (0, 2)]
    for weights, own in zip(seen.values(), kept, strict=True):
        close(weights, own.post_softmax_attn)


def test_an_encoder_and_a_decoder_of_x_transformers_are_seen():
    peer = installed("x-transformers")
    sides = {
        f"{side}_{key}": value
        for side in ("enc", "dec")
        for key, value in {"num_tokens": 50, "depth": 1, "heads": 4, "max_seq_len": 64, "attn_flash": True}.items()
    }
    model = peer.XTransformer(dim=32, **sides).eval()
    with record_attention(model) as seen, torch.no_grad():
        model(IDS, TARGETS, mask=MASK)
    shapes = [tuple(weights.shape) for weights in seen.values()]
    # the wrapper leaves out the last target, which is no input
    assert shapes == [(2, 4, 9, 9), (2, 4, 5, 5), (2, 4, 5, 9)] or shapes == [(2, 4, 9, 9), (2, 4, 6, 6), (2, 4, 6, 9)]
    assert (next(iter(seen.values()))[1, :, :, 6:] == 0).all()
