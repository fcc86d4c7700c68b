"""Estimate what training a system of table 5, or beyond it, costs: FLOPs, and GPU-hours at some utilization."""

import argparse
import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

from resmlp_mt.cli.arguments import command_parser
from resmlp_mt.common.errors import UserError
from resmlp_mt.common.tables import markdown_table, text_table

ROOT = Path(__file__).resolve().parents[2]
SYSTEMS = ("lstm", "convs2s", "transformer", "resmlp6", "resmlp12", "gated6", "gated12")

CORPORA: dict[str, dict[str, int]] = {
    # pairs: Vaswani et al. 2017, section 5.1; vocabulary: the BPE merges of prepare_wmt14.py; length: target subwords
    # with </s>, wpb / bsz of training logs in fairseq issues 506 (En-De, but WMT18's corpora) and 233 (En-Fr, WMT14)
    "en-de": {"pairs": 4_500_000, "vocabulary": 32_000, "length": 30},
    "en-fr": {"pairs": 36_000_000, "vocabulary": 40_000, "length": 37},
}

GPUS = {"V100": 125e12, "A100": 312e12}
"""Peak FLOP/s of tensor cores in half precision, without sparsity: NVIDIA's data sheets of V100 SXM2 and A100."""

UTILIZATION = 0.14
"""Of the peak, by the same count: in fairseq issue 233, Ott et al.'s Transformer big trains on 1.67 million target
tokens a second (En-Fr) in half precision on 128 V100s. Smaller and recurrent models use less of a GPU."""

EPILOG = """
formula:
  training FLOPs = 3 x forward FLOPs a target token x target tokens
  target tokens  = updates x tokens of a batch (padding included), or epochs x pairs x length
  GPU-hours      = training FLOPs / (peak x utilization) / 3600
Forward FLOPs are those of resmlp_mt/lab/analysis/flops.py with sources and targets of the same length. Sizes, batch,
updates and epochs are those of the command that train.sh prints with DRY_RUN=1.
"""


def get_parser() -> argparse.ArgumentParser:
    parser = command_parser(__doc__, EPILOG)
    parser.add_argument("pairs", nargs="*", metavar="PAIR", help=f"{' or '.join(CORPORA)} (default: both)")
    parser.add_argument("--gpu", choices=GPUS, default="V100", help="default: %(default)s")
    parser.add_argument(
        "--utilization", type=float, default=UTILIZATION, metavar="U", help="share of the peak (default: %(default)s)"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--markdown", action="store_true", help="print the table in Markdown")
    form.add_argument("--json", action="store_true", help="print one JSON object")
    return parser


def training_options(pair: str, system: str) -> argparse.Namespace:
    """The options of fairseq-train, architecture applied, that the recipe trains a system with."""
    from fairseq import options

    import resmlp_mt.fairseq_plugin  # noqa: F401  (registers the model)

    script = f"examples/wmt14_{pair.replace('-', '_')}/train.sh"
    if not (ROOT / script).is_file():
        raise UserError(
            f"{ROOT / script}: no such file: the recipes are in the checkout: start scripts/estimate_cost.py"
        )
    environment = {key: value for key, value in os.environ.items() if key not in ("GPUS", "NODES", "AT_ONCE")}
    done = subprocess.run(
        ["bash", script, system], cwd=ROOT, env={**environment, "DRY_RUN": "1"}, capture_output=True, text=True
    )
    if done.returncode:
        raise UserError(f"{script}: {done.stderr.strip()}")
    words = shlex.split(done.stdout)[1:]
    user_dir = words.index("--user-dir")
    del words[user_dir : user_dir + 2]  # it is imported already, and named from the checkout
    return options.parse_args_and_arch(options.get_training_parser(), words)


def estimate(pair: str, system: str, rate: float) -> dict[str, Any]:
    """What training a system costs.

    Args:
        rate: FLOP/s of a GPU

    Returns:
        FLOPs a target token (forward), target tokens and FLOPs of the whole training, GPU-hours
    """
    from resmlp_mt.lab.analysis import flops

    corpus, args = CORPORA[pair], training_options(pair, system)
    per_token = flops.of_options(args, corpus["vocabulary"]).per_target_token(corpus["length"], corpus["length"])
    if args.max_update:
        tokens = args.max_update * args.max_tokens * args.update_freq[0]
    else:
        tokens = args.max_epoch * corpus["pairs"] * corpus["length"]
    total = flops.TRAINING * per_token * tokens
    return {
        "pair": pair,
        "system": system,
        "flops_per_target_token": per_token,
        "target_tokens": tokens,
        "training_flops": total,
        "gpu_hours": total / rate / 3600,
    }


def main() -> None:
    parser = get_parser()
    args = parser.parse_args()
    for pair in args.pairs:
        if pair not in CORPORA:
            parser.error(f"no pair {pair}: give {' or '.join(CORPORA)}")
    if not 0.001 <= args.utilization <= 1:
        parser.error(f"--utilization {args.utilization}: give a share of the peak, from 0.001 to 1")
    rate = GPUS[args.gpu] * args.utilization
    costs = [estimate(pair, system, rate) for pair in dict.fromkeys(args.pairs or CORPORA) for system in SYSTEMS]
    assumed = f"{args.gpu} at {100 * args.utilization:.3g}% of {GPUS[args.gpu] / 1e12:.0f} TFLOP/s (half precision)"
    if args.json:
        print(json.dumps({"estimate": True, "gpu": args.gpu, "flops_per_second": rate, "costs": costs}))
        return
    table = [["estimate", "forward MFLOPs a token", "target tokens", "training FLOPs", "GPU-hours"]]
    table += [
        [
            f"{cost['pair']} {cost['system']}",
            f"{cost['flops_per_target_token'] / 1e6:.0f}",
            f"{cost['target_tokens']:.1e}",
            f"{cost['training_flops']:.1e}",
            f"{cost['gpu_hours']:,.0f}",
        ]
        for cost in costs
    ]
    print((markdown_table if args.markdown else text_table)(table))
    print(f"\nEstimates, for {assumed}.")
