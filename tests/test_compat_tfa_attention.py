"""What tensorflow-addons' attention can do, and what regard.interop.tfa can do in its place."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from torch import nn

from regard import record_attention, tree
from regard.attention import luong
from regard.errors import ConfigError, DataError, RegardError, ShapeError, UnsupportedError
from regard.interop import tfa

MECHANISMS = {
    "luong": lambda **options: tfa.LuongAttention(4, **options),
    "luong scaled": lambda **options: tfa.LuongAttention(4, scale=True, **options),
    "bahdanau": lambda **options: tfa.BahdanauAttention(5, **options),
    "bahdanau normalised": lambda **options: tfa.BahdanauAttention(5, normalize=True, **options),
    "luong monotonic": lambda **options: tfa.LuongMonotonicAttention(4, **options),
    "bahdanau monotonic": lambda **options: tfa.BahdanauMonotonicAttention(5, normalize=True, **options),
}
EVERY = pytest.mark.parametrize("name", MECHANISMS)


def source(batch=3, positions=6, size=7, seed=0):
    return torch.randn(batch, positions, size, generator=torch.Generator().manual_seed(seed))


LENGTHS = torch.tensor([6, 4, 1])
QUERY = source(3, 4)[:, 0, :4]


def alignments_of(mechanism, query=QUERY):
    return mechanism([query, mechanism.initial_state(len(query))])[0]


# --- the mechanism


@EVERY
def test_a_configuration_makes_a_mechanism_of_the_same_options(name):
    made = MECHANISMS[name](memory=source().double(), memory_sequence_length=LENGTHS, dtype="float64", name="mine")
    config = made.get_config()
    again = type(made).from_config(config)
    assert config["memory"] is None
    assert again.get_config() == config
    assert (again.name, again.dtype, again.memory_initialized) == ("mine", torch.float64, False)


def test_the_options_of_monotonic_attention_are_in_its_configuration():
    options = {"sigmoid_noise": 0.5, "sigmoid_noise_seed": 3, "score_bias_init": -2.0, "mode": "hard"}
    options |= {"normalize": True, "kernel_initializer": "he_normal", "units": 4}
    config = tfa.BahdanauMonotonicAttention(**options).get_config()
    assert {key: config[key] for key in options} == options


@EVERY
def test_a_memory_is_set_up_again_with_another_batch_and_no_new_parameters(name):
    mechanism = MECHANISMS[name](memory=source(), memory_sequence_length=LENGTHS)
    alignments_of(mechanism)
    before = [id(parameter) for parameter in mechanism.parameters()]
    other = source(2, 9, seed=1)
    mechanism.setup_memory(other, memory_sequence_length=[9, 2])
    found = alignments_of(mechanism, QUERY[:2])
    assert (mechanism.batch_size, mechanism.alignments_size, mechanism.state_size) == (2, 9, 9)
    assert found.shape == (2, 9)
    assert not found[1, 2:].any()
    assert [id(parameter) for parameter in mechanism.parameters()] == before
    fresh = MECHANISMS[name](memory=other, memory_sequence_length=[9, 2])
    alignments_of(fresh, QUERY[:2])
    fresh.load_state_dict(mechanism.state_dict())
    torch.testing.assert_close(alignments_of(fresh, QUERY[:2]), found)


@EVERY
def test_the_mask_of_the_batch_before_is_forgotten(name):
    mechanism = MECHANISMS[name](memory=source(), memory_sequence_length=LENGTHS)
    alignments_of(mechanism)
    mechanism.setup_memory(source())
    assert bool((alignments_of(mechanism) > 0).all())


@EVERY
def test_lengths_and_the_mask_of_the_same_positions_give_the_same(name):
    mechanism = MECHANISMS[name](memory=source(), memory_sequence_length=LENGTHS)
    by_lengths = alignments_of(mechanism)
    values = mechanism([source(), LENGTHS], setup_memory=True)
    mechanism.setup_memory(source(), memory_mask=torch.arange(6) < LENGTHS[:, None])
    assert torch.equal(alignments_of(mechanism), by_lengths)
    assert torch.equal(mechanism.values, values)
    mechanism(source(), mask=torch.arange(6) < LENGTHS[:, None], setup_memory=True)
    assert torch.equal(alignments_of(mechanism), by_lengths)


def test_lengths_and_a_mask_exclude_each_other():
    with pytest.raises(ShapeError, match="memory_sequence_length or memory_mask, not both"):
        tfa.LuongAttention(4).setup_memory(source(), LENGTHS, torch.ones(3, 6, dtype=torch.bool))


@EVERY
def test_a_query_before_the_memory_is_an_error(name):
    with pytest.raises(ValueError, match="has no memory yet: call setup_memory"):
        MECHANISMS[name]()([QUERY, torch.zeros(3, 6)])


@EVERY
def test_memory_given_later_attends_as_memory_given_at_once(name):
    at_once = MECHANISMS[name](memory=source(), memory_sequence_length=LENGTHS)
    expected = alignments_of(at_once)
    later = MECHANISMS[name]()
    later.load_state_dict(at_once.state_dict())  # before any call: the weights tell the sizes
    later.setup_memory(source(), LENGTHS)
    assert torch.equal(alignments_of(later), expected)


@EVERY
def test_padding_has_a_weight_of_zero_whatever_it_holds_and_keys_of_zero(name):
    memory = source()
    mechanism = MECHANISMS[name](memory=memory, memory_sequence_length=LENGTHS)
    expected = alignments_of(mechanism)
    dirty = memory.masked_fill((torch.arange(6) >= LENGTHS[:, None])[..., None], math.inf)
    mechanism.setup_memory(dirty, LENGTHS)
    assert torch.equal(alignments_of(mechanism), expected)
    assert not expected[2, 1:].any()
    assert not mechanism.values[2, 1:].any()
    assert not mechanism.keys[2, 1:].any()


class OfTwo(tfa.BahdanauAttention):
    """Attends to two encoders' outputs side by side."""

    def _prepare_memory(self, memory, mask):
        return torch.cat([memory["forward"], memory["backward"]], -1)


