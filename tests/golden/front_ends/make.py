"""Goldens of the analyses of speech synthesis programs, and of librosa.

Program: each is named in `MAKERS` with its version, and runs on torch 2.13.0 (CPU) and librosa 0.11.0.

    git clone https://github.com/NVIDIA/tacotron2 && git -C tacotron2 checkout 185cd24
    git clone https://github.com/jik876/hifi-gan && git -C hifi-gan checkout 4769534
    git clone https://github.com/keithito/tacotron && git -C tacotron checkout d26c763
    git clone https://github.com/Rayhane-mamah/Tacotron-2 && git -C Tacotron-2 checkout ab5cb08
    git clone https://github.com/bshall/Tacotron Tacotron && git -C Tacotron checkout 6fee34a
    python3.11 -m venv peers
    peers/bin/pip install torch==2.13.0 librosa==0.11.0 soundfile
    peers/bin/pip install --no-deps torchaudio==2.11.0 espnet==202511 speechbrain==1.1.2 coqui-tts==0.28.0
    OMP_NUM_THREADS=1 peers/bin/python tests/golden/front_ends/make.py .

Modules that an original imports and does not need here stand empty. Old programs call librosa as it was: `filters.mel`,
`feature.melspectrogram` by position, and `stft` with reflection at the ends (they name another padding where they want
one); a wrapper does that. What asks for float32 outright (`.float()`, `FloatTensor`) is given float64 in the second
pass.

The sound has 8,000 samples: tones, noise, and silence at the end. Of linear spectrograms every twentieth frame is kept.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import librosa
import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parents[1]))
from record import save

LIBRARY = torch.library.Library("torchaudio", "FRAGMENT")
SAMPLES = 8000
EVERY = 20


def sound() -> np.ndarray:
    """Samples of 16 bits, as float32."""
    draw = np.random.default_rng(0)
    t = np.arange(SAMPLES)
    tones = sum(0.3 / n * np.sin(0.03 * n * t + 2e-6 * n * t**2) for n in range(1, 9))
    heard = 0.5 * tones * np.sin(np.pi * t / 5000) + 0.02 * draw.standard_normal(SAMPLES)
    return (np.round(heard * (t < 5000) * 32768) / 32768).astype(np.float32)


class Empty(types.ModuleType):
    """A module in which every name is a class that takes anything."""

    def __getattr__(self, name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {"__init__": lambda self, *a, **k: None})


def of_file(path: Path, *empty: str, **given: types.ModuleType) -> types.ModuleType:
    """The module of a file, with empty or given modules in place of what it imports."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    with mock.patch.dict(sys.modules, {name: Empty(name) for name in empty} | given):
        sys.path.insert(0, str(path.parent))
        try:
            spec.loader.exec_module(module)
        finally:
            sys.path.remove(str(path.parent))
    return module


@contextmanager
def double():
    """Within it torch makes float64 where it is asked for float32."""
    with (
        mock.patch.object(torch.Tensor, "float", torch.Tensor.double),
        mock.patch.object(torch, "FloatTensor", torch.DoubleTensor),
    ):
        torch.set_default_dtype(torch.float64)
        try:
            yield
        finally:
            torch.set_default_dtype(torch.float32)


def old_librosa():
    """librosa's functions as programs of 2018 to 2020 call them."""
    mel, stft, melspectrogram = librosa.filters.mel, librosa.stft, librosa.feature.melspectrogram
    patches = (
        mock.patch.object(librosa.filters, "mel", lambda sr, n_fft, **k: mel(sr=sr, n_fft=n_fft, **k)),
        mock.patch.object(librosa, "stft", lambda y, **k: stft(y, **({"pad_mode": "reflect"} | k))),
        mock.patch.object(
            librosa.feature, "melspectrogram", lambda y, **k: melspectrogram(y=y, pad_mode="reflect", **k)
        ),
    )
    return patches


def nvidia(samples, sources):
    def pad_center(data, size):
        return librosa.util.pad_center(data, size=size)

    def mel(sr, n_fft, num_mels, low, high):
        return librosa.filters.mel(sr=sr, n_fft=n_fft, n_mels=num_mels, fmin=low, fmax=high)

    util, filters = Empty("librosa.util"), Empty("librosa.filters")
    util.pad_center, util.tiny, filters.mel = pad_center, librosa.util.tiny, mel
    top = Empty("librosa")
    top.util = util
    given = {"librosa": top, "librosa.util": util, "librosa.filters": filters}
    layers = of_file(sources / "tacotron2" / "layers.py", **given)
    mels = layers.TacotronSTFT().mel_spectrogram(torch.from_numpy(samples)[None])[0].T
    for name in ("stft", "audio_processing"):
        sys.modules.pop(name, None)
    return {"mel": mels.numpy()}


def hifi_gan(samples, sources):
    filters = Empty("librosa.filters")
    filters.mel = lambda sr, n_fft, num_mels, low, high: librosa.filters.mel(
        sr=sr, n_fft=n_fft, n_mels=num_mels, fmin=low, fmax=high
    )
    util = Empty("librosa.util")
    given = {"librosa.filters": filters, "librosa.util": util}
    meldataset = of_file(sources / "hifi-gan" / "meldataset.py", **given)
    stft = torch.stft

    def old_stft(*arguments, **options):  # before torch 1.8 it gave pairs of real numbers
        return torch.view_as_real(stft(*arguments, return_complex=True, **options))

    with mock.patch.object(torch, "stft", old_stft):
        mels = meldataset.mel_spectrogram(torch.from_numpy(samples)[None], 1024, 80, 22050, 256, 1024, 0, 8000)
    return {"mel": mels[0].T.numpy()}


