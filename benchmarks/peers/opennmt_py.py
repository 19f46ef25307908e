"""OpenNMT-py 3.5: its RNN with input feeding and the attention it calls mlp, through its own options, loss and search.

Its encoder has to be as wide as its decoder, so each direction has half the size, and there is less to compute.
"""

from __future__ import annotations

from importlib.metadata import version

import onmt.model_builder
import pyonmttok
import torch
from layer import forward_backward
from onmt.modules.global_attention import GlobalAttention
from onmt.opts import train_opts, translate_opts
from onmt.trainer import Trainer
from onmt.translate.beam_search import GNMTGlobalScorer
from onmt.translate.translator import Translator
from onmt.utils.loss import LossCompute
from onmt.utils.optimizers import Optimizer
from onmt.utils.parse import ArgumentParser
from onmt.utils.statistics import Statistics
from sizes import CLIP_NORM, LEARNING_RATE, ids

SPECIAL = ["<unk>", "<blank>", "<s>", "</s>"]


def options(declare, **given):
    parser = ArgumentParser()
    declare(parser)
    words = [str(word) for name, value in given.items() for word in (f"-{name}", value)]
    return parser.parse_known_args(words)[0]


def jobs(size, layer, threads):
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    opt = options(
        train_opts,
        data="{}",
        src_vocab="none",
        model_dtype="fp32",
        encoder_type="brnn",
        decoder_type="rnn",
        rnn_type="LSTM",
        input_feed=1,
        global_attention="mlp",
        enc_layers=1,
        dec_layers=1,
        enc_hid_size=size["D"],
        dec_hid_size=size["D"],
        src_word_vec_size=size["E"],
        tgt_word_vec_size=size["E"],
        dropout=0,
        optim="adam",
        learning_rate=LEARNING_RATE,
        max_grad_norm=CLIP_NORM,
    )
    ArgumentParser.update_model_opts(opt)
    words = [str(i) for i in range(size["N"] - 4)]
    vocabulary = pyonmttok.build_vocab_from_tokens(words, maximum_size=0, special_tokens=SPECIAL)
    vocabularies = {"src": vocabulary, "tgt": vocabulary, "decoder_start_token": "<s>", "data_task": "seq2seq"}
    model = onmt.model_builder.build_model(opt, opt, vocabularies, None, -1)
    loss = LossCompute.from_opts(opt, model, vocabulary)
    trainer = Trainer(model, loss, loss, None, None, Optimizer.from_opt(model, opt), accum_count=[1], accum_steps=[0])
    source = torch.from_numpy(ids(size["B"], size["S"], size["N"], 1))[..., None]
    target = torch.from_numpy(ids(size["B"], size["T"] + 1, size["N"], 2))[..., None]
    target[:, 0], target[:, -1] = SPECIAL.index("<s>"), SPECIAL.index("</s>")
    lengths = torch.full((size["B"],), size["S"])
    batch = {"src": source, "tgt": target, "srclen": lengths, "tgtlen": torch.full((size["B"],), size["T"] + 1)}

    def train():
        model.train()
        seen = Statistics(), Statistics()
        trainer._gradient_accumulation([batch], size["B"] * size["T"], *seen)
        assert seen[0].loss == seen[0].loss

    wanted = options(translate_opts, model="none", src="none", beam_size=size["K"])
    wanted.min_length = wanted.max_length = size["T"]
    wanted.max_length_ratio = 0
    translator = Translator.from_opt(
        model, vocabularies, wanted, opt, global_scorer=GNMTGlobalScorer.from_opt(wanted), report_score=False
    )
    asked = {"src": source, "srclen": lengths, "indices": torch.arange(size["B"])}

    def beam():
        model.eval()
        with torch.inference_mode():
            found = translator.translate_batch(asked, attn_debug=False)
        assert len(found["predictions"][0][0]) == size["T"]

    attention = GlobalAttention(layer["D"], attn_type="mlp")
    return version("OpenNMT-py"), {
        "training": train,
        "beam": beam,
        "layer": forward_backward(lambda queries, memory: attention(queries, memory)[0], attention, layer),
    }
