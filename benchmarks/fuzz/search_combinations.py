"""Random combinations of search settings on tiny decoders (`tests/support/search_trials.py`).

    python benchmarks/fuzz/search_combinations.py [NUMBER] [FIRST]

runs as many that are not refused, 1,000 by default, from seed FIRST on, and prints how many of them each setting and
each decoder had. A failure names the number from which it can be repeated.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

import torch

from support.search_trials import draw_trial, run_trial


def main(count: int, first: int) -> int:
    """Runs the trials; the exit status is 1 if one failed."""
    torch.set_num_threads(1)
    begin, number, run, refused, failed = time.process_time(), first, 0, 0, 0
    settings: Counter[str] = Counter()
    decoders: Counter[str] = Counter()
    while run < count:
        trial = draw_trial(number)
        refused += trial.num_refused
        try:
            accepted = run_trial(trial)
        except Exception as error:  # every kind of failure is one
            failed += 1
            accepted = True
            print(f"trial {number} ({trial.case}, {dict(trial.options)}): {type(error).__name__}: {error}")
        run += accepted
        refused += not accepted
        if accepted:
            decoders[trial.case] += 1
            settings.update(name for name in trial.options if name != "method")
            settings[f"method {trial.options['method']}"] += 1
            settings["constraints"] += any(trial.constraints)
            settings["reranking"] += trial.weight is not None
        number += 1
    print(f"{run:,} searches, {failed} failed; {refused:,} refused; {time.process_time() - begin:.0f} s of CPU time")
    for name, times in sorted(settings.items(), key=lambda item: -item[1]):
        print(f"  {times:5} {name}")
    print(f"{len(decoders)} decoders, {min(decoders.values())} to {max(decoders.values())} searches each")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(*(int(argument) for argument in [*sys.argv[1:3], *("1000", "0")[len(sys.argv) - 1 :]])))
