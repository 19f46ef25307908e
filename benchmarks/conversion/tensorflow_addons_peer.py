"""tensorflow-addons' side of the comparison: trains small models, and says what they say. Runs in its own environment.

python tensorflow_addons_peer.py train CASE FOLDER     trains on the numerals in FOLDER: model.npz and model.json there
python tensorflow_addons_peer.py say FOLDER ASKED SAID answers questions (JSON) with arrays
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TF_ADDONS_PY_OPS", "1")  # gather_tree in Python: the compiled one wants CUDA's library

import numpy as np
import tensorflow as tf
import tensorflow_addons as tfa

CASES = {
    "luong": {
        "encoder": {"cell": "lstm", "bidirectional": True},
        "attention": {"kind": "luong", "scale": True},
        "sizes": (24, 64, None),
        "layer": 48,
        "output_attention": True,
        "output_bias": True,
        "source_end": True,
        "length_penalty": 1.0,
    },
    "bahdanau": {
        "encoder": {"cell": "gru", "bidirectional": False},
        "attention": {"kind": "bahdanau", "normalize": True},
        "sizes": (24, 64, 40),
        "layer": None,
        "output_attention": False,
        "output_bias": False,
        "source_end": True,
        "length_penalty": 0.0,
    },
    "bahdanau_layer": {
        "encoder": {"cell": "lstm", "bidirectional": False},
        "attention": {"kind": "bahdanau", "normalize": False},
        "sizes": (24, 64, 40),
        "layer": 40,
        "output_attention": False,
        "output_bias": True,
        "source_end": True,
        "length_penalty": 0.6,
    },
    "tiny": {
        "encoder": {"cell": "gru", "bidirectional": True},
        "attention": {"kind": "bahdanau", "normalize": True},
        "sizes": (8, 24, 12),
        "layer": 10,
        "output_attention": True,
        "output_bias": True,
        "source_end": False,
        "length_penalty": 0.8,
    },
}
"""What is trained: the encoder, the mechanism, E, D and the width of the energies, the width of the attention layer,
and what is decoded with."""
BEAM, LIMIT = 5, 30
SPECIALS = ("<pad>", "<s>", "</s>", "<unk>")
SEED = 42


class Model(tf.Module):
    """An encoder, AttentionWrapper around a cell, and an output layer."""

    def __init__(self, case: str, num_source: int, num_target: int) -> None:
        super().__init__()
        self.settings = settings = CASES[case]
        keras = tf.keras.layers
        embedding_size, units, width = settings["sizes"]
        size = units // 2 if settings["encoder"]["bidirectional"] else units
        is_lstm = settings["encoder"]["cell"] == "lstm"
        recurrent = (keras.LSTM if is_lstm else keras.GRU)(
            size, return_sequences=True, return_state=True, name="encoder_cell"
        )
        self.encoder = keras.Bidirectional(recurrent) if settings["encoder"]["bidirectional"] else recurrent
        self.source = keras.Embedding(num_source, embedding_size, name="source_embedding")
        self.target = keras.Embedding(num_target, embedding_size, name="target_embedding")
        kind, options = settings["attention"]["kind"], dict(settings["attention"])
        del options["kind"]
        self.mechanism = {"luong": tfa.seq2seq.LuongAttention, "bahdanau": tfa.seq2seq.BahdanauAttention}[kind](
            width or units, **options
        )
        cell = (keras.LSTMCell if is_lstm else keras.GRUCell)(units, name="decoder_cell")
        self.wrapper = tfa.seq2seq.AttentionWrapper(
            cell,
            self.mechanism,
            attention_layer_size=settings["layer"],
            output_attention=settings["output_attention"],
            alignment_history=True,
        )
        self.output = keras.Dense(num_target, use_bias=settings["output_bias"], name="output_layer")

    def encode(self, ids, lengths):
        mask = tf.sequence_mask(lengths, tf.shape(ids)[1])
        states, *last = self.encoder(self.source(ids), mask=mask)
        if self.settings["encoder"]["bidirectional"]:
            half = len(last) // 2
            last = [tf.concat([last[i], last[half + i]], 1) for i in range(half)]
        return states, last

    def first_state(self, last, rows):
        state = self.wrapper.get_initial_state(batch_size=rows, dtype=tf.float32)
        return state.clone(cell_state=last if len(last) > 1 else last[0])

    def forced(self, ids, lengths, inputs, input_lengths):
        """Logits (B, T, N) and alignments (B, T, S)."""
        states, last = self.encode(ids, lengths)
        self.mechanism.setup_memory(states, memory_sequence_length=lengths)
        decoder = tfa.seq2seq.BasicDecoder(self.wrapper, tfa.seq2seq.TrainingSampler(), output_layer=self.output)
        outputs, final, _ = decoder(
            self.target(inputs),
            initial_state=self.first_state(last, tf.shape(ids)[0]),
            sequence_length=input_lengths,
        )
        return outputs.rnn_output, tf.transpose(final.alignment_history.stack(), [1, 0, 2])

    def greedy(self, ids, lengths, begin, end):
        states, last = self.encode(ids, lengths)
        self.mechanism.setup_memory(states, memory_sequence_length=lengths)
        sampler = tfa.seq2seq.GreedyEmbeddingSampler(lambda ids: self.target(ids))
        decoder = tfa.seq2seq.BasicDecoder(self.wrapper, sampler, output_layer=self.output, maximum_iterations=LIMIT)
        rows = tf.shape(ids)[0]
        outputs, final, said = decoder(
            None, start_tokens=tf.fill([rows], begin), end_token=end, initial_state=self.first_state(last, rows)
        )
        return outputs.sample_id, said, tf.transpose(final.alignment_history.stack(), [1, 0, 2])

    def beam(self, ids, lengths, begin, end):
        """Ids (B, T, K), their scores (B, K) and lengths (B, K)."""
        states, last = self.encode(ids, lengths)
        rows = tf.shape(ids)[0]
        tile = lambda part: tfa.seq2seq.tile_batch(part, BEAM)  # noqa: E731
        self.mechanism.setup_memory(tile(states), memory_sequence_length=tile(lengths))
        decoder = tfa.seq2seq.BeamSearchDecoder(
            self.wrapper,
            BEAM,
            embedding_fn=lambda ids: self.target(ids),
            output_layer=self.output,
            length_penalty_weight=self.settings["length_penalty"],
            maximum_iterations=LIMIT,
        )
        outputs, final, _ = decoder(
            None,
            start_tokens=tf.fill([rows], begin),
            end_token=end,
            initial_state=self.first_state([tile(part) for part in last], rows * BEAM),
        )
        return outputs.predicted_ids, outputs.beam_search_decoder_output.scores[:, -1], final.lengths


def vocabulary(texts: list[list[str]]) -> list[str]:
    return [*SPECIALS, *sorted({symbol for text in texts for symbol in text})]


def padded(rows: list[list[int]]) -> tuple[tf.Tensor, tf.Tensor]:
    lengths = [len(row) for row in rows]
    array = np.zeros((len(rows), max(lengths)), np.int32)
    for number, row in enumerate(rows):
        array[number, : len(row)] = row
    return tf.constant(array), tf.constant(lengths, tf.int32)


class Side:
    """Symbols and their ids."""

    def __init__(self, symbols: list[str]) -> None:
        self.symbols, self.ids = symbols, {symbol: number for number, symbol in enumerate(symbols)}

    def read(self, text: str, *, end: bool) -> list[int]:
        return [self.ids.get(symbol, 3) for symbol in text.split()] + [2] * end


def pairs(folder: Path, part: str) -> list[tuple[str, str]]:
    sides = ((folder / f"{part}.{side}").read_text(encoding="utf-8").splitlines() for side in ("num", "eng"))
    return list(zip(*sides, strict=True))


def learn(case: str, folder: Path, epochs: int = 14) -> None:
    """Trains a model: its arrays, and what no array says."""
    tf.keras.utils.set_random_seed(SEED)
    data = pairs(folder, "train")
    source, target = (Side(vocabulary([pair[side].split() for pair in data])) for side in (0, 1))
    model = Model(case, len(source.symbols), len(target.symbols))
    optimiser = tf.keras.optimizers.legacy.Adam(0.004, clipnorm=5.0)
    ends = model.settings["source_end"]
    rows = [(source.read(s, end=ends), target.read(t, end=True)) for s, t in data]

    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)] * 2)
    def step(ids, lengths, targets, target_lengths):
        inputs = tf.concat([tf.fill([tf.shape(targets)[0], 1], 1), targets[:, :-1]], 1)
        with tf.GradientTape() as tape:
            logits, _ = model.forced(ids, lengths, inputs, target_lengths)
            weights = tf.sequence_mask(target_lengths, tf.shape(targets)[1], tf.float32)
            loss = tfa.seq2seq.sequence_loss(logits, targets, weights)
        wanted = model.trainable_variables
        optimiser.apply_gradients(zip(tape.gradient(loss, wanted), wanted))
        return loss

    # variables are made by a first call outside of the graph
    model.forced(*padded([rows[0][0]]), *padded([rows[0][1]]))
    draw = np.random.default_rng(SEED)
    for epoch in range(epochs):
        optimiser.learning_rate = 0.005 * 0.85**epoch
        losses = []
        for batch in np.array_split(draw.permutation(len(rows)), len(rows) // 64):
            parts = [padded([rows[i][side] for i in batch]) for side in (0, 1)]
            losses.append(float(step(*parts[0], *parts[1])))
        print(f"epoch {epoch}: loss {np.mean(losses):.4f}", flush=True)
    np.savez(folder / "model.npz", **{v.name: v.numpy() for v in model.trainable_variables})
    facts = {
        "source": {
            "symbols": source.symbols,
            "padding": "<pad>",
            "unknown": "<unk>",
            "begin": None,
            "end": "</s>" if ends else None,
        },
        "target": {"symbols": target.symbols, "begin": "<s>", "end": "</s>", "unknown": "<unk>"},
        "encoder": model.settings["encoder"],
        "decoder": {
            "cell": model.settings["encoder"]["cell"],
            "attention": model.settings["attention"],
            "output_attention": model.settings["output_attention"],
            "beam_width": BEAM,
            "length_penalty_weight": model.settings["length_penalty"],
            "maximum_iterations": LIMIT,
        },
        "names": names(model),
    }
    (folder / "model.json").write_text(json.dumps(facts, indent=1, ensure_ascii=False))
    (folder / "case.json").write_text(json.dumps(case))


def names(model: Model) -> dict[str, str]:
    """The names of the arrays by what they are."""

    def of(layer, name: str) -> dict[str, str]:
        return {f"{name}.{v.name.split('/')[-1].removesuffix(':0')}": v.name for v in layer.trainable_variables}

    found = of(model.source, "encoder.embedding") | of(model.target, "decoder.embedding")
    if model.settings["encoder"]["bidirectional"]:
        found |= of(model.encoder.forward_layer, "encoder.layers.0.forward") | of(
            model.encoder.backward_layer, "encoder.layers.0.backward"
        )
    else:
        found |= of(model.encoder, "encoder.layers.0.forward")
    found |= of(model.wrapper._cell, "decoder.layers.0") | of(model.output, "output")
    own = {id(v) for layer in (model.wrapper._cell, model.mechanism) for v in layer.trainable_variables}
    rest = [v for v in model.wrapper.trainable_variables if id(v) not in own]
    if rest:
        found["attention_layer.kernel"] = rest[0].name
    for layer in ("memory_layer", "query_layer"):
        part = getattr(model.mechanism, layer)
        found |= of(part, layer) if part is not None else {}
    inner = {
        id(v)
        for part in (model.mechanism.memory_layer, model.mechanism.query_layer)
        if part is not None
        for v in part.trainable_variables
    }
    for v in model.mechanism.trainable_variables:
        if id(v) not in inner:
            found[v.name.split("/")[-1].removesuffix(":0")] = v.name
    return found


def load(folder: Path) -> tuple[Model, Side, Side]:
    facts = json.loads((folder / "model.json").read_text())
    source, target = (Side(facts[side]["symbols"]) for side in ("source", "target"))
    model = Model(json.loads((folder / "case.json").read_text()), len(source.symbols), len(target.symbols))
    model.forced(*padded([[4, 2]]), *padded([[1, 4]]))
    with np.load(folder / "model.npz") as arrays:
        # by role, since TensorFlow numbers the names of layers that are made again
        roles = {name: role for role, name in names(model).items()}
        for variable in model.trainable_variables:
            variable.assign(arrays[facts["names"][roles[variable.name]]])
    return model, source, target


def say(folder: Path, asked: Path, said: Path, batch: int = 40) -> None:
    """For each input: logits and alignments of its output, the greedy output, and the beam's with their alignments."""
    model, source, target = load(folder)
    questions = json.loads(asked.read_text())
    signature = [tf.TensorSpec([None, None], tf.int32), tf.TensorSpec([None], tf.int32)]
    forced = tf.function(model.forced, input_signature=signature * 2)
    greedy = tf.function(lambda ids, lengths: model.greedy(ids, lengths, 1, 2), input_signature=signature)
    beam = tf.function(lambda ids, lengths: model.beam(ids, lengths, 1, 2), input_signature=signature)
    ends, arrays = model.settings["source_end"], {}
    for start in range(0, len(questions), batch):
        some = questions[start : start + batch]
        sources = [source.read(question["source"], end=ends) for question in some]
        targets = [target.read(question["target"], end=True) for question in some]
        logits, alignments = (
            part.numpy() for part in forced(*padded(sources), *padded([[1, *t[:-1]] for t in targets]))
        )
        ids, lengths, maps = (part.numpy() for part in greedy(*padded(sources)))
        # each alone: a beam that has ended is ranked anew, at other lengths, as long as the batch goes on
        beams = [[part.numpy()[0] for part in beam(*padded([row]))] for row in sources]
        hypotheses = [[cut(ids[:, k].tolist()) for k in range(BEAM)] for ids, _, _ in beams]
        flat = [(sources[i], hypothesis) for i, row in enumerate(hypotheses) for hypothesis in row]
        shown = forced(*padded([pair[0] for pair in flat]), *padded([[1, *pair[1][:-1]] for pair in flat]))[1].numpy()
        for i, (s, t) in enumerate(zip(sources, targets, strict=True)):
            arrays[f"{start + i}.logits"] = logits[i, : len(t)]
            arrays[f"{start + i}.alignment"] = alignments[i, : len(t), : len(s)]
            arrays[f"{start + i}.greedy"] = ids[i, : lengths[i]]
            arrays[f"{start + i}.greedy_alignment"] = maps[i, : lengths[i], : len(s)]
            arrays[f"{start + i}.scores"] = beams[i][1]
            for k, hypothesis in enumerate(hypotheses[i]):
                arrays[f"{start + i}.beam.{k}"] = np.array(hypothesis, np.int64)
                arrays[f"{start + i}.beam_alignment.{k}"] = shown[i * BEAM + k, : len(hypothesis), : len(s)]
    np.savez_compressed(said, **arrays)


def cut(ids: list[int]) -> list[int]:
    """Up to the end symbol, with it."""
    return ids[: ids.index(2) + 1] if 2 in ids else ids


if __name__ == "__main__":
    verb, *arguments = sys.argv[1:]
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    if verb == "train":
        learn(arguments[0], Path(arguments[1]), *map(int, arguments[2:]))
    else:
        say(*map(Path, arguments))
