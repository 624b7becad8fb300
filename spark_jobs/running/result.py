"""Former names of ``odradek.spark_jobs.job_runner.result``."""

from __future__ import annotations

from odradek.spark_jobs.job_runner import result
from odradek.spark_jobs.job_runner.result import ChartType as Shape
from odradek.spark_jobs.job_runner.result import Result, Table

__all__ = ["Chart", "Result", "Shape", "Table"]


class Chart(result.Chart):
    """A Chart with the former names of its arguments."""

    __slots__ = ()

    def __init__(
        self,
        title: str,
        shape: Shape,
        x: str,
        y: str,
        series: str | None = None,
        only: tuple[str, object] | None = None,
    ) -> None:
        super().__init__(title, shape, x, y, series, only)