def test_a_nested_memory_is_joined_by_a_subclass():
    memory = {"forward": source(size=3), "backward": source(size=4, seed=1)}
    nested = OfTwo(5, memory, LENGTHS)
    found = alignments_of(nested)
    plain = tfa.BahdanauAttention(5, torch.cat(list(memory.values()), -1), LENGTHS)
    alignments_of(plain)
    plain.load_state_dict(nested.state_dict())
    assert torch.equal(alignments_of(plain), found)
    with pytest.raises(ShapeError, match="let a subclass join it in _prepare_memory"):
        tfa.BahdanauAttention(5, memory, LENGTHS)


class Dot(tfa.AttentionMechanism):
    """A mechanism of a user's own, over a memory that may be nested."""

    def __init__(self, **options):
        super().__init__(probability_fn=lambda score, state: score.softmax(-1), **options)

    def _calculate_attention(self, query, state):
        score = torch.einsum("rq,rsq->rs", query, self.keys)
        alignments = self.probability_fn(score, state)
        return alignments, alignments


def test_a_mechanism_of_ones_own_masks_and_reads():
    memory = source(size=4)
    mechanism = Dot(memory=memory, memory_sequence_length=LENGTHS)
    house = luong(query_size=4, memory_size=4, score="dot")
    prepared = house.prepare(memory, lengths=LENGTHS)
    attended, _ = house.step(QUERY, prepared, house.initial_state(prepared), alignment=True)
    context, alignments, _ = mechanism.attend(QUERY, mechanism.initial_state(3))
    torch.testing.assert_close(alignments, attended.alignment[:, 0])
    torch.testing.assert_close(context, attended.context)
    wrapper = tfa.AttentionWrapper(tfa.GRUCell(4), mechanism)
    output, _ = wrapper(QUERY, wrapper.zero_state(3, torch.float32))
    assert output.shape == (3, 4)


class OfPair(Dot):
    """Keys and values of different tensors of a nested memory."""

    @property
    def keys(self):
        return self.values[0]


def test_the_padding_of_every_tensor_of_a_nested_memory_is_zeroed():
    mechanism = OfPair(memory=[source(size=4), source(size=2)[..., None]], memory_sequence_length=LENGTHS)
    keys, values = mechanism.values
    assert not keys[2, 1:].any()
    assert not values[2, 1:].any()
    assert alignments_of(mechanism).shape == (3, 6)
    with pytest.raises(UnsupportedError, match="give AttentionWrapper an attention_fn"):
        mechanism.attend(QUERY, mechanism.initial_state(3))


def test_a_memory_has_three_axes_or_more():
    with pytest.raises(ShapeError, match=r"memory must be \(R, S, \.\.\.\), three axes or more.*\n.*R=3, S=6"):
        tfa.LuongAttention(4).setup_memory(source()[..., 0])
    with pytest.raises(ShapeError, match=r"attends to a memory \(R, S, M\)"):
        tfa.LuongAttention(4).setup_memory(source()[..., None])


def test_lengths_are_above_zero():
    with pytest.raises(ShapeError, match="must be above 0; that of row 1 is 0"):
        tfa.LuongAttention(4, source(), [6, 0, 1])


@EVERY
def test_initial_alignments_are_zeros_or_of_a_reader_at_the_first_position(name):
    mechanism = MECHANISMS[name](memory=source(), memory_sequence_length=LENGTHS)
    first = mechanism.initial_alignments(3, "float64")
    expected = torch.zeros(3, 6, dtype=torch.float64)
    if "monotonic" in name:
        expected[:, 0] = 1
    assert torch.equal(first, expected)
    assert torch.equal(mechanism.initial_state(3, torch.float64), expected)


@EVERY
def test_a_call_returns_alignments_and_the_next_state(name):
    mechanism = MECHANISMS[name](memory=source(), memory_sequence_length=LENGTHS)
    state = mechanism.initial_state(3)
    alignments, after = mechanism([QUERY, state])
    assert torch.equal(after, alignments)
    assert torch.equal(mechanism(QUERY, state=state)[0], alignments)  # as in TensorFlow 1
    assert (alignments.sum(1) <= 1 + 1e-6).all()


def test_luong_attention_wants_queries_as_wide_as_its_keys():
    mechanism = tfa.LuongAttention(8, source(), LENGTHS)
    with pytest.raises(ShapeError, match=r"units=8 features.*\n.*Q=4.*\n.*Give units=4"):
        alignments_of(mechanism)


