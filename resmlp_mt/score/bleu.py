"""The figures: sacreBLEU and chrF2 on running text, BLEU on tokens, and the paired bootstrap, all by sacrebleu."""

import json
import os
import re
from collections.abc import Sequence
from typing import Any

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.significance import PairedTest

from resmlp_mt.common.errors import UserError

UNSPACED = frozenset(["bo", "dz", "ja", "km", "lo", "my", "th", "zh"])
"""Languages that write words without spaces between them."""

Score = dict[str, Any]
"""What ``sacrebleu --format json`` prints for a metric: name, score, signature (and its parts), verbose_score."""


def _score(metric: BLEU | CHRF, hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    score = metric.corpus_score(hypotheses, [references])
    return json.loads(score.format(width=4, signature=str(metric.get_signature()), is_json=True))


def sacre_bleu(language: str) -> BLEU:
    """sacreBLEU with its defaults for a target language: for Chinese, Japanese and Korean with their own words."""
    try:
        return BLEU(trg_lang=language)
    except (RuntimeError, AssertionError) as error:  # the second for a dictionary of another version
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
    """Score tokens as they stand, without smoothing, 0 to 100: the BLEU of Moses' multi-bleu.perl and fairseq-score."""
    return _score(BLEU(tokenize="none", smooth_method="none", force=True), hypotheses, references)


def split_compounds(tokens: str) -> str:
    """Split hyphenated compounds as Ott et al. 2018 do (arXiv 1806.00187): ``Ost-West`` is three tokens.

    The tokens must come without aggressive hyphen splitting, whose ``@-@`` would be split too.
    """
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", tokens)


def paired_bootstrap(
    system: Sequence[str], baseline: Sequence[str], references: Sequence[str], language: str
) -> dict[str, Any]:
    """Test whether two systems differ, by sacrebleu's paired bootstrap resampling (Koehn 2004) on running text.

    Returns:
        by metric the scores of both (0 to 100), means and 95 % confidence half-widths over the resamples, the p-value
        of their difference, and the signature, which names the number of resamples and the seed (SACREBLEU_SEED)
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
            # sacrebleu counts the resamples that differ by more, and finds none where nothing differs in any
            "p_value": 1.0 if sides[0].score == sides[1].score else float(sides[1].p_value),
            "signature": str(signatures[name]),
        }
    return comparisons
