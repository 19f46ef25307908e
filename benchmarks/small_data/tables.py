"""The log as Markdown: error rates in per cent of words, means over seeds, macro averages over languages."""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

from ledger import Ledger, training_of
from plan import CHANGED, THEMES, Training, trainings
from speed.report import table

Entries = dict[Training, dict[str, Any]]
SHOWN = (("dev", "greedy"), ("dev", "beam"), ("test", "greedy"), ("test", "beam"))
COLUMNS = ("trainings", *(f"{part}, {search}" for part, search in SHOWN), "CPU seconds", "best step", "steps")


def all_tables(plan: dict[str, Any], ledger: Ledger) -> str:
    """A section for every theme that the log has something of."""
    newest = {training_of(entry).key: entry for entry in ledger.entries() if "error" not in entry}
    parts = []
    for theme in (name for name in THEMES if name in plan):
        wanted = sections_of(plan, theme, newest)
        if not wanted:
            continue
        draw = {"grid": grid, "curves": curves, "peers": curves}.get(theme, languages)
        parts += [f"## {theme.capitalize()}", draw(wanted), summary(wanted.values())]
    return "\n\n".join(parts)


def sections_of(plan: dict[str, Any], theme: str, newest: Entries) -> Entries:
    """The results of a theme's trainings, whatever theme, seed and `--set` they were made with.

    Regard's curves stand beside the peers'.
    """
    themes = [theme, "curves"] if theme == "peers" and "curves" in plan else [theme]
    planned = {_place(one) for theme in themes for one in trainings(plan, theme)}
    found = {training_of(entry): entry for entry in newest.values()}
    return {one: entry for one, entry in found.items() if _place(one) in planned}


def _place(one: Training) -> tuple[object, ...]:
    return one.program, one.preset, one.language, one.pairs, one.setting.partition(CHANGED)[0]


def languages(found: Entries) -> str:
    """A row a language and a setting, and the means of settings."""
    rows = [[*names, *_cells(entries)] for names, entries in grouped(found, lambda one: (one.language, one.setting))]
    rows += [["**mean**", *names, *_cells(entries)] for names, entries in grouped(found, lambda one: (one.setting,))]
    return table(["language", "setting", *COLUMNS], rows)


def grid(found: Entries) -> str:
    """A row a setting."""
    rows = [[*names, *_cells(entries)] for names, entries in grouped(found, lambda one: (one.setting,))]
    return table(["setting", *COLUMNS], rows)


def curves(found: Entries) -> str:
    """A row a program and language, a column a number of pairs: wrong dev words, with the seconds of training."""
    counts = sorted({one.pairs for one in found}, key=lambda count: count or float("inf"))
    head = ["program", "setting", "language", *(f"{count:,} pairs" if count else "all pairs" for count in counts)]
    rows = []
    for names, _ in grouped(found, lambda one: (one.program, one.setting, one.language)):
        cells = []
        for count in counts:
            own = [
                e for one, e in found.items() if (one.program, one.setting, one.language, one.pairs) == (*names, count)
            ]
            search = next((name for name in ("beam", "best", "greedy") if own and name in own[0]["dev"]), "")
            cells.append(f"{_macro(own, 'dev', search)} ({_mean(own, 'cpu'):.0f} s)" if own else "")
        rows.append([*names, *cells])
    return table(head, rows)


def summary(entries: Iterable[dict[str, Any]]) -> str:
    """Which versions made the figures, and when."""
    made = defaultdict(list)
    for entry in entries:
        made[f"{entry['program']} {entry['version']}"].append(entry["date"])
    said = "; ".join(f"{name}, {len(dates)} trainings, {min(dates)} to {max(dates)}" for name, dates in made.items())
    return f"{said}. Percentages of wrong words; ± is the standard deviation over seeds of the mean over languages."


def grouped(
    found: Entries, key: Callable[[Training], tuple[Any, ...]]
) -> list[tuple[tuple[Any, ...], list[dict[str, Any]]]]:
    """Results that share something, in order of what they share."""
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = defaultdict(list)
    for one, entry in found.items():
        groups[key(one)].append(entry)
    return sorted(groups.items())


def _cells(entries: Sequence[dict[str, Any]]) -> list[object]:
    rates = [_macro(entries, part, search) for part, search in SHOWN]
    steps = [(entry["best_step"], entry["steps"]) for entry in entries if entry.get("best_step")]
    best, last = (statistics.mean(numbers) for numbers in zip(*steps)) if steps else (0, 0)
    return [len(entries), *rates, f"{_mean(entries, 'cpu'):.0f}", f"{best:,.0f}", f"{last:,.0f}"]


def _macro(entries: Sequence[dict[str, Any]], part: str, search: str) -> str:
    """Of each seed the mean over languages; of these the mean and, of several, the standard deviation.

    A seed counts if it has as many languages as the seed that has most.
    """
    seeds: dict[int, list[float]] = defaultdict(list)
    for entry in entries:
        if search in entry.get(part, {}):
            seeds[entry["seed"]].append(100 * entry[part][search]["words"])
    most = max(map(len, seeds.values()), default=0)
    whole = [statistics.mean(rates) for rates in seeds.values() if len(rates) == most]
    if not whole:
        return ""
    return f"{statistics.mean(whole):.2f}" + (f" ± {statistics.stdev(whole):.2f}" if len(whole) > 1 else "")


def _mean(entries: Sequence[dict[str, Any]], field: str) -> float:
    return statistics.mean(entry[field] for entry in entries)