def test_modules_take_the_place_of_the_projections():
    projection, keys = nn.Linear(4, 5), nn.Linear(7, 5)
    made = tfa.BahdanauAttention(5, source(), LENGTHS, normalize=True, query_layer=projection, memory_layer=keys)
    found = alignments_of(made)
    v, g = made.mechanism.score.v[0], made.mechanism.score.gain
    memory = source().masked_fill((torch.arange(6) >= LENGTHS[:, None])[..., None], 0)
    energies = (torch.tanh(projection(QUERY)[:, None] + keys(memory)) * v).sum(-1) * g / v.norm()
    energies = energies.masked_fill(torch.arange(6) >= LENGTHS[:, None], -math.inf)
    torch.testing.assert_close(found, energies.softmax(-1))
    assert {id(projection.weight), id(keys.weight)} <= {id(parameter) for parameter in made.parameters()}
    with pytest.raises(UnsupportedError, match="cannot contain query_layer"):
        made.get_config()
    doubled = tfa.LuongAttention(4, source(), LENGTHS, memory_layer=nn.Linear(7, 4, bias=False))
    assert alignments_of(doubled).shape == (3, 6)


def test_v_is_initialised_as_a_vector_and_matrices_as_those_of_keras():
    torch.manual_seed(0)
    mechanism = tfa.BahdanauAttention(300, query_size=100, memory_size=200, normalize=True)
    score = mechanism.mechanism.score
    for weight, fans in ((score.v, 600), (score.query_projection.weight, 400), (score.key_projection.weight, 500)):
        limit = math.sqrt(6 / fans)
        assert 0.97 * limit < weight.abs().max() <= limit
    assert score.gain.item() == pytest.approx(math.sqrt(1 / 300))
    assert not score.query_projection.bias.any()
    keys = tfa.LuongAttention(100, memory_size=200).mechanism.score.key_projection.weight
    assert 0.97 * math.sqrt(6 / 300) < keys.abs().max() <= math.sqrt(6 / 300)
    ones = tfa.BahdanauAttention(3, kernel_initializer="ones", query_size=1, memory_size=1)
    assert torch.equal(ones.mechanism.score.v, torch.ones(1, 3))
    with pytest.raises(ConfigError, match="Unknown initialiser 'glorot'"):
        tfa.BahdanauAttention(3, kernel_initializer="glorot")


# --- monotonic attention


@pytest.mark.parametrize("name", ["luong monotonic", "bahdanau monotonic"])
def test_noise_is_added_in_training_only_and_by_its_seed(name):
    made = [MECHANISMS[name](memory=source(), memory_sequence_length=LENGTHS, sigmoid_noise=2.0, sigmoid_noise_seed=5)]
    quiet = alignments_of(made[0].eval())
    made.append(copy.deepcopy(made[0]))
    made[1].setup_memory(source(), LENGTHS)
    noisy = [alignments_of(mechanism.train()) for mechanism in made]
    assert torch.equal(*noisy)
    assert not torch.allclose(noisy[0], quiet)
    assert not torch.allclose(alignments_of(made[0]), noisy[0])
    assert torch.equal(alignments_of(made[0].eval()), quiet)
    assert not noisy[0][2, 1:].any()


@pytest.mark.parametrize("mode", ["recursive", "parallel", "hard"])
def test_the_mode_of_a_mechanism_is_that_of_monotonic_attention(mode):
    mechanism = tfa.LuongMonotonicAttention(4, source(), LENGTHS, score_bias_init=-0.5, mode=mode)
    state = mechanism.initial_state(3)
    for query in QUERY, -QUERY:
        score = torch.einsum("rq,rsq->rs", query, mechanism.keys) - 0.5
        chance = (score > 0).float() if mode == "hard" else score.sigmoid()
        chance = chance.masked_fill(torch.arange(6) >= LENGTHS[:, None], 0)
        expected = tfa.monotonic_attention(chance, state, mode)
        state = mechanism([query, state])[1]
        torch.testing.assert_close(state, expected)


def test_a_subclass_normalises_by_the_alignment_of_the_mechanism():
    class Doubled(tfa.LuongMonotonicAttention):
        def _calculate_attention(self, query, state):
            score = 2 * torch.einsum("rq,rsq->rs", query, self.keys)
            alignments = self.probability_fn(score, state)
            return alignments, alignments

    mechanism = Doubled(4, source(), LENGTHS, mode="recursive")
    _, found, _ = mechanism.attend(QUERY, mechanism.initial_state(3))
    plain = tfa.LuongMonotonicAttention(4, source(), LENGTHS, mode="recursive")
    plain.load_state_dict(mechanism.state_dict())
    torch.testing.assert_close(found, alignments_of(plain, 2 * QUERY))


def test_wrong_options_of_monotonic_attention_are_refused():
    with pytest.raises(UnsupportedError, match="mode='soft' must be one of 'recursive', 'parallel', 'hard'"):
        tfa.LuongMonotonicAttention(4, mode="soft")
    with pytest.raises(UnsupportedError, match="monotonic attention never stops at padding"):
        tfa.BahdanauMonotonicAttention(4, score_mask_value=0.0)


# --- functions