def espnet(samples, sources):
    from espnet2.tts.feats_extract.log_mel_fbank import LogMelFbank

    extract = LogMelFbank(fs=22050, n_fft=1024, hop_length=256)
    return {"mel": extract(torch.from_numpy(samples)[None])[0][0].numpy()}


def speechbrain(samples, sources):
    if "torchaudio" not in sys.modules:  # without its compiled part, which needs a GPU
        sys.modules["torchaudio._extension"] = Empty("torchaudio._extension")
        for name in ("_lfilter_core_loop", "_overdrive_core_loop"):
            LIBRARY.define(f"{name}(Tensor x) -> ()")
    package = Path(importlib.util.find_spec("speechbrain").submodule_search_locations[0])
    empty = ("speechbrain.lobes.models.transformer.Transformer", "speechbrain.nnet.loss.guidedattn_loss")
    tacotron = of_file(package / "lobes" / "models" / "Tacotron2.py", *empty)
    mels = tacotron.mel_spectrogram(
        22050, 256, 1024, 1024, 80, 0.0, 8000.0, 1, False, "slaney", "slaney", True, torch.from_numpy(samples)
    )
    return {"mel": mels.T.numpy()}


def coqui(samples, sources, **options):
    from TTS.config.shared_configs import BaseAudioConfig
    from TTS.utils.audio.processor import AudioProcessor

    processor = AudioProcessor(BaseAudioConfig(**options))
    return {"mel": processor.melspectrogram(samples).T, "linear": processor.spectrogram(samples).T[::EVERY]}


def coqui_ln(samples, sources):
    """The audio of its recipes for LJSpeech."""
    options = {"signal_norm": False, "mel_fmin": 0.0, "mel_fmax": 8000, "spec_gain": 1.0, "log_func": "np.log"}
    return {"mel": coqui(samples, sources, **options, ref_level_db=20, preemphasis=0.0)["mel"]}


def keithito(samples, sources):
    hparams = Empty("hparams")
    hparams.hparams = types.SimpleNamespace(
        num_mels=80,
        num_freq=1025,
        sample_rate=20000,
        frame_length_ms=50,
        frame_shift_ms=12.5,
        preemphasis=0.97,
        min_level_db=-100,
        ref_level_db=20,
    )
    audio = of_file(sources / "tacotron" / "util" / "audio.py", "tensorflow", hparams=hparams)
    return {"mel": audio.melspectrogram(samples).T, "linear": audio.spectrogram(samples).T[::EVERY]}


def rayhane(samples, sources):
    audio = of_file(sources / "Tacotron-2" / "datasets" / "audio.py", "tensorflow")
    hparams = types.SimpleNamespace(
        num_mels=80,
        sample_rate=22050,
        n_fft=2048,
        hop_size=275,
        win_size=1100,
        magnitude_power=2.0,
        signal_normalization=True,
        allow_clipping_in_normalization=True,
        symmetric_mels=True,
        max_abs_value=4.0,
        min_level_db=-100,
        ref_level_db=20,
        fmin=55,
        fmax=7600,
        use_lws=False,
    )
    # as its preprocessor does
    emphasised = audio.preemphasis(samples, 0.97, True)
    emphasised = emphasised / np.abs(emphasised).max() * 0.999
    mels, linear = (kind(emphasised, hparams).T for kind in (audio.melspectrogram, audio.linearspectrogram))
    return {"mel": mels, "linear": linear[::EVERY]}


def bshall(samples, sources):
    preprocess = of_file(sources / "Tacotron" / "preprocess.py", "pyloudnorm", "toml", "tqdm")
    return {"mel": preprocess.melspectrogram(samples, n_mels=80).T}


def regard(samples, sources):
    """Ours by librosa."""
    magnitudes = np.abs(librosa.stft(samples, n_fft=1024, hop_length=200, win_length=800, pad_mode="reflect"))
    filters = librosa.filters.mel(sr=16000, n_fft=1024, n_mels=80, fmin=50, fmax=7600, dtype=np.float64)
    return {"mel": np.log(np.maximum(filters @ magnitudes, 1e-5)).T}


MAKERS = {
    "bshall": (bshall, "bshall/Tacotron 6fee34a"),
    "coqui": (coqui, "coqui-tts 0.28.0"),
    "coqui-ln": (coqui_ln, "coqui-tts 0.28.0"),
    "espnet": (espnet, "espnet 202511"),
    "hifi-gan": (hifi_gan, "jik876/hifi-gan 4769534"),
    "keithito": (keithito, "keithito/tacotron d26c763"),
    "nvidia": (nvidia, "NVIDIA/tacotron2 185cd24"),
    "rayhane": (rayhane, "Rayhane-mamah/Tacotron-2 ab5cb08"),
    "regard": (regard, "librosa 0.11.0"),
    "speechbrain": (speechbrain, "speechbrain 1.1.2"),
}


def main() -> None:
    sources, names = Path(sys.argv[1]), sys.argv[2:] or list(MAKERS)
    samples = sound()
    for name in names:
        maker = MAKERS[name][0]
        with mock.patch("builtins.print"):
            patches = old_librosa() if name in ("keithito", "rayhane", "bshall") else ()
            for patch in patches:
                patch.start()
            single = maker(samples, sources)
            with double():
                exact = maker(samples.astype(np.float64), sources)
            for patch in patches:
                patch.stop()
        outputs = {
            "float32": {key: np.asarray(value, np.float32) for key, value in single.items()},
            # computed in float64; 1e-5 is asked for, so seven digits are enough
            "float64": {key: np.asarray(value, np.float32) for key, value in exact.items()},
        }
        empty = {"float32": {}, "float64": {}}
        whole = np.round(samples * 32768).astype(np.int16)
        save(f"front_ends/{name}", {"samples": whole}, {}, {}, outputs, empty)


if __name__ == "__main__":
    main()
