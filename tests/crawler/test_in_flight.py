"""In-flight table against a simple model: every ticket is counted once, and never too early."""

from __future__ import annotations

from collections import Counter

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from fieldmouse.crawler.in_flight import InFlightTable
from fieldmouse.storage.checkpoint import CrawlCounters
from fieldmouse.types.outcome import ContentChange, Failed, OutcomeRow, Refused, WorkerResult
from fieldmouse.types.reason import OutcomeKind, OutcomeReason
from fieldmouse.types.request import FrontierEntry, NumberedRequest, Request
from fieldmouse.url import Url

SHARDS = 2
LIMIT = 7
KINDS = st.sampled_from(["page", "page", "page", "moved", "failed", "unchanged"])

BLAMED = ("failed", "refused")

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(OutcomeRow).decode


def link(number: int) -> Request:
    return Request(Url(f"http://mouse.test/{number}"))


def news_of(number: int, kind: str) -> ContentChange:
    """Result of a poll: every other page is unchanged."""
    if kind == "page":
        return ContentChange.CHANGED if number % 2 else ContentChange.SAME
    return {"moved": ContentChange.MOVED, "unchanged": ContentChange.SAME}.get(kind, ContentChange.NONE)


def parsed(
    number: int, shard: int, batch: int, kind: str, size: int = 10, of: Request | None = None, status: int = 0
) -> WorkerResult:
    reason = OutcomeReason.DECOMPRESSION_BOMB.value if kind == "failed" else ""
    asked = of or link(number)
    row = OutcomeRow(
        asked.url,
        OutcomeKind(kind),
        1.0,
        reason=OutcomeReason(reason),
        size=size,
        polled=asked.was,
        status=status,
        digest=f"sha1:{number % 2}",
        news=news_of(number, kind) if asked.was else ContentChange.NONE,
    )
    return WorkerResult(number, shard, batch, kind, _encode(row), (link(1000 + number),), size, reason)


