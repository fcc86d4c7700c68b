"""fairseq's own commands, each in a process forked from one that has imported fairseq; a made-up language pair."""

import itertools
import os
import random
import re
import shutil
import signal
import sys
from dataclasses import dataclass
from pathlib import Path

from forked import become, fork

USER_DIR = str(Path(__file__).resolve().parents[1] / "resmlp_mt")
WORDS = [a + b + c for a, b, c in itertools.product(["ba", "mi", "so"], ["lu", "ne"], ["ta", "ko"])]
TRAIN, VALID = 120, 16


def sentence_pairs(number, seed):
    """Yield pairs that a tiny model can learn: German is words and a full stop, English is reversed and in capitals."""
    generator = random.Random(seed)
    for _ in range(number):
        words = [generator.choice(WORDS) for _ in range(generator.randint(2, 5))]
        yield " ".join(words) + ".", " ".join(word.upper() for word in reversed(words)) + "."


@dataclass
class Finished:
    """A finished command: its exit status (negative: killed by that signal) and all that it printed."""

    status: int
    output: str

    @property
    def last_line(self):
        return self.output.rstrip("\n").split("\n")[-1]

    def succeeded(self):
        """Check that the command ended well; return it."""
        assert self.status == 0, self.output
        return self

    def check_refused(self, message):
        """Check that the command ended with one clear line."""
        assert self.status in (1, 2), self.output
        assert "Traceback" not in self.output
        assert re.search(message, self.last_line), self.last_line

    def lines(self, kind):
        """Return fairseq's result lines of one kind: ``{12: [[fields of an H-12 line], ...], ...}``, best first."""
        found = {}
        for line in self.output.split("\n"):
            name, *fields = line.split("\t")
            if name.startswith(f"{kind}-") and name[len(kind) + 1 :].isdigit():
                found.setdefault(int(name[len(kind) + 1 :]), []).append(fields)
        return found


def run(log, command, *arguments, cwd=None, stdin=None, kill=None, reader_gone=False):
    """Run ``fairseq-COMMAND ARGUMENTS``; ``kill``: see ``_arm``; ``reader_gone``: nobody reads stdout."""
    arguments = [str(argument) for argument in arguments]
    process = fork(become_command, command, arguments, str(log), cwd, stdin, kill, reader_gone)
    try:
        process.join()
    finally:  # also if the test is interrupted
        process.kill()
    return Finished(process.exitcode, Path(log).read_text(encoding="utf-8"))


def training(data_bin, save_dir):
    """Return the options of fairseq-train that the tests have in common."""
    return [
        data_bin, "--save-dir", save_dir, "--user-dir", USER_DIR, "--arch", "resmlp_transformer_tiny", "--cpu",
        "--optimizer", "adagrad", "--lr", 0.02, "--clip-norm", 1, "--dropout", 0.1,
        "--batch-size", 24, "--required-batch-size-multiple", 1, "--num-workers", 0, "--log-format", "simple",
    ]  # fmt: skip


def prepare(folder, source, target, **sets):
    """Write running text of the made-up language, and its words as ``data-bin``.

    Each of ``sets``, ``train``, ``valid`` and ``test``, is (name of the running text, number of sentences, seed).
    """
    for split, (name, number, seed) in sets.items():
        sides = zip(*sentence_pairs(number, seed), strict=True)
        for language, lines in zip((source, target), sides, strict=True):
            (folder / f"{name}.{language}").write_text("".join(f"{line}\n" for line in lines))
            words = (line.removesuffix(".") + " .\n" for line in lines)
            (folder / f"{split}.words.{language}").write_text("".join(words))
    run(
        folder / "preprocess.log", "preprocess", "-s", source, "-t", target, "--joined-dictionary", "--workers", 1,
        "--destdir", folder / "data-bin",
        *(word for split in sets for word in (f"--{split}pref", folder / f"{split}.words")),
    ).succeeded()  # fmt: skip


def become_command(command, arguments, log, cwd=None, stdin=None, kill=None, reader_gone=False):
    """Run a command in this process, as ``run`` does in another one."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    if reader_gone:
        reading, writing = os.pipe()
        os.close(reading)
        os.dup2(writing, 1)
    if cwd is not None:
        os.chdir(cwd)
    if stdin is not None:
        sys.stdin = open(stdin, encoding="utf-8")  # noqa: SIM115
    if kill is not None:
        _arm(*kill)
    become(f"fairseq_cli.{command}", *arguments)


def _arm(moment, number, by=signal.SIGKILL):
    """Let this process die after update ``number``, or half-way through copy ``number`` to ``checkpoint_last.pt``."""
    from fairseq.trainer import Trainer

    train_step, copies = Trainer.train_step, iter(range(1, 1000))

    def dying_step(self, *arguments, **options):
        if self.get_num_updates() == number:
            os.kill(os.getpid(), by)
        return train_step(self, *arguments, **options)

    def dying_copy(source, target, copyfile=shutil.copyfile):
        if "checkpoint_last" not in str(target) or next(copies) < number:
            return copyfile(source, target)
        with open(source, "rb") as whole, open(target, "wb") as part:
            part.write(whole.read(os.path.getsize(source) // 2))
        os.kill(os.getpid(), signal.SIGKILL)

    if moment == "update":
        Trainer.train_step = dying_step
    else:
        shutil.copyfile = dying_copy
