"""What WMT14 is: which archives, which of their members, in which order.

Sources of what is said here:

- URLs of the training archives: https://www.statmt.org/wmt14/translation-task.html
- their second addresses, copies that https://github.com/huggingface/datasets made (its pull request 1912) and names in
  ``datasets/wmt14/wmt_utils.py`` at 098b1c6; whether they still answer was not tried, but no other bytes are accepted
- the same members as ``.zip``, with sizes and sha256: there, at 040102f, in ``datasets/wmt14/dataset_infos.json``
- their sizes and sha256: https://github.com/tensorflow/datasets, ``tensorflow_datasets/url_checksums/``
  ``wmt14_translate.txt`` and, for the UN documents and Giga-French, ``wmt15_translate.txt``
- their members: https://github.com/facebookresearch/fairseq, ``examples/translation/prepare-wmt14en2de.sh`` and
  ``prepare-wmt14en2fr.sh``, whose order of the corpora is kept; https://github.com/tensorflow/tensor2tensor,
  ``tensor2tensor/data_generators/translate_ende.py`` and ``translate_enfr.py``
- test sets, their URLs and md5: sacrebleu's catalog, read where it is installed
- pairs and bytes of the training text: https://huggingface.co/datasets/wmt/wmt14, which has the same corpora
"""

from collections.abc import Sequence
from dataclasses import dataclass

from resmlp_mt.data.download import PublicFile
from resmlp_mt.data.official_sets import OfficialSet

COPIES = "https://huggingface.co/datasets/wmt"


def _training(
    folder: str, name: str, ending: str, size: int, sha256: str, zip_size: int, zip_sha256: str
) -> PublicFile:
    """A training archive of statmt.org, its copy, and the zip of the same members."""
    copies = f"{COPIES}/{folder}/resolve"
    zipped = PublicFile(f"{name}.zip", f"{copies}/main-zip/{name}.zip", zip_sha256, size=zip_size)
    file = f"{name}.{ending}"
    url = f"https://www.statmt.org/{folder}/{file}"
    return PublicFile(file, url, sha256, size=size, mirrors=(f"{copies}/main/{file}",), zipped=zipped)


ARCHIVES = {
    file.name: file
    for file in (
        _training(
            "wmt13", "training-parallel-europarl-v7", "tgz",
            657_632_379, "0224c7c710c8a063dfd893b0cc0830202d61f4c75c17eb8e31836103d27d96e7",
            658_092_427, "5b2d8b32c2396da739b4e731871c597fcc6e75729becd74619d0712eecf7770e",
        ),
        _training(
            "wmt13", "training-parallel-commoncrawl", "tgz",
            918_311_367, "c7a74e2ea01ac6c920123108627e35278d4ccb5701e15428ffa34de86fa3a9e5",
            918_734_483, "5ffe980072ea29adfd84568d099bea366d9f72772b988e670794ae851b4e5627",
        ),
        _training(
            "wmt14", "training-parallel-nc-v9", "tgz",
            80_418_416, "cb8953f292298e6877ae433c98912b927cb0766b303f4540512ddd286c748485",
            80_462_375, "ce199f93ec56ff480137ba29f0819f9a22e70d88be6d7458f112303d67d623d5",
        ),
        _training(
            "wmt13", "training-parallel-un", "tgz",
            2_365_634_246, "29141b5c1eba149a94f7a59d3b1a834b2e47fe0f8758d68dcd77a3d3f497ee47",
            2_366_237_633, "74f07002e053c81bc7f73b4fdab58e7987e831338748f264cbda82a8b062d2e2",
        ),
        _training(
            "wmt10", "training-giga-fren", "tar",
            2_595_102_720, "3ff8319f6919393520559bfbc7ad6a747ec81b3abc7be9993b338d4b017b4d9a",
            2_595_877_717, "9439f86523e5dff3f923526dbf6c6929da1786c18dbf64436d2b7564b83aaba3",
        ),
    )
}  # fmt: skip


@dataclass(frozen=True)
class Bitext:
    """A training corpus of one pair of languages.

    Attributes:
        name: for people
        archive: name of its file in ``ARCHIVES``
        members: the archive's members, with ``{lang}`` for the language
    """

    name: str
    archive: str
    members: str

    def members_for(self, langs: tuple[str, str]) -> tuple[str, str]:
        """The members of both sides."""
        source, target = langs
        return self.members.format(lang=source), self.members.format(lang=target)


@dataclass(frozen=True)
class Task:
    """A translation task of WMT14.

    Attributes:
        langs: source and target language
        train: what is trained on, in this order
        valid, test: official sets
        symbols: BPE merges, or pieces of the sentencepiece vocabulary
        pairs: of the training text, about
        text_bytes: of both sides of the training text in UTF-8, about
    """

    langs: tuple[str, str]
    train: Sequence[Bitext]
    valid: Sequence[OfficialSet]
    test: OfficialSet
    symbols: int
    pairs: int
    text_bytes: int


NEWSTEST2012 = OfficialSet("newstest2012", "wmt12")
NEWSTEST2013 = OfficialSet("newstest2013", "wmt13")
NEWSTEST2014 = OfficialSet("newstest2014", "wmt14/full")

TASKS = {
    "en-de": Task(
        langs=("en", "de"),
        train=(
            Bitext("europarl-v7", "training-parallel-europarl-v7.tgz", "training/europarl-v7.de-en.{lang}"),
            Bitext("commoncrawl", "training-parallel-commoncrawl.tgz", "commoncrawl.de-en.{lang}"),
            Bitext("news-commentary-v9", "training-parallel-nc-v9.tgz", "training/news-commentary-v9.de-en.{lang}"),
        ),
        valid=(NEWSTEST2013,),
        test=NEWSTEST2014,
        symbols=32_000,
        pairs=4_508_785,
        text_bytes=1_358_000_000,
    ),
    "en-fr": Task(
        langs=("en", "fr"),
        train=(
            Bitext("europarl-v7", "training-parallel-europarl-v7.tgz", "training/europarl-v7.fr-en.{lang}"),
            Bitext("commoncrawl", "training-parallel-commoncrawl.tgz", "commoncrawl.fr-en.{lang}"),
            Bitext("un", "training-parallel-un.tgz", "un/undoc.2000.fr-en.{lang}"),
            Bitext("news-commentary-v9", "training-parallel-nc-v9.tgz", "training/news-commentary-v9.fr-en.{lang}"),
            Bitext("giga-fren", "training-giga-fren.tar", "giga-fren.release2.fixed.{lang}.gz"),
        ),
        valid=(NEWSTEST2012, NEWSTEST2013),
        test=NEWSTEST2014,
        symbols=40_000,
        pairs=40_836_715,
        text_bytes=14_753_000_000,
    ),
}
