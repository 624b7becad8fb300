"""Client libraries of years ago, each in a folder of its own, run by a Python that it knows.

They are kept in ``.cache/old-clients`` beside the sources, and fetched by pip when they are not
there.  Where one cannot be had, OldClientUnavailable says why.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache" / "old-clients"
PROGRAM = Path(__file__).with_name("old_client_program.py")
INSTALL_TIMEOUT_S = 120
RUN_TIMEOUT_S = 60
WORDS_KEPT = 400


class OldClientUnavailable(Exception):
    """It cannot be had here."""


@dataclass(frozen=True, slots=True)
class OldClient:
    """``pythons`` are those that it runs on, the best first."""

    name: str
    version: str
    pythons: tuple[str, ...]

    def run(self, asked: Mapping[str, Any]) -> Any:
        """What old_client_program.py answers.  Raises OldClientUnavailable."""
        python = _python(self)
        search = os.pathsep.join([str(_installed(self, python)), str(ROOT)])
        ran = subprocess.run(
            [python, str(PROGRAM), self.name],
            input=json.dumps(asked),
            env=os.environ | {"PYTHONPATH": search},
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout)


@cache
def _python(client: OldClient) -> str:
    for name in client.pythons:
        for path in filter(None, (shutil.which(name), *_of_pyenv(name))):
            # A shim may be there for a Python that is not.
            if subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0:
                return path
    wanted = " or ".join(client.pythons)
    raise OldClientUnavailable(f"{client.name} {client.version} needs {wanted}")


def _of_pyenv(name: str) -> list[str]:
    """Those that it has, chosen or not."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    return sorted(map(str, root.glob(f"versions/*/bin/{name}")))


@cache
def _installed(client: OldClient, python: str) -> Path:
    folder = CACHE / f"{client.name}-{client.version}-{Path(python).name}"
    if not folder.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as unfinished:
            _install(client, python, Path(unfinished) / "packages")
            if not folder.exists():
                Path(unfinished, "packages").rename(folder)
    return folder


def _install(client: OldClient, python: str, folder: Path) -> None:
    """By the pip of this Python, for the other."""
    told = subprocess.run(
        [python, "-c", "import sys; print(*sys.version_info[:2], sep='.')"],
        capture_output=True,
        text=True,
        check=True,
    )
    wanted = ["--python-version", told.stdout.strip(), "--only-binary", ":all:", "--no-compile"]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), *wanted]
    packages = [f"{client.name}=={client.version}", *CODEC_PACKAGES.get(client.name, ())]
    try:
        ran = subprocess.run(
            [*command, *packages],
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise OldClientUnavailable(f"pip took more than {INSTALL_TIMEOUT_S} s") from late
    if ran.returncode != 0:
        raise OldClientUnavailable(f"pip: {ran.stderr[-WORDS_KEPT:]}")


#: librdkafka brings its own.
CODEC_PACKAGES = {"kafka-python": ("python-snappy", "lz4", "zstandard")}

OLD_CLIENTS = (
    OldClient("kafka-python", "2.0.2", ("python3.11", "python3.10", "python3.9")),
    OldClient("confluent-kafka", "1.9.2", ("python3.10",)),
)