class AtTheDesk(RuleBasedStateMachine):
    """Fetch workers request, worker processes answer and die, checkpoints settle, in any possible order."""

    def __init__(self) -> None:
        super().__init__()
        self.desk = InFlightTable(CrawlCounters(), page_limit=LIMIT)
        self.next = 1
        self.asked: set[int] = set()
        self.sent: dict[int, int] = {}  # ticket to shard
        self.answered: dict[int, tuple[int, int, str]] = {}  # ticket to shard, batch and kind
        self.verdicts: dict[int, str] = {}
        self.settled: dict[int, str] = {}  # latest outcome of each discovered URL
        self.reasons: dict[int, OutcomeReason] = {}  # its reason, if it is no page
        self.pages = 0  # discovered ones
        self.polls: dict[int, Request] = {}  # not settled
        self.status: dict[int, int] = {}
        self.polled: Counter[str] = Counter()
        self.batch = [1] * SHARDS  # the one each shard is at
        self.durable = [0] * SHARDS  # the last one each has prepared
        self.preparing: set[int] = set()

    @rule()
    def a_robot_asks(self) -> None:
        number = self.next
        air = len((self.asked | self.sent.keys()) - self.polls.keys())
        known = self.pages
        known += sum(kind == "page" for n, (_, _, kind) in self.answered.items() if n not in self.polls)
        allowed = self.desk.try_start_fetch(NumberedRequest(number, link(number)))
        assert allowed == (known + air < LIMIT)
        if allowed:
            self.asked.add(number)
        self.next += 1

    def link(self, number: int) -> Request:
        return self.polls.get(number) or link(number)

    @precondition(lambda self: self.settled)
    @rule(data=st.data())
    def a_known_url_is_polled(self, data: st.DataObject) -> None:
        """One at a time, and whatever the limit: it was settled long ago."""
        known = data.draw(st.sampled_from(sorted(self.settled)))
        if link(known).url in {poll.url for poll in self.polls.values()}:
            return
        poll = Request(link(known).url, door=FrontierEntry.POLLED, was=self.settled[known], digest="sha1:0")
        if self.settled[known] in BLAMED:
            poll = msgspec.structs.replace(poll, why=self.reasons[known])
        self.polls[self.next] = poll
        self.asked.add(self.next)
        assert self.desk.try_start_fetch(NumberedRequest(self.next, poll))
        self.next += 1

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), shard=st.integers(0, SHARDS - 1))
    def an_answer_goes_to_a_worker(self, data: st.DataObject, shard: int) -> None:
        number = data.draw(st.sampled_from(sorted(self.asked)))
        self.asked.remove(number)
        self.sent[number] = shard
        self.desk.mark_awaiting_index(number, self.link(number))

    @precondition(lambda self: self.asked)
    @rule(data=st.data(), again=st.booleans())
    def a_request_fails(self, data: st.DataObject, again: bool) -> None:
        number = data.draw(st.sampled_from(sorted(self.asked)))
        self.asked.remove(number)
        if again:  # under another number
            self.polls.pop(number, None)
            self.desk.forget_request(number)
        else:
            self.verdicts[number] = "failed"
            self.desk.record_failed_or_refused(
                number, Failed(self.link(number), OutcomeReason.CONNECTION_CLOSED, 1.0, "why")
            )

    @rule()
    def a_url_is_refused(self) -> None:
        self.verdicts[self.next] = "refused"
        self.desk.record_failed_or_refused(self.next, Refused(link(self.next), OutcomeReason.ROBOTS_TXT_EXCLUDED, 1.0))
        self.next += 1

    @precondition(lambda self: self.sent)
    @rule(data=st.data(), kind=KINDS, status=st.sampled_from([404, 410, 500]))
    def a_worker_answers(self, data: st.DataObject, kind: str, status: int) -> None:
        number = data.draw(st.sampled_from(sorted(self.sent)))
        shard = self.sent.pop(number)
        batch = self.batch[shard]
        self.answered[number] = (shard, batch, kind)
        self.status[number] = status
        told = parsed(number, shard, batch, kind, of=self.link(number), status=status)
        found = self.desk.record_parsed([told, parsed(0, shard, batch, "page")])
        assert [one.url for one in found] == [link(1000 + number).url, link(1000).url]

    @rule(shard=st.integers(0, SHARDS - 1))
    def a_worker_dies(self, shard: int) -> None:
        """What it had prepared is safe on the disk; the rest is gone."""
        gone = [number for number, where in self.sent.items() if where == shard]
        gone += [
            number
            for number, (where, batch, _) in self.answered.items()
            if where == shard and batch > self.durable[shard]
        ]
        lost = self.desk.discard_lost_results(gone)
        assert lost == [(number, self.link(number)) for number in gone]
        for number in gone:
            self.polls.pop(number, None)
            self.sent.pop(number, None)
            self.answered.pop(number, None)

    @rule(shard=st.integers(0, SHARDS - 1))
    def a_worker_prepares(self, shard: int) -> None:
        """It continues with the next batch while the others are still preparing."""
        if self.durable[shard] < self.batch[shard] and shard not in self.preparing:
            self.preparing.add(shard)
            self.durable[shard] = self.batch[shard]
            self.batch[shard] += 1

    @rule()
    def a_checkpoint_settles(self) -> None:
        settled, rows = self.desk.settle_durable(self.durable)
        due = self.verdicts | {
            number: kind for number, (shard, batch, kind) in self.answered.items() if batch <= self.durable[shard]
        }
        assert settled == due
        assert Counter(_decode(row).url for row in rows) == Counter(self.link(number).url for number in due)
        assert not due.keys() & self.settled.keys(), "settled twice"
        for number, kind in due.items():
            poll = self.polls.pop(number, None)
            if poll is None:
                self.settled[number] = kind
                verdict = OutcomeReason.CONNECTION_CLOSED if kind == "failed" else OutcomeReason.ROBOTS_TXT_EXCLUDED
                self.reasons[number] = verdict if number in self.verdicts else OutcomeReason.DECOMPRESSION_BOMB
                self.pages += kind == "page"
            else:
                self.polled["polls"] += 1
                self.the_poll_showed(int(poll.url.rpartition("/")[2]), number, kind)
        self.answered = {number: known for number, known in self.answered.items() if number not in due}
        self.verdicts.clear()
        self.preparing.clear()

    def the_poll_showed(self, known: int, number: int, kind: str) -> None:
        if kind == "failed" and number not in self.verdicts and self.status[number] in (404, 410):
            self.polled["gone" if self.settled[known] == "page" else "unchanged"] += 1
            self.settled[known], self.reasons[known] = "failed", OutcomeReason.DECOMPRESSION_BOMB
        elif kind == "unchanged" or (kind == "page" and number % 2 == 0):
            self.polled["unchanged"] += 1
            self.settled[known] = "page" if kind == "page" else self.settled[known]
        elif kind in ("page", "moved"):
            self.polled["changed"] += 1
            self.settled[known] = kind
        else:
            self.polled["refused" if kind == "refused" else "failed"] += 1

    @invariant()
    def polls_are_counted_apart(self) -> None:
        polled = self.desk.tally.polled
        nothing = {"polls": 0, "changed": 0, "unchanged": 0, "gone": 0, "failed": 0, "refused": 0}
        won = self.desk.tally.pages - self.pages
        told = msgspec.structs.asdict(polled) | {"failed": polled.failed_count}
        assert sum(told.pop("reasons").values()) == polled.failed_count + polled.refused
        assert told == nothing | {"pages": won} | self.polled
        assert self.desk.tally.first_fetched_pages == self.pages
        assert self.desk.undurable_polls == len(self.polls.keys() & (self.answered.keys() | self.verdicts.keys()))

    @invariant()
    def the_tally_counts_what_is_settled_and_nothing_else(self) -> None:
        tally, kinds = self.desk.tally, Counter(self.settled.values())
        assert tally.settled_urls == len(self.settled)
        assert (tally.pages, tally.moved, tally.unchanged) == (kinds["page"], kinds["moved"], kinds["unchanged"])
        assert (tally.failed, tally.refused) == (kinds["failed"], kinds["refused"])
        blamed = Counter(self.reasons[number] for number, kind in self.settled.items() if kind in BLAMED)
        assert tally.reasons == blamed

    @invariant()
    def what_is_known_and_not_settled_is_counted_apart(self) -> None:
        known = {number: kind for number, (_, _, kind) in self.answered.items()} | self.verdicts
        fresh = Counter(kind for number, kind in known.items() if number not in self.polls)
        assert +self.desk.undurable == fresh
        assert self.desk.undurable_bytes == 10 * len(self.answered)
        assert self.desk.awaiting_index.keys() == self.sent.keys() | self.answered.keys()

    @invariant()
    def never_more_pages_than_asked_for_even_if_all_in_the_air_arrive(self) -> None:
        air = (self.asked | self.sent.keys()) - self.polls.keys()
        known = self.pages + self.desk.undurable["page"]
        assert known + len(air) <= LIMIT
        assert self.desk.is_page_limit_fetched == (known >= LIMIT)


