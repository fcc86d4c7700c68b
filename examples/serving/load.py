"""Ask a running ``resmlp-mt serve`` by several clients at once: is every answer right, and how long does each take?

    resmlp-mt serve FOLDER --threads 1
    python examples/serving/load.py http://127.0.0.1:8000 test_2016_flickr.en --json load.json

A request has one to five lines of the text. One in twenty is a bad one, which must be refused. First one client asks
all of them, then several do, and every answer must be the one client's. Its time is from the request's start to its
last byte.
"""

import argparse
import http.client
import json
import queue
import statistics
import sys
import threading
import time
from collections.abc import Sequence
from random import Random
from typing import NamedTuple
from urllib.parse import urlsplit

BAD = [
    b'{"texts": ["no end',
    b'{"text": "of a wrong name"}',
    b'{"texts": ["too wide"], "options": {"beam": 1000000}}',
    json.dumps({"texts": [1400 * "long "]}).encode(),
]


class Request(NamedTuple):
    """A body, and whether it is a good one."""

    body: bytes
    good: bool


class Answer(NamedTuple):
    """What came back, after so many seconds."""

    status: int
    texts: list[str] | None
    seconds: float

    def right(self, request: Request) -> bool:
        return self.status == 200 if request.good else 400 <= self.status < 500 and self.status != 429


def made(lines: Sequence[str], number: int) -> list[Request]:
    """Requests, always the same ones."""
    random = Random(1)
    found = []
    for _ in range(number):
        if random.random() < 0.05:
            found.append(Request(random.choice(BAD), False))
        else:
            texts = random.sample(lines, random.randint(1, 5))
            found.append(Request(json.dumps({"texts": texts}).encode(), True))
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
    texts = [result["translations"][0]["text"] for result in json.loads(body)["results"]]
    return Answer(200, texts, seconds)


def asked_by(clients: int, address: str, requests: Sequence[Request]) -> tuple[list[Answer], float]:
    """The answers in the order of the requests, and the seconds until all were there."""
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(len(requests)):
        waiting.put(number)
    answers: list[Answer] = [Answer(0, None, 0.0)] * len(requests)

    def client() -> None:
        connection = http.client.HTTPConnection(address, timeout=600)
        while True:
            try:
                number = waiting.get_nowait()
            except queue.Empty:
                return connection.close()
            answers[number] = ask(connection, requests[number])

    threads = [threading.Thread(target=client) for _ in range(clients)]
    begin = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers, time.perf_counter() - begin


def measured(clients: int, address: str, requests: Sequence[Request], expected: Sequence[Answer] = ()) -> dict:
    answers, seconds = asked_by(clients, address, requests)
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
        "answers": answers,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("address", help="of the server, such as http://127.0.0.1:8000")
    parser.add_argument("text", help="a file, a sentence a line")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--json", help="a new file for the figures")
    args = parser.parse_args()
    with open(args.text, encoding="utf-8", newline="\n") as file:
        lines = [line.strip() for line in file if line.strip()]
    address, requests = urlsplit(args.address).netloc, made(lines, args.requests)
    one = measured(1, address, requests)
    several = measured(args.clients, address, requests, one["answers"])
    figures = [{name: value for name, value in each.items() if name != "answers"} for each in (one, several)]
    print(json.dumps(figures, indent=1))
    if args.json:
        with open(args.json, "x", encoding="utf-8") as file:
            json.dump(figures, file, indent=1)
    if any(each["wrong statuses"] or each["other translations than one client's"] for each in figures):
        sys.exit("some answers are wrong")


if __name__ == "__main__":
    main()
