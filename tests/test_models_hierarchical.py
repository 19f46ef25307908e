"""Classifiers of documents: loops over documents and sentences, padding at both levels, and nothing at all."""

from __future__ import annotations

import pytest
import torch

from regard import models
from regard.errors import ShapeError, UnsupportedError
from regard.layers import Dropout, RecurrentStack, TokenEmbedding
from regard.layers.items import ItemDraws, drawing, sites
from regard.models import Encoded, Pooling, hierarchical_attention, pooled_words
from regard.testing.mechanism import move_weights
from support import oracles
from support.cases import CLASSIFIERS

DOCUMENTS = [[[1, 2, 3], [4], [5, 6]], [[2, 2, 2, 6]], [[3, 1], [6, 5, 4, 3, 2]]]
every = pytest.mark.parametrize("case", CLASSIFIERS, ids=lambda case: case.name)


def moved(module):
    module = module.double().eval()
    move_weights(module)
    return module


def padded(documents, *, more_sentences=0, more_words=0, padding=0):
    """Ids and mask (B, S, W) of lists of lists."""
    sentences = max((len(document) for document in documents), default=0) + more_sentences
    words = max((len(words) for document in documents for words in document), default=0) + more_words
    ids = torch.full((len(documents), sentences, words), padding)
    mask = torch.zeros(ids.shape, dtype=torch.bool)
    for b, document in enumerate(documents):
        for s, row in enumerate(document):
            ids[b, s, : len(row)] = torch.tensor(row, dtype=torch.long)
            mask[b, s, : len(row)] = True
    return ids, mask


def pooled_by_loop(level, vectors):
    """The context and the weights (H, S) of one sequence of vectors (S, F)."""
    size = level.context_size
    outputs, stack = vectors, level.stack
    if not len(vectors):
        return torch.zeros(size, dtype=torch.float64), torch.zeros(1, 0, dtype=torch.float64)
    if stack is not None:
        outputs = torch.tensor(oracles.run_recurrent_stack(stack, vectors.tolist()), dtype=torch.float64)
    pooling = level.pooling
    if pooling.kind == "last":
        if not stack.bidirectional:
            return outputs[-1], None
        return torch.cat([outputs[-1, : stack.size], outputs[0, stack.size :]]), None
    if pooling.kind == "maximum":
        return outputs.amax(0), None
    if pooling.kind == "mean":
        return outputs.mean(0), torch.full((1, len(outputs)), 1 / len(outputs), dtype=torch.float64)
    score = pooling.attention.score
    heads, contexts = [], []
    for h, u in enumerate(score.context_vector):
        part = slice(h * len(u), (h + 1) * len(u))
        energies = [
            float(torch.tanh(score.key_projection.weight[part] @ x + score.key_projection.bias[part]) @ u)
            for x in outputs
        ]
        weights = torch.softmax(torch.tensor(energies, dtype=torch.float64), 0)
        heads.append(weights)
        contexts.append(sum(w * x for w, x in zip(weights, outputs, strict=True)))
    return torch.cat(contexts), torch.stack(heads)


def classified_by_loop(model, document):
    """Logits, the weights of each sentence's words and of the sentences, of one document as lists."""
    with torch.no_grad():
        table = model.embedding.table.weight
        if model.sentence is None:
            context, weights = pooled_by_loop(model.word, table[[w for words in document for w in words]])
            return model.head.weight @ context + model.head.bias, weights, None
        pooled = [pooled_by_loop(model.word, table[words]) for words in document if words]
        sentences = torch.stack([context for context, _ in pooled]) if pooled else torch.zeros(0, 1).double()
        context, weights = pooled_by_loop(model.sentence, sentences)
        return model.head.weight @ context + model.head.bias, [w for _, w in pooled], weights


@every
def test_a_batch_is_the_loop_over_its_documents_and_their_sentences(case):
    model = moved(case.make())
    output = model(*padded(DOCUMENTS, more_sentences=1, more_words=2))
    for b, document in enumerate(DOCUMENTS):
        logits, words, sentences = classified_by_loop(model, document)
        torch.testing.assert_close(output.logits[b], logits, rtol=0, atol=1e-10)
        if model.sentence is None:
            if words is None:
                assert output.word_weights is None
                continue
            start = 0
            for s, row in enumerate(document):
                part = words[:, start : start + len(row)]
                torch.testing.assert_close(output.alignments["word"][b, :, s, : len(row)], part, rtol=0, atol=1e-10)
                start += len(row)
            continue
        for s, row in enumerate(document):
            if words[s] is not None:
                found = output.alignments["word"][b, :, s, : len(row)]
                torch.testing.assert_close(found, words[s], rtol=0, atol=1e-10)
        if sentences is not None:
            found = output.alignments["sentence"][b, :, : len(document)]
            torch.testing.assert_close(found, sentences, rtol=0, atol=1e-10)


