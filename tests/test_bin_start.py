"""``bin/start`` where everything is installed: a broker, and its arguments passed on."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def checkout(tmp_path):
    """The scripts, with an environment that looks installed: nothing is downloaded."""
    root = tmp_path / "checkout"
    (root / "bin").mkdir(parents=True)
    (root / "config").mkdir()
    for name in ("bin/start", "bin/prepare", "config/server.properties", "pyproject.toml"):
        shutil.copy(ROOT / name, root / name)
    scripts = root / ".venv" / "bin"
    scripts.mkdir(parents=True)
    (scripts / "python").symlink_to(sys.executable)
    odradek = scripts / "odradek"
    odradek.write_text(f'#!/bin/sh\nexec {sys.executable} -m odradek.broker.cli.main "$@"\n')
    odradek.chmod(0o755)
    (root / ".venv" / "installed-cli,cluster,regex,speed").touch()
    return root


def test_a_broker_runs_until_it_is_told_to_stop(checkout, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    environment = {**os.environ, "PYTHON": sys.executable}
    with subprocess.Popen(
        [checkout / "bin" / "start", "--port", "0", "--ready-file", "ready"],
        cwd=elsewhere,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            ready = process.stdout.readline()
            # What is relative is so to where one is, not to where the script is.
            assert (elsewhere / "ready").read_text() == ready.removeprefix("Ready at ")
        finally:
            process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=30)
    assert (process.returncode, ready[:19]) == (0, "Ready at 127.0.0.1:"), log
    assert "broker.id=0" in (elsewhere / "kafka-logs" / "meta.properties").read_text()


def test_its_options_are_those_of_serve(checkout):
    ran = subprocess.run(
        [checkout / "bin" / "start", "--help"],
        env={**os.environ, "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert ran.returncode == 0
    assert "--ready-file" in ran.stdout


def test_an_old_python_is_refused(checkout, tmp_path):
    old = tmp_path / "python"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.8.0" && exit\nexit 1\n')
    old.chmod(0o755)
    ran = subprocess.run(
        [checkout / "bin" / "start"],
        env={**os.environ, "PYTHON": str(old)},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert ran.returncode == 1
    assert "Python 3.11 or newer is needed" in ran.stderr
