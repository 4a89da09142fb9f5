"""Languages in a script of their own are known by their letters; a few foreign words change nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from fieldmouse.indexer.language import guess

# The first article of the Universal Declaration of Human Rights.
_TEXTS = Path(__file__).resolve().parents[1] / "data" / "languages"
DECLARED = {path.stem: path.read_text(encoding="utf-8") for path in sorted(_TEXTS.iterdir())}
CODE = "def main(argv): return subprocess.run(argv, check=True) # https://example.org/README.md "
ENGLISH = (
    "The field mouse lives in the fields and it is not the same as the mouse that is found in a house. " * 6
)


@pytest.mark.parametrize("language", DECLARED)
def test_a_text_in_its_own_script_is_known(language: str) -> None:
    assert guess(DECLARED[language]) == language


@pytest.mark.parametrize("language", DECLARED)
def test_code_and_names_in_latin_letters_do_not_hide_it(language: str) -> None:
    assert guess(f"{CODE}{DECLARED[language]} {CODE}") == language


@pytest.mark.parametrize("language", DECLARED)
def test_a_foreign_name_does_not_make_a_text_foreign(language: str) -> None:
    assert guess(f"{ENGLISH}{DECLARED[language][:30]} {ENGLISH}") == "en"


def test_a_list_of_languages_is_in_none_of_them() -> None:
    assert guess((_TEXTS.parent / "languages.txt").read_text(encoding="utf-8")) == ""


@pytest.mark.parametrize("text", ["", "12345 --- 678", "\U0001f42d" * 50, "zzz " * 50])
def test_in_doubt_nothing_is_said(text: str) -> None:
    assert guess(text) == ""
