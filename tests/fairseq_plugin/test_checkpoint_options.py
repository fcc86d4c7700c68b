"""What fairseq would evaluate or open because a checkpoint's options say so."""

import ast
import inspect
from argparse import Namespace
from pathlib import Path

import fairseq
import numpy as np
import pytest
import torch
from crafted import save
from fairseq.models import ARCH_CONFIG_REGISTRY

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.checkpoints.loading import load_checkpoint
from resmlp_mt.fairseq_plugin.checkpoints.options import EVALUATED, LONGEST, OPENED, evaluate, settled

# calls by a subscript: no call is in the syntax tree
BY_SUBSCRIPT = "[nn.Module['touch owned'] for nn.Module.__class_getitem__ in [torch.os.system]]"


def presets():
    """Every text that fairseq's own architectures give to an option that is evaluated."""
    names = {name for names in EVALUATED.values() for name in names}
    found = set()
    for configure in ARCH_CONFIG_REGISTRY.values():
        args = Namespace()
        try:
            configure(args)
        except (AttributeError, TypeError):
            continue  # it needs more than options
        found |= {value for name, value in vars(args).items() if name in names and isinstance(value, str)}
    return sorted(found)


def test_what_fairseq_s_presets_say_is_read_as_python_reads_it():
    texts = presets()
    assert len(texts) >= 10
    assert any("+" in text and "*" in text for text in texts)
    for text in texts:
        assert evaluate(text) == eval(text)


@pytest.mark.parametrize(
    "text",
    ["(0.9, 0.98)", "10000,20000", " True ", "None", "-1", "1+2j", "3 * [1]", "(1,) + (2, 'a')", "{'name': 'x'}",
     "[(512, 10, 5)] + [(512,2,2)] * 4", "[True]*3+[False]", "[[1] * 2] * 2", "[1] * -1", "0x10", "{1, 2}", "b'x'",
     "(0.9, 1-0.02)", "2 * 3e-4 / 4", "1 + 1"],
)  # fmt: skip
def test_data_is_read_as_python_reads_it(text):
    assert evaluate(text) == eval(text.strip())


@pytest.mark.parametrize(
    "text",
    [
        BY_SUBSCRIPT, "__import__('os').mkdir('owned')", "open('owned', 'w')", "x", "torch.os", "x[0]", "1; 2",
        "[x for x in ()]", "lambda: 0", "f'{1}'", "1 if 1 else 2", "(x := 1)", "not True", "1 < 2", "2 ** 9",
        "1 / 0", "9 // 2",
        "'a' * 3", "(1,) * 3", "[1] + (1,)", "True * [1]", "[*[1]]", "{**{}}", "{[]: 1}", "", "[", "\0", "import os",
        "[0] * 10 ** 12", "[0] * 1000000000000", "[[]] * 1000000000000",
        "(" * 300 + ")" * 300, "-" * 3000 + "1", "'" + "x" * LONGEST + "'",
    ],
    ids=lambda text: text[:20] or "empty",
)  # fmt: skip
def test_all_else_is_refused(text):
    with pytest.raises(UserError, match="fairseq would run this option as Python") as error:
        evaluate(text)
    assert len(str(error.value)) < 500


@pytest.mark.parametrize("value", [b"1+1", bytearray(b"1+1"), np.frombuffer(b"[1, 2]  ", np.int64), None, [1], 1])
def test_what_is_no_text_is_not_evaluated(value):
    # Python's eval would take the first three for source code; fairseq expects its TypeError for the others
    with pytest.raises(TypeError):
        evaluate(value)


@pytest.mark.parametrize("option", sorted({name for names in EVALUATED.values() for name in names}))
def test_every_evaluated_option_is_checked_wherever_it_stands(tmp_path, option):
    hostile = {option: BY_SUBSCRIPT}
    for options in (
        {"model": Namespace(**hostile)},
        {"model": {"_name": "wav2vec_ctc", "w2v_args": {"model": Namespace(**hostile)}}},
        {"task": {"deeper": [{"still": (hostile,)}]}},
        {"criterion": hostile},
    ):
        path = save(tmp_path / "a.pt", options=options)
        with pytest.raises(UserError, match=rf"a.pt: not loaded: fairseq might run its option {option}, .*nn.Module"):
            load_checkpoint(path)
    path = save(tmp_path / "a.pt", args=Namespace(arch="fconv", **hostile))
    with pytest.raises(UserError, match=f"might run its option {option}"):
        load_checkpoint(path)


def test_other_options_may_say_what_they_like():
    options = {
        "checkpoint": {"save_dir": "work/exp(2)"},
        "model": Namespace(data="f(x)[0]", encoder_layers=6, lr=[0.1]),
    }
    assert settled(options) == options
    assert settled(options) is not options


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": {"data": "${oc.env:HOME}"}}, r"option data, '\$\{oc.env:HOME\}', would be replaced"),
        ({"model": Namespace(layers="${common.a}${common.b}")}, "option layers, .* would be replaced"),
        ({"model": {"layers": torch.ones(1)}}, "option layers holds a Tensor"),
        ({"model": Namespace(encoder_layers=np.frombuffer(b"[1, 2]  ", np.int64))}, "holds a ndarray"),
        ({"model": Namespace(encoder_layers=b"[1]")}, "holds a bytes"),
        ({"model": {("a",): 1}}, "option model holds a dict"),
        ({"bpe": "../../../../tmp/evil"}, "option bpe, '../../../../tmp/evil', is no name"),
        ({"tokenizer": "/evil"}, "option tokenizer, '/evil', is no name"),
    ],
)
def test_options_that_are_no_plain_values_are_refused(options, message):
    with pytest.raises(UserError, match=message):
        settled(options)


@pytest.mark.parametrize("option", sorted(OPENED))
def test_paths_are_dropped_wherever_they_stand(option):
    options = {
        "model": Namespace(**{option: "/etc/passwd"}),
        "bpe": {"_name": "b", option: "http://x"},
        "more": [{option: ""}],
    }
    found = settled(options)
    assert vars(found["model"]) == {option: OPENED[option]}
    assert found["bpe"] == {"_name": "b", option: OPENED[option]}
    assert found["more"] == [{option: ""}]


def test_the_table_of_what_is_evaluated_is_whole():
    """Every module of fairseq that evaluates anything, but for those that read the command line or data alone."""
    root = Path(inspect.getfile(fairseq)).parent
    elsewhere = {"fairseq.optim", "fairseq.examples", "fairseq.data.codedataset"}
    found = set()
    for file in root.rglob("*.py"):
        name = ".".join(["fairseq", *file.relative_to(root).with_suffix("").parts])
        if any(name.startswith(each) for each in elsewhere):
            continue
        tree = ast.parse(file.read_text(encoding="utf-8"))
        if any(isinstance(node, ast.Name) and node.id in ("eval", "exec") for node in ast.walk(tree)):
            found.add(name)
    assert found == set(EVALUATED)
