"""`regard.interop.ibm`: masks, lengths, states, refusals, and the search of the k most probable sequences."""

from __future__ import annotations

import random
from copy import deepcopy
from itertools import product

import pytest
import torch

from regard.errors import ConfigError, RegardError, ShapeError, UnsupportedError
from regard.interop.ibm import Attention, DecoderRNN, EncoderRNN, Seq2seq, TopKDecoder

B, S, D, N, SOS, EOS = 2, 5, 4, 5, 1, 2
MASK = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])


def decoder(cell="gru", *, seed=0, max_len=6, **options):
    torch.manual_seed(seed)
    made = DecoderRNN(N, max_len, D, SOS, EOS, rnn_cell=cell, **{"use_attention": True} | options).double().eval()
    with torch.no_grad():
        made.out.weight *= 4
    return made


def encoded(cell="gru"):
    generator = torch.Generator().manual_seed(3)
    state = torch.randn(1, B, D, generator=generator, dtype=torch.float64)
    outputs = torch.randn(B, S, D, generator=generator, dtype=torch.float64)
    return {"encoder_hidden": (state, -state) if cell == "lstm" else state, "encoder_outputs": outputs}


def test_a_mask_of_set_mask_hides_where_it_is_true_and_of_the_call_where_it_is_false():
    torch.manual_seed(0)
    attention, queries, memory = Attention(D), torch.randn(B, 3, D), torch.randn(B, S, D)
    energies = (queries @ memory.transpose(1, 2)).masked_fill(~MASK[:, None], -torch.inf)
    expected = energies.softmax(-1)
    output, weights = attention(queries, memory, mask=MASK)
    torch.testing.assert_close(weights, expected)
    torch.testing.assert_close(output, torch.tanh(attention.linear_out(torch.cat([expected @ memory, queries], -1))))
    for hidden in (~MASK, ~MASK[:, None], (~MASK[:, None]).expand(-1, 3, -1)):
        attention.set_mask(hidden)
        again, by_set_mask = attention(queries, memory)
        torch.testing.assert_close((again, by_set_mask), (output, weights))


def test_each_step_may_have_a_mask_of_its_own():
    torch.manual_seed(0)
    attention, queries, memory = Attention(D), torch.randn(B, 3, D), torch.randn(B, S, D)
    hidden = torch.rand(B, 3, S) < 0.5
    hidden[0, 0] = True  # nothing is left
    attention.set_mask(hidden)
    _, weights = attention(queries, memory)
    energies = (queries @ memory.transpose(1, 2)).masked_fill(hidden, -torch.inf)
    torch.testing.assert_close(weights, energies.softmax(-1).nan_to_num())
    assert not weights[0, 0].any()


def test_a_mask_of_the_last_batch_is_not_used_for_the_next():
    attention, queries, memory = Attention(D), torch.randn(B, 3, D), torch.randn(B, S, D)
    attention.set_mask(~MASK)
    attention(queries, memory)
    attention(queries[:, :1], memory)  # a further step over the same memory
    with pytest.raises(RegardError, match="used with another memory"):
        attention(queries, torch.randn(B, S, D))
    assert deepcopy(attention).mask is None
    attention.set_mask(None)
    assert attention(queries, torch.randn(B, S, D))[1].ne(0).all()


@pytest.mark.parametrize("search", [False, True], ids=["DecoderRNN", "TopKDecoder"])
def test_a_decoder_attends_where_set_mask_of_its_attention_allows(search):
    made, given = decoder(), encoded()
    model = TopKDecoder(made, 2) if search else made
    expected = torch.stack(model(**given, mask=MASK)[0])
    made.attention.set_mask(~MASK[:, None])
    assert torch.equal(torch.stack(model(**given)[0]), expected)
    with pytest.raises(RegardError, match="used with another memory"):
        model(**encoded())


