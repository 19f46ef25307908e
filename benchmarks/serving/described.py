"""Requests that schemathesis makes of the server's own description: whether all are answered as it says.

    python benchmarks/serving/described.py [--examples 1500] [--seed 1] > described.md

A server of `g2p-en` is asked at every address of `/openapi.json`, by bodies that the description allows and by bodies
that it does not allow. Status, type and form of each answer have to be those of the description, and none is 500. The
figures of the server say how many there were. schemathesis: pip install schemathesis
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import urllib.request
from collections import Counter
from pathlib import Path

CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,"
    "negative_data_rejection,unsupported_method"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=1_500, help="of each address")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    command = [sys.executable, "-m", "regard", "serve", "g2p-en", "--port", "0", "--device", "cpu"]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server,
    ):
        address = next(line.split()[0] for line in server.stdout if line.startswith("http"))
        ran = subprocess.run(
            [
                Path(sys.executable).parent / "schemathesis", "run", f"{address}openapi.json", "--checks", CHECKS,
                "--max-examples", str(options.examples), "--seed", str(options.seed), "--mode", "all",
                "--phases", "examples,coverage,fuzzing", "--continue-on-failure", "--no-color", "--workers", "2",
            ],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,  # for what it keeps of its cases
        )  # fmt: skip
        with urllib.request.urlopen(f"{address}metrics") as answer:
            figures = answer.read().decode()
        server.terminate()
        status = server.wait(60)
    counts = Counter()
    paths: dict[str, Counter[str]] = {}
    for path, code, count in re.findall(r'^regard_requests_total\{path="(.+?)",status="(\d+)"\} (\S+)', figures, re.M):
        paths.setdefault(path, Counter())[code] += int(float(count))
        counts[code] += int(float(count))
    print("| address | requests | statuses |\n|---|---|---|")
    for path, each in sorted(paths.items()):
        print(f"| {path} | {each.total():,} | {', '.join(f'{code}: {n:,}' for code, n in sorted(each.items()))} |")
    print(f"\n{counts.total():,} requests, {counts['500']} with status 500; the server ended with status {status}.")
    print(f"\nschemathesis (status {ran.returncode}):\n\n```text\n{ran.stdout[-6000:]}{ran.stderr[-500:]}\n```")


if __name__ == "__main__":
    main()
