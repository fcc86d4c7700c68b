"""The server over real connections, with a fake translator."""

import contextlib
import re
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest
import torch
from serve.fake_server import POSITIONS, TOKEN, FakeTranslator, serving

from resmlp_mt.common.errors import UserError
from resmlp_mt.serve import settings
from resmlp_mt.serve.libretranslate import LibreTranslate
from resmlp_mt.serve.settings import Access, Limits, access, listening
from resmlp_mt.translate.documents import translate_text
from scripts import in_process


@contextlib.contextmanager
def busy(limits=None):
    """Yield a server that is busy with a request, "a b", and ``queue``, which sends another one that has to wait."""
    translator = FakeTranslator()
    with ThreadPoolExecutor(12) as threads, serving(translator, limits) as (client, server):

        def queue(*texts, **options):
            before = client.ask("/health").values["waiting"]
            answer = threads.submit(client.ask, body={"texts": texts, "options": options})
            client.await_waiting(before + 1)
            return answer

        translator.gate.clear()
        begun = threads.submit(client.ask, body={"texts": ["a b"]})
        assert translator.begun.wait(60)
        yield SimpleNamespace(client=client, server=server, translator=translator, begun=begun, queue=queue)


def best(answer):
    """Return the best translations in the answer to a request."""
    return [result["translations"][0]["text"] for result in answer.result().values["results"]]


def test_a_translation(client):
    options = {"n_best": 2, "beam": 3, "length_penalty": 1, "alignment": True, "too_long": "split"}
    answer = client.ask(body={"texts": ["two dogs", ""], "options": options})
    assert answer.status == 200
    first, second = answer.values["results"]
    assert first["source_tokens"] == ["two", "dogs"]
    weights = {"alignment": [[0, 1, 0], [1, 0, 0]], "word_links": [[1, 0], [0, 1]]}
    scores = {"token_scores": [-4, -3], "words": [["dogs", -4], ["two", -3]]}
    best = {"text": "dogs two", "score": 0.0, "tokens": ["dogs", "two"], **weights, **scores}
    assert first["translations"] == [best, {**best, "score": -0.5}]
    assert [each["text"] for each in second["translations"]] == ["", ""]
    (result,) = client.ask(body={"texts": ["Grüße 🙂"]}).values["results"]
    scores = {"token_scores": [-1, -5], "words": [["🙂", -1], ["Grüße", -5]]}
    plain = {"text": "🙂 Grüße", "score": 0.0, "tokens": ["🙂", "Grüße"], "alignment": None, "word_links": None}
    assert result["translations"] == [{**plain, **scores}]
    assert client.ask(body={"texts": []}).values == {"results": []}
    assert client.ask("/mixing?position=2").values == {"position": 2, "layers": [[[1, 1, 1], [-1, -1, -1]], None]}


def test_the_openapi_document_has_only_operations_and_schemas_that_there_are(client):
    answer = client.ask("/openapi.json")
    for path, operations in answer.values["paths"].items():
        for method in operations:
            assert client.ask(path, b"{}" if method == "post" else None).status in (200, 400)
    schemas = answer.values["components"]["schemas"]
    assert set(re.findall(r'"#/components/schemas/(.*?)"', answer.text)) == schemas.keys()
    assert "a tab" not in answer.text  # a request has terms as an object, not as lines of a file


def test_a_document_keeps_its_lines_and_tags(client):
    def documents(*texts, **more):
        return client.ask(body={"texts": texts, **more}).values["documents"]

    (document,) = documents("two dogs\n\n run fast\n", format="text", options={"n_best": 2})
    assert document["text"] == "dogs two\n\n fast run\n"
    sources = [(each["source"], each["source_tokens"]) for each in document["sentences"]]
    assert sources == [("two dogs", ["two", "dogs"]), ("run fast", ["run", "fast"])]
    texts = [[each["text"] for each in sentence["translations"]] for sentence in document["sentences"]]
    assert texts == [["dogs two", "dogs two"], ["fast run", "fast run"]]
    assert [each["text"] for each in documents("", "\n", format="text")] == ["", "\n"]
    (document,) = documents('<p id="a">two <a href="b">dogs</a></p><pre>run fast</pre>It ran.', format="html")
    assert document["text"] == '<p id="a"><a href="b">dogs</a> two</p><pre>run fast</pre>ran. It'
    assert [each["translations"][0]["alignment"] is None for each in document["sentences"]] == [False, True]


def asking(values=None, **arguments):
    return {"body": {"texts": ["a"], "options": values} if isinstance(values, dict) else values, **arguments}


