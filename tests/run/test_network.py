"""What a run with a restricted network reaches: addresses, the agent's own and those that are named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.agents.registry import AGENTS
from penstock.config.addresses import ADDRESS, ADDRESSES, ServerAddress, address_of
from penstock.errors import UsageError
from penstock.run.network import PROXY_PORT, Reach, environment, reach_of

CLAUDE = AGENTS["claude"]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("api.example.com:443", ServerAddress("api.example.com", 443)),
        ("API.Example.com:443", ServerAddress("api.example.com", 443)),
        ("*.example.com:443", ServerAddress("*.example.com", 443)),
        ("10.0.0.5:80", ServerAddress("10.0.0.5", 80)),
        ("[::1]:8080", ServerAddress("::1", 8080)),
        *(
            (text, None)
            for text in ("", "example.com", "example.com:0", "example.com:65536", "https://example.com:443")
        ),
        *((text, None) for text in ("*:443", "a.*.com:443", "a b:1", "a:1\n", "*.:1", "::1:80", "a@b:1", "a/b:1")),
    ],
)
def test_an_address(text: str, address: ServerAddress | None) -> None:
    """It is a host and a port, and nothing else."""
    assert address_of(text) == address
    assert ADDRESS.fits(text) == (address is not None)
    assert ADDRESSES.fits([text]) == (address is not None)


def test_a_list_of_addresses() -> None:
    """One text is no list."""
    assert ADDRESSES.fits([])
    assert not ADDRESSES.fits("example.com:443")
    assert str(ServerAddress("::1", 80)) == "[::1]:80"


@pytest.mark.parametrize(
    ("allowed", "host", "covers"),
    [
        ("example.com:443", "example.com", True),
        ("example.com:443", "www.example.com", False),
        ("*.example.com:443", "www.example.com", True),
        ("*.example.com:443", "a.b.example.com", True),
        ("*.example.com:443", "example.com", False),
        ("*.example.com:443", "badexample.com", False),
        ("*.example.com:443", "example.com.evil.test", False),
    ],
)
def test_hosts_below_a_domain(allowed: str, host: str, covers: bool) -> None:
    """`*.` is a whole label or more, and the port is part of the address."""
    address = address_of(allowed)
    assert address is not None
    assert Reach((address,)).allows(ServerAddress(host, 443)) == covers
    assert not Reach((address,)).allows(ServerAddress(host, 80))


def test_the_hosts_of_agents_are_addresses() -> None:
    """Every agent that can be confined names where its model is, and no place where anybody can publish."""
    for name, facts in AGENTS.items():
        assert all(ADDRESS.fits(host) for host in facts.hosts), name
        assert bool(facts.hosts) == bool(facts.state), name
        assert not {"github.com:443", "gist.github.com:443"} & set(facts.hosts), name


def test_an_agent_is_sent_elsewhere() -> None:
    """A base URL in a variable that the agent reads is reached, one of this machine at the same port inside."""
    env = {"ANTHROPIC_BASE_URL": "https://gateway.example.org/v1", "OPENAI_BASE_URL": "https://other.example.org"}
    reach = reach_of(CLAUDE, env, ["more.example.org:8443"], ["http://mcp.example.org/sse"])
    named = {"gateway.example.org:443", "more.example.org:8443", "mcp.example.org:80"}
    assert {str(address) for address in reach.allowed} == {*CLAUDE.hosts, *named}
    local = reach_of(CLAUDE, {"ANTHROPIC_BASE_URL": "http://127.0.0.1:8080"}, ["localhost:3128", "[::1]:8080"])
    assert local.forwarded == (PROXY_PORT, 8080)
    assert local.ports == (PROXY_PORT + 1, PROXY_PORT, 8080)
    assert not any(address.host in ("127.0.0.1", "localhost") for address in local.allowed)


@pytest.mark.parametrize("value", ["", "8080", "unix:///run/x.sock", "http://[::1", "http://a:99999", "http://"])
def test_a_variable_that_is_no_address(value: str) -> None:
    """It adds nothing."""
    assert reach_of(CLAUDE, {"ANTHROPIC_BASE_URL": value}, []).allowed == reach_of(CLAUDE, {}, []).allowed


def test_what_is_rejected() -> None:
    """Another proxy is not passed, and a port that nothing inside can open is not promised."""
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        with pytest.raises(UsageError, match="another proxy"):
            reach_of(None, {name: "http://proxy.example.org:8080"}, [])
    with pytest.raises(UsageError, match="forward port 80 "):
        reach_of(CLAUDE, {"ANTHROPIC_BASE_URL": "http://localhost"}, [])


def test_the_environment() -> None:
    """Programs are told of the proxy in both spellings, and of their own loopback."""
    env = environment(Reach(), {"PATH": "/bin", "no_proxy": "*", "All_Proxy": ""})
    url = f"http://127.0.0.1:{PROXY_PORT}"
    assert env["HTTP_PROXY"] == env["http_proxy"] == env["HTTPS_PROXY"] == env["https_proxy"] == url
    assert env["NO_PROXY"] == env["no_proxy"] == "localhost,127.0.0.1,::1"
    assert env["PATH"] == "/bin"
    assert "All_Proxy" not in env


@given(st.text(max_size=30))
def test_any_text_is_an_address_or_none(text: str) -> None:
    """What is taken for an address is spelled again as the same one."""
    address = address_of(text)
    assert address is None or address_of(str(address)) == address
