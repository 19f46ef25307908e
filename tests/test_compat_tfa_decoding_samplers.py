"""regard.interop.tfa's samplers and TensorFlow 1's helpers, beside the numbers of tensorflow-addons."""

from __future__ import annotations

import pytest
import torch

from regard.errors import ConfigError, DataError, RegardError, ShapeError
from regard.interop import tfa
from tfa_models import case_of, close, golden

torch.set_num_threads(1)
GOLDEN = golden("samplers")
G = GOLDEN.inputs
LENGTHS = {"inputs": G["inputs"], "sequence_length": G["lengths"]}


def follow(name, sampler, arguments, outputs, samples=None):
    """Asserts what a sampler says, step by step; samples that TensorFlow drew are compared where they are certain."""
    expected = case_of(GOLDEN.outputs, name)
    finished, inputs = sampler.initialize(**arguments)
    for time in range(len(expected["finished"])):
        assert torch.equal(finished, expected["finished"][time].bool())
        close(inputs, expected["inputs"][time])
        if time == len(expected["samples"]):
            break
        taken = sampler.sample(time, outputs, None) if samples is None else samples
        close(taken, expected["samples"][time].to(taken.dtype))
        finished, inputs, _ = sampler.next_inputs(time, outputs, None, taken)


def test_training_sampler_reads_its_inputs_finishes_by_length_and_ends_with_zeros():
    follow("training", tfa.TrainingSampler(), LENGTHS, G["outputs"])
    follow("whole", tfa.TrainingSampler(), {"inputs": G["inputs"]}, G["outputs"])
    helper = tfa.TrainingHelper(inputs=G["inputs"], sequence_length=G["lengths"])
    follow("training", helper, {}, G["outputs"])


def test_training_sampler_takes_a_mask_and_time_major_inputs():
    follow("masked", tfa.TrainingSampler(), {"inputs": G["inputs"], "mask": G["mask"]}, G["outputs"])
    by_time = {"inputs": G["inputs"].transpose(0, 1), "sequence_length": G["lengths"]}
    follow("time_major", tfa.TrainingSampler(time_major=True), by_time, G["outputs"])
    mask = {"inputs": G["inputs"].transpose(0, 1), "mask": G["mask"].t()}
    follow("time_major", tfa.TrainingSampler(time_major=True), mask, G["outputs"])
    follow("time_major", tfa.TrainingHelper(**by_time, time_major=True), {}, G["outputs"])


def test_training_sampler_reads_structures_of_inputs():
    sampler = tfa.TrainingSampler()
    finished, first = sampler.initialize({"a": G["inputs"], "b": (G["auxiliary"],)}, [1, 0, 1])
    assert finished.tolist() == [False, True, False]
    close(first["b"][0], G["auxiliary"][:, 0])
    assert not sampler.next_inputs(0, None, None, None)[1]["a"].any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sequence_length": [4, 0, 2], "mask": G["mask"]}, "sequence_length or mask, not both"),
        ({"sequence_length": torch.ones(3, 1, dtype=torch.long)}, "sequence_length must be"),
        ({"sequence_length": torch.ones(2, dtype=torch.long)}, r"sequence_length must be \(B=3,\).*\n.*B=2"),
        ({"sequence_length": torch.ones(3)}, "integers"),
        ({"sequence_length": [4, 0, 5]}, "sequence_length must lie between 0 and T=4; got 0 to 5"),
        ({"mask": torch.ones(3)}, r"mask must be bool \(B, T\)"),
        ({"mask": torch.ones(3, 4)}, r"mask must be bool \(B, T\)"),
        ({"mask": G["mask"].flip(1)}, "must be right-padded, but the mask of item 2 is"),
    ],
    ids=str,
)
def test_training_sampler_refuses_lengths_and_masks_that_do_not_fit(arguments, message):
    with pytest.raises(ShapeError, match=message):
        tfa.TrainingSampler().initialize(G["inputs"], **arguments)


@pytest.mark.parametrize(
    ("name", "probability", "samples"), [("drawn", 0.5, "ids"), ("always", 1.0, 0), ("never", 0.0, 0)]
)
def test_scheduled_embedding_sampler_feeds_embeddings_where_it_has_drawn_and_says_minus_one_elsewhere(
    name, probability, samples
):
    taken = G[samples].long() if samples else None
    given = {**LENGTHS, "embedding": G["embedding"]}
    certain = G["outputs"] * 1e4
    follow(f"embedded_{name}", tfa.ScheduledEmbeddingTrainingSampler(probability), given, certain, taken)
    function = tfa.ScheduledEmbeddingTrainingSampler(torch.full((3,), probability), lambda ids: G["embedding"][ids])
    follow(f"embedded_{name}", function, LENGTHS, certain, taken)
    helper = tfa.ScheduledEmbeddingTrainingHelper(G["inputs"], G["lengths"], G["embedding"], probability)
    follow(f"embedded_{name}", helper, {}, certain, taken)
    with pytest.raises(RegardError, match="Give an embedding"):
        tfa.ScheduledEmbeddingTrainingSampler(probability).initialize(G["inputs"])