AtTheDesk.TestCase.settings = settings(max_examples=300, stateful_step_count=50, deadline=None)
TestAtTheDesk = AtTheDesk.TestCase


def test_without_a_limit_every_fetch_is_allowed() -> None:
    desk = InFlightTable(CrawlCounters(), page_limit=0)
    assert all(desk.try_start_fetch(NumberedRequest(number, link(number))) for number in range(1, 1000))
    assert not desk.is_page_limit_fetched


def test_a_crashed_worker_fails_its_open_tickets_but_none_it_had_answered() -> None:
    tickets = [NumberedRequest(number, link(number)) for number in range(1, 6)]
    desk = InFlightTable(CrawlCounters(), page_limit=0)
    desk.start_visit(tickets)
    desk.record_failed_or_refused(1, Refused(tickets[0].link, OutcomeReason.ROBOTS_TXT_EXCLUDED, 1.0))
    desk.try_start_fetch(tickets[1])
    desk.mark_awaiting_index(2, tickets[1].link)
    desk.try_start_fetch(tickets[2])
    assert desk.split_failed_and_unstarted(tickets) == ([tickets[2]], tickets[3:])
    desk.forget_request(3)  # tried again later
    assert desk.split_failed_and_unstarted(tickets) == (tickets[3:], [])
    desk.end_visit(tickets)
    assert desk.split_failed_and_unstarted(tickets) == ([], [])