BAD = [  # request, status, what the one line says
    *((asking(body), 400, "the body: ") for body in (b"", b"{", b"\xff", b"[" * 2300, b"[]", b"null")),
    (asking({"length_penalty": float("nan")}), 400, "options.length_penalty: "),
    (asking(b'{"texts": ["\\ud83d"]}'), 400, "the body: "),
    (asking(b'{"texts": ["a"], "options": {"length_penalty": 1e999}}'), 400, "options.length_penalty: "),
    *(({"body": body}, 400, "texts: ") for body in ({}, {"texts": "a"})),
    ({"body": {"texts": ["a", 1]}}, 400, "texts.1: "),
    ({"body": {"texts": ["a"], "text": 1}}, 400, "text: "),
    ({"body": {"texts": ["a"], "options": []}}, 400, "options: "),
    ({"body": {"texts": ["a"], "format": "pdf"}}, 400, "format: "),
    ({"body": {"texts": ["no number"], "format": "srt"}}, 400, "line 1: is not the number of a subtitle"),
    (asking({"glossary": {"a": 1}}), 400, "options.glossary.a"),
    (asking({"avoid": "a"}), 400, "options.avoid: "),
    *((asking({"beam": beam}), 400, "options.beam: ") for beam in (0, 6, True, None, 3.0, "3", 10**30)),
    *((asking({"length_penalty": each}), 400, "options.length_penalty: ") for each in (1e308, -11, "1", True)),
    (asking({"too_long": "maybe"}), 400, "options.too_long: Input should be 'error', 'split' or 'truncate'"),
    (asking({"n_best": 6}), 400, "options.n_best: "),
    (asking({"n_best": 3, "beam": 2}), 400, "n_best 3: beam 2 finds no more than 2"),
    ({"body": {"texts": ["a", POSITIONS * "a "]}}, 400, "texts[1]: 24 tokens, but the model takes 23"),
    ({"body": {"texts": 201 * [""]}}, 413, "texts: 201 characters (a sentence counts one more); at most 200 are"),
    ({"body": 4000 * b" "}, 413, "the body has more than 3,400 bytes"),
    ({"body": b"{}", "Content_Type": "text/plain"}, 415, "send the body as Content-Type: application/json"),
    *(({"path": path}, 404, "Not Found") for path in ("/nowhere", "/page/../server.py")),
    ({"path": "/mixing?position=24"}, 400, "position 24: give a number from 0 to 23"),
    ({"path": "/mixing?position=-1"}, 400, "position is '-1': give a whole number from 0"),
    ({"path": "/", "Host": "evil.example"}, 403, "Host 'evil.example' is no name of this server"),
    *(({"path": "/", "Host": it}, 403, "Host ") for it in ("127.0.0.1.evil.example:80", "evil.example@127.0.0.1")),
    ({"path": "/health", "Host": ""}, 403, "Host "),
    *(({"body": {}, "Origin": it}, 403, f"pages of '{it}' may not ask") for it in ("http://evil.example", "null")),
    ({"path": "/translate", "method": "OPTIONS", "Origin": "http://evil.example"}, 403, "pages of "),
]


@pytest.mark.parametrize(("arguments", "status", "message"), BAD)
def test_a_bad_request_is_refused_in_one_line(client, arguments, status, message):
    answer = client.ask(**arguments)
    assert (answer.status, answer.values["error"][: len(message)]) == (status, message)
    assert answer.values.keys() == {"error"} and "\n" not in answer.text
    assert "access-control-allow-origin" not in answer.headers


def test_the_names_of_this_machine_are_its_own(client):
    for host in f"127.0.0.1:{client.port}", f"localhost:{client.port}", "LOCALHOST", "[::1]:9000":
        assert client.ask("/health", Host=host, Origin=f"http://{host}").status == 200


def test_a_site_that_is_named_may_ask():
    who = Access(hosts=frozenset(["mine.example"]), origins=("https://other.example",))
    asking = {"Host": "mine.example", "Origin": "https://other.example"}
    with serving(FakeTranslator(), access=who) as (client, _):
        wanted = {"Access_Control_Request_Method": "POST", "Access_Control_Request_Headers": "authorization"}
        for arguments in {"body": {"texts": ["a b"]}}, {"method": "OPTIONS", **wanted}:
            answer = client.ask(**arguments, **asking)
            assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, "https://other.example")
        assert client.ask("/health", Host="127.0.0.1").status == 403


def test_a_token():
    with serving(FakeTranslator(), access=Access(token=TOKEN)) as (client, _):
        for header in "", TOKEN, f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer ", "Bearer \xe9":
            for arguments in {"body": {"texts": ["a b"]}}, {"path": "/mixing?position=0"}:
                answer = client.ask(**arguments, Authorization=header)
                assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert client.ask(body={"texts": ["a b"]}, Authorization=f"bearer {TOKEN}").status == 200
        asked = {"q": "a", "source": "en", "target": "de", "api_key": ""}
        for arguments in {"path": "/mixing?position=0"}, {"body": asked}:
            assert client.ask(**arguments, Authorization=f"Bearer {TOKEN}").status == 200
        for path in "/", "/page.js", "/health", "/openapi.json":  # no token is needed: the page asks for it
            assert client.ask(path).status == 200


