"""Code of the guide, extracted and run against a meadow."""

from __future__ import annotations

import ast
import asyncio
import re
import sys
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from fieldmouse.url import Url, host_of, hostname_of
from meadowland import running_meadow

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"


def blocks(document: str, seed: str) -> list[str]:
    """The code blocks of a document, with the meadow as site."""
    text = (DOCS / document).read_text()
    here = text.replace('seeds=["https://example.org/"]', f'seeds=["{seed}"], allow_private=True, delay=0.02')
    here = here.replace('host="example.org"', f'host="{hostname_of(host_of(Url(seed)))}"')
    return re.findall(r"^```python\n(.*?)^```", here, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("document", ["guides/python.md", "quickstart.md", "../README.md"])
def test_the_code_of_the_documents_runs(
    document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "shop", raising=False)
    (tmp_path / "shop.py").write_text(blocks("guides/extract.md", "http://127.0.0.1/")[0])
    room: dict[str, Any] = {}

    async def run(code: str) -> None:
        waiting = FunctionType(compile(code, document, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), room)()
        if waiting is not None:
            await waiting

    with running_meadow(hosts=3, pages=20, seed=9, page_kb=2) as meadow:
        found = blocks(document, meadow.seeds[0])
        for code in found:
            asyncio.run(run(code))
        pages = meadow.pages()
    told = capsys.readouterr().out
    assert found
    assert sum(url in told for url in pages) == len(pages), "each page was printed"
    assert f"{len(pages)} pages from " in told
    if "guides" in document:
        assert "'heading': " in told, "rows were made of pages"
        assert "`example.org` is no URL we can crawl\ndid you mean `https://example.org`?\n" in told
