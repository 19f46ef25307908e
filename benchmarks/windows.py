"""Milliseconds of looking at the positions of a window alone, and at all positions, side by side.

    python benchmarks/windows.py --threads 1

The two forms give the same (`Mechanism(..., narrow=...)`); the last column is how many times faster the narrow one is,
and `taken` what a mechanism chooses by itself. Prints a Markdown table with the machine and the versions: a results
file is this output and a sentence.
"""

from __future__ import annotations

import argparse
import copy
import platform
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from regard import __version__
from regard.attention import ArgmaxWindow, Mechanism, SlidingWindow, bahdanau, luong, multi_head

SIZE = 128
RECIPES = {
    "bahdanau": bahdanau,
    "luong general": luong,
    "multi_head, 4 heads": lambda **options: multi_head(**options, size=SIZE, num_heads=4),
}


@dataclass(frozen=True)
class Task:
    """T steps over B sources of S positions, with K hypotheses for each.

    Args:
        follows: whether the window follows attention, so that steps are taken one by one; else `forward` takes all at
            once.
        trains: forward and backward, the keys made anew, as in training.
    """

    name: str
    positions: int = 2000
    width: int = 8
    steps: int = 1
    sentences: int = 8
    hypotheses: int = 1
    follows: bool = True
    trains: bool = False

    def window(self, num_heads: int) -> ArgmaxWindow | SlidingWindow:
        """About half behind, half before."""
        back, front = self.width // 2, self.width - 1 - self.width // 2
        if self.follows:
            return ArgmaxWindow(back=back, front=front, num_heads=num_heads)
        return SlidingWindow(back=back, front=front)


TASKS = (
    Task("a step"),
    Task("a step of a beam of 5", hypotheses=5),
    Task("200 steps", steps=200),
    Task("200 steps at once", steps=200, follows=False),
    Task("training, 200 steps at once", steps=200, follows=False, trains=True, sentences=2),
    Task("a step, S=200", positions=200),
    Task("a step, S=200, W=40", positions=200, width=40),
    Task("a step, W=500", width=500),
    Task("200 steps at once, S=200, W=40", steps=200, positions=200, width=40, follows=False),
)


def alternate(calls: dict[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median milliseconds of each call, taken in turns so that both see the same machine; two turns do not count."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(repeats + 2):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            if turn >= 2:
                times[name].append(1000 * (time.perf_counter() - start))
    return {name: statistics.median(seen) for name, seen in times.items()}


def look(mechanism: Mechanism, task: Task) -> Callable[[], object]:
    """The task, the same numbers each time."""
    draw = torch.Generator().manual_seed(0)
    values = torch.randn(task.sentences, task.positions, SIZE, generator=draw)
    queries = torch.randn(task.sentences * task.hypotheses, task.steps, SIZE, generator=draw)
    if task.trains:
        return lambda: mechanism(queries, mechanism.prepare(values))[0].context.sum().backward()
    with torch.no_grad():
        memory = mechanism.prepare(values)
        state = mechanism.initial_state(memory, task.hypotheses)

    @torch.no_grad()
    def run() -> None:
        mechanism(queries, memory, state)

    return run


def compare(recipe: Callable[..., Mechanism], task: Task, repeats: int) -> str:
    """A row of the table."""
    num_heads = recipe(query_size=SIZE, memory_size=SIZE).num_heads
    free = recipe(query_size=SIZE, memory_size=SIZE, window=task.window(num_heads))
    forms = {}
    for name, narrow in (("narrow", True), ("full", False)):
        forms[name] = copy.copy(free)
        forms[name].narrow = narrow
    times = alternate({name: look(form, task) for name, form in forms.items()}, repeats)
    rows = task.hypotheses * (1 if task.follows else task.steps)
    taken = free.explain(free.prepare(torch.zeros(1, task.positions, SIZE)), rows_per_sentence=rows).split(":")[0]
    gain = times["full"] / times["narrow"]
    return f"{times['narrow']:.2f} | {times['full']:.2f} | {taken} | {gain:.1f}"


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--repeats", type=int, default=9)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    print(
        f"regard {__version__}, torch {torch.__version__}, Python {platform.python_version()}, "
        f"threads {options.threads}, {platform.machine()}\n"
        f"float32, features {SIZE}, 8 sentences (training: 2), S=2000 and W=8 by default; "
        f"median of {options.repeats}, forms in turns\n\n"
        "| mechanism | what | narrow, ms | full, ms | taken | full / narrow |\n|---|---|---|---|---|---|"
    )
    for name, recipe in RECIPES.items():
        for task in TASKS:
            print(f"| {name} | {task.name} | {compare(recipe, task, options.repeats)} |", flush=True)


if __name__ == "__main__":
    main()
