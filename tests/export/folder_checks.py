"""What an exported folder does in transformers: checks that need torch, transformers and the folder alone.

Run as a command, with folders that ``tests/export/reference_folders.py`` made, in an environment of any transformers:

    python tests/export/folder_checks.py FOLDER ...
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("HF_HOME", tempfile.mkdtemp())  # where transformers puts its copy of a folder's code

import torch
import transformers
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer, set_seed
from transformers.utils import hub

EXACT = {"rtol": 1e-4, "atol": 1e-4}
REFERENCE = "reference.pt"  # beside the folder: see reference_folders.py


def load(folder):
    model = AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True)
    return model.eval(), AutoTokenizer.from_pretrained(folder, trust_remote_code=True)


def reference(folder):
    return torch.load(Path(folder).parent / REFERENCE)


def check_scores_are_fairseq_s(folder, tmp_path):
    model, _ = load(folder)
    for source, previous, real, scores in reference(folder)["batches"]:
        with torch.no_grad():
            found = model(input_ids=source, decoder_input_ids=previous, use_cache=False).logits
        torch.testing.assert_close(found[real], scores[real], **EXACT)


def check_text_is_treated_as_prepared(folder, tmp_path):
    _, tokenizer = load(folder)
    for line, numbers, target_numbers, text in reference(folder)["text"]:
        assert tokenizer(line)["input_ids"] == numbers, line
        assert tokenizer(text_target=line)["input_ids"] == target_numbers, line
        assert tokenizer.decode(target_numbers, skip_special_tokens=True) == text
        assert tokenizer.batch_decode([[2, *target_numbers, 1, -100]]) == [text]
    lines = [line for line, *_ in reference(folder)["text"]]
    batch = tokenizer(lines, padding=True, return_tensors="pt")
    assert batch["input_ids"].ne(1).equal(batch["attention_mask"].bool())
    assert tokenizer(lines[0], truncation=True, max_length=3)["input_ids"][-1] == 2
    assert tokenizer.convert_tokens_to_ids(tokenizer.tokenize(lines[0])) == tokenizer(lines[0])["input_ids"][:-1]


def check_the_side_of_padding_changes_nothing(folder, tmp_path):
    model, _ = load(folder)
    right = torch.tensor([[4, 5, 6, 7, 2], [6, 5, 2, 1, 1]])
    left = torch.tensor([[1, 4, 5, 6, 7, 2], [1, 1, 1, 6, 5, 2]])
    previous = torch.tensor([[2, 5, 6], [2, 7, 1]])
    with torch.no_grad():
        expected = model(input_ids=right, decoder_input_ids=previous).logits
        other = left.masked_fill(left == 1, 9)  # the mask says what is padding
        masked = model(input_ids=other, attention_mask=left.ne(1).long(), decoder_input_ids=previous)
        torch.testing.assert_close(masked.logits[:, :2], expected[:, :2], **EXACT)
        shifted = model(input_ids=left, decoder_input_ids=torch.tensor([[2, 5, 6], [1, 2, 7]]), use_cache=False)
        torch.testing.assert_close(shifted.logits[1, 1:], expected[1, :2], **EXACT)
        try:
            model(input_ids=left, decoder_input_ids=torch.tensor([[2, 5], [1, 2]]))
        except ValueError as error:
            assert "begin with padding" in str(error)
        else:
            raise AssertionError("padding in front of decoder inputs is taken, with a cache")


def check_the_cache_changes_nothing_at_any_length(folder, tmp_path):
    model, _ = load(folder)
    source = torch.tensor([[4, 5, 6, 7, 2], [6, 5, 2, 1, 1]])
    longest = model.config.model.decoder.positions
    previous = torch.randint(4, 20, (2, longest), generator=torch.Generator().manual_seed(0))
    previous[:, 0] = 2
    with torch.no_grad():
        expected = model(input_ids=source, decoder_input_ids=previous, use_cache=False).logits
        for width in 1, 3:
            past, at = None, 0
            while at < longest:
                out = model(
                    input_ids=source,
                    decoder_input_ids=previous[:, at : at + width],
                    past_key_values=past,
                    use_cache=True,
                )
                torch.testing.assert_close(out.logits, expected[:, at : at + width], **EXACT)
                past, at = out.past_key_values, at + width


def check_generation(folder, tmp_path):
    model, _ = load(folder)
    source = torch.tensor([[4, 5, 6, 7, 8, 9, 2], [1, 1, 6, 5, 9, 9, 2], [1, 1, 1, 1, 1, 7, 2]])
    found = {}
    for name, options in {
        "greedy": {"num_beams": 1},
        "beams": {"num_beams": 4, "num_return_sequences": 3},
        "sampling": {"num_beams": 1, "do_sample": True},
    }.items():
        for use_cache in True, False:
            set_seed(1)
            mask = source.ne(1).long()
            found[name, use_cache] = model.generate(
                input_ids=source, attention_mask=mask, max_length=13, use_cache=use_cache, **options
            )
        assert found[name, True].equal(found[name, False]), name
    alone = model.generate(input_ids=source[1:2, 2:], max_length=13, num_beams=1)[0]
    assert found["greedy", True][1, : len(alone)].equal(alone)
    best = greedy_by_hand(model, source[1:2, 2:], 12)
    assert alone.tolist() == best


@torch.no_grad()
def greedy_by_hand(model, source, most):
    tokens = [2]
    while len(tokens) <= most and (len(tokens) == 1 or tokens[-1] != 2):
        logits = model(input_ids=source, decoder_input_ids=torch.tensor([tokens]), use_cache=False).logits
        tokens.append(int(logits[0, -1].argmax()))
    return tokens


def check_attention(folder, tmp_path):
    model, _ = load(folder)
    source = torch.tensor([[4, 5, 6, 2], [6, 2, 1, 1]])
    out = model(input_ids=source, decoder_input_ids=torch.tensor([[2, 5], [2, 6]]), output_attentions=True)
    for layer in out.cross_attentions:
        if layer is not None:
            assert layer.shape[0] == 2 and layer.shape[2:] == (2, 4)
            torch.testing.assert_close(layer.sum(-1), torch.ones_like(layer.sum(-1)))
            assert not layer[1, :, :, 2:].any()


def check_the_loss(folder, tmp_path):
    model, _ = load(folder)
    source, labels = torch.tensor([[4, 5, 2], [6, 2, 1]]), torch.tensor([[5, 6, 2], [7, 2, -100]])
    previous = torch.tensor([[2, 5, 6], [2, 7, 1]])
    out = model(input_ids=source, labels=labels)
    logits = model(input_ids=source, decoder_input_ids=previous, use_cache=False).logits
    each = [-logits[b, t].log_softmax(-1)[labels[b, t]] for b, t in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]]
    torch.testing.assert_close(out.loss, torch.stack(each).mean())
    out.loss.backward()
    assert all(parameter.grad is not None for parameter in model.decoder.layers.parameters())


def check_fine_tuning(folder, tmp_path):
    from transformers import DataCollatorForSeq2Seq, Seq2SeqTrainer, Seq2SeqTrainingArguments

    model, tokenizer = load(folder)
    lines = [line for line, *_ in reference(folder)["text"]]
    pairs = [{**tokenizer(line), "labels": tokenizer(text_target=line)["input_ids"]} for line in lines]
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    trainer = Seq2SeqTrainer(
        model,
        Seq2SeqTrainingArguments(
            str(tmp_path / "training"),
            max_steps=4,
            per_device_train_batch_size=4,
            gradient_accumulation_steps=2,
            learning_rate=0.01,
            report_to=[],
            predict_with_generate=True,
            use_cpu=True,
            generation_max_length=8,
            generation_num_beams=1,
        ),
        DataCollatorForSeq2Seq(tokenizer, model),
        pairs,
        pairs,
        processing_class=tokenizer,
    )
    first = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < first
    assert any(not torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert trainer.predict(pairs).predictions.shape[0] == len(pairs)
    trainer.save_model(str(tmp_path / "tuned"))
    again, _ = load(tmp_path / "tuned")
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name


def check_saving(folder, tmp_path):
    model, tokenizer = load(folder)
    saved = tmp_path / "saved"
    model.save_pretrained(saved)
    tokenizer.save_pretrained(saved)
    names = {path.name for path in Path(folder).iterdir()} - {"README.md"}
    assert names <= {path.name for path in saved.iterdir()}, names - {path.name for path in saved.iterdir()}
    again, _ = load(saved)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name
    check_text_is_treated_as_prepared_by(saved, reference(folder)["text"])
    state = {name for name in model.state_dict() if name.endswith("embed_tokens.weight")}
    assert len({model.state_dict()[name].data_ptr() for name in state}) == len(
        {again.state_dict()[name].data_ptr() for name in state}
    )


def check_pushing(folder, tmp_path):
    """``push_to_hub``, with a folder in the hub's place."""
    there = tmp_path / "hub"
    there.mkdir()

    def create_commit(operations, **_):
        for operation in operations:
            shutil.copyfile(operation.path_or_fileobj, there / operation.path_in_repo)

    def create_repo(*_, **__):
        return SimpleNamespace(repo_id="name/model")

    calls = {"create_repo": create_repo, "create_commit": create_commit}
    fake = {"hf_api": lambda: SimpleNamespace(**calls)} if hasattr(hub, "hf_api") else calls  # 5.x; 4.x
    model, tokenizer = load(folder)
    with patch.multiple(hub, create_and_tag_model_card=lambda *_, **__: hub.ModelCard(""), **fake):
        model.push_to_hub("name/model")
        tokenizer.push_to_hub("name/model")
    again, _ = load(there)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name
    check_text_is_treated_as_prepared_by(there, reference(folder)["text"])


def check_text_is_treated_as_prepared_by(folder, known):
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=True)
    for line, numbers, _, _ in known:
        assert tokenizer(line)["input_ids"] == numbers, line


CHECKS = [value for name, value in globals().items() if name.startswith("check_") and not name.endswith("_by")]


def main():
    torch.set_num_threads(1)
    failed = 0
    for folder in sys.argv[1:]:
        for check in CHECKS:
            with tempfile.TemporaryDirectory() as place:
                try:
                    check(folder, Path(place))
                except Exception as error:
                    failed += 1
                    print(f"{folder}: {check.__name__}: {type(error).__name__}: {error}", file=sys.stderr)
                    if os.environ.get("TRACE"):
                        raise
    unwanted = {"fairseq", "resmlp_mt"} & sys.modules.keys()
    print(
        f"transformers {transformers.__version__}: {len(CHECKS)} checks of {len(sys.argv) - 1} folders, {failed} failed"
    )
    sys.exit(1 if failed or unwanted else 0)


if __name__ == "__main__":
    main()
