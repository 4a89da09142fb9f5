"""Tests of language detection by script; a few foreign words change nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from fieldmouse.parse.language import guess_language

# The first article of the Universal Declaration of Human Rights.
_TEXTS = Path(__file__).resolve().parents[1] / "data" / "languages"
DECLARED = {path.stem: path.read_text(encoding="utf-8") for path in sorted(_TEXTS.iterdir())}
CODE = "def main(argv): return subprocess.run(argv, check=True) # https://example.org/README.md "
ENGLISH = "The field mouse lives in the fields and it is not the same as the mouse that is found in a house. " * 6


@pytest.mark.parametrize("language", DECLARED)
def test_text_in_a_distinct_script_is_recognized(language: str) -> None:
    assert guess_language(DECLARED[language]) == language


@pytest.mark.parametrize("language", DECLARED)
def test_latin_names_and_code_do_not_hide_the_script(language: str) -> None:
    assert guess_language(f"{CODE}{DECLARED[language]} {CODE}") == language


@pytest.mark.parametrize("language", DECLARED)
def test_a_few_foreign_names_do_not_change_the_language(language: str) -> None:
    assert guess_language(f"{ENGLISH}{DECLARED[language][:30]} {ENGLISH}") == "en"


def test_list_of_languages_has_no_language() -> None:
    assert guess_language((_TEXTS.parent / "languages.txt").read_text(encoding="utf-8")) == ""


@pytest.mark.parametrize("text", ["", "12345 --- 678", "\U0001f42d" * 50, "zzz " * 50])
def test_ambiguous_text_has_no_language(text: str) -> None:
    assert guess_language(text) == ""
