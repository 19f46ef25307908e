"""ESPnet 202511: its RNN encoder and decoder with additive attention and its batched beam search.

It attends with the old state and feeds the context into the cell, its target embedding is as wide as its decoder, and
its output layer reads the cell alone. Outputs of natural length are as long as the longest source of their batch: it
knows no limit for each.
"""

from __future__ import annotations

import logging
from argparse import Namespace
from importlib.metadata import version

import numpy as np
import torch
from espnet.nets.pytorch_backend.rnn.attentions import AttAdd
from espnet.nets.pytorch_backend.rnn.decoders import Decoder
from espnet.nets.pytorch_backend.rnn.encoders import Encoder
from layer import forward_backward
from sizes import CLIP_NORM, LEARNING_RATE, NATURAL, ids, natural


class Model(torch.nn.Module):
    """As its translation model is put together, without the reporter that needs chainer."""

    def __init__(self, size):
        super().__init__()
        wide, last = 2 * size["D"], size["N"] - 1
        self.embed = torch.nn.Embedding(size["N"], size["E"])
        self.enc = Encoder("blstm", size["E"], 1, size["D"], wide, np.ones(2, dtype=int), 0.0)
        attention = torch.nn.ModuleList([AttAdd(wide, size["D"], size["D"])])
        names = [str(i) for i in range(size["N"])]
        self.dec = Decoder(wide, size["N"], "lstm", 1, size["D"], last, last, attention, char_list=names)

    def encode(self, source, lengths):
        return self.enc(self.embed(source), lengths)[:2]


def jobs(size, layer, threads):
    logging.disable()
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = Model(size)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    source = torch.from_numpy(ids(size["B"], size["S"], size["N"] - 1, 1))
    target = torch.from_numpy(ids(size["B"], size["T"] - 1, size["N"] - 1, 2))  # its end is added by the decoder
    lengths = torch.full((size["B"],), size["S"])

    def train():
        model.train()
        optimizer.zero_grad()
        loss, _, _ = model.dec(*model.encode(source, lengths), target)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
        optimizer.step()

    wanted = Namespace(beam_size=size["K"], penalty=0.0, ctc_weight=0.0, lm_weight=0.0, nbest=1)
    wanted.maxlenratio = wanted.minlenratio = size["T"] / size["S"]

    def beam():
        model.eval()
        with torch.inference_mode():
            memory, found = model.encode(source, lengths)
            model.dec.recognize_beam_batch(memory, torch.as_tensor(found), None, wanted, model.dec.char_list)

    def natural_beam(kind):
        own = Model({**size, "N": NATURAL[kind]["N"]}).eval()
        batches = [tuple(map(torch.from_numpy, batch)) for batch in natural(kind, size, 0)]
        options = Namespace(**{**vars(wanted), "maxlenratio": 1.0, "minlenratio": 1.0})

        def beam():
            with torch.inference_mode():
                for source, lengths in batches:
                    memory, found = own.encode(source, lengths)
                    own.dec.recognize_beam_batch(memory, torch.as_tensor(found), None, options, own.dec.char_list)

        return beam

    attention = AttAdd(layer["D"], layer["D"], layer["D"])
    seen = [layer["S"]] * layer["B"]

    def attend(queries, memory):
        attention.reset()
        contexts, weights = [], None
        for query in queries.unbind(1):
            context, weights = attention(memory, seen, query, weights)
            contexts.append(context)
        return torch.stack(contexts, 1)

    return version("espnet"), {
        "training": train,
        "beam": beam,
        "layer": forward_backward(attend, attention, layer),
        **{kind: natural_beam(kind) for kind in NATURAL},
    }
