"""Settings of a crawl: `fieldmouse.toml`, read into typed values and written with comments.

A setting is written as text with units ("10s", "64MiB") and read into a checked number. Unknown keys are
errors that name the key and the likely meaning: a crawl that ignored `dealy = "10s"` would be impolite for
days before its owner noticed.

    settings = load(Path("atlas/fieldmouse.toml"))
    settings.politeness.delay          # seconds
    settings = settings.override({"politeness.delay": "0s", "crawl.pages": 500})

The structs in `sections` are the only list of settings. Their annotations say how each value is read and
written, so there is no second list to keep in step.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from fieldmouse.config import spellings, toml_format
from fieldmouse.config.notify_section import NotifySection
from fieldmouse.config.sections import (
    ArchiveSection,
    BufferSection,
    ClusterSection,
    ControlSection,
    CostSection,
    CrawlSection,
    FetchSection,
    FrontierSection,
    IndexSection,
    LimitsSection,
    NetworkSection,
    NoiseSection,
    PluginsSection,
    PolitenessSection,
    RefreshSection,
    ScopeSection,
    StorageSection,
)
from fieldmouse.config.toml_format import render as render
from fieldmouse.errors import SettingsError, shell_quoted


class Settings(msgspec.Struct, frozen=True):
    """All settings of a crawl, by section."""

    crawl: CrawlSection = CrawlSection()
    scope: ScopeSection = ScopeSection()
    politeness: PolitenessSection = PolitenessSection()
    fetch: FetchSection = FetchSection()
    limits: LimitsSection = LimitsSection()
    network: NetworkSection = NetworkSection()
    frontier: FrontierSection = FrontierSection()
    buffer: BufferSection = BufferSection()
    control: ControlSection = ControlSection()
    cost: CostSection = CostSection()
    index: IndexSection = IndexSection()
    archive: ArchiveSection = ArchiveSection()
    plugins: PluginsSection = PluginsSection()
    notify: NotifySection = NotifySection()
    storage: StorageSection = StorageSection()
    refresh: RefreshSection = RefreshSection()
    noise: NoiseSection = NoiseSection()
    cluster: ClusterSection = ClusterSection()

    def override(self, dotted: Mapping[str, object]) -> Settings:
        """Copy of these settings with some values replaced, named as `section.key`.

        A value is what TOML would hold, or text from the command line.

        >>> Settings().override({"politeness.delay": "250ms", "crawl.pages": "500"}).crawl.pages
        500
        """
        changed = self
        for name, value in spellings.renamed(dotted).items():
            section, key = toml_format.split_name(Settings, name)
            table = toml_format.with_values(getattr(changed, section), section, {key: value}, words=True)
            changed = msgspec.structs.replace(changed, **{section: table})
        return changed.validated()

    @property
    def secrets(self) -> list[str]:
        """Names of the settings that hold secrets. Only the owner may read a file with these values.

        >>> Settings().override({"network.headers": {"Cookie": "id=1", "DNT": "1"}}).secrets
        ['network.headers']
        """
        return toml_format.secret_settings(self)

    def validated(self) -> Settings:
        """Return these settings; raise `SettingsError` if two of them contradict each other."""
        if self.frontier.front_min > self.frontier.front_max:
            raise SettingsError(
                f"`frontier.front_min` ({self.frontier.front_min}) is more than"
                f" `frontier.front_max` ({self.frontier.front_max})",
                "raise `frontier.front_max` or lower `frontier.front_min`",
            )
        self.control.check(most=self.fetch.concurrency)
        self.notify.check()
        self.cluster.check()
        return self


def parse(
    text: str,
    where: str = "fieldmouse.toml",
    is_ignored: Callable[[str, str], bool] = lambda section, key: False,
) -> Settings:
    r"""Read settings from TOML; missing keys have their defaults, and so have those that are ignored.

    >>> parse('[politeness]\ndelay = "10s"').politeness.delay
    10.0
    """
    settings = Settings()
    for section, table in _tables(text, where).items():
        toml_format.check_section(Settings, section, table, where)
        assert isinstance(table, dict)  # checked
        keys = toml_format.keys_of(toml_format.sections_of(Settings)[section])
        ignored = {key for key in keys if is_ignored(section, key)}
        given = {key: value for key, value in table.items() if key not in ignored}
        filled = toml_format.with_values(getattr(settings, section), section, given, where=where)
        settings = msgspec.structs.replace(settings, **{section: filled})
    return settings.validated()


def _tables(text: str, where: str) -> Mapping[str, object]:
    try:
        tables = tomllib.loads(text)
    except RecursionError:
        hint = "a section holds keys, and nothing deeper"
        raise SettingsError(f"`{where}` is nested too deeply", hint) from None
    except ValueError as trouble:  # `TOMLDecodeError`, or a number of thousands of digits
        raise SettingsError(f"`{where}` is not TOML: {trouble}", "correct that line") from trouble
    return spellings.renamed_tables(tables, where)


def load(path: Path) -> Settings:
    """Read settings from a file."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as trouble:
        missing = isinstance(trouble, FileNotFoundError) and (path.parent / "crawl.json").exists()
        raise SettingsError(
            f"cannot read `{path}`: {trouble.strerror}",
            f"`fieldmouse doctor {shell_quoted(path.parent)}` says what it must hold"
            if missing
            else "check the name",
        ) from trouble
    except UnicodeDecodeError as trouble:
        raise SettingsError(f"`{path}` is not UTF-8 text", "save it as UTF-8") from trouble
    return parse(text, str(path))
