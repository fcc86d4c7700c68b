"""Score translations: sacreBLEU, chrF2 and tokenized BLEU of what fairseq-generate printed."""

import argparse
import json
import re
import sys
from typing import Any

import sacrebleu

from resmlp_mt.cli.arguments import command_parser
from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import atomic_write, check_outputs, read_lines
from resmlp_mt.data.languages import check_code
from resmlp_mt.score.bleu import UNSPACED, detokenized_scores, paired_bootstrap, split_compounds, tokenized_bleu
from resmlp_mt.score.detokenize import SUBWORDS, Moses, check_spaces, check_tokenization, undo_subwords
from resmlp_mt.score.generate_output import check_translated, in_order, is_sentence_line, read_generate_output

LABELS = {
    "sacrebleu": "sacreBLEU (detokenized)",
    "chrf2": "chrF2 (detokenized)",
    "tokenized_bleu": "tokenized BLEU",
    "compound_split_bleu": "tokenized BLEU, compounds split",
}

EPILOG = """
what is scored:
  sacreBLEU, chrF2    running text against the reference as it stands, as the sacrebleu command does
  tokenized BLEU      the model's own words against the reference tokenized by Moses' rules, without smoothing, as
                      papers before sacreBLEU report it (multi-bleu.perl, fairseq-score): usually higher. Tokens are
                      compared without escapes (&apos;) and with the hyphens of 'tokenizer.perl -a' ( @-@ ) joined.
                      Left out for Chinese, Japanese, Thai and other languages without spaces, whose words Moses' rules
                      do not find, unless --tokenizer moses and --tokenized-reference say that they are there.
  compounds split     the same after Ost-West becomes three tokens in both, the En-De convention of Ott et al. 2018

examples:
  python scripts/score_bleu.py gen.out --reference test.de --target-lang de
  fairseq-generate ... | python scripts/score_bleu.py - --sacrebleu-set wmt14/full -l en-de --split-compounds
  python scripts/score_bleu.py shard0.out shard1.out --reference test.de --target-lang de --subwords sentencepiece
  python scripts/score_bleu.py gen.out --reference test.de --target-lang de --baseline transformer.out --json
"""


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, EPILOG)
    parser.add_argument(
        "generated",
        nargs="*",
        metavar="FILE",
        help="what fairseq-generate printed (or its generate-test.txt under --results-path); '-' is stdin; "
        "several files are the shards of one run",
    )
    parser.add_argument(
        "--hypotheses",
        metavar="FILE",
        help="score this file instead: one translation a line, in the order of the reference, finished text unless "
        "--subwords and --tokenizer say otherwise",
    )
    reference = parser.add_mutually_exclusive_group(required=True)
    reference.add_argument("--reference", metavar="FILE", help="reference: running text, one sentence a line (or .gz)")
    reference.add_argument(
        "--sacrebleu-set",
        metavar="SET",
        help="reference: a test set of sacrebleu's catalog, downloaded if need be; newstest2014 in full is wmt14/full",
    )
    parser.add_argument(
        "-l", "--language-pair", metavar="SRC-TGT", help="language pair for --sacrebleu-set, such as en-de"
    )
    parser.add_argument(
        "--target-lang", metavar="LANG", help="target language, such as de (default: that of --language-pair)"
    )
    parser.add_argument(
        "--tokenized-reference",
        metavar="FILE",
        help="reference for tokenized BLEU alone: tokenized as the corpus was, before subwords "
        "(default: the reference, tokenized by sacremoses)",
    )
    parser.add_argument(
        "--normalize-punctuation",
        action="store_true",
        help="for tokenized BLEU alone, normalize the punctuation of running text before tokenizing it, as "
        "prepare_text.py and others do with corpora",
    )
    parser.add_argument(
        "--subwords",
        choices=SUBWORDS,
        help="subwords to undo (default: subword_nmt, which also suits text without; none for --hypotheses)",
    )
    parser.add_argument(
        "--tokenizer",
        choices=("moses", "none"),
        help="tokenization to undo (default: moses; none with --subwords sentencepiece and for --hypotheses)",
    )
    parser.add_argument(
        "--nbest",
        type=int,
        default=1,
        metavar="N",
        help="the --nbest of the generation: the first, best hypothesis of each sentence is scored (default: 1)",
    )
    parser.add_argument(
        "--split-compounds",
        action="store_true",
        help="also report tokenized BLEU with hyphenated compounds split (Ott et al. 2018); German only",
    )
    parser.add_argument(
        "--baseline",
        metavar="OTHER",
        help="compare with this system by sacrebleu's paired bootstrap: what fairseq-generate printed for it, read "
        "with the same options, or a file of finished text",
    )
    parser.add_argument("--output", metavar="FILE", help="write the detokenized hypotheses there")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def check_args(parser: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Fill in the defaults that depend on other options; refuse what does not go together."""
    if bool(args.generated) == bool(args.hypotheses):
        parser.error("give either what fairseq-generate printed, or --hypotheses FILE")
    if args.nbest < 1:
        parser.error("--nbest must be 1 or more")
    if bool(args.sacrebleu_set) != bool(args.language_pair):
        parser.error("--sacrebleu-set and --language-pair go together")
    if args.language_pair:
        language = args.language_pair.rpartition("-")[2]
        if args.target_lang not in (None, language):
            parser.error(f"--target-lang {args.target_lang} contradicts --language-pair {args.language_pair}")
        args.target_lang = language
    if not args.target_lang:
        parser.error("--target-lang is needed, such as --target-lang de")
    check_code(args.target_lang, "--language-pair" if args.language_pair else "--target-lang")
    if args.split_compounds and args.target_lang != "de":
        parser.error(
            f"--split-compounds is the convention for German alone; scores of '{args.target_lang}' go without it"
        )
    if args.subwords is None:
        args.subwords = "none" if args.hypotheses else "subword_nmt"
    if args.tokenizer is None:
        args.tokenizer = "none" if args.hypotheses or args.subwords == "sentencepiece" else "moses"


def stdin_or(path: str) -> str:
    return "/dev/stdin" if path == "-" else path


def remark(text: str) -> None:
    """Tell something beside the scores."""
    print(f"remark: {text}", file=sys.stderr)


def remark_on_blanks(what: str, lines: list[str]) -> None:
    if blank := [number for number, line in enumerate(lines, start=1) if not line.strip()]:
        remark(f"{what}: {len(blank)} of {len(lines)} lines are blank, the first is {blank[0]}: scored as they are")


def read_text(path: str, count: int | None = None) -> list[str]:
    """Read a file of plain lines: ``count`` of them, if given."""
    lines = list(read_lines(stdin_or(path)))
    if not any(map(str.strip, lines)):
        raise UserError(f"{path}: {'blank lines alone' if lines else 'empty'}")
    for number, line in enumerate(lines, start=1):
        if is_sentence_line(line):
            raise UserError(f"{path}:{number}: a line of fairseq-generate, not plain text: give its output as FILE")
    if count not in (None, len(lines)):
        raise UserError(f"{path}: {len(lines)} lines, but the reference has {count}: they must match line by line")
    return lines


def reference_file(args: argparse.Namespace) -> str:
    if args.reference:
        return args.reference
    try:
        files = sacrebleu.get_reference_files(args.sacrebleu_set, args.language_pair)
    except (Exception, SystemExit) as error:  # sacrebleu raises bare Exceptions, and exits on a wrong checksum
        raise UserError(
            f"sacrebleu's test set {args.sacrebleu_set} for {args.language_pair} cannot be had ({error}): see "
            "'sacrebleu --list', or give the text with --reference"
        ) from error
    if len(files) != 1:
        raise UserError(f"sacrebleu's {args.sacrebleu_set} has {len(files)} references: give one with --reference")
    return files[0]


def read_joined(path: str, count: int | None = None) -> list[str]:
    """Read a file of plain lines without subwords."""
    lines = read_text(path, count)
    try:
        return undo_subwords(lines, "none", path)
    except UserError as error:
        raise UserError(f"{path}: subwords, not words: give the text as it was before they were cut") from error


def read_reference(path: str) -> list[str]:
    """Read running text, and say how many of its lines are blank."""
    lines = read_joined(path)
    check_tokenization(lines, False, path)
    remark_on_blanks(path, lines)
    return lines


def hypotheses_of(args: argparse.Namespace, paths: list[str], count: int) -> list[str]:
    """Read what fairseq-generate printed, in the order of the reference."""
    hypotheses = read_generate_output(paths, args.nbest)
    check_translated(hypotheses)
    return in_order(hypotheses, count)


def read_system(args: argparse.Namespace, reference: list[str]) -> list[str]:
    """Read the system's words: tokens, or running text with ``--tokenizer none``."""
    if args.hypotheses:
        lines, what = read_text(args.hypotheses, len(reference)), args.hypotheses
    else:
        lines = hypotheses_of(args, list(map(stdin_or, args.generated)), len(reference))
        what = ", ".join(args.generated)
    words = words_of(args, lines, args.subwords, args.tokenizer == "moses", reference, what)
    remark_on_blanks(what, words)
    return words


def read_baseline(args: argparse.Namespace, moses: Moses, reference: list[str]) -> list[str]:
    """Read the baseline as running text."""
    generated = any(is_sentence_line(line) for line in read_lines(args.baseline))
    if generated:
        lines = hypotheses_of(args, [args.baseline], len(reference))
    else:
        lines = read_text(args.baseline, len(reference))
    tokenized = generated and args.tokenizer == "moses"
    words = words_of(args, lines, args.subwords if generated else "none", tokenized, reference, args.baseline)
    return [moses.text(line) for line in words] if tokenized else words


def words_of(
    args: argparse.Namespace, lines: list[str], subwords: str, tokenized: bool, reference: list[str], what: str
) -> list[str]:
    """Join subwords, and check that the result is text of the stated kind."""
    words = undo_subwords(lines, subwords, what)
    # Words of a model that has learned little may run together; where its subwords are marked, that is its own doing.
    if args.target_lang not in UNSPACED and not any("@@ " in line or "\u2581" in line for line in lines):
        check_spaces(words, reference, what)
    # A full stop behind a word that has no end says nothing.
    ended = [text for text, line in zip(words, lines, strict=True) if not re.search(r"@@ \S$", line)]
    check_tokenization(ended, tokenized, what)
    return words


def tokenize_reference(args: argparse.Namespace, moses: Moses, reference: list[str]) -> list[str]:
    if args.tokenized_reference:
        return [moses.plain_tokens(line) for line in read_joined(args.tokenized_reference, len(reference))]
    return [moses.tokens(line) for line in reference]


def report(result: dict[str, Any]) -> None:
    """Print for people."""
    print(f"{result['segments']} segments, target language {result['target_lang']}")
    for key, score in result["scores"].items():
        print(
            f"{LABELS[key]:<32} {score['score']:6.2f}  {score['signature']}  {score.get('verbose_score', '')}".rstrip()
        )
    if "paired_bootstrap" in result:
        same = ", which says the same in every line" if result["same_as_baseline"] else ""
        print(f"\npaired bootstrap, compared with {result['baseline']}{same}")
        for key, test in result["paired_bootstrap"].items():
            sides = "  ".join(
                f"{side} {test[side]['score']:.2f} ({test[side]['mean']:.2f} ± {test[side]['ci']:.2f})"
                for side in ("baseline", "system")
            )
            print(f"{LABELS[key]:<32} {sides}  p = {test['p_value']:.4f}  {test['signature']}")


def main() -> None:
    parser = get_parser()
    args = parser.parse_args()
    check_args(parser, args)
    from_set = reference_file(args)
    if args.output is not None:
        texts = args.hypotheses, from_set, args.tokenized_reference, args.baseline
        check_outputs([args.output], [stdin_or(path) for path in (*args.generated, *texts) if path])
    moses = Moses(args.target_lang, args.normalize_punctuation)
    reference = read_reference(from_set)
    words = read_system(args, reference)
    tokenized = args.tokenizer == "moses"
    text = [moses.text(line) for line in words] if tokenized else words
    scores = detokenized_scores(text, reference, args.target_lang)
    if scores["sacrebleu"]["score"] < 1:
        remark("next to nothing of the reference: are these its translations, in its language, with subwords joined?")
    if args.target_lang in UNSPACED - {"ja", "zh"}:
        remark(f"sacreBLEU takes what is between spaces for a word, also in '{args.target_lang}': see chrF2 instead")
    if args.target_lang in UNSPACED and not (tokenized and args.tokenized_reference):
        remark(f"no tokenized BLEU: Moses' rules do not find the words of '{args.target_lang}' (see --help)")
    else:
        tokens = [moses.plain_tokens(line) if tokenized else moses.tokens(line) for line in words]
        reference_tokens = tokenize_reference(args, moses, reference)
        scores["tokenized_bleu"] = tokenized_bleu(tokens, reference_tokens)
        if args.split_compounds:
            scores["compound_split_bleu"] = tokenized_bleu(
                [split_compounds(line) for line in tokens], [split_compounds(line) for line in reference_tokens]
            )
    result: dict[str, Any] = {"segments": len(reference), "target_lang": args.target_lang, "scores": scores}
    if args.baseline:
        baseline = read_baseline(args, moses, reference)
        result["baseline"] = args.baseline
        result["same_as_baseline"] = text == baseline
        result["paired_bootstrap"] = paired_bootstrap(text, baseline, reference, args.target_lang)

    if args.output is not None:
        with atomic_write(args.output) as stream:
            stream.writelines(f"{line}\n" for line in text)
    if args.json:
        print(json.dumps(result))
    else:
        report(result)
