"""Score translations: sacreBLEU, chrF2 and tokenized BLEU of what fairseq-generate printed."""

import argparse
import json

from resmlp_mt.cli.arguments import add_flag, add_number, command_parser
from resmlp_mt.data.languages import check_code
from resmlp_mt.score import scoring
from resmlp_mt.score.detokenize import SUBWORDS

EPILOG = """
sacreBLEU and chrF2 are of running text. Tokenized BLEU is of the model's own words against the reference tokenized by
Moses' rules, without smoothing, as papers before sacreBLEU report it (multi-bleu.perl, fairseq-score): usually higher.
Languages without spaces (Chinese, Thai, ...) have it with --tokenizer moses and --tokenized-reference alone.

examples:
  resmlp-mt score gen.out --reference test.de --target-lang de
  fairseq-generate ... | resmlp-mt score - --sacrebleu-set wmt14/full -l en-de --split-compounds
"""
FILES = (
    "what fairseq-generate printed (or its generate-test.txt); '-' is stdin; several files are the shards of one run"
)
HYPOTHESES = "score this file instead: finished text (see --subwords, --tokenizer), a translation a line, in order"
SET = "reference: a test set of sacrebleu's catalog, downloaded if need be; newstest2014 in full is wmt14/full"
TOKENIZED = "for tokenized BLEU alone: tokenized as the corpus was (default: the reference, tokenized by sacremoses)"
NORMALIZE = "for tokenized BLEU alone, normalize punctuation before tokenizing, as resmlp-mt prepare-text does"
UNDO = "subwords to undo (default: subword_nmt, which also suits text without; none for --hypotheses)"
MOSES = "tokenization to undo (default: moses; none with --subwords sentencepiece and for --hypotheses)"
NBEST = "the --nbest of the generation: the first, best hypothesis of each sentence is scored"
SPLIT = "also report tokenized BLEU with Ost-West as three tokens (Ott et al. 2018); German only"
BASELINE = "compare with it by sacrebleu's paired bootstrap: output of fairseq-generate, read alike, or finished text"


def score() -> argparse.ArgumentParser:
    parser = command_parser(None, EPILOG, _run)
    parser.add_argument("generated", nargs="*", metavar="FILE", help=FILES)
    parser.add_argument("--hypotheses", metavar="FILE", help=HYPOTHESES)
    reference = parser.add_mutually_exclusive_group(required=True)
    reference.add_argument("--reference", metavar="FILE", help="reference: running text, one sentence a line (or .gz)")
    reference.add_argument("--sacrebleu-set", metavar="SET", help=SET)
    parser.add_argument("-l", "--language-pair", metavar="SRC-TGT", help="of --sacrebleu-set, such as en-de")
    parser.add_argument("--target-lang", metavar="LANG", help="such as de (default: that of --language-pair)")
    parser.add_argument("--tokenized-reference", metavar="FILE", help=TOKENIZED)
    add_flag(parser, "--normalize-punctuation", NORMALIZE)
    parser.add_argument("--subwords", choices=SUBWORDS, help=UNDO)
    parser.add_argument("--tokenizer", choices=("moses", "none"), help=MOSES)
    add_number(parser, "--nbest", 1_000_000, NBEST, 1)
    add_flag(parser, "--split-compounds", SPLIT)
    parser.add_argument("--baseline", metavar="OTHER", help=BASELINE)
    parser.add_argument("--output", metavar="FILE", help="write the detokenized hypotheses there")
    add_flag(parser, "--json", "print one JSON object")
    return parser


def _run(args: argparse.Namespace) -> None:
    scoring.complete(args)
    check_code(args.target_lang, "--language-pair" if args.language_pair else "--target-lang")
    result = scoring.score(args)
    print(json.dumps(result)) if args.json else scoring.report(result)
