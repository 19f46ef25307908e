"""Weights of other programs, loaded by name: torch's Transformer, and Marian as transformers has it."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import laws
from golden import archive
from regard.decoding import Search, search
from regard.errors import DataError, UnsupportedError
from regard.interop.marian import from_marian
from regard.interop.torch_transformer import from_torch_transformer
from regard.layers import LearnedPositions, SinusoidalPositions
from regard.models import EncoderDecoder

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
SIZE, HEADS, N, M = 16, 4, 9, 7


def marian(dtype: torch.dtype, **options: Any) -> tuple[EncoderDecoder, archive.Golden, dict[str, Any]]:
    golden = archive.load("transformers", "marian", dtype)
    config = json.loads(bytes(golden.inputs["config"].tolist()))
    torch.set_default_dtype(dtype)
    try:
        return from_marian(golden.weights, config, **options).eval(), golden, config
    finally:
        torch.set_default_dtype(torch.float32)


def real(golden: archive.Golden) -> Tensor:
    return torch.arange(golden.inputs["source"].shape[1]) < golden.inputs["lengths"][:, None]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_marian_says_what_transformers_says(dtype: torch.dtype) -> None:
    model, golden, _ = marian(dtype)
    mask = real(golden)
    encoded = model.encoder.encode(golden.inputs["source"], mask)
    theirs = golden.outputs["memory"].masked_fill(~mask[..., None], 0)
    torch.testing.assert_close(encoded.memory, theirs, **CLOSE)
    memory = model.decoder.prepare(encoded)
    said = model.decoder(golden.inputs["target"], memory).log_probabilities
    torch.testing.assert_close(said, golden.outputs["logits"].log_softmax(-1), **CLOSE)
    inputs = golden.inputs["target"]
    state = model.decoder.initial_state(memory)
    for t in range(inputs.shape[1]):
        output, state = model.decoder.step(inputs[:, t], memory, state)
        torch.testing.assert_close(output.log_probabilities, said[:, t], **CLOSE)


def test_a_greedy_search_of_marian_speaks_as_transformers_does() -> None:
    _, golden, config = marian(torch.float32)
    model, _, _ = marian(torch.float32, never=(config["pad_token_id"],))
    spoken = golden.outputs["spoken"].long()
    begin, end = config["decoder_start_token_id"], config["eos_token_id"]
    memory = model.prepare(golden.inputs["source"], real(golden))
    found = search(model.decoder, memory, Search(beam=1), bos=begin, eos=end, max_length=spoken.shape[1] - 1)
    for (hypothesis, *_), row in zip(found, spoken, strict=True):
        tokens = row[1:].tolist()
        expected = tokens[: tokens.index(end)] if end in tokens else tokens
        assert hypothesis.tokens.tolist() == expected


def test_marians_output_layer_may_have_a_matrix_of_its_own() -> None:
    tied, golden, config = marian(torch.float32)
    own = torch.randn_like(golden.weights["model.shared.weight"])
    model = from_marian({**golden.weights, "lm_head.weight": own}, config)
    torch.testing.assert_close(model.decoder.head.projection.weight, own)
    torch.testing.assert_close(model.decoder.embedding.embedding.table.weight, golden.weights["model.shared.weight"])
    assert tied.decoder.head.projection.weight is tied.decoder.embedding.embedding.table.weight


def test_weights_of_marian_that_do_not_fit_are_named() -> None:
    _, golden, config = marian(torch.float32)
    missing = dict(golden.weights)
    del missing["model.decoder.layers.1.fc1.weight"]
    with pytest.raises(DataError, match=r"decoder\.layers\.1\.fc1\.weight"):
        from_marian(missing, config)
    with pytest.raises(DataError, match="no module here has: extra"):
        from_marian({**golden.weights, "extra": torch.zeros(1)}, config)
    with pytest.raises(DataError, match=r"is \(10, 8\); .* needs \(11, 8\)"):
        from_marian(golden.weights, {**config, "encoder_ffn_dim": 11})
    with pytest.raises(DataError, match=r"model\.shared\.weight"):
        from_marian({}, config)
    with pytest.raises(UnsupportedError, match="tanh"):
        from_marian(golden.weights, {**config, "activation_function": "tanh"})
    with pytest.raises(UnsupportedError, match="normalize_embedding"):
        from_marian(golden.weights, {**config, "normalize_embedding": True})


def plain_torch(**options: Any) -> tuple[nn.Transformer, nn.Embedding, nn.Embedding, nn.Linear]:
    """A random Transformer of torch, loud enough that every weight is heard, and the layers around it."""
    torch.manual_seed(0)
    transformer = nn.Transformer(SIZE, HEADS, 2, 3, 24, batch_first=True, **options).eval()
    around = nn.Embedding(N, SIZE, padding_idx=0), nn.Embedding(M, SIZE, padding_idx=0), nn.Linear(SIZE, M)
    for parameter in transformer.parameters():
        nn.init.normal_(parameter, mean=float(parameter.dim() == 1) / 2, std=0.3)
    nn.init.normal_(around[2].weight)
    return transformer, *around


def spoken_by_torch(parts: Any, source: Tensor, mask: Tensor, inputs: Tensor, positions: bool, factor: float) -> Tensor:
    transformer, embed_source, embed_target, output = parts
    sides = []
    for embedding, ids in ((embed_source, source), (embed_target, inputs)):
        x = embedding(ids) * factor
        sides.append(x + SinusoidalPositions(SIZE)(torch.arange(ids.shape[1]), x) if positions else x)
    causal = nn.Transformer.generate_square_subsequent_mask(inputs.shape[1])
    padding = {"src_key_padding_mask": ~mask, "memory_key_padding_mask": ~mask}
    return output(transformer(*sides, tgt_mask=causal, **padding)).log_softmax(-1)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor", "ignore:The PyTorch API of nested")
@pytest.mark.parametrize("norm_first", [True, False])
@pytest.mark.parametrize(
    # torch keeps a module as activation in the encoder only: its decoder has relu then
    ("activation", "bias"),
    [("relu", True), ("gelu", True), ("relu", False), (nn.GELU(), True)],
)
@pytest.mark.parametrize("positions", [True, False])
def test_torchs_transformer_says_the_same(norm_first: bool, activation: Any, bias: bool, positions: bool) -> None:
    parts = plain_torch(norm_first=norm_first, activation=activation, bias=bias, layer_norm_eps=1e-3)
    model = from_torch_transformer(
        *parts, positions="sinusoidal" if positions else None, scaled_embeddings=positions
    ).eval()
    source, mask = laws.padded([torch.tensor(ids) for ids in ([3, 4, 5, 1, 2, 6], [5, 3, 8], [7])])
    inputs = torch.randint(1, M, (3, 5))
    factor = SIZE**0.5 if positions else 1.0
    theirs = spoken_by_torch(parts, source, mask, inputs, positions, factor)
    assert theirs.std() > 0.5
    with torch.no_grad():
        memory = model.prepare(source, mask)
        torch.testing.assert_close(model.decoder(inputs, memory).log_probabilities, theirs, **CLOSE)
        begin, end = 1, 2
        found = search(model.decoder, memory, Search(beam=1), bos=begin, eos=end, max_length=4)
        for row, (hypothesis, *_) in enumerate(found):
            fed = torch.tensor([[begin]])
            for token in [*hypothesis.tokens.tolist(), *[end] * (hypothesis.stop_reason == "eos")]:
                said = spoken_by_torch(parts, source[row : row + 1], mask[row : row + 1], fed, positions, factor)
                assert int(said[0, -1].argmax()) == token
                fed = torch.cat([fed, torch.tensor([[token]])], 1)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor", "ignore:The PyTorch API of nested")
def test_weights_of_64_bits_keep_them() -> None:
    parts = [part.double() for part in plain_torch()]
    model = from_torch_transformer(*parts, positions=None, scaled_embeddings=False).eval()
    source, inputs = torch.tensor([[3, 4, 5]]), torch.tensor([[1, 4]])
    theirs = spoken_by_torch(parts, source, torch.ones(1, 3, dtype=torch.bool), inputs, False, 1.0)
    with torch.no_grad():
        said = model.decoder(inputs, model.prepare(source)).log_probabilities
    torch.testing.assert_close(said, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor", "ignore:The PyTorch API of nested")
def test_tied_outputs_stay_tied_and_other_layers_are_refused() -> None:
    transformer, source, target, output = plain_torch()
    output.weight = target.weight
    model = from_torch_transformer(transformer, source, target, output)
    assert model.decoder.head.projection.weight is model.decoder.embedding.embedding.table.weight
    torch.testing.assert_close(model.decoder.head.projection.weight, target.weight)
    transformer.encoder.layers[1].extra = nn.Linear(2, 2)
    with pytest.raises(DataError, match=r"encoder\.layers\.1\.extra\.bias"):
        from_torch_transformer(transformer, source, target, output)
    with pytest.raises(UnsupportedError, match="tanh"):
        from_torch_transformer(*plain_torch(activation=torch.tanh))
    with pytest.raises(UnsupportedError, match="gelu with approximate=tanh"):
        from_torch_transformer(*plain_torch(activation=nn.GELU(approximate="tanh")))
    transformer, source, target, output = plain_torch()
    transformer.decoder.layers[1].norm1.eps = 0.1
    with pytest.raises(UnsupportedError, match="TransformerDecoder differ in activation, layer_norm_eps"):
        from_torch_transformer(transformer, source, target, output)


@pytest.mark.filterwarnings("ignore:enable_nested_tensor", "ignore:The PyTorch API of nested")
def test_positions_may_be_a_module_with_weights() -> None:
    parts, learned = plain_torch(), LearnedPositions(9, SIZE)
    model = from_torch_transformer(*parts, positions=learned, scaled_embeddings=False).eval()
    assert model.encoder.embedding.positions is model.decoder.embedding.positions is learned
    source, mask, inputs = torch.randint(1, N, (2, 6)), torch.ones(2, 6, dtype=torch.bool), torch.randint(1, M, (2, 5))
    transformer, *embeddings, output = parts
    sides = [embed(ids) + learned.table.weight[: ids.shape[1]] for embed, ids in zip(embeddings, (source, inputs))]
    causal = nn.Transformer.generate_square_subsequent_mask(5)
    theirs = output(transformer(*sides, tgt_mask=causal)).log_softmax(-1)
    torch.testing.assert_close(model(source, inputs, mask=mask).log_probabilities, theirs, **CLOSE)
