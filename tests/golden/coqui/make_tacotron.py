"""Goldens of Coqui TTS's Tacotron 1 and 2, each with r 2 and a projection as wide as r 3.

Program: coqui-tts 0.28.0, `TTS/tts/layers/tacotron/tacotron.py` and `tacotron2.py`, on torch 2.13.0 (CPU). The package
wants an audio stack at import, so the files that matter are loaded by themselves.

    python3.11 -m venv peers
    peers/bin/pip install torch==2.13.0 numpy scipy==1.17.1
    peers/bin/pip install --no-deps coqui-tts==0.28.0
    OMP_NUM_THREADS=1 peers/bin/python tests/golden/coqui/make_tacotron.py

Its sizes are fixed in its code: its modules are made here with small ones, and its own `forward` and `inference` run
over them. What the models around them do (embedding, postnet, last linear layer) is that of `TTS/tts/models`.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1]))
from speech import FEATURES, SOURCE, STEPS, SYMBOLS, joined, record_speech

SIZE, PRENET, WIDEST, FRAMES = 7, 5, 3, 2


def load(*names):
    """Files of `TTS.tts.layers.tacotron`, without running any package's __init__."""
    (root,) = importlib.util.find_spec("TTS").submodule_search_locations
    for package in ("TTS", "TTS.tts", "TTS.tts.layers", "TTS.tts.layers.tacotron"):
        module = types.ModuleType(package)
        module.__path__ = [str(Path(root, *package.split(".")[1:]))]
        sys.modules[package] = module
    return {name: importlib.import_module(f"TTS.tts.layers.tacotron.{name}") for name in names}


def attention(attentions, query, memory):
    return attentions.OriginalAttention(
        query,
        memory,
        4,
        location_attention=True,
        attention_location_n_filters=3,
        attention_location_kernel_size=3,
        windowing=False,
        norm="sigmoid",
        forward_attn=False,
        trans_agent=False,
        forward_attn_mask=False,
    )


def settings(decoder, memory):
    decoder.frame_channels, decoder.r_init, decoder.r = FEATURES, WIDEST, FRAMES
    decoder.separate_stopnet, decoder.max_decoder_steps = True, STEPS
    decoder.stop_threshold = 2.0
    decoder.encoder_embedding_dim = decoder.in_channels = memory


class Tacotron2(nn.Module):
    """As `TTS.tts.models.tacotron2`, small."""

    def __init__(self, files):
        super().__init__()
        two, common = files["tacotron2"], files["common_layers"]
        self.embedding = nn.Embedding(SYMBOLS, 6, padding_idx=0)
        self.encoder = two.Encoder(6)
        decoder = two.Decoder.__new__(two.Decoder)
        nn.Module.__init__(decoder)
        settings(decoder, 6)
        decoder.query_dim = decoder.decoder_rnn_dim = SIZE
        decoder.p_attention_dropout = decoder.p_decoder_dropout = 0.1
        decoder.prenet = common.Prenet(FEATURES, "original", True, out_features=[PRENET, PRENET], bias=False)
        decoder.attention_rnn = nn.LSTMCell(PRENET + 6, SIZE)
        decoder.attention = attention(files["attentions"], SIZE, 6)
        decoder.decoder_rnn = nn.LSTMCell(SIZE + 6, SIZE)
        decoder.linear_projection = common.Linear(SIZE + 6, FEATURES * WIDEST)
        stop = common.Linear(SIZE + FEATURES * WIDEST, 1, bias=True, init_gain="sigmoid")
        decoder.stopnet = nn.Sequential(nn.Dropout(0.1), stop)
        self.decoder = decoder
        self.postnet = two.Postnet.__new__(two.Postnet)
        nn.Module.__init__(self.postnet)
        widths = [FEATURES, 5, 5, 5, 5, FEATURES]
        self.postnet.convolutions = nn.ModuleList(
            two.ConvBNBlock(widths[i], widths[i + 1], 5, "tanh" if i < 4 else None) for i in range(5)
        )

    def encode(self, ids):
        return self.encoder(self.embedding(ids).transpose(1, 2), torch.full((len(ids),), SOURCE))

    def force(self, ids, frames):
        return self.decoder(self.encode(ids), frames, torch.ones(len(ids), SOURCE, dtype=torch.bool))

    def refine(self, frames):
        return (frames + self.postnet(frames)).transpose(1, 2)


