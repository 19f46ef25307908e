"""Export as a law over THE LIST: programs serve other lengths than those of their examples.

    python benchmarks/exports.py [NAME ...]

Names are those of `tests/support/exports.py`, as "step: mocha"; all if none is given. The test suite asks for a few of
every family (tests/test_export.py). Ends with 1 if anything failed.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import torch

from support import exports


def main() -> int:
    """Prints a line for everything."""
    torch.set_num_threads(1)
    wanted, failures = sys.argv[1:] or exports.names(), 0
    for name in wanted:
        try:
            exports.check(name)
        except Exception as error:
            failures += 1
            print(f"FAILED {name}\n{type(error).__name__}: {str(error)[:600]}", flush=True)
        else:
            print(f"passed {name}", flush=True)
    print(f"{len(wanted) - failures} of {len(wanted)} passed")
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
