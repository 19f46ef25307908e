"""Pronunciation of words longer than in training: trained on words of up to 8 letters, tested on longer ones.

    python benchmarks/lengths/words.py g2p_multilingual --output runs/words [--languages dut,gre,bul]

FOLDER has LANG_train.tsv and LANG_dev.tsv (SIGMORPHON 2020, task 1), which are divided anew by the length of words;
every twelfth short word is held out. Trainings that are finished are not repeated, and interrupted ones continue.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import regard

LONGEST = 8
GROUPS = ((9, 10), (11, 12), (13, 15), (16, 99))
RECIPES = ("bahdanau", "location_sensitive", "forward_attention")


def divide(source: Path, language: str, folder: Path) -> dict[str, Path]:
    """Writes the short words (`train`, `dev`) and the groups of longer ones, by name."""
    lines = [
        line
        for part in ("train", "dev")
        for line in (source / f"{language}_{part}.tsv").read_text(encoding="utf-8").splitlines()
    ]

    def of(least: int, most: int) -> list[str]:
        return [line for line in lines if least <= len(line.split("\t")[0]) <= most]

    short = of(1, LONGEST)
    parts = {"train": [line for i, line in enumerate(short) if i % 12], "dev": short[::12]}
    parts |= {f"{least}-{most}": of(least, most) for least, most in GROUPS}
    folder.mkdir(parents=True, exist_ok=True)
    paths = {}
    for name, part in parts.items():
        if part:
            paths[name] = folder / f"{language}_{name}.tsv"
            paths[name].write_text("".join(f"{line}\n" for line in part), encoding="utf-8")
    return paths


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--languages", default="dut,gre,bul")
    parser.add_argument("--recipes", default=",".join(RECIPES))
    parser.add_argument("--seeds", default="1")
    options = parser.parse_args()
    for language in options.languages.split(","):
        paths = divide(options.folder, language, options.output / "data")
        for seed in options.seeds.split(","):
            for recipe in options.recipes.split(","):
                settings = {"seed": int(seed), "model.attention.recipe": recipe, "training.threads": 1}
                place = options.output / f"{language}-{recipe}-{seed}"
                run = regard.train("g2p", place, train=paths["train"], dev=paths["dev"], settings=settings, quiet=True)
                for name, path in paths.items():
                    if name != "train":
                        wrong = run.model.evaluate(path).metrics["sequence_error_rate"]
                        print(language, recipe, seed, name, f"{100 * wrong:.1f}", sep="\t", flush=True)


if __name__ == "__main__":
    main()