class Tacotron1(nn.Module):
    """As `TTS.tts.models.tacotron`, small."""

    def __init__(self, files):
        super().__init__()
        one, common = files["tacotron"], files["common_layers"]
        self.embedding = nn.Embedding(SYMBOLS, 6, padding_idx=0)
        encoder = one.Encoder.__new__(one.Encoder)
        nn.Module.__init__(encoder)
        encoder.prenet = common.Prenet(6, out_features=[PRENET, 4])
        encoder.cbhg = one.EncoderCBHG.__new__(one.EncoderCBHG)
        nn.Module.__init__(encoder.cbhg)
        small = {"conv_bank_features": 3, "num_highways": 4, "gru_features": 5, "highway_features": 5}
        encoder.cbhg.cbhg = one.CBHG(4, K=4, conv_projections=[4, 4], **small)
        self.encoder = encoder
        decoder = one.Decoder.__new__(one.Decoder)
        nn.Module.__init__(decoder)
        settings(decoder, 10)
        decoder.use_memory_queue, decoder.memory_size = False, FRAMES
        decoder.prenet = common.Prenet(FEATURES, "original", True, out_features=[PRENET, 4])
        decoder.attention_rnn = nn.GRUCell(10 + 4, 8)
        decoder.attention = attention(files["attentions"], 8, 10)
        decoder.project_to_decoder_in = nn.Linear(8 + 10, 8)
        decoder.decoder_rnns = nn.ModuleList([nn.GRUCell(8, 8) for _ in range(2)])
        decoder.proj_to_mel = nn.Linear(8, FEATURES * WIDEST)
        decoder.stopnet = one.StopNet(8 + FEATURES * WIDEST)
        small_states(decoder)
        self.decoder = decoder
        self.postnet = one.PostCBHG.__new__(one.PostCBHG)
        nn.Module.__init__(self.postnet)
        self.postnet.cbhg = one.CBHG(FEATURES, K=3, conv_projections=[5, FEATURES], **small)
        self.last_linear = nn.Linear(10, 9)

    def encode(self, ids):
        return self.encoder(self.embedding(ids))

    def force(self, ids, frames):
        return self.decoder(self.encode(ids), frames, torch.ones(len(ids), SOURCE, dtype=torch.bool))

    def refine(self, frames):
        return self.last_linear(self.postnet(frames))


def small_states(decoder):
    """The first states of Tacotron 1's decoder, which its code makes 256 wide."""
    original = decoder._init_states

    def init(inputs):
        original(inputs)
        decoder.attention_rnn_hidden = inputs.new_zeros(len(inputs), 8)
        decoder.decoder_rnn_hiddens = [inputs.new_zeros(len(inputs), 8) for _ in range(2)]

    decoder._init_states = init


@contextmanager
def endless():
    """Within it no probability of stopping, the only (1, 1) tensor that goes through σ, is above 0; logits are kept."""
    original, logits = torch.sigmoid, []

    def sigmoid(x):
        if x.shape != (1, 1):
            return original(x)
        logits.append(x)
        return torch.zeros_like(x)

    torch.sigmoid = sigmoid
    try:
        yield logits
    finally:
        torch.sigmoid = original


def names(model, frames, alignment, stop):
    return {
        "frames": frames.transpose(1, 2),
        "refined": model.refine(frames.clone()),
        "stop": stop.view(len(frames), -1, 1),
        "alignment": alignment[:, None],
    }


def run(model, ids, frames):
    forced = names(model, *model.force(ids, frames))
    free = []
    for one in ids:
        with endless() as logits:
            said, weights, _ = model.decoder.inference(model.encode(one[None]))
        stop = torch.cat(logits, 1)[:, :STEPS]
        free.append(names(model, said[..., : STEPS * FRAMES], weights[:, :STEPS], stop))
    return forced | joined(free)


def main() -> None:
    files = load("common_layers", "attentions", "tacotron", "tacotron2")
    record_speech("coqui/tacotron2", lambda: Tacotron2(files), run, FRAMES)
    record_speech("coqui/tacotron1", lambda: Tacotron1(files), run, FRAMES)


if __name__ == "__main__":
    main()
