"""What each option of a beam search costs, turn by turn with the search without it.

    python benchmarks/search_options.py > options.md

All searches take the same number of steps: no output may end before its greatest length. The model is that of the case
`beam` of `bench.py`, with random weights, in float32 on one thread.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median, quantiles
from typing import Any

import torch
from speed.cases.models import build

from regard.data.text import BOS, EOS
from regard.decoding import Constraints, Search, SearchSource, search

SIZES = {"B": 16, "K": 6, "T": 30, "S": 30, "E": 256, "D": 256, "N": 5000}
OPTIONS: dict[str, dict[str, Any]] = {
    "length_penalty gnmt": {"length_penalty": "gnmt"},
    "no_repeat_ngram_size 3": {"no_repeat_ngram_size": 3},
    "repetition_penalty 1.2": {"repetition_penalty": 1.2},
    "unknown_penalty 1": {"unknown_penalty": 1.0},
    "eos_threshold 1.5": {"eos_threshold": 1.5},
    "attention_stop 5": {"attention_stop": 5},
    "coverage_penalty gnmt": {"coverage_penalty": "gnmt"},
    "coverage_penalty summary": {"coverage_penalty": "summary"},
    "stop patience": {"stop": "patience"},
    "num_groups 2": {"num_groups": 2},
    "num_groups 6": {"num_groups": 6},
}
CONSTRAINTS = {
    "prefix of 5": Constraints(prefix=[10, 11, 12, 13, 14]),
    "exclude, 3 of 1 to 3": Constraints(exclude=[[10], [11, 12], [13, 14, 15]]),
    "include, 1 of 1": Constraints(include=[[10]]),
    "include, 2 of 3": Constraints(include=[[10, 11, 12], [13, 14, 15]]),
    "include, 4 of 4": Constraints(include=[[i, i + 1, i + 2, i + 3] for i in range(10, 26, 4)]),
}


def searches() -> dict[str, Callable[[], Any]]:
    """By name, a call of the search with that option; the empty name has none."""
    B, K, T, S, E, D, N = SIZES.values()
    model = build(torch.float32, E, D, N).eval()
    ids = torch.randint(4, N, (B, S), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        memory = model.prepare(ids)

    def call(constraints: Constraints | None = None, **settings: Any) -> Callable[[], Any]:
        options = Search(**{"beam": K, "length_penalty": "none", "min_length": T, **settings})
        asked = None if constraints is None else [constraints] * B
        return lambda: search(
            model.decoder,
            memory,
            options,
            bos=BOS,
            eos=EOS,
            max_length=T,
            unk=3,
            source=SearchSource(ids),
            constraints=asked,
        )

    settings = {name: call(**values) for name, values in OPTIONS.items()}
    return {"": call(), **settings, **{name: call(value) for name, value in CONSTRAINTS.items()}}


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=15)
    turns = parser.parse_args().turns
    torch.set_num_threads(1)
    calls = searches()
    for each in calls.values():
        each()
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in calls if name}

    def timed(name: str) -> float:
        start = time.perf_counter()
        calls[name]()
        return time.perf_counter() - start

    for turn in range(turns):
        for name, pairs in seconds.items():
            order = ("", name) if turn % 2 else (name, "")
            taken = {each: timed(each) for each in order}
            pairs.append((taken[""], taken[name]))
    print("| option | with / without: median | quartiles |")
    print("|---|---|---|")
    for name, pairs in seconds.items():
        ratios = [with_option / without for without, with_option in pairs]
        low, _, high = quantiles(ratios, n=4, method="inclusive")
        print(f"| {name} | {median(ratios):.2f} | {low:.2f} to {high:.2f} |")
    print(f"\nWithout options: {1e3 * median(p[0] for pairs in seconds.values() for p in pairs):.0f} ms.")


if __name__ == "__main__":
    main()
