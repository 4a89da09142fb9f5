"""Names of code (`package.module:name`) that stand in a crawl's settings still lead to something.

A setting that names a policy or a plug-in is kept in `fieldmouse.toml` and read again by every later run.
Names of our own policies are in `import_names.txt`, which is kept by hand: after a module is moved, the old
name must still work. Nothing else that names a module is stored: workers are started by names in the code.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from formats.golden import DATA, ROOT, ask

NAMES = DATA / "import_names.txt"
PLUGINS = {"frontier.policy": "Plain", "plugins.extract": "rows", "plugins.admit": "admit", "plugins.sign": "sign"}


def refused(folder: Path, setting: str, expect: int = 1) -> str:
    """What a new crawl with that setting is refused for: names are looked up before the directory is."""
    (folder / "file").touch()
    said = ask("crawl", folder, "--seed", "http://a.fence.test/", "--set", setting, expect=expect)
    return str(said["error"])


@pytest.mark.parametrize("setting", NAMES.read_text().splitlines())
def test_names_in_settings_lead_to_a_policy(setting: str, tmp_path: Path) -> None:
    assert "is not empty" in refused(tmp_path, setting)


@pytest.mark.parametrize("key", PLUGINS)
def test_plugins_with_the_imports_of_the_guides_are_loaded(
    key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT / "tests")
    assert "is not empty" in refused(tmp_path, f"{key}=formats.sample_plugins:{PLUGINS[key]}")


def test_a_name_that_leads_nowhere_is_refused(tmp_path: Path) -> None:
    assert "cannot be imported" in refused(tmp_path, "refresh.policy=nowhere.at:All", expect=2)


def test_the_package_can_be_run_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "fieldmouse", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout.split()[0]) == (0, "fieldmouse")


def test_former_names_of_the_documented_python_api_still_work() -> None:
    plugins = importlib.import_module("fieldmouse.plugins.page")
    answer = plugins.Answer(url="", status=200, mime="", body=b"", fields=(("vary", "a"),), cut=True)
    assert (answer.cut, answer.all("vary")) == (True, ["a"])
    assert plugins.Request("http://a.test/", "http://a.test").url == "http://a.test/"
    package = importlib.import_module("fieldmouse")
    for reader, names in {
        package.ReadingRoom: ("still", "proposed_rules"),
        package.ReadingRooms: ("still", "placed_rows", "placed_changes"),
    }.items():
        assert all(callable(getattr(reader, name)) for name in names)
