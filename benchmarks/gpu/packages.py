"""Packages that this machine lacks or has in a version that does not fit; and wheels in place of them."""

from __future__ import annotations

import os
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

try:
    from packaging.requirements import Requirement
except ImportError:  # pip has a copy
    from pip._vendor.packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
UNUSED = ("matplotlib", "numba")
"""Dependencies of regard that nothing here needs."""
OPTIONAL = {"sentencepiece": "presets of translation", "pytest": "the section tests"}
"""Packages of regard's extras, and what cannot be tried without them."""


def needed() -> list[Requirement]:
    """What pyproject.toml asks for."""
    return [each for each in map(Requirement, _project()["dependencies"]) if each.name not in UNUSED]


def optional() -> list[tuple[Requirement, str]]:
    """What is missing or does not fit of `OPTIONAL`, with what cannot be tried without it."""
    extras = (Requirement(each) for extra in _project()["optional-dependencies"].values() for each in extra)
    asked = [each for each in extras if each.name in OPTIONAL]
    return [(each, f"{reason}; for {OPTIONAL[each.name]}") for each in asked for _, reason in unfit([each])]


def _project() -> dict[str, Any]:
    project: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return project


def unfit(requirements: list[Requirement]) -> Iterator[tuple[Requirement, str]]:
    """The requirements, and those of the packages that meet them, that are not met, with what there is."""
    seen = set[str]()
    pending = list(requirements)
    while pending:
        requirement = pending.pop(0)
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if not applies or str(requirement) in seen:
            continue
        seen.add(str(requirement))
        try:
            found = distribution(requirement.name)
        except PackageNotFoundError:
            yield requirement, "missing"
            continue
        if not requirement.specifier.contains(found.version, prereleases=True):
            yield requirement, f"{found.version} is there"
        elif requirement.name != "torch":  # a build of torch may leave out what it names
            pending += map(Requirement, found.requires or ())


def unpack(wheels: Path, folder: Path) -> None:
    """Puts what is in wheels before all installed packages, also for processes that this one starts."""
    for wheel in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
    sys.path.insert(0, str(folder))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH", "")]))


def unsupported_reason() -> str | None:
    """Which packages are missing or do not fit, and where they come from; None if all are there that are needed."""
    lacking = list(unfit(needed()))
    return named([*lacking, *optional()]) if lacking else None


def named(lacking: list[tuple[Requirement, str]]) -> str:
    """Packages with the reasons, and how they come to a machine without a network."""
    shown = "".join(f"\n  {requirement} ({reason})" for requirement, reason in lacking)
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    names = " ".join(f"'{requirement.name}{requirement.specifier}'" for requirement, _ in lacking)
    return (
        f"These packages are missing or do not fit:{shown}\n"
        "Where there is a network, download their wheels:\n"
        f"  pip download --python-version {version} --platform manylinux2014_x86_64 --platform manylinux_2_28_x86_64 "
        f"--only-binary=:all: --dest wheels {names}\n"
        "and here: make gpu WHEELS=wheels"
    )
