"""Requests that arrive together are answered together, by one thread."""

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice

from starlette.exceptions import HTTPException

from resmlp_mt.serve.settings import Limits
from resmlp_mt.translate.marks import Parts
from resmlp_mt.translate.options import Options
from resmlp_mt.translate.translator import Translation


@dataclass(frozen=True, eq=False)
class Job:
    """The work of a request of either interface: sentences, and how their translations become its answer."""

    sentences: list[str]
    tagged: list[bool]  # which of them have tags, and need alignments to put these back
    options: Options
    answer: Callable[[list[list[Translation]]], bytes]  # of the translations of each sentence, in order
    name: str = "sentences"  # what messages call the sentences

    @property
    def characters(self) -> int:
        return sum(len(sentence) + 1 for sentence in self.sentences)


def job_of(
    documents: Sequence[Parts], options: Options, answer: Callable[[list[list[list[Translation]]]], bytes]
) -> Job:
    """Return a job for whole documents; ``answer`` gets the translations of each document's sentences."""

    def whole(found: list[list[Translation]]) -> bytes:
        left = iter(found)
        return answer([list(islice(left, len(document.sentences))) for document in documents])

    sentences = [sentence for document in documents for sentence in document.sentences]
    tagged = [each for document in documents for each in document.tagged]
    return Job(sentences, tagged, options, whole)


@dataclass(eq=False)
class _Entry:
    job: Job
    answer: "asyncio.Future[bytes]"
    since: float


class Batcher:
    """Answers jobs in batches of the same options: the oldest job first, together with others that fit.

    Args:
        work: called in a thread of its own, one call at a time; returns an answer for each job. If it raises, each
            job is given to it alone, so that one cannot spoil the others
        limits: a single job that is larger than ``max_characters`` is answered alone
    """

    def __init__(self, work: Callable[[Sequence[Job]], Sequence[bytes]], limits: Limits):
        self._work, self._limits = work, limits
        self._waiting: list[_Entry] = []
        self._arrived = asyncio.Event()

    @property
    def waiting(self) -> int:
        """The number of jobs that are not being worked on yet."""
        return len(self._waiting)

    async def answer(self, job: Job) -> bytes:
        """Wait for a job's answer, unless too many wait (status 429). A cancelled job in the queue is left out."""
        if len(self._waiting) >= self._limits.max_waiting:
            problem = f"too many requests are waiting ({self._limits.max_waiting}): try again later"
            raise HTTPException(429, problem, {"Retry-After": "1"})
        loop = asyncio.get_running_loop()
        entry = _Entry(job, loop.create_future(), loop.time())
        self._waiting.append(entry)
        self._arrived.set()
        try:
            return await entry.answer
        finally:
            if entry in self._waiting:
                self._waiting.remove(entry)

    async def run(self) -> None:
        """Answer jobs until cancelled; then the thread finishes what it has begun."""
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as thread:
            while True:
                while not self._waiting:
                    self._arrived.clear()
                    await self._arrived.wait()
                await asyncio.sleep(self._waiting[0].since + self._limits.longest_wait / 1000 - loop.time())
                batch = self._next()
                answers = await loop.run_in_executor(thread, self._answers, [entry.job for entry in batch])
                for entry, answer in zip(batch, answers, strict=True):
                    if entry.answer.done():  # nobody waits for it any more
                        continue
                    if isinstance(answer, Exception):
                        entry.answer.set_exception(answer)
                    else:
                        entry.answer.set_result(answer)

    def _next(self) -> list[_Entry]:
        """Remove the oldest job and those that can be answered with it, and return them; [] if none waits."""
        batch: list[_Entry] = []
        size = 0
        for entry in self._waiting:
            if batch and entry.job.options != batch[0].job.options:
                continue
            size += entry.job.characters
            if batch and size > self._limits.max_characters:
                break
            batch.append(entry)
        self._waiting = [entry for entry in self._waiting if entry not in batch]
        return batch

    def _answers(self, batch: list[Job]) -> Sequence[bytes | Exception]:
        try:
            return self._work(batch) if batch else []
        except Exception as error:
            if len(batch) == 1:
                return [error]
            return [answer for job in batch for answer in self._answers([job])]
