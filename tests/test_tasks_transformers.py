"""Transformers of text to text, from the configuration to predictions, and parts of different kinds."""

from __future__ import annotations

import inspect
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import laws
from regard.attention import RECIPES, Mechanism, Projected, multi_head
from regard.config import load as read_config
from regard.data.text import synthetic
from regard.errors import ConfigError
from regard.interop.annotated_transformer import AnnotatedLayerNorm
from regard.layers import FeedForward, items
from regard.losses import cross_entropy
from regard.models import EncoderDecoder, RecurrentDecoder, TransformerDecoder, TransformerEncoder
from regard.tasks import explain, load, train
from regard.tasks.text_generation.trainee import smoothing_over_all
from regard.tasks.text_to_text.architectures import build_model
from regard.tasks.text_to_text.config import RecurrentConfig, TextToTextConfig, TransformerConfig
from regard.tasks.text_to_text.defaults import resolve
from regard.tasks.text_to_text.task import TextToTextTask
from regard.training.schedule import Schedule

N = 8
SMALL: dict[str, Any] = {"size": 8, "layers": 2, "heads": 2, "dropout": 0.0}
RECURRENT: dict[str, Any] = {"architecture": "recurrent", "size": 6, "embedding_size": 5, "dropout": 0.0}
SOURCES = [torch.tensor(ids) for ids in ([3, 4, 5, 1, 2, 6], [5, 3], [4, 4, 1, 6])]
QUERIED = sorted(name for name, recipe in RECIPES.items() if "query_size" in inspect.signature(recipe).parameters)
POSITIONS = (
    *(
        "sinusoidal",
        "half_sinusoidal",
        "blocked_sinusoidal",
        "scaled_sinusoidal",
        "learned",
        "rotary",
        "linear_bias",
        "buckets",
        "relative",
        "transformer_xl",
    ),
    None,
)


def config(encoder: Any = None, decoder: Any = None, **further: Any) -> TransformerConfig:
    sides = (given if "architecture" in given else SMALL | given for given in (encoder or {}, decoder or {}))
    return TransformerConfig(**dict(zip(("encoder", "decoder"), sides, strict=True)), **further)


def both(**options: Any) -> TransformerConfig:
    return config(options, options)


def built(model: TransformerConfig | RecurrentConfig) -> EncoderDecoder:
    """The model in float64, with weights large enough that every one is seen, in evaluation."""
    torch.manual_seed(0)
    module = build_model(model, num_source=N, num_target=N, max_length=80).double().eval()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if "table" not in name:
                parameter.add_(torch.randn_like(parameter) * 0.3)
    return module


def encoding(module: EncoderDecoder) -> laws.Encode:
    return lambda sources, extra=0: module.encoder.encode(*laws.padded(sources, extra, fill=3))


def keeps_the_laws(module: EncoderDecoder) -> None:
    encode = encoding(module)
    with torch.no_grad():
        memory = module.decoder.prepare(encode(SOURCES))
        laws.steps_are_forward(module.decoder, memory, torch.randint(3, N, (3, 5)))
    laws.batches_are_invisible(module, encode, module.decoder, SOURCES)


def outputs(module: EncoderDecoder) -> torch.Tensor:
    ids, mask = laws.padded(SOURCES)
    said = module(ids, torch.full((3, 4), 5), mask=mask).log_probabilities
    assert said is not None
    return said.masked_fill(said == -math.inf, 0).detach()


@pytest.mark.parametrize("positions", POSITIONS)
def test_any_positions_keep_the_laws(positions: str | None) -> None:
    keeps_the_laws(built(both(positions=positions)))


OPTIONS: dict[str, Any] = {
    "norm": "post",
    "norm_epsilon": 0.1,
    "final_norm": False,
    "scaled_embeddings": False,
    "activation": "gelu",
    "key_value_heads": 1,
    "query_key_norm": True,
    "projection_bias": True,
    "feed_forward_size": 12,
    "like": "annotated_transformer",
    "initialisation": "xavier",
}
ALTERNATIVES = {"activation": ["silu", "swiglu"], "initialisation": ["small", "depth_scaled"]}


