"""A server's access rules and limits; imports no web framework, so that the command's help works without one."""

import hmac
import ipaddress
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.options import Checked, option

TOKEN = "RESMLP_MT_TOKEN"  # a variable of the environment
SHORTEST_TOKEN = 16
BYTES_OF_A_CHARACTER = 12  # at most, in JSON: two of \uXXXX
BYTES_BESIDE_TEXTS = 1000
THIS_MACHINE = "127.0.0.1", "localhost", "[::1]"
NAME = r"\[[0-9A-Fa-f:.]+\]|[^:@/\[\]\s]+"  # of a host, without the port
HOST = re.compile(rf"({NAME})(:\d+)?")


@dataclass(frozen=True)
class Limits(Checked):
    """A server's limits: options of ``resmlp-mt serve``."""

    max_characters: int = option(5000, "characters of a request; a sentence counts one more", least=1, most=10_000_000)
    max_beam: int = option(12, "largest beam size and n_best of a request; the page asks for 3", least=3, most=1000)
    max_waiting: int = option(64, "requests that may wait; more get status 429", least=1, most=100_000)
    max_seconds: int = option(30, "seconds until a request gets status 503", least=1, most=86_400)
    longest_wait: int = option(5, "milliseconds that a request waits for others to join", least=0, most=10_000)

    @property
    def max_bytes(self) -> int:
        """The most bytes of a request's body: enough for ``max_characters``; tags, glossary and avoided words count."""
        return self.max_characters * BYTES_OF_A_CHARACTER + BYTES_BESIDE_TEXTS


@dataclass(frozen=True)
class Access:
    """Who may send requests to a server."""

    # Names of the server, in lower case, as in the Host header without the port. A page of another site whose name is
    # redirected to this machine (DNS rebinding) sends another name.
    hosts: frozenset[str] = frozenset(THIS_MACHINE)
    token: str | None = None  # requests that need the model must send it; None: everybody may ask
    origins: tuple[str, ...] = ()  # other sites whose pages may ask, such as https://example.org

    def has_token(self, token: str) -> bool:
        """Whether a client that sends this token may ask."""
        return self.token is None or hmac.compare_digest(token.encode(), self.token.encode())

    def refusal(self, headers: Mapping[str, str]) -> str | None:
        """Return why a request's Host or Origin is refused, or None."""
        host = HOST.fullmatch(headers.get("host", ""))
        if host is None or host[1].lower() not in self.hosts:
            return f"Host {headers.get('host', '')!r:.80} is no name of this server: start it with --allow-host"
        origin = headers.get("origin")
        if origin is not None and origin not in self.origins and origin.partition("://")[2] != headers["host"]:
            return f"pages of {origin!r:.80} may not ask this server: start it with --allow-origin"
        return None


def access(host: str, token: str | None, names: list[str], origins: list[str]) -> Access:
    """Return who may ask a server that listens at ``host``, from the options of ``resmlp-mt serve``.

    A host that other machines can reach needs a token; one that is short or has wrong characters is refused.
    """
    for name in names:
        if not re.fullmatch(NAME, name):
            raise UserError(f"--allow-host {name}: give a name or address without a port, one of IPv6 in brackets")
    for origin in origins:
        if not re.fullmatch(r"https?://[^/@\s]+", origin):
            raise UserError(f"--allow-origin {origin}: give a site without a path, such as https://example.org")
    try:
        addresses = {str(info[4][0]).partition("%")[0] for info in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError) as error:  # UnicodeError: a label is empty or too long
        reason = error.strerror if isinstance(error, OSError) else "is no name"
        raise UserError(f"--host {host}: {reason}: give an address of this machine") from error
    if token is None:
        if not all(ipaddress.ip_address(address).is_loopback for address in addresses):
            raise UserError(f"--host {host}: can be reached from other machines: give --token, or set {TOKEN}")
    elif len(token) < SHORTEST_TOKEN or not re.fullmatch("[!-~]+", token):
        raise UserError(f"--token: give at least {SHORTEST_TOKEN} letters, digits and signs, as: openssl rand -hex 16")
    hosts = frozenset(name.lower() for name in [*THIS_MACHINE, bracketed(host), *names])
    return Access(hosts, token, tuple(origin.lower() for origin in origins))


def bracketed(host: str) -> str:
    """Return a host's name or address as in a URL: IPv6 in brackets."""
    return f"[{host}]" if ":" in host else host


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address; port 0 takes a free port."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.create_server(address[:2], family=family)
    except OSError as error:
        reason = str(error.strerror).partition(" (")[0]
        raise UserError(f"--host {host} --port {port}: {reason}: choose another port or host") from error
    # for its connections: else an answer on a kept-open one waits 40 ms until its headers are acknowledged
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener
