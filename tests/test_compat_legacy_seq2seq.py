"""`regard.interop.legacy_seq2seq` beside its equations, as loops over single numbers, with every gradient."""

from __future__ import annotations

from copy import deepcopy

import pytest
import torch
from torch import nn

from regard import tree
from regard.errors import ConfigError, DataError, RegardError, ShapeError, UnsupportedError
from regard.interop import tfa
from regard.interop.legacy_seq2seq import (
    AttentionDecoder,
    EmbeddingAttentionDecoder,
    EmbeddingAttentionSeq2Seq,
    attention_decoder,
    embedding_attention_decoder,
    embedding_attention_seq2seq,
)

B, T, S, I, D, M, O = 2, 4, 5, 3, 4, 6, 7  # noqa: E741
MASK = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])


CELLS = {
    "lstm": lambda: nn.LSTMCell(I, D),
    "gru": lambda: nn.GRUCell(I, D),
    "stack": lambda: tfa.MultiRNNCell([tfa.LSTMCell(D, input_size=I), tfa.GRUCell(D, input_size=D)]),
}


def make(cell="lstm", num_heads=2, output_size=O):
    torch.manual_seed(0)
    decoder = AttentionDecoder(CELLS[cell](), output_size, num_heads, input_size=I, attention_size=M).double()
    with torch.no_grad():
        for parameter in decoder.parameters():  # biases that are zero would hide that they are missing
            parameter.copy_(torch.randn_like(parameter) * 0.5)
    return decoder


def draw(cell="lstm", dtype=torch.float64, seed=1):
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()

    inputs = [normal(B, I) for _ in range(T)]
    if cell == "stack":
        state = (tfa.LSTMStateTuple(normal(B, D), normal(B, D)), normal(B, D))
    else:
        state = (normal(B, D), normal(B, D)) if cell == "lstm" else normal(B, D)
    return inputs, state, normal(B, S, M)


def dense(weight, bias, x):
    """W x + b of one vector, number by number."""
    return torch.stack([sum(w * value for w, value in zip(row, x)) + b for row, b in zip(weight, bias)])


def loop(decoder, inputs, state, memory, *, initial=False, feed=None, mask=None):
    """One sentence after the other, one position after the other, one head after the other."""
    w = dict(decoder.named_parameters())
    heads, cell = decoder.num_heads, decoder.cell

    def attend(row, state):
        query = torch.cat([leaf[row] for leaf in tree.leaves(state)])
        reads, weights = [], []
        for h in range(heads):
            part = slice(h * M, (h + 1) * M)
            u = dense(
                w["attention.score.query_projection.weight"][part],
                w["attention.score.query_projection.bias"][part],
                query,
            )
            energies = []
            for j in range(S):
                key = dense(w["attention.score.key_projection.weight"][part], [0.0] * M, memory[row, j])
                hidden = [torch.tanh(key[d] + u[d]) for d in range(M)]
                energies.append(sum(v * value for v, value in zip(w["attention.score.v"][h], hidden)))
            real = [j for j in range(S) if mask is None or bool(mask[row, j])]
            total = sum(energies[j].exp() for j in real)
            alpha = [energies[j].exp() / total if j in real else energies[j] * 0 for j in range(S)]
            weights.append(torch.stack(alpha))
            reads.append(sum(alpha[j] * memory[row, j] for j in range(S)))
        return torch.cat(reads), weights

    outputs, locations = [], []
    attended = [attend(row, state)[0] if initial else memory.new_zeros(heads * M) for row in range(B)]
    for t in range(T):
        fed = inputs[t] if feed is None or t == 0 else feed(outputs[-1], t)
        x = torch.stack(
            [
                dense(w["input_layer.weight"], w["input_layer.bias"], torch.cat([fed[row], attended[row]]))
                for row in range(B)
            ]
        )
        said, state = cell(x, state)
        looks = [attend(row, state) for row in range(B)]
        attended = [look[0] for look in looks]
        outputs.append(
            torch.stack(
                [
                    dense(w["output_layer.weight"], w["output_layer.bias"], torch.cat([said[row], attended[row]]))
                    for row in range(B)
                ]
            )
        )
        locations.append(tuple(torch.stack([look[1][h] for look in looks]) for h in range(heads)))
    return outputs, state, locations


def flat(result):
    outputs, state, locations = result
    states = tree.leaves(state)
    return torch.cat([part.flatten() for part in [*outputs, *states, *(w for step in locations for w in step)]])


def gradients(result, leaves):
    numbers = flat(result)
    probe = torch.linspace(-1, 1, len(numbers), dtype=numbers.dtype) ** 3
    return torch.autograd.grad((numbers * probe).sum(), leaves, allow_unused=True)


