"""eole 0.6: its RNN with input feeding and the attention it calls mlp, through its own configuration, loss and search.

Its encoder has to be as wide as its decoder, so each direction has half the size, and there is less to compute.
"""

from __future__ import annotations

import logging
from importlib.metadata import version

import pyonmttok
import torch
from eole.config.run import PredictConfig, TrainConfig
from eole.models.model import get_model_class
from eole.modules.global_attention import GlobalAttention
from eole.predict.beam_search import GNMTGlobalScorer
from eole.predict.translator import Translator
from eole.trainer import BatchProcessor
from eole.utils import Statistics
from eole.utils.loss import LossCompute
from eole.utils.optimizers import Optimizer
from layer import forward_backward
from sizes import CLIP_NORM, LEARNING_RATE, ids

SPECIAL = {"unk_token": "<unk>", "pad_token": "<blank>", "bos_token": "<s>", "eos_token": "</s>"}


def jobs(size, layer, threads):
    logging.disable()
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    config = TrainConfig(
        data={},
        src_vocab="none",
        training={
            "compute_dtype": "fp32",
            "use_amp": False,
            "optim": "adam",
            "learning_rate": LEARNING_RATE,
            "max_grad_norm": CLIP_NORM,
            "dropout": [0.0],
            "dropout_steps": [0],
        },
        model={
            "architecture": "custom",
            "input_feed": 1,
            "layers": 1,
            "hidden_size": size["D"],
            "embeddings": {"src_word_vec_size": size["E"], "tgt_word_vec_size": size["E"]},
            "encoder": {"encoder_type": "brnn", "rnn_type": "LSTM"},
            "decoder": {"decoder_type": "rnn", "rnn_type": "LSTM", "global_attention": "mlp"},
        },
    )
    words = [str(i) for i in range(size["N"] - 4)]
    vocabulary = pyonmttok.build_vocab_from_tokens(words, maximum_size=0, special_tokens=list(SPECIAL.values()))
    vocabularies = {"src": vocabulary, "tgt": vocabulary, "specials": SPECIAL, "decoder_start_token": "<s>"}
    model = get_model_class(config.model).for_training(config.model, vocabularies, config.training, device_id=-1)
    optimizer = Optimizer.from_config(model, config)
    steps = BatchProcessor(
        model=model,
        train_loss=LossCompute.from_config(config, model, vocabularies),
        optim=optimizer,
        n_gpu=0,
        parallel_mode="data_parallel",
        with_align=False,
        zero_out_prompt_loss=False,
        estim_loss_lambda=0.0,
        accum_count=1,
    )
    source = torch.from_numpy(ids(size["B"], size["S"], size["N"], 1))
    target = torch.from_numpy(ids(size["B"], size["T"] + 1, size["N"], 2))
    target[:, 0], target[:, -1] = vocabulary["<s>"], vocabulary["</s>"]
    lengths = torch.full((size["B"],), size["S"])
    batch = {"src": source, "tgt": target, "srclen": lengths, "images": None, "prefix_len": None}
    batch |= {"cid": ["drawn"] * size["B"], "cid_line_number": list(range(size["B"]))}

    def train():
        model.train()
        seen = Statistics(), Statistics()
        optimizer.zero_grad(set_to_none=True)
        steps.process_batch(batch, size["B"] * size["T"], 1, *seen)
        optimizer.step()
        assert seen[0].loss == seen[0].loss

    wanted = PredictConfig.model_construct(
        model_path=["none"],
        src="none",
        beam_size=size["K"],
        min_length=size["T"],
        max_length=size["T"],
        max_length_ratio=0,
        length_penalty="none",
        self_attn_backend="pytorch",
    )
    scorer = GNMTGlobalScorer.from_config(wanted)
    translator = Translator(
        model, vocabularies, wanted, config.model, device_id=-1, global_scorer=scorer, report_score=False
    )
    asked = {"src": source, "srclen": lengths, "cid": None, "ind_in_bucket": torch.arange(size["B"])}

    def beam():
        model.eval()
        with torch.inference_mode():
            found = translator.predict_batch(asked, attn_debug=False)
        assert len(found["predictions"][0][0]) == size["T"]

    attention = GlobalAttention(layer["D"], attn_type="mlp")
    return version("eole"), {
        "training": train,
        "beam": beam,
        "layer": forward_backward(lambda queries, memory: attention(queries, memory)[0], attention, layer),
    }
