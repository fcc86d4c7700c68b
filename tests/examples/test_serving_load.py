"""examples/serving/load.py at a server that is right, and at one that is not."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from serve.fake_server import FakeTranslator, serving

from resmlp_mt.translate.translator import Translation
from scripts import loaded


class Fickle(FakeTranslator):
    """Translates a text in another way each time."""

    def translation(self, words: list[str], rank: int, alignment: bool) -> Translation:
        return super().translation([*words, str(len(self.batches))], rank, alignment)


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[FakeTranslator], list[dict]]:
    """Run the script; its figures."""
    script = loaded("serving/load.py")
    (tmp_path / "text").write_text("".join(f"sentence {number} of it\n" for number in range(50)))

    def run(translator: FakeTranslator) -> list[dict]:
        out = tmp_path / "figures.json"
        with serving(translator) as (client, _):
            address = f"http://127.0.0.1:{client.port}"
            options = [address, str(tmp_path / "text"), "--requests", "100", "--clients", "3", "--json", str(out)]
            monkeypatch.setattr(sys, "argv", ["load.py", *options])
            script.main()
        return json.loads(out.read_text())

    return run


def test_a_right_server(load) -> None:
    one, three = load(FakeTranslator())
    assert (one["clients"], three["clients"]) == (1, 3)
    for each in one, three:
        assert (each["requests"], each["wrong statuses"], each["other translations than one client's"]) == (100, 0, 0)
        assert 0 < each["bad requests"] < 20 and 0 <= each["p50 ms"] <= each["p99 ms"]


def test_a_server_with_other_translations(load) -> None:
    with pytest.raises(SystemExit, match="some answers are wrong"):
        load(Fickle())
