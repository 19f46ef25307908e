"""Scores of captions: against the programs that define them, and against their equations in plain loops."""

from __future__ import annotations

import itertools
import json
import math
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden.archive import FOLDER
from regard.errors import RegardError
from regard.metrics import caption_scores, caption_words, each_caption_scores, edit_distance, expression_rates
from regard.metrics.captions import longest_common_subsequence

GOLDEN = json.loads((FOLDER / "pycocoevalcap" / "captions.json").read_text(encoding="utf-8"))
CANDIDATES, REFERENCES = GOLDEN["candidates"], GOLDEN["references"]

sentences = st.lists(st.sampled_from("abcd"), min_size=1, max_size=7)


def test_scores_are_those_of_the_programs_that_define_them():
    assert caption_scores(CANDIDATES, REFERENCES) == pytest.approx(GOLDEN["scores"], abs=1e-12)
    assert all(len(texts) == 5 for texts in REFERENCES)


@pytest.mark.parametrize("name", sorted(GOLDEN["each"]))
def test_scores_of_each_image_are_those_of_the_programs_that_define_them(name):
    scores = each_caption_scores(CANDIDATES, REFERENCES)
    assert list(scores) == list(GOLDEN["scores"])
    assert scores[name].tolist() == pytest.approx(GOLDEN["each"][name], abs=1e-12)
    if not name.startswith("bleu"):
        assert scores[name].mean() == pytest.approx(GOLDEN["scores"][name], abs=1e-12)


def test_words_are_those_of_the_tokenizer_of_coco():
    for text, words in GOLDEN["words"]:
        assert caption_words(text) == words


@pytest.mark.parametrize(
    "words",
    [["un", "café", "crème"], ["naïve", "façade"], ["नमस्ते", "दुनिया"], ["كَلْب", "صَغِير"], ["l̲ine", "u.s.", "q̃"]],
    ids=" ".join,
)
def test_marks_of_letters_are_parts_of_their_words_in_every_form_of_unicode(words):
    for form in ("NFC", "NFD"):
        text = unicodedata.normalize(form, " ".join(words) + ".")
        assert caption_words(text) == [unicodedata.normalize("NFC", word) for word in words]


def test_the_same_letters_in_two_forms_of_unicode_are_the_same_caption():
    text = "un café crème près de l'église"
    assert caption_scores([text], [[unicodedata.normalize("NFD", text)]])["bleu_4"] == pytest.approx(1)


def test_clitics_of_numbers_are_apart():
    assert caption_words("A 1990's car, and 2's") == ["a", "1990", "'s", "car", "and", "2", "'s"]


def test_words_may_be_given_and_are_taken_as_they_are():
    divided = [text.split() for text in CANDIDATES], [[text.split() for text in texts] for texts in REFERENCES]
    assert caption_scores(*divided) == caption_scores(CANDIDATES, REFERENCES)
    assert caption_scores([["A", "."]], [["a"]])["bleu_1"] < 1e-6
    assert caption_scores([("A", ".")], [[("A", ".")]])["rouge_l"] == 1


@given(sentences, sentences)
def test_the_common_subsequence_is_the_longest_of_all(first, second):
    def is_part(words):
        rest = iter(second)
        return all(word in rest for word in words)

    subsequences = (words for n in range(len(first) + 1) for words in itertools.combinations(first, n))
    longest = max(len(words) for words in subsequences if is_part(words))
    assert longest_common_subsequence(first, second) == longest == longest_common_subsequence(second, first)


def grams_of(words, n):
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


def rarity(gram, corpus):
    images = sum(any(gram in grams_of(words, len(gram)) for words in texts) for texts in corpus)
    return math.log(len(corpus) / max(1, images))


def cider_by_loops(candidate, references, corpus, *, clipped):
    """The equations of Vedantam et al. 2015, sections 4 and 6, of one image."""
    total = 0.0
    for n in (1, 2, 3, 4):
        for reference in references:
            ours, theirs = grams_of(candidate, n), grams_of(reference, n)
            every = sorted({*ours, *theirs})
            a = [ours.count(gram) * rarity(gram, corpus) for gram in every]
            b = [theirs.count(gram) * rarity(gram, corpus) for gram in every]
            size = math.hypot(*a) * math.hypot(*b)
            if size:
                product = sum((min(x, y) if clipped else x) * y for x, y in zip(a, b, strict=True))
                gap = len(candidate) - len(reference)
                total += product / size * (math.exp(-(gap**2) / 72) if clipped else 1) / len(references)
    return 10 * total / 4


