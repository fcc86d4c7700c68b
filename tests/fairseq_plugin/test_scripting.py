"""``torch.jit.script``: the scripted model is the model."""

import pytest
import torch
from builders import OPTIONS, PAD, batch, build, dictionary, logits, pairs
from fairseq.sequence_generator import SequenceGenerator

OWN_CODE = {
    name: options for name, options in OPTIONS.items() if not name.endswith(("unit a position", "one position"))
}
FOLDED = {name: options for name, options in OWN_CODE.items() if not {"activation_fn", "mixing_kernel"} & set(options)}
FORMS = {
    "plain": {},
    "folded": {},
    "bf16": {"inference_precision": "bf16"},
    "int8": {"inference_precision": "int8"},
    **OWN_CODE,
    **{f"{name}, folded": options for name, options in FOLDED.items()},
}
SEARCHED = [
    name
    for name, options in FORMS.items()
    if not {"activation_fn", "norm"} & set(options)
    and ("folded" not in name or name in ("folded", "heads and relative, folded"))
    and name not in ("bf16", "positions alone", "a head a channel")
]
"""Forms whose states, which steps leave behind, are not those of another one."""
SOURCES, TARGETS = pairs((5, 4), (3, 6), (7, 2))


@pytest.fixture(scope="module", autouse=True)
def unoptimized():
    """The same operations, without the minutes that TorchScript takes to make them faster."""
    with torch.jit.optimized_execution(False):
        yield


@pytest.fixture(scope="module", params=FORMS, ids=lambda name: name.replace(" ", "-"))
def both(request, tmp_path_factory):
    """A model, and what comes back from the file of its scripted form."""
    options = FORMS[request.param]
    layers = {"encoder_layers": 1, "decoder_layers": 2 if request.param in SEARCHED else 1}
    model = build(**{"share_all_embeddings": True, **layers, **options})
    lower = "inference_precision" in options
    if lower:
        model.float()
    if lower or request.param.endswith("folded"):
        model.make_generation_fast_()
    path = tmp_path_factory.mktemp("scripted") / "model.pt"
    torch.jit.script(model).save(path)
    return model, torch.jit.load(path)


def assert_same(got, expected):
    for one, other in zip(got, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("left_pad", [False, True])
@pytest.mark.parametrize("extra", [0, 70])
def test_teacher_forcing(both, left_pad, extra):
    model, scripted = both
    arguments = SOURCES, TARGETS, left_pad, left_pad, extra
    assert_same(logits(scripted, *arguments), logits(model, *arguments))


@pytest.mark.parametrize("both", SEARCHED, indirect=True, ids=lambda name: name.replace(" ", "-"))
def test_search(both):
    """Steps, beams that change places and sentences that are finished, in a scripted search: states do not leave it."""
    model, _ = both
    sample = {"net_input": {"src_tokens": batch(SOURCES, True), "src_lengths": torch.tensor([5, 3, 7])}}
    generator = SequenceGenerator([model], dictionary(), beam_size=3, max_len_b=8)
    with torch.no_grad():
        got, expected = torch.jit.script(generator)(sample), generator(sample)
    for ours, theirs in zip(got, expected, strict=True):
        assert [each["tokens"].tolist() for each in ours] == [each["tokens"].tolist() for each in theirs]
        assert_same([each["score"] for each in ours], [each["score"] for each in theirs])


def test_a_sentence_that_is_too_long(both):
    _, scripted = both
    with pytest.raises(torch.jit.Error, match=r"70 positions .* but the model has 64"):
        scripted.encoder(torch.full((1, 70), PAD + 5))