def test_the_command_s_access():
    for host in "0.0.0.0", "::":
        with pytest.raises(UserError, match=f"--host {host}: can be reached from other machines: give --token"):
            access(host, None, [], [])
        assert access(host, TOKEN, [], []).token == TOKEN
    assert access("::1", None, ["[::2]", "Mine"], []).hosts >= {"127.0.0.1", "localhost", "[::1]", "[::2]", "mine"}
    for token in "", "short", "with a space in it all", "ümlaute-in-a-long-token", "a-line\nend-in-a-token":
        with pytest.raises(UserError, match="--token: give at least 16"):
            access("127.0.0.1", token, [], [])
    for name in "mine.example:8000", "http://mine.example", "::1":
        with pytest.raises(UserError, match="give a name or address without a port"):
            access("127.0.0.1", None, [name], [])
    with pytest.raises(UserError, match="give a site without a path"):
        access("127.0.0.1", None, [], ["https://mine.example/"])


def test_requests_that_come_while_one_is_translated_are_translated_together():
    with busy() as held:
        answers = [held.queue(f"a {number}", f"b {number}", beam=beam) for number, beam in enumerate([4, 2, 4, 2])]
        held.translator.gate.set()
        found = [best(answer) for answer in answers]
    assert found == [["0 a", "0 b"], ["1 a", "1 b"], ["2 a", "2 b"], ["3 a", "3 b"]]
    assert held.translator.batches == [["a b"], ["a 0", "b 0", "a 2", "b 2"], ["a 1", "b 1", "a 3", "b 3"]]


def test_more_than_may_wait_are_refused_and_no_answer_in_time():
    with busy(Limits(max_waiting=1, max_seconds=1, longest_wait=0)) as held:
        waiting = held.queue("b")
        refused = held.client.ask(body={"texts": ["c"]})
        assert (refused.status, refused.headers["retry-after"]) == (429, "1")
        assert refused.values["error"] == "too many requests are waiting (1): try again later"
        for late in held.begun.result(), waiting.result():
            assert (late.status, late.headers["retry-after"]) == (503, "1")
            assert late.values["error"].startswith("no answer after 1 seconds")
        assert held.client.ask("/health").values["waiting"] == 0
        held.translator.gate.set()
        assert held.client.ask(body={"texts": ["d e"]}).status == 200
    assert held.translator.batches == [["a b"], ["d e"]]


def sent(port, body, length, path="/translate"):
    """Return a connection over which a request, or a part of it, was sent."""
    connection = socket.create_connection(("127.0.0.1", port))
    lines = f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json", f"Content-Length: {length}"
    connection.sendall("\r\n".join([*lines, "", ""]).encode() + body)
    return connection


@pytest.mark.parametrize("path", ["/translate", "/detect"])
def test_a_body_that_does_not_come_is_not_waited_for(path):
    limits = Limits(max_seconds=1)
    with serving(FakeTranslator(), limits) as (client, _), sent(client.port, b"{", 99, path) as connection:
        assert connection.recv(1000).startswith(b"HTTP/1.1 503 ")


def test_a_language_that_is_not_told_in_time_is_not_waited_for(monkeypatch):
    told = threading.Event()
    monkeypatch.setattr(LibreTranslate, "detect", lambda *_: told.wait())
    with serving(FakeTranslator(), Limits(max_seconds=1)) as (client, _):
        try:
            assert client.ask("/detect", {"q": "a"}).status == 503
        finally:
            told.set()


def test_a_client_that_goes_away_costs_the_others_nothing():
    with busy() as held:
        body = b'{"texts": ["of one that goes"]}'
        gone = sent(held.client.port, body, len(body))
        held.client.await_waiting(1)
        stays = held.queue("c d")
        gone.close()
        held.client.await_waiting(1)
        sent(held.client.port, b'{"te', 99).close()
        held.translator.gate.set()
        assert (best(held.begun), best(stays)) == (["b a"], ["d c"])
    assert held.translator.batches == [["a b"], ["c d"]]


def test_a_fault_of_the_server_is_told_in_one_line_and_spoils_no_other_request(caplog):
    with busy() as held:
        broken, other = held.queue("breaks"), held.queue("c d")
        held.translator.gate.set()
        assert (best(held.begun), best(other)) == (["b a"], ["d c"])
        assert broken.result().status == 500
        assert broken.result().values == {"error": "something went wrong in the server: its log tells what"}
    assert "a tensor" in caplog.text