@pytest.mark.parametrize(
    ("name", "probability", "samples"), [("drawn", 0.5, "chosen"), ("always", 1.0, 0), ("never", 0.0, 0)]
)
def test_scheduled_output_sampler_feeds_outputs_with_auxiliary_inputs_behind_both(name, probability, samples):
    taken = G[samples].long() if samples else None
    more = {**LENGTHS, "auxiliary_inputs": G["auxiliary"]}
    narrow = G["narrow"]
    follow(f"output_{name}", tfa.ScheduledOutputTrainingSampler(probability), LENGTHS, narrow, taken)
    follow(f"auxiliary_{name}", tfa.ScheduledOutputTrainingSampler(probability), more, narrow, taken)
    function = tfa.ScheduledOutputTrainingSampler(probability, next_inputs_fn=torch.tanh)
    follow(f"function_{name}", function, more, narrow, taken)
    helper = tfa.ScheduledOutputTrainingHelper(
        G["inputs"], G["lengths"], probability, next_inputs_fn=torch.tanh, auxiliary_inputs=G["auxiliary"]
    )
    follow(f"function_{name}", helper, {}, narrow, taken)


@pytest.mark.parametrize("make", [tfa.ScheduledEmbeddingTrainingSampler, tfa.ScheduledOutputTrainingSampler])
def test_a_sampling_probability_is_a_scalar_or_a_vector(make):
    with pytest.raises(ShapeError, match="sampling_probability must be a scalar or a vector"):
        make(torch.zeros(2, 2))


def test_scheduled_samplers_draw_with_the_given_probabilities_and_seeds():
    def draws(seed, scheduling_seed):
        sampler = tfa.ScheduledEmbeddingTrainingSampler(
            torch.tensor([0.0, 0.3, 1.0]), lambda ids: ids, seed=seed, scheduling_seed=scheduling_seed
        )
        sampler.initialize(torch.zeros(3, 1, 1))
        logits = torch.tensor([0.5, 0.25, 0.25]).log().expand(3, 3)
        return torch.stack([sampler.sample(t, logits, None) for t in range(2000)])

    ids = draws(1, 2)
    assert (ids[:, 0] == -1).all()
    assert float((ids[:, 1] > -1).float().mean()) == pytest.approx(0.3, abs=0.04)
    assert torch.bincount(ids[:, 2]).tolist() == pytest.approx([1000, 500, 500], abs=80)
    assert torch.equal(ids, draws(1, 2))
    assert not torch.equal(ids > -1, draws(1, 3) > -1)
    assert not torch.equal(ids[:, 2], draws(3, 2)[:, 2])
    outputs = tfa.ScheduledOutputTrainingSampler(0.3, seed=1)
    outputs.initialize(torch.zeros(3, 1, 1))
    share = torch.stack([outputs.sample(t, torch.zeros(3, 1), None) for t in range(1000)]).float().mean()
    assert float(share) == pytest.approx(0.3, abs=0.04)


START = {"embedding": G["embedding"], "start_tokens": torch.tensor([0, 1, 2]), "end_token": 3}


def test_greedy_embedding_sampler_feeds_the_most_probable_token_until_the_end():
    follow("greedy", tfa.GreedyEmbeddingSampler(), START, G["outputs"])
    follow("all_ended", tfa.GreedyEmbeddingSampler(), START, G["outputs"], torch.tensor([3, 3, 3]))
    given = {**START, "embedding": None}
    follow("greedy", tfa.GreedyEmbeddingSampler(lambda ids: G["embedding"][ids]), given, G["outputs"])
    follow("greedy", tfa.GreedyEmbeddingHelper(*START.values()), {}, G["outputs"])
    module = torch.nn.Embedding.from_pretrained(G["embedding"])
    follow("greedy", tfa.GreedyEmbeddingHelper(module, START["start_tokens"], 3), {}, G["outputs"])


def test_a_second_decoding_uses_its_own_embedding():
    sampler = tfa.GreedyEmbeddingSampler()
    sampler.initialize(**START)
    _, inputs = sampler.initialize(**{**START, "embedding": G["embedding"] + 1})
    close(inputs, G["embedding"][:3] + 1)