@given(st.lists(st.tuples(sentences, st.lists(sentences, min_size=1, max_size=3)), min_size=1, max_size=4))
def test_cider_follows_its_equations(images):
    candidates, references = map(list, zip(*images, strict=True))
    scores = each_caption_scores(candidates, references)
    for i, (candidate, texts) in enumerate(images):
        for name, clipped in (("cider", False), ("cider_d", True)):
            expected = cider_by_loops(candidate, texts, references, clipped=clipped)
            assert scores[name][i] == pytest.approx(expected, abs=1e-9)


def test_rare_n_grams_may_be_those_of_other_references():
    part = caption_scores(CANDIDATES[:4], REFERENCES[:4], frequencies=REFERENCES)
    every = each_caption_scores(CANDIDATES, REFERENCES)
    assert part["cider_d"] == pytest.approx(every["cider_d"][:4].mean())
    assert part["cider"] == pytest.approx(every["cider"][:4].mean())
    assert part["cider_d"] != pytest.approx(caption_scores(CANDIDATES[:4], REFERENCES[:4])["cider_d"])


def test_repeating_a_rare_word_gains_with_cider_and_not_with_cider_d():
    references = [["a striped zebra"], ["a dog"], ["a cat"]]
    once, often = (caption_scores([text, "a dog", "a cat"], references) for text in ("a zebra", "zebra " * 9))
    assert often["cider_d"] < once["cider_d"]


def test_a_caption_without_words_scores_nothing_and_counts():
    scores = caption_scores(["", "a red star"], [["a dog", "..."], ["a red star"]])
    assert scores["rouge_l"] == 0.5
    assert scores["bleu_1"] == pytest.approx(math.exp(1 - 3 / 3))  # 3 words; the nearest reference of "" has none
    assert caption_scores(["!"], [["a dog"]])["bleu_1"] == 0
    assert caption_scores(["!"], [["?"]])["rouge_l"] == 0


def test_scores_of_captions_that_equal_a_reference_are_the_best():
    scores = caption_scores([texts[1] for texts in REFERENCES], REFERENCES)
    assert all(scores[name] == pytest.approx(1) for name in ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l"))
    single = caption_scores([texts[0] for texts in REFERENCES], [texts[:1] for texts in REFERENCES])
    assert 5 < single["cider_d"] <= single["cider"] <= 10 + 1e-9


@pytest.mark.parametrize(
    ("candidates", "references", "options", "message"),
    [
        ([], [], {}, "at least one; got 0 outputs"),
        (["a"], [["a"], ["b"]], {}, "1 outputs and the references of 2 images"),
        (["a", "b"], [["a"], []], {}, "Image 1 has no reference"),
        (["a"], ["a"], {}, "must be a list, even a single one"),
        ("a", [["a"]], {}, "got a single text"),
        ([[1, 2]], [["a"]], {}, "got 1 as a word"),
        (["a"], [["a"]], {"frequencies": []}, "at least one image"),
        (["a"], [["a"]], {"frequencies": ["a"]}, "must be a list"),
    ],
)
def test_what_is_no_set_of_captions_is_refused(candidates, references, options, message):
    for function in (caption_scores, each_caption_scores):
        with pytest.raises(RegardError, match=message):
            function(candidates, references, **options)


@given(st.lists(st.tuples(sentences, st.lists(sentences, min_size=1, max_size=3)), min_size=1, max_size=6))
def test_expression_rates_count_the_nearest_reference(items):
    outputs, references = map(list, zip(*items, strict=True))
    rates = expression_rates(outputs, references)
    distances = [min(edit_distance(output, one) for one in texts) for output, texts in items]
    for name, most in (("exact", 0), ("within_1", 1), ("within_2", 2), ("within_3", 3)):
        assert rates[name] == sum(distance <= most for distance in distances) / len(items)
    assert rates["exact"] == sum(output in texts for output, texts in items) / len(items)
    as_texts = [" ".join(output) for output in outputs], [[" ".join(one) for one in texts] for texts in references]
    assert expression_rates(*as_texts) == rates


def test_expression_rates_of_a_made_set():
    rates = expression_rates(["x ^ 2", "x", "", "a b c d e"], [["x ^ 2"], ["y"], ["a b c", "a b"], ["a"]])
    assert rates == {"exact": 0.25, "within_1": 0.5, "within_2": 0.75, "within_3": 0.75, "symbol_error_rate": 7 / 7}
    with pytest.raises(RegardError, match="Item 1 has no reference"):
        expression_rates(["x", "y"], [["x"], []])
    with pytest.raises(RegardError, match="got 2 outputs"):
        expression_rates(["x", "y"], [["x"]])
    with pytest.raises(RegardError, match="got a single text"):
        expression_rates("xy", [["x"], ["y"]])
