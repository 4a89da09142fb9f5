"""Tests of several Content-Types, with cases of the Fetch Standard and its platform tests."""

from __future__ import annotations

import pytest

from fieldmouse.http.headers import effective_media_type, mime_essence


@pytest.mark.parametrize(
    ("lines", "kind", "charset"),
    [
        ([], "", ""),
        ([""], "", ""),
        (["text/html"], "text/html", ""),
        (["Text/HTML;charset=gbk"], "text/html", "gbk"),
        (["html"], "html", ""),
        (["text/plain;charset=gbk", "text/html"], "text/html", ""),
        (["text/plain", "text/html;charset=gbk"], "text/html", "gbk"),
        (["text/html;charset=gbk;a=b", "text/html;x=y"], "text/html", "gbk"),
        (["text/html;charset=gbk", "x/x", "text/html;x=y"], "text/html", ""),
        (["text/html;charset=gbk", "text/html;charset=utf-8"], "text/html", "utf-8"),
        (["text/html", "*/*"], "text/html", ""),
        (["text/html", "cannot-parse"], "text/html", ""),
        (["cannot-parse", "text/html"], "text/html", ""),
        (["text/html", ""], "text/html", ""),
        (["text/html, application/json"], "application/json", ""),
        (["text/html, charset=gbk"], "text/html", ""),
        (['text/html;x=",text/plain'], "text/html", ""),
        (['text/html;charset="a,b", text/plain'], "text/plain", ""),
        (['text/html;", text/plain'], "text/html", ""),
        (["nonsense", "more"], "nonsense", ""),
    ],
    ids=repr,
)
def test_the_last_valid_type_counts(lines: list[str], kind: str, charset: str) -> None:
    media = effective_media_type(lines)
    assert mime_essence(media) == kind
    assert media.lower().partition("charset=")[2].partition(";")[0].strip('"') == charset
