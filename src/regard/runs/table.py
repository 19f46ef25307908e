"""The tasks, by the name that a configuration gives: `task: text_to_text`."""

from __future__ import annotations

from typing import Any

from regard.config import Config
from regard.config.schemas import SCHEMAS
from regard.lazy import OnDemand
from regard.runs.contract import AbstractTask

TASKS: OnDemand[AbstractTask[Any]] = OnDemand({name: f"regard.tasks.{name}.task:TASK" for name in SCHEMAS})
"""A task is imported when it is asked for."""


def task_of(config: Config) -> AbstractTask[Any]:
    """The task of a configuration."""
    return TASKS[config.task]
