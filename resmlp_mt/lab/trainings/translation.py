"""Trainings whose models translate: fairseq-generate's output in the training's folder, and its running text."""

import os
import shlex
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import IO

from resmlp_mt.common.files import PathLike
from resmlp_mt.data import raw_text
from resmlp_mt.lab.trainings import queue, settings
from resmlp_mt.score.detokenize import Moses
from resmlp_mt.score.generate_output import ordered_texts, read_generate_output
from resmlp_mt.score.scoring import words_of


@dataclass(frozen=True)
class TranslatingFolder(queue.TrainingFolder):
    """The folder of a training whose model translates ``subset``; the translation is SUBSET.txt."""

    recipe: settings.SharedSettings

    @property
    def subset(self) -> str:
        return "valid"

    @property
    def translation(self) -> Path:
        return self.folder / f"{self.subset}.txt"

    @property
    def search_options(self) -> list[str]:
        """The options of fairseq-generate."""
        return [*shlex.split(self.recipe.search), "--gen-subset", self.subset]

    @property
    def is_translated(self) -> bool:
        """Whether the translation exists and was made with these options."""
        made_with = self.state.values.get("search", {}).get(self.subset)
        return made_with == self.search_options and self.translation.is_file()

    def translate(self, checkpoint: Path, held: IO[str], stop: Event) -> None:
        """Translate with a checkpoint; fairseq-generate keeps the folder's lock ``held``."""
        part, log = self.translation.with_suffix(".txt.part"), self.folder / "generate.log"
        for path in part, log:  # left by a run that was killed
            path.unlink(missing_ok=True)
        source, target = self.recipe.langs
        command: list[PathLike] = [
            *("fairseq_cli.generate", self.data, "--user-dir", queue.USER_DIR),
            *("--path", checkpoint, "--source-lang", source, "--target-lang", target),
            *("--required-batch-size-multiple", "1", *self.search_options),
        ]
        queue.run(command, part, log, held, stop)
        os.replace(part, self.translation)
        state = self.state
        state.values["search"] = state.values.get("search", {}) | {self.subset: self.search_options}
        state.save()

    def translated_text(self, references: list[str]) -> list[str]:
        """Return the translations as running text, in the subset's order; ``references`` are those of the subset."""
        lines, target = ordered_texts(read_generate_output([self.translation]), len(references)), self.recipe.langs[1]
        if (self.data / raw_text.NAME).exists():
            return [*map(raw_text.RawText.of(self.data).running_text(target), lines)]
        words = words_of(target, lines, "subword_nmt", True, references, str(self.translation))
        return [*map(Moses(target).text, words)]
