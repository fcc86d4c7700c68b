#!/usr/bin/env python3
"""Compare two checkouts of this project: training, fairseq-generate's search, and Translator with each engine.

    python examples/benchmarks/before_after.py OLD NEW --data data-bin --checkpoint gated.pt --text val.en --json FILE

Each checkout has its own process for each kind of work, and both take turns, round by round. A ratio is the new
checkout's rate divided by the old one's in the same round. Memory is the peak resident memory of the process.
"""

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ENGINES = ["pytorch", "pytorch int8", "compiled int8", "onnx"]  # Translator's; they need the exported folder
WORK = ["training", "training --amp", "fairseq-generate", *ENGINES]
SHAPE = 24, 32  # positions, sentences


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkouts", nargs=2, type=Path, metavar="CHECKOUT")
    parser.add_argument("--data", type=Path, required=True, help="the data-bin of the checkpoint's training")
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--text", type=Path, required=True, help="sentences to translate, a line each")
    parser.add_argument("--work", nargs="+", choices=WORK, default=WORK)
    parser.add_argument("--options", default="", help="of fairseq-train, for the new checkout's training alone")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, required=True)
    args = parser.parse_args()
    from resmlp_mt.lab.machine import commit, now, processor  # not where --one runs: there it is the checkout's

    checkouts = [path.resolve() for path in args.checkouts]
    needed = args.data, args.checkpoint, args.text, args.json.resolve().parent
    for path in *(checkout / "resmlp_mt" for checkout in checkouts), *needed:
        if not path.exists():
            parser.error(f"{path}: no such file or folder")
    with tempfile.TemporaryDirectory() as temporary:
        folders = [export(checkout, args, Path(temporary, str(k))) for k, checkout in enumerate(checkouts)]
        rows = {work: compare(work, checkouts, folders, args) for work in args.work}
    study = {
        "command": " ".join(["python", *(Path(word).name if os.path.isabs(word) else word for word in sys.argv)]),
        "commits": [*map(commit, checkouts)],
        "date": now(),
        "machine": f"{processor()}, one thread, Python {platform.python_version()}",
        "rows": rows,
    }
    args.json.write_text(json.dumps(study, indent=1) + "\n")


def export(checkout: Path, args: argparse.Namespace, folder: Path) -> Path:
    """Export the checkpoint to a folder by the command of this checkout; return the folder."""
    if set(args.work) & set(ENGINES):
        run = "from resmlp_mt.cli import main; main()"
        options = ["export", args.checkpoint.resolve(), "--data", args.data.resolve(), "--out", folder, "--onnx"]
        command = [sys.executable, "-c", run, *map(str, options)]
        subprocess.run(command, env=environment(checkout), cwd=checkout, check=True)
    return folder