@pytest.mark.parametrize("make", [tfa.GreedyEmbeddingSampler, tfa.SampleEmbeddingSampler])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"start_tokens": torch.zeros(3, 1, dtype=torch.long)}, "start_tokens must be a vector"),
        ({"start_tokens": 0}, r"torch.full\(\(batch_size,\), token\)"),
        ({"end_token": torch.tensor([3])}, "end_token must be a scalar"),
        ({"start_tokens": None}, "start_tokens is missing"),
        ({"embedding": None}, "Give an embedding"),
        ({"embedding": torch.zeros(3)}, r"embedding must be a table \(N, E\)"),
        ({"embedding": 3}, "a table .* or a function; got int"),
    ],
    ids=str,
)
def test_start_tokens_are_a_vector_and_the_end_token_is_a_scalar(make, change, message):
    with pytest.raises(RegardError, match=message):
        make().initialize(**{**START, **change})


def test_sample_embedding_sampler_draws_by_temperature_and_seed():
    follow("sampled", tfa.SampleEmbeddingSampler(softmax_temperature=1e-3), START, G["outputs"])
    follow("sampled", tfa.SampleEmbeddingHelper(*START.values(), softmax_temperature=1e-3), {}, G["outputs"])
    logits = torch.tensor([0.5, 0.25, 0.25]).log().expand(3000, 3)

    def counts(**options):
        sampler = tfa.SampleEmbeddingSampler(**options)
        return torch.bincount(sampler.sample(0, logits, None), minlength=3).tolist()

    assert counts(seed=1) == pytest.approx([1500, 750, 750], abs=120)
    assert counts(seed=1) == counts(seed=1) != counts(seed=2)
    assert counts(seed=1, softmax_temperature=0.5) == pytest.approx([2000, 500, 500], abs=120)
    sampler = tfa.SampleEmbeddingSampler(seed=1)
    assert not torch.equal(sampler.sample(0, logits, None), sampler.sample(1, logits, None))
    for temperature in (0.0, -1.0, float("nan")):
        with pytest.raises(ConfigError, match="must be above 0"):
            tfa.SampleEmbeddingSampler(softmax_temperature=temperature)


def test_inference_and_custom_samplers_are_made_of_functions():
    functions = (lambda outputs: outputs * 2, [2], torch.float32)
    ends = (lambda ids: ids.sum(1) > 0, lambda ids: ids + 1)
    follow("inference", tfa.InferenceSampler(*functions, *ends), {"start_inputs": G["narrow"]}, G["narrow"])
    follow("inference", tfa.InferenceHelper(*functions, G["narrow"], *ends), {}, G["narrow"])
    plain = tfa.InferenceSampler(*functions, ends[0])
    plain.initialize(G["narrow"])
    assert plain.next_inputs(0, None, None, G["narrow"])[1] is G["narrow"]
    assert (plain.sample_ids_shape, plain.sample_ids_dtype, plain.batch_size) == ((2,), torch.float32, 3)

    def begin(inputs=None):
        return torch.zeros(3, dtype=torch.bool), G["narrow"]

    def following(time, outputs, state, sample_ids):
        return sample_ids.sum(1) > 0, sample_ids + 1, state

    parts = (lambda time, outputs, state: outputs * 2, following, [2], torch.float32)
    custom = tfa.CustomSampler(begin, *parts)
    follow("inference", custom, {"inputs": None}, G["narrow"])
    follow("inference", tfa.CustomHelper(begin, *parts), {}, G["narrow"])
    assert (custom.sample_ids_shape, custom.sample_ids_dtype, custom.batch_size) == ((2,), torch.float32, 3)
    assert tfa.CustomSampler(begin, *parts[:2]).sample_ids_dtype == torch.long


def test_the_batch_size_is_known_after_initialize_and_ids_are_scalars_of_type_long():
    for sampler in (tfa.TrainingSampler(), tfa.GreedyEmbeddingSampler(), tfa.ScheduledOutputTrainingSampler(0.0)):
        with pytest.raises(RegardError, match="before initialize"):
            sampler.batch_size  # noqa: B018
        assert (sampler.sample_ids_shape, sampler.sample_ids_dtype) == ((), torch.long)
    with pytest.raises(TypeError, match="one tensor of logits"):
        tfa.GreedyEmbeddingSampler().sample(0, (G["outputs"],), None)


