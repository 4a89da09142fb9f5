"""Charsets: who is believed, in which order."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.indexer.charset import find_charset, known

RUSSIAN = "Полевая мышь живёт в поле и питается зерном, а зимой прячется в стогах сена."


@pytest.mark.parametrize(
    ("body", "header", "charset"),
    [
        (codecs.BOM_UTF8 + b"<p>", "text/html; charset=koi8-r", "utf-8"),
        ("\ufeffx".encode("utf-16-le"), "text/html", "utf-16-le"),
        (b"<meta charset=koi8-r>", "text/html; charset=utf-8", "utf-8"),
        (b"<meta charset='Shift_JIS'>", "text/html", "cp932"),
        (b'<meta http-equiv=Content-Type content="text/html; charset=iso-8859-1">', "", "cp1252"),
        (b"<meta charset=utf-16>", "", "utf-8"),
        (b"<meta charset=base64>\xc3\xa9", "", "utf-8"),
        (b"x" * 2000 + b"<meta charset=koi8-r>", "", "utf-8"),
        (b"plain", "text/html; charset=nonsense", "utf-8"),
        (b"", "", "utf-8"),
    ],
)
def test_the_nearest_witness_is_believed(body: bytes, header: str, charset: str) -> None:
    assert find_charset(body, header) == charset


@given(st.binary(max_size=200), st.text(max_size=20))
def test_every_document_gets_a_charset_that_decodes_it(body: bytes, label: str) -> None:
    charset = find_charset(body, f"text/html; charset={label}")
    assert isinstance(body.decode(charset, "replace"), str)


@given(st.text(max_size=200))
def test_utf8_is_never_mistaken(text: str) -> None:
    assert find_charset(text.encode(errors="ignore"), "", markup=False).startswith("utf")


def test_undeclared_bytes_are_guessed() -> None:
    assert RUSSIAN in (RUSSIAN * 20).encode("cp1251").decode(
        find_charset((RUSSIAN * 20).encode("cp1251"), "")
    )


@pytest.mark.parametrize(
    "label", ["rot13", "hex", "idna", "punycode", "unicode_escape", "utf-7", "zlib", "x\0y", ""]
)
def test_codecs_that_are_no_charsets_are_unknown(label: str) -> None:
    assert known(label) == ""
