"""Joey NMT 2.3: its RNN with Bahdanau's attention, input feeding, through its own batch, loss, builders and search.

Outputs of natural length are as long as the longest source of their batch: it knows no limit for each.
"""

from __future__ import annotations

from importlib.metadata import version
from types import SimpleNamespace

import torch
from joeynmt.attention import BahdanauAttention
from joeynmt.batch import Batch
from joeynmt.builders import build_gradient_clipper, build_optimizer
from joeynmt.model import build_model
from joeynmt.search import search
from joeynmt.vocabulary import Vocabulary
from layer import forward_backward
from sizes import CLIP_NORM, LEARNING_RATE, NATURAL, ids, natural

UNKNOWN, PAD, BOS, EOS = range(4)


def make(size):
    names = {"unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "sep_token": None}
    special = SimpleNamespace(**names, unk_id=UNKNOWN, pad_id=PAD, bos_id=BOS, eos_id=EOS, sep_id=None, lang_tags=[])
    vocabulary = Vocabulary([str(i) for i in range(size["N"] - 4)], special)
    recurrent = {"type": "recurrent", "rnn_type": "lstm", "hidden_size": size["D"], "num_layers": 1, "dropout": 0.0}
    embeddings = {"embeddings": {"embedding_dim": size["E"], "dropout": 0.0}}
    return build_model(
        {
            "encoder": {**recurrent, **embeddings, "bidirectional": True},
            "decoder": {**recurrent, **embeddings, "attention": "bahdanau", "init_hidden": "bridge"},
        },
        vocabulary,
        vocabulary,
    )


def jobs(size, layer, threads):
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    model = make(size)
    model.loss_function = ("crossentropy", 0.0)
    parameters = list(model.parameters())
    optimizer = build_optimizer({"optimizer": "adam", "learning_rate": LEARNING_RATE}, parameters)
    clip = build_gradient_clipper({"clip_grad_norm": CLIP_NORM, "clip_grad_val": None})
    source = torch.from_numpy(ids(size["B"], size["S"], size["N"], 1))
    target = torch.from_numpy(ids(size["B"], size["T"] + 1, size["N"], 2))
    target[:, 0], target[:, -1] = BOS, EOS

    def batch(source, lengths, target=None):
        return Batch(
            src=source,
            src_length=lengths,
            src_prompt_mask=None,
            trg=target,
            trg_prompt_mask=None,
            indices=torch.arange(len(source)),
            device=torch.device("cpu"),
            pad_index=PAD,
            eos_index=EOS,
            is_train=target is not None,
        )

    whole = torch.full((size["B"],), size["S"])
    taught, asked = batch(source, whole, target), batch(source, whole)

    def train():
        model.train()
        taught.sort_by_src_length()
        loss, _, _, right = model(return_type="loss", **vars(taught))
        loss = taught.normalize(loss, normalization="tokens")
        loss.backward()
        loss.item(), right.item()
        clip(parameters=parameters)
        optimizer.step()
        model.zero_grad()

    def beam():
        model.eval()
        limits = {"max_output_length": size["T"], "min_output_length": size["T"]}
        with torch.inference_mode():
            search(model=model, batch=asked, beam_size=size["K"], beam_alpha=-1, **limits)

    def natural_beam(kind):
        own = make({**size, "N": NATURAL[kind]["N"]}).eval()
        batches = [batch(*map(torch.from_numpy, given)) for given in natural(kind, size, PAD)]

        def beam():
            with torch.inference_mode():
                for one in batches:
                    length = one.src.shape[1]
                    limits = {"max_output_length": length, "min_output_length": length}
                    search(model=own, batch=one, beam_size=size["K"], beam_alpha=-1, **limits)

        return beam

    attention = BahdanauAttention(hidden_size=layer["D"], key_size=layer["D"], query_size=layer["D"])
    mask = torch.ones(layer["B"], 1, layer["S"], dtype=torch.bool)

    def attend(queries, memory):
        attention.compute_proj_keys(memory)
        return torch.cat([attention(query[:, None], mask, memory)[0] for query in queries.unbind(1)], 1)

    return version("joeynmt"), {
        "training": train,
        "beam": beam,
        "layer": forward_backward(attend, attention, layer),
        **{kind: natural_beam(kind) for kind in NATURAL},
    }
