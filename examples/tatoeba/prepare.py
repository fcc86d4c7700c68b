"""Prepare Tatoeba, English to German: six .gz files of DIR -> OUT/data-bin. `--help` tells the options."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # also runs uninstalled

from resmlp_mt.common.errors import one_line_errors

with one_line_errors():  # the imports take a second
    from resmlp_mt.cli.arguments import add_flag, add_path, command_parser
    from resmlp_mt.common.files import checksum
    from resmlp_mt.data.pipeline import Corpus, CorpusRecipe, format_summary, how_to_translate, prepare, unpack_step
    from resmlp_mt.data.sources import PlainText
    from resmlp_mt.data.subwords import Subwords
    from resmlp_mt.text.words import Words

SHA256 = {  # of the split that README.md describes
    "train.en.gz": "787506e5b9a563e884f7a3289171fa0a453c2c3527d4c743894c5c9aea775f78",
    "train.de.gz": "f1a4e13813fe380cad35388dec05b0ba7d67027a003e498a0789e758badaf06e",
    "valid.en.gz": "0ac751f219004822f832ae7018e4f8f87ab368555185d6b49b152b93ae4d3985",
    "valid.de.gz": "74a11f9d0f4caeef8a7b341b10c7d7d78c32ff793d9d48b82b6d23d6422e5c25",
    "test.en.gz": "7779ddab8354fd220618ac43c8c1111f1394fd8b7a839e5c9940d21247d379ab",
    "test.de.gz": "69c2cb2af0c4088dad1051ef041097967ebe346f3316f607bca8a4fba60216e3",
}
LANGS = ("en", "de")
SETS = ("train", "valid", "test")
# As for Multi30k: letter case, compounds, quotes and dashes are kept; the same number of subwords.
RECIPE = CorpusRecipe(Words(normalize=False), Subwords("bpe", symbols=4000))


def main() -> None:
    """Run the command."""
    parser = command_parser(description="Prepare Tatoeba English-German for fairseq.")
    add_path(parser, "--out", "OUT", "folder for all results", required=True)
    about = "folder that has (train|valid|test).(en|de).gz"
    add_path(parser, "--from", "DIR", about, dest="folder", required=True)
    add_flag(parser, "--overwrite", "write over files of OUT that no earlier preparation has made")
    args = parser.parse_args()
    raw = {name: [args.folder / f"{name}.{lang}.gz" for lang in LANGS] for name in SETS}
    plain = {name: [args.out / f"{name}.{lang}" for lang in LANGS] for name in SETS[1:]}
    others = [path.name for pair in raw.values() for path in pair if checksum(path) != SHA256[path.name]]
    if others:
        print(f"not the text of examples/tatoeba/README.md: {', '.join(others)}: compare with none of its figures")
    corpus = Corpus(LANGS, **{name: [PlainText(*pair)] for name, pair in raw.items()})
    unpack = [unpack_step(name, raw[name], pair) for name, pair in plain.items()]
    print(format_summary(prepare(corpus, RECIPE, args.out, also=unpack, overwrite=args.overwrite)))
    print(how_to_translate(args.out / "data-bin", args.out / "heads"))


if __name__ == "__main__":
    with one_line_errors():
        main()