def test_hardmax_is_one_at_the_first_of_the_largest():
    assert tfa.hardmax(torch.tensor([[[1.0, 3.0, 3.0], [5.0, 4.0, 0.0]]])).tolist() == [[[0, 1, 0], [1, 0, 0]]]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_safe_cumprod_is_the_cumulative_product(axis, exclusive, reverse):
    x = torch.rand(4, 5, dtype=torch.float64)
    expected = x.flip(axis) if reverse else x
    if exclusive:
        ones = torch.ones_like(expected.narrow(axis, 0, 1))
        expected = torch.cat([ones, expected.narrow(axis, 0, expected.shape[axis] - 1)], axis)
    expected = expected.cumprod(axis)
    torch.testing.assert_close(
        tfa.safe_cumprod(x, axis, exclusive, reverse), expected.flip(axis) if reverse else expected
    )


def test_safe_cumprod_has_a_gradient_at_zero():
    x = torch.tensor([0.5, 0.0, 0.5], requires_grad=True)
    tfa.safe_cumprod(x).sum().backward()
    assert torch.isfinite(x.grad).all()
    assert tfa.safe_cumprod(torch.zeros(0)).shape == (0,)


def test_monotonic_attention_in_its_three_modes():
    p = torch.rand(3, 6, dtype=torch.float64)
    previous = torch.rand(3, 6, dtype=torch.float64).softmax(-1)
    expected = torch.zeros_like(p)
    arrived = torch.zeros(3, dtype=torch.float64)
    for j in range(6):
        arrived = (arrived * (1 - p[:, j - 1]) if j else arrived) + previous[:, j]
        expected[:, j] = p[:, j] * arrived
    torch.testing.assert_close(tfa.monotonic_attention(p, previous, "recursive"), expected)
    torch.testing.assert_close(tfa.monotonic_attention(p, previous, "parallel"), expected)
    # the original's formula of `hard`, which does not round p
    inner = p * previous.cumsum(-1)
    passed = torch.cat([torch.ones_like(p[:, :1]), (1 - inner).cumprod(-1)[:, :-1]], -1)
    torch.testing.assert_close(tfa.monotonic_attention(p, previous, "hard"), inner * passed)
    with pytest.raises(UnsupportedError, match="mode='exact'"):
        tfa.monotonic_attention(p, previous, "exact")
    with pytest.raises(ShapeError, match="the same shape"):
        tfa.monotonic_attention(p, previous[:, 1:], "hard")


# --- what TensorFlow 1 had besides


def test_a_probability_function_of_ones_own_gets_scores_with_padding_at_the_mask_value():
    seen = []

    def sharp(score):
        seen.append(score)
        return (2 * score).softmax(-1)

    mechanism = tfa.LuongAttention(4, source(), LENGTHS, probability_fn=sharp)
    found = alignments_of(mechanism)
    assert bool((seen[0][2, 1:] == torch.finfo(torch.float32).min).all())
    plain = tfa.LuongAttention(4, source(), LENGTHS)
    plain.load_state_dict(mechanism.state_dict())
    torch.testing.assert_close(alignments_of(plain, 2 * QUERY), found)
    with pytest.raises(ShapeError, match=r"probability_fn must return weights of the shape \(3, 6\)"):
        alignments_of(tfa.LuongAttention(4, source(), LENGTHS, probability_fn=lambda score: score.sum(-1)))


def test_a_module_is_a_probability_function():
    class Sharpened(nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = nn.Parameter(torch.tensor(2.0))

        def forward(self, score):
            return (self.factor * score).softmax(-1)

    mechanism = tfa.BahdanauAttention(4, source(), LENGTHS, probability_fn=Sharpened())
    alignments_of(mechanism).square().sum().backward()
    assert mechanism.mechanism.alignment.function.factor.grad != 0


@pytest.mark.parametrize("kind", ["luong", "bahdanau"])
def test_sparsemax_by_name_and_by_function_is_the_same_and_sparse(kind):
    from regard import ops

    named = MECHANISMS[kind](memory=5 * source(), memory_sequence_length=LENGTHS, probability_fn="sparsemax")
    found = alignments_of(named, 5 * QUERY)
    called = MECHANISMS[kind](memory=5 * source(), memory_sequence_length=LENGTHS, probability_fn=ops.sparsemax)
    alignments_of(called)
    called.load_state_dict(named.state_dict())
    torch.testing.assert_close(alignments_of(called, 5 * QUERY), found)
    assert bool((found[0] == 0).any())
    with pytest.raises(UnsupportedError, match="probability_fn='entmax' must be one of 'softmax', 'hardmax'"):
        MECHANISMS[kind](probability_fn="entmax")


def test_the_score_of_padding_is_the_given_one():
    mechanism = tfa.LuongAttention(4, source(), LENGTHS, score_mask_value=1.5)
    score = torch.einsum("rq,rsq->rs", QUERY, mechanism.keys)
    expected = score.masked_fill(torch.arange(6) >= LENGTHS[:, None], 1.5).softmax(-1)
    torch.testing.assert_close(alignments_of(mechanism), expected)
    lowest = tfa.LuongAttention(4, source(), LENGTHS, score_mask_value=-math.inf)
    assert not alignments_of(lowest)[2, 1:].any()


def test_the_state_counts_its_steps():
    wrapper = tfa.AttentionWrapper(tfa.GRUCell(4), tfa.LuongAttention(4, source(), LENGTHS))
    state = wrapper.zero_state(3, "float32")
    for step in range(3):
        assert state.time.tolist() == [step] * 3
        _, state = wrapper(QUERY, state)
    without = tfa.AttentionWrapperState(*state[:5])
    assert wrapper(QUERY, without)[1].time is None
    assert torch.equal(wrapper(QUERY, without)[0], wrapper(QUERY, state)[0])


# --- weights


@EVERY
def test_weights_are_refused_by_a_name_that_the_original_does_not_have(name):
    with pytest.raises(DataError, match=r"missing: .*memory_layer/kernel.*\n  others: w_f_diag"):
        MECHANISMS[name]().from_tensorflow({"w_f_diag": torch.zeros(1)})


@EVERY
def test_all_weights_learn(name):
    torch.manual_seed(0)
    mechanism = MECHANISMS[name](memory=source(), memory_sequence_length=LENGTHS)
    context, _, _ = mechanism.attend(QUERY, mechanism.initial_state(3))
    context.square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in mechanism.parameters())


