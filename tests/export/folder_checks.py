"""Checks of an exported folder in transformers; they need only torch, transformers and the folder.

Run it on folders that ``tests/export/reference_folders.py`` made, in an environment with any version of transformers:
``python tests/export/folder_checks.py FOLDER ...``
"""

import os
import sys
import tempfile
import traceback
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("HF_HOME", tempfile.mkdtemp())  # where transformers puts its copy of a folder's code

import torch
import transformers

EXACT = {"rtol": 1e-4, "atol": 1e-4}


def load(folder):
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True)
    return model.eval(), transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=True)


def reference(folder):
    return torch.load(folder.parent / "reference.pt")  # see reference_folders.py


def check_scores_are_fairseq_s(model, tokenizer, folder, tmp_path):
    for source, previous, real, scores in reference(folder)["batches"]:
        with torch.no_grad():
            found = model(input_ids=source, decoder_input_ids=previous, use_cache=False).logits
        torch.testing.assert_close(found[real], scores[real], **EXACT)


def check_text_is_treated_as_prepared(model, tokenizer, folder, tmp_path):
    lines = [line for line, *_ in reference(folder)["text"]]
    for line, numbers, target_numbers, text in reference(folder)["text"]:
        assert tokenizer(line)["input_ids"] == numbers, line
        assert tokenizer(text_target=line)["input_ids"] == target_numbers, line
        assert tokenizer.decode(target_numbers, skip_special_tokens=True) == text
        assert tokenizer.batch_decode([[2, *target_numbers, 1, -100]]) == [text]
    batch = tokenizer(lines, padding=True, return_tensors="pt")
    assert batch["input_ids"].ne(1).equal(batch["attention_mask"].bool())
    assert tokenizer(lines[0], truncation=True, max_length=3)["input_ids"][-1] == 2
    assert tokenizer.convert_tokens_to_ids(tokenizer.tokenize(lines[0])) == tokenizer(lines[0])["input_ids"][:-1]


def check_the_side_of_padding_changes_nothing(model, tokenizer, folder, tmp_path):
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
        for more in (
            {"decoder_input_ids": torch.tensor([[2, 5], [1, 2]])},
            *({"labels": torch.tensor([[5, 2], [padding, 2]])} for padding in (-100, 1)),
        ):
            try:
                model(input_ids=left, **more)
            except ValueError as error:
                assert "begin with padding" in str(error)
            else:
                raise AssertionError(f"padding in front is taken, with a cache: {more}")


def check_the_cache_changes_nothing_at_any_length(model, tokenizer, folder, tmp_path):
    source = torch.tensor([[4, 5, 6, 7, 2], [6, 5, 2, 1, 1]])
    longest = model.config.model.decoder.positions
    previous = torch.randint(4, 20, (2, longest), generator=torch.Generator().manual_seed(0))
    previous[:, 0] = 2
    with torch.no_grad():
        expected = model(input_ids=source, decoder_input_ids=previous, use_cache=False).logits
        for width in 1, 3:
            past = None
            for at in range(0, longest, width):
                some = previous[:, at : at + width]
                out = model(input_ids=source, decoder_input_ids=some, past_key_values=past, use_cache=True)
                torch.testing.assert_close(out.logits, expected[:, at : at + width], **EXACT)
                past = out.past_key_values


def check_generation(model, tokenizer, folder, tmp_path):
    source = torch.tensor([[4, 5, 6, 7, 8, 9, 2], [1, 1, 6, 5, 9, 9, 2], [1, 1, 1, 1, 1, 7, 2]])
    batch = {"input_ids": source, "attention_mask": source.ne(1).long(), "max_length": 13}
    beams, sampling = {"num_beams": 4, "num_return_sequences": 3}, {"num_beams": 1, "do_sample": True}
    for options in beams, sampling, {"num_beams": 1, "output_attentions": True}:
        found = []
        for use_cache in True, False:
            transformers.set_seed(1)
            found.append(model.generate(**batch, use_cache=use_cache, **options))
        assert found[0].equal(found[1]), options
    alone, greedy = source[1:2, 2:], [2]  # greedy search by hand
    while len(greedy) < 13 and (len(greedy) == 1 or greedy[-1] != 2):
        logits = model(input_ids=alone, decoder_input_ids=torch.tensor([greedy]), use_cache=False).logits
        greedy.append(int(logits[0, -1].argmax()))
    assert model.generate(input_ids=alone, max_length=13, num_beams=1)[0].tolist() == greedy
    assert found[0][1, : len(greedy)].tolist() == greedy


