"""Scores by sacrebleu: sacreBLEU and chrF2 of running text, BLEU of tokens, paired bootstrap; the work of ``score``."""

import json
import os
import re
import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import Any

import sacrebleu
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from resmlp_mt.common.errors import UserError
from resmlp_mt.common.files import Read, check_can_be_written, check_outputs, read_lines, write_whole
from resmlp_mt.score.detokenize import Moses, check_spaces, check_tokenization, undo_subwords
from resmlp_mt.score.generate_output import is_sentence_line, ordered_texts, read_generate_output
from resmlp_mt.text.subwords import WORD_START

UNSPACED = frozenset(["bo", "dz", "ja", "km", "lo", "my", "th", "zh"])
"""Languages that write words without spaces between them."""

Score = dict[str, Any]
"""What ``sacrebleu --format json`` prints for a metric: name, score, signature (and its parts), verbose_score."""

LABELS = {
    "sacrebleu": "sacreBLEU (detokenized)",
    "chrf2": "chrF2 (detokenized)",
    "tokenized_bleu": "tokenized BLEU",
    "compound_split_bleu": "tokenized BLEU, compounds split",
}


def _score(metric: BLEU | CHRF, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    score = metric.corpus_score(hypotheses, [references])
    return json.loads(score.format(width=4, signature=str(metric.get_signature()), is_json=True))


def sacre_bleu(language: str) -> BLEU:
    """Return sacreBLEU with its defaults for a language; Chinese, Japanese and Korean have their own tokenizers."""
    try:
        return BLEU(trg_lang=language)
    except (RuntimeError, AssertionError) as error:  # AssertionError: a dictionary of another version
        raise UserError(
            f"sacreBLEU for {language} needs MeCab and its dictionary: pip install 'sacrebleu[{language}]'"
        ) from error


def detokenized_scores(hypotheses: Sequence[str], references: Sequence[str], language: str) -> dict[str, Score]:
    """Score running text with sacrebleu's defaults for the target language: ``sacrebleu`` and ``chrf2``, 0 to 100."""
    return {
        "sacrebleu": _score(sacre_bleu(language), hypotheses, references),
        "chrf2": _score(CHRF(), hypotheses, references),
    }


def tokenized_bleu(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Score tokens as they are, without smoothing, 0 to 100: the BLEU of Moses' multi-bleu.perl and fairseq-score."""
    return _score(BLEU(tokenize="none", smooth_method="none", force=True), hypotheses, references)


def split_compounds(tokens: str) -> str:
    """Split hyphenated compounds as Ott et al. 2018 do (arXiv 1806.00187): ``Ost-West`` is three tokens.

    The tokens must come without aggressive hyphen splitting, whose ``@-@`` would be split too.
    """
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", tokens)


def paired_bootstrap(
    system: Sequence[str], baseline: Sequence[str], references: Sequence[str], language: str
) -> dict[str, Any]:
    """Compare two systems by sacrebleu's paired bootstrap resampling (Koehn 2004) on running text. Returns by metric:
    the scores of both, means and 95 % confidence half-widths over the resamples, and the p-value of their difference.
    """
    metrics = {"sacrebleu": sacre_bleu(language), "chrf2": CHRF()}
    seed = os.environ.get("SACREBLEU_SEED", "0")
    if not re.fullmatch("[0-9]{1,18}|(?i:none)", seed):
        raise UserError(f"SACREBLEU_SEED is {seed!r}: give a whole number from 0, or none")
    # sacrebleu renames the metrics to their full names (BLEU, chrF2) in the order given.
    signatures, results = PairedTest([("baseline", baseline), ("system", system)], metrics, [references], "bs")()
    comparisons = {}
    for key, name in zip(metrics, signatures, strict=True):
        sides: list[Any] = results[name]
        comparisons[key] = {
            **{
                side: {"score": float(result.score), "mean": float(result.mean), "ci": float(result.ci)}
                for side, result in zip(("baseline", "system"), sides, strict=True)
            },
            # sacrebleu counts resamples that differ by more: for equal systems none does, and its p is wrong
            "p_value": 1.0 if sides[0].score == sides[1].score else float(sides[1].p_value),
            "signature": str(signatures[name]),
        }
    return comparisons


def complete(args: Namespace) -> None:
    """Fill in the defaults that depend on other options; refuse options that contradict each other."""
    if bool(args.generated) == bool(args.hypotheses):
        raise UserError("give either what fairseq-generate printed, or --hypotheses FILE")
    if bool(args.sacrebleu_set) != bool(args.language_pair):
        raise UserError("--sacrebleu-set and --language-pair go together")
    language = args.language_pair and args.language_pair.rpartition("-")[2]
    args.target_lang = args.target_lang or language
    if not args.target_lang:
        raise UserError("--target-lang is needed, such as --target-lang de")
    if language not in (None, args.target_lang):
        raise UserError(f"--target-lang {args.target_lang} contradicts --language-pair {args.language_pair}")
    if args.split_compounds and args.target_lang != "de":
        raise UserError(f"--split-compounds is for German alone: scores of '{args.target_lang}' go without it")
    if args.subwords is None:
        args.subwords = "none" if args.hypotheses else "subword_nmt"
    if args.tokenizer is None:
        args.tokenizer = "none" if args.hypotheses or args.subwords == "sentencepiece" else "moses"


def score(args: Namespace) -> dict[str, Any]:
    """Compute the scores and the comparison with a baseline, by options after ``complete``; write ``--output``."""
    reference_file = args.reference or _file_of_set(args.sacrebleu_set, args.language_pair)
    if args.output is not None:
        texts = args.hypotheses, reference_file, args.tokenized_reference, args.baseline
        check_outputs([args.output], [path for path in (*args.generated, *texts) if path])
        check_can_be_written(args.output)
    moses = Moses(args.target_lang, args.normalize_punctuation)
    reference = _read_joined(reference_file)
    check_tokenization(reference, False, reference_file)
    _remark_on_blanks(reference_file, reference)
    words = _read_system(args, reference)
    tokenized = args.tokenizer == "moses"
    text = [moses.text(line) for line in words] if tokenized else words
    scores = detokenized_scores(text, reference, args.target_lang)
    if scores["sacrebleu"]["score"] < 1:
        _remark("sacreBLEU is below 1: are these translations of this text, in its language, with subwords joined?")
    if args.target_lang in UNSPACED - {"ja", "zh"}:
        _remark(f"sacreBLEU takes what is between spaces for a word, also in '{args.target_lang}': see chrF2 instead")
    if args.target_lang in UNSPACED and not (tokenized and args.tokenized_reference):
        _remark(f"no tokenized BLEU: Moses' rules do not find the words of '{args.target_lang}' (see --help)")
    else:
        tokens = [moses.plain_tokens(line) if tokenized else moses.tokens(line) for line in words]
        if args.tokenized_reference:
            given = _read_joined(args.tokenized_reference, len(reference))
            check_tokenization(given, True, args.tokenized_reference)
            reference_tokens = [moses.plain_tokens(line) for line in given]
        else:
            reference_tokens = [moses.tokens(line) for line in reference]
        scores["tokenized_bleu"] = tokenized_bleu(tokens, reference_tokens)
        if args.split_compounds:
            pairs = [[split_compounds(line) for line in lines] for lines in (tokens, reference_tokens)]
            scores["compound_split_bleu"] = tokenized_bleu(*pairs)
    result: dict[str, Any] = {"segments": len(reference), "target_lang": args.target_lang, "scores": scores}
    if args.baseline:
        baseline = _read_baseline(args, moses, reference)
        result["baseline"] = args.baseline
        result["same_as_baseline"] = text == baseline
        result["paired_bootstrap"] = paired_bootstrap(text, baseline, reference, args.target_lang)
    if args.output is not None:
        write_whole(args.output, "".join(f"{line}\n" for line in text))
    return result


def report(result: dict[str, Any]) -> None:
    """Print the result of ``score`` as text."""
    print(f"{result['segments']} segments, target language {result['target_lang']}")
    for key, score in result["scores"].items():
        line = f"{LABELS[key]:<32} {score['score']:6.2f}  {score['signature']}  {score.get('verbose_score', '')}"
        print(line.rstrip())
    if "paired_bootstrap" in result:
        same = ", which says the same in every line" if result["same_as_baseline"] else ""
        print(f"\npaired bootstrap, compared with {result['baseline']}{same}")
        for key, test in result["paired_bootstrap"].items():
            sides = "  ".join(
                f"{side} {test[side]['score']:.2f} ({test[side]['mean']:.2f} ± {test[side]['ci']:.2f})"
                for side in ("baseline", "system")
            )
            print(f"{LABELS[key]:<32} {sides}  p = {test['p_value']:.4f}  {test['signature']}")


def words_of(
    language: str, lines: list[str], subwords: str, tokenized: bool, reference: list[str], what: str
) -> list[str]:
    """Join subwords, and check that the result is tokens (``tokenized``) or running text."""
    words = undo_subwords(lines, subwords, what)
    # A model that has learned little may write words together. Marked subwords show that it did so itself.
    if language not in UNSPACED and not any("@@ " in line or WORD_START in line for line in lines):
        check_spaces(words, reference, what)
    # A full stop after an unfinished word says nothing about the tokenization.
    ended = [text for text, line in zip(words, lines, strict=True) if not re.search(r"@@ \S$", line)]
    check_tokenization(ended, tokenized, what)
    return words


def _read_system(args: Namespace, reference: list[str]) -> list[str]:
    """Return the system's words: tokens, or running text with ``--tokenizer none``."""
    if args.hypotheses:
        lines, what = _read_text(args.hypotheses, len(reference)), args.hypotheses
    else:
        what = ", ".join(args.generated)
        lines = ordered_texts(read_generate_output(args.generated, args.nbest), len(reference))
    words = words_of(args.target_lang, lines, args.subwords, args.tokenizer == "moses", reference, what)
    _remark_on_blanks(what, words)
    return words


def _read_baseline(args: Namespace, moses: Moses, reference: list[str]) -> list[str]:
    """Return the baseline as running text, from fairseq-generate's output or finished text."""
    what, given = args.baseline, list(read_lines(args.baseline))  # once: it may be a pipe
    if not any(map(is_sentence_line, given)):
        lines = _read_text(what, len(reference), lambda _: given)
        return words_of(args.target_lang, lines, "none", False, reference, what)
    lines = ordered_texts(read_generate_output([what], args.nbest, lambda _: given), len(reference))
    tokenized = args.tokenizer == "moses"
    words = words_of(args.target_lang, lines, args.subwords, tokenized, reference, what)
    return [moses.text(line) for line in words] if tokenized else words


def _read_text(path: str, count: int | None = None, read: Read = read_lines) -> list[str]:
    """Read a file of plain lines, exactly ``count`` of them, if given."""
    lines = list(read(path))
    if not any(map(str.strip, lines)):
        raise UserError(f"{path}: {'blank lines alone' if lines else 'empty'}")
    for number, line in enumerate(lines, start=1):
        if is_sentence_line(line):
            raise UserError(f"{path}:{number}: a line of fairseq-generate, not plain text: give its output as FILE")
    if count not in (None, len(lines)):
        raise UserError(f"{path}: {len(lines)} lines, but the reference has {count}: they must match line by line")
    return lines


def _read_joined(path: str, count: int | None = None) -> list[str]:
    """Read a file of plain lines, which must not hold subwords."""
    lines = _read_text(path, count)
    try:
        return undo_subwords(lines, "none", path)
    except UserError as error:
        raise UserError(f"{path}: subwords, not words: give the text as it was before they were cut") from error


def _file_of_set(name: str, pair: str) -> str:
    """Return the file with the reference of a test set of sacrebleu's catalog."""
    try:
        files = sacrebleu.get_reference_files(name, pair)
    except (Exception, SystemExit) as error:  # sacrebleu raises bare Exceptions, and exits on a wrong checksum
        raise UserError(
            f"sacrebleu's test set {name} for {pair} cannot be had ({error}): see 'sacrebleu --list', or give the text "
            "with --reference"
        ) from error
    if len(files) != 1:
        raise UserError(f"sacrebleu's {name} has {len(files)} references: give one with --reference")
    return files[0]


def _remark(text: str) -> None:
    print(f"remark: {text}", file=sys.stderr)


def _remark_on_blanks(what: str, lines: list[str]) -> None:
    if blank := [number for number, line in enumerate(lines, start=1) if not line.strip()]:
        _remark(f"{what}: {len(blank)} of {len(lines)} lines are blank, the first is {blank[0]}: scored as they are")
