"""The lowest versions of every package that pyproject.toml admits, as constraints for pip: `make test-versions`."""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
REQUIREMENT = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[[a-z,]+\])?>=(?P<version>[0-9.]+)\Z")


def lowest(kept: Sequence[str] = ()) -> Iterator[str]:
    """A line `name==version` for every dependency, those of extras included, that has a lower bound.

    Args:
        kept: lines for packages that are to have another version, such as `torch==2.13.0`.
    """
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    others = {line.partition("==")[0] for line in kept}
    yield from kept
    for requirements in (project["dependencies"], *project["optional-dependencies"].values()):
        for requirement in requirements:
            if (bound := REQUIREMENT.match(requirement)) and bound["name"] not in others:
                yield f"{bound['name']}=={bound['version']}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", nargs="*", default=[], metavar="NAME==VERSION", help="other versions of packages")
    print(*lowest(parser.parse_args().keep), sep="\n")
