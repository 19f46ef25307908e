"""Any with any, all of it: every composition of a score, a window, an alignment and a read that is not refused.

    python benchmarks/compositions.py [--shard 1/2] [--every 1] [--laws all|quick] [--log file]

Each is checked by the laws of `check_mechanism` (all but the export of a step, or the quick ones) and against the
brute-force oracles of its parts; failures are printed, and the log lets an interrupted run continue. The test suite
draws a few hundred of these, among them export and beams (tests/test_compositions.py).
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import torch

from regard.testing import LAWS, check_mechanism
from support.cases.case import PART_SIZE
from support.compositions import accepted, judged
from support.oracles import require_agreement

QUICK = (
    "forward_is_the_loop_of_step",
    "padding_gets_exactly_zero",
    "sentence_is_independent_of_its_batch",
    "row_without_support_is_zero",
    "reordering_the_state_commutes_with_step",
    "hypotheses_are_independent",
    "saved_weights_give_the_same",
    "extreme_energies_stay_finite",
)


def main() -> None:
    """Checks a share of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shard", default="1/1", help="which share of how many")
    parser.add_argument("--every", type=int, default=1, help="only every n-th of them, in a drawn order")
    parser.add_argument("--laws", choices=["all", "quick"], default="all")
    parser.add_argument("--log", type=Path, help="names of what has passed; skipped when run again")
    chosen = parser.parse_args()
    torch.set_num_threads(1)
    laws = QUICK if chosen.laws == "quick" else tuple(law for law in LAWS if law != "step_can_be_exported")
    share, shares = map(int, chosen.shard.split("/"))
    order = torch.randperm(len(accepted()), generator=torch.Generator().manual_seed(0)).tolist()
    wanted = [accepted()[index] for index in order[:: chosen.every][share - 1 :: shares]]
    passed = set(chosen.log.read_text().splitlines()) if chosen.log and chosen.log.exists() else set()
    failures, began = [], time.monotonic()
    for one in wanted:
        if one.name in passed:
            continue
        try:
            check_mechanism(
                one.make(),
                query_size=PART_SIZE,
                memory_size=PART_SIZE,
                input_size=PART_SIZE,
                only=laws,
                exempt=one.case.exempt,
            )
            require_agreement(one.case)
        except AssertionError as error:
            failures.append(one.name)
            print(f"FAILED {one.name}\n{str(error)[:600]}", flush=True)
            continue
        passed.add(one.name)
        if chosen.log:
            with chosen.log.open("a") as log:
                log.write(one.name + "\n")
        if len(passed) % 500 == 0:
            print(f"{len(passed)} passed, {len(failures)} failed, {time.monotonic() - began:.0f} s", flush=True)
    print(
        f"{len(judged())} compositions, {len(accepted())} not refused, {len(wanted)} asked for: "
        f"{len(passed)} passed, {len(failures)} failed ({len(laws)} laws and the oracles)"
    )


if __name__ == "__main__":
    main()
