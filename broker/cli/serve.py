"""``odradek serve``: run a broker until a signal stops it.

The broker prints ``Ready at HOST:PORT`` on standard output and logs to standard error.  SIGTERM,
SIGINT and SIGHUP shut it down cleanly; a second signal ends it immediately.  SIGUSR1 makes it log
its diagnostics.  Slow imports are in broker_runner.py, so that signals are handled from the start.
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

log = logging.getLogger("kafka.server")


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = commands.add_parser(
        "serve",
        help="run a broker",
        description="Run a broker until SIGTERM, SIGINT or SIGHUP.  Without a settings file it is "
        "a single broker that listens on 127.0.0.1:9092 and keeps its logs in ./kafka-logs.  It "
        "prints `Ready at HOST:PORT` on standard output when it serves clients, and logs to "
        "standard error.  On SIGUSR1 it logs its tasks, connections and delayed requests.",
        epilog="Settings come from the file, then from environment variables such as "
        "ODRADEK_LOG_SEGMENT_BYTES, then from --override; later ones override earlier ones.",
    )
    parser.add_argument("--config", metavar="FILE", type=Path, help="a server.properties file")
    parser.add_argument("--data-dir", metavar="DIR", help="the log directory (log.dirs)")
    parser.add_argument(
        "--port",
        metavar="N",
        type=int,
        help="listen only on 127.0.0.1 at this port; 0: any free port",
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
        help="a file that has the address while the broker is ready",
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
        raise CommandFailed("python -O removes checks that protect records: run without -O")
    try:
        logging_setup.configure_logging(arguments.log_level)
    except logging_setup.InvalidLogLevel as error:
        raise CommandFailed(f"--log-level {error}") from error
    for each in stop_signals():
        signal.signal(each, _exit_on_signal)
    signal.signal(
        DIAGNOSTICS_SIGNAL, signal.SIG_IGN
    )  # until the broker runs: the default action would end the process
    from odradek.broker.cli import broker_runner

    return broker_runner.serve(
        file=arguments.config,
        overrides=_overrides(arguments),
        port=arguments.port,
        ready_file=arguments.ready_file,
    )


def _exit_on_signal(signal_number: int, _frame: FrameType | None) -> None:
    """Exit cleanly before the event loop runs: nothing has been started yet."""
    log.info("Terminating process due to signal %s", signal.Signals(signal_number).name)
    raise SystemExit(0)


def _overrides(arguments: argparse.Namespace) -> list[str]:
    """Values of --override come last and win over the other options."""
    shortcuts = []
    if arguments.data_dir is not None:
        shortcuts.append(f"log.dirs={arguments.data_dir}")
    overrides: list[str] = arguments.override
    return shortcuts + overrides
