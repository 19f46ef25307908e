"""Which trainings there are: one for every language, number of pairs, setting and seed of a theme."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

REGARD = "regard"
CHANGED = "; "
"""Between the name of a setting and what was changed beside it."""
THEMES = ("languages", "students", "grid", "inflection", "curves", "peers")
TOGETHER, STUDENT = "together", "student"
"""The settings of several models that predict together, and of the model that learns from them."""


@dataclass(frozen=True, slots=True)
class Training:
    """One training.

    Args:
        theme: what it belongs to.
        program: regard, or a peer and its model.
        language: names the files.
        pairs: of training data; None takes all.
        setting: the name of what differs from the default.
        seed: of everything random.
        preset: a ready configuration of regard.
        overrides: of that configuration, or of a peer, KEY=VALUE.
        teachers: the trainings of the models that predict together, or from which this one learns.
    """

    theme: str
    program: str
    language: str
    pairs: int | None = None
    setting: str = "default"
    seed: int = 1
    preset: str = ""
    overrides: tuple[str, ...] = ()
    teachers: tuple[Training, ...] = ()

    @property
    def key(self) -> Training:
        """What makes it another training than the others: all but the theme, so that no two themes repeat one."""
        return replace(self, theme="")

    @property
    def name(self) -> str:
        """A line for people, and a folder."""
        parts = (self.program, self.language, self.pairs or "all", self.setting, f"seed {self.seed}")
        return ", ".join(map(str, parts))


def read(path: Path) -> dict[str, Any]:
    """The plan of a YAML file, as `plan.yaml` is."""
    plan: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return plan


def trainings(
    plan: dict[str, Any],
    theme: str,
    *,
    overrides: Sequence[str] = (),
    seeds: Sequence[int] = (),
    languages: Sequence[str] = (),
    programs: Sequence[str] = (),
) -> Iterator[Training]:
    """The trainings of a theme: all languages with one setting and seed before the next, teachers before their student.

    Args:
        overrides: added to those of every training of regard.
        seeds: instead of the plan's.
        languages, programs: of the plan's only these.

    Raises:
        SystemExit: for a theme that the plan has not.
    """
    if theme not in plan:
        raise SystemExit(f"The plan has no {theme}; it has {', '.join(plan)}.")
    own = plan[theme]
    settings: dict[str, Sequence[str]] = own.get("settings", {"default": ()})
    wanted = [name for name in own.get("programs", [REGARD]) if not programs or name in programs]
    for pairs in own.get("pairs", [None]):
        for seed in seeds or own["seeds"]:
            for program in wanted:
                for setting, changes in settings.items():
                    for language in own["languages"]:
                        if languages and language not in languages:
                            continue
                        told = overrides if program == REGARD else ()
                        sets, name = (*own.get("overrides", ()), *changes, *told), CHANGED.join([setting, *told])
                        one = Training(theme, program, language, pairs, name, seed, own.get("preset", ""), sets)
                        yield from _taught(one, own["teachers"]) if "teachers" in own else [one]


def _taught(one: Training, teachers: dict[str, Any]) -> Iterator[Training]:
    """The trainings of the teachers, what they predict together, and their student."""
    several = tuple(
        replace(one, setting=CHANGED.join([setting, *one.overrides]), seed=seed, overrides=(*changes, *one.overrides))
        for setting, changes in teachers["settings"].items()
        for seed in teachers["seeds"]
    )
    yield from several
    for setting in (TOGETHER, STUDENT):
        yield replace(one, setting=CHANGED.join([setting, *one.overrides]), teachers=several)
