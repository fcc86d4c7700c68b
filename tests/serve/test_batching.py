import asyncio
from collections.abc import Sequence

import pytest

from resmlp_mt.serve.batching import Batcher, FullError, Rules


def answers(asked: Sequence[str], rules: Rules, batches: list[list[str]]) -> list[str | BaseException]:
    """What comes back for requests that are made at once; their kind is their first character."""

    def work(batch: Sequence[str]) -> list[str | Exception]:
        batches.append(list(batch))
        if "x" in "".join(batch):
            raise RuntimeError(f"of {len(batch)}")
        return [KeyError(each) if "?" in each else each.upper() for each in batch]

    async def run() -> list[str | BaseException]:
        batcher = Batcher[str, str](work, lambda each: each[0], len, rules)
        running = asyncio.create_task(batcher.run())
        found = await asyncio.gather(*map(batcher.answer, asked), return_exceptions=True)
        running.cancel()
        assert batcher.waiting == 0
        return found

    return asyncio.run(run())


def test_requests_of_a_kind_are_answered_together_the_oldest_first() -> None:
    batches: list[list[str]] = []
    assert answers(["a1", "b1", "a2", "b2", "c1"], Rules(9, 0.0, 99), batches) == ["A1", "B1", "A2", "B2", "C1"]
    assert batches == [["a1", "a2"], ["b1", "b2"], ["c1"]]


def test_no_more_than_a_size_together_but_for_one_that_is_larger() -> None:
    batches: list[list[str]] = []
    answers(["a", "aa", "aaa", "aaaaaaaaa", "a"], Rules(9, 0.0, 3), batches)
    assert batches == [["a", "aa"], ["aaa"], ["aaaaaaaaa"], ["a"]]


def test_more_than_may_wait_are_refused() -> None:
    found = answers(["a1", "a2", "a3"], Rules(2, 0.0, 99), [])
    assert found[:2] == ["A1", "A2"] and isinstance(found[2], FullError)


def test_an_exception_is_that_request_s_alone() -> None:
    found = answers(["a1", "a?", "a2"], Rules(9, 0.0, 99), [])
    assert (found[0], found[2]) == ("A1", "A2") and isinstance(found[1], KeyError)
    batches: list[list[str]] = []
    found = answers(["a1", "ax", "a2"], Rules(9, 0.0, 99), batches)
    assert (found[0], str(found[1]), found[2]) == ("A1", "of 1", "A2")
    assert batches == [["a1", "ax", "a2"], ["a1"], ["ax"], ["a2"]]


@pytest.mark.parametrize("longest_wait", [0.0, 0.2])
def test_a_request_waits_for_others_while_nothing_is_done(longest_wait: float) -> None:
    batches: list[list[str]] = []

    def work(batch: Sequence[str]) -> list[str | Exception]:
        batches.append(list(batch))
        return list(batch)

    async def run() -> None:
        batcher = Batcher[str, str](work, len, len, Rules(9, longest_wait, 99))
        running = asyncio.create_task(batcher.run())
        first = asyncio.create_task(batcher.answer("a"))
        for _ in range(5):  # turns of the loop, in which a batcher that does not wait begins
            await asyncio.sleep(0)
        await asyncio.gather(first, batcher.answer("b"))
        running.cancel()

    asyncio.run(run())
    assert batches == ([["a", "b"]] if longest_wait else [["a"], ["b"]])
