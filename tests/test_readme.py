"""What stands around the package says the truth: commands, versions, licences."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from datetime import date
from pathlib import Path

import pytest
import yaml

import regard
from dependency_versions import lowest
from regard.attention import RECIPES

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def blocks(name, language):
    return re.findall(rf"^```{language}\n(.*?)^```", read(name), flags=re.MULTILINE | re.DOTALL)


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md"])
def test_every_make_target_that_is_shown_exists(name):
    shown = {target for block in blocks(name, "sh") for target in re.findall(r"^make (\w+)", block, flags=re.MULTILINE)}
    assert shown
    done = subprocess.run(["make", "--dry-run", *sorted(shown)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_ci_runs_the_test_command_of_the_readme():
    script = read(".ci/run")
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
    assert "set -euo pipefail" in script
    assert script.splitlines()[-1] == "make test"
    assert "make test" in blocks("README.md", "sh")[0]


def test_versions_agree_everywhere():
    assert PROJECT["version"] == regard.__version__
    assert str(yaml.safe_load(read("CITATION.cff"))["version"]) == regard.__version__
    assert re.search(r"^## \[(.+?)\]", read("CHANGELOG.md"), flags=re.MULTILINE)[1] == regard.__version__
    assert regard.__version__ in read("README.md")


def test_the_citation_has_what_the_format_requires():
    citation = yaml.safe_load(read("CITATION.cff"))
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["license"] == PROJECT["license"] == "Apache-2.0"
    assert isinstance(citation.get("date-released", date.min), date)


def test_licence_and_notice_are_whole():
    assert "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION" in read("LICENSE")
    assert "END OF TERMS AND CONDITIONS" in read("LICENSE")
    notice = read("NOTICE")
    assert "Carnegie Mellon University. All rights reserved." in notice
    assert "THE IMPLIED WARRANTIES OF MERCHANTABILITY" in notice


def test_the_readme_counts_the_recipes_right():
    words = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
    number = re.search(r"(\w+) recipes \(`regard list recipes`\)", read("README.md"))[1]
    assert number in (words[len(RECIPES)] if len(RECIPES) < len(words) else "", str(len(RECIPES)))


def test_the_readme_names_every_dependency():
    names = {re.match(r"[\w-]+", requirement)[0].lower() for requirement in PROJECT["dependencies"]}
    assert not [name for name in names if name not in read("README.md").lower()]


def test_the_demo_is_a_script_that_bash_can_read():
    subprocess.run(["bash", "-n", ROOT / "examples" / "demo.sh"], check=True)


def test_the_configuration_of_the_demo_is_right():
    from regard.config import load

    config = load(ROOT / "examples" / "demo.yaml").config
    assert config.data.train == ROOT / "demo" / "cmudict" / "train.tsv"
    assert config.select == "wer"


@pytest.mark.skipif(sys.platform == "win32", reason="make and bash")
def test_the_constraint_is_a_version_that_the_package_allows():
    pinned = re.fullmatch(r"torch==(\d+)\.(\d+)\.(\d+)\n", read("constraints.txt"))
    lowest = re.search(r"torch>=(\d+)\.(\d+)", " ".join(PROJECT["dependencies"]))
    assert tuple(map(int, pinned.groups()[:2])) >= tuple(map(int, lowest.groups()))


def test_the_score_of_ones_own_runs_by_itself():
    (block,) = [block for block in blocks("README.md", "python") if "class BoundedScore" in block]
    exec(compile(block, "README.md", "exec"), {"__name__": "readme"})


def test_the_lowest_versions_are_those_of_the_project():
    lines = list(lowest())
    declared = [
        *PROJECT["dependencies"],
        *(each for extra in PROJECT["optional-dependencies"].values() for each in extra),
    ]
    bounded = [each for each in declared if ">=" in each]
    assert lines == [re.sub(r"(\[\w+\])?>=", "==", each) for each in bounded]
    assert {each for each in declared if ">=" not in each and "[" not in each} == {"types-PyYAML"}
    kept = list(lowest(["torch==2.13.0"]))
    assert kept[0] == "torch==2.13.0"
    assert [line for line in lines if not line.startswith("torch==")] == kept[1:]
