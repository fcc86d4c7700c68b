"""What training the systems of table 5, and two beyond it, costs, by formula."""

import argparse
import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

from fairseq import options

import resmlp_mt.fairseq_plugin  # noqa: F401  (registers the model)
from resmlp_mt.common.errors import UserError
from resmlp_mt.common.tables import markdown_table, text_table
from resmlp_mt.lab.analysis import flops

ROOT = Path(__file__).resolve().parents[3]
SYSTEMS = ("lstm", "convs2s", "transformer", "resmlp6", "resmlp12", "gated6", "gated12")

CORPORA: dict[str, dict[str, int]] = {
    # pairs: Vaswani et al. 2017, section 5.1; vocabulary: the BPE merges of prepare_wmt14.py; length: target subwords
    # with </s>, wpb / bsz of training logs in fairseq issues 506 (En-De, but WMT18's corpora) and 233 (En-Fr, WMT14)
    "en-de": {"pairs": 4_500_000, "vocabulary": 32_000, "length": 30},
    "en-fr": {"pairs": 36_000_000, "vocabulary": 40_000, "length": 37},
}

GPUS = {"V100": 125e12, "A100": 312e12}
"""Peak FLOP/s of tensor cores in half precision, without sparsity: NVIDIA's data sheets of V100 SXM2 and A100."""


def training_options(pair: str, system: str) -> argparse.Namespace:
    """The options of fairseq-train, architecture applied, that the recipe trains a system with."""
    script = f"examples/wmt14_{pair.replace('-', '_')}/train.sh"
    if not (ROOT / script).is_file():
        raise UserError(f"{ROOT / script}: no such file: the recipes are in the checkout: start resmlp-mt cost")
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
    """FLOPs a target token (forward), target tokens and FLOPs of the whole training, GPU-hours at ``rate`` FLOP/s."""
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


def run(args: argparse.Namespace) -> None:
    """What ``cost`` does with its options."""
    unknown = [pair for pair in args.pairs if pair not in CORPORA]
    if unknown:
        raise UserError(f"no pair {unknown[0]}: give {' or '.join(CORPORA)}")
    rate = GPUS[args.gpu] * args.utilization
    costs = [estimate(pair, system, rate) for pair in dict.fromkeys(args.pairs or CORPORA) for system in SYSTEMS]
    if args.json:
        print(json.dumps({"estimate": True, "gpu": args.gpu, "flops_per_second": rate, "costs": costs}))
        return
    table = [["estimate", "forward MFLOPs a token", "target tokens", "training FLOPs", "GPU-hours"]]
    for cost in costs:
        figures = f"{cost['target_tokens']:.1e}", f"{cost['training_flops']:.1e}", f"{cost['gpu_hours']:,.0f}"
        table.append([f"{cost['pair']} {cost['system']}", f"{cost['flops_per_target_token'] / 1e6:.0f}", *figures])
    print((markdown_table if args.markdown else text_table)(table))
    assumed = f"{args.gpu} at {100 * args.utilization:.3g}% of {GPUS[args.gpu] / 1e12:.0f} TFLOP/s (half precision)"
    print(f"\nEstimates, for {assumed}.")
