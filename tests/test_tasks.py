"""Text to text: building, predicting, evaluating, saving, refusing."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.attention import RECIPES
from regard.config import Configuration
from regard.config import load as read_config
from regard.config.schema import AttentionConfig
from regard.data.text import Field, synthetic
from regard.decoding import Search
from regard.errors import ConfigError, DataError, RegardError
from regard.runs.store import save
from regard.tasks import TextToText, catalogue, describe, explain, load, train
from regard.tasks.build import build_mechanism
from regard.tasks.decoder_losses import forced_outputs
from regard.tasks.encoded import pad
from regard.tasks.learnable import check_learnable
from regard.tasks.text_to_text.architectures import build_model
from regard.tasks.text_to_text.config import RecurrentConfig, TextToTextConfig
from regard.tasks.text_to_text.reading import read_pairs

SMALL = {
    "encoder": {"size": 8, "embedding_size": 6, "dropout": 0.0},
    "decoder": {"size": 10, "embedding_size": 6, "dropout": 0.0},
    "attention": {"recipe": "bahdanau", "size": 8},
}


def small(model: dict | None = None, **sections: object) -> TextToTextConfig:
    return TextToTextConfig(data={"train": "pairs.tsv"}, model={**SMALL, **(model or {})}, **sections)


def untrained(config: TextToTextConfig | None = None, texts: str = "abcdef") -> TextToText:
    torch.manual_seed(0)
    config = config or small()
    source = Field.build(config.data.source, [texts], name="source")
    target = Field.build(config.data.target, [texts], name="target")
    return TextToText.build(config, source, target)


def test_a_prediction_does_not_depend_on_its_batch() -> None:
    model = untrained()
    texts = ["abc", "f", "fedcba", "aab", "cc"]
    together = model.predict(texts, search=Search(beam=3))
    small_batches = model.predict(texts, search=model.config.decoding.replace(beam=3, batch_tokens=1))
    for text, one, other in zip(texts, together, small_batches, strict=True):
        alone = model.predict([text], search=Search(beam=3))[0]
        assert alone.tokens == one.tokens == other.tokens
        assert alone.score == pytest.approx(one.score, abs=1e-5)
        torch.testing.assert_close(alone.alignment, one.alignment, atol=1e-5, rtol=0)


def test_greedy_outputs_need_no_more_memory_for_their_sources_than_four_hypotheses() -> None:
    model = untrained()
    sources = model.sources(["abcd"] * 40)
    sizes = [
        [len(batch) for batch in model.batches(sources, model.config.decoding.replace(beam=beam, batch_tokens=100))]
        for beam in (1, 4, 5)
    ]
    assert sizes == [[5] * 8, [5] * 8, [4] * 10]


def test_rows_and_columns_of_an_alignment_have_their_tokens() -> None:
    model = untrained()
    prediction = model.predict(["abc"], search=model.config.decoding.replace(beam=2, max_length=5))[0]
    assert prediction.source_tokens == ["a", "b", "c", "</s>"]
    assert prediction.alignment.shape == (len(prediction.tokens), 4)
    assert prediction.alignments["attention"].shape == (1, len(prediction.tokens), 4)
    assert (prediction.tokens[-1] == "</s>") == (prediction.stop_reason == "eos")
    assert "</s>" not in prediction.text


def test_inputs_that_cannot_be_handled_warn_and_harm_nobody() -> None:
    model = untrained()
    good, empty, strange = model.predict(["abc", "  ", "a?c"], search=Search(beam=1))
    assert good.warnings == ()
    assert good.tokens == model.predict(["abc"], search=Search(beam=1))[0].tokens
    assert (empty.text, empty.warnings) == ("", ("the input is empty",))
    assert "'?'" in strange.warnings[0]
    with pytest.raises(DataError, match=r"input 2 .*the input is empty"):
        model.predict(["abc", "  "], strict=True)


def test_an_input_longer_than_all_of_training_has_a_warning(tmp_path: Path) -> None:
    lines = ["ab\tb", "abcdefg\t", "abcd\tabc", "abcde\tabcde", f"ba{'c' * 40}\tab", f"c\t{'c' * 40}"]
    (tmp_path / "pairs.tsv").write_text("".join(f"{line}\n" for line in lines))
    (tmp_path / "dev.tsv").write_text(f"{'c' * 20}\tb\n")
    data = {"train": tmp_path / "pairs.tsv", "dev": tmp_path / "dev.tsv", "max_length": 30}
    config = TextToTextConfig(data=data, model=SMALL)
    material = read_pairs(config.data)
    assert (material.source.longest, material.target.longest) == (5, 5)
    save(TextToText.build(config, material.source, material.target), tmp_path / "model")
    model = load(tmp_path / "model")
    as_long, longer = model.predict(["ccccc", "cccccc"], search=Search(beam=1))
    assert as_long.warnings == ()
    assert longer.warnings == ("6 symbols, but training had at most 5",)
    assert model.align([("ab", "cccccc")])[0].warnings == ("6 symbols of the output, but training had at most 5",)
    assert model.source.extended(replace(model.source, longest=3)).longest == 5
    assert model.source.extended(replace(model.source, longest=None)).longest is None


def test_joint_vocabularies_know_the_longest_text_of_both_sides(tmp_path: Path) -> None:
    (tmp_path / "pairs.tsv").write_text("ab\tbcdef\n" * 3)
    data = {"train": tmp_path / "pairs.tsv", "dev": tmp_path / "pairs.tsv", "joint_vocabulary": True}
    material = read_pairs(TextToTextConfig(data=data, model=SMALL).data)
    assert material.source is material.target
    assert material.source.longest == 5


def test_one_text_instead_of_a_list_is_an_error_that_shows_the_right_call() -> None:
    with pytest.raises(TypeError, match=r"predict\(\[text\]\)"):
        untrained().predict("abc")


def test_normalisation_belongs_to_the_model() -> None:
    config = TextToTextConfig(data={"train": "x", "source": {"case": "upper"}}, model=SMALL)
    model = untrained(config, "ABC")
    lower, upper = model.predict(["abc", "ABC"], search=Search(beam=1))
    assert lower.tokens == upper.tokens
    assert lower.warnings == ()


def test_alternatives_are_ranked_and_distinct() -> None:
    best = untrained().predict(["abc"], search=Search(beam=4, num_best=3))[0]
    assert len(best.alternatives) == 2
    scores = [best.score, *(other.score for other in best.alternatives)]
    assert scores == sorted(scores, reverse=True)
    assert len({tuple(one.tokens) for one in (best, *best.alternatives)}) == 3


def test_repeated_inputs_of_an_evaluation_are_references_of_one_item(tmp_path: Path) -> None:
    model = untrained()
    search = model.config.decoding.replace(beam=1, max_length=4)
    said = model.predict(["abc"], search=search)[0].text
    file = tmp_path / "held_out.tsv"
    file.write_text(f"abc\tf f f f f f\nabc\t{said}\nff\tno such output\n", encoding="utf-8")
    evaluation = model.evaluate(file, search=search)
    assert evaluation.metrics["items"] == 2
    assert evaluation.metrics["sequence_error_rate"] == 0.5
    assert [one.item.source for one in evaluation.worst] == ["ff"]
    assert "2 items" in str(evaluation)


def test_figures_on_training_data_are_refused(tmp_path: Path) -> None:
    run = trained(tmp_path)
    with pytest.raises(DataError, match="was trained on this file"):
        load(run).evaluate(tmp_path / "pairs.tsv")


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("tied", [False, True])
def test_a_saved_model_predicts_the_same(tmp_path: Path, half: bool, tied: bool) -> None:
    decoder = {"size": 10, "embedding_size": 6, "dropout": 0.0, "tied_weights": tied}
    model = untrained(small({"decoder": decoder}))
    save(model, tmp_path / "model", half=half)
    again = load(tmp_path / "model")
    assert again.module.training is False
    before, after = model.predict(["abc"], search=Search(beam=2))[0], again.predict(["abc"], search=Search(beam=2))[0]
    assert before.score == pytest.approx(after.score, abs=1e-2 if half else 0.0)
    if not half:
        assert before.tokens == after.tokens
        for name, tensor in model.module.state_dict().items():
            assert torch.equal(tensor, again.module.state_dict()[name])


def test_a_folder_that_is_no_model_is_refused_with_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(RegardError, match="no shipped model 'nonesuch'"):
        load("nonesuch")
    with pytest.raises(RegardError, match=r"has no model\.safetensors"):
        load(tmp_path)


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    save(untrained(), tmp_path / "one")
    save(untrained(small({"attention": {"recipe": "luong"}})), tmp_path / "other")
    (tmp_path / "one" / "model.safetensors").write_bytes((tmp_path / "other" / "model.safetensors").read_bytes())
    with pytest.raises(DataError, match=r"model\.attention\.recipe: saved with 'luong', now 'bahdanau'"):
        load(tmp_path / "one")


@pytest.mark.parametrize(
    ("attention", "message"),
    [
        ({"recipe": "bahdanu"}, "did you mean 'bahdanau'"),
        ({"recipe": "bahdanau", "sise": 3}, "did you mean 'size'"),
        ({"recipe": "bahdanau", "size": "large"}, "is not a value of this option"),
        ({"recipe": "bahdanau", "size": True}, "is not a value of this option"),
        ({"recipe": "bahdanau", "size": "16"}, "is not a value of this option"),
        ({"recipe": "bahdanau", "size": 0}, "size=0 must be 1 or more"),
        ({"recipe": "bahdanau", "num_heads": -1}, "num_heads=-1 must be 1 or more"),
        ({"recipe": "bahdanau", "sharpening": float("inf")}, "sharpening=inf must be finite"),
        ({"recipe": "luong", "local": "monotonic", "reach": -1}, "reach=-1 must be 0 or more"),
        ({"recipe": "bahdanau", "alignment": "sparcemax"}, "did you mean 'sparsemax'"),
        ({"recipe": "key_value", "key_size": 3}, "no option 'key_size'"),
        ({"recipe": "bahdanau", "size": 5, "num_heads": 2}, "multiple of num_heads"),
        ({"recipe": "luong", "score": "dot"}, "must be equal"),
        ({"recipe": "bahdanau", "window": 3}, "no option 'window'"),
        ({"recipe": "self_pooling"}, "takes no query.* it can use bahdanau, "),
        ({"recipe": "self_attention"}, "no query"),
        ({"recipe": "key_value_predict"}, "no query"),
    ],
)
def test_a_wrong_attention_is_refused_with_its_place(attention: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        build_mechanism(AttentionConfig(**attention), query_size=10, memory_size=16, input_size=6)
    assert caught.value.path[:2] == ("model", "attention")


@pytest.mark.parametrize(
    ("model", "key"),
    [
        ({"attention": None, "decoder": {"input_feeding": True}}, "input_feeding"),
        ({"attention": None, "decoder": {"order": "attend_then_recur"}}, "order"),
        ({"decoder": {"order": "attend_then_recur", "input_feeding": False}}, "input_feeding"),
        ({"attention": None, "decoder": {"query": "state"}}, "query"),
        ({"decoder": {"context": "mean"}}, "context"),
        ({"decoder": {"context_use": "every_step"}}, "context_use"),
        ({"decoder": {"bridge": "copy", "size": 7}}, "bridge"),
        ({"attention": None, "decoder": {"bridge": "copy", "context": "mean"}}, "bridge"),
    ],
)
def test_settings_that_would_be_ignored_are_refused(model: dict, key: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build_model(RecurrentConfig.model_validate(model, context=frozenset()), num_source=5, num_target=5)
    assert caught.value.path == ("model", "decoder", key)


HARD = [
    {"recipe": "show_attend_tell", "hard": True},
    {"recipe": "monotonic", "hard": "always"},
]
SOFT = [
    {"recipe": "bahdanau", "alignment": "hardmax"},
    {"recipe": "show_attend_tell", "hard": True, "mix": 0.1},
    {"recipe": "monotonic", "hard": "evaluation"},
    *({"recipe": name} for name, recipe in RECIPES.items() if "query_size" in inspect.signature(recipe).parameters),
]


@pytest.mark.parametrize(("attention", "learns"), [*((one, False) for one in HARD), *((one, True) for one in SOFT)])
def test_a_choice_that_cross_entropy_cannot_teach_is_refused(attention: dict, learns: bool) -> None:
    config = RecurrentConfig(**{"encoder": {"size": 8}, "decoder": {"size": 8}, "attention": attention})
    model = build_model(config, num_source=5, num_target=5)
    before = torch.random.get_rng_state()
    if learns:
        check_learnable(model.decoder, config.attention, memory_size=16)
    else:
        with pytest.raises(ConfigError, match="would stay random") as caught:
            check_learnable(model.decoder, config.attention, memory_size=16)
        assert caught.value.path == ("model", "attention")
    assert model.training
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_float16_with_an_lstm_on_a_cpu_is_refused_before_any_data_is_read(tmp_path: Path) -> None:
    for cell in ("lstm", "gru"):
        model = {"encoder": {"size": 8, "cell": cell}, "decoder": {"size": 8, "cell": cell}}
        options = {"precision": "float16", "device": "cpu"}
        config = TextToTextConfig(data={"train": tmp_path / "missing.tsv"}, model=model, training=options)
        reason = (
            "an LSTM cannot be trained in float16 on a CPU.*bfloat16 or float32" if cell == "lstm" else "missing.tsv"
        )
        with pytest.raises((ConfigError, DataError), match=reason) as caught:
            train(Configuration(config, origin="test.yaml"), tmp_path / cell)
        assert cell == "gru" or caught.value.path == ("training", "precision")


@pytest.mark.parametrize(("cell", "width"), [("lstm", 40), ("gru", 20)])
def test_a_decoder_may_ask_with_the_states_of_all_its_layers(cell: str, width: int) -> None:
    decoder = {"query": "state", "cell": cell, "size": 10, "layers": 2}
    config = RecurrentConfig(**{"attention": {"recipe": "vinyals", "size": 4}, "decoder": decoder})
    built = build_model(config, num_source=5, num_target=5).decoder
    assert built.query == "state"
    assert built.attention.score.query_projection.in_features == width


@pytest.mark.parametrize("order", ["recur_then_attend", "attend_then_recur"])
def test_feeding_the_reference_everywhere_is_the_forward_pass(order: str) -> None:
    config = small({"decoder": {"size": 10, "embedding_size": 6, "dropout": 0.0, "order": order}})
    module = untrained(config).module
    source, mask = pad([np.array([4, 5, 6]), np.array([7])], end=2)
    inputs, _ = pad([np.array([4, 5]), np.array([6, 4])], begin=1)
    memory = module.prepare(source, mask)
    own = torch.zeros(2, 3, dtype=torch.bool)
    forced = forced_outputs(module.decoder, memory, inputs, own).log_probabilities
    own[:, 2] = True
    mixed = forced_outputs(module.decoder, memory, inputs, own).log_probabilities
    assert torch.equal(forced, module.decoder(inputs, memory).log_probabilities)
    torch.testing.assert_close(mixed[:, :2], forced[:, :2])
    fed = torch.cat([inputs[:, :2], forced[:, 1].argmax(-1, keepdim=True)], 1)
    torch.testing.assert_close(mixed, module.decoder(fed, memory).log_probabilities)


def trained(folder: Path, **training: object) -> Path:
    """A run of two epochs on a few pairs, with a validation each."""
    if not (folder / "pairs.tsv").exists():
        synthetic.write(folder / "pairs.tsv", synthetic.generate("reverse", 60, max_length=5, num_symbols=5, seed=1))
        synthetic.write(folder / "dev.tsv", synthetic.generate("reverse", 10, max_length=5, num_symbols=5, seed=2))
    train(configuration(folder, **training), folder / "run")
    return folder / "run"


def configuration(folder: Path, *, model: dict = SMALL, **training: object) -> Configuration:
    side = {"units": "whitespace"}
    data = {"train": folder / "pairs.tsv", "dev": folder / "dev.tsv", "source": side, "target": side}
    options = {"epochs": 2, "batch_tokens": 64, "device": "cpu", "samples": 1, "threads": 1, "validate_every": None}
    return Configuration(TextToTextConfig(data=data, model=model, training={**options, **training}), origin="test.yaml")


@pytest.mark.parametrize("recipe", ["location_sensitive", "coverage", "forward_attention"])
def test_mechanisms_that_remember_are_trained_in_bfloat16(tmp_path: Path, recipe: str) -> None:
    trained(tmp_path, epochs=1, precision="bfloat16", model={**SMALL, "attention": {"recipe": recipe, "size": 8}})
    assert load(tmp_path / "run").predict(["0 1 2"], search=Search(beam=2))[0].alignment is not None


@pytest.mark.parametrize(
    "training",
    [{"scheduled_sampling": 0.5}, {"sequence_teacher_forcing": 0.5}, {"average_checkpoints": 2, "accumulation": 2}],
)
def test_training_leaves_a_model_that_predicts(tmp_path: Path, training: dict) -> None:
    run = trained(tmp_path, **training)
    model = load(run)
    assert model.predict(["0 1 2"])[0].alignment.shape[1] == 4
    assert (run / "config.yaml").exists()
    assert (run / "metrics.jsonl").exists()
    assert list(run.glob("pictures/*/*.png"))


def test_a_recipe_that_sees_what_the_decoder_is_fed_is_told_its_size(tmp_path: Path) -> None:
    trained(tmp_path)
    text = (
        "data: {train: pairs.tsv, dev: dev.tsv, source: {units: whitespace}, target: {units: whitespace}}\n"
        "model:\n"
        "  encoder: {size: 8, embedding_size: 6}\n"
        "  decoder: {size: 10, embedding_size: 7}\n"
        "  attention: {recipe: forward_attention, transition_agent: true, size: 8, num_heads: 2}\n"
        "training: {epochs: 1, batch_tokens: 64, device: cpu, samples: 1, threads: 1}\n"
    )
    (tmp_path / "run.yaml").write_text(text, encoding="utf-8")
    assert train(read_config(tmp_path / "run.yaml"), tmp_path / "forward").steps > 0
    model = load(tmp_path / "forward")
    assert model.module.decoder.attention.alignment.agent.input_size == 7
    assert model.predict(["0 1 2"], search=Search(beam=2))[0].alignments["attention"].shape[0] == 2


def test_a_finished_run_says_so_and_changes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = trained(tmp_path)
    weights = (run / "model.safetensors").read_bytes()
    capsys.readouterr()
    assert train(configuration(tmp_path), run).stop_reason == "epochs"
    assert "finished" in capsys.readouterr().err
    assert (run / "model.safetensors").read_bytes() == weights


def test_a_run_is_not_continued_on_changed_data(tmp_path: Path) -> None:
    run = trained(tmp_path)
    (run / "outcome.json").unlink()
    with (tmp_path / "pairs.tsv").open("a", encoding="utf-8") as file:
        file.write("0 1\t1 0\n")
    with pytest.raises(DataError, match=r"the data changed since the run began: data\.train"):
        train(configuration(tmp_path), run)


def test_a_used_folder_is_refused_with_the_keys_that_differ(tmp_path: Path) -> None:
    run = trained(tmp_path)
    other = configuration(tmp_path, learning_rate=0.5)
    with pytest.raises(ConfigError, match=r"training\.learning_rate: 0\.002 → 0\.5"):
        train(other, run)
    data = other.config.data.model_copy(update={"dev": tmp_path / "dve.tsv"})
    with pytest.raises(DataError, match=r"no such file\. Did you mean .*dev\.tsv"):
        train(replace(other, config=other.config.model_copy(update={"data": data})), run)
    (run / "mine.txt").write_text("kept", encoding="utf-8")
    assert train(other, run, overwrite=True).stop_reason == "epochs"
    assert (run / "mine.txt").read_text(encoding="utf-8") == "kept"
    strange = tmp_path / "strange"
    strange.mkdir()
    (strange / "thesis.txt").write_text("dear", encoding="utf-8")
    with pytest.raises(ConfigError, match="has files but no run"):
        train(other, strange)


def test_an_unknown_metric_is_named_with_its_place(tmp_path: Path) -> None:
    trained(tmp_path)
    before = configuration(tmp_path)
    wrong = replace(before, config=before.config.model_copy(update={"select": "were"}))
    with pytest.raises(ConfigError, match=r"select: there is no metric 'were'; did you mean 'wer'"):
        train(wrong, tmp_path / "other")


def test_an_autoencoder_is_trained_on_inputs_alone(tmp_path: Path) -> None:
    (tmp_path / "words.tsv").write_text("".join(f"{a}{b}\n" for a in "abcde" for b in "abcde"), encoding="utf-8")
    config = TextToTextConfig(
        data={"train": tmp_path / "words.tsv", "autoencode": True, "dev_fraction": 0.2},
        model={**SMALL, "attention": None},
        training={"epochs": 1, "device": "cpu", "threads": 1},
    )
    assert train(Configuration(config), tmp_path / "run").steps > 0
    prediction = load(tmp_path / "run").predict(["ab"])[0]
    assert prediction.alignment is None
    assert prediction.alignments == {}


def test_the_catalogue_and_the_explanation_name_what_there_is() -> None:
    kinds = {kind for kind, _, _ in catalogue()}
    assert {"recipe", "preset", "task"} <= kinds
    assert all(line for _, _, line in catalogue())
    assert "additive_energies" in explain()
    name, *lines = explain(untrained()).splitlines()
    assert name == "model"
    assert any("additive_energies by triton" in line for line in lines)


def test_the_explanation_says_why_a_search_goes_layer_by_layer() -> None:
    side = {"size": 8, "layers": 1, "heads": 2}
    model = untrained(
        TextToTextConfig(
            data={"train": "/a.tsv"},
            model={"architecture": "transformer", "encoder": dict(side), "decoder": dict(side)},
        )
    )
    assert "a search takes a step in one operation" in explain(model)
    model.module.decoder.layers[0].register_forward_hook(lambda *_: None)
    assert "a search takes a step layer by layer: " in explain(model)


def test_the_public_names_of_the_package_are_there() -> None:
    for name in regard.__all__:
        assert getattr(regard, name) is not None
    assert regard.load is load
    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        _ = regard.lod


def test_everything_in_the_catalogue_but_models_and_tasks_is_described() -> None:
    for kind, name, line in catalogue():
        if kind in ("model", "task"):
            continue
        text = describe(name)
        assert text is not None
        assert text.startswith(f"{kind} {name}")
        assert line in text
    assert describe("bahdana") is None
    text = describe("bahdanau") or ""
    assert "size=256" in text
    assert "@inproceedings{bahdanau2015" in text
