"""A ZooKeeper server, started from jars that are installed already.

    python -m odradek.controller.zookeeper_server --data-dir D --port P

The jars come from the given classpath, from an unpacked ZooKeeper at ZOOKEEPER_HOME, or from
PySpark's wheel.  The configuration is generated in the data directory.  The server ends with the
process that started it, however that process ends (see ``tied_process``).

Owner: the thread that started it; it must live as long as the server should.
"""

import argparse
import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TextIO

from odradek.controller.tied_process import tied_command

MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
LOOPBACK = "127.0.0.1"
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 10.0
POLL_INTERVAL_S = 0.05
OUTPUT_TAIL_LINES = 20

NO_JAVA = (
    "ZooKeeper needs Java: install it (Debian and Ubuntu: apt-get install default-jre-headless) "
    "or set JAVA_HOME"
)
NO_JARS = (
    "No ZooKeeper jars: install odradek[spark], whose wheel carries them, set ZOOKEEPER_HOME to an "
    "unpacked ZooKeeper, or pass --classpath"
)

# PySpark's wheel has hundreds of jars; opening all of them would double the startup time.
PYSPARK_JARS = ("zookeeper-*", "slf4j-api-*", "log4j-*", "netty-*", "metrics-core-*", "snappy-*")

PROPERTIES = {
    "tickTime": "500",
    "minSessionTimeout": "1000",
    "maxSessionTimeout": "120000",
    "admin.enableServer": "false",  # it would take port 8080
    "4lw.commands.whitelist": "srvr,ruok",
    "maxClientCnxns": "0",  # all brokers may run on one machine
    "autopurge.purgeInterval": "1",
}

JAVA_OPTIONS = ("-Xmx512m", "-XX:+UseSerialGC", "-Dzookeeper.jmx.log4j.disable=true")

# ZooKeeper's logging library depends on the release; each of them is set to log errors only.
LOGGING_FILES = {
    "log4j2.configurationFile": (
        "log4j2.properties",
        """\
status=error
appender.console.type=Console
appender.console.name=console
appender.console.target=SYSTEM_ERR
appender.console.layout.type=PatternLayout
appender.console.layout.pattern=%d %p %m (%c{1})%n%ex{2}
rootLogger.level=error
rootLogger.appenderRef.console.ref=console
""",
    ),
    "logback.configurationFile": (
        "logback.xml",
        """\
<configuration>
  <appender name="console" class="ch.qos.logback.core.ConsoleAppender">
    <target>System.err</target>
    <encoder><pattern>%d %p %m \\(%c{1}\\)%n%ex{2}</pattern></encoder>
  </appender>
  <root level="ERROR"><appender-ref ref="console"/></root>
</configuration>
""",
    ),
    "log4j.configuration": (
        "log4j.properties",
        """\
log4j.rootLogger=ERROR, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d %p %m (%c{1})%n
""",
    ),
}


class CannotStart(Exception):
    """Java or the jars are missing, or the server did not start; the message says which."""