@pytest.mark.parametrize("masked", [False, True], ids=["all positions", "masked"])
@pytest.mark.parametrize("initial", [False, True], ids=["zeros first", "initial_state_attention"])
@pytest.mark.parametrize(("cell", "num_heads"), [("lstm", 1), ("lstm", 2), ("gru", 3), ("stack", 2)])
def test_outputs_states_locations_and_gradients_are_those_of_the_equations(cell, num_heads, initial, masked):
    decoder, (inputs, state, memory) = make(cell, num_heads), draw(cell)
    mask = MASK if masked else None
    ours = decoder(inputs, state, memory, initial_state_attention=initial, mask=mask)
    theirs = loop(decoder, inputs, state, memory, initial=initial, mask=mask)
    torch.testing.assert_close(flat(ours), flat(theirs), rtol=0, atol=1e-12)
    leaves = [*inputs, *tree.leaves(state), memory, *decoder.parameters()]
    for mine, other in zip(gradients(ours, leaves), gradients(theirs, leaves)):
        torch.testing.assert_close(mine, other, rtol=0, atol=1e-11)
    if not masked:
        single = deepcopy(decoder).float()
        low = single(*draw(cell, torch.float32), initial_state_attention=initial)
        torch.testing.assert_close(flat(low).double(), flat(theirs), rtol=0, atol=1e-5)


def test_a_loop_function_feeds_what_was_said_last():
    decoder, (inputs, state, memory) = make(), draw()
    table = torch.randn(O, I, dtype=torch.float64)
    steps = []

    def feed(previous, t):
        steps.append(t)
        return previous @ table

    ours = decoder(inputs, state, memory, feed)
    assert steps == [1, 2, 3]
    torch.testing.assert_close(flat(ours), flat(loop(decoder, inputs, state, memory, feed=feed)), rtol=0, atol=1e-12)
    others = [inputs[0], *[torch.full_like(x, torch.nan) for x in inputs[1:]]]
    assert torch.equal(flat(decoder(others, state, memory, feed)), flat(ours))


def test_a_run_goes_on_from_a_state_that_was_kept():
    decoder, (inputs, state, memory) = make(), draw()
    whole, last, _ = decoder(inputs, state, memory)
    first, kept, _ = decoder(inputs[:2], state, memory)
    rest, end, _ = decoder(inputs[2:], kept, memory, initial_state_attention=True)
    torch.testing.assert_close(torch.stack(whole), torch.stack(first + rest), rtol=0, atol=1e-12)
    torch.testing.assert_close(torch.stack(last), torch.stack(end), rtol=0, atol=1e-12)


def test_padding_has_weight_zero_and_changes_nothing():
    decoder, (inputs, state, memory) = make(), draw()
    result = decoder(inputs, state, memory, mask=MASK)
    assert all(not weights[1, 3:].any() for step in result[2] for weights in step)
    poisoned = memory.detach().clone()
    poisoned[1, 3:] = torch.nan
    assert torch.equal(flat(decoder(inputs, state, poisoned, mask=MASK)), flat(result))
    alone = decoder([x[1:] for x in inputs], tuple(leaf[1:] for leaf in state), memory[1:, :3])
    torch.testing.assert_close(torch.stack(alone[0]), torch.stack(result[0])[:, 1:], rtol=0, atol=1e-12)