@pytest.mark.parametrize(
    ("mask", "text"),
    [
        (MASK.long(), "bool"),
        (MASK[0], "bool"),
        (~MASK[:, :4], "disagree on"),
        (~MASK[:, None].expand(-1, 2, -1), "disagree on"),
    ],
)
def test_a_mask_that_does_not_fit_is_refused(mask, text):
    def attend():
        attention = Attention(D)
        attention.set_mask(mask)
        attention(torch.zeros(B, 3, D), torch.zeros(B, S, D))

    with pytest.raises(ShapeError, match=text):
        attend()


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_a_forced_pass_is_a_free_run_over_the_same_symbols(cell):
    made = decoder(cell)
    free, state, about = made(**encoded(cell), mask=MASK)
    assert len(free) == made.max_length
    symbols = torch.cat(about[made.KEY_SEQUENCE], 1)
    inputs = torch.cat([torch.full((B, 1), SOS), symbols], 1)
    forced, last, again = made(inputs, **encoded(cell), teacher_forcing_ratio=1, mask=MASK)
    torch.testing.assert_close(torch.stack(forced), torch.stack(free), rtol=0, atol=1e-12)
    torch.testing.assert_close(last, state, rtol=0, atol=1e-12)
    assert again[made.KEY_LENGTH] == about[made.KEY_LENGTH]
    for looks in (about, again):
        weights = torch.cat(looks[made.KEY_ATTN_SCORE], 1)
        assert weights.shape == (B, made.max_length, S)
        assert not weights[1, :, 3:].any()
    given, _, _ = made(inputs, **encoded(cell), mask=MASK)  # the first symbol is fed, the others are not
    torch.testing.assert_close(torch.stack(given), torch.stack(free), rtol=0, atol=1e-12)


def test_padding_changes_nothing():
    made, given = decoder(), encoded()
    whole, _, _ = made(**given, mask=MASK)
    memory = given["encoder_outputs"].clone()
    memory[1, 3:] = torch.nan
    poisoned, _, _ = made(**given | {"encoder_outputs": memory}, mask=MASK)
    alone, _, _ = made(encoder_hidden=given["encoder_hidden"][:, 1:], encoder_outputs=memory[1:, :3])
    assert torch.equal(torch.stack(poisoned), torch.stack(whole))
    torch.testing.assert_close(torch.stack(whole)[:, 1:], torch.stack(alone), rtol=0, atol=1e-12)


def test_lengths_count_the_end_symbol():
    made = decoder()
    said = torch.tensor([[3, EOS, 3, EOS], [EOS, 3, 3, 3], [3, 3, 3, 3], [3, 3, 3, EOS]])
    assert made._lengths(said) == [2, 1, 4, 4]


def test_the_batch_is_that_of_the_inputs_when_there_is_no_state():
    made = decoder(use_attention=False)
    outputs, _, about = made(torch.tensor([[SOS, 3, 4], [SOS, 4, 3], [SOS, 3, EOS]]), teacher_forcing_ratio=1)
    assert outputs[0].shape == (3, N)
    assert made.KEY_ATTN_SCORE not in about
    assert made()[0][0].shape == (1, N)
    assert decoder()(encoder_outputs=torch.zeros(3, S, D).double())[0][0].shape == (3, N)


def test_the_coin_of_teacher_forcing_is_thrown_once_a_batch():
    made, inputs = decoder(), torch.tensor([[SOS, 3, 3, 3, 3], [SOS, 4, 4, 4, 4]])
    passes = {ratio: torch.stack(made(inputs, **encoded(), teacher_forcing_ratio=ratio)[0]) for ratio in (0, 1)}
    random.seed(1)
    taken = [torch.stack(made(inputs, **encoded(), teacher_forcing_ratio=0.5)[0]) for _ in range(8)]
    random.seed(1)
    assert [torch.equal(each, passes[random.random() < 0.5]) for each in taken] == [True] * 8
    assert not torch.equal(passes[0], passes[1])