@pytest.mark.parametrize("key", OPTIONS)
def test_an_option_keeps_the_laws_and_changes_the_outputs(key: str) -> None:
    plain = outputs(built(both()))
    for value in (OPTIONS[key], *ALTERNATIVES.get(key, ())):
        module = built(both(**{key: value}))
        assert not torch.allclose(outputs(module), plain, atol=1e-4)
        keeps_the_laws(module)


def test_parts_are_what_the_options_name() -> None:
    module = built(both(activation="swiglu", norm_epsilon=0.01, feed_forward_size=10))
    layer = module.decoder.layers[0]
    assert type(layer.feed_forward) is FeedForward
    assert layer.feed_forward.activation == "swiglu"
    assert layer.feed_forward.inner.out_features == 10
    assert all(norm.eps == 0.01 for norm in module.modules() if isinstance(norm, nn.LayerNorm))
    x = torch.randn(3, 8, dtype=torch.float64)
    gate, inner, outer = layer.feed_forward.gate, layer.feed_forward.inner, layer.feed_forward.outer
    expected = outer(gate(x) / (1 + (-gate(x)).exp()) * inner(x))
    torch.testing.assert_close(layer.feed_forward(x), expected)
    silu = FeedForward(8, 6, activation="silu").double()
    torch.testing.assert_close(silu(x), silu.outer(silu.inner(x) * silu.inner(x).sigmoid()))
    grouped = built(both(heads=4, key_value_heads=2))
    assert grouped.encoder.layers[0].attention.score.num_key_value_heads == 2
    assert grouped.decoder.layers[1].cross_attention.read.num_key_value_heads == 2


def test_initialisations_are_those_of_their_sources() -> None:
    def weights(kind: str) -> list[torch.Tensor]:
        model = both(size=64, heads=2, layers=4, initialisation=kind)
        module = build_model(model, num_source=N, num_target=N)
        return [layer.attention.score.query_projection.weight for layer in module.encoder.layers]

    torch.manual_seed(0)
    limit = (6 / 128) ** 0.5
    assert 0.97 * limit < weights("xavier")[3].abs().max() < limit
    assert 0.97 * limit / 2 < weights("depth_scaled")[3].abs().max() < limit / 2
    assert weights("small")[0].std().item() == pytest.approx((2 / (5 * 64)) ** 0.5, rel=0.05)
    small = both(size=64, heads=2, feed_forward_size=256, initialisation="small")
    layer = build_model(small, num_source=N, num_target=N).encoder.layers[0]
    for matrix in (layer.feed_forward.inner, layer.feed_forward.outer):  # of D and 4·D features
        assert matrix.weight.std().item() == pytest.approx((2 / (64 + 256)) ** 0.5, rel=0.05)
    assert weights("default")[0].abs().max() < 0.126  # torch's own: 1 / √D


@pytest.mark.parametrize("recipe", QUERIED)
def test_any_recipe_attends_to_the_source(recipe: str) -> None:
    module = built(config(attention={"recipe": recipe}))
    attention = module.decoder.layers[0].cross_attention
    assert type(attention) is (Mechanism if recipe == "multi_head" else Projected)
    if not attention.trains_differently:
        keeps_the_laws(module)


def test_options_of_a_recipe_take_precedence_over_those_of_the_layers() -> None:
    module = built(config(attention={"recipe": "multi_head", "num_heads": 4, "alignment": "entmax15"}))
    assert module.decoder.layers[0].cross_attention.num_heads == 4
    assert module.decoder.layers[0].attention.num_heads == 2
    agent = {"recipe": "forward_attention", "transition_agent": True}
    keeps_the_laws(built(config(attention=agent)))


@pytest.mark.parametrize("recipe", ["bahdanau", "luong", "vinyals", "key_value", "show_attend_tell"])
def test_any_recipe_that_is_not_recurrent_attends_to_its_own_side(recipe: str) -> None:
    module = built(both(self_attention={"recipe": recipe}))
    keeps_the_laws(module)
    ids = torch.randint(3, N, (2, 6))
    changed = ids.clone()
    changed[:, 4:] = 3
    memory = module.prepare(torch.randint(3, N, (2, 5)))
    before, after = (module.decoder(inputs, memory).log_probabilities[:, :4] for inputs in (ids, changed))
    assert torch.equal(before, after)


