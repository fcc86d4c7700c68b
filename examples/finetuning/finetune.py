"""Train an exported folder on other text by transformers' Seq2SeqTrainer: FOLDER, pairs in files -> OUT. No fairseq."""

import argparse
from pathlib import Path
from typing import Any

from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    DataCollatorForSeq2Seq,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
)


def main() -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", help="made by resmlp-mt export")
    parser.add_argument(
        "--train", nargs=2, type=Path, required=True, metavar=("SOURCE", "TARGET"), help="text, a line each"
    )
    parser.add_argument("--out", type=Path, required=True, help="the new folder")
    parser.add_argument("--epochs", type=float, default=5)
    parser.add_argument("--lr", type=float, default=5e-4, help="the largest learning rate, which falls to zero")
    parser.add_argument("--batch", type=int, default=32, help="sentence pairs of a batch")
    args = parser.parse_args()
    if args.out.exists():
        parser.error(f"--out {args.out}: is there already: choose another name")
    for path in args.train:
        if not path.exists():
            parser.error(f"--train {path}: no such file")
    model: Any = AutoModelForSeq2SeqLM.from_pretrained(args.folder, trust_remote_code=True)
    tokenizer: Any = AutoTokenizer.from_pretrained(args.folder, trust_remote_code=True)
    sources, targets = ([line.strip() for line in path.open(encoding="utf-8")] for path in args.train)
    if len(sources) != len(targets):
        parser.error(f"--train: {len(sources):,} lines beside {len(targets):,}: give files of the same lines")
    pairs = [tokenizer(source, text_target=target) for source, target in zip(sources, targets, strict=True)]
    positions = model.config.model.encoder.positions, model.config.model.decoder.positions
    fitting = [p for p in pairs if len(p["input_ids"]) <= positions[0] and len(p["labels"]) <= positions[1]]
    print(f"{len(fitting):,} of {len(pairs):,} pairs have no more tokens than the model has positions")
    trainer = Seq2SeqTrainer(
        model,
        Seq2SeqTrainingArguments(
            output_dir=args.out, save_strategy="no", num_train_epochs=args.epochs,
            per_device_train_batch_size=args.batch, learning_rate=args.lr, warmup_steps=100, seed=1,
            label_smoothing_factor=0.1, logging_steps=50, report_to=[], use_cpu=True,
        ),
        data_collator=DataCollatorForSeq2Seq(tokenizer, model),
        train_dataset=fitting,
    )  # fmt: skip
    trainer.train()
    trainer.save_model(str(args.out))
    tokenizer.save_pretrained(args.out)


if __name__ == "__main__":
    main()
