"""`regard convert tfa`: arrays by role become a model, and every array that does not fit is named."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data.text import BOS, EOS, UNKNOWN
from regard.decoding import Search, search
from regard.errors import DataError, UnsupportedError
from regard.interop import Origin, convert, tfa
from regard.interop.tfa.converter import TensorFlowAddons
from regard.interop.tfa.named_arrays import CELLS, NamedArrays, cell_weights, plain, size_of
from regard.layers import RecurrentStack
from regard.models import Encoded
from regard.tasks import load
from regard.tasks.encoded import pad

GOLDEN = Path(__file__).parent / "golden" / "tensorflow_addons_model"
E, M, D, U, A, N = 3, 6, 4, 5, 7, 8
SYMBOLS = ["<pad>", "<s>", "</s>", "<unk>", "a", "b", "c", "d"]
KINDS = {
    "luong": {"kind": "luong", "scale": True},
    "bahdanau": {"kind": "bahdanau", "normalize": True},
    "luong, hardmax": {"kind": "luong", "probability_fn": "hardmax"},
    "luong_monotonic": {"kind": "luong_monotonic", "scale": True, "mode": "recursive"},
    "bahdanau_monotonic": {"kind": "bahdanau_monotonic", "normalize": True},
}


def drawn(*shape):
    return torch.randn(shape).numpy()


def cell(name, role, width, size):
    """Random arrays of a cell."""
    if name == "lstm":
        return {"kernel": (width, 4 * size), "recurrent_kernel": (size, 4 * size), "bias": (4 * size,)}
    if name in ("gru", "gru_reset_before"):
        bias = (2, 3 * size) if name == "gru" else (3 * size,)
        return {"kernel": (width, 3 * size), "recurrent_kernel": (size, 3 * size), "bias": bias}
    if name == "lstm_v1":
        return {"kernel": (width + size, 4 * size), "bias": (4 * size,)}
    return {
        "gates.kernel": (width + size, 2 * size),
        "gates.bias": (2 * size,),
        "candidate.kernel": (width + size, size),
        "candidate.bias": (size,),
    }


def made(folder, kind="luong", cells=("gru", "lstm"), layer=A, said=True, **further):
    """Random arrays of a model in a folder, and the facts beside them."""
    torch.manual_seed(0)
    options, fed = KINDS[kind], layer or M
    shapes = {"encoder.embedding.embeddings": (N, E), "decoder.embedding.embeddings": (N, E)}
    for direction in ("forward", "backward"):
        role = f"encoder.layers.0.{direction}"
        shapes |= {f"{role}.{k}": shape for k, shape in cell(cells[0], role, E, M // 2).items()}
    shapes |= {f"decoder.layers.0.{k}": shape for k, shape in cell(cells[1], "", E + fed, D).items()}
    width = D
    if "bahdanau" in kind:
        width = U
        shapes |= {"query_layer.kernel": (D, U), "attention_v": (U,)}
        shapes |= {"attention_b": (U,), "attention_g": ()} if options.get("normalize") else {}
    elif options.get("scale"):
        shapes["attention_g"] = ()
    shapes["memory_layer.kernel"] = (M, width)
    shapes |= {"attention_score_bias": ()} if "monotonic" in kind else {}
    shapes |= {"attention_layer.kernel": (D + M, layer)} if layer else {}
    shapes |= {"output.kernel": (fed if said else D, N), "output.bias": (N,)}
    arrays = {name: drawn(*shape) for name, shape in shapes.items()}
    facts = {
        "source": {"symbols": SYMBOLS, "padding": "<pad>", "begin": None, "end": "</s>", "unknown": "<unk>"},
        "target": {"symbols": SYMBOLS, "begin": "<s>", "end": "</s>"},
        "encoder": {"cell": cells[0], "bidirectional": True},
        "decoder": {"cell": cells[1], "attention": options, "output_attention": said, "first_state": "zero"},
    }
    facts["decoder"] |= further
    return save(folder, arrays, facts), arrays


def save(folder, arrays, facts):
    np.savez(folder / "model.npz", **arrays)
    (folder / "model.json").write_text(json.dumps(facts))
    return Origin(folder / "model.npz")


@pytest.mark.parametrize("layer", [A, None])
@pytest.mark.parametrize("said", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_a_converted_decoder_takes_the_steps_of_the_wrapper(kind, said, layer, tmp_path):
    """`regard.interop.tfa` has the numbers of the originals (test_compat_tfa_attention*.py)."""
    origin, arrays = made(tmp_path, kind, layer=layer, said=said)
    model = TensorFlowAddons().read(origin).model
    decoder, arrays = model.module.decoder, {name: torch.from_numpy(np.array(a)) for name, a in arrays.items()}
    options = {key: value for key, value in KINDS[kind].items() if key != "kind"}
    names = {"luong": "LuongAttention", "bahdanau": "BahdanauAttention"}
    names |= {f"{name}_monotonic": value.replace("Att", "MonotonicAtt") for name, value in names.items()}
    memory, lengths = torch.randn(2, 5, M), torch.tensor([5, 3])
    mechanism = getattr(tfa, names[KINDS[kind]["kind"]])(D if "luong" in kind else U, memory, lengths, **options)
    wrapper = tfa.AttentionWrapper(
        tfa.KerasLSTMCell(D), mechanism, attention_layer_size=layer, output_attention=said, alignment_history=True
    ).eval()
    state = wrapper.get_initial_state(batch_size=2, dtype=torch.float32)
    table = arrays["decoder.embedding.embeddings"]
    wrapper(table[:2], state)  # makes the weights
    wrapper.load_state_dict(wrapper_weights(wrapper, arrays))
    mask = torch.arange(5) < lengths[:, None]
    prepared = decoder.prepare(Encoded(memory, mask))
    ours = decoder.initial_state(prepared)
    for step in range(4):
        tokens = torch.tensor([1 if step == 0 else 4 + step, 5])
        output, state = wrapper(table[tokens], state)
        said_there = (output @ arrays["output.kernel"] + arrays["output.bias"]).log_softmax(-1)
        ids = torch.tensor([BOS if token == 1 else model.target.vocabulary.number(SYMBOLS[token]) for token in tokens])
        found, ours = decoder.step(ids, prepared, ours, alignment=True)
        numbers = [EOS if s == "</s>" else model.target.vocabulary.number(s) for s in SYMBOLS]
        torch.testing.assert_close(found.log_probabilities[:, numbers], said_there, rtol=0, atol=2e-5)
        torch.testing.assert_close(found.alignments["attention"][:, 0], state.alignments, rtol=0, atol=1e-5)
        assert found.log_probabilities[:, UNKNOWN].max() < -1000


def wrapper_weights(wrapper, arrays):
    """The state dict of our wrapper, of arrays by role."""
    inside = {k.removeprefix("decoder.layers.0."): v for k, v in arrays.items() if k.startswith("decoder.layers.0.")}
    mine = {k.replace(".", "/"): v for k, v in arrays.items() if k.startswith(("memory_", "query_", "attention_"))}
    layer = mine.pop("attention_layer/kernel", None)
    weights = {f"cell.{k}": v for k, v in wrapper.cell.from_tensorflow(inside).items()}
    attention = wrapper.attention_mechanisms[0].from_tensorflow(mine)
    weights |= {f"attention_mechanisms.0.{k}": v for k, v in attention.items()}
    return weights | ({} if layer is None else {"attention_layers.0.weight": layer.t()})


@torch.inference_mode()
def test_a_trained_model_says_what_tensorflow_addons_says(tmp_path):
    """Log-probabilities, greedy outputs, whole beams and alignments of a model that it trained."""
    convert("tfa", GOLDEN / "tiny" / "model.npz", tmp_path / "model")
    model = load(tmp_path / "model", device="cpu")
    decoder, settings = model.module.decoder, model.config.decoding
    assert settings.keep_finished
    symbols = json.loads((GOLDEN / "tiny" / "model.json").read_text())["target"]["symbols"]
    specials = {"</s>": EOS, "<unk>": UNKNOWN}
    ours = torch.tensor([specials.get(s, model.target.vocabulary.number(s)) for s in symbols])
    questions = json.loads((GOLDEN / "asked.json").read_text())
    options = {"bos": BOS, "eos": EOS, "max_length": settings.max_length, "alignment": True}

    def close(ours, theirs, tolerance=1e-5):
        torch.testing.assert_close(ours, torch.as_tensor(theirs), rtol=0, atol=tolerance)

    with np.load(GOLDEN / "tiny" / "said.npz") as said:
        texts = model.predict([question["source"] for question in questions])
        for number, question in enumerate(questions):
            theirs = {k.split(".", 1)[1]: said[k] for k in said.files if k.startswith(f"{number}.")}
            ids, _ = pad([model.source.encode(question["source"]).ids], end=model.source_end)
            memory = model.module.prepare(ids)
            inputs = torch.tensor([[BOS, *model.target.encode(question["target"]).ids]])
            output = decoder(inputs, memory, alignment=True)
            close(output.log_probabilities[0][:, ours], torch.from_numpy(theirs["logits"]).log_softmax(-1), 5e-5)
            close(output.alignments["attention"][0, 0], theirs["alignment"])
            ((greedy,),) = search(decoder, memory, Search(beam=1, length_penalty="none"), **options)
            assert list(greedy.tokens) == ours[theirs["greedy"]].tolist()
            close(torch.as_tensor(greedy.alignments["attention"][0]), theirs["greedy_alignment"])
            (beam,) = search(decoder, memory, settings.replace(num_best=settings.beam), **options)
            for k, hypothesis in enumerate(beam):
                assert list(hypothesis.tokens) == ours[theirs[f"beam.{k}"]].tolist()
                assert hypothesis.score == pytest.approx(theirs["scores"][k], abs=5e-5)
                close(torch.as_tensor(hypothesis.alignments["attention"][0]), theirs[f"beam_alignment.{k}"])
            best = [symbols[token] for token in theirs["beam.0"] if symbols[token] != "</s>"]
            assert texts[number].text == " ".join(best)


def test_tensorflow_1_cells_are_our_layers():
    torch.manual_seed(1)
    for name, there in (("gru_v1", tfa.GRUCell(D)), ("lstm_v1", tfa.LSTMCell(D)), ("gru", tfa.KerasGRUCell(D))):
        arrays = {k: torch.from_numpy(drawn(*shape)) for k, shape in cell(name, "", E, D).items()}
        found = NamedArrays({f"cell.{k}": v for k, v in arrays.items()}, {})
        assert size_of(found, "cell", name) == D
        stack = RecurrentStack(E, D, cell=CELLS[name][0])
        stack.load_state_dict({f"layers.0.{k}_l0": v for k, v in cell_weights(found, "cell", name, (E, D)).items()})
        found.finish()
        x = torch.randn(2, E)
        state = there.zero_state(2, torch.float32)
        there(x, state)
        there.load_state_dict(there.from_tensorflow({k.replace(".", "/"): v for k, v in arrays.items()}))
        mine = stack.zero_state(2, x)
        for _ in range(3):
            output, state = there(x, state)
            said, mine = stack.step(x, mine)
            torch.testing.assert_close(said, output, rtol=0, atol=1e-6)


def test_keras_gru_without_reset_after_resets_before_the_product():
    torch.manual_seed(2)
    arrays = {k: torch.from_numpy(drawn(*shape)) for k, shape in cell("gru_reset_before", "", E, D).items()}
    stack = RecurrentStack(E, D, cell=CELLS["gru_reset_before"][0])
    found = cell_weights(prefixed(arrays), "cell", "gru_reset_before", (E, D))
    stack.load_state_dict({f"layers.0.{k}_l0": v for k, v in found.items()})
    x, h = torch.randn(2, E), torch.randn(2, D)
    z, r, n = (x @ arrays["kernel"] + arrays["bias"]).chunk(3, 1)
    u_z, u_r, u_n = arrays["recurrent_kernel"].chunk(3, 1)
    z, r = torch.sigmoid(z + h @ u_z), torch.sigmoid(r + h @ u_r)
    expected = z * h + (1 - z) * torch.tanh(n + (r * h) @ u_n)
    torch.testing.assert_close(stack.step(x, ((h,),))[0], expected, rtol=0, atol=1e-6)


def prefixed(arrays):
    return NamedArrays({f"cell.{k}": v for k, v in arrays.items()}, {})


def test_names_of_arrays_are_those_of_tensorflow():
    assert plain("decoder/lstm_cell/kernel:0") == "decoder.lstm_cell.kernel"
    arrays = NamedArrays(
        {"wrapper/dense/kernel:0": torch.ones(2, 3), "Adam/m": torch.ones(1)},
        {"k": "wrapper/dense/kernel:0"},
        ["Adam/*"],
    )
    assert arrays.take("k", (2, None), "D, N").shape == (2, 3)
    arrays.finish()


def changed(origin, *, remove=(), rename=None, resize=None, add=None, facts=None):
    """The same model with a fault."""
    folder = origin.path.parent
    with np.load(origin.path) as archive:
        arrays = {name: archive[name] for name in archive.files if name not in remove}
    values = json.loads((folder / "model.json").read_text())
    if resize is not None:
        arrays[resize[0]] = np.zeros(resize[1], np.float32)
    arrays |= {} if add is None else {add: np.zeros(2, np.float32)}
    for path, value in (facts or {}).items():
        *sections, key = path.split(".")
        place = values
        for section in sections:
            place = place[section]
        place[key] = value
    return save(folder, arrays, values)


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        (
            {"resize": ("decoder.layers.0.kernel", (11, 16))},
            DataError,
            r"decoder.layers.0.kernel is \(11, 16\); as decoder.layers.0.kernel it must be \(F, 16\) = \(10, 16\)",
        ),
        (
            {"resize": ("memory_layer.kernel", (6, 5))},
            DataError,
            r"memory_layer.kernel is \(6, 5\).*\(M, A\) = \(6, 4\)",
        ),
        ({"resize": ("output.kernel", (7, 9))}, DataError, r"\(D, N\) = \(7, 8\)"),
        (
            {"resize": ("encoder.layers.0.forward.bias", (9,))},
            DataError,
            r"encoder.layers.0.forward.bias is \(9,\).*\(2, 9\) = \(2, 9\)",
        ),
        (
            {"remove": ["attention_g"]},
            DataError,
            "there is no array 'attention_g'. Give its name under names.attention_g",
        ),
        ({"add": "dense/bias:0"}, DataError, "arrays without a role: dense/bias:0"),
        ({"facts": {"names": {"attention_g": "g:0"}}}, DataError, "names.attention_g is 'g:0'"),
        ({"facts": {"decoder.cell": "peephole"}}, UnsupportedError, "decoder.cell is 'peephole'; it must be 'lstm' or"),
        (
            {"facts": {"decoder.attention": {"kind": "location"}}},
            UnsupportedError,
            "decoder.attention.kind is 'location'",
        ),
        ({"facts": {"decoder.attention": {"kind": "luong", "normalize": True}}}, DataError, "luong has no 'normalize'"),
        ({"facts": {"decoder.beam": 5}}, DataError, "decoder: there is no 'beam'"),
        (
            {"facts": {"encoder.bidirectional": "no"}},
            UnsupportedError,
            "encoder.bidirectional is 'no'",
        ),
        ({"facts": {"decoder.output_attention": "no"}}, UnsupportedError, "decoder.output_attention is 'no'"),
        ({"facts": {"decoder.attention.scale": "no"}}, UnsupportedError, "decoder.attention.scale is 'no'"),
        ({"facts": {"target.begin": "<go>"}}, DataError, "target.begin is '<go>', which is none of the 8 symbols"),
        ({"facts": {"target.end": None}}, DataError, "target.end is missing"),
        ({"facts": {"source.symbols": ["a", "a"]}}, DataError, "has a symbol twice"),
        ({"facts": {"source.symbols": {"a": 1}}}, DataError, "source.symbols: expected a list of texts"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_named(fault, error, message, tmp_path):
    origin, _ = made(tmp_path)
    with pytest.raises(error, match=message):
        TensorFlowAddons().read(changed(origin, **fault))


def test_a_symbol_that_may_begin_inputs_is_asked_about(tmp_path):
    origin, _ = made(tmp_path)
    values = json.loads((tmp_path / "model.json").read_text())
    for name, token in (("begin", "<s>"), ("end", "</s>")):
        lacking = {**values, "source": {key: value for key, value in values["source"].items() if key != name}}
        (tmp_path / "model.json").write_text(json.dumps(lacking))
        with pytest.raises(DataError, match=rf"source\.{name} is missing.*'{token}'.*{name}: null if none does"):
            TensorFlowAddons().read(origin)
    values["source"]["begin"] = "<s>"
    (tmp_path / "model.json").write_text(json.dumps(values))
    model = TensorFlowAddons().read(origin).model
    assert model.sources(["a"])[0].columns == ["<s>", "a", "</s>"]
    assert model.predict(["a b"])[0].source_tokens == ["<s>", "a", "b", "</s>"]


def test_biases_may_be_missing(tmp_path):
    origin, arrays = made(tmp_path, layer=None)
    without = ["output.bias", "decoder.layers.0.bias", "encoder.layers.0.forward.bias"]
    network = TensorFlowAddons().read(changed(origin, remove=without)).model.module
    assert not network.decoder.stack.layers[0].bias_ih_l0.any()
    assert not network.encoder.stack.layers[0].bias_hh_l0.any()
    assert not network.decoder.head.projection.bias[4:].any()
    np.testing.assert_array_equal(network.decoder.head.projection.weight.detach()[4], arrays["output.kernel"][:, 0])


def test_facts_stand_beside_the_arrays(tmp_path):
    origin, _ = made(tmp_path)
    (tmp_path / "model.json").rename(tmp_path / "facts.yaml")
    with pytest.raises(DataError, match="the file of facts is missing"):
        TensorFlowAddons().read(origin)
    assert TensorFlowAddons().read(Origin(origin.path, {"facts": tmp_path / "facts.yaml"})).model.num_parameters > 0
    (tmp_path / "symbols.txt").write_text("".join(f"{symbol}\n" for symbol in SYMBOLS))
    values = json.loads((tmp_path / "facts.yaml").read_text())
    values["source"]["symbols"] = "symbols.txt"
    (tmp_path / "model.json").write_text(json.dumps(values))
    model = TensorFlowAddons().read(origin).model
    assert model.source.vocabulary.symbols == ("<s>", "a", "b", "c", "d")
    assert model.target.vocabulary.symbols == ("<pad>", "<s>", "<unk>", "a", "b", "c", "d")
