"""Messages about errors."""

from __future__ import annotations

import os
import traceback
from errno import ENOSPC

from regard.cli.standard import say
from regard.errors import ElsewhereError, RegardError, without_long_words

FAILED, WRONG = 1, 2


def report(error: Exception, *, debug: bool) -> int:
    """Prints an error to stderr and returns the exit status.

    Of an error that regard raises on purpose only the text is printed; of any other also its class, and how to see the
    traceback. Of several processes that torchrun has started, those after the first print only the first line.
    """
    file = error.filename if isinstance(error, OSError) else None
    if file is None and isinstance(error, OSError) and error.errno == ENOSPC:
        file = "output"  # for example when help is printed, or a library writes
    if isinstance(error, ElsewhereError):
        return WRONG
    number = int(os.environ.get("RANK", "0"))
    if debug:
        say("".join(traceback.format_exception(error)).rstrip())
    elif isinstance(error, RegardError) and number:
        say(f"process {number + 1}: {str(error).splitlines()[0]}")
    elif isinstance(error, RegardError):
        say(str(error))
    elif file is not None:
        say(without_long_words(f"{file}: {getattr(error, 'strerror', error)}"))
    else:
        hint = "\n  Lower --batch-tokens or training.batch_tokens." if _is_out_of_memory(error) else ""
        say(f"regard failed with {type(error).__name__}: {error}{hint}\n  --debug shows the traceback.")
    return WRONG if file is not None or isinstance(error, RegardError) else FAILED


def _is_out_of_memory(error: Exception) -> bool:
    return (
        isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or "allocate memory" in str(error)
    )
