"""Settings of a crawl: `fieldmouse.toml`, read into typed values and written with comments, and the settings that a
cluster shares.

A setting is written as text with units ("10s", "64MiB") and read into a checked number. Unknown keys are
errors that name the key and the likely meaning: a crawl that ignored `dealy = "10s"` would be impolite for
days before its owner noticed.

    settings = load(Path("atlas/fieldmouse.toml"))
    settings.politeness.delay          # seconds
    settings = settings.override({"politeness.delay": "0s", "crawl.pages": 500})

The structs in `sections` are the only list of settings. Their annotations hold the kind of each value, which reads
and writes it, and its purpose, so there is no second list to keep in step.

The settings of a crawl are stored on a server that other people and programs can write to. An agent takes
the subject of the crawl from there, and nothing that its machine must decide: code, private addresses,
certificates, robots.txt, memory, disk, names, credentials.

A test checks that every setting is in this table once.
"""

from __future__ import annotations

import difflib
import re
import textwrap
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import msgspec

from fieldmouse.config import old_spellings, sections
from fieldmouse.config.notify_section import NotifySection
from fieldmouse.config.sections import Section
from fieldmouse.config.values import Setting, ValueKind
from fieldmouse.errors import SettingsError, UsageError, shell_quoted

S = TypeVar("S", bound=Section)

#: Hints for names that users try and that are spelt otherwise.
MISTAKEN_NAMES = {
    "crawl.user_agent": "the user agent is composed of `product` and `contact`",
    "crawl.delay": "it is `politeness.delay`",
    "crawl.depth": "it is `crawl.max_depth`",
    "politeness.robots_txt": "it is `politeness.obey_robots_txt`",
}


@cache
def keys_of(section: type[Section]) -> dict[str, Setting]:
    """Kind and purpose of each key of a section, in the order of the file."""
    hints = get_type_hints(section, include_extras=True)
    return {name: Setting(*hints[name].__metadata__) for name in section.__struct_fields__}


@cache
def sections_of(settings: type[msgspec.Struct]) -> dict[str, type[Section]]:
    hints = get_type_hints(settings)
    return {name: hints[name] for name in settings.__struct_fields__}


def split_name(settings: type[msgspec.Struct], dotted: str) -> tuple[str, str]:
    """Section and key of a name such as `politeness.delay`; an unknown name raises `SettingsError`."""
    section, dot, key = dotted.partition(".")
    known = sections_of(settings)
    if dotted in known:
        within = ", ".join(f"`{dotted}.{name}`" for name in keys_of(known[dotted]))
        raise SettingsError(f"there is no setting `{dotted}`", f"it is a section: name one of {within}")
    if section not in known or not dot:
        names = [f"{room}.{name}" for room, table in known.items() for name in keys_of(table)]
        if alike := [f"`{name}`" for name in names if name.endswith(f".{dotted}")]:
            raise SettingsError(f"there is no setting `{dotted}`", f"did you mean {' or '.join(alike)}?")
        raise SettingsError(
            f"there is no setting `{dotted}`", _suggestion(dotted, names, "docs/settings.md lists them")
        )
    return section, key


def check_section(settings: type[msgspec.Struct], section: str, table: object, where: str) -> None:
    known = sections_of(settings)
    if section not in known:
        what = f"section `[{section}]`" if isinstance(table, dict) else f"key `{section}` outside a section"
        raise SettingsError(
            f"`{where}` has an unknown {what}", _suggestion(section, known, "sections are " + ", ".join(known))
        )
    if not isinstance(table, dict):
        raise SettingsError(f"`{where}`: `{section}` is a section", f"write `[{section}]` on a line of its own")


