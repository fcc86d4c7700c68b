"""``score``: scores of translations; ``table5``: the paper's table with measured results; ``cost`` of its trainings."""

import argparse
import json
from typing import Any

from resmlp_mt.cli.arguments import add_flag, add_number, add_path, command_parser, nonempty_path, number_within, run_of
from resmlp_mt.data.languages import check_code
from resmlp_mt.score import scoring
from resmlp_mt.score.detokenize import SUBWORDS

SCORES = """
sacreBLEU and chrF2 are of running text. Tokenized BLEU is of the model's own words against the reference tokenized by
Moses' rules, without smoothing, as papers before sacreBLEU report it (multi-bleu.perl, fairseq-score): usually higher.
For languages without spaces (Chinese, Thai, ...) it is computed only if both --tokenizer moses and
--tokenized-reference are given.

examples:
  resmlp-mt score gen.out --reference test.de --target-lang de
  fairseq-generate ... | resmlp-mt score - --sacrebleu-set wmt14/full -l en-de --split-compounds
"""
FILES = "output of fairseq-generate (or its generate-test.txt); '-' is stdin; several files are the shards of one run"
HYPOTHESES = "score this file instead: finished text (see --subwords, --tokenizer), a translation a line, in order"
SET = "reference: a test set of sacrebleu's catalog, downloaded if missing; the full newstest2014 is wmt14/full"
TOKENIZED = "for tokenized BLEU alone: tokenized as the corpus was (default: the reference, tokenized by sacremoses)"
NORMALIZE = "for tokenized BLEU alone, normalize punctuation before tokenizing, as resmlp-mt prepare-text does"
UNDO = "subwords to undo (default: subword_nmt, which keeps text without subwords; none for --hypotheses)"
MOSES = "tokenization to undo (default: moses; none with --subwords sentencepiece and for --hypotheses)"
NBEST = "the --nbest of the generation; only the best hypothesis of each sentence is scored"
SPLIT = "also report tokenized BLEU with Ost-West as three tokens (Ott et al. 2018); German only"
BASELINE = "compare with this output of fairseq-generate, or finished text, by sacrebleu's paired bootstrap"
RUNS = """
The folder of a run has the name of its system (lstm, convs2s, transformer, resmlp6, resmlp12; gated6 and gated12, which
the paper does not have) and holds test.json, which evaluate.sh left. A folder of such folders stands for all of them;
SYSTEM=DIR names the system of a folder with another name. What is measured in GNMT's row is an LSTM with attention.

example:
  resmlp-mt table5 resmlp6=elsewhere/run7 work/wmt14_en_de/transformer --markdown
"""
UTILIZATION = 0.14
"""Share of the peak, by the formula below: in fairseq issue 233, Ott et al.'s Transformer big trains on 1.67 million
target tokens a second (En-Fr) in half precision on 128 V100s. Smaller and recurrent models use less of a GPU."""
FORMULA = """
formula:
  training FLOPs = 3 x forward FLOPs a target token x target tokens
  target tokens  = updates x tokens of a batch (padding included), or epochs x pairs x length
  GPU-hours      = training FLOPs / (peak x utilization) / 3600
Sources and targets have the same length. Sizes, batch, updates and epochs are those that train.sh trains with.

example:
  resmlp-mt cost en-de --gpu A100 --utilization 0.3
"""


def score() -> argparse.ArgumentParser:
    parser = command_parser(SCORES, _score)
    file: Any = {"type": lambda text: "/dev/stdin" if text == "-" else str(nonempty_path(text)), "metavar": "FILE"}
    parser.add_argument("generated", nargs="*", help=FILES, **file)
    parser.add_argument("--hypotheses", help=HYPOTHESES, **file)
    reference = parser.add_mutually_exclusive_group(required=True)
    reference.add_argument("--reference", help="reference: running text, one sentence a line (or .gz)", **file)
    reference.add_argument("--sacrebleu-set", metavar="SET", help=SET)
    parser.add_argument("-l", "--language-pair", metavar="SRC-TGT", help="languages of --sacrebleu-set, such as en-de")
    parser.add_argument("--target-lang", metavar="LANG", help="such as de (default: from --language-pair)")
    parser.add_argument("--tokenized-reference", help=TOKENIZED, **file)
    add_flag(parser, "--normalize-punctuation", NORMALIZE)
    parser.add_argument("--subwords", choices=SUBWORDS, help=UNDO)
    parser.add_argument("--tokenizer", choices=("moses", "none"), help=MOSES)
    add_number(parser, "--nbest", 1_000_000, NBEST, 1)
    add_flag(parser, "--split-compounds", SPLIT)
    parser.add_argument("--baseline", help=BASELINE, **file)
    add_path(parser, "--output", "FILE", "write the detokenized hypotheses to this file")
    add_flag(parser, "--json", "print one JSON object")
    return parser


def _score(args: argparse.Namespace) -> None:
    scoring.complete(args)
    check_code(args.target_lang, "--language-pair" if args.language_pair else "--target-lang")
    result = scoring.score(args)
    print(json.dumps(result)) if args.json else scoring.report(result)


def table5() -> argparse.ArgumentParser:
    parser = command_parser(RUNS, run_of("analysis.table5"))
    runs = "a scored run, a folder of them, or SYSTEM=DIR; without any: the paper's figures alone"
    parser.add_argument("runs", nargs="*", metavar="DIR", help=runs)
    _add_form(parser)
    return parser


def cost() -> argparse.ArgumentParser:
    parser = command_parser(FORMULA, run_of("analysis.flops"))
    parser.add_argument("pairs", nargs="*", metavar="PAIR", help="en-de or en-fr (default: both)")
    parser.add_argument("--gpu", choices=["V100", "A100"], default="V100", help="GPU whose peak speed is used")
    share = number_within(0.001, 1)
    parser.add_argument("--utilization", type=share, default=UTILIZATION, metavar="U", help="share of it that is used")
    _add_form(parser)
    return parser


def _add_form(parser: argparse.ArgumentParser) -> None:
    form = parser.add_mutually_exclusive_group()
    add_flag(form, "--markdown", "print the table in Markdown")
    add_flag(form, "--json", "print one JSON object")
