"""``odradek serve``: run a broker until it is told to stop.

It says where it is ready on standard output, and all else on standard error.  SIGTERM, SIGINT and
SIGHUP stop it cleanly; a second one at once.  SIGUSR1 has it log what it has in hand.  What takes
its time to import is in serving.py, so that signals are heard as soon as this runs.
"""

from __future__ import annotations

import argparse
import logging
import signal
from pathlib import Path
from types import FrameType

from odradek.broker import logging_setup
from odradek.broker.cli.errors import CommandFailed
from odradek.broker.cli.signals import DIAGNOSTICS_SIGNAL, stop_signals

log = logging.getLogger(__name__)


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "serve",
        help="run a broker",
        description="Run a broker until SIGTERM, SIGINT or SIGHUP.  Without a file it is alone, "
        "listens on 127.0.0.1:9092 and keeps its records in ./kafka-logs.  It says `Ready at "
        "HOST:PORT` on standard output as soon as clients are served, and logs to standard error.  "
        "On SIGUSR1 it logs what it has in hand: tasks, connections and requests that wait.",
        epilog="Settings come from the file, then from variables such as "
        "ODRADEK_LOG_SEGMENT_BYTES, then from --override; the last one counts.",
    )
    parser.add_argument("--config", metavar="FILE", type=Path, help="a server.properties")
    parser.add_argument("--data-dir", metavar="DIR", help="where records are kept (log.dirs)")
    parser.add_argument(
        "--port",
        metavar="N",
        type=int,
        help="listen on 127.0.0.1 at this port, and nowhere else; 0: any free one",
    )
    parser.add_argument(
        "--override",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a setting; repeatable",
    )
    parser.add_argument(
        "--ready-file",
        metavar="FILE",
        type=Path,
        help="has the address as long as the broker is ready",
    )
    parser.add_argument(
        "--log-level",
        metavar="[LOGGER=]LEVEL",
        action="append",
        default=[],
        help="trace, debug, info, warning or error; repeatable",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    if not __debug__:
        raise CommandFailed("python -O leaves out checks that keep records safe: start without it")
    try:
        logging_setup.configure_logging(arguments.log_level)
    except logging_setup.InvalidLogLevel as error:
        raise CommandFailed(f"--log-level {error}") from error
    for each in stop_signals():
        signal.signal(each, _exit_on_signal)
    signal.signal(
        DIAGNOSTICS_SIGNAL, signal.SIG_IGN
    )  # until there is something to tell: else it would end it
    from odradek.broker.cli import broker_runner

    return broker_runner.serve(
        file=arguments.config,
        overrides=_overrides(arguments),
        port=arguments.port,
        ready_file=arguments.ready_file,
    )


def _exit_on_signal(signal_number: int, _frame: FrameType | None) -> None:
    """Until there is a loop to hear signals; nothing has been begun yet that must be undone."""
    log.info("%s: the broker stops", signal.Signals(signal_number).name)
    raise SystemExit(0)


def _overrides(arguments: argparse.Namespace) -> list[str]:
    """What the user overrides comes last, and counts."""
    shortcuts = []
    if arguments.data_dir is not None:
        shortcuts.append(f"log.dirs={arguments.data_dir}")
    overrides: list[str] = arguments.override
    return shortcuts + overrides
