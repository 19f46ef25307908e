"""Ctrl-C and SIGTERM end training after the current step."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType
from typing import Any, Self

from regard.training import processes


class Interruption:
    """While entered, Ctrl-C and SIGTERM set `stop`; Ctrl-C after either raises KeyboardInterrupt at once.

    Handlers are installed in the main thread only, as Python requires, and the former ones are restored afterwards.
    """

    def __init__(self, stop: threading.Event | None = None) -> None:
        self.stop = stop or threading.Event()
        self.signal: int | None = None
        """The signal that was received, or None."""
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *error: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.signal = number
        self.stop.set()
        # A handler may interrupt another write, so it writes without Python's buffers.
        if processes.is_first():
            os.write(2, b"\nStopping after this step. Press Ctrl-C to stop at once.\n")