def test_a_shutdown_finishes_what_has_begun():
    with busy() as held:
        waiting = held.queue("c d")
        held.server.should_exit = True
        with pytest.raises(OSError):  # raised as soon as it takes no more requests
            while True:
                held.client.ask("/health")
        held.translator.gate.set()
        assert (best(held.begun), best(waiting)) == (["b a"], ["d c"])


def test_the_page_takes_nothing_from_another_server(client):
    for path, kind in {"/": "text/html", "/page.css": "text/css", "/page.js": "text/javascript"}.items():
        answer = client.ask(path)
        assert (answer.status, answer.headers.get_content_type()) == (200, kind)
        policy = dict(part.split(maxsplit=1) for part in answer.headers["content-security-policy"].split("; "))
        kinds = "default-src", "frame-ancestors", "form-action", "base-uri"
        assert {policy[kind] for kind in kinds} == {"'none'"}
        assert {source for sources in policy.values() for source in sources.split()} == {"'none'", "'self'", "data:"}
        assert "//" not in re.sub(r"^\s*//.*|\S\s+// .*", "", answer.text, flags=re.MULTILINE)
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval", answer.text)


def test_a_model_behind_it(translator):
    texts, term = ["the inner thing", "in the", ""], ("bench", "Sitzbank")
    marked = '<p>A man <a href="https://example.org/?a=1&amp;b=2">is in</a> {hen} &amp; a <b>bench</b> of 25.</p>'
    with serving(translator, glossary=(term,)) as (client, _):
        answer = client.ask(body={"texts": texts, "options": {"n_best": 2, "alignment": True}})
        row = client.ask("/mixing?position=3")
        assert client.ask("/health").values["longest_source"] == 23
        (document,) = client.ask(body={"texts": [marked], "format": "html"}).values["documents"]
    assert document["text"] == translate_text(translator, marked, "html", glossary=(term,))
    assert "Sitzbank" in document["text"] and "{hen}" in document["text"]
    right = translator.translate(texts, n_best=2, alignment=True)
    for result, expected in zip(answer.values["results"], right, strict=True):
        assert result["source_tokens"] == expected[0].source_tokens
        for found, each in zip(result["translations"], expected, strict=True):
            assert (found["text"], found["tokens"]) == (each.text, each.tokens)
            assert found["score"] == pytest.approx(each.score, abs=1e-5)
            assert found["alignment"] == [pytest.approx(weights, abs=1e-4) for weights in each.alignment]
            assert found["token_scores"] == pytest.approx(each.token_scores, abs=1e-3)
            assert found["words"] == [[word, pytest.approx(score, abs=1e-3)] for word, score in each.words]
            assert found["word_links"] == list(map(list, each.word_links))
    rows = torch.stack(translator.mixing_rows(3))
    torch.testing.assert_close(torch.tensor(row.values["layers"]), rows, atol=1e-4, rtol=0)


def test_mistakes_of_the_command(monkeypatch, tmp_path):
    monkeypatch.delenv("RESMLP_MT_TOKEN", raising=False)
    serve = in_process("serve", monkeypatch)
    with listening("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(UserError, match=f"--host 127.0.0.1 --port {port}: Address already in use: choose another"):
            serve(tmp_path, "--port", port)
    for host, message in {"0.0.0.0": "can be reached from other machines", "no..name": "is no name: give an"}.items():
        with pytest.raises(UserError, match=f"--host {host}: {message}"):
            serve(tmp_path, "--host", host)
    with pytest.raises(UserError, match="nowhere: no such folder"):
        serve(tmp_path / "nowhere", "--port", 0)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name != "markdown_it" or None)
    with pytest.raises(UserError, match="serve needs more packages: pip install markdown-it-py pydantic"):
        serve(tmp_path)


def test_a_server_has_what_the_options_say(folder, tmp_path, monkeypatch, capsys):
    made = []
    run = SimpleNamespace(run=lambda sockets: made.append(sockets[0].getsockname()[1]))
    monkeypatch.setattr("resmlp_mt.serve.server.server_of", lambda *given: made.extend(given) or run)
    monkeypatch.setenv(settings.TOKEN, "0123456789abcdef")
    (tmp_path / "terms").write_text("man\tinn\n")
    allowed = "--allow-host", "Mt.example", "--allow-origin", "https://a.example"
    limits = "--max-beam", 5, "--glossary", tmp_path / "terms", "--precision", "bf16"
    in_process("serve", monkeypatch)(folder, "--port", 0, *allowed, *limits)
    right = Access(frozenset([*settings.THIS_MACHINE, "mt.example"]), "0123456789abcdef", ("https://a.example",))
    translator, *others, port = made
    assert others == [Limits(max_beam=5), right, [["man", "inn"]]]
    assert (translator.tokenizer.settings.target_language, translator._how.precision) == ("de", "bf16")
    assert capsys.readouterr().out == f"http://127.0.0.1:{port}  (Ctrl-C ends it)\n"
