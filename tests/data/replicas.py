"""Small replicas of WMT14's archives (real names, formats and quirks, made-up sentences), and a command on them."""

import dataclasses
import gzip
import hashlib
import io
import os
import random
import signal
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from xml.sax.saxutils import escape

from data.misbehaving_server import Server
from forked import become, fork

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "prepare_wmt14.py"
WORDS = {  # English, German, French
    "the": ("der", "le"), "a": ("ein", "un"), "old": ("alte", "vieux"), "red-haired": ("rothaarige", "roux"),
    "minister": ("Minister", "ministre"), "farmer": ("Bauer", "fermier"), "horse": ("Pferd", "cheval"),
    "house": ("Haus", "maison"), "report": ("Bericht", "rapport"), "sees": ("sieht", "voit"), "reads": ("liest", "lit"),
    "buys": ("kauft", "achète"), "wants": ("will", "veut"), "today": ("heute", "aujourd'hui"), "3.5": ("3,5", "3,5"),
    "not": ("nicht", "pas"), "and": ("und", "et"), "with": ("mit", "avec"), "never": ("nie", "jamais"),
    "Mr. Smith": ("Herr Smith", "M. Smith"), "“well-known”": ("„wohlbekannt“", "« bien-connu »"), "R&D": ("F&E", "R&D"),
}  # fmt: skip
LANGS = ("en", "de", "fr")
# Sentences in each replica; ``corpus_lines`` adds the quirks.
SIZES = {"europarl-v7": 150, "commoncrawl": 120, "news-commentary-v9": 80, "un": 90, "giga-fren": 110}
SETS = {"newstest2012": 11, "newstest2013": 23, "newstest2014": 31}
# Paths on the server that differ from the local file names: two archives are called test.tgz.
PATHS = {
    "wmt12.test.tgz": "wmt12/test.tgz",
    "wmt13.test.tgz": "wmt13/test.tgz",
    "wmt14_full.test-full.tgz": "wmt14/test-full.tgz",
}


def sentences(name: str, number: int) -> list[dict[str, str]]:
    """Return made-up sentences, each in all languages; they are always the same for a name."""
    chance = random.Random(name)
    made = []
    for _ in range(number):
        words = chance.choices(list(WORDS), k=chance.randint(4, 12))
        sides = zip(*((word, *WORDS[word]) for word in words), strict=True)
        made.append({lang: " ".join(side).capitalize() + "." for lang, side in zip(LANGS, sides, strict=True)})
    return made


def corpus_lines(name: str, lang: str) -> list[bytes]:
    """Return the lines of one side of a training corpus, with its quirks."""
    lines = [pair[lang].encode() for pair in sentences(name, SIZES[name])]
    if name == "europarl-v7":
        lines[3] = b"" if lang == "en" else lines[3]  # empty on one side
        lines[4] = b""
        lines[5] = b" ".join([lines[5]] * 60)  # far more than 250 subwords
        lines[6] = lines[6] * (3 if lang == "en" else 1)  # one side far longer
        lines[7] += b"\r"  # a line that ends with CRLF
    if name == "commoncrawl":
        lines[2] = "Next\u0085line ".encode() + lines[2]
        lines[3] = "Line\u2028separator ".encode() + lines[3]
        lines[4] = b"Nul\x00byte " + lines[4]
        lines[5] = b"Latin-1 caf\xe9 " + lines[5]
        lines[6] = "Byte\ufeff order\u00a0mark\tand\u00ad tab ".encode() + lines[6]
    if name == "news-commentary-v9" and lang == "fr":
        lines[10] = b"Un\rdeux " + lines[10]
        lines[20] = b"\r" + lines[20]
    return lines


def corpus_text(name: str, lang: str) -> bytes:
    text = b"".join(line + b"\n" for line in corpus_lines(name, lang))
    # In these corpora, one side lacks its last newline.
    return text.removesuffix(b"\n") if (name, lang) in {("europarl-v7", "en"), ("giga-fren", "fr")} else text


def sgml(name: str, lang: str, kind: str) -> bytes:
    """Return a test set in the SGML that statmt.org publishes; sentences 2 and 3 hold entities."""
    lines = [f'<{kind}set setid="{name}" srclang="any"' + (f' trglang="{lang}">' if kind == "ref" else ">")]
    for number, pair in enumerate(sentences(name, SETS[name]), start=1):
        if number % 10 == 1:
            lines += ["</p>", "</doc>"] if number > 1 else []
            lines += [f'<doc sysid="ref" docid="news-{number}" genre="news" origlang="en">', "<p>"]
        text = escape(pair[lang] + (" <b> Q&A" if number in (2, 3) else ""), {'"': "&quot;"})
        lines.append(f'<seg id="{(number - 1) % 10 + 1}">{"  " * (number % 2)}{text} </seg>')
    return "\n".join([*lines, "</p>", "</doc>", f"</{kind}set>", ""]).encode()


