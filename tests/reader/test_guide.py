"""Code of the guide, extracted and run on a crawl."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from .smallweb import HOME, PAGES, STORED

GUIDE = Path(__file__).resolve().parent.parent.parent / "docs" / "guides" / "reading-a-crawl.md"


def test_the_code_of_the_guide_runs(
    small_crawl: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "atlas").symlink_to(small_crawl)
    shutil.copytree(small_crawl, tmp_path / "globe")
    monkeypatch.chdir(tmp_path)
    text = GUIDE.read_text().replace("https://example.org", HOME).replace('"example.org"', '"127.0.0.1"')
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    room: dict[str, Any] = {}
    for code in blocks:
        exec(compile(code, GUIDE.name, "exec"), room)
    told = capsys.readouterr().out
    assert f"atlas` is done: {len(STORED)} pages" in told
    assert "200 text/html Door" in told
    assert f"text/html {len(PAGES['/'][1])} " in told, "the header and the length of the first page"
    assert f"{HOME}/twin-1.html Twins" in told, "found by its words"
    assert "never seen []" in told
    assert "next time from " in told
    assert all(url in told for url in STORED)


@pytest.mark.parametrize("name", ["headers", "body", "text", "links", "row", "duplicate_of", "via"])
def test_a_page_has_the_attributes_named_in_the_guide(name: str) -> None:
    from fieldmouse.reader.page import StoredPage

    assert f"`{name}`" in GUIDE.read_text()
    assert hasattr(StoredPage, name) or name == "row"
