"""``odradek spark``: run one of the Spark jobs without spark-submit.

    odradek spark                       list the jobs
    odradek spark JOB ...               run a job; the job parses its own options
    odradek spark py-files FILE.zip     write the code that the workers of a cluster need

Spark runs in this process: on this machine, unless ``--master`` names a cluster.
"""

from __future__ import annotations

import argparse
import ast
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from odradek.broker.cli.errors import CommandFailed

INSTALL_HINT = "spark needs pyspark, numpy and pyarrow: pip install 'odradek[spark]'"
HELP = ("-h", "--help")
PY_FILES = "py-files"
DONE = 0


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    # No prefix character: the parser of the job handles all options.
    parser = commands.add_parser(
        "spark",
        help="run a Spark job over segment files; without a job, list the jobs",
        add_help=False,
        prefix_chars="\0",
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    name, *rest = arguments.arguments or HELP[:1]
    if name in HELP:
        _print_jobs()
        return DONE
    if name == PY_FILES:
        return _write_py_files(rest)
    job = name.replace("-", "_")
    if job not in jobs():
        known = ", ".join([*map(_command_name, jobs()), PY_FILES])
        raise CommandFailed(f"spark: unknown job {name}; the jobs are {known}")
    if not all(map(find_spec, ("pyspark", "numpy", "pyarrow"))):
        raise CommandFailed(INSTALL_HINT)
    status: int = import_module(f"odradek.spark_jobs.{job}").main(rest)
    return status


def jobs() -> dict[str, str]:
    """Return the module name and the first docstring line of each job."""
    descriptions = {}
    for each in sorted(files("odradek.spark_jobs").iterdir(), key=lambda each: each.name):
        if each.name.endswith(".py") and each.name != "__init__.py":
            docstring = ast.get_docstring(ast.parse(each.read_text("utf-8"))) or ""
            descriptions[each.name.removesuffix(".py")] = docstring.split("\n", 1)[0]
    return descriptions


def _print_jobs() -> None:
    lines = {**{_command_name(job): description for job, description in jobs().items()}}
    lines[PY_FILES] = "Write the zip with the code that the workers of a cluster need."
    width = max(map(len, lines))
    print(
        "usage: odradek spark JOB ...\n\n"
        "Jobs; `odradek spark JOB --help` shows the options of a job:\n"
    )
    for name, description in lines.items():
        print(f"  {name:{width}}  {description}")


def _command_name(job: str) -> str:
    return job.replace("_", "-")


def _write_py_files(arguments: list[str]) -> int:
    from odradek.spark_jobs.source.py_files import write_py_files

    if len(arguments) != 1 or arguments[0] in HELP:
        raise CommandFailed(f"spark: give one file: odradek spark {PY_FILES} odradek.zip")
    try:
        count = write_py_files(Path(arguments[0]))
    except OSError as error:
        raise CommandFailed(str(error)) from error
    print(
        f"{arguments[0]}: wrote {count} files; use spark-submit --py-files {arguments[0]} to send "
        "them to the workers"
    )
    return DONE
