"""Show a trained model's folder in a browser, and translate for other programs over HTTP."""

import argparse
import dataclasses
import importlib.util
import os

from resmlp_mt.cli import named
from resmlp_mt.cli.arguments import add_speed, command_parser, given, positive
from resmlp_mt.common.errors import UserError
from resmlp_mt.serve.settings import TOKEN, Limits, access, bracketed, listening
from resmlp_mt.translate.options import EngineOptions

EPILOG = """
The page is at the address that is printed. Programs send POST /translate; /openapi.json describes it. Ctrl-C ends the
server once what has begun is answered.

examples:
  resmlp-mt serve FOLDER
  curl -H 'Content-Type: application/json' -d '{"texts": ["A man."]}' http://127.0.0.1:8000/translate
"""
ALLOW_HOST = """a name or address that browsers and programs reach this server by, beside --host and localhost; can be
given several times"""
ALLOW_ORIGIN = "another site whose pages may ask, such as https://example.org; can be given several times"


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, EPILOG)
    parser.add_argument("folder", type=named, metavar="FOLDER", help="made by resmlp-mt export")
    who = parser.add_argument_group("who may ask")
    who.add_argument("--host", default="127.0.0.1", help="address to listen at (default: %(default)s, this machine)")
    who.add_argument("--port", type=positive(65535, 0), default=8000, help="0: a free one (default: %(default)s)")
    needed = f"that requests must have, needed to listen beyond this machine; better in the variable {TOKEN}, since "
    who.add_argument("--token", default=os.environ.get(TOKEN), help=f"{needed}other users see a command's arguments")
    who.add_argument("--allow-host", action="append", default=[], metavar="NAME", help=ALLOW_HOST)
    who.add_argument("--allow-origin", action="append", default=[], metavar="ORIGIN", help=ALLOW_ORIGIN)
    limits = parser.add_argument_group("limits")
    for field in dataclasses.fields(Limits):
        kind = positive(field.metadata["most"], field.metadata["least"])
        told, metavar = f"{field.metadata['help']} (default: %(default)s)", field.metadata["metavar"]
        option = f"--{field.name.replace('_', '-')}"
        limits.add_argument(option, type=kind, default=field.default, metavar=metavar, help=told)
    add_speed(parser)
    return parser


def main() -> None:
    args = get_parser().parse_args()
    allowed = access(args.host, args.token, args.allow_host, args.allow_origin)
    if not all(map(importlib.util.find_spec, ("pydantic", "starlette", "uvicorn"))):
        raise UserError("serve needs pydantic, starlette and uvicorn: pip install pydantic starlette uvicorn")
    from resmlp_mt.serve.server import server_of
    from resmlp_mt.translate.translator import Translator

    with listening(args.host, args.port) as listener:
        limits = Limits(**{field.name: getattr(args, field.name) for field in dataclasses.fields(Limits)})
        translator = Translator(args.folder, **dataclasses.asdict(given(args, EngineOptions)))
        server = server_of(translator, limits, allowed)
        print(f"http://{bracketed(args.host)}:{listener.getsockname()[1]}  (Ctrl-C ends it)", flush=True)
        server.run(sockets=[listener])
