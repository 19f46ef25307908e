"""The command line: one file a verb. Importing it imports neither torch nor matplotlib."""

from regard.cli.application import main, run

__all__ = ["main", "run"]
