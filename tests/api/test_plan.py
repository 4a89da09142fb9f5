"""Plans report every invalid argument before anything is created."""

from __future__ import annotations

import errno
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fieldmouse.api.crawl_preparation import KEYWORD_SETTINGS, plan, plan_new, plan_to_resume, settings_text_with_seeds
from fieldmouse.config import settings_file
from fieldmouse.config.settings_file import Settings
from fieldmouse.errors import CrawlDirError, CrawlExists, FieldmouseError, NotACrawl, StorageError
from fieldmouse.storage.directory import CrawlDir

SEED = "http://127.0.1.1:8000/"


@pytest.fixture
def made(tmp_path: Path) -> CrawlDir:
    asked = Settings().override({"crawl.seeds": [SEED], "politeness.delay": "7s"})
    text = settings_file.render(asked).replace("[crawl]", "# mine\n[crawl]")
    return CrawlDir.create(tmp_path / "c", shards=1, settings=text.encode())


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"seeds": ["nonsense"]}, "`nonsense` is no URL we can crawl", "did you mean `https://nonsense`?"),
    ({"seeds": ["ftp://a/"]}, "`ftp://a/` is no URL", "http://"),
    ({"seeds": [5]}, "`5` is no URL", "http://"),
    ({"seeds": 5}, "`seeds` is 5", 'seeds=["https://..."]'),
    ({"seeds": []}, "no seed is given", "seeds=[...]"),
    ({"words": {"delay": "soon"}}, '`politeness.delay` is "soon"', "500/h"),
    ({"words": {"delay": -1.0}}, '`politeness.delay` is "-1.000000s"', "500/h"),
    ({"words": {"delay": float("nan")}}, "`politeness.delay` is", "500/h"),
    ({"words": {"pages": "many"}}, '`crawl.pages` is "many"', "a whole number"),
    ({"words": {"pages": -1}}, "`crawl.pages` is -1", "a whole number"),
    ({"words": {"pages": True}}, "`crawl.pages` is true", "a whole number"),
    ({"words": {"scope": "galaxy"}}, '`scope.mode` is "galaxy"', "site"),
    ({"words": {"policy": "best"}}, '`frontier.policy` is "best"', "index"),
    ({"words": {"policy": "no.such:Thing"}}, "`no.such:Thing` cannot be imported", "install"),
    ({"words": {"resolve": ["a"]}}, "network.resolve", "www.example.org=192.0.2.7"),
    ({"words": {"allow_private": "yes"}}, '`network.allow_private` is "yes"', "true or false"),
    ({"changes": {"limits.bdoy": 1}}, "there is no setting `limits.bdoy`", "`limits.body`"),
    ({"changes": {"storage": {"checkpoint": "1s"}}}, "no setting `storage`", "a section: name one of"),
    ({"changes": ["limits.body"]}, "`settings` is ['limits.body']", "settings={"),
    ({"changes": {5: 1}}, "`settings` is {5: 1}", "settings={"),
    ({"changes": {"network.ca_file": "/nowhere.pem"}}, "`/nowhere.pem` cannot be read", "PEM"),
    ({"changes": {"network.source": "203.0.113.9"}}, "cannot connect from 203.0.113.9 (`network.s", "has"),
]


@pytest.mark.parametrize(("wrong", "sentence", "hint"), WRONG, ids=lambda value: str(value)[:40])
def test_invalid_arguments_raise_with_a_hint_and_create_nothing(
    tmp_path: Path, wrong: dict[str, Any], sentence: str, hint: str
) -> None:
    asked = {"words": {}, "changes": {}, "seeds": [SEED]} | wrong
    with pytest.raises(FieldmouseError) as told:
        plan(tmp_path / "c", asked["words"], asked["changes"], asked["seeds"])
    assert sentence in str(told.value)
    assert hint in told.value.hint
    assert not list(tmp_path.iterdir())


