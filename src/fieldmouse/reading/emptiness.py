"""Explanation of a crawl that stored no page.

If every URL was refused or failed, the crawl ends normally and is of no use. The most common reason in the
outcome log becomes a sentence about one URL, with the hint that fits it.
"""

from __future__ import annotations

from collections import Counter
from itertools import islice
from pathlib import Path

from fieldmouse.balancer.identity import command_of, is_agent
from fieldmouse.crawldir import CrawlDir, outcomes
from fieldmouse.errors import typed
from fieldmouse.reading.moment import read_checkpoint, sealed_outcomes
from fieldmouse.records import OutcomeRow, Reason
from fieldmouse.url import host_of, name_of

_LOOK = 10_000  # outcomes; enough to show the common reason
_CERTIFICATE = ("certificate", "issuer", "self-signed", "self signed", "verify failed")


def why_nothing(home: CrawlDir) -> tuple[str, str]:
    """The sentence and the hint for a crawl without a page."""
    length = sealed_outcomes(read_checkpoint(home))
    found = list(islice(outcomes.rows(home, length=length), _LOOK))
    rows = [row for row in found if row.reason]
    moved = next((row for row in reversed(found) if row.target), None)
    if not rows and moved is not None:
        return _moved(moved, home.path)
    if not rows:
        return "not one page was stored", f"`fieldmouse doctor {typed(home.path)}` looks the crawl over"
    (reason, _), *_ = Counter(row.reason for row in rows).most_common(1)
    row = next(row for row in rows if row.reason == reason)
    detail = f" ({row.detail})" if row.detail else ""
    return f"not one page was stored: {row.url}: {reason}{detail}", _hint(row, str(home.path))


def _moved(row: OutcomeRow, directory: Path) -> tuple[str, str]:
    """Every seed redirects, and the last redirect leads out of scope."""
    sentence = f"not one page was stored: {row.url} redirects to {row.target}, which is out of scope"
    if is_agent(directory):
        return sentence, "begin another crawl with `--crawl NAME` and `--follow-seed-redirects`"
    return sentence, f"to crawl it, `fieldmouse resume {typed(directory)} --seed {typed(row.target)}`"


def _untrusted(detail: str) -> bool:
    """Whether the failure was a certificate error, also during the fetch of robots.txt."""
    return any(word in detail.lower() for word in _CERTIFICATE)


def _hint(row: OutcomeRow, directory: str) -> str:
    name = name_of(host_of(row.url))
    shared = is_agent(Path(directory))
    resume = command_of(Path(directory)) if shared else f"fieldmouse resume {typed(directory)}"
    again = f"`{resume} --retry-failed` asks again"
    match row.reason:
        case Reason.PRIVATE.value:
            visited = (
                "`--allow-private` visits such hosts, in a new directory as another crawl (`--crawl NAME`)"
                if shared
                else f"`{resume} --allow-private --retry-failed` visits such hosts"
            )
            return f"`{name}` is on a private network; {visited}"
        case Reason.NO_ADDRESS.value:
            return f"try `getent hosts {name}`; when it has an address, {again}"
        case Reason.TLS.value | Reason.EXCLUSION_UNREACHABLE.value if _untrusted(row.detail):
            trusted = "if its certificate is from an authority of your own, "
            if shared:
                return f"{trusted}add `--set network.ca_file=FILE`"
            return f"{trusted}`{resume} --retry-failed --set network.ca_file=FILE` asks again"
        case Reason.NO_CONNECTION.value | Reason.TIMEOUT.value:
            return f"when `{host_of(row.url)}` can be reached from this machine, {again}"
        case Reason.EXCLUDED.value:
            return f"{host_of(row.url)}/robots.txt says what may be crawled; its owner can change that"
        case Reason.EXCLUSION_UNREACHABLE.value:
            return f"a host is crawled only when {host_of(row.url)}/robots.txt can be had, or is not there"
        case _:
            return f"`fieldmouse explain {typed(directory)} {typed(row.url)}` says what happened"