def test_weights_and_memory_have_the_type_that_was_asked_for():
    mechanism = tfa.BahdanauAttention(4, source().double(), LENGTHS)
    assert alignments_of(mechanism, QUERY.double()).dtype == torch.float64
    assert {parameter.dtype for parameter in mechanism.parameters()} == {torch.float64}
    named = tfa.BahdanauAttention(4, query_size=4, memory_size=7, dtype="float64")
    assert {parameter.dtype for parameter in named.parameters()} == {torch.float64}
    with pytest.raises(ConfigError, match="dtype='int32'"):
        tfa.BahdanauAttention(4, dtype="int32")


@EVERY
def test_a_copy_has_the_weights_and_no_memory(name):
    mechanism = MECHANISMS[name](memory=source().requires_grad_(), memory_sequence_length=LENGTHS)
    found = alignments_of(mechanism)
    other = copy.deepcopy(mechanism)
    assert not other.memory_initialized
    other.setup_memory(source(), LENGTHS)
    assert torch.equal(alignments_of(other), found)


def test_attention_is_recorded_as_that_of_any_mechanism():
    wrapper = tfa.AttentionWrapper(tfa.GRUCell(4), tfa.LuongAttention(4, source(), LENGTHS))
    with record_attention(wrapper) as seen:
        _, state = wrapper(QUERY, wrapper.zero_state(3))
    torch.testing.assert_close(seen["attention_mechanisms.0.mechanism"][:, 0, 0], state.alignments)


# --- the wrapper


def mechanism_of(rows=3, **options):
    return tfa.LuongAttention(4, source(rows), LENGTHS[:rows], **options)


def test_a_layer_and_its_size_exclude_each_other_and_are_one_for_each_mechanism():
    two = [mechanism_of(), mechanism_of()]
    with pytest.raises(UnsupportedError, match="attention_layer_size or attention_layer, not both"):
        tfa.AttentionWrapper(tfa.GRUCell(4), two[0], attention_layer_size=3, attention_layer=nn.Linear(11, 3))
    with pytest.raises(UnsupportedError, match="attention_layer_size has 1 entries for 2 mechanisms"):
        tfa.AttentionWrapper(tfa.GRUCell(4), two, attention_layer_size=[3])
    with pytest.raises(UnsupportedError, match="attention_layer has 1 entries for 2 mechanisms"):
        tfa.AttentionWrapper(tfa.GRUCell(4), two, attention_layer=nn.Linear(11, 3))
    with pytest.raises(UnsupportedError, match="must be an AttentionMechanism or a list; got Linear"):
        tfa.AttentionWrapper(tfa.GRUCell(4), nn.Linear(1, 1))
    with pytest.raises(UnsupportedError, match="empty list"):
        tfa.AttentionWrapper(tfa.GRUCell(4), [])
    with pytest.raises(UnsupportedError, match="attention_layer must be a module; got function"):
        tfa.AttentionWrapper(tfa.GRUCell(4), two[0], attention_layer=lambda x: x)


@pytest.mark.parametrize(
    ("layer", "width"),
    [
        (nn.Linear(11, 3), 3),
        (nn.Sequential(nn.Linear(11, 9), nn.Linear(9, 2), nn.Tanh()), 2),
        (tfa.Dense(6), 6),
        (nn.Sequential(nn.Linear(11, 8), nn.GLU()), 4),
        (nn.Sequential(nn.Linear(11, 5), nn.LayerNorm(5)), 5),
    ],
    ids=["linear", "sequential", "dense", "gated", "normalised"],
)
def test_an_attention_layer_is_of_any_width(layer, width):
    wrapper = tfa.AttentionWrapper(tfa.GRUCell(4), mechanism_of(), attention_layer=layer)
    assert wrapper.output_size == wrapper.state_size.attention == width
    output, state = wrapper(QUERY, wrapper.zero_state(3))
    assert output.shape == state.attention.shape == (3, width)


