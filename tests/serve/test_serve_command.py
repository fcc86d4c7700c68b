"""What the options of ``resmlp-mt serve`` make of a server that starts; tests/serve/test_server.py has its mistakes."""

from types import SimpleNamespace

from resmlp_mt.serve import server
from resmlp_mt.serve.settings import THIS_MACHINE, TOKEN, Access, Limits
from scripts import in_process


def test_a_server_has_what_the_options_say(folder, tmp_path, monkeypatch, capsys):
    made = []
    run = SimpleNamespace(run=lambda sockets: made.append(sockets[0].getsockname()[1]))
    monkeypatch.setattr(server, "server_of", lambda *given: made.extend(given) or run)
    monkeypatch.setenv(TOKEN, "0123456789abcdef")
    (tmp_path / "terms").write_text("man\tinn\n")
    allowed = "--allow-host", "Mt.example", "--allow-origin", "https://a.example"
    limits = "--max-beam", 5, "--glossary", tmp_path / "terms", "--precision", "bf16"
    in_process("serve", monkeypatch)(folder, "--port", 0, *allowed, *limits)
    access = Access(frozenset([*THIS_MACHINE, "mt.example"]), "0123456789abcdef", ("https://a.example",))
    translator, *others, port = made
    assert others == [Limits(max_beam=5), access, [["man", "inn"]]]
    assert (translator.tokenizer.settings.target_language, translator._how.precision) == ("de", "bf16")
    assert capsys.readouterr().out == f"http://127.0.0.1:{port}  (Ctrl-C ends it)\n"
