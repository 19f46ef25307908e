"""Tacotron 2 of other programs at the sizes of `tacotron_rates.py`, each with one interface.

The files are loaded beside the names that they import, since the packages want audio libraries that nothing here needs.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

Parts = tuple[Tensor, Tensor, Tensor]
"""Frames before and after the postnet (B, T, F), and the logits of stopping, as the program has them."""


def hparams(num_symbols: int, num_features: int, size: int, prenet: int, frames: int) -> dict[str, Any]:
    """What NVIDIA's model and SpeechBrain's are made of; no free run stops before its last step."""
    return {
        "mask_padding": frames == 1,  # with more, NVIDIA's and SpeechBrain's masks do not fit; nothing here is padded
        "n_mel_channels": num_features,
        "n_symbols": num_symbols,
        "symbols_embedding_dim": size,
        "encoder_kernel_size": 5,
        "encoder_n_convolutions": 3,
        "encoder_embedding_dim": size,
        "attention_rnn_dim": 2 * size if size == PAPER else size,
        "attention_dim": 128,
        "attention_location_n_filters": 32,
        "attention_location_kernel_size": 31,
        "n_frames_per_step": frames,
        "decoder_rnn_dim": 2 * size if size == PAPER else size,
        "prenet_dim": prenet,
        "max_decoder_steps": 1000,
        "gate_threshold": 2.0,
        "p_attention_dropout": 0.1,
        "p_decoder_dropout": 0.1,
        "postnet_embedding_dim": size,
        "postnet_kernel_size": 5,
        "postnet_n_convolutions": 5,
    }


class _Empty(types.ModuleType):
    def __getattr__(self, name: str) -> None:
        return None


def _before(lengths: Tensor, longest: Any = None) -> Tensor:
    return torch.arange(int(lengths.max() if longest is None else longest)) < lengths[:, None]


class Nvidia(nn.Module):
    """NVIDIA/tacotron2 at commit 185cd24, from a folder with model.py and layers.py."""

    def __init__(self, folder: str, *sizes: int) -> None:
        super().__init__()
        for name in ("librosa", "librosa.filters", "audio_processing", "stft", "utils"):
            sys.modules[name] = _Empty(name)
        sys.modules["utils"].get_mask_from_lengths = _before  # type: ignore[attr-defined]
        sys.path.insert(0, folder)
        from model import Tacotron2  # type: ignore[import-not-found]

        self.model = Tacotron2(types.SimpleNamespace(**hparams(*sizes), fp16_run=False))
        self.frames = sizes[-1]

    def forward(self, ids: Tensor, frames: Tensor) -> Parts:
        """Teacher-forced."""
        lengths, steps = torch.full((len(ids),), ids.shape[1]), torch.full((len(ids),), frames.shape[1])
        before, after, stop, _ = self.model((ids, lengths, frames.transpose(1, 2), ids.shape[1], steps))
        return before.transpose(1, 2), after.transpose(1, 2), stop

    def speak(self, ids: Tensor, steps: int) -> Tensor:
        """Free-running, one sentence."""
        self.model.decoder.max_decoder_steps = steps
        said: Tensor = self.model.inference(ids)[1].transpose(1, 2)
        return said


class SpeechBrain(nn.Module):
    """speechbrain 1.1.2, `lobes/models/Tacotron2.py`."""

    def __init__(self, *sizes: int) -> None:
        super().__init__()
        spec = importlib.util.find_spec("speechbrain")
        assert spec is not None
        assert spec.submodule_search_locations is not None
        given = {
            "speechbrain.lobes.models.transformer.Transformer": {
                "get_mask_from_lengths": lambda lengths, max_len=None: ~_before(lengths, max_len)
            },
            "speechbrain.nnet.loss.guidedattn_loss": {"GuidedAttentionLoss": None},
        }
        for name, names in given.items():
            parts = name.split(".")
            for end in range(1, len(parts) + 1):
                sys.modules[".".join(parts[:end])] = types.ModuleType(parts[end - 1])
            vars(sys.modules[name]).update(names)
        path = Path(spec.submodule_search_locations[0], "lobes/models/Tacotron2.py")
        file = importlib.util.spec_from_file_location("speechbrain_tacotron2", path)
        assert file is not None
        assert file.loader is not None
        module = importlib.util.module_from_spec(file)
        file.loader.exec_module(module)
        self.model = module.Tacotron2(**hparams(*sizes), decoder_no_early_stopping=True)

    def forward(self, ids: Tensor, frames: Tensor) -> Parts:
        """Teacher-forced."""
        lengths, steps = torch.full((len(ids),), ids.shape[1]), torch.full((len(ids),), frames.shape[1])
        before, after, stop, _ = self.model((ids, lengths, frames.transpose(1, 2), ids.shape[1], steps))
        return before.transpose(1, 2), after.transpose(1, 2), stop

    def speak(self, ids: Tensor, steps: int) -> Tensor:
        """Free-running, one sentence."""
        self.model.decoder.max_decoder_steps = steps
        said: Tensor = self.model.infer(ids, torch.tensor([ids.shape[1]]))[0].transpose(1, 2)
        return said


class Espnet(nn.Module):
    """espnet 202511, `nets/pytorch_backend/tacotron2` with `AttLoc`, as `espnet2.tts.tacotron2` puts it together."""

    def __init__(self, num_symbols: int, num_features: int, size: int, prenet: int, frames: int) -> None:
        super().__init__()
        from espnet.nets.pytorch_backend.rnn.attentions import AttLoc  # type: ignore[import-not-found]
        from espnet.nets.pytorch_backend.tacotron2.decoder import Decoder  # type: ignore[import-not-found]
        from espnet.nets.pytorch_backend.tacotron2.encoder import Encoder  # type: ignore[import-not-found]

        self.frames, units = frames, 2 * size if size == PAPER else size
        self.enc = Encoder(num_symbols, embed_dim=size, eunits=size, econv_chans=size, econv_filts=5)
        self.dec = Decoder(
            size,
            num_features,
            AttLoc(size, units, 128, 32, 15),  # filters of 2 · 15 + 1
            dunits=units,
            prenet_units=prenet,
            postnet_chans=size,
            reduction_factor=frames,
        )

    def forward(self, ids: Tensor, frames: Tensor) -> Parts:
        """Teacher-forced."""
        hidden, lengths = self.enc(ids, torch.full((len(ids),), ids.shape[1]))
        after, before, stop, _ = self.dec(hidden, lengths, frames)
        return before, after, stop

    def speak(self, ids: Tensor, steps: int) -> Tensor:
        """Free-running, one sentence."""
        hidden = self.enc.inference(ids[0])
        ratio = (steps * self.frames + 0.5) / len(hidden)
        said: Tensor = self.dec.inference(hidden, threshold=2.0, maxlenratio=ratio)[0]
        return said[None]


class Coqui(nn.Module):
    """coqui-tts 0.28.0, `TTS/tts/layers/tacotron/tacotron2.py`, whose sizes stand in the code: other modules are set.

    Its stop network reads the frames, so there is one logit for a step, behind the gradient's end.
    """

    def __init__(self, num_symbols: int, num_features: int, size: int, prenet: int, frames: int) -> None:
        super().__init__()
        spec = importlib.util.find_spec("TTS")
        assert spec is not None
        assert spec.submodule_search_locations is not None
        folder = Path(spec.submodule_search_locations[0], "tts/layers/tacotron")
        packages = "TTS", "TTS.tts", "TTS.tts.layers", "TTS.tts.layers.tacotron"
        for name in packages:
            sys.modules[name] = types.ModuleType(name)
            sys.modules[name].__path__ = []  # type: ignore[attr-defined]
        is_absent = importlib.util.find_spec("scipy") is None
        if is_absent:
            sys.modules["scipy"] = _Empty("scipy")  # for a prior that is not used
        loaded = {}
        for name in ("common_layers", "attentions", "tacotron2"):
            file = importlib.util.spec_from_file_location(f"{packages[-1]}.{name}", folder / f"{name}.py")
            assert file is not None
            assert file.loader is not None
            loaded[name] = sys.modules[file.name] = importlib.util.module_from_spec(file)
            file.loader.exec_module(loaded[name])
        if is_absent:
            del sys.modules["scipy"]
        layers, linear = loaded["tacotron2"], loaded["common_layers"].Linear
        self.embedding = nn.Embedding(num_symbols, size)
        self.encoder = layers.Encoder(size)
        options = {"forward_attn": False, "trans_agent": False, "forward_attn_mask": False, "location_attn": True}
        kind = {"attn_type": "original", "attn_win": False, "attn_norm": "softmax", "attn_K": 5}
        nets = {"prenet_type": "original", "prenet_dropout": True, "separate_stopnet": True, "max_decoder_steps": 1000}
        decoder = layers.Decoder(size, num_features, frames, **kind, **options, **nets)
        decoder.query_dim, decoder.decoder_rnn_dim, decoder.prenet_dim = size, size, prenet
        width = num_features * frames
        # the paper's size has 512 features of the encoder and 1024 units; here all are one size, or these
        units = 2 * size if size == PAPER else size
        decoder.query_dim, decoder.decoder_rnn_dim = units, units
        made = loaded["common_layers"].Prenet
        decoder.prenet = made(num_features, "original", True, out_features=[prenet, prenet], bias=False)
        decoder.attention_rnn = nn.LSTMCell(prenet + size, units)
        decoder.attention = loaded["attentions"].init_attn(
            attn_type="original",
            query_dim=units,
            embedding_dim=size,
            attention_dim=128,
            location_attention=True,
            attention_location_n_filters=32,
            attention_location_kernel_size=31,
            windowing=False,
            norm="softmax",
            forward_attn=False,
            trans_agent=False,
            forward_attn_mask=False,
            attn_K=5,
        )
        decoder.decoder_rnn = nn.LSTMCell(units + size, units)
        decoder.linear_projection = linear(units + size, width)
        decoder.stopnet = nn.Sequential(nn.Dropout(0.1), linear(units + width, 1, init_gain="sigmoid"))
        decoder.stop_threshold = 2.0
        self.decoder, self.postnet, block = decoder, layers.Postnet(num_features), layers.ConvBNBlock
        widths = [num_features, *[size] * 4, num_features]
        for index, activation in enumerate(["tanh"] * 4 + [None]):
            self.postnet.convolutions[index] = block(widths[index], widths[index + 1], 5, activation)

    def forward(self, ids: Tensor, frames: Tensor) -> Parts:
        """Teacher-forced."""
        lengths = torch.full((len(ids),), ids.shape[1])
        hidden = self.encoder(self.embedding(ids).transpose(1, 2), lengths)
        before, _, stop = self.decoder(hidden, frames, torch.ones(ids.shape, dtype=torch.bool))
        after = before + self.postnet(before)
        return before.transpose(1, 2), after.transpose(1, 2), stop

    def speak(self, ids: Tensor, steps: int) -> Tensor:
        """Free-running, one sentence."""
        self.decoder.max_decoder_steps = steps
        hidden = self.encoder.inference(self.embedding(ids).transpose(1, 2))
        before, _, _ = self.decoder.inference(hidden)
        said: Tensor = (before + self.postnet(before)).transpose(1, 2)
        return said


PAPER = 512
"""Features of the paper's encoder; its cells have twice as many units."""
PEERS: dict[str, Callable[..., Any]] = {"nvidia": Nvidia, "speechbrain": SpeechBrain, "espnet": Espnet, "coqui": Coqui}
