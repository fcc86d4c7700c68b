"""Train an exported folder on other text with transformers' Seq2SeqTrainer, without fairseq: FOLDER, text -> OUT."""

import argparse
from pathlib import Path
from typing import Any

try:
    from transformers import (
        AutoModelForSeq2SeqLM,
        AutoTokenizer,
        DataCollatorForSeq2Seq,
        Seq2SeqTrainer,
        Seq2SeqTrainingArguments,
    )
except ModuleNotFoundError as error:
    raise SystemExit(f"{error}: pip install . transformers accelerate, in an environment without fairseq") from error

from resmlp_mt.cli.arguments import number_within
from resmlp_mt.common.errors import UserError, one_line_errors
from resmlp_mt.common.files import atomic_folder, check_new, read_parallel, remove_unfinished
from resmlp_mt.translate.model_folder import find_folder, load_settings


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="made by resmlp-mt export")
    parser.add_argument(
        "--train", nargs=2, type=Path, required=True, metavar=("SOURCE", "TARGET"), help="text, a line each"
    )
    parser.add_argument("--out", type=Path, required=True, help="the new folder")
    parser.add_argument("--epochs", type=number_within(0.01, 1e5), default=5)
    parser.add_argument("--lr", type=number_within(0.0, 1.0), default=5e-4, help="the largest rate; it falls to zero")
    parser.add_argument("--batch", type=number_within(1, 10**5), default=32, help="sentence pairs of a batch")
    args = parser.parse_args()
    check_new(args.out)
    remove_unfinished(args.out)
    cfg, _, _ = load_settings(find_folder(args.folder))
    model: Any = AutoModelForSeq2SeqLM.from_pretrained(args.folder, trust_remote_code=True)
    tokenizer: Any = AutoTokenizer.from_pretrained(args.folder, trust_remote_code=True)
    pairs = [tokenizer(source, text_target=target) for source, target in read_parallel(args.train)]
    longest = cfg.encoder.positions, cfg.decoder.positions
    fitting = [p for p in pairs if 1 < len(p["input_ids"]) <= longest[0] and 1 < len(p["labels"]) <= longest[1]]
    if not fitting:
        raise UserError(f"--train {args.train[0]}: no pair has words, and no more tokens than positions: give others")
    print(f"{len(fitting):,} of {len(pairs):,} pairs have words, and no more tokens than the model has positions")
    with atomic_folder(args.out) as new:
        trainer = Seq2SeqTrainer(
            model,
            Seq2SeqTrainingArguments(
                output_dir=new, save_strategy="no", num_train_epochs=args.epochs,
                per_device_train_batch_size=args.batch, learning_rate=args.lr, seed=1,
                warmup_steps=min(100, round(args.epochs * len(fitting) / args.batch) // 2),
                label_smoothing_factor=0.1, logging_steps=50, report_to=[], use_cpu=True,
            ),
            data_collator=DataCollatorForSeq2Seq(tokenizer, model),
            train_dataset=fitting,
        )  # fmt: skip
        trainer.train()
        trainer.save_model(str(new))
        tokenizer.save_pretrained(new)


if __name__ == "__main__":
    with one_line_errors():
        main()
