"""What the documents say is so: commands, options, settings, targets, links."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from fieldmouse.cli.main import fieldmouse
from fieldmouse.config import settings_file
from fieldmouse.config.settings_file import Settings

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
TOLD_BY_PROGRAMS = sorted((ROOT / "src" / "fieldmouse").rglob("*.py"))
FENCED = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(fieldmouse [^`\n]+)`")
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def typed_lines(document: str) -> Iterator[str]:
    """Lines of console blocks that a reader would type."""
    for language, block in FENCED.findall(document):
        if language == "console":
            for line in block.splitlines():
                if line.startswith("$ "):
                    yield line[2:]


def split(line: str) -> list[str]:
    """The words of one command, without what the shell does around it."""
    words = shlex.split(line)
    for index, word in enumerate(words):
        if word in ("|", ">", "&", "&&", ";"):
            return words[:index]
    return words


def find(words: list[str]) -> tuple[click.Command, click.Context, list[str]]:
    """The command that `fieldmouse WORDS` would run, and the words left for it."""
    command: click.Command = fieldmouse
    context = click.Context(command, info_name="fieldmouse", **command.context_settings)
    while isinstance(command, click.Group) and words:
        found = command.get_command(context, words[0])
        assert found is not None, f"there is no command `{words[0]}`"
        command, context, words = found, click.Context(found, context, words[0]), words[1:]
    return command, context, words


def check_options(words: list[str]) -> None:
    command, _, rest = find(words)
    known = {option for param in command.params for option in [*param.opts, *param.secondary_opts]}
    known |= {"--help", "-h", "--version"}
    # Where a command takes words with a minus sign as they are, only two of them make an option.
    sign = "--" if command.context_settings.get("ignore_unknown_options") else "-"
    for word in rest:
        if word.startswith(sign) and len(word) > 1:
            assert word.partition("=")[0] in known, f"`{' '.join(words)}` has no option {word}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_command_that_a_reader_would_type_is_understood(path: Path) -> None:
    for line in typed_lines(path.read_text()):
        words = split(line)
        if words[0] == "fieldmouse":
            command, context, rest = find(words[1:])
            command.parse_args(context, list(rest))  # raises what a person would see
            check_options(words[1:])
        elif words[0] == "make":
            for target in words[1:]:
                assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(), re.MULTILINE), line
        elif words[0].startswith("scripts/"):
            assert (ROOT / words[0]).is_file(), line
        else:
            assert words[0] in ("git", "cd", "head", "redis-server"), f"{name_of(path)}: what is `{line}`?"


@pytest.mark.parametrize("path", [*DOCUMENTS, *TOLD_BY_PROGRAMS], ids=name_of)
def test_every_command_mentioned_in_passing_exists_with_its_options(path: Path) -> None:
    for mention in INLINE.findall(path.read_text()):
        words = [word for word in re.sub(r"\{[^}]*\}", "X", mention).split()[1:] if word != "..."]
        if words[0].isidentifier() and words[0].islower():
            check_options(words)


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    for target in LINK.findall(FENCED.sub("", path.read_text())):
        if not target.startswith(("http://", "https://")):
            assert (path.parent / target.partition("#")[0]).exists(), f"{name_of(path)} links to {target}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_files_named_in_the_documents_exist(path: Path) -> None:
    for named in re.findall(r"`((?:src|tests|scripts|docs|examples)/[\w./-]+)`", path.read_text()):
        assert (ROOT / named).exists(), f"{name_of(path)} names {named}"


def test_files_named_in_docstrings_and_comments_exist() -> None:
    source = ROOT / "src"
    for path in sorted(source.rglob("*.py")):
        for named in re.findall(r"`((?:\w+/)+\w+\.py)`", path.read_text()):
            places = (ROOT, source, source / "fieldmouse", source / "fieldmouse_lab", path.parent)
            assert any((place / named).exists() for place in places), f"{name_of(path)} names {named}"


def test_the_reference_of_settings_is_complete_and_right() -> None:
    text = (ROOT / "docs" / "settings.md").read_text()
    defaults = Settings()
    expected: list[str] = []
    for name, section in settings_file.sections_of(Settings).items():
        expected.append(f"## [{name}]")
        for key, about in settings_file.keys_of(section).items():
            value = about.kind.write(getattr(getattr(defaults, name), key))
            expected.append(f"| `{key}` | `{value}` | {about.purpose} |")
    told = [line for line in text.splitlines() if line.startswith(("## [", "| `"))]
    assert told == expected


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_settings_named_in_the_documents_exist_with_the_defaults_told(path: Path) -> None:
    known = {
        f"{name}.{key}": about.kind.write(getattr(getattr(Settings(), name), key)).strip('"')
        for name, section in settings_file.sections_of(Settings).items()
        for key, about in settings_file.keys_of(section).items()
    }
    sections = "|".join(settings_file.sections_of(Settings))
    for name, told in re.findall(rf"`((?:{sections})\.[a-z_]+)`(?:\s+\(([0-9]+ (?:s|min|d|GiB))\))?", path.read_text()):
        if name.endswith((".py", ".md", ".toml", ".json", ".log", ".cdxj")):
            continue
        assert name in known, f"{name_of(path)} names `{name}`"
        if told:
            assert told.replace(" ", "").replace("min", "m") == known[name], f"{name_of(path)}: {name}"


def test_the_columns_of_an_export_are_all_described() -> None:
    from fieldmouse.cli.read.export import DIRECTORY_FIELD, OUTCOME_FIELDS, PAGE_FIELDS

    text = (ROOT / "docs" / "formats.md").read_text()
    described = set(re.findall(r"`(\w+)`", "\n".join(row for row in text.splitlines() if row.startswith("| `"))))
    assert {*PAGE_FIELDS, *OUTCOME_FIELDS, DIRECTORY_FIELD} <= described


def test_the_readme_says_the_essential_in_its_first_forty_lines() -> None:
    first = "\n".join((ROOT / "README.md").read_text().splitlines()[:40])
    for essential in ("Crawls websites", "$ fieldmouse crawl", "frontier", "Not for you", "make demo", "make test"):
        assert essential in first


def test_every_document_can_be_reached_from_the_readme() -> None:
    seen: set[Path] = set()
    ahead = [ROOT / "README.md"]
    while ahead:
        path = ahead.pop()
        if path in seen or path.suffix != ".md":
            continue
        seen.add(path)
        ahead += [
            (path.parent / target.partition("#")[0]).resolve()
            for target in LINK.findall(path.read_text())
            if not target.startswith("http")
        ]
    assert set(DOCUMENTS) <= seen