@every
def test_padding_has_no_weight_at_either_level(case):
    ids, mask = padded(DOCUMENTS, more_sentences=2, more_words=3, padding=5)
    output = moved(case.make())(ids, mask)
    if (words := output.word_weights) is not None:
        assert (words[~mask] == 0).all()
        assert (words[mask] > 0).all()
    if (sentences := output.sentence_weights) is not None:
        assert (sentences[~mask.any(-1)] == 0).all()
        torch.testing.assert_close(sentences.sum(1), torch.ones(3).double())


@every
def test_a_document_knows_neither_its_batch_nor_its_padding(case):
    model = moved(case.make())
    together = model(*padded(DOCUMENTS, more_sentences=2, more_words=3, padding=4))
    for b, document in enumerate(DOCUMENTS):
        alone = model(*padded([document]))
        torch.testing.assert_close(alone.logits[0], together.logits[b], rtol=0, atol=1e-12)
        for level, weights in alone.alignments.items():
            part = together.alignments[level][b][tuple(slice(size) for size in weights.shape[1:])]
            torch.testing.assert_close(weights[0], part, rtol=0, atol=1e-12)


@every
def test_a_sentence_without_words_is_no_sentence(case):
    model = moved(case.make())
    with_empty = [[[], *document[:1], [], [], *document[1:]] for document in DOCUMENTS]
    ids, mask = padded(with_empty)
    output, without = model(ids, mask), model(*padded(DOCUMENTS))
    torch.testing.assert_close(output.logits, without.logits, rtol=0, atol=1e-12)
    filled = mask.any(-1)
    for found, expected in (
        (output.sentence_weights, without.sentence_weights),
        (output.word_weights, without.word_weights),
    ):
        if found is not None:
            real = padded(DOCUMENTS)[1].any(-1)
            torch.testing.assert_close(found[filled], expected[real], rtol=0, atol=1e-12)
            assert (found[~filled] == 0).all()


@every
def test_padding_may_be_anywhere(case):
    model = moved(case.make())
    ids, mask = padded(DOCUMENTS, more_words=2)
    flipped = model(ids.roll(2, -1), mask.roll(2, -1))
    torch.testing.assert_close(flipped.logits, model(ids, mask).logits, rtol=0, atol=1e-12)


@every
@pytest.mark.parametrize("documents", [[[], [[1, 2], [3]]], [[], []], [[[]], [[], []]], []], ids=str)
def test_documents_without_words_have_a_context_of_zeros_and_finite_gradients(case, documents):
    model = moved(case.make())
    ids, mask = padded(documents, more_sentences=1)
    output = model(ids, mask)
    assert output.logits.shape == (len(documents), 3)
    for b, document in enumerate(documents):
        if not any(document):
            torch.testing.assert_close(output.logits[b], model.head.bias, rtol=0, atol=0)
            assert all((weights[b] == 0).all() for weights in output.alignments.values())
    for level, weights in output.alignments.items():
        assert weights.shape[2:] == (mask.shape[1:] if level == "word" else mask.shape[1:2])
    output.logits.sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in model.parameters())


@every
def test_gradients_are_those_of_finite_differences(case):
    model = moved(case.make())
    ids, mask = padded([[[1, 2], [], [3]], []])
    weights = [p.requires_grad_() for p in model.parameters()]
    assert torch.autograd.gradcheck(lambda *_: model(ids, mask).logits, weights, fast_mode=True)


@every
def test_a_classifier_saves_all_that_matters(case):
    model, other = moved(case.make()), case.make().double().eval()
    batch = padded(DOCUMENTS)
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(*batch).logits, model(*batch).logits)


@pytest.mark.parametrize("make", [hierarchical_attention, pooled_words])
def test_dropout_belongs_to_the_document_whatever_its_batch_padding_and_empty_sentences(make):
    torch.manual_seed(0)
    model = make(7, 3, embedding_size=4, size=3, num_layers=2, dropout=0.4).double()

    def run(documents, items, **options):
        with drawing(ItemDraws(sites(model), torch.tensor(items), seed=1, step=2)):
            return model(*padded(documents, **options)).logits

    together = run(DOCUMENTS, [40, 7, 23])
    assert not torch.equal(together, model.eval()(*padded(DOCUMENTS)).logits)
    model.train()
    for b, (document, item) in enumerate(zip(DOCUMENTS, [40, 7, 23], strict=True)):
        alone = run([[[], *document]], [item], more_sentences=2, more_words=1)
        torch.testing.assert_close(alone[0], together[b], rtol=0, atol=1e-12)
    again = run([DOCUMENTS[0]] * 2, [1, 2])
    assert not torch.equal(again[0], again[1])


