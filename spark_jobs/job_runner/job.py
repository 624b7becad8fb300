"""A job: from its arguments to its exit status.

    JOB = Job("hot-keys", __doc__, add_arguments, run)

    def main(argv: Sequence[str] | None = None) -> int:
        return JOB.main(argv)

    exit status   0  done
                  1  it failed, or there is damage; standard error says what
                  2  the arguments make no sense
                130  interrupted from the keyboard

``run`` is given a Call: the session, the arguments, and the records that the user has chosen.  It
returns tables; they are computed as they are written.  Unless ``--mode`` says otherwise, everything
is read once more in the end to find what is damaged, and so was left out: one more table.

Owner: the driver's only thread.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from odradek.spark_jobs.job_runner import outputs
from odradek.spark_jobs.job_runner.flags import (
    READ_FLAGS,
    SELECTION_FLAGS,
    add_flags,
    add_paths,
    collect_options,
)
from odradek.spark_jobs.job_runner.result import Result, Table
from odradek.spark_jobs.job_runner.session import spark_session
from odradek.spark_jobs.scan.damage import ScanFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DONE, FAILED, INTERRUPTED = 0, 1, 130

JobFailed = ScanFailed  # the message is one line for whoever started the job


@dataclass(frozen=True, slots=True)
class JobContext:
    """What a job is run with."""

    name: str
    args: argparse.Namespace
    session: SparkSession
    started_at_s: float = field(default_factory=time.monotonic)
    _cached_frames: list[DataFrame] = field(default_factory=list)
    _views: list[str] = field(default_factory=list)

    @property
    def options(self) -> dict[str, str]:
        """Those of the source that the user has set."""
        return collect_options(self.args, (*SELECTION_FLAGS, *READ_FLAGS))

    def read(self, **options: str | None) -> DataFrame:
        """The chosen records or batches; None unsets what the user has set."""
        merged = {**self.options, **options}
        effective = {name: value for name, value in merged.items() if value is not None}
        return self.session.read.format("odradek").options(**effective).load()

    def sql(self, query: str, **arguments: DataFrame | int | str) -> DataFrame:
        """Tables, numbers and names of columns stand in the query as ``{name}``.

        The session's own way to do so drops its views at once, and Spark forgets what was kept of
        the table behind a view that is dropped.
        """
        replacements = {name: self._to_sql(name, value) for name, value in arguments.items()}
        return self.session.sql(query.format(**replacements))

    def _to_sql(self, name: str, value: DataFrame | int | str) -> str:
        if isinstance(value, int | str):
            return str(value)
        view = f"odradek_{len(self._views)}_{name}"
        value.createOrReplaceTempView(view)
        self._views.append(view)
        return view

    def cache(self, rows: DataFrame) -> DataFrame:
        """Computed now, and not again by those tables that are made of it."""
        self._cached_frames.append(rows.persist())
        rows.count()
        return rows

    def release(self) -> None:
        for rows in self._cached_frames:
            rows.unpersist()
        for view in self._views:
            self.session.catalog.dropTempView(view)

    def find_damage(self, **options: str | None) -> list[Table]:
        """What is left out of such a read, in one table or none; none, too, if not to be told."""
        if self.options.get("mode", "permissive") != "permissive":
            return []
        self.report_progress("looking for damage")
        damage = self.read(view="damage", **options)
        title = "Damaged ranges, which were left out"
        table = Table("damage", title, damage, is_damage=True).materialize()
        return [table] if table.rows.num_rows else []

    def report_progress(self, text: str) -> None:
        elapsed_s = time.monotonic() - self.started_at_s
        print(f"odradek {self.name}: {elapsed_s:.1f} s: {text}", file=sys.stderr, flush=True)


def add_no_arguments(parser: argparse.ArgumentParser) -> None:
    """For a job that has none of its own."""


@dataclass(frozen=True, slots=True)
class Job:
    name: str
    description: str  # its help; lines stay as they are
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[JobContext], Result]
    reports_damage: bool = True  # if not, the job itself does, or there is nothing to read

    def main(self, argv: Sequence[str] | None = None) -> int:
        args = self.parser().parse_args(argv)
        try:
            outputs.check_arguments(args)
            return self._run(args)
        except ScanFailed as error:
            print(f"odradek {self.name}: {error}", file=sys.stderr)
            return FAILED
        except KeyboardInterrupt:
            return INTERRUPTED

    def parser(self) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(
            prog=f"odradek spark {self.name}",
            description=self.description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        add_paths(parser)
        self.add_arguments(parser)
        add_flags(parser.add_argument_group("which records"), SELECTION_FLAGS)
        add_flags(parser.add_argument_group("how to read them"), READ_FLAGS)
        outputs.add_arguments(parser.add_argument_group("where to put the result"))
        parser.add_argument_group("Spark").add_argument(
            "--master",
            metavar="URL",
            help="such as local[4] or spark://host:7077; as spark-submit was told, or all cores of "
            "this machine, if not given",
        )
        return parser

    def _run(self, args: argparse.Namespace) -> int:
        with spark_session(self.name, args.master) as session:
            # Imported only now, as the help is for those too who have no Spark.
            from py4j.protocol import Py4JError
            from pyspark.errors import PySparkException

            from odradek.spark_jobs.source.error_messages import summarize_error

            context = JobContext(self.name, args, session)
            try:
                result = self.run(context)
                outputs.select_tables(result.tables, args)  # before everything is read once more
                damage = context.find_damage() if self.reports_damage else []
                tables = [*result.tables, *damage]
                selected = outputs.select_tables(tables, args)
                outputs.write_tables(selected, args, title=self._title)
            except (PySparkException, Py4JError) as error:
                line = summarize_error(error) or str(error).strip().splitlines()[0]
                raise ScanFailed(line) from error
            finally:
                context.release()
            _report_unwritten_damage(context, tables, selected)
            context.report_progress("done")
        return result.exit_status or (FAILED if damage else DONE)

    @property
    def _title(self) -> str:
        return self.description.strip().splitlines()[0].rstrip(".")


def _report_unwritten_damage(
    context: JobContext, tables: Sequence[Table], written_tables: Sequence[Table]
) -> None:
    """That which is not written; else nobody would know why the exit status is 1."""
    names = {table.name for table in written_tables}
    for table in tables:
        if table.is_damage and table.name not in names:
            count = table.rows.num_rows
            context.report_progress(
                f"skipped {count} damaged range(s): list them with --tables {table.name}"
            )