@pytest.mark.parametrize(
    ("options", "given", "error", "text"),
    [
        ({}, {"encoder_outputs": None}, ShapeError, "needs encoder_outputs; got None"),
        ({}, {"teacher_forcing_ratio": 0.5}, ConfigError, "teacher_forcing_ratio must be 0"),
        ({}, {"teacher_forcing_ratio": 1.5}, ConfigError, "it must be a probability"),
        ({}, {"inputs": torch.tensor([[SOS], [SOS]])}, ShapeError, "T ≥ 2"),
        ({}, {"inputs": torch.tensor([[SOS, 3]])}, ShapeError, "B of encoder_hidden"),
        ({}, {"encoder_outputs": torch.zeros(B, S, 2 * D).double()}, ShapeError, "hidden_size is then 2·D"),
        ({}, {"mask": MASK[:, :4]}, ShapeError, "mask"),
        ({"n_layers": 2}, {}, ShapeError, "L=2"),
        ({"cell": "lstm"}, {}, ShapeError, r"pair \(h, c\)"),
        ({}, {"encoder_hidden": (torch.zeros(1, B, D),) * 2}, ShapeError, "must be a tensor"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(options, given, error, text):
    with pytest.raises(error, match=text):
        decoder(**options)(**encoded() | given)


def test_parts_that_do_not_exist_are_refused():
    with pytest.raises(ConfigError, match="it must be lstm or gru"):
        decoder("rnn")
    with pytest.raises(ShapeError, match="N=5, D=4"):
        EncoderRNN(N, 7, D, embedding=torch.zeros(4, 4))


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_sequences_of_any_order_of_lengths_are_encoded_without_their_padding(cell):
    torch.manual_seed(0)
    encoder = EncoderRNN(N, 7, D, bidirectional=True, rnn_cell=cell, variable_lengths=True)
    ids = torch.tensor([[3, 4, 0], [4, 3, 3]])
    output, hidden = encoder(ids, [2, 3])
    alone, last = encoder(ids[:1, :2], [2])
    torch.testing.assert_close(output[:1, :2], alone)
    for whole, single in zip(*(x if cell == "lstm" else (x,) for x in (hidden, last))):
        torch.testing.assert_close(whole[:, :1], single)
    assert not output[0, 2].any()
    for lengths, text in ((None, "needs input_lengths"), ([0, 3], "at least 1"), ([2, 4], "between"), ([2], "B")):
        with pytest.raises(ShapeError, match=text):
            encoder(ids, lengths)
    with pytest.warns(UserWarning, match="variable_lengths=True"):
        EncoderRNN(N, 7, D)(ids, [2, 3])


def test_dropout_of_the_inputs_and_between_layers_are_two_settings():
    torch.manual_seed(0)
    encoder = EncoderRNN(N, 7, D, input_dropout_p=0.25, dropout_p=0.5, n_layers=2)
    made = decoder(input_dropout_p=0.25, dropout_p=0.5, n_layers=2)
    for part in (encoder, made):
        assert (part.input_dropout.p, part.rnn.dropout) == (0.25, 0.5)
    ids = torch.zeros(400, 1, dtype=torch.long)
    seen = []
    encoder.rnn.register_forward_pre_hook(lambda module, given: seen.append(given[0]))
    encoder.train()(ids)
    dropped = seen[0].eq(0).double().mean()
    assert 0.2 < dropped < 0.3
    torch.testing.assert_close(seen[0][seen[0] != 0].unique().numel(), D)


def test_a_frozen_embedding_is_not_trained():
    given = torch.randn(N, D)
    encoder = EncoderRNN(N, 7, D, embedding=given, update_embedding=False)
    assert torch.equal(encoder.embedding.weight, given)
    assert not encoder.embedding.weight.requires_grad


@pytest.mark.parametrize("search", [False, True], ids=["DecoderRNN", "TopKDecoder"])
def test_a_sentence_alone_is_the_sentence_in_a_batch(search):
    torch.manual_seed(0)
    encoder = EncoderRNN(9, 7, D // 2, bidirectional=True, variable_lengths=True).double()
    made = decoder(bidirectional=True)
    model = Seq2seq(encoder, TopKDecoder(made, 3) if search else made).eval()
    model.flatten_parameters()
    ids, lengths = torch.tensor([[3, 4, 0, 0], [4, 3, 5, 6]]), [2, 4]
    outputs, hidden, about = model(ids, lengths)
    alone, last, single = model(ids[:1, :2], [2])
    torch.testing.assert_close(torch.stack(outputs)[:, :1], torch.stack(alone), rtol=0, atol=1e-12)
    torch.testing.assert_close(hidden[:, :1], last, rtol=0, atol=1e-12)
    assert about["length"][0] == single["length"][0]
    weights = torch.cat([step[:1] for step in about["attention_score"]], 1)
    assert not weights[..., 2:].any()


def every_sequence(made, given, max_length):
    """All sequences that end, and then all that are stopped by the maximum length, with their log-probabilities."""
    ended, stopped = [], []
    for length in range(1, max_length + 1):
        for symbols in product(range(N), repeat=length):
            ends = symbols[-1] == EOS
            if EOS in symbols[:-1] or not (ends or length == max_length):
                continue
            inputs = torch.tensor([[SOS, *symbols]])
            outputs, _, _ = made(inputs, **given, teacher_forcing_ratio=1)
            total = sum(float(step[0, s].detach()) for step, s in zip(outputs, symbols))
            (ended if ends else stopped).append((total, list(symbols)))
    return sorted(ended, reverse=True) + sorted(stopped, reverse=True)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_a_wide_beam_finds_the_best_of_all_sequences(cell):
    made = decoder(cell, max_len=3)
    given = encoded(cell)
    found = TopKDecoder(made, 25)(**given, mask=MASK)[2]
    for sentence in range(B):
        hidden = given["encoder_hidden"]
        alone = {
            "encoder_hidden": tuple(h[:, sentence : sentence + 1] for h in hidden)
            if cell == "lstm"
            else hidden[:, sentence : sentence + 1],
            "encoder_outputs": given["encoder_outputs"][sentence : sentence + 1],
            "mask": MASK[sentence : sentence + 1],
        }
        expected = sorted(every_sequence(made, alone, 3)[:25], reverse=True)  # 21 end
        torch.testing.assert_close(found["score"][sentence].tolist(), [score for score, _ in expected])
        for rank, (_, symbols) in enumerate(expected):
            length = found["topk_length"][sentence][rank]
            assert [int(step[sentence, rank]) for step in found["topk_sequence"]][:length] == symbols
            assert length == len(symbols)


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_what_the_search_returns_is_a_pass_over_what_it_found(cell):
    made, k = decoder(cell), 3
    given = encoded(cell)
    outputs, hidden, about = TopKDecoder(made, k)(**given, mask=MASK)
    assert len(outputs) == len(about["output"]) == len(about["h_t"]) == made.max_length
    for rank in range(k):
        symbols = torch.cat([step[:, rank] for step in about["topk_sequence"]], 1)
        inputs = torch.cat([torch.full((B, 1), SOS), symbols], 1)
        forced, _, looks = made(inputs, **given, teacher_forcing_ratio=1, mask=MASK)
        mine = torch.stack([step[:, rank] for step in about["output"]])
        torch.testing.assert_close(mine, torch.stack(forced), rtol=0, atol=1e-12)
        weights = torch.stack([step[:, rank] for step in about["attention_score"]], 1)
        torch.testing.assert_close(weights, torch.cat(looks["attention_score"], 1), rtol=0, atol=1e-12)
        said = mine.gather(2, symbols.T[..., None])[..., 0]
        for sentence in range(B):
            length = about["topk_length"][sentence][rank]
            torch.testing.assert_close(said[:length, sentence].sum(), about["score"][sentence, rank])
    assert about["score"].diff(dim=1).le(0).all()
    assert about["length"] == [lengths[0] for lengths in about["topk_length"]]
    best = torch.cat(about["sequence"], 1)
    assert torch.equal(best, torch.cat([step[:, 0] for step in about["topk_sequence"]], 1))
    torch.testing.assert_close(torch.stack(outputs), torch.stack([step[:, 0] for step in about["output"]]))
    for state, steps in zip(*((hidden, list(zip(*about["h_t"]))) if cell == "lstm" else ((hidden,), [about["h_t"]]))):
        for sentence, length in enumerate(about["length"]):
            torch.testing.assert_close(state[:, sentence], steps[length - 1][:, sentence, 0])
    torch.stack(outputs).sum().backward()
    assert made.out.weight.grad.ne(0).any()


def test_a_beam_of_one_is_the_free_run():
    made, given = decoder(), encoded()
    _, _, greedy = made(**given, mask=MASK)
    _, _, found = TopKDecoder(made, 1)(**given, mask=MASK)
    assert found["length"] == greedy["length"]
    for sentence, length in enumerate(found["length"]):
        mine, other = (torch.cat(about["sequence"], 1)[sentence, :length] for about in (found, greedy))
        assert torch.equal(mine, other)


def test_the_search_says_what_it_does_not_do():
    made = TopKDecoder(decoder(), 3)
    with pytest.raises(UnsupportedError, match="in a beam search it must be 0"):
        made(torch.tensor([[SOS, 3]] * B), **encoded(), teacher_forcing_ratio=1)
    outputs, _, about = made(torch.tensor([[SOS, 3, 4]] * B), **encoded(), retain_output_probs=False)
    assert outputs == about["output"] == []
    assert len(about["topk_sequence"]) == 2
    with pytest.raises(RegardError, match="log_softmax"):
        made(**encoded(), function=lambda logits, dim: logits.abs())
    few = TopKDecoder(decoder(max_len=1), 9)(**encoded())[2]
    assert few["topk_length"] == [[1] * 5 + [0] * 4] * B
    assert few["score"][:, 5:].isinf().all()


@pytest.mark.parametrize("k", [0, -1, 2.5])
def test_a_number_of_sequences_is_a_whole_number_above_0(k):
    with pytest.raises(ConfigError, match="it must be a whole number, 1 or more"):
        TopKDecoder(DecoderRNN(10, 7, 4, sos_id=1, eos_id=2), k)