def test_sentences_of_a_document_get_masks_of_their_own():
    draws = ItemDraws({}, torch.tensor([5, 6]), seed=1, step=2)
    parts = draws.divided(torch.tensor([0, 0, 1]), torch.tensor([0, 1, 0]))
    rows, positions = torch.tensor([0, 1, 2]), torch.zeros(3, dtype=torch.long)
    first, second, other = parts.sequence_mask(torch.zeros(len(rows), 64), 0.5, 3, (rows, positions))
    assert not torch.equal(first, second)
    assert not torch.equal(first, other)
    whole = draws.sequence_mask(torch.zeros(1, 64), 0.5, 3, (rows[:1], positions[:1]))
    assert torch.equal(first, whole[0])


def test_a_level_without_a_stack_ignores_what_is_embedded_at_padding():
    model = moved(pooled_words(7, 3, pooling="mean", cell="none"))
    model.embedding.table.weight.data[0] = 9.0
    ids, mask = padded(DOCUMENTS)
    alone = model(*padded(DOCUMENTS[:1]))
    torch.testing.assert_close(model(ids, mask).logits[:1], alone.logits, rtol=0, atol=1e-12)


def test_ids_and_masks_of_other_shapes_are_refused_with_a_way_out():
    model = hierarchical_attention(7, 3)
    with pytest.raises(ShapeError, match=r"S=3(.|\n)*ids\[:, None\]"):
        model(torch.ones(2, 3, dtype=torch.long), torch.ones(2, 3, dtype=torch.bool))
    with pytest.raises(ShapeError, match=r"mask +\(B=2, S=3, W=3\) bool"):
        model(torch.ones(2, 3, 4, dtype=torch.long), torch.ones(2, 3, 3, dtype=torch.bool))
    with pytest.raises(ShapeError, match="int64"):
        model(torch.ones(2, 3, 4, dtype=torch.long), torch.ones(2, 3, 4, dtype=torch.long))


def test_poolings_that_cannot_be_are_refused():
    with pytest.raises(UnsupportedError, match="'median'"):
        Pooling("median", 4)
    with pytest.raises(UnsupportedError, match="num_heads=2"):
        Pooling("mean", 4, num_heads=2)
    with pytest.raises(UnsupportedError, match="last states"):
        Pooling("last", 4)(Encoded(torch.zeros(1, 2, 4)))
    with pytest.raises(UnsupportedError, match="recurrent stack"):
        pooled_words(7, 3, pooling="last", cell="none")


def test_pooling_takes_memories_without_a_mask():
    memory = torch.randn(2, 3, 4)
    mask = torch.ones(2, 3, dtype=torch.bool)
    for kind in ("mean", "maximum", "attention"):
        pooling = Pooling(kind, 4)
        with_mask, without = pooling(Encoded(memory, mask)), pooling(Encoded(memory))
        torch.testing.assert_close(without.context, with_mask.context)


def test_the_paper_s_sizes_are_the_defaults():
    model = hierarchical_attention(1000, 5)
    assert isinstance(model.embedding, TokenEmbedding)
    assert isinstance(model.word.stack, RecurrentStack)
    assert (model.embedding.size, model.word.stack.cell, model.word.stack.size) == (200, "gru", 50)
    assert (model.word.context_size, model.sentence.context_size, model.head.out_features) == (100, 100, 5)
    assert isinstance(models.DocumentOutput(torch.zeros(1, 2)).word_weights, type(None))


@every
@pytest.mark.parametrize("documents", [DOCUMENTS, [[], *DOCUMENTS, []]], ids=["words in all", "some without words"])
def test_documents_are_read_in_place_as_without_their_padding(case, documents):
    model = moved(case.make()).train()
    if model.sentence is None:
        documents = [[[word for words in document for word in words]] for document in documents]
    batch = padded(documents, more_sentences=model.sentence is not None, more_words=2, padding=4)
    for part in model.modules():
        if isinstance(part, Dropout):
            part.p = 0.3
    results = []
    for in_place in (False, True):
        with drawing(ItemDraws(sites(model), torch.arange(len(documents)) + 5, seed=1, step=2)):
            output = model(*batch, in_place=in_place)
        results.append((output, torch.autograd.grad(output.logits.square().sum(), list(model.parameters()))))
    (output, gradients), (found, found_gradients) = results
    torch.testing.assert_close(found.logits, output.logits, rtol=0, atol=1e-12)
    assert found.alignments.keys() == output.alignments.keys()
    for level, weights in output.alignments.items():
        torch.testing.assert_close(found.alignments[level], weights, rtol=0, atol=1e-12)
    for gradient, other in zip(gradients, found_gradients, strict=True):
        torch.testing.assert_close(other, gradient, rtol=0, atol=1e-11)
