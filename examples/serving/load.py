"""Test a running ``resmlp-mt serve`` by several clients: is every answer right, and how long does each take?

    resmlp-mt serve FOLDER --threads 1
    python examples/serving/load.py http://127.0.0.1:8000 test_2016_flickr.en --json load.json
    python examples/serving/load.py http://127.0.0.1:8000 test_2016_flickr.en --libretranslate en de

A request has one to five lines of the text. About one in twenty is invalid and must be refused. First one client sends
all of them, then several clients do, and their answers must be the same. A time is from the request's start to the
answer's last byte. With --pid, the memory of the server is measured after each tenth of several clients' requests.
"""

import argparse
import contextlib
import http.client
import json
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import NamedTuple
from urllib.parse import urlsplit

BAD = [
    b'{"texts": ["no end',
    b'{"text": "of a wrong name"}',
    b'{"texts": ["too wide"], "options": {"beam": 1000000}}',
    json.dumps({"texts": [1400 * "long "]}).encode(),
]

BAD_OF_LIBRETRANSLATE = [
    {"q": "of no language"},
    {"q": "of another", "source": "en", "target": "xx"},
    {"q": "", "source": "en", "target": "de"},
    {"q": 1400 * "long ", "source": "en", "target": "de"},
]


class Request(NamedTuple):
    """The body of a request, and whether the request is valid."""

    body: bytes
    good: bool


class Answer(NamedTuple):
    """The answer to a request, and the seconds that it took; status 0: the connection was lost."""

    status: int
    texts: list[str] | None
    seconds: float

    def right(self, request: Request) -> bool:
        return self.status == 200 if request.good else 400 <= self.status < 500 and self.status != 429


def made(lines: Sequence[str], number: int, languages: Sequence[str] | None) -> list[Request]:
    """Make random requests, the same ones in every run; with languages, for LibreTranslate's interface."""
    random = Random(1)
    found = []
    bad = [json.dumps(each).encode() for each in BAD_OF_LIBRETRANSLATE] if languages else BAD
    for _ in range(number):
        if random.random() < 0.05:
            found.append(Request(random.choice(bad), False))
        else:
            texts = random.sample(lines, random.randint(1, 5))
            asked = {"q": texts, "source": languages[0], "target": languages[1]} if languages else {"texts": texts}
            found.append(Request(json.dumps(asked).encode(), True))
    return found


def ask(connection: http.client.HTTPConnection, request: Request) -> Answer:
    begin = time.perf_counter()
    try:
        connection.request("POST", "/translate", request.body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        body = response.read()
    except (OSError, http.client.HTTPException):  # lost
        connection.close()
        return Answer(0, None, time.perf_counter() - begin)
    seconds = time.perf_counter() - begin
    if response.status != 200:
        return Answer(response.status, None, seconds)
    values = json.loads(body)
    texts = values.get("translatedText") or [result["translations"][0]["text"] for result in values["results"]]
    return Answer(200, texts, seconds)


def memory(pid: int) -> int:
    """Return the resident memory of a process in MB."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.split("VmRSS:")[1].split()[0]) // 1024


def asked_by(
    clients: int, address: str, requests: Sequence[Request], pid: int | None = None
) -> tuple[list[Answer], float, list[int]]:
    """Send all requests; return the answers in order, the seconds until the last one, the server's memory in MB."""
    sizes: list[int] = []
    numbers = iter(range(len(requests)))  # each client takes the next one
    answers: list[Answer] = [Answer(0, None, 0.0)] * len(requests)

    def client(_: int) -> None:
        with contextlib.closing(http.client.HTTPConnection(address, timeout=600)) as connection:
            for number in numbers:
                answers[number] = ask(connection, requests[number])
                if pid is not None and (number + 1) % (len(requests) // 10) == 0:
                    sizes.append(memory(pid))

    begin = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        list(pool.map(client, range(clients)))  # raises what a client raises
    return answers, time.perf_counter() - begin, sizes


def measured(
    clients: int, address: str, requests: Sequence[Request], expected: Sequence[Answer] = (), pid: int | None = None
) -> dict:
    answers, seconds, sizes = asked_by(clients, address, requests, pid)
    good = [answer.seconds for answer, request in zip(answers, requests, strict=True) if request.good]
    percentiles = statistics.quantiles(good, n=100, method="inclusive")
    return {
        "clients": clients,
        "requests": len(requests),
        "bad requests": sum(not request.good for request in requests),
        "wrong statuses": sum(not answer.right(request) for answer, request in zip(answers, requests, strict=True)),
        "other translations than one client's": sum(
            answer.texts != one.texts for answer, one in zip(answers, expected or answers, strict=True)
        ),
        "p50 ms": round(1000 * percentiles[49]),
        "p99 ms": round(1000 * percentiles[98]),
        "requests/s": round(len(requests) / seconds, 1),
        **({"server's MB": sizes} if sizes else {}),
        "answers": answers,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", help="of the server, such as http://127.0.0.1:8000")
    parser.add_argument("text", help="a file, a sentence a line")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--libretranslate", nargs=2, metavar=("SOURCE", "TARGET"), help="by that interface")
    parser.add_argument("--pid", type=int, help="of the server's process on this machine: tell its memory")
    parser.add_argument("--json", help="a new file for the figures")
    args = parser.parse_args()
    try:
        lines = [line.strip() for line in Path(args.text).read_text(encoding="utf-8").split("\n") if line.strip()]
    except (OSError, UnicodeError) as error:
        parser.error(f"{args.text}: not read as text: {error}")
    address = urlsplit(args.address).netloc
    try:
        with contextlib.closing(http.client.HTTPConnection(address, timeout=10)) as connection:
            connection.connect()
    except OSError as error:
        parser.error(f"{args.address}: no server answers: {error}: start resmlp-mt serve")
    if len(lines) < 5 or args.requests < 20 or (args.json and Path(args.json).exists()):
        parser.error("give five lines of text or more, --requests 20 or more, and for --json a new file")
    requests = made(lines, args.requests, args.libretranslate)
    one = measured(1, address, requests)
    several = measured(args.clients, address, requests, one["answers"], args.pid)
    figures = [{name: value for name, value in each.items() if name != "answers"} for each in (one, several)]
    print(json.dumps(figures, indent=1))
    if args.json:
        with open(args.json, "x", encoding="utf-8") as file:
            json.dump(figures, file, indent=1)
    if any(each["wrong statuses"] or each["other translations than one client's"] for each in figures):
        sys.exit("some answers are wrong")


if __name__ == "__main__":
    main()