def environment(checkout: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(checkout), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


def compare(work: str, checkouts: list[Path], folders: list[Path], args: argparse.Namespace) -> dict[str, object]:
    """Run rounds of both checkouts in turn, after one round that does not count."""
    both = []
    for number, (checkout, folder) in enumerate(zip(checkouts, folders, strict=True)):
        options = args.options if number else ""
        given = [work, checkout, folder, args.data.resolve(), args.checkpoint.resolve(), args.text.resolve(), options]
        command = [sys.executable, Path(__file__).resolve(), "--one", *given]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        both.append(subprocess.Popen(list(map(str, command)), env=environment(checkout), **pipes))
    rounds = []
    for _ in range(args.rounds + 1):
        answers = []
        for process in both:
            process.stdin.write("go\n")
            process.stdin.flush()
            answers.append(json.loads(process.stdout.readline()))
        rounds.append(answers)
    for process in both:
        process.stdin.close()
        process.wait()
    counted = rounds[1:]
    ratios = [new["rate"] / old["rate"] for old, new in counted]
    row = {
        "old": [old["rate"] for old, _ in counted],
        "new": [new["rate"] for _, new in counted],
        "ratio": {"median": statistics.median(ratios), "low": min(ratios), "high": max(ratios)},
        "peak MB": [answer["peak MB"] for answer in counted[-1]],
        "same result": all(old["result"] == new["result"] for old, new in rounds),
    }
    print(
        f"{work:>18}: {row['ratio']['median']:.3f} [{min(ratios):.3f} - {max(ratios):.3f}]", row["peak MB"], flush=True
    )
    return row


def one(work: str, checkout: str, folder: str, data: str, checkpoint: str, text: str, options: str) -> None:
    """Do a round for each line on standard input; print its rate, the peak memory and the result."""
    out, sys.stdout = sys.stdout, sys.stderr  # keeps what libraries print out of the answers
    if work.startswith("training"):
        amp = ["--amp"] if "amp" in work else []
        once = training([data, "--user-dir", f"{checkout}/resmlp_mt", *amp, *options.split()])
    elif work == "fairseq-generate":
        once = generation([data, "--user-dir", f"{checkout}/resmlp_mt", "--path", checkpoint, "--beam", "4"])
    else:
        once = translation(work, folder, Path(text).read_text(encoding="utf-8").splitlines())
    for _ in sys.stdin:
        begin = time.perf_counter()
        count, result = once()
        rate = count / (time.perf_counter() - begin)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
        print(json.dumps({"rate": rate, "peak MB": round(peak), "result": result}), file=out, flush=True)


def training(options):
    """Return a function that does updates, at ResMLP-6's width, on one random batch: target words, the last loss."""
    import fairseq_cli.train
    import torch
    from fairseq import options as parsing
    from fairseq import tasks
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    torch.set_num_threads(1)
    parser = parsing.get_training_parser()
    fixed = """
        --arch resmlp_transformer --share-all-embeddings --dropout 0.1 --optimizer adam --lr 1e-4 --max-tokens 4096
        --criterion label_smoothed_cross_entropy --label-smoothing 0.1 --cpu-matmul blas --disable-validation"""
    sys.argv = ["fairseq-train", *options, *fixed.split()]
    cfg = convert_namespace_to_omegaconf(parsing.parse_args_and_arch(parser))
    task = tasks.setup_task(cfg.task)
    model, criterion = task.build_model(cfg.model), task.build_criterion(cfg.criterion)
    torch.manual_seed(1)
    for _, parameter in sorted(model.named_parameters()):  # the same weights, whatever order they are created in
        parameter.data.normal_(std=0.05)
    trainer = fairseq_cli.train.Trainer(cfg, task, model, criterion)
    positions, sentences = SHAPE
    tokens = torch.randint(4, len(task.target_dictionary), (sentences, positions))
    tokens[:, -1] = task.target_dictionary.eos()
    lengths = torch.full((sentences,), positions)
    inputs = {"src_tokens": tokens, "src_lengths": lengths, "prev_output_tokens": tokens.roll(1, 1)}
    sample = {"id": lengths, "nsentences": sentences, "ntokens": tokens.numel(), "net_input": inputs, "target": tokens}
    trainer._dummy_batch = sample

    def once():
        for seed in range(4):
            torch.manual_seed(seed)  # for dropout
            log = trainer.train_step([sample])
        return 4 * tokens.numel(), round(float(log["loss"]), 4)

    return once


def generation(options):
    """Return a function that searches as fairseq-generate does, in batches of 64: sentences, sum of tokens found."""
    import torch
    from fairseq import checkpoint_utils, tasks
    from fairseq import options as parsing
    from fairseq.dataclass.utils import convert_namespace_to_omegaconf

    torch.set_num_threads(1)
    sys.argv = ["fairseq-generate", *options]
    cfg = convert_namespace_to_omegaconf(parsing.parse_args_and_arch(parsing.get_generation_parser()))
    task = tasks.setup_task(cfg.task)
    models, _ = checkpoint_utils.load_model_ensemble([cfg.common_eval.path], task=task)
    for model in models:
        model.eval()
        model.prepare_for_inference_(cfg)
    task.load_dataset("test")
    data = task.dataset("test")
    order = sorted(range(len(data)), key=data.num_tokens)[: 64 * 6]
    batches = [data.collater([data[k] for k in order[start : start + 64]]) for start in range(0, len(order), 64)]
    generator = task.build_generator(models, cfg.generation)

    def once():
        found = [task.inference_step(generator, models, batch) for batch in batches]
        return len(order), sum(int(best[0]["tokens"].sum()) for each in found for best in each)

    return once


def translation(work, folder, lines):
    """Return a function that translates the first 500 lines (onnx: 50) by Translator: number of lines, translations."""
    from resmlp_mt import Translator

    engine, _, precision = work.partition(" ")
    translator = Translator(folder, threads=1, engine=engine, precision=precision or "fp32")
    lines = lines[: 50 if engine == "onnx" else 500]

    def once():
        return len(lines), [each.text for each in translator.translate(lines)]

    return once


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        one(*sys.argv[2:])
    else:
        main()
