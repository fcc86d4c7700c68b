"""Which requests are answered together."""

import asyncio

import pytest

from resmlp_mt.serve.batching import Batcher
from resmlp_mt.serve.protocol import Request
from resmlp_mt.serve.settings import Limits


def batches(texts, limits, pause=False):
    """The texts that are answered together, of requests that are made at once, or the last one a little later."""
    requests = [Request(texts=[text]) for text in texts]
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
        assert answers == [text.upper().encode() for text in texts]
        running.cancel()

    asyncio.run(run())
    return found


def test_no_more_than_a_size_together_but_for_one_that_is_larger():
    found = batches(["a", "aa", "aaa", "aaaaaaaaa", "a"], Limits(max_characters=5, longest_wait=0))
    assert found == [["a", "aa"], ["aaa"], ["aaaaaaaaa"], ["a"]]


@pytest.mark.parametrize("longest_wait", [0, 200])
def test_a_request_waits_for_others_while_nothing_is_done(longest_wait):
    found = batches(["a", "b"], Limits(longest_wait=longest_wait), pause=True)
    assert found == ([["a", "b"]] if longest_wait else [["a"], ["b"]])
