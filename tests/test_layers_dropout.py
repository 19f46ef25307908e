from __future__ import annotations

import pytest
import torch
from torch import nn

from regard import layers
from regard.attention import bahdanau, location_sensitive
from regard.errors import RegardError, ShapeError
from regard.layers.items import ItemDraws, drawing, sites
from regard.models import (
    Bridge,
    EncoderDecoder,
    RecurrentDecoder,
    RecurrentEncoder,
    transformer_decoder,
    transformer_encoder,
)

ITEMS = torch.tensor([40, 7, 23])
LENGTHS = torch.tensor([5, 3, 4])


def by_item(module, items=ITEMS, *, seed=1, step=2):
    return drawing(ItemDraws(sites(module), items, seed=seed, step=step))


def recurrent(recipe=bahdanau, **options):
    torch.manual_seed(0)
    stack = layers.RecurrentStack(6, 4, 2, cell="lstm", bidirectional=True, dropout=0.4)
    encoder = RecurrentEncoder(layers.TokenEmbedding(9, 6, dropout=0.4), stack)
    attention = recipe(query_size=8, memory_size=8)
    width = RecurrentDecoder.input_size(6, 8, attention=attention, **options)
    cells = layers.RecurrentStack(width, 8, 3, cell="lstm", dropout=0.4)
    embedding = layers.TokenEmbedding(9, 6, dropout=0.4)
    head, bridge = layers.TokenHead(8, 9), Bridge(stack, cells, "dense")
    decoder = RecurrentDecoder(embedding, cells, head, bridge, attention=attention, dropout=0.4, **options)
    return EncoderDecoder(encoder, decoder).double()


def transformer():
    torch.manual_seed(0)
    options = {"num_layers": 2, "num_heads": 2, "feed_forward_size": 12, "dropout": 0.4}
    encoder = transformer_encoder(layers.TokenEmbedding(9, 8), **options)
    decoder = transformer_decoder(layers.TokenEmbedding(9, 8), layers.TokenHead(8, 9), memory_size=8, **options)
    return EncoderDecoder(encoder, decoder).double()


MODELS = {
    "recurrent": recurrent,
    "recurrent, location": lambda: recurrent(location_sensitive),
    "recurrent, at once": lambda: recurrent(input_feeding=False),
    "recurrent, attending first": lambda: recurrent(order="attend_then_recur"),
    "transformer": transformer,
}


def batch():
    torch.manual_seed(3)
    source, inputs = torch.randint(4, 9, (3, 5)), torch.randint(4, 9, (3, 6))
    return source, inputs, torch.arange(5) < LENGTHS[:, None]


def outputs(model, rows=slice(None), **options):
    source, inputs, mask = (tensor[rows] for tensor in batch())
    with by_item(model, ITEMS[rows], **options):
        return model(source, inputs, mask=mask).log_probabilities


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_what_an_item_gets_in_training_does_not_depend_on_its_batch(make):
    model = make().train()
    whole = outputs(model)
    assert not torch.allclose(whole, outputs(model, step=3)), "nothing was dropped"
    torch.testing.assert_close(outputs(model), whole, rtol=0, atol=0)
    order = torch.tensor([2, 0, 1])
    torch.testing.assert_close(outputs(model, order), whole[order], rtol=0, atol=1e-12)
    for row in range(3):
        source, inputs, mask = (tensor[row : row + 1] for tensor in batch())
        length = int(LENGTHS[row])
        with by_item(model, ITEMS[row : row + 1]):
            alone = model(source[:, :length], inputs, mask=mask[:, :length]).log_probabilities
        torch.testing.assert_close(alone[0], whole[row], rtol=0, atol=1e-12)


@pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
def test_step_by_step_drops_what_all_steps_at_once_drop(make):
    model = make().train()
    source, inputs, mask = batch()
    with by_item(model):
        memory = model.prepare(source, mask)
        state = model.decoder.initial_state(memory)
        steps = []
        for t in range(inputs.shape[1]):
            output, state = model.decoder.step(inputs[:, t], memory, state)
            steps.append(output.log_probabilities)
    torch.testing.assert_close(torch.stack(steps, 1), outputs(model), rtol=0, atol=1e-12)


def test_some_positions_of_a_sequence_are_dropped_as_in_the_whole():
    model = layers.Dropout(0.5)
    x = torch.ones(3, 5, 7)
    with by_item(model):
        whole = model(x)
    rows, positions = (torch.arange(5) < LENGTHS[:, None]).nonzero(as_tuple=True)
    with by_item(model):
        assert torch.equal(model(x[rows, positions], where=(rows, positions)), whole[rows, positions])


def test_layers_calls_and_modules_of_one_pass_drop_differently():
    model = nn.ModuleDict({"a": layers.Dropout(0.5), "b": layers.Dropout(0.5)})
    x = torch.ones(3, 2, 50)
    with by_item(model):
        masks = [model["a"](x), model["a"](x), model["b"](x), model["a"](x, layer=1)]
        masks += [model["a"](x[:, 0])[:, None].expand_as(x), model["a"](x[:, 0])[:, None].expand_as(x)]
    for index, mask in enumerate(masks):
        assert not any(torch.equal(mask, other) for other in masks[index + 1 :])


def test_hypotheses_of_an_item_drop_differently():
    model = layers.Dropout(0.5)
    with by_item(model):
        first = model(torch.ones(6, 100))
    assert not torch.equal(first[0], first[1])
    with by_item(model, ITEMS[1:2]):
        assert torch.equal(model(torch.ones(2, 100)), first[2:4])


def test_rows_that_are_no_items_are_refused():
    model = layers.Dropout(0.5)
    with by_item(model):
        for shape in ((4, 5), (4, 2, 5), (6, 2, 5), (3, 2, 5, 5)):
            with pytest.raises(ShapeError, match=r"got \("):
                model(torch.ones(shape))


def test_a_batch_without_rows_drops_nothing():
    model = layers.Dropout(0.5)
    with by_item(model, ITEMS[:0]):
        assert model(torch.ones(0, 3, 4)).shape == (0, 3, 4)
        assert model(torch.ones(0, 4)).shape == (0, 4)


def test_without_items_masks_come_from_torchs_generator():
    model, x = layers.Dropout(0.5), torch.ones(7, 3)
    torch.manual_seed(5)
    expected = nn.functional.dropout(x, 0.5)
    torch.manual_seed(5)
    assert torch.equal(model(x), expected)
    with by_item(nn.Linear(1, 1)):
        torch.manual_seed(5)
        assert torch.equal(model(x), expected), "a module without a site"


def test_whatever_stands_in_its_place_is_called_as_it_is():
    model = recurrent().train()
    for stack in (model.encoder.stack, model.decoder.stack):
        stack.dropout = nn.Dropout(0.4)
    assert torch.isfinite(outputs(model)).all()


def test_its_flag_decides_in_the_fused_pass_too():
    model = recurrent().train()
    kept = model.eval()
    source, inputs, mask = batch()
    plain = kept(source, inputs, mask=mask).log_probabilities
    for module in model.modules():
        module.train(not isinstance(module, layers.Dropout))
    torch.testing.assert_close(outputs(model), plain, rtol=0, atol=1e-12)
    for module in model.modules():
        module.train(isinstance(module, layers.Dropout))
    assert not torch.allclose(outputs(model), plain)


def test_a_second_draw_in_the_backward_pass_is_refused():
    model = layers.Dropout(0.5)
    x = torch.ones(3, 4, requires_grad=True)
    with by_item(model):
        y = torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False)
        with pytest.raises(RegardError, match="Checkpoint"):
            y.sum().backward()