def replace_values(table: S, section: str, values: Mapping[str, object], *, words: bool = False, where: str = "") -> S:
    """Copy of `table` with `values` replaced; with `words`, text may come from the command line."""
    known, place = keys_of(type(table)), f" in `{where}`" if where else ""
    changed = {}
    for key, given in values.items():
        name = f"{section}.{key}"
        if key not in known:
            prefix = "" if where else f"{section}."  # in a file the section is named above the key
            advice = MISTAKEN_NAMES.get(name) or _suggestion(
                prefix + key, [prefix + one for one in known], f"[{section}] knows " + ", ".join(known)
            )
            raise SettingsError(f"there is no setting `{name}`{place}", advice)
        kind = known[key].kind
        value = _from_word(given, kind) if words and isinstance(given, str) else given
        try:
            changed[key] = kind.read(value)
        except ValueError:
            # A value that may hold a secret is not repeated.
            is_what = f"is {_value_for_message(given)}" if kind.without_secrets is None else "cannot be read"
            hint = f"it must be {kind.accepts}"
            if kind.accepts.startswith("a duration") and re.fullmatch(r"\d+(\.\d+)?", str(given)):
                quote = '"' if where else ""
                hint += f"; the unit is missing: write {quote}{given}s{quote} or {quote}{given}ms{quote}"
            raise SettingsError(f"`{name}` {is_what}{place}", hint) from None
        except UsageError as refused:
            raise SettingsError(f"`{name}`{place}: {refused}", refused.hint) from None
    return msgspec.structs.replace(table, **changed)


def from_command_line(word: str) -> object:
    """Read a TOML value from the command line; any other text stays as it is.

    >>> from_command_line("[8, 2]"), from_command_line('"a.atom"'), from_command_line("a.atom")
    ([8, 2], 'a.atom', 'a.atom')
    """
    try:
        read = tomllib.loads(f"value = {word}")
    except tomllib.TOMLDecodeError:
        return word
    return read["value"] if len(read) == 1 else word  # a second line would be another key


def _from_word(word: str, kind: ValueKind) -> object:
    """The same for a setting of this kind: where it takes text, 2026 and true are text."""
    value = from_command_line(word)
    return word if kind.takes_bare_text and not isinstance(value, str) else value


def _value_for_message(value: object) -> str:
    shown = f'"{value}"' if isinstance(value, str) else str(value)
    shown = shown.lower() if isinstance(value, bool) else shown
    return shown if len(shown) <= 80 else shown[:77] + "..."


def _suggestion(word: str, known: Iterable[str], otherwise: str) -> str:
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"did you mean `{near[0]}`?" if near else otherwise


def redacted_value(settings: msgspec.Struct, section: str, key: str) -> str:
    """One value as written in the file, without its secrets."""
    return keys_of(sections_of(type(settings))[section])[key].kind.redacted_text(
        getattr(getattr(settings, section), key)
    )


def secret_settings(settings: msgspec.Struct) -> list[str]:
    """Names of the settings that hold secrets."""
    return [
        f"{name}.{key}"
        for name, section in sections_of(type(settings)).items()
        for key, about in keys_of(section).items()
        if about.kind.holds_secret(getattr(getattr(settings, name), key))
    ]


def render(settings: msgspec.Struct) -> str:
    """Write a commented `fieldmouse.toml` that reads back as the same settings."""
    return "\n".join(_lines(settings))


def _lines(settings: msgspec.Struct) -> Iterator[str]:
    yield "# Settings of this crawl. Every key is optional; missing keys have their defaults."
    yield "# Durations: 10s, 500ms, 2h. Sizes: 64MiB, 10MB. Changes apply from the next `fieldmouse resume`."
    for name, section in sections_of(type(settings)).items():
        table: Any = getattr(settings, name)
        yield ""
        for line in (section.__doc__ or "").strip().splitlines():
            yield f"# {line}"
        yield f"[{name}]"
        for key, about in keys_of(section).items():
            value = f"{key} = {about.kind.write(getattr(table, key))}"
            if len(value) + len(about.purpose) <= 100:
                yield f"{value:<31} # {about.purpose}"
            else:
                yield from (f"# {line}" for line in textwrap.wrap(about.purpose, 100))
                yield value
    yield ""


