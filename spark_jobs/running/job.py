"""Former names of ``odradek.spark_jobs.job_runner.job``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import fields
from typing import TYPE_CHECKING

from odradek.spark_jobs.job_runner import job
from odradek.spark_jobs.job_runner.job import (
    DONE,
    FAILED,
    INTERRUPTED,
    JobContext,
    JobFailed,
)
from odradek.spark_jobs.job_runner.job import add_no_arguments as no_arguments
from odradek.spark_jobs.job_runner.result import Result, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["DONE", "FAILED", "INTERRUPTED", "Call", "Job", "JobFailed", "no_arguments"]


class Call(JobContext):
    """A JobContext with the former names of its methods."""

    __slots__ = ()

    def keep(self, rows: DataFrame) -> DataFrame:
        return self.cache(rows)

    def damage(self, **options: str | None) -> list[Table]:
        return self.find_damage(**options)

    def progress(self, text: str) -> None:
        self.report_progress(text)


class Job(job.Job):
    """A Job whose ``run`` receives a Call."""

    __slots__ = ()

    def __init__(
        self,
        name: str,
        summary: str,
        add_arguments: Callable[[argparse.ArgumentParser], None],
        run: Callable[[Call], Result],
        tells_damage: bool = True,
    ) -> None:
        super().__init__(
            name, summary, add_arguments, lambda context: run(_to_call(context)), tells_damage
        )


def _to_call(context: JobContext) -> Call:
    """Share the lists of cached tables and views: the runner releases those of ``context``."""
    return Call(*(getattr(context, field.name) for field in fields(context)))
