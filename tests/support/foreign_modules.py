"""Where are the programs of tests/interop/go and tests/interop/js, with the modules they need?

    .cache/go          the modules of Go's clients, what the compiler made of them, the program
    .cache/kafkajs     npm's packages, in a folder for each state of package-lock.json

The tools bring modules once, from wherever they are configured to, in the versions and with the
checksums that stand beside the programs.  ClientUnavailable says why something cannot be had here.
A program that does not compile is no such reason: that is BuildFailed.

Invariant: a folder of npm's packages that bears its name is complete; it is renamed at the end.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GO_SOURCES = ROOT / "tests" / "interop" / "go"
GO_CACHE = ROOT / ".cache" / "go"
JS_SOURCES = ROOT / "tests" / "interop" / "js"
JS_CACHE = ROOT / ".cache" / "kafkajs"
MANIFESTS = ("package.json", "package-lock.json")
DOWNLOAD_TIMEOUT_S = 180
BUILD_TIMEOUT_S = 400
QUOTED_CHARACTERS = 2000


class ClientUnavailable(Exception):
    """A tool or a module is missing; the message says which."""


class BuildFailed(Exception):
    """The program does not compile; quotes the compiler."""


def go_program(sources: Path = GO_SOURCES, *, cache: Path = GO_CACHE) -> Path:
    """The program, made anew where its sources changed."""
    _demand("go")
    # Downloaded modules are read-only by default, and then a checkout cannot be removed by rm -r.
    flags = f"{os.environ.get('GOFLAGS', '')} -modcacherw".strip()
    folders = {"GOMODCACHE": str(cache / "modules"), "GOCACHE": str(cache / "compiled")}
    environment = folders | {"GOFLAGS": flags}
    with _locked(cache):
        _bring(["go", "mod", "download"], sources, environment)
        _build(["go", "build", "-o", str(cache / "clients"), "."], sources, environment)
    return cache / "clients"


def npm_packages(*, cache: Path = JS_CACHE) -> Path:
    """The node_modules that the program in tests/interop/js needs."""
    _demand("node")
    _demand("npm")
    wanted = b"".join((JS_SOURCES / name).read_bytes() for name in MANIFESTS)
    folder = cache / hashlib.sha256(wanted).hexdigest()[:16]
    with _locked(cache):
        if not folder.exists():
            _install(folder)
    return folder / "node_modules"


def _demand(tool: str) -> None:
    if shutil.which(tool) is None:
        raise ClientUnavailable(f"there is no `{tool}` on the PATH")


@contextmanager
def _locked(cache: Path) -> Iterator[None]:
    """One process brings modules while others wait."""
    cache.mkdir(parents=True, exist_ok=True)
    with cache.with_name(f"{cache.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        unfinished = Path(scratch) / "packages"
        unfinished.mkdir()
        for name in MANIFESTS:
            shutil.copy(JS_SOURCES / name, unfinished)
        _bring(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], unfinished, {})
        unfinished.rename(folder)


def _bring(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
    try:
        ran = _run(command, folder, environment, timeout_s=DOWNLOAD_TIMEOUT_S)
    except subprocess.TimeoutExpired as late:
        reason = f"`{' '.join(command)}` took more than {DOWNLOAD_TIMEOUT_S} s"
        raise ClientUnavailable(reason) from late
    if ran.returncode:
        raise ClientUnavailable(f"`{' '.join(command)}`: {ran.stdout[-QUOTED_CHARACTERS:]}")


def _build(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
    ran = _run(command, folder, environment, timeout_s=BUILD_TIMEOUT_S)
    if ran.returncode:
        raise BuildFailed(f"`{' '.join(command)}`: {ran.stdout[-QUOTED_CHARACTERS:]}")


def _run(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], *, timeout_s: float
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=folder,
        env=os.environ | environment,
        timeout=timeout_s,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
