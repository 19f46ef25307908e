"""BLEU, ROUGE-L, CIDEr and CIDEr-D of captions, as in the evaluation of COCO captions, without Java."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from regard.errors import RegardError
from regard.metrics.bootstrap import Array, MetricTerms, ratio_terms
from regard.metrics.edit_distance import check_outputs, check_references

Caption = str | Sequence[str]
"""A text, which `caption_words` tokenises, or its words."""
Gram = tuple[str, ...]
Vector = dict[Gram, float]

LONGEST = 4
"""The most words of an n-gram."""
BETA = 1.2
"""β of ROUGE-L, the importance of recall relative to precision."""
SIGMA = 6.0
"""The standard deviation, in words, of CIDEr-D's factor for lengths."""
SCALE = 10.0
"""The factor of CIDEr and CIDEr-D."""
TINY, SMALL = 1e-15, 1e-9
"""COCO's constants in BLEU, which are added to the counts of matching n-grams and of all n-grams."""

TOKEN = re.compile(
    r"(?:[^\W\d_]\.){2,}"  # abbreviations: u.s.
    r"|\d+(?:[.,:/]\d+)*(?:-?\w+(?:-\w+)*)?(?:['’]\w+)?"  # numbers: 3:30, 1,000.50, 2nd, 10-year-old, 1990's
    r"|\w+(?:[-/'’]\w+)*"
    r"|[^\w\s]"
)
CLITIC = re.compile(r"(.+?)(n't|'(?:s|re|ve|ll|d|m))")
PUNCTUATION = frozenset(".,:;?!…'‘’\"“”`´-–—()[]{}")


class CaptionScores(TypedDict):
    """BLEU and ROUGE-L from 0 to 1, CIDEr and CIDEr-D from 0 to 10; `cider_d` is pycocoevalcap's CIDEr."""

    bleu_1: float
    bleu_2: float
    bleu_3: float
    bleu_4: float
    rouge_l: float
    cider: float
    cider_d: float


def caption_words(text: str) -> list[str]:
    """The words of a caption: lower case, without punctuation, with English clitics (`'s`, `n't`, `'ll`) apart.

    COCO's evaluation applies Stanford's Java tokenizer of the Penn Treebank and removes punctuation. As there,
    compounds with hyphens, numbers (3:30) and abbreviations of letters (u.s.) are one word, and symbols such as & and %
    are words. Texts are normalised to the Unicode form NFC, and marks belong to the letter before them. Unlike there,
    brackets are removed (instead of the word -lrb-), mr. and st. lose their period, cannot and gonna stay one word, and
    web addresses are split.

    >>> caption_words("A man's black-and-white dog (left) isn't running, at 3:30 p.m.!")
    ['a', 'man', "'s", 'black-and-white', 'dog', 'left', 'is', "n't", 'running', 'at', '3:30', 'p.m.']
    """
    text = unicodedata.normalize("NFC", text.lower())
    words: list[str] = []
    for match in TOKEN.finditer(_with_letters_for_marks(text)):
        token = text[match.start() : match.end()]
        if token in PUNCTUATION:
            continue
        clitics: list[str] = []
        token = token.replace("’", "'")
        while clitic := CLITIC.fullmatch(token):
            token = clitic[1]
            clitics.insert(0, clitic[2])
        words += [token, *clitics]
    return words


def _with_letters_for_marks(text: str) -> str:
    """A text of the same length with letters in place of marks after letters, which `re` does not count as letters."""
    if text.isascii():
        return text
    letters = list(text)
    for i, character in enumerate(text):
        if unicodedata.category(character)[0] == "M" and i and letters[i - 1].isalpha():
            letters[i] = "x"
    return "".join(letters)


