"""Which requests are answered together."""

import asyncio

import pytest

from resmlp_mt.serve.batching import Batcher
from resmlp_mt.serve.protocol import Request
from resmlp_mt.serve.settings import Limits


def batches(requests, limits, pause=False):
    """The texts that are answered together, for requests that are made at once, or the last one a little later."""
    found = []

    def work(batch):
        found.append([request.texts[0] for request in batch])
        return [request.texts[0].upper().encode() for request in batch]

    async def run():
        batcher = Batcher(work, limits)
        running = asyncio.create_task(batcher.run())
        tasks = [asyncio.create_task(batcher.answer(request)) for request in requests[:-1]]
        for _ in range(5 if pause else 0):  # turns of the loop, in which a batcher that does not wait begins
            await asyncio.sleep(0)
        answers = await asyncio.gather(*tasks, batcher.answer(requests[-1]))
        assert answers == [request.texts[0].upper().encode() for request in requests]
        running.cancel()

    asyncio.run(run())
    return found


def of(text, **options):
    return Request(texts=[text], options=options)


def test_requests_of_the_same_options_are_answered_together_the_oldest_first():
    asked = [of("a", beam=1), of("b", beam=2), of("c", beam=1), of("d", beam=2), of("e")]
    assert batches(asked, Limits(longest_wait=0)) == [["a", "c"], ["b", "d"], ["e"]]


def test_no_more_than_a_size_together_but_for_one_that_is_larger():
    asked = [of("a"), of("aa"), of("aaa"), of("aaaaaaaaa"), of("a")]
    assert batches(asked, Limits(max_characters=5, longest_wait=0)) == [["a", "aa"], ["aaa"], ["aaaaaaaaa"], ["a"]]


@pytest.mark.parametrize("longest_wait", [0, 200])
def test_a_request_waits_for_others_while_nothing_is_done(longest_wait):
    found = batches([of("a"), of("b")], Limits(longest_wait=longest_wait), pause=True)
    assert found == ([["a", "b"]] if longest_wait else [["a"], ["b"]])
