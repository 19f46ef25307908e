"""What the user is told when something goes wrong."""

from __future__ import annotations

import sys
import traceback

from regard.errors import RegardError

FAILED, WRONG = 1, 2


def report(error: Exception, *, debug: bool) -> int:
    """Says on stderr what went wrong and returns the exit status.

    An error that regard raises on purpose is its message alone; any other is named, with the way to its traceback.
    """
    file = error.filename if isinstance(error, OSError) else None
    if debug:
        traceback.print_exception(error)
    elif isinstance(error, RegardError):
        print(error, file=sys.stderr)
    elif file is not None:
        print(f"{file}: {getattr(error, 'strerror', error)}", file=sys.stderr)
    else:
        hint = "\n  Try a smaller --batch-tokens or training.batch_tokens." if _is_out_of_memory(error) else ""
        print(f"regard failed with {type(error).__name__}: {error}{hint}\n  --debug shows where.", file=sys.stderr)
    return WRONG if file is not None or isinstance(error, RegardError) else FAILED


def _is_out_of_memory(error: Exception) -> bool:
    return (
        isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or "allocate memory" in str(error)
    )
