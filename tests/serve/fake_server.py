"""A server whose translator only turns the words of a text around, and a client of a few lines."""

import contextlib
import http.client
import json
import threading
from collections.abc import Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import torch

from resmlp_mt.common.errors import UserError
from resmlp_mt.serve.server import server_of
from resmlp_mt.serve.settings import Access, Limits, listening
from resmlp_mt.translate.options import Options
from resmlp_mt.translate.translator import Translation

POSITIONS = 24
HEADS = 2


class FakeTranslator:
    """Stands for a ``Translator``."""

    def __init__(self) -> None:
        self.tokenizer = SimpleNamespace(settings=SimpleNamespace(source_language="en", target_language="de"))
        self.model = SimpleNamespace(encoder=SimpleNamespace(limit=POSITIONS))
        self.batches: list[list[str]] = []  # what it was asked to translate, call by call
        self.gate = threading.Event()  # which it waits for
        self.gate.set()
        self.begun = threading.Event()  # set when it first translates

    def encode(self, text: str, too_long: str = "error") -> list[str]:
        words = text.split()
        if len(words) >= POSITIONS and too_long == "error":
            raise UserError(f"{len(words)} tokens, but the model takes {POSITIONS - 1}")
        return words

    def translate_encoded(self, texts: Sequence[list[str]], options: Options) -> list[list[Translation]]:
        self.batches.append([" ".join(words) for words in texts])
        self.begun.set()
        assert self.gate.wait(60)
        if ["breaks"] in texts:
            raise RuntimeError("a tensor\nis broken")
        return [[self.translation(words, rank, options.alignment) for rank in range(options.n_best)] for words in texts]

    def translation(self, words: list[str], rank: int, alignment: bool) -> Translation:
        weights = torch.eye(len(words), len(words) + 1).flip(0).tolist() if alignment else None
        return Translation(" ".join(words[::-1]), -0.5 * rank, words[::-1], words, weights)

    def mixing_rows(self, positions: int) -> list[torch.Tensor | None]:
        if positions > POSITIONS:
            raise UserError(f"positions {positions}: give a number from 0 to {POSITIONS}")
        signs = torch.tensor([1.0, -1.0])[:HEADS, None, None]
        return [(signs * torch.ones(positions, positions)).tril(), None]


class Client:
    """Asks a server of this machine."""

    def __init__(self, port: int):
        self.port = port

    def ask(
        self, path: str = "/translate", body: Any = None, method: str | None = None, **headers: str
    ) -> SimpleNamespace:
        """What comes back, for a ``body`` of bytes or values for JSON, and ``headers`` with _ instead of -."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        with contextlib.closing(connection):
            connection.request(method or ("GET" if body is None else "POST"), path, body, sent)
            response = connection.getresponse()
            text = response.read().decode()
        values = json.loads(text) if response.headers.get_content_type() == "application/json" else None
        return SimpleNamespace(status=response.status, headers=response.headers, text=text, values=values)

    def translations(self, *texts: str, **options: Any) -> list[str]:
        """The best translations."""
        answer = self.ask(body={"texts": texts, "options": options})
        assert answer.status == 200, answer.text
        return [result["translations"][0]["text"] for result in answer.values["results"]]

    def await_waiting(self, number: int) -> None:
        """Until so many requests wait for their turn."""
        while self.ask("/health").values["waiting"] != number:
            pass


@contextlib.contextmanager
def serving(
    translator: Any, limits: Limits | None = None, access: Access | None = None
) -> Iterator[tuple[Client, Any]]:
    """A client of a server that runs in a thread, and the server."""
    with listening("127.0.0.1", 0) as listener:
        server = server_of(translator, limits or Limits(longest_wait=0), access or Access())
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield Client(listener.getsockname()[1]), server
        finally:
            if isinstance(translator, FakeTranslator):
                translator.gate.set()
            server.should_exit = True
            thread.join(60)
            assert not thread.is_alive()
