"""A server whose translator only reverses the words of a text, and a small client."""

import contextlib
import http.client
import json
import threading
from types import SimpleNamespace

import torch

from resmlp_mt.common.errors import UserError
from resmlp_mt.serve.server import server_of
from resmlp_mt.serve.settings import Access, Limits, listening
from resmlp_mt.translate.translator import Translation

POSITIONS = 24
HEADS = 2
TOKEN = "sixteen-letters!"


class FakeTranslator:
    """A stand-in for ``Translator``."""

    def __init__(self):
        self.tokenizer = SimpleNamespace(settings=SimpleNamespace(source_language="en", target_language="de"))
        self.cfg = SimpleNamespace(encoder=SimpleNamespace(positions=POSITIONS))
        self.batches = []  # the texts of each call
        self.gate = threading.Event()  # a call waits until this is set
        self.gate.set()
        self.begun = threading.Event()  # set when it first translates

    def encode(self, text, too_long="error", place="", tagged=False):
        words = text.split()
        if len(words) >= POSITIONS and too_long == "error":
            raise UserError(f"{place}{len(words)} tokens, but the model takes {POSITIONS - 1}")
        return words, tagged

    def translate_encoded(self, texts, options):
        self.options = options
        self.batches.append([" ".join(words) for words, _ in texts])
        self.begun.set()
        assert self.gate.wait(60)
        if "breaks" in self.batches[-1]:
            raise RuntimeError("a tensor\nis broken")
        return [[self.translation(*each, rank, options.alignment) for rank in range(options.n_best)] for each in texts]

    def translation(self, words, tagged, rank, alignment):
        turned, last = words[::-1], len(words) - 1
        scores = [-float(len(word)) for word in turned]
        weights = torch.eye(len(words), len(words) + 1).flip(0).tolist() if alignment or tagged else None
        links = [(last - at, at) for at in range(len(words))] if alignment else None
        known = {"token_scores": scores, "words": list(zip(turned, scores, strict=True)), "word_links": links}
        return Translation(" ".join(turned), -0.5 * rank, turned, words, weights, **known)

    def mixing_rows(self, position):
        if position >= POSITIONS:
            raise UserError(f"position {position}: give a number from 0 to {POSITIONS - 1}")
        return [torch.tensor([1.0, -1.0])[:HEADS, None] * torch.ones(position + 1), None]


class Client:
    """A client of a server on this machine."""

    def __init__(self, port):
        self.port = port

    def ask(self, path="/translate", body=None, method=None, **headers):
        """Return the response. ``body``: bytes, or values for JSON; ``headers``: names with _ instead of -."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if body is not None:
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        with contextlib.closing(connection):
            connection.request(method or ("GET" if body is None else "POST"), path, body, sent)
            response = connection.getresponse()
            text = response.read().decode()
        values = json.loads(text) if response.headers.get_content_type() == "application/json" else None
        return SimpleNamespace(status=response.status, headers=response.headers, text=text, values=values)

    def await_waiting(self, number):
        """Wait until ``number`` requests wait for their turn."""
        while self.ask("/health").values["waiting"] != number:
            pass


@contextlib.contextmanager
def serving(translator, limits=None, access=None, glossary=()):
    """Yield a client of a server that runs in a thread, and the server."""
    with listening("127.0.0.1", 0) as listener:
        server = server_of(translator, limits or Limits(longest_wait=0), access or Access(), glossary)
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
