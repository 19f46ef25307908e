"""NVIDIA's side of the comparison: a Tacotron 2 with random weights, and what it says. Runs with torch and numpy only.

    python nvidia_peer.py REPOSITORY FOLDER    writes FOLDER/checkpoint.pt, FOLDER/said.safetensors

REPOSITORY is a clone of NVIDIA/tacotron2. Its modules of audio are not needed and stand empty, and so does unidecode;
masks of lengths are made here: its own are on a GPU. Dropout is off, in the prenet too, which draws in synthesis.
"""

from __future__ import annotations

import sys
import types
from pathlib import Path

import torch
from safetensors.torch import save_file

TEXTS = (
    "the quick brown fox jumps over the lazy dog.",
    "printing, in the only sense with which we are at present concerned.",
    "is it so? yes!",
    "a",
    "wait; what (if anything) was said: nothing.",
)
STEPS = 60
SIZES = {
    "n_mel_channels": 80, "n_frames_per_step": 1, "symbols_embedding_dim": 512, "encoder_kernel_size": 5,
    "encoder_n_convolutions": 3, "encoder_embedding_dim": 512, "attention_rnn_dim": 1024, "attention_dim": 128,
    "attention_location_n_filters": 32, "attention_location_kernel_size": 31, "decoder_rnn_dim": 1024,
    "prenet_dim": 256, "postnet_embedding_dim": 512, "postnet_kernel_size": 5, "postnet_n_convolutions": 5,
}  # fmt: skip
"""Its published sizes."""
RUN = {
    "mask_padding": True, "fp16_run": False, "max_decoder_steps": STEPS, "gate_threshold": 2.0,
    "p_attention_dropout": 0.1, "p_decoder_dropout": 0.1,
}  # fmt: skip


class Empty(types.ModuleType):
    """A module in which every name is None."""

    def __getattr__(self, name: str) -> None:
        return None


def imported(repository: str) -> tuple[type, types.ModuleType]:
    """Its model and its texts."""
    for name in ("librosa", "librosa.filters", "audio_processing", "stft", "utils", "unidecode", "inflect"):
        sys.modules[name] = Empty(name)
    sys.modules["unidecode"].unidecode = lambda text: text
    sys.modules["inflect"].engine = lambda: None
    sys.modules["utils"].get_mask_from_lengths = lambda lengths: torch.arange(int(lengths.max())) < lengths[:, None]
    sys.path.insert(0, repository)
    import text
    from model import Tacotron2

    return Tacotron2, text


def run(repository: str, folder: Path, sizes: dict[str, int], texts: tuple[str, ...] = TEXTS) -> None:
    """Writes the checkpoint of a random model, and what it says of each text: forced and free."""
    kind, reading = imported(repository)
    torch.nn.functional.dropout = lambda x, *_, **__: x
    torch.manual_seed(0)
    settings = types.SimpleNamespace(**{**SIZES, **sizes, **RUN}, n_symbols=len(reading.symbols))
    model = kind(settings).eval()
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            if name.endswith("running_mean"):
                buffer.normal_(std=0.1)
            elif name.endswith("running_var"):
                buffer.uniform_(0.5, 1.5)
    folder.mkdir(parents=True, exist_ok=True)
    saved = {"iteration": 7, "state_dict": model.state_dict(), "optimizer": {}, "learning_rate": 1e-3}
    torch.save(saved, folder / "checkpoint.pt")
    said: dict[str, torch.Tensor] = {}
    for number, text in enumerate(texts):
        ids = torch.tensor([reading.text_to_sequence(text, ["basic_cleaners"])])
        frames = torch.randn(1, settings.n_mel_channels, STEPS // 2)
        lengths = torch.tensor([ids.shape[1]]), torch.tensor([frames.shape[2]])
        with torch.no_grad():
            forced = model((ids, lengths[0], frames, ids.shape[1], lengths[1]))
            free = model.inference(ids)
        said[f"{number}.ids"], said[f"{number}.frames"] = ids[0], frames[0].T
        for way, outputs in (("forced", forced), ("free", free)):
            mel, refined, gate, alignment = outputs
            said[f"{number}.{way}.frames"], said[f"{number}.{way}.refined"] = mel[0].T, refined[0].T
            said[f"{number}.{way}.stop"], said[f"{number}.{way}.alignment"] = gate.reshape(-1), alignment[0]
    save_file({name: tensor.contiguous() for name, tensor in said.items()}, folder / "said.safetensors")


if __name__ == "__main__":
    torch.set_num_threads(1)
    run(sys.argv[1], Path(sys.argv[2]), {})