class ZooKeeperServer:
    """A server with its data directory.  It can be started again after it has stopped."""

    def __init__(
        self,
        data_dir: Path,
        *,
        port: int,
        host: str = LOOPBACK,
        classpath: str | None = None,
        properties: Mapping[str, str] = {},
        java_options: Sequence[str] = (),
    ) -> None:
        self.data_dir = data_dir.absolute()
        self.host = host
        self.port = port
        self._classpath = classpath
        self._properties = properties
        self._java_options = java_options
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        return self._running_process.pid

    @property
    def output_file(self) -> Path:
        """The file with the output of all runs."""
        return self.data_dir / "zookeeper.out"

    @property
    def _running_process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, f"ZooKeeper at {self.address} is not running"
        return self._process

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, *, timeout_s: float = START_TIMEOUT_S) -> None:
        """Start the server and return when it responds.  Raises CannotStart."""
        assert not self.is_running(), f"ZooKeeper at {self.address} runs already"
        self.data_dir.mkdir(parents=True, exist_ok=True)
        command = self._command()
        with self.output_file.open("ab") as output:
            # Ctrl-C goes to the parent only, which stops the server after its clients.
            self._process = subprocess.Popen(
                tied_command(command),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                process_group=0,
            )
        with contextlib.ExitStack() as cleanup:
            cleanup.callback(self.kill)
            self._wait_until_ready(timeout_s)
            cleanup.pop_all()

    def stop(self) -> None:
        """Terminate the server and wait until it has exited."""
        self._running_process.terminate()
        try:
            self._running_process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """Kill the server at once, like a crash; this works on a suspended server, too."""
        self._running_process.kill()
        self._running_process.wait()
        self._process = None

    def suspend(self) -> None:
        """Make the server hang: it accepts connections and keeps them open, but never responds."""
        self._running_process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._running_process.send_signal(signal.SIGCONT)

    def wait(self) -> int:
        """Wait until the server exits by itself or by a signal; return its exit code."""
        return self._running_process.wait()

    def is_responding(self) -> bool:
        try:
            return four_letter_word("srvr", host=self.host, port=self.port).startswith("Zookeeper")
        except OSError:
            return False

    def _command(self) -> list[str]:
        java = find_java()
        classpath = self._classpath or find_classpath()
        configuration = self.data_dir / "zoo.cfg"
        properties = {
            **PROPERTIES,
            "dataDir": str(self.data_dir),
            "clientPort": str(self.port),
            "clientPortAddress": self.host,
            **self._properties,
        }
        configuration.write_text("".join(f"{name}={text}\n" for name, text in properties.items()))
        logging = [
            f"-D{option}={self._write_file(name, text).as_uri()}"
            for option, (name, text) in LOGGING_FILES.items()
        ]
        options = [*JAVA_OPTIONS, *logging, *self._java_options]
        return [java, "-cp", classpath, *options, MAIN_CLASS, str(configuration)]

    def _write_file(self, name: str, text: str) -> Path:
        path = self.data_dir / name
        path.write_text(text)
        return path

    def _wait_until_ready(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not self.is_responding():
            if self._running_process.poll() is not None:
                raise CannotStart(f"ZooKeeper exited during startup: {self._output_tail()}")
            if time.monotonic() > deadline:
                raise CannotStart(
                    f"ZooKeeper did not respond at {self.address} within {timeout_s:g} s: "
                    f"{self._output_tail()}"
                )
            time.sleep(POLL_INTERVAL_S)

    def _output_tail(self) -> str:
        lines = self.output_file.read_text(errors="replace").splitlines()
        return (
            "\n".join(lines[-OUTPUT_TAIL_LINES:]) or f"it printed nothing into {self.output_file}"
        )


def find_java() -> str:
    """Return the path of java, from JAVA_HOME or the PATH.  Raises CannotStart."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    if java is None:
        raise CannotStart(NO_JAVA)
    return java


def find_classpath() -> str:
    """Return the jars of ZOOKEEPER_HOME or of PySpark's wheel.  Raises CannotStart."""
    home = os.environ.get("ZOOKEEPER_HOME")
    jars = sorted(Path(home, "lib").glob("*.jar")) if home else _pyspark_jars()
    if not any(jar.name.startswith("zookeeper-") for jar in jars):
        raise CannotStart(NO_JARS)
    return os.pathsep.join(map(str, jars))


def _pyspark_jars() -> list[Path]:
    # find_spec does not import PySpark, which would take a second.
    pyspark = importlib.util.find_spec("pyspark")
    if pyspark is None or pyspark.origin is None:
        return []
    folder = Path(pyspark.origin).parent / "jars"
    return sorted(jar for pattern in PYSPARK_JARS for jar in folder.glob(f"{pattern}.jar"))


def four_letter_word(word: str, *, host: str, port: int, timeout_s: float = 2.0) -> str:
    """Return the server's response to a four-letter-word command."""
    with socket.create_connection((host, port), timeout_s) as connection:
        connection.sendall(word.encode())
        with connection.makefile("r", errors="replace") as response:
            return response.read()


def main(arguments: Sequence[str] | None = None, *, program: str | None = None) -> int:
    options = _parser(program).parse_args(arguments)
    server = ZooKeeperServer(
        options.data_dir, port=options.port, host=options.host, classpath=options.classpath
    )

    def stop(_signal: int, _frame: FrameType | None) -> None:
        raise SystemExit(0)

    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, stop)
    try:
        server.start()
        _print_line(sys.stdout, f"ZooKeeper listens on {server.address}")
        code = server.wait()
        _print_line(sys.stderr, f"ZooKeeper exited with code {code}; see {server.output_file}")
    except CannotStart as error:
        _print_line(sys.stderr, str(error))
    finally:
        if server.is_running():
            server.stop()
    return 1


def _parser(program: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program or "python -m odradek.controller.zookeeper_server",
        description="Run a ZooKeeper server until SIGTERM or SIGINT.",
    )
    parser.add_argument("--data-dir", type=Path, required=True, help="the data directory")
    parser.add_argument("--port", type=int, required=True, help="the port for client connections")
    parser.add_argument("--host", default=LOOPBACK, help="the address to listen on (%(default)s)")
    parser.add_argument("--classpath", help="the classpath of ZooKeeper's jars, as for java -cp")
    return parser


def _print_line(stream: TextIO, line: str) -> None:
    # The server must not end because the reader of its output is gone.
    with contextlib.suppress(BrokenPipeError):
        stream.write(f"{line}\n")
        stream.flush()


if __name__ == "__main__":
    sys.exit(main())
