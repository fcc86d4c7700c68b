"""Show a trained model's folder in a browser, and translate for other programs over HTTP."""

import argparse
import importlib.util
import ipaddress
import os
import re
import socket

from resmlp_mt.cli import named
from resmlp_mt.cli.arguments import add_speed, command_parser, positive
from resmlp_mt.common.errors import UserError
from resmlp_mt.serve.protocol import Limits

TOKEN = "RESMLP_MT_TOKEN"
SHORTEST_TOKEN = 16
EPILOG = """
The page is at the address that is printed. Programs send POST /translate; /openapi.json describes it. Ctrl-C ends the
server once what has begun is answered.

examples:
  resmlp-mt serve FOLDER
  curl -H 'Content-Type: application/json' -d '{"texts": ["A man."]}' http://127.0.0.1:8000/translate
"""


def host_name(text: str) -> str:
    """A name or address as a Host header has it, without the port."""
    if not re.fullmatch(r"\[[0-9A-Fa-f:.]+\]|[^:@/\[\]\s]+", text):
        raise argparse.ArgumentTypeError(f"{text!r}: give a name or address without a port, one of IPv6 in brackets")
    return text.lower()


def origin(text: str) -> str:
    """A site as an Origin header has it."""
    if not re.fullmatch(r"https?://[^/@\s]+", text):
        raise argparse.ArgumentTypeError(f"{text!r}: give a site without a path, such as https://example.org")
    return text.lower()


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, EPILOG)
    parser.add_argument("folder", type=named, metavar="FOLDER", help="made by resmlp-mt export")
    access = parser.add_argument_group("who may ask")
    access.add_argument("--host", default="127.0.0.1", help="address to listen at (default: %(default)s, this machine)")
    access.add_argument("--port", type=positive(65535, 0), default=8000, help="0: a free one (default: %(default)s)")
    access.add_argument(
        "--token",
        help=f"that requests must have, needed to listen beyond this machine; better in the variable {TOKEN}, since "
        "other users see a command's arguments",
    )
    access.add_argument(
        "--allow-host",
        type=host_name,
        action="append",
        default=[],
        metavar="NAME",
        help="a name or address that browsers and programs reach this server by, beside --host and localhost; can be "
        "given several times",
    )
    access.add_argument(
        "--allow-origin",
        type=origin,
        action="append",
        default=[],
        metavar="ORIGIN",
        help="another site whose pages may ask, such as https://example.org; can be given several times",
    )
    limits = parser.add_argument_group("limits")
    limits.add_argument(
        "--max-characters",
        type=positive(10_000_000),
        default=Limits.characters,
        metavar="N",
        help="of a request, with one more for each text (default: %(default)s)",
    )
    limits.add_argument(
        "--max-beam", type=positive(1000), default=Limits.beam, metavar="N", help="of a search (default: %(default)s)"
    )
    limits.add_argument(
        "--max-waiting",
        type=positive(100_000),
        default=Limits.waiting,
        metavar="N",
        help="requests; more are refused with status 429 (default: %(default)s)",
    )
    limits.add_argument(
        "--max-seconds",
        type=positive(86_400),
        default=int(Limits.seconds),
        metavar="N",
        help="for an answer; then status 503 (default: %(default)s)",
    )
    limits.add_argument(
        "--longest-wait",
        type=positive(10_000, 0),
        default=round(1000 * Limits.longest_wait),
        metavar="MS",
        help="milliseconds that a request waits for others, to be translated together, while nothing is translated "
        "(default: %(default)s)",
    )
    add_speed(parser)
    return parser


def check_token(token: str | None, host: str) -> None:
    """Refuse a token that is none, and to listen beyond this machine without one.

    Args:
        host: that the server listens at

    Raises:
        UserError: there is a reason to
    """
    try:
        addresses = {str(info[4][0]).partition("%")[0] for info in socket.getaddrinfo(host, None)}
    except (OSError, UnicodeError) as error:  # of a label that is empty or too long
        reason = error.strerror if isinstance(error, OSError) else "is no name"
        raise UserError(f"--host {host}: {reason}: give an address of this machine") from error
    if token is None:
        if not all(ipaddress.ip_address(address).is_loopback for address in addresses):
            raise UserError(f"--host {host}: can be reached from other machines: give --token, or set {TOKEN}")
    elif len(token) < SHORTEST_TOKEN or not (token.isascii() and token.isprintable()) or " " in token:
        raise UserError(
            f"--token: give at least {SHORTEST_TOKEN} letters, digits and signs without spaces, such as those of: "
            "openssl rand -hex 16"
        )


def main() -> None:
    args = get_parser().parse_args()
    token = args.token if args.token is not None else os.environ.get(TOKEN)
    check_token(token, args.host)
    if not all(map(importlib.util.find_spec, ("starlette", "uvicorn"))):
        raise UserError("serve needs starlette and uvicorn: pip install starlette uvicorn")
    from resmlp_mt.serve.server import THIS_MACHINE, Access, listening, server_of
    from resmlp_mt.translate.translator import Translator

    with listening(args.host, args.port) as listener:
        host = f"[{args.host}]" if ":" in args.host else args.host
        hosts = frozenset([*THIS_MACHINE, host.lower(), *args.allow_host])
        limits = Limits(
            args.max_characters, args.max_beam, args.max_waiting, args.max_seconds, args.longest_wait / 1000
        )
        translator = Translator(args.folder, args.threads, args.device, args.precision, args.engine)
        server = server_of(translator, limits, Access(hosts, token, tuple(args.allow_origin)))
        print(f"http://{host}:{listener.getsockname()[1]}  (Ctrl-C ends it)", flush=True)
        server.run(sockets=[listener])