def test_the_call_of_tensorflow_is_the_modules():
    decoder, (inputs, state, memory) = make(), draw()
    called = attention_decoder(inputs, state, memory, decoder.cell, O, num_heads=2, scope=decoder, dtype=torch.float64)
    assert torch.equal(flat(called), flat(decoder(inputs, state, memory)))
    assert make(output_size=None).output_size == D


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"scope": None}, UnsupportedError, "AttentionDecoder with the weights"),
        ({"scope": "attention_decoder"}, UnsupportedError, "'attention_decoder'"),
        ({"num_heads": 1}, ConfigError, "num_heads is 1, but scope has 2"),
        ({"output_size": 9}, ConfigError, "output_size is 9"),
        ({"cell": nn.LSTMCell(I, D)}, ConfigError, "cell is LSTMCell"),
        ({"dtype": torch.float32}, ConfigError, "dtype is torch.float32"),
        ({"decoder_inputs": []}, ShapeError, "got none"),
        ({"decoder_inputs": [torch.zeros(B, I + 1, dtype=torch.float64)]}, ShapeError, r"decoder_inputs\[0\] must be"),
        ({"mask": MASK[:, :4]}, ShapeError, "mask"),
        ({"loop_function": lambda previous, t: previous}, ShapeError, "loop_function's result"),
        ({"initial_state": (torch.zeros(1, D),) * 2}, ShapeError, "initial_state"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(change, error, text):
    decoder, (inputs, state, memory) = make(), draw()
    given = {"decoder_inputs": inputs, "initial_state": state, "attention_states": memory, "cell": decoder.cell}
    with pytest.raises(error, match=text):
        attention_decoder(**(given | {"output_size": O, "num_heads": 2, "scope": decoder} | change))


def test_a_decoder_without_heads_or_cell_is_refused():
    with pytest.raises(ConfigError, match="it must be 1 or more"):
        make(num_heads=0)
    with pytest.raises(UnsupportedError, match="must be a cell"):
        AttentionDecoder(nn.Linear(3, 4), input_size=I, attention_size=M)


def tensorflow_arrays(heads=2):
    """Drawn arrays, by the names and in the layout of TensorFlow's variables."""
    generator = torch.Generator().manual_seed(7)
    shapes = {
        "kernel": (I + heads * M, I),
        "bias": (I,),
        "AttnOutputProjection/kernel": (D + heads * M, O),
        "AttnOutputProjection/bias": (O,),
        "lstm_cell/kernel": (I + D, 4 * D),
        "lstm_cell/bias": (4 * D,),
    }
    for h in range(heads):
        shapes |= {f"AttnW_{h}": (1, 1, M, M), f"AttnV_{h}": (M,)}
        shapes |= {f"Attention_{h}/kernel": (2 * D, M), f"Attention_{h}/bias": (M,)}
    return {name: torch.randn(*shape, generator=generator).double() for name, shape in shapes.items()}


def tensorflow_decoder(num_heads=2):
    cell = tfa.LSTMCell(D, input_size=I)
    return AttentionDecoder(cell, O, num_heads, input_size=I, attention_size=M).double()


def test_arrays_of_tensorflow_have_their_places():
    arrays, decoder = tensorflow_arrays(), tensorflow_decoder()
    decoder.load_state_dict(decoder.from_tensorflow(arrays))
    inputs, (c, h), memory = draw()
    outputs, _, locations = decoder(inputs, tfa.LSTMStateTuple(c, h), memory)
    reads, w = [torch.zeros(B, M).double()] * 2, arrays
    for t, x in enumerate(inputs):
        x = torch.cat([x, *reads], 1) @ w["kernel"] + w["bias"]
        gates = torch.cat([x, h], 1) @ w["lstm_cell/kernel"] + w["lstm_cell/bias"]
        i, j, f, o = gates.chunk(4, 1)  # TensorFlow's order, with 1 added to the forget gate
        c = (f + 1).sigmoid() * c + i.sigmoid() * j.tanh()
        h = o.sigmoid() * c.tanh()
        reads = []
        for head in range(2):
            y = torch.cat([c, h], 1) @ w[f"Attention_{head}/kernel"] + w[f"Attention_{head}/bias"]
            hidden = torch.einsum("bsm,mk->bsk", memory, w[f"AttnW_{head}"][0, 0])
            weights = ((hidden + y[:, None]).tanh() @ w[f"AttnV_{head}"]).softmax(-1)
            torch.testing.assert_close(locations[t][head], weights, rtol=0, atol=1e-12)
            reads.append(torch.einsum("bs,bsm->bm", weights, memory))
        expected = torch.cat([h, *reads], 1) @ w["AttnOutputProjection/kernel"] + w["AttnOutputProjection/bias"]
        torch.testing.assert_close(outputs[t], expected, rtol=0, atol=1e-12)


def test_arrays_of_tensorflow_that_do_not_fit_are_named():
    arrays = tensorflow_arrays()
    with pytest.raises(DataError, match=r"missing: AttnW_1(.|\n)*others: lstm_cell/kernel, lstm_cell/bias$"):
        tensorflow_decoder().from_tensorflow({name: value for name, value in arrays.items() if name != "AttnW_1"})
    with pytest.raises(DataError, match=r"others: .*rest"):
        tensorflow_decoder().from_tensorflow(arrays | {"rest": torch.zeros(1)})
    with pytest.raises(UnsupportedError, match="TorchCell has no from_tensorflow"):
        make().from_tensorflow(arrays)
    with pytest.raises(DataError, match=r"kernel has the shape \(3, 3\); the kernel of this Dense is \("):
        tensorflow_decoder().from_tensorflow(arrays | {"kernel": torch.zeros(3, 3)})


def ids(*rows):
    return list(torch.tensor(rows).T)


def embedding_decoder(**options):
    torch.manual_seed(0)
    return EmbeddingAttentionDecoder(
        nn.GRUCell(I, D), 5, I, **{"attention_size": M, "output_size": 5} | options
    ).double()


def test_ids_are_embedded_and_the_symbol_said_last_is_fed():
    decoder, (_, state, memory) = embedding_decoder(num_heads=2), draw("gru")
    given = ids([1, 2, 3], [4, 0, 1])
    forced = decoder(given, state, memory)
    inner = decoder.decoder([decoder.embedding(symbol) for symbol in given], state, memory)
    assert torch.equal(flat(forced), flat(inner))
    free = decoder(given, state, memory, feed_previous=True)
    said = [output.argmax(-1) for output in free[0]]
    assert torch.equal(flat(free), flat(decoder([given[0], *said[:-1]], state, memory)))
    options = {"cell": decoder.decoder.cell, "num_symbols": 5, "embedding_size": I, "num_heads": 2, "scope": decoder}
    called = embedding_attention_decoder(given, state, memory, feed_previous=True, **options)
    assert torch.equal(flat(called), flat(free))


def test_gradients_reach_the_embedding_of_what_was_fed_unless_told_not_to():
    decoder, (_, state, memory) = embedding_decoder(), draw("gru")
    given = ids([1, 1, 1], [1, 1, 1])
    reached = {}
    for update in (True, False):
        outputs, _, _ = decoder(given, state, memory, True, update)
        gradient = torch.autograd.grad(torch.stack(outputs).sum(), decoder.embedding.weight)[0]
        reached[update] = set(gradient.abs().sum(-1).nonzero()[:, 0].tolist())
        said = {int(symbol) for output in outputs[:-1] for symbol in output.argmax(-1)}
    assert reached[False] == {1}
    assert reached[True] == {1} | said != {1}


def test_an_output_projection_chooses_what_is_fed_and_is_not_in_the_outputs():
    projection = nn.Linear(O, 5)
    decoder, (_, state, memory) = embedding_decoder(output_size=O, output_projection=projection), draw("gru")
    outputs, _, _ = decoder(given := ids([1, 2, 3], [4, 0, 1]), state, memory, feed_previous=True)
    assert outputs[0].shape == (B, O)
    said = [projection(output).argmax(-1) for output in outputs]
    again, _, _ = decoder([given[0], *said[:-1]], state, memory)
    assert torch.equal(torch.stack(outputs), torch.stack(again))
    with pytest.raises(UnsupportedError, match=r"W\.T"):
        embedding_decoder(output_projection=(torch.zeros(O, 5), torch.zeros(5)))
    with pytest.raises(ShapeError, match="O=7, N=5"):
        embedding_decoder(output_size=O, output_projection=nn.Linear(5, 5))
    with pytest.raises(ShapeError, match="needs logits"):
        embedding_decoder(output_size=O)(given, state, memory, feed_previous=True)


def test_a_model_encodes_with_a_copy_of_the_cell_and_attends_to_its_outputs():
    torch.manual_seed(0)
    cell = nn.LSTMCell(I, D)
    model = EmbeddingAttentionSeq2Seq(cell, 9, 5, I, num_heads=2).double()
    source, target = ids([1, 2, 3, 4], [5, 6, 7, 8]), ids([1, 2], [3, 4])
    assert model.decoder.decoder.cell.cell.cell is cell
    assert model.encoder_cell.cell.weight_ih is not cell.weight_ih
    states, outputs = (torch.zeros(B, D, dtype=torch.float64),) * 2, []
    for symbol in source:
        states = model.encoder_cell.cell(model.encoder_embedding(symbol), states)
        outputs.append(states[0])
    expected = model.decoder(target, states, torch.stack(outputs, 1))
    ours = model(source, target)
    assert torch.equal(flat(ours), flat(expected))
    assert ours[0][0].shape == (B, 5)
    options = {"cell": cell, "num_encoder_symbols": 9, "num_decoder_symbols": 5, "embedding_size": I, "num_heads": 2}
    assert torch.equal(flat(embedding_attention_seq2seq(source, target, scope=model, **options)), flat(ours))
    with pytest.raises(RegardError, match="num_encoder_symbols is 8"):
        embedding_attention_seq2seq(source, target, scope=model, **options | {"num_encoder_symbols": 8})


@pytest.mark.parametrize("cell", [nn.LSTMCell, nn.GRUCell])
def test_a_sentence_alone_is_the_sentence_with_padding(cell):
    torch.manual_seed(0)
    model = EmbeddingAttentionSeq2Seq(cell(I, D), 9, 5, I, output_projection=nn.Linear(D, 5)).double()
    source, target = ids([1, 2, 3, 4], [5, 6, 0, 0]), ids([1, 2], [3, 4])
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    whole = model(source, target, feed_previous=True, mask=mask)
    alone = model([x[1:] for x in source[:2]], [x[1:] for x in target], feed_previous=True)
    torch.testing.assert_close(torch.stack(whole[0])[:, 1:], torch.stack(alone[0]), rtol=0, atol=1e-12)
    with pytest.raises(ShapeError, match="right-padded"):
        model(source, target, mask=mask.flip(1))
    with pytest.raises(ShapeError, match="got none"):
        model([], target)
