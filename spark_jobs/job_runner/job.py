"""A Spark job, from its arguments to its exit status.

    JOB = Job("hot-keys", __doc__, add_arguments, run)

    def main(argv: Sequence[str] | None = None) -> int:
        return JOB.main(argv)

    exit status   0  success
                  1  failure or damage; standard error says which
                  2  invalid arguments
                130  interrupted from the keyboard

``run`` receives a JobContext: the session, the arguments, and access to the selected records.  It
returns tables, which are computed when they are written.  Unless ``--mode`` is set otherwise, the
job reads everything once more at the end, to list the damaged ranges that it skipped in one more
table.

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

JobFailed = ScanFailed  # its message is one line for the user


@dataclass(frozen=True, slots=True)
class JobContext:
    """The arguments and the Spark session of a job, and methods to read and cache tables."""

    name: str
    args: argparse.Namespace
    session: SparkSession
    started_at_s: float = field(default_factory=time.monotonic)
    _cached_frames: list[DataFrame] = field(default_factory=list)
    _views: list[str] = field(default_factory=list)

    @property
    def options(self) -> dict[str, str]:
        """The options of the source that the user has set."""
        return collect_options(self.args, (*SELECTION_FLAGS, *READ_FLAGS))

    def read(self, **options: str | None) -> DataFrame:
        """Read the selected records or batches.  An option of None unsets that of the user."""
        merged = {**self.options, **options}
        effective = {name: value for name, value in merged.items() if value is not None}
        return self.session.read.format("odradek").options(**effective).load()

    def sql(self, query: str, **arguments: DataFrame | int | str) -> DataFrame:
        """Run a query in which ``{name}`` is a table, a number or the name of a column.

        ``session.sql`` has such arguments too, but drops its views at once, and Spark loses the
        cache of a table whose view is dropped.
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
        """Compute the rows now and keep them in Spark's cache until the job ends."""
        self._cached_frames.append(rows.persist())
        rows.count()
        return rows

    def release(self) -> None:
        for rows in self._cached_frames:
            rows.unpersist()
        for view in self._views:
            self.session.catalog.dropTempView(view)

    def find_damage(self, **options: str | None) -> list[Table]:
        """Return a table of the ranges that such a read skips; none if empty or not to report."""
        if self.options.get("mode", "permissive") != "permissive":
            return []
        self.report_progress("looking for damage")
        damage = self.read(view="damage", **options)
        title = "Damaged ranges, which were skipped"
        table = Table("damage", title, damage, is_damage=True).materialize()
        return [table] if table.rows.num_rows else []

    def report_progress(self, text: str) -> None:
        elapsed_s = time.monotonic() - self.started_at_s
        print(f"odradek {self.name}: {elapsed_s:.1f} s: {text}", file=sys.stderr, flush=True)


def add_no_arguments(parser: argparse.ArgumentParser) -> None:
    """For a job without arguments besides the common ones."""


@dataclass(frozen=True, slots=True)
class Job:
    name: str
    description: str  # help text; its line breaks are kept
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[JobContext], Result]
    reports_damage: bool = True  # False if the job reports damage itself, or reads no records

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
        outputs.add_arguments(parser.add_argument_group("where to write the result"))
        parser.add_argument_group("Spark").add_argument(
            "--master",
            metavar="URL",
            help="such as local[4] or spark://host:7077; default: that of spark-submit, or all "
            "cores of this machine",
        )
        return parser

    def _run(self, args: argparse.Namespace) -> int:
        with spark_session(self.name, args.master) as session:
            # Imported late: --help must work without Spark.
            from py4j.protocol import Py4JError
            from pyspark.errors import PySparkException

            from odradek.spark_jobs.source.error_messages import summarize_error

            context = JobContext(self.name, args, session)
            try:
                result = self.run(context)
                # Reject a wrong --tables or --to before everything is read once more.
                outputs.select_tables(result.tables, args)
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
    """Report damage that no output contains, which explains the exit status of 1."""
    names = {table.name for table in written_tables}
    for table in tables:
        if table.is_damage and table.name not in names:
            count = table.rows.num_rows
            context.report_progress(
                f"skipped {count} damaged range(s): list them with --tables {table.name}"
            )
