"""Scope: where a crawl may go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fieldmouse.errors import SettingsError
from fieldmouse.policy.scope import Mode, Scope
from fieldmouse.url import Url, host_of

SEED = Url("https://www.example.co.uk/start/here")
names = st.lists(st.sampled_from(["www", "a", "example", "other", "co", "uk", "org"]), min_size=1, max_size=4).map(
    ".".join
)
urls = st.builds(
    lambda scheme, name, path: Url(f"{scheme}://{name}/{path}"),
    st.sampled_from(["http", "https"]),
    names,
    st.sampled_from(["", "start/here", "start/", "x?y=1"]),
)


@given(urls)
def test_each_mode_is_wider_than_the_one_before(url: Url) -> None:
    modes: list[Mode] = ["page", "host", "site", "web"]
    admitted = [Scope.from_seeds([SEED], mode).admits(url) for mode in modes]
    assert admitted == sorted(admitted)
    assert admitted[-1]


@pytest.mark.parametrize("mode", ["page", "host", "site", "web"])
def test_a_seed_is_in_its_own_scope(mode: Mode) -> None:
    assert Scope.from_seeds([SEED], mode).admits(SEED)


@given(urls)
def test_excluding_wins_over_including(url: Url) -> None:
    name = url.split("/")[2]
    scope = Scope.from_seeds([SEED], "web", include_hosts=[name], exclude_domains=[name])
    assert not scope.admits(url)


@given(urls)
def test_host_check_and_path_check_together_equal_admits(url: Url) -> None:
    scope = Scope.from_seeds([SEED], include_domains=["org"], prefixes=["/start"], exclude_regex=[r"\?y="])
    host = "/".join(url.split("/")[:3])
    assert scope.admits(url) == (scope.admits_host(host) and scope.admits_path(url))  # type: ignore[arg-type]


def test_a_site_is_the_registered_domain() -> None:
    scope = Scope.from_seeds([SEED])
    assert scope.admits(Url("http://news.example.co.uk/"))
    assert not scope.admits(Url("http://other.co.uk/"))


def test_all_of_loopback_is_one_site() -> None:
    scope = Scope.from_seeds([Url("http://127.0.1.1:8000/")])
    assert scope.admits(Url("http://127.9.9.9:8000/x"))
    assert not scope.admits(Url("http://128.0.0.1/"))


def test_a_domain_covers_the_names_under_it_and_no_others() -> None:
    scope = Scope.from_seeds([SEED], "host", include_domains=["example.org"])
    assert scope.admits(Url("http://example.org/"))
    assert scope.admits(Url("http://a.b.example.org/"))
    assert not scope.admits(Url("http://notexample.org/"))


def test_prefixes_are_paths_or_whole_urls() -> None:
    scope = Scope.from_seeds(
        [SEED], prefixes=["/docs/", "https://www.example.co.uk/blog"], exclude_prefixes=["/docs/old"]
    )
    assert scope.admits(Url("https://www.example.co.uk/docs/new"))
    assert scope.admits(Url("https://www.example.co.uk/blog?p=1"))
    assert not scope.admits(Url("https://news.example.co.uk/blog"))
    assert not scope.admits(Url("https://www.example.co.uk/docs/old/1"))


def test_depth_is_counted_from_the_seeds() -> None:
    scope = Scope.from_seeds([SEED], max_depth=2)
    assert scope.admits(SEED, 2)
    assert not scope.admits(SEED, 3)


def test_regular_expressions_are_searched_for_and_validated_early() -> None:
    scope = Scope.from_seeds([SEED], include_regex=[r"/start/\w+$"])
    assert scope.admits(SEED)
    assert not scope.admits(Url("https://www.example.co.uk/start/"))
    with pytest.raises(SettingsError, match=r"`\(` is not a regular expression"):
        Scope.from_seeds([SEED], include_regex=["("])


@given(st.lists(st.sampled_from(["(?i)START", "(?P<n>s)(?P=n)", "(?P<n>t)a", r"(.)\1", "(?x) w w w"])))
def test_each_regular_expression_means_what_it_means_alone(patterns: list[str]) -> None:
    alone = any(Scope.from_seeds([SEED], exclude_regex=[one]).excluding_setting(SEED) for one in patterns)
    assert bool(Scope.from_seeds([SEED], exclude_regex=patterns).excluding_setting(SEED)) == alone


@given(
    st.sampled_from(["page", "host", "site", "web"]),
    st.lists(
        st.sampled_from(
            [
                "exclude_hosts",
                "exclude_domains",
                "prefixes",
                "exclude_prefixes",
                "include_regex",
                "exclude_regex",
                "include_hosts",
            ]
        ),
        unique=True,
    ),
    st.sampled_from(["http://a.example/x/1", "http://b.example/x/2", "http://a.example/y", "http://c.test/x/1"]),
)
def test_the_rule_that_keeps_a_url_out_is_named_if_and_only_if_one_does(mode: str, rules: list[str], text: str) -> None:
    values = {
        "exclude_hosts": ("b.example",),
        "exclude_domains": ("test",),
        "prefixes": ("/x",),
        "exclude_prefixes": ("/y",),
        "include_regex": ("x",),
        "exclude_regex": ("2$",),
        "include_hosts": ("c.test",),
    }
    chosen = {rule: values[rule] for rule in rules}
    scope = Scope.from_seeds([Url("http://a.example/x/1")], mode, **chosen)  # type: ignore[arg-type]
    url = Url(text)
    named = scope.excluding_setting(url)
    assert bool(named) == (not scope.admits(url))
    if named:
        assert named == "scope.mode" or named.removeprefix("scope.") in rules
    if named.startswith("scope.exclude_"):
        assert scope.excluding_entry(url) == values[named.removeprefix("scope.")][0]


def test_a_host_is_its_name_whatever_scheme_and_port() -> None:
    scope = Scope.from_seeds([SEED], "host")
    assert scope.admits(Url("http://www.example.co.uk:8080/x"))
    assert not scope.admits(Url("https://example.co.uk/"))


@given(urls, urls, st.sampled_from(["page", "host", "site", "web"]), st.booleans())
def test_a_joined_url_is_in_scope_like_a_seed(url: Url, other: Url, mode: Mode, anywhere: bool) -> None:
    scope = Scope.from_seeds([SEED], mode, follow_seed_redirects=anywhere)
    wider, both = (scope.with_seeds([other]), Scope.from_seeds([SEED, other], mode, follow_seed_redirects=anywhere))
    assert wider.admits(other)
    assert wider.admits(url) == both.admits(url)
    assert wider.admits(url) or not scope.admits(url), "nothing leaves the scope"


@given(urls, st.sampled_from(["page", "host", "site", "web"]), st.booleans())
def test_links_are_held_for_every_host_that_may_join_and_for_no_other(url: Url, mode: Mode, anywhere: bool) -> None:
    """A link that would be in scope with what a redirect may lead to is in scope, or held until then."""
    scope = Scope.from_seeds([SEED], mode, follow_seed_redirects=anywhere)
    host = host_of(url)
    grows = scope.follows_seed_redirect(url) and not scope.admits(url)
    if mode != "page":
        assert grows == scope.can_host_join(host)
    assert not (scope.can_host_join(host) and scope.admits_host(host))
    if scope.can_host_join(host):
        beside = Url(f"{host}/beside")
        assert scope.with_seeds([url]).admits(beside)
        assert scope.scope_key(host_of(beside)) == scope.scope_key(host)


@pytest.mark.parametrize(
    ("target", "same_site", "anywhere"),
    [
        ("http://www.example.co.uk/start/here", True, True),
        ("https://example.co.uk/", True, True),
        ("https://news.example.co.uk:8443/", True, True),
        ("https://other.co.uk/", False, True),
        ("https://bad.example.co.uk/", False, False),
        ("https://www.example.co.uk/login", False, False),
    ],
)
@pytest.mark.parametrize("mode", ["page", "host", "site"])
def test_redirects_of_seeds_are_followed_within_their_sites_or_anywhere_but_not_to_excluded_urls(
    target: str, same_site: bool, anywhere: bool, mode: Mode
) -> None:
    for follow, wanted in ((False, same_site), (True, anywhere)):
        scope = Scope.from_seeds(
            [SEED], mode, exclude_hosts=["bad.example.co.uk"], exclude_prefixes=["/login"], follow_seed_redirects=follow
        )
        assert scope.follows_seed_redirect(Url(target)) == wanted
