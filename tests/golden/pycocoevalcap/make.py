"""Scores of captions by the programs that define them.

Program: pycocoevalcap 1.2 (BLEU, ROUGE-L, its CIDEr, which is CIDEr-D; its tokenizer needs Java), and
vrama91/cider f281464 (CIDEr of the paper).

    git clone --no-checkout https://github.com/vrama91/cider && git -C cider checkout f281464 -- pyciderevalcap/cider
    python3.11 -m venv peers
    peers/bin/pip install numpy==2.4.6
    peers/bin/pip install --no-deps pycocoevalcap==1.2
    peers/bin/python tests/golden/pycocoevalcap/make.py cider/pyciderevalcap/cider/cider_scorer.py

The second program is Python 2: `iteritems` becomes `items` and `xrange` becomes `range`.

The set has 12 images with five references each. They are drawn from few words, so that n-grams recur within and across
images. Candidates are a reference, a changed one, one of another image, one word said many times, one word, nothing,
and a caption of which no word occurs elsewhere.
"""

from __future__ import annotations

import json
import random
import sys
import types
from pathlib import Path

from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge
from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

FILE = Path(__file__).with_name("captions.json")
WORDS = {
    "one": ["a", "the", "one", "a small", "a large red", "an old"],
    "thing": ["dog", "cat", "man", "bicycle", "train", "umbrella", "girl in a coat"],
    "does": ["is", "stands", "waits", "sits", "runs", "is seen running"],
    "place": ["on", "near", "beside", "in front of", "under"],
}
TEXTS = [
    "A man's hat isn't red.",
    "The dogs' bowls: two of them are full!",
    "Don't stop; can't, won't -- I'm sure they'll've gone, he'd said...",
    "A black-and-white cat on a T-shirt - sits?",
    "At 3:30 p.m. the U.S. flag costs $1,000.50 & 20% more",
    '"Hello," said the 10-year-old boy, by his 2nd bike',
    "a café, naïve “quoted” ‘text’ – dash — long… end",
    "either/or a 3/4 view of a half-eaten pizza w/ cheese",
    "men's & women's 'quoted words'  here , and o'clock .",
]


def caption(draw: random.Random, topic: tuple[str, str]) -> str:
    """A caption about two things."""
    first, second = topic if draw.random() < 0.7 else topic[::-1]
    parts = [draw.choice(WORDS["one"]), first, draw.choice(WORDS["does"]), draw.choice(WORDS["place"])]
    return " ".join([*parts, draw.choice(WORDS["one"]), second][: draw.choice([2, 3, 6, 6, 6, 6])])


def made() -> tuple[list[str], list[list[str]]]:
    """Candidates and references."""
    draw = random.Random(14)
    references = []
    for _ in range(12):
        topic = tuple(draw.sample(WORDS["thing"], 2))
        references.append([caption(draw, topic) for _ in range(5)])
    candidates = [caption(draw, tuple(draw.sample(WORDS["thing"], 2))) for _ in references]
    candidates[0] = references[0][2]
    candidates[1] = references[1][0].rpartition(" ")[0] + " tree near a dog"
    candidates[2] = references[5][3]
    candidates[3] = " ".join([references[3][0].split()[-1]] * 7)
    candidates[4] = "dog"
    candidates[5] = ""
    candidates[6] = "seven purple zebras dance silently"
    candidates[7] = f"{references[7][1]} and {references[7][4]}"
    return candidates, references


def paper(path: str) -> type:
    """The class of the program that was published with the paper."""
    text = Path(path).read_text(encoding="utf-8").replace("iteritems", "items").replace("xrange", "range")
    module = types.ModuleType("cider_scorer")
    exec(compile(text, path, "exec"), vars(module))
    return module.CiderScorer


def main() -> None:
    """Writes the scores."""
    candidates, references = made()
    outputs = {i: [text] for i, text in enumerate(candidates)}
    targets = dict(enumerate(references))
    bleu, each_bleu = Bleu(4).compute_score(targets, outputs, verbose=0)
    rouge, each_rouge = Rouge().compute_score(targets, outputs)
    cider_d, each_cider_d = Cider().compute_score(targets, outputs)
    scorer = paper(sys.argv[1])()
    for output, texts in zip(candidates, references, strict=True):
        scorer += (output, texts)
    cider, each_cider = scorer.compute_score("corpus")
    names = ["bleu_1", "bleu_2", "bleu_3", "bleu_4", "rouge_l", "cider", "cider_d"]
    words = PTBTokenizer().tokenize({i: [{"caption": text}] for i, text in enumerate(TEXTS)})
    record = {
        "candidates": candidates,
        "references": references,
        "scores": dict(zip(names, map(float, [*bleu, rouge, cider, cider_d]), strict=True)),
        "each": {
            name: list(map(float, values))
            for name, values in zip(names, [*each_bleu, each_rouge, each_cider, each_cider_d], strict=True)
        },
        "words": [[text, words[i][0].split()] for i, text in enumerate(TEXTS)],
    }
    lines = [f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in record.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{FILE}  {FILE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