def caption_scores(
    candidates: Sequence[Caption],
    references: Sequence[Sequence[Caption]],
    *,
    frequencies: Sequence[Sequence[Caption]] | None = None,
) -> CaptionScores:
    """BLEU 1 to 4, ROUGE-L, CIDEr and CIDEr-D of captions.

    With the same words they equal pycocoevalcap 1.2 (whose CIDEr is `cider_d`), and `cider` equals the program of the
    paper. BLEU is of all captions together, with the closest reference length (the shorter of two equally close ones);
    ROUGE-L, CIDEr and CIDEr-D are means over images. A caption without words has the score 0.

    Args:
        candidates: a caption of each image: a text or words.
        references: one or more captions of each image; the numbers may differ.
        frequencies: references of images for the document frequencies of CIDEr and CIDEr-D; `references` if None. With
            a single image both scores are 0.

    Raises:
        RegardError: for different numbers of candidates and images, no images, an image without a reference, or a text
            instead of a list of texts.

    Source: Papineni et al. 2002, BLEU; Lin 2004, ROUGE; Vedantam et al. 2015, CIDEr; Chen et al. 2015, Microsoft COCO
    Captions: Data Collection and Evaluation Server.

    >>> scores = caption_scores(
    ...     ["A red star above a ring.", "two blue rings"],
    ...     [["a red star above a ring", "a star over a ring"], ["two rings", "two blue rings"]],
    ... )
    >>> {name: round(score, 3) for name, score in scores.items()}
    {'bleu_1': 1.0, 'bleu_2': 1.0, 'bleu_3': 1.0, 'bleu_4': 1.0, 'rouge_l': 1.0, 'cider': 5.526, 'cider_d': 5.51}
    """
    images = _images(candidates, references)
    bleu = _bleu(np.sum([_counts(*image) for image in images], axis=0))
    rouge, cider, cider_d = _means_of(images, frequencies).mean(1).tolist()
    return cast(CaptionScores, dict(zip(NAMES, [*bleu, rouge, cider, cider_d])))


def each_caption_scores(
    candidates: Sequence[Caption],
    references: Sequence[Sequence[Caption]],
    *,
    frequencies: Sequence[Sequence[Caption]] | None = None,
) -> dict[str, NDArray[np.float64]]:
    """The scores of each image, (images,) by name; arguments and errors as in `caption_scores`.

    The means of `rouge_l`, `cider` and `cider_d` are the scores of all images, unlike those of BLEU: `bleu_4` of an
    image without a matching n-gram of four words is nearly 0.

    >>> each_caption_scores(["a b", "c"], [["a b"], ["d"]])["rouge_l"].tolist()
    [1.0, 0.0]
    """
    images = _images(candidates, references)
    bleu = np.array([_bleu(_counts(*image)) for image in images])
    return dict(zip(NAMES, [*bleu.T, *_means_of(images, frequencies)]))


NAMES = tuple(CaptionScores.__annotations__)


def caption_terms(candidates: Sequence[Caption], references: Sequence[Sequence[Caption]]) -> dict[str, MetricTerms]:
    """What each image adds to the sums from which its scores follow; arguments and errors as in `caption_scores`."""
    images = _images(candidates, references)
    counts = np.array([_counts(*image) for image in images], np.float64)
    bleu = {
        f"bleu_{n}": MetricTerms(counts, partial(_bleu_of_counts, n=n), larger_is_better=True)
        for n in range(1, LONGEST + 1)
    }
    means = zip(NAMES[LONGEST:], _means_of(images, None), strict=True)
    return {**bleu, **{name: ratio_terms(values, larger_is_better=True) for name, values in means}}


def _bleu_of_counts(counts: Array, n: int) -> Array:
    """As `_bleu`, of counts (..., 10)."""
    length, closest = counts[..., 0], counts[..., 1]
    precisions = (counts[..., 2 : 2 + n] + TINY) / (counts[..., 2 + LONGEST : 2 + LONGEST + n] + SMALL)
    ratio = (length + TINY) / (closest + SMALL)
    return np.asarray(precisions.prod(-1) ** (1 / n) * np.exp(np.minimum(0.0, 1 - 1 / ratio)))


@dataclass(frozen=True, slots=True)
class _Counted:
    """The words of a caption, and the counts of its n-grams, for n = 1 … 4."""

    words: tuple[str, ...]
    grams: tuple[Counter[Gram], ...]


Image = tuple[_Counted, list[_Counted]]
"""The candidate and the references of an image."""


def _images(candidates: Sequence[Caption], references: Sequence[Sequence[Caption]]) -> list[Image]:
    check_outputs(candidates, references, "image")
    return [(_counted(one), [_counted(text) for text in texts]) for one, texts in zip(candidates, references)]


def _counted(caption: Caption) -> _Counted:
    words = tuple(caption_words(caption) if isinstance(caption, str) else caption)
    wrong = next((word for word in words if not isinstance(word, str)), None)
    if wrong is not None:
        raise RegardError(f"A caption must be a text or a list of words; got {wrong!r} as a word of {caption!r}.")
    grams = (Counter(zip(*(words[i:] for i in range(n)))) for n in range(1, LONGEST + 1))
    return _Counted(words, tuple(grams))


def _counts(candidate: _Counted, references: list[_Counted]) -> NDArray[np.int64]:
    """(10,) the counts of BLEU: words, words of the closest reference, matching n-grams, all n-grams.

    Each n-gram matches at most its largest count in a reference.
    """
    length = len(candidate.words)
    closest = min((abs(len(one.words) - length), len(one.words)) for one in references)[1]
    matching = [
        sum(min(count, max(one.grams[n][gram] for one in references)) for gram, count in grams.items())
        for n, grams in enumerate(candidate.grams)
    ]
    return np.array([length, closest, *matching, *(max(0, length - n) for n in range(LONGEST))], np.int64)


