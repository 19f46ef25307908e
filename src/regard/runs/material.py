"""Reads and checks the data of a configuration; items that cannot be read are errors or are left out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from regard.config import Config
from regard.data import Finding, Findings, collecting
from regard.errors import DataError, counted
from regard.runs.adapted_data import AdaptedData
from regard.runs.contract import AbstractTask
from regard.runs.plan import Plan

ConfigT = TypeVar("ConfigT", bound=Config)


@dataclass(frozen=True)
class CheckedData(Generic[ConfigT]):
    """The data of a configuration after the check.

    Args:
        material: the task's material without the items that cannot be read; None if there is none without them.
        report: the findings, those about items that cannot be read first.
        num_left_out: the number of items that cannot be read.
        adapted: in the adaptation of a model, its new data and the former ones.
    """

    material: Any
    report: Findings
    num_left_out: int
    adapted: AdaptedData | None = None

    def plan(self, task: AbstractTask[ConfigT], config: ConfigT) -> Plan[ConfigT]:
        """The plan of the training, with the number of the items that are left out."""
        plan = task.resolve(config, self.material, self.report)
        if not self.num_left_out:
            return plan
        note = (
            f"left out: {counted(self.num_left_out, 'item|items')} with defects (data.on_error={config.data.on_error})"
        )
        return replace(plan, notes=(*plan.notes, note))


def read_and_check(task: AbstractTask[ConfigT], config: ConfigT, base: Any = None) -> CheckedData[ConfigT]:
    """Reads the data of a training and checks them.

    Args:
        base: the model that the training starts from, if any.

    Raises:
        ConfigError: for settings that contradict the data.
        DataError: for the first item that cannot be read, unless `data.on_error` is skip.
    """
    if config.data.on_error == "skip":
        return check_all(task, config, base)
    material, adapted = _material(task, config, base)
    return CheckedData(material, _checked(task, config, material, adapted), 0, adapted)


def check_all(task: AbstractTask[ConfigT], config: ConfigT, base: Any = None) -> CheckedData[ConfigT]:
    """Reads all data of a configuration and checks them, beyond the first defect.

    Defects are errors in the report, or warnings if `data.on_error` is skip.

    Raises:
        ConfigError: for settings that contradict the data.
    """
    material, adapted, fatal = None, None, None
    with collecting() as defects:
        try:
            material, adapted = _material(task, config, base)
        except DataError as error:
            fatal = error
    findings = defects.findings(left_out=config.data.on_error == "skip")
    if fatal is not None:
        return CheckedData(None, Findings((*findings, Finding.of_message("error", str(fatal)))), len(defects))
    report = _checked(task, config, material, adapted)
    return CheckedData(material, replace(report, findings=(*findings, *report.findings)), len(defects), adapted)


def _checked(task: AbstractTask[ConfigT], config: ConfigT, material: Any, adapted: AdaptedData | None) -> Findings:
    """The findings about the data; that new data are few is no fault of an adaptation."""
    report = task.checked(config, material)
    if adapted is None:
        return report
    return replace(report, findings=tuple(finding for finding in report.findings if not finding.of_few))


def _material(task: AbstractTask[ConfigT], config: ConfigT, base: Any) -> tuple[Any, AdaptedData | None]:
    material = task.read(config)
    if base is None:
        return material, None
    if config.training.replay is None:
        return task.continued(config, material, base), None
    adapted = AdaptedData.of(task, config, material)
    return adapted.joined(task, config), adapted