KINDS = [("recurrent", "transformer"), ("transformer", "recurrent")]


@pytest.mark.parametrize(("encoder", "decoder"), KINDS)
@pytest.mark.parametrize("architecture", [RecurrentConfig, TransformerConfig])
def test_encoder_and_decoder_may_be_of_different_kinds(architecture: Any, encoder: str, decoder: str) -> None:
    sides = {"recurrent": RECURRENT, "transformer": {"architecture": "transformer", **SMALL}}
    module = built(architecture(encoder=sides[encoder], decoder=sides[decoder]))
    assert isinstance(module.encoder, TransformerEncoder) == (encoder == "transformer")
    assert isinstance(module.decoder, TransformerDecoder) == (decoder == "transformer")
    keeps_the_laws(module)


def test_a_recurrent_decoder_begins_with_the_mean_of_a_memory_without_last_states() -> None:
    module = built(config(decoder=RECURRENT))
    assert isinstance(module.decoder, RecurrentDecoder)
    encoded = module.encoder.encode(*laws.padded(SOURCES))
    mean = torch.stack([encoded.memory[row, : len(source)].mean(0) for row, source in enumerate(SOURCES)])
    first = module.decoder.bridge.maps[0](mean).tanh()
    torch.testing.assert_close(module.decoder.prepare(encoded).first_state[0][0], first)


@pytest.mark.parametrize("context", ["mean", "maximum", "learned"])
def test_a_recurrent_decoder_without_attention_gets_a_vector_of_the_memory(context: str) -> None:
    module = built(config(decoder=RECURRENT | {"context": context}, attention=None))
    laws.batches_are_invisible(module, encoding(module), module.decoder, SOURCES)


def test_shared_embeddings_are_one_matrix() -> None:
    tied = config({}, {"tied_weights": True}, shared_embeddings=True)
    module = build_model(tied, num_source=N, num_target=N)
    table = module.encoder.embedding.embedding.table.weight
    assert module.decoder.embedding.embedding.table.weight is table
    assert module.decoder.head.projection.weight is table
    with pytest.raises(ConfigError, match="of the encoder has 8 symbols, that of the decoder 9"):
        build_model(tied, num_source=N, num_target=N + 1)


REFUSED = [
    (config({"size": 9}), ("model", "encoder", "size"), "multiple of heads"),
    (both(heads=4, key_value_heads=3), ("model", "encoder", "key_value_heads"), "must divide heads"),
    (config(None, {"size": 6, "positions": "rotary"}), ("model", "decoder", "size"), "must be even"),
    (both(max_positions=9), ("model", "encoder", "max_positions"), "no effect"),
    (config(None, {"positions": "learned", "max_positions": 9}), ("model", "decoder", "max_positions"), "at least 21"),
    (
        config({"self_attention": {"recipe": "monotonic"}}),
        ("model", "encoder", "self_attention", "recipe"),
        "recurrent",
    ),
    (
        both(positions="rotary", self_attention={"recipe": "bahdanau"}),
        ("model", "encoder", "positions"),
        "an option of multi_head",
    ),
    (
        config({"self_attention": {"recipe": "bahdanau"}, "query_key_norm": True}),
        ("model", "encoder", "query_key_norm"),
        "an option of multi_head",
    ),
    (both(positions="relative", query_key_norm=True), ("model", "encoder", "query_key_norm"), "vectors of offsets"),
    (config(attention=None), ("model", "attention"), "in every layer"),
    (config(decoder=RECURRENT, attention=None), ("model", "decoder", "context"), "set mean, maximum"),
    (config(decoder=RECURRENT | {"bridge": "copy"}), ("model", "decoder", "bridge"), "use 'dense'"),
    (config(attention={"recipe": "multi_hed"}), ("model", "attention", "recipe"), "multi_head"),
]


