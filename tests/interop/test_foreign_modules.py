"""Where clients in other languages cannot be had, tests say why; what does not compile fails."""

import json
import shutil

import pytest

from tests.support.foreign_modules import (
    GO_CACHE,
    GO_SOURCES,
    JS_SOURCES,
    BuildFailed,
    ClientUnavailable,
    go_program,
    npm_packages,
)


@pytest.mark.parametrize(("tool", "bring"), [("go", go_program), ("node", npm_packages)])
def test_a_tool_that_is_missing_is_named(tmp_path, monkeypatch, tool, bring):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClientUnavailable, match=f"no `{tool}` on the PATH"):
        bring(cache=tmp_path)


@pytest.mark.skipif(shutil.which("go") is None, reason="there is no `go` on the PATH")
def test_modules_of_go_that_cannot_be_brought_are_a_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("GOPROXY", "off")
    with pytest.raises(ClientUnavailable, match="go mod download"):
        go_program(cache=tmp_path)


@pytest.mark.skipif(shutil.which("npm") is None, reason="there is no `npm` on the PATH")
def test_packages_of_npm_that_cannot_be_brought_are_a_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("npm_config_offline", "true")
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "empty"))
    with pytest.raises(ClientUnavailable, match="npm ci"):
        npm_packages(cache=tmp_path / "packages")
    assert not list((tmp_path / "packages").iterdir())


def test_a_program_that_does_not_compile_is_no_reason_to_go_without(tmp_path):
    try:
        go_program()
    except ClientUnavailable as reason:
        pytest.skip(str(reason))
    shutil.copytree(GO_SOURCES, tmp_path / "go")
    with (tmp_path / "go" / "main.go").open("a") as source:
        source.write("\nvar wrong int = nothing\n")
    with pytest.raises(BuildFailed, match="nothing"):
        go_program(tmp_path / "go", cache=GO_CACHE)


def test_the_packages_of_npm_are_pinned_and_come_from_wherever_npm_is_told_to():
    wanted = json.loads((JS_SOURCES / "package.json").read_text())["dependencies"]
    locked = json.loads((JS_SOURCES / "package-lock.json").read_text())["packages"]
    assert wanted == {name: locked[f"node_modules/{name}"]["version"] for name in wanted}
    assert not [name for name, package in locked.items() if "resolved" in package]