def test_sizes_of_outputs_and_states():
    two = [mechanism_of(), tfa.BahdanauAttention(5, source(3, 9, 2), [9, 1, 2])]
    wrapper = tfa.AttentionWrapper(tfa.LSTMCell(4), two, alignment_history=True)
    sizes = wrapper.state_size
    assert wrapper.output_size == sizes.attention == 7 + 2
    assert (sizes.alignments, sizes.attention_state, sizes.alignment_history) == ((6, 9), (6, 9), (6, 9))
    assert sizes.cell_state == tfa.LSTMStateTuple(4, 4)
    assert tfa.AttentionWrapper(tfa.LSTMCell(4), two, output_attention=False).output_size == 4
    output, state = wrapper(QUERY, wrapper.zero_state(3))
    assert output.shape == (3, 9)
    assert [leaf.shape for leaf in state.alignments] == [(3, 6), (3, 9)]
    assert [history.size() for history in state.alignment_history] == [1, 1]
    assert [history.stack().shape for history in state.alignment_history] == [(1, 3, 6), (1, 3, 9)]


def test_the_first_state_comes_from_inputs_or_from_the_batch_size_and_the_type():
    wrapper = tfa.AttentionWrapper(tfa.GRUCell(4), mechanism_of())
    for state, dtype in (
        (wrapper.get_initial_state(QUERY.double()), torch.float64),
        (wrapper.get_initial_state(batch_size=3, dtype="float64"), torch.float64),
        (wrapper.get_initial_state(batch_size=3), torch.float32),
        (wrapper.zero_state(3, torch.float32), torch.float32),
    ):
        assert {leaf.dtype for leaf in tree.leaves(state[:5])} == {dtype}
        assert tree.rows(state) == 3
        assert not any(leaf.any() for leaf in tree.leaves(state))
    with pytest.raises(ShapeError, match="Give inputs or batch_size"):
        wrapper.get_initial_state()


def test_another_number_of_rows_is_an_error_that_mentions_tile_batch():
    wrapper = tfa.AttentionWrapper(tfa.GRUCell(4), mechanism_of())
    with pytest.raises(ShapeError, match=r"state has 15 rows.*memory of LuongAttention has 3.*\n.*tile_batch"):
        wrapper.get_initial_state(batch_size=15)
    with pytest.raises(ShapeError, match=r"initial_cell_state has 15 rows(.|\n)*tile_batch"):
        tfa.AttentionWrapper(tfa.GRUCell(4), mechanism_of(), initial_cell_state=torch.zeros(15, 4))
    state = wrapper.zero_state(3)
    wrapper.attention_mechanisms[0].setup_memory(source(2), [6, 6])
    with pytest.raises(ShapeError, match=r"the cell's output has 3 rows(.|\n)*tile_batch"):
        wrapper(QUERY, state)


def test_a_wrapper_without_memory_says_what_to_call():
    wrapper = tfa.AttentionWrapper(tfa.GRUCell(4), tfa.LuongAttention(4))
    with pytest.raises(RegardError, match="call setup_memory"):
        wrapper.zero_state(3)
    wrapper.attention_mechanisms[0].setup_memory(source(), LENGTHS)
    assert wrapper(QUERY, wrapper.zero_state(3))[0].shape == (3, 7)


def test_a_clone_replaces_fields_and_checks_their_shapes():
    wrapper = tfa.AttentionWrapper(tfa.KerasLSTMCell(4), mechanism_of(), alignment_history=True)
    state = wrapper.zero_state(3)
    h, c = torch.ones(3, 4), torch.full((3, 4), 2.0)
    cloned = state.clone(cell_state=[h, c])
    assert torch.equal(cloned.cell_state[1], c)
    assert cloned.attention is state.attention
    assert not state.cell_state[0].any()
    with pytest.raises(ShapeError, match=r"cell_state\[1\] of the shape \(3, 4\); got \(3, 5\)"):
        state.clone(cell_state=(h, torch.zeros(3, 5)))
    with pytest.raises(ShapeError, match="cell_state of tuple of 2; got tuple of 3"):
        state.clone(cell_state=(h, h, c))
    with pytest.raises(ShapeError, match=r"cell_state is a LSTMStateTuple\(c, h\), but this cell's state has h first"):
        state.clone(cell_state=tfa.LSTMStateTuple(c, h))
    with pytest.raises(ShapeError, match="state: a state has the fields cell_state"):
        state.clone(state=h)
    assert state.clone(alignment_history=tfa.AlignmentHistory((torch.zeros(3, 6),))).alignment_history.size() == 1


def test_a_state_is_taken_as_its_fields_and_nothing_else_is():
    wrapper = tfa.AttentionWrapper(tfa.KerasLSTMCell(4), mechanism_of())
    state = wrapper.zero_state(3)
    assert torch.equal(wrapper(QUERY, list(state))[0], wrapper(QUERY, state)[0])
    with pytest.raises(UnsupportedError, match="state must be an AttentionWrapperState"):
        wrapper(QUERY, torch.zeros(3, 4))


@pytest.mark.parametrize(
    ("torchs", "ours"),
    [
        (lambda: nn.LSTMCell(4 + 7, 4), lambda: tfa.KerasLSTMCell(4, input_size=11)),
        (lambda: nn.GRUCell(4 + 7, 4), lambda: tfa.KerasGRUCell(4, input_size=11)),
        (lambda: nn.RNNCell(4 + 7, 4), lambda: tfa.BasicRNNCell(4, input_size=11)),
    ],
    ids=["lstm", "gru", "rnn"],
)
def test_cells_of_torch_are_wrapped_as_our_own(torchs, ours):
    cell, own = torchs(), ours()
    weights = cell.state_dict()
    biases = weights["bias_ih"], weights["bias_hh"]
    joint = {"bias": biases[0], "bias_hh": biases[1]} if isinstance(cell, nn.GRUCell) else {"bias": sum(biases)}
    own.load_state_dict({"weight_ih": weights["weight_ih"], "weight_hh": weights["weight_hh"], **joint})
    mechanism = mechanism_of()
    results = []
    for wrapped in (cell, own):
        wrapper = tfa.AttentionWrapper(wrapped, mechanism)
        _, state = wrapper(QUERY, wrapper.zero_state(3))
        results.append(wrapper(QUERY, state)[0])
    torch.testing.assert_close(*results)


