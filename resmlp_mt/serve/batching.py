"""Requests that arrive together are answered together, by one thread."""

import asyncio
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

Asked = TypeVar("Asked")
Answer = TypeVar("Answer")


class FullError(Exception):
    """So many requests are waiting already that one more is refused."""


@dataclass(frozen=True)
class Rules:
    """What is answered together, and when.

    Attributes:
        waiting: requests that may wait, beside those that are being answered
        longest_wait: seconds that a request waits for others to come while the thread has nothing to do
        size: of requests that are answered together, in all; one larger request is answered alone
    """

    waiting: int
    longest_wait: float
    size: int


@dataclass(eq=False)
class _Entry(Generic[Asked, Answer]):
    asked: Asked
    answer: "asyncio.Future[Answer]"
    since: float


class Batcher(Generic[Asked, Answer]):
    """Answers requests of an event loop in batches: the oldest first, with all that can be answered with it.

    Args:
        work: called in a thread of its own, one call at a time, with requests of one kind; returns for each an answer
            or an exception. If it raises itself, each request is given to it alone, so that one cannot spoil others'
        kind: requests of the same kind can be answered together
        size: of a request
        rules: when
    """

    def __init__(
        self,
        work: Callable[[Sequence[Asked]], Sequence[Answer | Exception]],
        kind: Callable[[Asked], Hashable],
        size: Callable[[Asked], int],
        rules: Rules,
    ):
        self._work, self._kind, self._size, self._rules = work, kind, size, rules
        self._waiting: list[_Entry[Asked, Answer]] = []
        self._arrived = asyncio.Event()

    @property
    def waiting(self) -> int:
        """Requests that nobody works on yet."""
        return len(self._waiting)

    async def answer(self, asked: Asked) -> Answer:
        """Wait for the answer to a request; cancelled before its turn, it leaves no work.

        Raises:
            FullError: too many are waiting
            Exception: what ``work`` has for it
        """
        if len(self._waiting) >= self._rules.waiting:
            raise FullError
        loop = asyncio.get_running_loop()
        entry = _Entry[Asked, Answer](asked, loop.create_future(), loop.time())
        self._waiting.append(entry)
        self._arrived.set()
        try:
            return await entry.answer
        finally:
            if entry in self._waiting:
                self._waiting.remove(entry)

    async def run(self) -> None:
        """Answer until cancelled; then the thread ends what it has begun."""
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as thread:
            while True:
                while not self._waiting:
                    self._arrived.clear()
                    await self._arrived.wait()
                await asyncio.sleep(self._waiting[0].since + self._rules.longest_wait - loop.time())
                batch = self._next()
                answers = await loop.run_in_executor(thread, self._answers, [entry.asked for entry in batch])
                for entry, answer in zip(batch, answers, strict=True):
                    if entry.answer.done():  # nobody waits for it any more
                        continue
                    if isinstance(answer, Exception):
                        entry.answer.set_exception(answer)
                    else:
                        entry.answer.set_result(answer)

    def _next(self) -> list[_Entry[Asked, Answer]]:
        """Take the oldest request and those that can be answered with it, if any is left."""
        batch: list[_Entry[Asked, Answer]] = []
        size = 0
        for entry in self._waiting:
            if batch and self._kind(entry.asked) != self._kind(batch[0].asked):
                continue
            size += self._size(entry.asked)
            if batch and size > self._rules.size:
                break
            batch.append(entry)
        self._waiting = [entry for entry in self._waiting if entry not in batch]
        return batch

    def _answers(self, batch: Sequence[Asked]) -> Sequence[Answer | Exception]:
        if not batch:
            return []
        try:
            return self._work(batch)
        except Exception as error:
            if len(batch) == 1:
                return [error]
            return [answer for asked in batch for answer in self._answers([asked])]
