"""Merging of an agent's settings with those of the crawl on the coordinator."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from cluster.coordinators import META, RedisWorld, ServerProcess, a_server, needs_server
from fieldmouse.api import agent_preparation
from fieldmouse.api.crawl_preparation import CrawlPlan
from fieldmouse.config import settings_file
from fieldmouse.config.settings_file import (
    SETTINGS_OF_AUTHORITY,
    SettingAuthority,
    Settings,
    authority_over,
    keys_of,
    parse_published,
    render_published,
    sections_of,
)
from fieldmouse.errors import SettingsError, UsageError

SEED = "http://a.test/"
UNIFORM = "fieldmouse.policy.polling.policies:UniformPolicy"
pytestmark = needs_server


@pytest.fixture(scope="module")
def server() -> object:
    with a_server() as process:
        yield process


def found(server: ServerProcess, folder: Path, changes: Mapping[str, object]) -> CrawlPlan:
    """Create a crawl with these settings."""
    RedisWorld(server)
    return agent_preparation.plan_agent(folder / "first", [server.url], "atlas", {}, changes, [SEED])


def join(server: ServerProcess, folder: Path, changes: Mapping[str, object] | None = None) -> CrawlPlan:
    return agent_preparation.plan_agent(folder / "second", [server.url], "atlas", {}, changes or {})


def write(server: ServerProcess, settings: str) -> None:
    """Write to the server directly, past all agents."""
    key = META.replace("fieldmouse", "atlas")
    charter = json.loads(server.client().hget(key, "charter") or b"")
    server.client().hset(key, "charter", json.dumps({**charter, "settings": settings}))


@pytest.mark.parametrize(
    ("setting", "value", "shown"),
    [
        ("network.allow_private", "true", "network.allow_private = true"),
        ("network.tls_verify", "false", "network.tls_verify = false"),
        ("politeness.obey_robots_txt", "false", "politeness.obey_robots_txt = false"),
        ("plugins.extract", "json:dumps", 'plugins.extract = "json:dumps"'),
        ("plugins.admit", "json:dumps", 'plugins.admit = "json:dumps"'),
        ("plugins.sign", "json:dumps", 'plugins.sign = "json:dumps"'),
        ("plugins.readers", '{"application/x-a" = "json:dumps"}', "plugins.readers = "),
        ("plugins.sign_hosts", '["https://evil.test/"]', "plugins.sign_hosts = "),
        ("plugins.keep_signatures", "true", "plugins.keep_signatures = true"),
        ("refresh.policy", f"{UNIFORM}", f'refresh.policy = "{UNIFORM}"'),
        ("crawl.product", "otherbot/1.0", 'crawl.product = "otherbot/1.0"'),
        ("limits.body", "1TiB", 'limits.body = "1TiB"'),
    ],
)
def test_harmful_settings_are_taken_only_if_the_machine_allows_them(
    server: ServerProcess, tmp_path: Path, setting: str, value: str, shown: str
) -> None:
    found(server, tmp_path, {})
    told = Settings().override({setting: value})
    write(server, render_published(told.override({"crawl.seeds": [SEED]})))
    with pytest.raises(UsageError, match="this machine has not allowed it") as refused:
        join(server, tmp_path)
    assert f"the crawl `atlas` sets {shown}" in str(refused.value)
    assert f"--set {setting}=" in refused.value.hint or f"--set '{setting}=" in refused.value.hint
    assert not (tmp_path / "second").exists()
    section, key = setting.split(".")
    settings = join(server, tmp_path, {setting: value}).settings
    assert getattr(getattr(settings, section), key) == getattr(getattr(told, section), key)


def test_the_hint_for_private_addresses_names_the_short_option(server: ServerProcess, tmp_path: Path) -> None:
    found(server, tmp_path, {"network.allow_private": "true"})
    with pytest.raises(UsageError) as refused:
        join(server, tmp_path)
    assert str(refused.value) == (
        "the crawl `atlas` sets network.allow_private = true; this machine has not allowed it"
    )
    assert refused.value.hint == (
        "if you want that here, add `--allow-private` (or `--set network.allow_private=true`)"
    )


def test_code_that_only_the_server_names_is_never_imported(
    server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "planted_module.py").write_text("raise SystemExit('imported')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    for setting in ("plugins.extract", "plugins.admit", "plugins.sign", "refresh.policy", "frontier.policy"):
        found(server, tmp_path, {})
        write(server, '[crawl]\nseeds = ["http://a.test/"]\n' + _toml(setting, "planted_module:thing"))
        if setting == "frontier.policy":  # a machine setting: the value on the server is ignored
            assert join(server, tmp_path).settings.frontier.policy == "index"
        else:
            with pytest.raises(UsageError, match="has not allowed it"):
                join(server, tmp_path)
        assert "planted_module" not in sys.modules


def _toml(setting: str, value: str) -> str:
    section, key = setting.split(".")
    return f'[{section}]\n{key} = "{value}"\n'


def test_a_returning_agent_keeps_its_permissions(server: ServerProcess, tmp_path: Path) -> None:
    found(server, tmp_path, {"network.allow_private": "true", "politeness.obey_robots_txt": "false"})
    said = {"network.allow_private": "true", "politeness.obey_robots_txt": "false"}
    join(server, tmp_path, said).open_and_lock().unlock()
    again = join(server, tmp_path).settings
    assert again.network.allow_private
    assert not again.politeness.obey_robots_txt


def test_a_settings_file_in_the_directory_can_allow_it(server: ServerProcess, tmp_path: Path) -> None:
    found(server, tmp_path, {"network.allow_private": "true"})
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / "fieldmouse.toml").write_text("[network]\nallow_private = true\n")
    assert join(server, tmp_path).settings.network.allow_private


def test_a_machine_may_allow_more_than_the_crawl_uses(server: ServerProcess, tmp_path: Path) -> None:
    found(server, tmp_path, {})
    assert not join(server, tmp_path, {"network.allow_private": "true"}).settings.network.allow_private


@pytest.mark.parametrize(
    ("theirs", "ours", "kept"), [("1s", "5s", 5.0), ("5s", "1s", 5.0), ("0s", None, 0.0), ("7s", None, 7.0)]
)
def test_an_agent_may_only_lengthen_delays(
    server: ServerProcess, tmp_path: Path, theirs: str, ours: str | None, kept: float
) -> None:
    found(server, tmp_path, {"politeness.delay": theirs})
    said = {} if ours is None else {"politeness.delay": ours}
    assert join(server, tmp_path, said).settings.politeness.delay == kept


def test_an_agents_address_delay_does_not_shorten_that_of_the_crawl(server: ServerProcess, tmp_path: Path) -> None:
    found(server, tmp_path, {"politeness.delay": "5s"})
    polite = join(server, tmp_path, {"politeness.address_delay": "2s"}).settings.politeness
    assert (polite.delay, polite.effective_address_delay) == (5.0, 5.0)


def test_machine_settings_are_never_sent_to_the_server(server: ServerProcess, tmp_path: Path) -> None:
    own = {
        "notify.webhook": "https://hooks.test/secret-token",
        "network.headers": '{"Authorization" = "Bearer abc"}',
        "network.resolve": '["a.test=10.1.2.3"]',
        "network.nameservers": '["10.0.0.53"]',
        "archive.prefix": "inhouse",
        "storage.min_free": "3GiB",
    }
    found(server, tmp_path, own)
    stored = b"".join(server.client().hvals(META.replace("fieldmouse", "atlas")))
    for secret in (b"secret-token", b"Bearer abc", b"10.1.2.3", b"10.0.0.53", b"inhouse", b"3GiB", b"notify"):
        assert secret not in stored


def test_settings_that_an_older_version_wrote_to_the_server_are_ignored(server: ServerProcess, tmp_path: Path) -> None:
    found(server, tmp_path, {})
    told = Settings().override(
        {"notify.webhook": "https://hooks.test/x", "fetch.concurrency": 7, "crawl.seeds": [SEED], "crawl.max_depth": 3}
    )
    write(server, settings_file.render(told))
    settings = join(server, tmp_path).settings
    assert (settings.notify.webhook, settings.fetch.concurrency) == ("", Settings().fetch.concurrency)
    assert settings.crawl.max_depth == 3
    write(server, '[notify]\nwebhook = 5\nno_such_key = 1\n[fetch]\nconcurrency = "many"\n')
    with pytest.raises(SettingsError, match="no_such_key"):
        join(server, tmp_path)


@pytest.mark.parametrize("settings", ["a = " + "[" * 5000, "[crawl]\npages = " + "9" * 5000, "\x00", "[x", "="])
def test_invalid_settings_on_the_server_raise_a_clear_error(
    server: ServerProcess, tmp_path: Path, settings: str
) -> None:
    found(server, tmp_path, {})
    write(server, settings)
    with pytest.raises(SettingsError):
        join(server, tmp_path)


def test_every_setting_has_a_decider() -> None:
    listed = Counter(name for names in SETTINGS_OF_AUTHORITY.values() for name in names.split())
    wanted = Counter[str]()
    for section, table in sections_of(Settings).items():
        whole = f"{section}.*"
        wanted.update([whole] if whole in listed else [f"{section}.{key}" for key in keys_of(table)])
    assert listed == wanted, "the table lacks a setting, has it twice, or names none"
    code = {"plugins.extract", "plugins.admit", "plugins.readers", "plugins.sign", "refresh.policy"}
    for name in code:
        assert authority_over(*name.split(".")) in (SettingAuthority.AGREE, SettingAuthority.CODE)


def test_published_settings_read_back_as_the_settings_of_the_crawl() -> None:
    settings = Settings().override({"crawl.max_depth": 3, "fetch.concurrency": 7, "politeness.delay": "3s"})
    again = parse_published(render_published(settings), "here")
    for section, table in sections_of(Settings).items():
        for key in keys_of(table):
            its = settings if authority_over(section, key) is not SettingAuthority.MACHINE else Settings()
            assert getattr(getattr(again, section), key) == getattr(getattr(its, section), key)