def _bleu(counts: NDArray[np.int64]) -> list[float]:
    """BLEU 1 to 4: geometric means of precisions, times exp(1 - reference length / length) if the length is shorter."""
    length, closest = counts[:2].tolist()
    matching, total = counts[2 : 2 + LONGEST], counts[2 + LONGEST :]
    products = np.cumprod((matching + TINY) / (total + SMALL))
    ratio = (length + TINY) / (closest + SMALL)
    penalty = math.exp(1 - 1 / ratio) if ratio < 1 else 1.0
    return [float(product) ** (1 / n) * penalty for n, product in enumerate(products, start=1)]


def _means_of(images: list[Image], frequencies: Sequence[Sequence[Caption]] | None) -> NDArray[np.float64]:
    """(3, images) ROUGE-L, CIDEr and CIDEr-D."""
    corpus = [references for _, references in images]
    if frequencies is not None:
        if not len(frequencies):
            raise RegardError("The frequencies of n-grams need the references of at least one image; got none.")
        check_references(frequencies, "image")
        corpus = [[_counted(text) for text in texts] for texts in frequencies]
    weigh = _Rarity(corpus)
    return np.array([(_rouge(*image), *_ciders(*image, weigh)) for image in images]).T


def _rouge(candidate: _Counted, references: list[_Counted]) -> float:
    """(1 + β²) P R / (R + β² P) with the largest precision and the largest recall over the references."""
    if not candidate.words:
        return 0.0
    common = [longest_common_subsequence(candidate.words, one.words) for one in references]
    precision = max(common) / len(candidate.words)
    recall = max(length / len(one.words) if one.words else 0.0 for length, one in zip(common, references))
    if not precision or not recall:
        return 0.0
    return (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision)


def longest_common_subsequence(first: Sequence[str], second: Sequence[str]) -> int:
    """The length of the longest common subsequence.

    Cost: one pass over `second` with bit operations on integers of `len(first)` bits.

    Source: Hyyrö 2004, Bit-Parallel LCS-length Computation Revisited.

    >>> longest_common_subsequence("a red star over a ring".split(), "a star and a red ring".split())
    4
    """
    occurrences: dict[str, int] = {}
    for i, word in enumerate(first):
        occurrences[word] = occurrences.get(word, 0) | 1 << i
    full = (1 << len(first)) - 1
    row = full  # the bits of steps in the table's column are 0
    for word in second:
        matched = row & occurrences.get(word, 0)
        row = ((row + matched) | (row - matched)) & full
    return len(first) - row.bit_count()


class _Rarity:
    """Weights of n-grams: the count in a caption, times ln(N / the number of the N images with this n-gram)."""

    def __init__(self, corpus: Sequence[Iterable[_Counted]]) -> None:
        self.images = Counter(
            gram
            for references in corpus
            for gram in {gram for one in references for grams in one.grams for gram in grams}
        )
        self.most = math.log(len(corpus))

    def __call__(self, caption: _Counted) -> tuple[list[Vector], list[float]]:
        """For n = 1 … 4: the weight of each n-gram, and their Euclidean norm."""
        vectors = [
            {gram: count * (self.most - math.log(max(1, self.images[gram]))) for gram, count in grams.items()}
            for grams in caption.grams
        ]
        return vectors, [math.sqrt(math.fsum(weight * weight for weight in vector.values())) for vector in vectors]


def _ciders(candidate: _Counted, references: list[_Counted], weigh: _Rarity) -> tuple[float, float]:
    """CIDEr and CIDEr-D of an image: 10 times the mean, over references and n, of the cosines of weights.

    CIDEr-D limits the candidate's weights to the reference's, so that repetitions of a rare word do not count, and
    multiplies each cosine by exp(-(difference of lengths)² / (2 σ²)).
    """
    vectors, norms = weigh(candidate)
    plain = clipped = 0.0
    for reference in references:
        others, other_norms = weigh(reference)
        factor = math.exp(-((len(candidate.words) - len(reference.words)) ** 2) / (2 * SIGMA**2))
        for vector, other, norm in zip(vectors, others, (a * b for a, b in zip(norms, other_norms))):
            if norm:
                common = [(weight, other[gram]) for gram, weight in vector.items() if gram in other]
                plain += sum(a * b for a, b in common) / norm
                clipped += factor * sum(min(a, b) * b for a, b in common) / norm
    scale = SCALE / (LONGEST * len(references))
    return plain * scale, clipped * scale
