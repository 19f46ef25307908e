"""Ends a training of Lightning when its process has had so many seconds of a processor."""

from __future__ import annotations

import os
import time

from lightning.pytorch.callbacks import Callback


class CpuLimit(Callback):
    """Stops after the batch in which the process's CPU time passes CPU_SECONDS, a variable of the environment."""

    def on_train_batch_end(self, trainer, *ignored, **also_ignored) -> None:
        if time.process_time() > float(os.environ["CPU_SECONDS"]):
            trainer.should_stop = True