def test_an_unusable_directory_is_refused_by_the_plan(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.tex").write_text("")
    for name, says in (("file", "is a file"), ("full", "is not empty"), ("file/below", "Not a directory")):
        with pytest.raises(CrawlDirError, match=says) as told:
            plan(tmp_path / name, {}, {}, [SEED])
        assert told.value.hint


def test_seconds_in_python_and_on_the_command_line_mean_the_same() -> None:
    def delay(value: object) -> float:
        return plan_new(Path("nowhere"), {"delay": value}, {}, [SEED]).settings.politeness.delay

    assert delay(0.25) == delay("250ms") == 0.25
    assert delay(2) == delay("2s") == 2.0
    assert delay(0.0) == delay(0) == delay("0s") == 0.0


def test_none_keeps_the_default_and_zero_is_a_value() -> None:
    nothing: dict[str, object] = dict.fromkeys(KEYWORD_SETTINGS)
    assert plan_new(Path("nowhere"), nothing, {}, [SEED]).settings.override({"crawl.seeds": []}) == Settings()
    said = plan_new(Path("nowhere"), nothing | {"pages": 0, "delay": 0}, {"limits.body": "1MiB"}, [SEED])
    assert (said.settings.crawl.pages, said.settings.politeness.delay) == (0, 0.0)
    assert said.settings.limits.body == 1 << 20


def test_a_single_seed_may_be_a_string_and_duplicates_are_removed() -> None:
    assert plan_new(Path("nowhere"), {}, {}, SEED).seeds == (SEED,)
    assert plan_new(Path("nowhere"), {}, {}, [SEED, SEED[:-1], "http://b/"]).seeds == (SEED, "http://b/")


def test_a_plan_creates_nothing_until_it_is_opened(tmp_path: Path) -> None:
    new = plan(tmp_path / "c", {"pages": 7}, {}, [SEED])
    assert new.new
    assert not list(tmp_path.iterdir())
    home = new.open_and_lock()
    assert home.owner_pid() is not None
    home.unlock()
    kept = settings_file.load(home / "fieldmouse.toml")
    assert (kept.crawl.pages, kept.crawl.seeds) == (7, (SEED,))
    with pytest.raises(CrawlExists):
        plan_new(tmp_path / "c", {}, {}, [SEED])
    assert not plan(tmp_path / "c", {}, {}).new


def test_resume_without_a_crawl_raises(tmp_path: Path) -> None:
    with pytest.raises(NotACrawl):
        plan_to_resume(tmp_path / "c", {}, {})


def test_arguments_hold_for_one_run_and_new_seeds_stay(made: CrawlDir) -> None:
    before = (made / "fieldmouse.toml").read_bytes()
    again = plan(made.path, {"delay": 0.0}, {}, [SEED, "http://b/"])
    assert again.seeds == (SEED, "http://b/")
    assert again.new_seeds == ("http://b/",)
    assert again.settings.politeness.delay == 0.0
    assert (made / "fieldmouse.toml").read_bytes() == before, "nothing is written while it is only planned"
    again.open_and_lock().unlock()
    text = (made / "fieldmouse.toml").read_text()
    kept = settings_file.parse(text)
    assert kept.politeness.delay == 7.0
    assert kept.crawl.seeds == (SEED, "http://b/")
    assert "# mine" in text, "the file is its owner's"
    assert plan(made.path, {}, {}).new_seeds == ()


def test_seeds_added_to_the_settings_file_between_two_runs_count(made: CrawlDir) -> None:
    file = made / "fieldmouse.toml"
    file.write_text(settings_text_with_seeds(file.read_text(), ["http://b/"]))
    assert plan(made.path, {}, {}).seeds == (SEED, "http://b/")


def files() -> Iterator[str]:
    yield ""
    yield "# nothing\n"
    yield "[crawl]"
    yield '[crawl]\nseeds = ["http://a/"]\npages = 3\n'
    yield '[politeness]\ndelay = "1s"\n\n[crawl] # h\n  seeds   =  [\n  "http://a/]", # one\n]\npages = 3\n'
    yield '[crawl]\npages = 3\n[scope]\nmode = "web"\n'
    yield 'crawl = { pages = 3, seeds = ["http://a/"] }\n'
    yield "crawl.pages = 3\n"
    yield settings_file.render(Settings())


@pytest.mark.parametrize("text", list(files()))
@settings(max_examples=8)
@given(added=st.lists(st.text("/#'=,[]äab ").map("http://b/{}".format), min_size=1))
def test_adding_seeds_changes_nothing_else_in_any_layout_of_the_file(text: str, added: list[str]) -> None:
    before, after = settings_file.parse(text), settings_file.parse(edited := settings_text_with_seeds(text, added))
    assert after == before.override({"crawl.seeds": [*before.crawl.seeds, *added]})
    assert tomllib.loads(edited)
    if not text.startswith("crawl"):
        kept = [line for line in text.splitlines() if "#" in line and "seeds" not in line and "http" not in line]
        assert all(line in edited for line in kept)


def test_a_failed_write_of_seeds_releases_the_lock(made: CrawlDir, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = plan_to_resume(made.path, {}, {}, ["http://127.0.1.2:8000/"])
    with monkeypatch.context() as patched:
        patched.setattr(sys.modules[plan_to_resume.__module__], "write_settings", _refuse)
        with pytest.raises(StorageError, match="No space left"):
            asked.open_and_lock()
    home = asked.open_and_lock()
    assert "http://127.0.1.2:8000/" in (home / "fieldmouse.toml").read_text()
    home.unlock()


def _refuse(path: Path, content: bytes, *, private: bool) -> None:
    raise OSError(errno.ENOSPC, "No space left on device", str(path))


def test_a_settings_file_with_secrets_is_private(tmp_path: Path) -> None:
    secret = {"network.headers": {"Cookie": "id=s3cret"}}
    for name, changes, mode in (("open", {}, None), ("closed", secret, 0o600)):
        home = plan_new(tmp_path / name, {}, changes, [SEED]).open_and_lock()
        home.unlock()
        usual = (tmp_path / name / "crawl.json").stat().st_mode
        assert (home / "fieldmouse.toml").stat().st_mode & 0o777 == (mode or usual & 0o777)
        again = plan_to_resume(tmp_path / name, {}, {}, [f"{SEED}more"]).open_and_lock()
        again.unlock()
        assert f"{SEED}more" in (home / "fieldmouse.toml").read_text()
        assert (home / "fieldmouse.toml").stat().st_mode & 0o777 == (mode or usual & 0o777)


def test_new_seeds_keep_the_mode_of_the_settings_file(made: CrawlDir) -> None:
    (made / "fieldmouse.toml").chmod(0o640)
    plan_to_resume(made.path, {}, {}, [f"{SEED}more"]).open_and_lock().unlock()
    assert (made / "fieldmouse.toml").stat().st_mode & 0o777 == 0o640


def test_a_leftover_settings_file_of_a_kill_does_not_make_the_settings_public(tmp_path: Path) -> None:
    left = tmp_path / "c" / "fieldmouse.toml.new"
    left.parent.mkdir()
    left.write_bytes(b"")
    left.chmod(0o666)
    secret = {"network.headers": {"Cookie": "id=s3cret"}}
    plan_new(tmp_path / "c", {}, secret, [SEED]).open_and_lock().unlock()
    assert (tmp_path / "c" / "fieldmouse.toml").stat().st_mode & 0o777 == 0o600
