"""What the fits of a study say, in words."""

from collections.abc import Mapping

from resmlp_mt.lab.scaling.estimates import CONFIDENCE, Estimate
from resmlp_mt.lab.scaling.fit import FamilyFit

MOST = 1e6
"""The largest range that is told as a number."""


def findings(families: Mapping[str, FamilyFit], differences: Mapping[str, Mapping[str, Estimate]]) -> list[str]:
    """Sentences on the laws of each family, and on how the families differ."""
    told = []
    for name, fit in families.items():
        told.append(f"{name}: {of_family(fit)}")
    for pair, exponents in differences.items():
        for exponent, each in exponents.items():
            told.append(f"{pair}, exponent {exponent}: {each}. {_of_difference(each)}")
    return told


def of_family(fit: FamilyFit) -> str:
    """Sentences on one family."""
    if fit.why_not:
        return f"{fit.why_not}."
    parts = [
        f"the law of N and D misses the {len(fit.runs)} runs that it was fitted to by {fit.residual:.1%} of the loss.",
        *(
            f"Without {each.what} it predicts the losses of those {each.runs} runs with an error of {each.error:.1%}."
            for each in fit.held_out
        ),
        _together(fit),
        _exponent("alpha, of parameters,", fit.constants["alpha"], "N", fit.ranges["N"]),
        _exponent("beta, of data,", fit.constants["beta"], "D", fit.ranges["D"]),
        _exponent("the exponent of compute on the frontier", fit.compute["alpha"], "Compute", _compute_range(fit)),
    ]
    if fit.constants["alpha"].identified and fit.constants["beta"].identified:
        parts.append(
            f"More compute C is best spent on a model that grows as C^{fit.constants['N*']} "
            f"and on data that grows as C^{fit.constants['D*']}."
        )
    else:
        parts.append("How more compute is best spent is not identified, as an exponent that it needs is not.")
    return " ".join(parts)


def _together(fit: FamilyFit) -> str:
    errors = ", ".join(f"{each.error_together:.1%}" for each in fit.held_out)
    predicts = f" and predicts the same runs with errors of {errors}" if errors else ""
    return " ".join(
        [
            f"A law in which N and D act together misses the runs by {fit.residual_together:.1%}{predicts}.",
            _exponent("its alpha, of parameters,", fit.together["alpha"], "N", fit.ranges["N"]),
            _exponent("its beta, of data,", fit.together["beta"], "D", fit.ranges["D"]),
        ]
    )


def _compute_range(fit: FamilyFit) -> float:
    assert fit.frontier is not None
    return float(fit.frontier.compute[-1] / fit.frontier.compute[0])


def _exponent(name: str, each: Estimate, of: str, now: float) -> str:
    if each.identified:
        return f"{name[0].upper()}{name[1:]} is {each}."
    needed = each.needed(now)
    far = f"a factor of about {needed:,.0f}" if needed <= MOST else f"a factor of more than {MOST:,.0f}"
    return (
        f"{name[0].upper()}{name[1:]} is not identified: {each}. {of} spans a factor of {now:,.0f}; {far} would be "
        "needed, or more runs."
    )


def _of_difference(each: Estimate) -> str:
    if each.low > 0 or each.high < 0:
        return f"It differs from zero ({CONFIDENCE:.0%} interval)."
    return "Not identified: zero is in the interval."