class Ported(tfa.RNNCell):
    """A cell of a user's own."""

    state_size = output_size = 4

    def forward(self, inputs, state):
        new = torch.tanh(inputs[:, :4] + state)
        return new, new


def test_a_cell_of_ones_own_is_wrapped_and_anything_else_is_refused():
    wrapper = tfa.AttentionWrapper(Ported(), mechanism_of())
    assert wrapper(QUERY, wrapper.zero_state(3))[0].shape == (3, 7)
    with pytest.raises(UnsupportedError, match=r"cell must be a cell.*got LSTM"):
        tfa.AttentionWrapper(nn.LSTM(4, 4), mechanism_of())


def test_weights_are_loaded_before_the_first_call():
    def made():
        return tfa.AttentionWrapper(
            tfa.MultiRNNCell([tfa.LSTMCell(4), tfa.ResidualWrapper(tfa.GRUCell(4))]),
            [tfa.BahdanauAttention(5), tfa.LuongAttention(4, scale=True)],
            attention_layer_size=[3, 2],
        )

    first, second = made(), made()
    for mechanism in first.attention_mechanisms:
        mechanism.setup_memory(source(), LENGTHS)
    output, _ = first(QUERY, first.zero_state(3))
    second.load_state_dict(first.state_dict())
    for mechanism in second.attention_mechanisms:
        mechanism.setup_memory(source(), LENGTHS)
    assert torch.equal(second(QUERY, second.zero_state(3))[0], output)


@EVERY
def test_keys_follow_the_weights_and_have_gradients_when_they_are_wanted(name):
    first, second = (MECHANISMS[name](memory=source(), memory_sequence_length=LENGTHS) for _ in range(2))
    with torch.no_grad():
        assert not torch.allclose(alignments_of(first), alignments_of(second))
    second.load_state_dict(first.state_dict())
    assert torch.equal(alignments_of(first), alignments_of(second))
    alignments_of(second).square().sum().backward()
    assert all(parameter.grad is not None for parameter in second.parameters())
    torch.optim.SGD(second.parameters(), 0.5).step()
    found = alignments_of(second)
    second.setup_memory(source(), LENGTHS)
    assert torch.equal(alignments_of(second), found)
    assert not torch.allclose(found, alignments_of(first))


def test_a_state_is_reordered_with_the_alignments_of_every_step():
    wrapper = tfa.AttentionWrapper(tfa.GRUCell(4), mechanism_of(), alignment_history=True)
    state = wrapper.zero_state(3)
    for query in QUERY, -QUERY:
        _, state = wrapper(query, state)
    moved = tree.reorder(state, torch.tensor([2, 2, 0]))
    assert torch.equal(moved.alignment_history.stack(), state.alignment_history.stack()[:, [2, 2, 0]])
    assert torch.equal(moved.cell_state, state.cell_state[[2, 2, 0]])


def test_a_history_reads_and_writes_as_a_tensor_array():
    first, second = torch.zeros(2, 3), torch.ones(2, 3)
    history = tfa.AlignmentHistory().write(0, first).write(1, first).write(0, second)
    assert (history.size(), len(history)) == (2, 2)
    assert torch.equal(history.read(0), second)
    assert [step.sum() for step in history] == [6, 0]
    with pytest.raises(ShapeError, match="index must be from 0 to 2"):
        history.write(3, first)
    with pytest.raises(ShapeError, match="no steps yet"):
        tfa.AlignmentHistory().stack()


# --- a cell in a loop


def test_a_wrapper_is_a_cell_in_a_plain_loop_and_in_dynamic_rnn():
    wrapper = tfa.AttentionWrapper(tfa.LSTMCell(4), mechanism_of(), attention_layer_size=3, alignment_history=True)
    inputs = source(3, 5, 2)
    outputs, last = tfa.dynamic_rnn(wrapper, inputs, dtype=torch.float32)
    state = wrapper.zero_state(3, torch.float32)
    for x in inputs.unbind(1):
        output, state = wrapper(x, state)
    assert torch.equal(output, outputs[:, -1])
    assert all(torch.equal(a, b) for a, b in zip(tree.leaves(state), tree.leaves(last), strict=True))
    assert torch.equal(last.time, torch.full((3,), 5))