def tar(members: dict[str, bytes], gzipped: bool = True) -> bytes:
    """Return an archive with its folders as members, too, as ``tar -c FOLDER`` makes it; always the same bytes."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for folder in sorted({name.rpartition("/")[0] for name in members} - {""}):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(entry)
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return gzip.compress(file.getvalue(), mtime=0) if gzipped else file.getvalue()


def _both(name: str, pattern: str, pairs: tuple[str, ...] = ("de", "fr")) -> dict[str, bytes]:
    return {pattern.format(pair=f"{a}-en", lang=b): corpus_text(name, b) for a in pairs for b in (a, "en")}


def archives() -> dict[str, bytes]:
    """Return the content of all archives by file name; archives of test sets have the names that sacrebleu uses."""
    noise = {"training/europarl-v7.cs-en.cs": b"Ahoj\n", "training/europarl-v7.cs-en.en": b"Hello\n"}
    crawl = _both("commoncrawl", "commoncrawl.{pair}.{lang}")
    crawl |= {f"commoncrawl.{pair}-en.annotation": b"http://example.org\t1\n" for pair in ("de", "fr")}
    sides = {lang: gzip.compress(corpus_text("giga-fren", lang), mtime=0) for lang in ("en", "fr")}
    giga = {f"giga-fren.release2.fixed.{lang}.gz": side for lang, side in sides.items()}
    news = {name: {} for name in SETS}
    for lang in LANGS:
        for name in ("newstest2012", "newstest2013"):
            news[name][f"test/{name}-src.{lang}.sgm"] = sgml(name, lang, "src")
    for lang in ("de", "fr"):
        news["newstest2014"] |= {
            f"test-full/newstest2014-{lang}en-src.en.sgm": sgml("newstest2014", "en", "src"),
            f"test-full/newstest2014-{lang}en-ref.{lang}.sgm": sgml("newstest2014", lang, "ref"),
        }
    return {
        "training-parallel-europarl-v7.tgz": tar(noise | _both("europarl-v7", "training/europarl-v7.{pair}.{lang}")),
        "training-parallel-commoncrawl.tgz": tar(crawl),
        "training-parallel-nc-v9.tgz": tar(_both("news-commentary-v9", "training/news-commentary-v9.{pair}.{lang}")),
        "training-parallel-un.tgz": tar(_both("un", "un/undoc.2000.{pair}.{lang}", ("fr",))),
        "training-giga-fren.tar": tar(giga, gzipped=False),
        "wmt12.test.tgz": tar(news["newstest2012"]),
        "wmt13.test.tgz": tar(news["newstest2013"]),
        "wmt14_full.test-full.tgz": tar(news["newstest2014"]),
    }


def serve(server: Server) -> dict[str, str]:
    """Put all archives on a server; return their URLs by file name."""
    return {name: server.add(PATHS.get(name, name), content) for name, content in archives().items()}


def change_catalogs(urls: Mapping[str, str]) -> None:
    """Replace the archives in this process's catalogs, ours and sacrebleu's, by the replicas: URLs and checksums."""
    from sacrebleu.dataset import DATASETS

    from resmlp_mt.data import wmt14

    files = archives()
    for name, file in wmt14.ARCHIVES.items():
        facts = {"size": len(files[name]), "sha256": hashlib.sha256(files[name]).hexdigest()}
        wmt14.ARCHIVES[name] = dataclasses.replace(file, url=urls[name], mirrors=(), **facts)
    for official in (wmt14.NEWSTEST2012, wmt14.NEWSTEST2013, wmt14.NEWSTEST2014):
        name = official.archive.name
        DATASETS[official.key].data = [urls[name]]
        DATASETS[official.key].md5 = [hashlib.md5(files[name]).hexdigest()]
    for name, task in wmt14.TASKS.items():
        wmt14.TASKS[name] = dataclasses.replace(task, text_bytes=100_000)


@dataclasses.dataclass
class Command:
    """``scripts/prepare_wmt14.py`` on replicas, in a forked process that has imported fairseq already."""

    folder: Path  # for the files stdout and stderr
    urls: Mapping[str, str]  # by the names of the archives
    arguments: Sequence[object]
    kill: str | None = None  # SIGKILL before a file or folder gets a name that ends so

    def start(self):
        return fork(_main, self)

    def run(self) -> SimpleNamespace:
        process = self.start()
        try:
            process.join()
        finally:
            process.kill()
        output, error = ((self.folder / name).read_text() for name in ("stdout", "stderr"))
        return SimpleNamespace(status=process.exitcode, output=output, error=error)


def _main(command: Command) -> None:
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(command.folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    change_catalogs(command.urls)
    if command.kill:
        os.replace, os.rename = (_dying(move, command.kill) for move in (os.replace, os.rename))
    become(str(SCRIPT), *map(str, command.arguments))


def _dying(move, end):
    def moved(source, target):
        if str(target).endswith(end):
            os.kill(os.getpid(), signal.SIGKILL)
        move(source, target)

    return moved
