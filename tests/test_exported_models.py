"""Exported models: they say what the model says, in a process without torch; what a format lacks is refused by name."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from regard import UnsupportedError
from regard.cli import run
from regard.config.texts import SideConfig
from regard.data.text import Field
from regard.errors import RegardError, naming_flags
from regard.interop import convert
from regard.interop.export import decode, export_model
from regard.interop.export.networks import ForcedNetwork, Networks
from regard.interop.export.onnx import require_plain_search
from regard.interop.export.programs import forced_program, step_program, worst
from regard.runs import store
from regard.tasks import TextToText, load
from regard.tasks.text_to_text.config import DecodingConfig, TextToTextConfig

TEXTS = ["abc", "fade", "b", "deafcab", " BAD ", "zebra", ""]
RECURRENT = {
    "encoder": {"size": 8, "embedding_size": 6, "bidirectional": False},
    "decoder": {"size": 8, "embedding_size": 6, "cell": "lstm", "input_feeding": True},
    "attention": {"recipe": "location_sensitive", "size": 6, "num_filters": 2, "kernel_size": 3},
}
SIDE = {"size": 8, "layers": 1, "heads": 2}
TRANSFORMER = {"architecture": "transformer", "encoder": SIDE, "decoder": SIDE}


def untrained(model: dict, *, data: dict | None = None, **decoding: object) -> TextToText:
    """A model whose weights are drawn wide, so that its outputs differ."""
    data = {"train": "x.tsv", "source": {"case": "lower"}, "target": {"units": "whitespace"}} | (data or {})
    config = TextToTextConfig(data=data, model=model, decoding={"max_length": 7, **decoding})
    source = Field.build(SideConfig(case="lower"), ["abcdef"])
    torch.manual_seed(1 if model.get("architecture") == "transformer" else 4)
    built = TextToText.build(config, source, Field.build(SideConfig(units="whitespace"), ["A B C D E F"]))
    with torch.no_grad():
        for parameter in built.module.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=2 * parameter.shape[-1] ** -0.5)
    return built


def needs(*packages: str) -> None:
    for package in packages:
        pytest.importorskip(package, reason=f"{package} is in the extras of exports")


@pytest.fixture(scope="module", params=["recurrent", "transformer"])
def exported(request, tmp_path_factory):
    """A model and its ONNX folder, written by the verb."""
    needs("onnx", "onnxscript", "onnxruntime")
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "recurrent":
        options = {"data": {"source_end": False, "source_begin": True}, "length_penalty": "power", "alpha": 0.9}
        options |= {"length_counts_begin": True, "max_length": None, "max_length_ratio": 1.2, "max_length_extra": 2.5}
        options |= {"max_length_cap": 7}
    else:
        target = {"units": "whitespace", "direction": "right_to_left"}
        options = {"data": {"target": target}, "length_penalty": "average"}
    kind = RECURRENT if request.param == "recurrent" else TRANSFORMER
    model = untrained(kind, beam=4, num_best=2, min_length=2, **options)
    store.save(model, folder / "model")
    assert run(["export", str(folder / "model"), "--format", "onnx", "--output", str(folder / "onnx")]) == 0
    return model, folder / "onnx"


@pytest.mark.parametrize("beam", [1, 4])
def test_the_program_says_what_the_model_says_without_torch(exported, beam):
    model, folder = exported
    code = (
        "import runpy, sys\n"
        "sys.modules.update({name: None for name in ('torch', 'regard', 'onnx')})\n"
        f"sys.argv = ['decode.py', '--beam', '{beam}']\n"
        f"runpy.run_path({str(folder / 'decode.py')!r}, run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], input="\n".join(TEXTS), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    said = [json.loads(line)["outputs"] for line in done.stdout.splitlines()]
    decoding = model.config.decoding.replace(beam=beam, num_best=1 if beam == 1 else 2)
    expected = model.predict(TEXTS[:-1], search=decoding)
    assert len({tuple(prediction.tokens) for prediction in expected}) >= 3
    for prediction, outputs in zip(expected, said):
        for ours, theirs in zip((prediction, *prediction.alternatives), outputs, strict=True):
            assert theirs["tokens"] == ours.tokens
            assert theirs["text"] == ours.text
            assert theirs["score"] == pytest.approx(ours.score, abs=1e-4)
            np.testing.assert_allclose(theirs["alignment"], ours.alignment, atol=1e-4)


def test_the_program_divides_characters_into_letters_and_joins_them():
    program, letters = decode.Model.__new__(decode.Model), ["\u1112", "\u1161", "\u11ab"]
    target = {"units": "letter", "reversed": False, "symbols": ["", "", "", "", *letters]}
    source = {"units": "letter", "case": "keep", "unicode": "NFC"}
    program.facts = {"source": source, "target": target, "symbols": {"end": 3}}
    assert program.symbols("한a") == [*letters, "a"]
    said = program.output(0.0, (4, 5, 6, 3), ())
    assert said["text"] == "한"
    assert said["tokens"] == [*letters, "</s>"]


def test_a_folder_is_replaced_only_if_asked_for(exported, capsys):
    folder = exported[1]
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    assert set(before) == {"encoder.onnx", "step.onnx", "model.json", "decode.py"}
    assert run(["export", "g2p-en", "--format", "onnx", "--output", str(folder)]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_a_refused_model_leaves_nothing(tmp_path):
    needs("onnx", "onnxscript", "onnxruntime")
    model = untrained(RECURRENT, coverage_penalty="gnmt")
    with pytest.raises(UnsupportedError, match=r"decoding\.coverage_penalty is gnmt.*decoding\.coverage_penalty=none"):
        export_model(model, tmp_path / "out", format="onnx")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RegardError, match="this is a file"):
        export_model(model, tmp_path / "file", format="torch", overwrite=True)
    with pytest.raises(UnsupportedError, match=r"format='tf' must be one of onnx, ctranslate2, torch"):
        export_model(model, tmp_path / "out", format="tf")  # type: ignore[arg-type]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limits of files")
@pytest.mark.parametrize("format", ["onnx", "ctranslate2", "torch"])
def test_a_full_disk_is_named_and_leaves_nothing(tmp_path, format):
    needs(*{"onnx": ("onnx", "onnxscript", "onnxruntime"), "ctranslate2": ("ctranslate2",)}.get(format, ()))
    import resource

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))  # as a full disk, for this process alone
    try:
        with pytest.raises(RegardError, match=r"out: cannot be written: File too large"):
            export_model(untrained(TRANSFORMER), tmp_path / "out", format=format)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


def test_a_trained_model_is_not_replaced_by_its_export(tmp_path, capsys):
    store.save(untrained(TRANSFORMER), tmp_path / "runs" / "model")
    before = sorted(path.name for path in (tmp_path / "runs" / "model").iterdir())
    for folder in ("runs/model", "runs"):
        command = ["export", str(tmp_path / "runs" / "model"), "--format", "torch", "--overwrite"]
        assert run([*command, "--output", str(tmp_path / folder)]) == 2
        assert "not those of an exported model" in capsys.readouterr().err
    assert sorted(path.name for path in (tmp_path / "runs" / "model").iterdir()) == before


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--format", "ctranslate2", "--beam", "3"], "--beam has no effect with --format ctranslate2"),
        (["--format", "torch", "--keep-finished"], "--keep-finished has no effect with --format torch"),
    ],
)
def test_a_setting_without_effect_is_refused(tmp_path, capsys, given, message):
    assert run(["export", "g2p-en", *given, "--output", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("decoding", "flag", "setting"),
    [
        ({"keep_finished": True}, "--no-keep-finished", "decoding.keep_finished=False"),
        ({"eos_threshold": 2.0}, "--eos-threshold null", "decoding.eos_threshold=None"),
    ],
)
def test_a_refused_setting_tells_the_flag_that_works(decoding, flag, setting):
    with naming_flags(), pytest.raises(UnsupportedError, match=rf"Export with {flag}, or"):
        require_plain_search(DecodingConfig(**decoding))
    with pytest.raises(UnsupportedError, match=rf"Export with {setting}, or"):
        require_plain_search(DecodingConfig(**decoding))


def test_a_pointer_and_another_task_are_refused_by_name(tmp_path):
    pointing = untrained({**RECURRENT, "pointer": {}})
    with pytest.raises(UnsupportedError, match=r"model\.pointer cannot be exported"):
        export_model(pointing, tmp_path / "out", format="torch")
    other = type("Other", (), {"config": type("Config", (), {"task": "labelling"})})()
    with pytest.raises(UnsupportedError, match="task: labelling cannot be exported"):
        export_model(other, tmp_path / "out", format="torch")


def flat(outputs: object) -> list[torch.Tensor]:
    return [outputs] if isinstance(outputs, torch.Tensor) else [x for each in outputs for x in flat(each)]  # type: ignore


def require_equal_steps(networks, program, memory, state, hypotheses):
    """Three steps of a program are those of the model, whatever continues what."""
    shape = (len(memory[0]), hypotheses)
    tokens, parents = torch.ones(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long)
    for _ in range(3):
        expected = networks.step(tokens, parents, memory, state)
        assert worst(flat(program(tokens, parents, memory, state)), flat(expected)) < 1e-5
        tokens, parents, state = torch.randint(4, 10, shape), torch.randint(0, hypotheses, shape), expected[2]


SIZES = ((1, 2, 2), (1, 9, 5), (4, 3, 3), (5, 16, 2))


def sources(sentences: int, positions: int) -> tuple[torch.Tensor, torch.Tensor]:
    lengths = torch.randint(1, positions + 1, (sentences,))
    lengths[0] = positions
    return torch.randint(4, 10, (sentences, positions)), lengths


def test_a_folder_of_torch_programs_serves_all_sizes(tmp_path):
    model = untrained(TRANSFORMER)
    export_model(model, tmp_path / "out", format="torch")
    facts = json.loads((tmp_path / "out" / "model.json").read_text())
    programs = {path.stem: torch.export.load(path).module() for path in (tmp_path / "out").glob("*.pt2")}
    networks = Networks.of(model.module)
    for sentences, positions, hypotheses in SIZES:
        source, lengths = sources(sentences, positions)
        memory, state = networks.source(source, lengths)
        assert (len(memory), len(state)) == (facts["memory"], facts["state"])
        assert worst(flat(programs["encoder"](source, lengths)), flat((memory, state))) < 1e-5
        require_equal_steps(networks, programs["step"], memory, state, hypotheses)
        inputs = torch.randint(4, 10, (sentences, positions))
        forced = ForcedNetwork(model.module)(source, lengths, inputs)
        assert worst([programs["forward"](source, lengths, inputs)], [forced]) < 1e-5


def test_the_step_of_a_recurrent_model_serves_all_sizes():
    networks = Networks.of(untrained(RECURRENT).module)
    program = step_program(networks).module()
    for sentences, positions, hypotheses in SIZES:
        memory, state = networks.source(*sources(sentences, positions))
        require_equal_steps(networks, program, memory, state, hypotheses)
    with pytest.raises(UnsupportedError, match="the last attentional output is an input of the cell"):
        forced_program(networks)


def test_a_step_refuses_inputs_that_disagree():
    networks = Networks.of(untrained(TRANSFORMER).module)
    tokens, parents, memory, state = networks.step_inputs
    with pytest.raises(RegardError, match="disagree on K: 2 and 1"):
        networks.step(tokens, parents[:, :1], memory, state)


VARIANTS = [
    {},
    {
        "encoder": {**SIDE, "norm": "post", "activation": "gelu"},
        "decoder": {**SIDE, "norm": "post", "activation": "gelu"},
    },
    {"encoder": {**SIDE, "activation": "swiglu"}, "decoder": {**SIDE, "activation": "swiglu", "positions": "learned"}},
    {
        "encoder": {**SIDE, "norm": "pre", "activation": "gelu"},
        "decoder": {**SIDE, "norm": "post", "activation": "relu"},
    },
    {"encoder": {**SIDE, "projection_bias": True}, "decoder": {**SIDE, "positions": None, "scaled_embeddings": False}},
]


@pytest.mark.parametrize("variant", VARIANTS, ids=["plain", "post", "gated", "mixed", "biases"])
def test_ctranslate2_says_what_the_model_says(tmp_path, variant):
    needs("ctranslate2")
    import ctranslate2

    model = untrained({**TRANSFORMER, **variant})
    for overwrite in (False, True):
        export_model(model, tmp_path / "out", format="ctranslate2", overwrite=overwrite)
    translator = ctranslate2.Translator(str(tmp_path / "out"), compute_type="float32", intra_threads=1)
    texts = [text for text in TEXTS[:-1] if text != "zebra"]
    found = translator.translate_batch(
        [model.source.split(text) for text in texts],
        beam_size=1,
        min_decoding_length=0,
        max_decoding_length=8,  # the end symbol counts there
        length_penalty=0,
        return_scores=True,
        return_attention=True,
    )
    for prediction, result in zip(model.predict(texts, search=model.config.decoding.replace(beam=1)), found):
        symbols = prediction.tokens[: len(prediction.tokens) - (prediction.stop_reason == "eos")]
        assert result.hypotheses[0][:7] == symbols
        if prediction.stop_reason == "eos":
            assert result.scores[0] == pytest.approx(prediction.log_probability, abs=1e-4)
        for row, weights in zip(result.attention[0], prediction.alignment[: len(symbols), :-1]):
            np.testing.assert_allclose(row, weights, atol=1e-4)


CONVERTED = {
    "opennmt": ("transformer.pt", "transformer_concat.pt"),
    "eole": ("transformer", "transformer_learned"),
    "joeynmt": ("transformer", "transformer_bare", "transformer_post"),
    "marian": ("shared", "separate"),
}
"""Transformers of other programs, trained or drawn, of which CTranslate2 has every part."""


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in CONVERTED.items() for name in names])
def test_converted_transformers_say_the_same_in_ctranslate2(tmp_path, kind, name):
    needs("ctranslate2")
    import ctranslate2

    golden = Path(__file__).parent / "golden" / f"{kind}_models"
    convert(kind, golden / name, tmp_path / "model")
    assert run(["export", str(tmp_path / "model"), "--format", "ctranslate2", "--output", str(tmp_path / "out")]) == 0
    model = load(tmp_path / "model", device="cpu")
    assert model.config.model.decoder.specials == "forbidden"
    sources = json.loads((golden / "said.json").read_text(encoding="utf-8"))[Path(name).stem]["sources"]
    translator = ctranslate2.Translator(str(tmp_path / "out"), compute_type="float32", intra_threads=1)
    found = translator.translate_batch(
        [model.source.split(text) for text in sources],
        beam_size=1,
        min_decoding_length=model.config.decoding.min_length,
        max_decoding_length=8,
    )
    search = model.config.decoding.replace(beam=1, max_length=8)
    for prediction, result in zip(model.predict(sources, search=search), found, strict=True):
        symbols = prediction.tokens[: len(prediction.tokens) - (prediction.stop_reason == "eos")]
        assert result.hypotheses[0] == symbols


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (RECURRENT, r"model\.encoder\.architecture: recurrent"),
        (
            {**TRANSFORMER, "encoder": {**SIDE, "positions": "rotary"}},
            r"model\.encoder\.self_attention: RotaryDotScore",
        ),
        ({**TRANSFORMER, "attention": {"recipe": "bahdanau"}}, r"model\.attention: Projected|AdditiveScore"),
        ({**TRANSFORMER, "decoder": {**SIDE, "norm_epsilon": 1e-3}}, r"model\.decoder\.norm_epsilon: 0\.001"),
        ({**TRANSFORMER, "decoder": {**SIDE, "key_value_heads": 1}}, r"model\.decoder\.key_value_heads: 1"),
        ({**TRANSFORMER, "decoder": {**SIDE, "layers": 2, "refinement": {}}}, r"model\.decoder\.refinement"),
    ],
)
def test_what_ctranslate2_lacks_is_refused_by_name(tmp_path, model, message):
    needs("ctranslate2")
    with pytest.raises(UnsupportedError, match=message):
        export_model(untrained(model), tmp_path / "out", format="ctranslate2")
    assert not (tmp_path / "out").exists()


def test_the_program_of_the_package_is_the_one_in_a_folder(exported):
    import regard.interop.export.decode as program

    assert Path(program.__file__).read_bytes() == (exported[1] / "decode.py").read_bytes()