def check_bfloat16(model, tokenizer, folder, tmp_path):
    half = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder, trust_remote_code=True, dtype=torch.bfloat16)
    inputs = {"input_ids": torch.tensor([[4, 5, 6, 2]]), "decoder_input_ids": torch.tensor([[2, 5, 6]])}
    with torch.no_grad():
        expected, found = model(**inputs).logits, half(**inputs).logits
    assert found.dtype == torch.bfloat16 and (found - expected).abs().max() < 0.05 * expected.abs().max()


def check_attention_and_the_loss(model, tokenizer, folder, tmp_path):
    source = torch.tensor([[4, 5, 6, 2], [6, 2, 1, 1]])
    out = model(input_ids=source, decoder_input_ids=torch.tensor([[2, 5], [2, 6]]), output_attentions=True)
    weights = [*filter(torch.is_tensor, out.cross_attentions)]
    assert len(weights) == sum(layer.cross_attention is not None for layer in model.decoder.layers)
    for layer in weights:
        assert layer.shape[0] == 2 and layer.shape[2:] == (2, 4)
        torch.testing.assert_close(layer.sum(-1), torch.ones_like(layer.sum(-1)))
        assert not layer[1, :, :, 2:].any()
    source, labels = torch.tensor([[4, 5, 2], [6, 2, 1]]), torch.tensor([[5, 6, 2], [7, 2, -100]])
    previous = torch.tensor([[2, 5, 6], [2, 7, 1]])
    out = model(input_ids=source, labels=labels)
    logits = model(input_ids=source, decoder_input_ids=previous, use_cache=False).logits
    each = [-logits[b, t].log_softmax(-1)[labels[b, t]] for b, t in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]]
    torch.testing.assert_close(out.loss, torch.stack(each).mean())
    out.loss.backward()
    assert all(parameter.grad is not None for parameter in model.decoder.layers.parameters())


def check_fine_tuning(model, tokenizer, folder, tmp_path):
    lines = [line for line, *_ in reference(folder)["text"]]
    pairs = [{**tokenizer(line), "labels": tokenizer(text_target=line)["input_ids"]} for line in lines]
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    settings = {"max_steps": 4, "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "report_to": []}
    generation = {"predict_with_generate": True, "generation_max_length": 8, "generation_num_beams": 1}
    settings = {**settings, **generation, "learning_rate": 0.01, "use_cpu": True}
    arguments = transformers.Seq2SeqTrainingArguments(str(tmp_path / "training"), **settings)
    collator = transformers.DataCollatorForSeq2Seq(tokenizer, model)
    trainer = transformers.Seq2SeqTrainer(model, arguments, collator, pairs, pairs, processing_class=tokenizer)
    first = trainer.evaluate()["eval_loss"]
    trainer.train()
    assert trainer.evaluate()["eval_loss"] < first
    assert any(not torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert trainer.predict(pairs).predictions.shape[0] == len(pairs)
    trainer.save_model(str(tmp_path / "tuned"))
    assert_same_weights(load(tmp_path / "tuned")[0], model)


def assert_same_weights(again, model):
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name


def check_saving(model, tokenizer, folder, tmp_path):
    """``push_to_hub`` uploads the same files."""
    saved = tmp_path / "saved"
    model.save_pretrained(saved)
    tokenizer.save_pretrained(saved)
    assert {path.name for path in folder.iterdir()} - {path.name for path in saved.iterdir()} == {"README.md"}
    again, tokenizer = load(saved)
    assert_same_weights(again, model)
    for line, numbers, *_ in reference(folder)["text"]:
        assert tokenizer(line)["input_ids"] == numbers, line
    embeddings = [name for name in model.state_dict() if name.endswith("embed_tokens.weight")]
    first, second = ({each.state_dict()[name].data_ptr() for name in embeddings} for each in (model, again))
    assert len(first) == len(second)  # shared parameters are shared again


CHECKS = [value for name, value in globals().items() if name.startswith("check_")]


def main():
    torch.set_num_threads(1)
    failed = 0
    for folder in map(Path, sys.argv[1:]):
        for check in CHECKS:
            with tempfile.TemporaryDirectory() as place:
                try:
                    check(*load(folder), folder, Path(place))
                except Exception:
                    failed += 1
                    print(f"{folder}: {check.__name__}:\n{traceback.format_exc()}", file=sys.stderr)
    assert not {"fairseq", "resmlp_mt"} & sys.modules.keys()
    done = f"{len(CHECKS)} checks of {len(sys.argv) - 1} folders, {failed} failed"
    print(f"transformers {transformers.__version__}: {done}")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
