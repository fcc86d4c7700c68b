"""Translations by a training's model: fairseq-generate's output in the training's folder, and its running text."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import IO

from resmlp_mt.common.files import PathLike
from resmlp_mt.data import raw_text
from resmlp_mt.lab.trainings import queue
from resmlp_mt.score.detokenize import Moses
from resmlp_mt.score.generate_output import ordered_texts, read_generate_output
from resmlp_mt.score.scoring import words_of


@dataclass(frozen=True)
class Translation:
    """The translation of a subset by the model of a training, SUBSET.txt in its folder."""

    training: queue.TrainingFolder
    langs: tuple[str, str]
    subset: str
    search: Sequence[str]  # options of fairseq-generate

    @property
    def path(self) -> Path:
        return self.training.folder / f"{self.subset}.txt"

    @property
    def options(self) -> list[str]:
        return [*self.search, "--gen-subset", self.subset]

    @property
    def is_there(self) -> bool:
        """Whether the translation exists and was made with these options."""
        return self.training.state.values.get("search", {}).get(self.subset) == self.options and self.path.is_file()

    def make(self, checkpoint: Path, held: IO[str], stop: Event) -> None:
        """Translate with a checkpoint; fairseq-generate keeps the folder's lock ``held``."""
        part, log = self.path.with_suffix(".txt.part"), self.training.folder / "generate.log"
        for path in part, log:  # left by a run that was killed
            path.unlink(missing_ok=True)
        source, target = self.langs
        command: list[PathLike] = [
            *("fairseq_cli.generate", self.training.data, "--user-dir", queue.USER_DIR),
            *("--path", checkpoint, "--source-lang", source, "--target-lang", target),
            *("--required-batch-size-multiple", "1", *self.options),
        ]
        queue.run(command, part, log, held, stop)
        os.replace(part, self.path)
        state = self.training.state
        state.values["search"] = state.values.get("search", {}) | {self.subset: self.options}
        state.save()

    def running_text(self, references: list[str]) -> list[str]:
        """Return the translations as running text, in the subset's order; ``references`` are those of the subset."""
        lines, data = ordered_texts(read_generate_output([self.path]), len(references)), self.training.data
        if (data / raw_text.NAME).exists():
            return [*map(raw_text.RawText.of(data).running_text(self.langs[1]), lines)]
        words = words_of(self.langs[1], lines, "subword_nmt", True, references, str(self.path))
        return [*map(Moses(self.langs[1]).text, words)]
