"""The command line: one file per command. Importing it imports neither torch nor matplotlib."""

from regard.cli.application import main, run

__all__ = ["main", "run"]
