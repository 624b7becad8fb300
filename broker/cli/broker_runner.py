"""Runs a broker in this process: reads its settings, handles signals, waits for its shutdown.

Owner: the process.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import resource
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from odradek.broker.cli.errors import CommandFailed
from odradek.broker.cli.signals import DIAGNOSTICS_SIGNAL, stop_signals
from odradek.broker.network.endpoint import Endpoint
from odradek.broker.server import KafkaServer
from odradek.broker.settings.server_settings import ServerSettings
from odradek.broker.settings.sources import BadSettings, load
from odradek.broker.startup_errors import STARTUP_ERRORS

log = logging.getLogger("kafka.server")

#: The upper limit for the raised file limit: without any limit, some libraries try every number.
FILES_MAX = 1 << 20
STDERR = 2
#: Without a settings file the broker serves only clients on this machine.
DEFAULT_SETTINGS = {"listeners": "PLAINTEXT://127.0.0.1:9092"}
#: Shells add this to the number of the signal that ended a process.
SIGNAL_EXIT_BASE = 128


def serve(
    *, file: Path | None, overrides: Sequence[str], port: int | None, ready_file: Path | None
) -> int:
    """Run the broker until it stops and return the exit code; raises CommandFailed."""
    try:
        settings = load(
            file=file,
            environment=os.environ,
            overrides=overrides,
            defaults=DEFAULT_SETTINGS,
            port=port,
        )
    except BadSettings as error:
        raise CommandFailed(str(error)) from error
    _remove_stale_ready_file(ready_file)
    _raise_file_limit()
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(_serve(settings, ready_file))


async def _serve(settings: ServerSettings, ready_file: Path | None) -> int:
    _cancel_on_signals()
    server = KafkaServer(settings)
    try:
        await server.start()
        _log_diagnostics_on_signal(server)
        gc.freeze()  # the objects of start-up live on: the collector need not scan them
        _announce(", ".join(map(_address, server.endpoints)), ready_file)
        await server.failed.wait()
        status = 1
    except STARTUP_ERRORS as error:
        raise CommandFailed(str(error)) from error
    except asyncio.CancelledError:
        status = 0
    finally:
        _remove_ready_file(ready_file)
        await server.stop()
    log.info("KafkaServer shut down completed")
    return status


def _cancel_on_signals() -> None:
    """Shut down cleanly on the first signal; exit immediately on the second one."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    signals = stop_signals()

    def stop(number: signal.Signals) -> None:
        for each in signals:
            loop.remove_signal_handler(each)
            # Not a handler of the event loop: the loop may be blocked, waiting for a thread.
            signal.signal(each, _exit_immediately)
        # Log only now: a reader of this line may send the second signal.
        log.info("Terminating process due to signal %s", number.name)
        task.cancel()

    for each in signals:
        loop.add_signal_handler(each, stop, each)


def _log_diagnostics_on_signal(server: KafkaServer) -> None:
    asyncio.get_running_loop().add_signal_handler(DIAGNOSTICS_SIGNAL, server.log_diagnostics)


def _exit_immediately(signal_number: int, frame: object) -> None:
    """Exit as if the process had crashed.

    The signal's default action would not do: the kernel ignores it in a process with pid 1.
    """
    name = signal.Signals(signal_number).name
    message = (
        f"odradek: {name} received again: exiting now; the next start has to recover the logs\n"
    )
    # Not through the logger: a handler may be in the middle of a line.
    os.write(STDERR, message.encode())
    os._exit(SIGNAL_EXIT_BASE + signal_number)


def _address(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{host}:{endpoint.port}"


def _remove_stale_ready_file(ready_file: Path | None) -> None:
    """Remove the file of an earlier run, so that it does not announce a broker that has ended."""
    try:
        if ready_file is not None:
            ready_file.unlink(missing_ok=True)
            ready_file.parent.stat()
    except OSError as error:
        raise CommandFailed(f"--ready-file {ready_file}: {error.strerror}") from error


def _announce(address: str, ready_file: Path | None) -> None:
    if ready_file is not None:
        # The rename makes the file appear with its full content.
        temporary = ready_file.with_name(ready_file.name + ".tmp")
        temporary.write_text(address + "\n")
        temporary.replace(ready_file)
    # A closed pipe is no reason to stop.
    with suppress(BrokenPipeError):
        print(f"Ready at {address}", flush=True)


def _remove_ready_file(ready_file: Path | None) -> None:
    if ready_file is not None:
        with suppress(OSError):  # already removed, or not removable: do not delay the shutdown
            ready_file.unlink()


def _raise_file_limit() -> None:
    """Raise the soft limit towards the hard limit: a segment needs 3 files, a client 1."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    new_limit = FILES_MAX if hard == resource.RLIM_INFINITY else min(hard, FILES_MAX)
    if soft == resource.RLIM_INFINITY or soft >= new_limit:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (new_limit, hard))
    except (OSError, ValueError) as error:
        log.warning("Failed to raise the limit of %d open files: %s", soft, error)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
