"""Made-up test sets and the output of fairseq-generate for them, without a model."""

import random
from collections.abc import Iterable
from pathlib import Path

from sacremoses import MosesTokenizer

REFERENCE = [
    'Der Ost-West-Konflikt, so Müller, sei "vorbei".',
    "Zwei Männer stehen vor einem Haus & warten auf den Bus.",
    "Um 10.30 Uhr kostet es 3,50 Euro (ohne Mehrwertsteuer).",
    "Das U-Boot-Museum hat [heute] geschlossen, oder?",
    "Geht's dir gut? Ja, mir geht es sehr gut!",
    "Dr. Schmidt hat am 3. Mai die CO2-Bilanz z.B. für Berlin vorgelegt.",
    "Ein kleines Mädchen klettert in ein Spielhaus aus Holz.",
    "Fünf Leute in Winterjacken stehen mit Helmen im Schnee.",
]


def write(path: Path, text: str | Iterable[str]) -> Path:
    """Write a text, or lines."""
    path.write_bytes((text if isinstance(text, str) else "".join(f"{line}\n" for line in text)).encode())
    return path


def worse(lines: list[str], seed: int = 0, rate: float = 0.15) -> list[str]:
    """Return the lines, with some words left out."""
    rng = random.Random(seed)
    return [" ".join(w for i, w in enumerate(line.split()) if i == 0 or rng.random() > rate) for line in lines]


def moses_tokens(lines: list[str], **options: bool) -> list[str]:
    tokenizer = MosesTokenizer("de")
    return [tokenizer.tokenize(line, return_str=True, **options) for line in lines]


def subwords(line: str) -> str:
    """Return the line with every longer word cut, as subword-nmt might cut it."""
    return " ".join(f"{w[:2]}@@ {w[2:4]}@@ {w[4:]}" if len(w) > 4 else w for w in line.split())


def sentence_lines(number: int, hypotheses: list[str]) -> list[str]:
    lines = [f"S-{number}\tsome source", f"T-{number}\tsome <<unk>> target"]
    for rank, text in enumerate(hypotheses):
        score = f"-{0.25 + rank}"
        lines += [f"H-{number}\t{score}\t{text}", f"D-{number}\t{score}\t{text}", f"P-{number}\t-0.1000 -0.4000"]
    return lines


HEADER = "2025-01-01 00:00:00 | INFO | fairseq_cli.generate | {'_name': None}"
TRANSLATED = "2025-01-01 00:00:09 | INFO | fairseq_cli.generate | Translated 8 sentences (99 tokens) in 1.0s"
CLOSING = "Generate test with beam=4: BLEU4 = 12.34, 50.0/20.0/10.0/5.0 (BP=1.000, ratio=1.000, syslen=99, reflen=99)"


def generate_output(hypotheses: dict[int, str]) -> str:
    """Return what fairseq-generate prints, sentences in order of length."""
    lines = [HEADER]
    for number, text in sorted(hypotheses.items(), key=lambda item: (len(item[1]), item[0])):
        lines += sentence_lines(number, [text])
    return "".join(f"{line}\n" for line in [*lines, TRANSLATED, CLOSING])
