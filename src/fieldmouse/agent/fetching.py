"""HTTP fetcher and request signer, built from the settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fieldmouse.clock import Clock
from fieldmouse.named import load_function
from fieldmouse.robots.signer import Signer
from fieldmouse.settings import Settings
from fieldmouse.url import host_of, parse
from fieldmouse.web import connection
from fieldmouse.web.descriptors import room_for_connections
from fieldmouse.web.fetcher import HttpFetcher
from fieldmouse.web.resolver import Resolver
from fieldmouse.web.source import SourceAddress
from fieldmouse.web.tls import trust


def fetcher_of(
    settings: Settings, clock: Clock, resolver: Resolver, may_ask: Callable[[], bool] | None = None
) -> HttpFetcher:
    limits, network = settings.limits, settings.network
    return HttpFetcher(
        user_agent=settings.crawl.user_agent,
        clock=clock,
        contact=settings.crawl.contact,
        limits=connection.Limits(
            body=limits.body,
            header=limits.headers,
            connect=limits.connect,
            first_byte=limits.first_byte,
            idle=limits.idle,
            total=limits.total,
            min_speed=limits.min_speed,
            grace=limits.grace,
        ),
        port=resolver.port,
        tls=trust(verify=network.tls_verify, ca_file=Path(network.ca_file) if network.ca_file else None),
        keep_alive=settings.fetch.keep_alive,
        idle_connections=2 * settings.fetch.concurrency,
        most_connections=room_for_connections(),
        headers=network.headers,
        sign=signer_of(settings),
        source=SourceAddress(network.source) if network.source else None,
        may_ask=may_ask,
        keep_secrets=settings.plugins.keep_signatures,
    )


def signer_of(settings: Settings) -> Signer | None:
    """Signer of requests to the user's own sites, if the settings name a plug-in."""
    asked = settings.plugins
    if not asked.sign:
        return None
    return Signer(
        load_function(asked.sign, "sign"),
        asked.sign,
        hosts=[host_of(url) for url in map(parse, asked.sign_hosts or settings.crawl.seeds) if url],
        patience=asked.patience,
        keep=asked.keep_signatures,
        taken=settings.network.headers,
    )