@pytest.mark.parametrize(("model", "path", "words"), REFUSED)
def test_what_cannot_be_built_is_refused_at_its_key(model: Any, path: tuple[str, ...], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        build_model(model, num_source=N, num_target=N, max_length=20)
    assert caught.value.path == path


def drafted(tmp_path: Path, model: Any, data: Any = None, **training: Any) -> None:
    TextToTextTask().draft(TextToTextConfig(data={"train": tmp_path, **(data or {})}, model=model, training=training))


def test_a_draft_refuses_what_would_have_no_effect(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="joint_vocabulary: true") as caught:
        drafted(tmp_path, config(shared_embeddings=True))
    assert caught.value.path == ("model", "shared_embeddings")
    drafted(tmp_path, config(shared_embeddings=True), {"joint_vocabulary": True})
    unequal = config({"size": 8}, {"size": 16}, shared_embeddings=True)
    with pytest.raises(ConfigError, match="of the encoder has 8 features, that of the decoder 16"):
        drafted(tmp_path, unequal, {"joint_vocabulary": True})
    with pytest.raises(ValueError, match=r"differ in vocabulary_size \(30 and null\)"):
        drafted(
            tmp_path,
            config(),
            {"joint_vocabulary": True, "source": {"units": "word", "vocabulary_size": 30}, "target": {"units": "word"}},
        )
    hard = {"recipe": "show_attend_tell", "hard": True}
    with pytest.raises(ConfigError, match="would stay random") as caught:
        drafted(tmp_path, config(attention=hard))
    assert caught.value.path == ("model", "attention")
    with pytest.raises(ConfigError, match="would stay random") as caught:
        drafted(tmp_path, config({"self_attention": hard}))
    assert caught.value.path == ("model", "encoder", "self_attention")
    with pytest.raises(ConfigError, match="a recurrent decoder") as caught:
        drafted(tmp_path, config(attention=hard), reinforce={})
    assert caught.value.path == ("training", "reinforce")
    drafted(tmp_path, config(), alignment_losses={"guided_attention": 1.0})
    drafted(tmp_path, config(pointer={}))
    drafted(tmp_path, config(decoder=RECURRENT, pointer={}))
    with pytest.raises(ConfigError, match="no meaning with a pointer"):
        drafted(tmp_path, config(decoder=RECURRENT, pointer={}), label_smoothing_others=True)


def test_joint_symbols_need_equal_sides(tmp_path: Path) -> None:
    wrong = ({"source": {"case": "lower"}}, "differ in case"), ({"source_field": [0, 1]}, "several columns")
    for data, words in wrong:
        with pytest.raises(ValueError, match=words):
            TextToTextConfig(data={"train": tmp_path, "joint_vocabulary": True, **data})


def test_annotated_layer_norms_have_their_own_formula() -> None:
    module = build_model(both(like="annotated_transformer"), num_source=N, num_target=N)
    assert not any(isinstance(part, nn.LayerNorm) for part in module.modules())
    norm = module.encoder.norm
    assert isinstance(norm, AnnotatedLayerNorm)
    assert norm.epsilon == 1e-6
    x = torch.randn(4, 8)
    torch.testing.assert_close(norm(x), (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-6))
    constant = torch.ones(1, 8, requires_grad=True)
    norm(constant).sum().backward()
    assert constant.grad is not None
    assert constant.grad.isfinite().all()
    table = module.encoder.embedding.embedding.table.weight
    assert table.abs().max() <= (6 / (N + 8)) ** 0.5
    assert not table[0].any()
    assert module.encoder.layers[0].attention.score.query_projection.bias is not None


def test_dropout_of_weights_and_activations_acts_in_training_by_itself() -> None:
    ids, mask = laws.padded(SOURCES)
    inputs = torch.full((3, 4), 5)
    for options in (
        {"attention_dropout": 0.5},
        {"activation_dropout": 0.5},
        {"dropout": 0.5, "activation_dropout": 0.0},
    ):
        module = built(both(**options))
        with torch.no_grad():
            first, second = (module(ids, inputs, mask=mask).log_probabilities for _ in range(2))
            assert torch.equal(first, second)
            module.train()
            first, second = (module(ids, inputs, mask=mask).log_probabilities for _ in range(2))
        assert not torch.equal(first, second)
    dropping = {name: part.p for name, part in module.named_modules() if getattr(part, "p", 0)}
    assert dropping
    assert not any("feed_forward" in name for name in dropping)


def test_masks_of_weights_belong_to_items_and_steps() -> None:
    mechanism = multi_head(query_size=4, memory_size=6, size=4, num_heads=2, dropout=0.5).train()
    numbers = items.sites(mechanism)
    memory, queries = torch.randn(2, 5, 6), torch.randn(2, 3, 4)

    def contexts(rows: list[int], length: int) -> torch.Tensor:
        draws = items.ItemDraws(numbers, torch.tensor([7, 9])[rows], seed=1, step=2)
        with items.drawing(draws):
            prepared = mechanism.prepare(memory[rows, :length])
            state, steps = mechanism.initial_state(prepared), []
            for query in queries[rows].unbind(1):
                attended, state = mechanism.step(query, prepared, state)
                steps.append(attended.context)
        with items.drawing(draws.again()):
            whole = mechanism(queries[rows], prepared)[0].context
        torch.testing.assert_close(whole, torch.stack(steps, 1))
        return whole

    together, alone = contexts([0, 1], 5), contexts([1], 5)
    torch.testing.assert_close(together[1:], alone)
    padded = torch.cat([memory, torch.randn(2, 3, 6)], 1)
    mask = torch.arange(8) < 5
    with items.drawing(items.ItemDraws(numbers, torch.tensor([7, 9]), seed=1, step=2)):
        beside = mechanism(queries, mechanism.prepare(padded, mask=mask.expand(2, 8)))[0].context
    torch.testing.assert_close(beside, together)
    assert not torch.allclose(together, mechanism.eval()(queries, mechanism.prepare(memory))[0].context)


def test_smoothing_over_the_other_symbols_gives_each_of_them_its_share() -> None:
    training = TextToTextConfig(data={"train": Path()}, training={"label_smoothing_others": True}).training
    logp = torch.randn(1, 1, 6).log_softmax(-1)
    share = smoothing_over_all(training, 6)
    loss, _ = cross_entropy(logp, torch.tensor([[2]]), smoothing=share)
    target = torch.full((6,), 0.1 / 5)
    target[2] = 0.9
    torch.testing.assert_close(loss, -(target * logp[0, 0]).sum())
    assert smoothing_over_all(training.model_copy(update={"label_smoothing_others": False}), 6) == 0.1


def test_the_published_schedule_rises_and_falls() -> None:
    data = {"train": Path()}
    training = TextToTextConfig(
        data=data, training={"schedule": "noam", "noam_factor": 2.0, "noam_size": 512, "warmup_steps": 400}
    ).training
    schedule = Schedule(training, total_steps=1000)
    for step in (1, 100, 400, 401, 1000):
        expected = 2 * 512**-0.5 * min(step**-0.5, step * 400**-1.5)
        assert schedule.learning_rate(step) == pytest.approx(expected, rel=1e-12)
    for wrong in ({"schedule": "noam", "learning_rate": 0.1}, {"noam_factor": 2.0}):
        with pytest.raises(ValueError, match="has no effect with schedule"):
            TextToTextConfig(data=data, training=wrong)


def pairs(folder: Path) -> None:
    for name, count, seed in (("train", 60, 1), ("dev", 8, 2)):
        generated = synthetic.generate("reverse", count, max_length=5, num_symbols=5, seed=seed)
        synthetic.write(folder / f"{name}.tsv", generated)


RUN = """
data:
  {train: train.tsv, dev: dev.tsv, source: {units: whitespace}, target: {units: whitespace}, joint_vocabulary: JOINT}
model:
  architecture: transformer
  encoder: ENCODER
  decoder: DECODER
training: {max_steps: 4, validate_every: 2, samples: 1, device: cpu, threads: 1, schedule: SCHEDULE}
"""
SIDE = "{size: 8, layers: 1, heads: 2}"
TRAININGS = {
    "plain": {"ENCODER": SIDE, "DECODER": SIDE, "JOINT": "false", "SCHEDULE": "noam"},
    "learned": {
        "ENCODER": "{size: 8, layers: 1, positions: learned, max_positions: 402}",
        "DECODER": "{size: 8, layers: 1, positions: learned}",
        "JOINT": "true",
        "SCHEDULE": "cosine",
    },
    "mixed": {
        "ENCODER": "{architecture: recurrent, size: 4, embedding_size: 8, layers: 1}",
        "DECODER": SIDE.replace("}", ", tied_weights: true, attention_dropout: 0.2}"),
        "JOINT": "true",
        "SCHEDULE": "plateau",
    },
}


@pytest.mark.parametrize("name", TRAININGS)
def test_a_training_leaves_a_model_with_every_verb(tmp_path: Path, name: str) -> None:
    pairs(tmp_path)
    text = RUN
    for word, value in TRAININGS[name].items():
        text = text.replace(word, value)
    file = tmp_path / "run.yaml"
    shared = TRAININGS[name]["JOINT"] == "true"
    file.write_text(text, encoding="utf-8")
    settings = ["model.shared_embeddings=true"] if shared else []
    train(read_config(file, settings), tmp_path / "run")
    model = load(tmp_path / "run", device="cpu")
    if shared:
        assert model.source.vocabulary.symbols == model.target.vocabulary.symbols
    assert model.config.training.noam_size == (8 if name == "plain" else None)
    alone, beside = model.predict(["0 1 2"]), model.predict(["0 1 2", "3", "4 4 4 4 4 4 4 4"])
    assert alone[0].text == beside[0].text
    assert alone[0].alignment is not None
    assert alone[0].alignment.shape == (len(alone[0].tokens), 4)
    assert model.evaluate(tmp_path / "dev.tsv").metrics["items"] == 8
    model.plot(alone, tmp_path / "a.png")
    assert (tmp_path / "a.png").exists()
    assert "a search takes a step" in explain(model)
    assert model.information()["model"]["decoder"]["architecture"] == "transformer"


def test_texts_beyond_learned_positions_are_refused_and_outputs_end_there(tmp_path: Path) -> None:
    pairs(tmp_path)
    text = RUN
    for word, value in TRAININGS["learned"].items():
        text = text.replace(word, value.replace("402", "12"))
    file = tmp_path / "run.yaml"
    file.write_text(text, encoding="utf-8")
    train(read_config(file, ["data.max_length=9"]), tmp_path / "run")
    model = load(tmp_path / "run", device="cpu")
    longest, longer = " ".join("1" * 11), " ".join("1" * 12)
    fits, refused = model.predict([longest, longer], search=model.config.decoding.replace(min_length=9))
    assert fits.text
    assert len(fits.tokens) <= 10
    assert not refused.text
    assert "at most 11" in refused.warnings[0]


@pytest.mark.parametrize(
    ("units", "size", "layers", "dropout", "medium", "medium_layers"),
    [("character", 128, 2, 0.15, 60_000, 3), ("sentencepiece", 128, 4, 0.4, 150_000, 4)],
)
def test_sizes_and_steps_of_transformers_follow_from_the_data(
    units: str, size: int, layers: int, dropout: float, medium: int, medium_layers: int
) -> None:
    def plan(count: int, **model: Any) -> Any:
        data = {"train": Path(), "target": {"units": units}}
        given = TextToTextConfig(data=data, model={"architecture": "transformer", **model})
        return resolve(given, np.full(count, 8), np.full(count, 8))

    small, middle, large = (plan(count).config for count in (3_600, medium, 500_000))
    for side in (small.model.encoder, small.model.decoder):
        assert (side.size, side.layers, side.dropout) == (size, layers, dropout)
    assert (middle.model.encoder.size, middle.model.decoder.layers) == (256, medium_layers)
    assert (large.model.encoder.size, large.model.decoder.layers) == (512, 6)
    rates = [each.training.learning_rate for each in (small, middle, large)]
    assert rates == sorted(rates, reverse=True)
    assert len({*rates}) == 3
    assert plan(200).config.training.batch_tokens >= 150
    assert plan(200).steps >= 2_300
    heads = plan(3_600, encoder={"heads": 6}).config.model.encoder
    assert heads.size % 12 == 0
    given = plan(3_600, decoder={"size": 64, "layers": 1}).config.model.decoder
    assert (given.size, given.layers) == (64, 1)