def test_texars_samplers_truncate_the_distribution_or_feed_mean_embeddings():
    logits = torch.tensor([0.4, 0.3, 0.2, 0.1]).log().expand(4000, 4)
    tokens = torch.zeros(4000, dtype=torch.long)
    table = torch.eye(4)
    top_k = tfa.TopKSampleEmbeddingHelper(table, tokens, 3, top_k=2, seed=1)
    top_p = tfa.TopPSampleEmbeddingHelper(table, tokens, 3, p=0.6, seed=1)
    for helper in (top_k, top_p):
        helper.initialize()
        counts = torch.bincount(helper.sample(0, logits, None), minlength=4).tolist()
        assert counts[2:] == [0, 0]
        assert counts[:2] == pytest.approx([4000 * 4 / 7, 4000 * 3 / 7], abs=150)
    soft = tfa.SoftmaxEmbeddingHelper(table, tokens, 0, tau=0.5)
    soft.initialize()
    sample = soft.sample(0, logits, None)
    close(sample[0], torch.tensor([16.0, 9.0, 4.0, 1.0]) / 30)
    finished, inputs, _ = soft.next_inputs(0, logits, None, sample)
    assert finished.all()
    close(inputs, sample @ table)
    assert not tfa.SoftmaxEmbeddingSampler(1.0, use_finish=False).use_finish
    torch.manual_seed(0)
    drawn = tfa.GumbelSoftmaxEmbeddingHelper(table, tokens, 3, tau=0.1, straight_through=True)
    drawn.initialize()
    close(drawn.sample(0, logits, None).mean(0), torch.tensor([0.4, 0.3, 0.2, 0.1]), 0.03)
    assert drawn.sample_ids_shape == (4,)
    for make in (
        lambda: tfa.TopKSampleEmbeddingSampler(top_k=0),
        lambda: tfa.TopPSampleEmbeddingSampler(p=0.0),
        lambda: tfa.SoftmaxEmbeddingSampler(0.0),
    ):
        with pytest.raises(ConfigError):
            make()


def test_taco_helpers_feed_every_rth_frame_and_stop_at_silence():
    frames = torch.arange(1.0, 15.0).view(1, 7, 2).expand(2, 7, 2)
    helper = tfa.TacoTrainingHelper(torch.zeros(2, 9), frames, 2, 3)
    finished, inputs = helper.initialize()
    assert finished.tolist() == [False, False]
    assert inputs.tolist() == [[0.0, 0.0]] * 2
    assert helper.sample(0, None, None).tolist() == [0, 0]
    finished, inputs, _ = helper.next_inputs(0, None, "state", None)
    assert (finished.tolist(), inputs.tolist()) == ([False, False], [[5.0, 6.0]] * 2)
    finished, inputs, state = helper.next_inputs(1, None, "state", None)
    assert (finished.tolist(), inputs.tolist(), state) == ([True, True], [[11.0, 12.0]] * 2, "state")
    test = tfa.TacoTestHelper(2, 2, 3)
    assert test.initialize()[1].shape == (2, 2)
    outputs = torch.tensor([[0.0] * 6, [0.01, 0, 0, 0, 0.02, -0.03]])
    finished, inputs, _ = test.next_inputs(0, outputs, None, None)
    assert finished.tolist() == [True, False]
    close(inputs, outputs[:, 4:])
    assert tfa.TacoTestHelper(2, 2, 3, silence=0.05).next_inputs(0, outputs, None, None)[0].all()
    with pytest.raises(ShapeError, match=r"r=3 frames of F=2"):
        test.next_inputs(0, outputs[:, :4], None, None)
    with pytest.raises(ShapeError, match="targets must be frames"):
        tfa.TacoTrainingHelper(torch.zeros(2, 9), frames, 3, 3)
    with pytest.raises(ConfigError, match="silence=-1"):
        tfa.TacoTestHelper(2, 2, 3, silence=-1)


@pytest.mark.parametrize("make", [tfa.ScheduledEmbeddingTrainingSampler, tfa.ScheduledOutputTrainingSampler])
@pytest.mark.parametrize("wrong", [1.5, -0.1, [0.5, 2.0], torch.nn.Embedding(2, 2)], ids=str)
def test_what_is_no_sampling_probability_is_refused(make, wrong):
    with pytest.raises(ConfigError, match="sampling_probability"):
        make(wrong)


def test_training_sampler_refuses_lengths_below_0_and_inputs_that_are_none():
    with pytest.raises(ShapeError, match="sequence_length must lie between 0 and T="):
        tfa.TrainingSampler().initialize(G["inputs"], sequence_length=[4, -3, 2])
    for wrong in (None, torch.zeros(3)):
        with pytest.raises(ShapeError, match=r"inputs must be \(B, T, …\)"):
            tfa.TrainingSampler().initialize(wrong, sequence_length=[4, 0, 2])


@pytest.mark.parametrize("wrong", [-1, 99])
def test_start_tokens_without_a_row_of_the_embedding_are_refused(wrong):
    with pytest.raises(DataError, match=f"start_tokens has ids from .*{wrong}.*, and the embedding has N=3 rows"):
        tfa.GreedyEmbeddingHelper(torch.eye(3), [1, wrong], 2).initialize()
    with pytest.raises(DataError, match="the embedding has N=3 rows"):
        tfa.BeamSearchDecoder(torch.nn.GRUCell(3, 3), 2).initialize(torch.eye(3), [1, wrong], 2, torch.zeros(4, 3))
