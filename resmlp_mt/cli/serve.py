"""Show a trained model's folder in a browser, and translate for other programs over HTTP."""

import argparse
import dataclasses
import importlib.util
import os

from resmlp_mt.cli.arguments import add_exported_folder, add_options, command_parser, given, number_within
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


def serve() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, EPILOG, _run)
    add_exported_folder(parser)
    who = parser.add_argument_group("who may ask")
    who.add_argument("--host", default="127.0.0.1", help="address to listen at; the default is this machine alone")
    who.add_argument("--port", type=number_within(0, 65535), default=8000, metavar="N", help="0: a free one")
    needed = f"that requests must have, needed to listen beyond this machine; better in the variable {TOKEN}, since "
    who.add_argument("--token", help=f"{needed}other users see a command's arguments")
    who.add_argument("--allow-host", action="append", default=[], metavar="NAME", help=ALLOW_HOST)
    who.add_argument("--allow-origin", action="append", default=[], metavar="ORIGIN", help=ALLOW_ORIGIN)
    add_options(parser.add_argument_group("limits"), Limits)
    add_options(parser.add_argument_group("speed"), EngineOptions)
    return parser


def _run(args: argparse.Namespace) -> None:
    limits, engine = given(args, Limits), given(args, EngineOptions)
    token = os.environ.get(TOKEN) if args.token is None else args.token
    allowed = access(args.host, token, args.allow_host, args.allow_origin)
    if not all(map(importlib.util.find_spec, ("pydantic", "starlette", "uvicorn"))):
        raise UserError("serve needs pydantic, starlette and uvicorn: pip install pydantic starlette uvicorn")
    from resmlp_mt.serve.server import server_of
    from resmlp_mt.translate.translator import Translator

    with listening(args.host, args.port) as listener:
        translator = Translator(args.folder, **dataclasses.asdict(engine))
        server = server_of(translator, limits, allowed)
        print(f"http://{bracketed(args.host)}:{listener.getsockname()[1]}  (Ctrl-C ends it)", flush=True)
        server.run(sockets=[listener])
