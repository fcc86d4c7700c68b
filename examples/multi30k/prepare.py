"""Prepare Multi30k, task 1, English to German: the public files -> OUT/data-bin. `--help` tells the options.

Elliott et al. 2016, "Multi30K: Multilingual English-German Image Descriptions": 29,000 / 1,014 / 1,000 pairs.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # also runs uninstalled

from resmlp_mt.common.errors import one_line_errors

with one_line_errors():  # the imports take a second
    from resmlp_mt.cli.arguments import add_flag, add_path, command_parser
    from resmlp_mt.data.download import PublicFile
    from resmlp_mt.data.pipeline import Corpus, CorpusRecipe, format_summary, how_to_translate, prepare, unpack_step
    from resmlp_mt.data.sources import PlainText
    from resmlp_mt.data.subwords import Subwords
    from resmlp_mt.text.words import Words

HOME = "https://raw.githubusercontent.com/multi30k/dataset/a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw"
SHA256 = {
    "train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "test_2016_flickr.en.gz": "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9",
    "test_2016_flickr.de.gz": "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8",
}
LANGS = ("en", "de")
SETS = {"train": "train", "valid": "val", "test": "test_2016_flickr"}  # our names and Multi30k's
# Letter case, compounds, quotes and dashes are kept, so that the output looks like the reference.
RECIPE = CorpusRecipe(Words(normalize=False), Subwords("bpe", symbols=4000))


def main() -> None:
    """Run the command."""
    parser = command_parser(description="Prepare Multi30k English-German for fairseq.")
    add_path(parser, "--out", "OUT", "folder for all results", required=True)
    add_path(parser, "--from", "DIR", "folder that has the six public .gz files (else: download them)", dest="folder")
    add_flag(parser, "--overwrite", "write over files of OUT that no earlier preparation has made")
    args = parser.parse_args()
    folder = args.folder or args.out / "raw"
    raw = {name: [folder / f"{name}.{lang}.gz" for lang in LANGS] for name in SETS.values()}
    plain = {name: [args.out / f"{name}.{lang}" for lang in LANGS] for name in SETS.values() if name != "train"}

    def obtain() -> None:
        for name, sha256 in SHA256.items():
            file = PublicFile(name, f"{HOME}/{name}", sha256)
            file.checked_in(folder) if args.folder else file.download_into(folder)

    corpus = Corpus(LANGS, **{ours: [PlainText(*raw[theirs])] for ours, theirs in SETS.items()})
    unpack = [unpack_step(name, raw[name], paths) for name, paths in plain.items()]
    print(format_summary(prepare(corpus, RECIPE, args.out, also=unpack, overwrite=args.overwrite, obtain=obtain)))
    print(how_to_translate(args.out / "data-bin", args.out / "resmlp"))


if __name__ == "__main__":
    with one_line_errors():
        main()