class Settings(msgspec.Struct, frozen=True):
    """All settings of a crawl, by section."""

    crawl: sections.CrawlSection = sections.CrawlSection()
    scope: sections.ScopeSection = sections.ScopeSection()
    politeness: sections.PolitenessSection = sections.PolitenessSection()
    fetch: sections.FetchSection = sections.FetchSection()
    limits: sections.FetchLimitsSection = sections.FetchLimitsSection()
    network: sections.NetworkSection = sections.NetworkSection()
    frontier: sections.FrontierSection = sections.FrontierSection()
    buffer: sections.BufferSection = sections.BufferSection()
    control: sections.ConcurrencyControlSection = sections.ConcurrencyControlSection()
    cost: sections.ConcurrencyCostSection = sections.ConcurrencyCostSection()
    index: sections.IndexSection = sections.IndexSection()
    archive: sections.ArchiveSection = sections.ArchiveSection()
    plugins: sections.PluginsSection = sections.PluginsSection()
    notify: NotifySection = NotifySection()
    storage: sections.StorageSection = sections.StorageSection()
    refresh: sections.RefreshSection = sections.RefreshSection()
    noise: sections.NoiseSection = sections.NoiseSection()
    cluster: sections.ClusterSection = sections.ClusterSection()

    def override(self, dotted: Mapping[str, object]) -> Settings:
        """Copy of these settings with some values replaced, named as `section.key`.

        A value is what TOML would hold, or text from the command line.

        >>> Settings().override({"politeness.delay": "250ms", "crawl.pages": "500"}).crawl.pages
        500
        """
        changed = self
        for name, value in old_spellings.with_present_names(dotted).items():
            section, key = split_name(Settings, name)
            table = replace_values(getattr(changed, section), section, {key: value}, words=True)
            changed = msgspec.structs.replace(changed, **{section: table})
        return changed.validated()

    @property
    def secret_names(self) -> list[str]:
        """Names of the settings that hold secrets. Only the owner may read a file with these values.

        >>> Settings().override({"network.headers": {"Cookie": "id=1", "DNT": "1"}}).secret_names
        ['network.headers']
        """
        return secret_settings(self)

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
    text: str, where: str = "fieldmouse.toml", is_ignored: Callable[[str, str], bool] = lambda section, key: False
) -> Settings:
    r"""Read settings from TOML; missing keys have their defaults, and so have those that are ignored.

    >>> parse('[politeness]\ndelay = "10s"').politeness.delay
    10.0
    """
    settings = Settings()
    for section, table in _parse_tables(text, where).items():
        check_section(Settings, section, table, where)
        assert isinstance(table, dict)  # checked
        keys = keys_of(sections_of(Settings)[section])
        ignored = {key for key in keys if is_ignored(section, key)}
        given = {key: value for key, value in table.items() if key not in ignored}
        filled = replace_values(getattr(settings, section), section, given, where=where)
        settings = msgspec.structs.replace(settings, **{section: filled})
    return settings.validated()


def _parse_tables(text: str, where: str) -> Mapping[str, object]:
    try:
        tables = tomllib.loads(text)
    except RecursionError:
        hint = "a section holds keys, and nothing deeper"
        raise SettingsError(f"`{where}` is nested too deeply", hint) from None
    except ValueError as trouble:  # `TOMLDecodeError`, or a number of thousands of digits
        raise SettingsError(f"`{where}` is not TOML: {trouble}", "correct that line") from trouble
    return old_spellings.sections_with_present_names(tables, where)