def test_sequences_of_different_lengths_in_dynamic_rnn_are_each_alone():
    wrapper = tfa.AttentionWrapper(tfa.LSTMCell(4), mechanism_of(), attention_layer_size=3, alignment_history=True)
    inputs, lengths = source(3, 5, 2), [4, 0, 2]
    outputs, last = tfa.dynamic_rnn(wrapper, inputs, sequence_length=lengths)
    assert outputs.shape == (3, 5, 3)
    assert last.alignment_history.size() == 4  # the longest
    assert last.time.tolist() == lengths
    for row, length in enumerate(lengths):
        single = tfa.AttentionWrapper(
            wrapper.cell, tfa.LuongAttention(4, memory_size=7), attention_layer=wrapper.attention_layers[0]
        )
        single.attention_mechanisms[0].load_state_dict(wrapper.attention_mechanisms[0].state_dict())
        single.attention_mechanisms[0].setup_memory(source()[row : row + 1], LENGTHS[row : row + 1])
        assert not outputs[row, length:].any()
        if length:
            alone, state = tfa.dynamic_rnn(single, inputs[row : row + 1, :length])
            torch.testing.assert_close(outputs[row, :length], alone[0])
            torch.testing.assert_close(last.cell_state.h[row], state.cell_state.h[0])
            torch.testing.assert_close(last.alignments[row], state.alignments[0])
        else:
            assert not last.cell_state.h[row].any()


def test_units_have_their_name_of_tensorflow_1_too():
    for kind in (
        tfa.LuongAttention,
        tfa.BahdanauAttention,
        tfa.LuongMonotonicAttention,
        tfa.BahdanauMonotonicAttention,
    ):
        mechanism = kind(num_units=4, memory=source(), memory_sequence_length=LENGTHS)
        assert mechanism.units == 4
        assert alignments_of(mechanism).shape == (3, 6)
        for wrong in ({}, {"units": 4, "num_units": 4}):
            with pytest.raises(UnsupportedError, match="two names of one number: give one"):
                kind(**wrong)
    assert tfa.LuongAttention(4, probability_fn=None).function == "softmax"


def test_a_mechanism_made_in_evaluation_is_in_evaluation():
    mechanism = tfa.BahdanauMonotonicAttention(4, source(), LENGTHS, sigmoid_noise=3.0).eval()
    assert torch.equal(alignments_of(mechanism), alignments_of(mechanism))


def test_a_subclass_computes_energies_from_the_layers_of_its_base():
    class Located(tfa.BahdanauAttention):
        """Additive energies with a term of the previous alignment, as TensorFlow 1's subclasses had it."""

        def _calculate_attention(self, query, state):
            hidden = self.query_layer(query)[:, None] + self.keys + state[..., None]
            alignments = self.probability_fn(hidden.tanh().sum(-1), state)
            return alignments, alignments + state

    mechanism = Located(5, source(), LENGTHS)
    wrapper = tfa.AttentionWrapper(tfa.GRUCell(4), mechanism, alignment_history=True)
    state = wrapper.zero_state(3)
    for query in QUERY, -QUERY:
        _, state = wrapper(query, state)
    assert mechanism.query_layer.weight.shape == (5, 4)
    assert mechanism.memory_layer.weight.shape == (5, 7)
    torch.testing.assert_close(state.attention_state, sum(state.alignment_history))
    torch.testing.assert_close(state.alignments.sum(1), torch.ones(3))
    assert not state.alignments[2, 1:].any()
    alone = Located(5, source(), LENGTHS)
    assert alignments_of(alone).shape == (3, 6)  # the weights are made by the first query


def test_arguments_in_the_wrong_order_are_named():
    with pytest.raises(ConfigError, match=r"units, the first argument, must be a whole number(.|\n)*got Tensor"):
        tfa.BahdanauAttention(source(), 4)
    for wrong in (4.7, 0, "4"):
        with pytest.raises(ConfigError, match="units, the first argument, must be a whole number"):
            tfa.LuongAttention(wrong, source())
    with pytest.raises(ShapeError, match=r"memory must be a tensor(.|\n)*units, memory, memory_sequence_length"):
        tfa.BahdanauAttention(4, [6, 4, 1], source())


def test_lengths_memory_inputs_and_states_of_different_batches_are_errors():
    with pytest.raises(ShapeError, match=r"one for each row of memory(.|\n)*R=6(.|\n)*tile both by tile_batch"):
        tfa.LuongAttention(4, source(), tfa.tile_batch(LENGTHS, 2))
    wrapper = tfa.AttentionWrapper(tfa.GRUCell(4), mechanism_of())
    for wrong in (QUERY[:2], QUERY[:, 0].long()):
        with pytest.raises(ShapeError, match=r"inputs of a step must be numbers \(R, F\)"):
            wrapper(wrong, wrapper.zero_state(3))
    reader = tfa.LuongMonotonicAttention(4, source(), LENGTHS)
    with pytest.raises(ShapeError, match=r"previous alignment \(R=3, S=6\); got \(3, 2\)"):
        reader([QUERY, torch.zeros(3, 2)])


def test_a_memory_or_a_query_of_another_type_than_the_weights_is_an_error():
    mechanism = tfa.BahdanauAttention(4, source(), LENGTHS, query_size=4)
    with pytest.raises(ShapeError, match="memory has the type float64, but the weights are float32"):
        mechanism.setup_memory(source().double(), LENGTHS)
    mechanism.setup_memory(source(), LENGTHS)
    with pytest.raises(ShapeError, match="query has the type float64, but the weights are float32"):
        mechanism([QUERY.double(), mechanism.initial_state(3)])
    with torch.autocast("cpu", torch.bfloat16):
        assert mechanism([QUERY.bfloat16(), mechanism.initial_state(3)])[0].shape == (3, 6)
