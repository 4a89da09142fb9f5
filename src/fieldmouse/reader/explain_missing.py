"""Reasons why a URL was never taken, or why a crawl stored no page at all.

A URL is missing because of a rule, a limit, or a link that was not followed, which the archive shows. A
robots.txt is never taken either, but is in the archive: the crawler fetches it before the first page of a
host. For a crawl without pages, the most common reason in the outcome log becomes a sentence and a hint.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from selectolax.lexbor import LexborHTMLParser

from fieldmouse.archive import warc_reader
from fieldmouse.cluster.client.identity import resume_command
from fieldmouse.config import settings_file
from fieldmouse.config.rules_from_settings import scope_of, seeds_of, site_limits_of, traps_of
from fieldmouse.config.settings_file import Settings
from fieldmouse.errors import shell_quoted
from fieldmouse.formatting import format_count
from fieldmouse.frontier.url_lookup import UrlStatus
from fieldmouse.http.decoding import decode_response
from fieldmouse.http.headers import effective_media_type
from fieldmouse.parse.charset import decode_text, encode_query, find_charset
from fieldmouse.parse.content import HTML_TYPES, MAX_HTML, response_mime
from fieldmouse.parse.html import parse_html
from fieldmouse.parse.html_parse_cost import limit_parse_cost
from fieldmouse.policy.scope import ExceededLimit, detect_trap
from fieldmouse.storage import checkpoint, outcome_log_reader
from fieldmouse.storage.checkpoint import Checkpoint, ShardState, sealed_counters, shard_states
from fieldmouse.storage.directory import CrawlDir
from fieldmouse.types.outcome import OutcomeRow, Response
from fieldmouse.types.reason import OutcomeReason
from fieldmouse.url import Url, host_of, hostname_of, resolve


def explain_robots_txt(home: CrawlDir, url: Url, last: Checkpoint) -> Iterator[str]:
    """Sentences about a robots.txt. It has no outcome, so its fetches are read from the CDXJ lines."""
    yield "it is asked for before the host's pages, and counts neither as a page nor as seen"
    entries = list(warc_reader.ArchiveReader(home / "archive", shard_states(last)).cdxj_entries_of_url(url))
    for stamp, entry in entries:
        day, hour = f"{stamp[:4]}-{stamp[4:6]}-{stamp[6:8]}", f"{stamp[8:10]}:{stamp[10:12]}:{stamp[12:14]}"
        kept = f"kept in archive/{entry.filename} at byte {entry.offset}"
        yield f"fetched {day}T{hour}Z with status {entry.status}, {kept}"
    if not entries:
        yield "no answer to it is kept"


def explain_url_not_taken(home: CrawlDir, url: Url, found: UrlStatus, last: Checkpoint, now: float) -> list[str]:
    """Sentences that say why the URL was not taken; the archive is read only if no rule applies."""
    settings = settings_file.load(home / "fieldmouse.toml")
    excluded = _scope_exclusion(settings, url, last, now)
    rules = [*([excluded] if excluded else []), *_limits_exceeded(settings, found, sealed_counters(last).left_out)]
    return rules or list(_explain_linking_pages(home, settings, url, last))


def _scope_exclusion(settings: Settings, url: Url, last: Checkpoint, now: float) -> str:
    """The scope rule or trap that excludes the URL; "" if none does."""
    joined = checkpoint.sealed_scope(last).joined
    seeds = seeds_of(settings)
    scope = scope_of(settings, seeds).with_seeds(joined)
    rule = scope.excluding_setting(url)
    seeds += joined
    if rule == "scope.mode":
        around = ", ".join(seeds[:3]) + ("" if len(seeds) <= 3 else ", ...")
        return f'it is out of scope, which is "{settings.scope.mode}" around {around}'
    if rule:
        entry = f": `{scope.excluding_entry(url)}`" if rule.startswith("scope.exclude_") else ""
        return f"it is left out by `{rule}`{entry}"
    trap = detect_trap(url, traps_of(settings), now)
    return f"it is left out as a trap: {trap}" if trap else ""


def _limits_exceeded(settings: Settings, found: UrlStatus, left_out: int) -> Iterator[str]:
    """Limits that drop links to the URL, given the present size of its site and the crawl."""
    rule = None
    if found.site:
        limits = site_limits_of(settings)
        rule = limits.drop_reason(found.site_hosts, found.site_urls, new_host=found.host is None)
    if rule is not None:
        has = format_count(found.site_urls, "URL")
        if rule is ExceededLimit.HOSTS:
            has = f"{format_count(found.site_hosts, 'host')}, and its own is not one of them"
        yield f"links to it are dropped: its site {found.site} has {has} ({rule.value})"
    if left_out:
        were = "link was left where it was" if left_out == 1 else "links were left where they were"
        page = "its page" if left_out == 1 else "their page"
        yield (
            f"{left_out:,} {were} found, since {page} had too many ({ExceededLimit.LINKS.value}); it may be one of them"
        )


def _explain_linking_pages(home: CrawlDir, settings: Settings, url: Url, last: Checkpoint) -> Iterator[str]:
    """Archived pages that link to the URL, and why each link was not followed."""
    mentions, complete = find_linking_pages(home / "archive", shard_states(last), url)
    deepest = settings.crawl.max_depth
    for page, why in mentions:
        rows = outcome_log_reader.rows_of(home, page, length=checkpoint.sealed_outcome_bytes(last))
        if not why and rows and deepest is not None and rows[-1].depth >= deepest:
            away = format_count(rows[-1].depth + 1, "link")
            why = f"it would be {away} away from a seed (`crawl.max_depth` is {deepest})"
        if not why and settings.plugins.admit:
            why = f"`{settings.plugins.admit}` (`plugins.admit`) may have rejected it"
        why = why or "no rule excludes it; it may have been taken since the last checkpoint"
        yield f"{page} links to it: {why}"
    if not mentions:
        read = "the stored pages" if complete else "the pages that were looked through (not all)"
        unread = "; documents that only your `plugins.readers` understand were not looked into"
        yield (
            f"none of {read} has a link to it{unread if settings.plugins.readers else ''};"
            " images, scripts and style sheets are not fetched"
        )


_LOOK = 10_000  # outcomes; enough to show the common reason
_CERTIFICATE = ("certificate", "issuer", "self-signed", "self signed", "verify failed")


def explain_no_pages(home: CrawlDir, reason: str = "") -> tuple[str, str]:
    """The sentence and the hint for a crawl, or the last run of one, that stored no page.

    `reason` of the outcome to be explained; the most common one by default.
    """
    length = checkpoint.sealed_outcome_bytes(checkpoint.read_checkpoint(home))
    all_rows = outcome_log_reader.outcome_rows(home, length=length)
    found = list(islice((row for row in all_rows if reason in ("", row.reason)), _LOOK))
    rows = [row for row in found if row.reason]
    moved = next((row for row in reversed(found) if row.target), None)
    if not rows and moved is not None:
        return _explain_redirect_out_of_scope(moved, home)
    if not rows:
        return ("not one page was stored", f"`fieldmouse doctor {shell_quoted(home.path)}` looks the crawl over")
    (common, _), *_ = Counter(row.reason for row in rows).most_common(1)
    row = next(row for row in rows if row.reason == common)
    detail = f" ({row.detail})" if row.detail else ""
    return f"not one page was stored: {row.url}: {common}{detail}", _hint_for_failure(row, home)


def _explain_redirect_out_of_scope(row: OutcomeRow, home: CrawlDir) -> tuple[str, str]:
    """Every seed redirects, and the last redirect leads out of scope."""
    sentence = f"not one page was stored: {row.url} redirects to {row.target}, which is out of scope"
    if home.is_cluster_agent:
        return sentence, "begin another crawl with `--crawl NAME` and `--follow-seed-redirects`"
    return (sentence, f"to crawl it, `fieldmouse resume {shell_quoted(home.path)} --seed {shell_quoted(row.target)}`")


def _hint_for_failure(row: OutcomeRow, home: CrawlDir) -> str:
    name = hostname_of(host_of(row.url))
    shared = home.is_cluster_agent
    resume = resume_command(home.path) if shared else home.resume_command
    again = f"`{resume} --retry-failed` asks again"
    untrusted = any(word in row.detail.lower() for word in _CERTIFICATE)
    match row.reason:
        case OutcomeReason.PRIVATE_ADDRESS.value:
            visited = (
                "`--allow-private` visits such hosts, in a new directory as another crawl (`--crawl NAME`)"
                if shared
                else f"`{resume} --allow-private --retry-failed` visits such hosts in this run,"
                f" and `network.allow_private` set to true in {shell_quoted(home / 'fieldmouse.toml')} in all runs"
            )
            return f"`{name}` is on a private network; {visited}"
        case OutcomeReason.NO_ADDRESS.value:
            return f"try `getent hosts {name}`; when it has an address, {again}"
        # a certificate error, also during the fetch of robots.txt
        case OutcomeReason.TLS.value | OutcomeReason.ROBOTS_TXT_UNREACHABLE.value if untrusted:
            trusted = "if its certificate is from an authority of your own, "
            if shared:
                return f"{trusted}add `--set network.ca_file=FILE`"
            return f"{trusted}`{resume} --retry-failed --set network.ca_file=FILE` asks again"
        case OutcomeReason.NO_CONNECTION.value | OutcomeReason.TIMEOUT.value:
            return f"when `{host_of(row.url)}` can be reached from this machine, {again}"
        case OutcomeReason.ROBOTS_TXT_EXCLUDED.value:
            return f"{host_of(row.url)}/robots.txt says what may be crawled; its owner can change that"
        case OutcomeReason.ROBOTS_TXT_UNREACHABLE.value:
            return f"a host is crawled only when {host_of(row.url)}/robots.txt can be had, or is not there"
        case _:
            return f"`fieldmouse explain {shell_quoted(home.path)} {shell_quoted(row.url)}` says what happened"


MAX_BYTES = 256 << 20  # bytes of archive read for one search


def find_linking_pages(
    directory: Path, states: Sequence[ShardState], url: Url, *, most: int = 3, budget: int = MAX_BYTES
) -> tuple[list[tuple[Url, str]], bool]:
    """Return up to `most` pages of the archive in `directory` that link to `url`, and whether it read enough.

    With each page comes the rule that forbids to follow its link, "" if nothing does.
    """
    mentions: list[tuple[Url, str]] = []
    needle = _link_search_bytes(url)
    ends = {state.warc: state.warc_length for state in states if state.warc}
    for path in sorted(directory.glob("*.warc.gz")):
        end = min(path.stat().st_size, ends.get(path.name, path.stat().st_size), budget)
        budget -= end
        for page, response in _archived_html_pages(path, end):
            rule = _nofollow_rule(page, response, url, needle)
            if rule is not None:
                mentions.append((page, rule))
                if len(mentions) == most:
                    return mentions, True
        if budget <= 0:
            return mentions, False
    return mentions, True


def _archived_html_pages(path: Path, end: int) -> Iterator[tuple[Url, Response]]:
    try:
        for member in warc_reader.read_members(path, 0, end):
            record = warc_reader.read_record(member.content)
            if record.kind == "response":
                response = warc_reader.response_in_record(record)
                if 200 <= response.status < 300 and response_mime(response) in HTML_TYPES:
                    yield Url(record.url), response
    except (warc_reader.UnreadableMember, ValueError):
        return  # damage, or the budget ended inside a record


def _link_search_bytes(url: Url) -> bytes:
    """Return bytes that occur in every link to the URL, or b"" if its spellings vary too much."""
    path = url.partition("?")[0].rstrip("/")
    last = path.rpartition("/")[2]
    return last.encode() if last.isascii() and "%" not in last and path.count("/") > 2 else b""


def _nofollow_rule(page: Url, response: Response, url: Url, needle: bytes) -> str | None:
    """Return the rule that forbids to follow a page's link to `url`, "" if none does, None without such a
    link."""
    body = decode_response(response, limit=MAX_HTML).body
    if needle not in body:
        return None
    charset = find_charset(body, effective_media_type(response.all_headers("content-type")))
    html = body if charset == "utf-8" else decode_text(body, charset).encode("utf-8", "replace")
    tags = [value for name, value in response.headers if name == "x-robots-tag"]
    read = parse_html(html, page, tags=tags, charset=charset)
    tree = LexborHTMLParser(limit_parse_cost(html)[0])
    marked = None
    for node in tree.css("a[href], area[href]"):
        attributes = node.attributes
        if resolve(encode_query(attributes.get("href") or "", charset), Url(read.base)) != url:
            continue
        if "nofollow" not in (attributes.get("rel") or "").lower().split():
            return "the page asks robots not to follow its links (nofollow)" if read.rules.nofollow else ""
        marked = "the link is marked rel=nofollow"
    return marked
