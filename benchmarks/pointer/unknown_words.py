"""How many outputs are right of inputs with and without words that the vocabulary of outputs lacks.

python benchmarks/pointer/unknown_words.py FILE MODEL [MODEL ...]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import regard
from regard.data.text import ExtendedVocabulary


def main() -> None:
    """Prints a line for each model."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("models", nargs="+")
    options = parser.parse_args()
    for name in options.models:
        model = regard.load(name)
        vocabulary = ExtendedVocabulary(model.source, model.target)
        right, items = [0, 0], [0, 0]
        for scored in model.evaluate(options.file).scored:
            source = scored.item.source
            unknown = bool(set(vocabulary.extend(source).symbols) & set(scored.item.references[0].split()))
            items[unknown] += 1
            right[unknown] += scored.is_right
        shown = (f"{right[i]} of {items[i]} ({right[i] / max(items[i], 1):.1%})" for i in (1, 0))
        print("{}: {} with an unknown word are right, {} without".format(name, *shown))


if __name__ == "__main__":
    main()
