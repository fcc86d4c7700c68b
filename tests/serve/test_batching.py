"""Which requests are answered together."""

import asyncio

import pytest

from resmlp_mt.serve.batching import Batcher, Job
from resmlp_mt.serve.settings import Limits
from resmlp_mt.translate.options import Options


def batches(texts, limits, pause=False):
    """Return the batches of texts; the requests are made together, or, with ``pause``, the last one a little later."""
    jobs = [Job([text], [False], Options(), lambda found: b"") for text in texts]
    found = []

    def work(batch):
        found.append([job.sentences[0] for job in batch])
        return [job.sentences[0].upper().encode() for job in batch]

    async def run():
        batcher = Batcher(work, limits)
        running = asyncio.create_task(batcher.run())
        tasks = [asyncio.create_task(batcher.answer(job)) for job in jobs[:-1]]
        for _ in range(5 if pause else 0):  # turns of the loop, in which a batcher that does not wait begins to work
            await asyncio.sleep(0)
        assert await asyncio.gather(*tasks, batcher.answer(jobs[-1])) == [text.upper().encode() for text in texts]
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