def load(path: Path) -> Settings:
    """Read settings from a file."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as trouble:
        missing = isinstance(trouble, FileNotFoundError) and (path.parent / "crawl.json").exists()
        raise SettingsError(
            f"cannot read `{path}`: {trouble.strerror}",
            f"`fieldmouse doctor {shell_quoted(path.parent)}` says what it must hold" if missing else "check the name",
        ) from trouble
    except UnicodeDecodeError as trouble:
        raise SettingsError(f"`{path}` is not UTF-8 text", "save it as UTF-8") from trouble
    return parse(text, str(path))


class SettingAuthority(Enum):
    """Authority over a setting when an agent joins a crawl."""

    #: The first agent sets it, and all agents have the same value.
    CRAWL = "the crawl"
    #: An agent may change it at each start, for the whole crawl.
    RUN = "each run"
    #: Each agent sets its own. It is never written to the server, and ignored if found there.
    MACHINE = "the machine"
    #: A switch. The crawl may change it from its default only if the machine has changed it too.
    PERMIT = "the crawl, if the machine allows it"
    #: A value other than the default must be set to the same on the machine.
    AGREE = "both"
    #: As `AGREE` for a value such as `package.module:name`; the crawl decides between built-in policies.
    CODE = "both, where it names code"
    #: The longer of both durations applies.
    LONGER = "the crawl, and the machine may lengthen it"
    #: A value above the machine's, or above the default if the machine sets none, is refused.
    AT_MOST = "the crawl, up to what the machine allows"


#: Settings of each authority; `section.*` is a whole section, with the keys that it will have.
SETTINGS_OF_AUTHORITY = {
    SettingAuthority.CRAWL: """
        crawl.seeds crawl.contact crawl.max_depth scope.* noise.*
        limits.connect limits.first_byte limits.total limits.idle limits.min_speed limits.grace
        limits.redirects limits.url_length limits.pages_per_host limits.links_per_page
        limits.hosts_per_site limits.urls_per_site limits.traps
        index.sitemaps index.feeds index.store_text plugins.patience plugins.items
        refresh.share refresh.retry refresh.revisits
        cluster.policy cluster.lease cluster.heartbeat cluster.keep_acked
    """,
    SettingAuthority.RUN: "crawl.pages crawl.time refresh.on refresh.budget",
    # `network.headers` may hold passwords.
    SettingAuthority.MACHINE: """
        fetch.* frontier.* buffer.* control.* cost.* archive.* notify.* storage.* index.shards index.heap
        network.resolve network.nameservers network.source network.ca_file network.headers
    """,
    SettingAuthority.PERMIT: """
        politeness.obey_robots_txt network.allow_private network.tls_verify plugins.keep_signatures
    """,
    # `crawl.product` chooses the group of a robots.txt that is obeyed.
    SettingAuthority.AGREE: """
        crawl.product plugins.extract plugins.admit plugins.readers plugins.sign plugins.sign_hosts
    """,
    SettingAuthority.CODE: "refresh.policy",
    SettingAuthority.LONGER: """
        politeness.delay politeness.address_delay politeness.crawl_delay_cap politeness.retry_after_cap
        politeness.backoff politeness.backoff_cap politeness.patience
    """,
    SettingAuthority.AT_MOST: "limits.body limits.decoded limits.ratio limits.headers limits.robots_txt",
}

_AUTHORITY_OF = {name: authority for authority, names in SETTINGS_OF_AUTHORITY.items() for name in names.split()}


def authority_over(section: str, key: str) -> SettingAuthority:
    """Who decides `section.key`; KeyError if the table lacks it."""
    return _AUTHORITY_OF.get(f"{section}.*") or _AUTHORITY_OF[f"{section}.{key}"]


def is_machine_setting(section: str, key: str) -> bool:
    """Whether each agent sets this for itself, and no server stores it."""
    return authority_over(section, key) is SettingAuthority.MACHINE


def render_published(settings: msgspec.Struct) -> str:
    """TOML of the settings that other machines may see: all but those that each machine decides."""
    lines = []
    for section, table in sections_of(type(settings)).items():
        keys = [key for key in keys_of(table) if not is_machine_setting(section, key)]
        if keys:
            lines += ["", f"[{section}]", *(f"{key} = {redacted_value(settings, section, key)}" for key in keys)]
    return "\n".join(lines[1:]) + "\n"


def parse_published(text: str, where: str) -> Settings:
    """Read the settings of a crawl from a coordinator; keys that each machine decides are ignored."""
    return parse(text, where, is_ignored=is_machine_setting)
