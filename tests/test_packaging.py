"""What a wheel and an sdist hold."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "regard"


def tracked():
    """Files of the repository that are no build products, relative to it."""
    done = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip("not a git checkout")
    return {name for name in done.stdout.splitlines() if (ROOT / name).is_file()}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-d", folder], cwd=ROOT, check=True, capture_output=True
    )
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    with zipfile.ZipFile(next(built.glob("*.whl"))) as archive:
        return {name: archive.getinfo(name).file_size for name in archive.namelist()}


def test_the_wheel_holds_every_file_of_the_package(wheel):
    expected = {name.removeprefix("src/") for name in tracked() if name.startswith("src/")}
    assert expected - set(wheel) == set()
    assert {"regard/py.typed", "regard/viz/page.html", "regard/viz/page.css", "regard/config/presets/g2p.yaml"} <= set(
        wheel
    )


def test_the_wheel_holds_nothing_but_the_package_and_its_licences(wheel):
    information = {name for name in wheel if name.startswith("regard-") and ".dist-info/" in name}
    assert {re.sub(r".*dist-info/", "", name) for name in information} >= {
        "licenses/LICENSE",
        "licenses/NOTICE",
        "METADATA",
    }
    others = set(wheel) - information - {name.removeprefix("src/") for name in tracked()}
    assert others == set()


def test_shipped_models_are_small(wheel):
    for folder in (SOURCE / "pretrained").iterdir():
        if (folder / "model.safetensors").exists():
            size = sum(size for name, size in wheel.items() if name.startswith(f"regard/pretrained/{folder.name}/"))
            assert size <= 8 * 1024 * 1024


def test_the_sdist_holds_what_is_tracked_and_no_junk(built):
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if member.isfile()}
    assert names - tracked() - {"PKG-INFO"} == set()
    assert {"LICENSE", "NOTICE", "README.md", "Makefile", "constraints.txt", "conftest.py", "docs/conf.py"} <= names
