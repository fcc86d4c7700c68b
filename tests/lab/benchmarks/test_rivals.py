"""CTranslate2 and Marian translate with the same model: fairseq's Transformer, and one that Marian trained."""

import subprocess
import sys
from contextlib import closing

import pytest
from lab.benchmarks.test_workloads import MEGABYTE, random_of, source

from resmlp_mt.common.errors import UserError
from resmlp_mt.lab.benchmarks.engines import EngineProcess
from resmlp_mt.lab.benchmarks.rivals import builder
from resmlp_mt.lab.benchmarks.systems import Shape
from resmlp_mt.lab.benchmarks.workloads import FairseqEngine


@pytest.mark.parametrize("kind", ["float32", "int8"])
def test_ctranslate2_is_the_same_transformer(kind, tmp_path):
    pytest.importorskip("ctranslate2")
    ours = FairseqEngine(source("transformer"))
    lengths = "min_decoding_length=6,max_decoding_length=6"  # without </s>
    theirs = EngineProcess(builder(source(f"ctranslate2/transformer:compute_type={kind},{lengths}"), str(tmp_path)))
    sentences = random_of(ours, Shape(6, 4))
    expected, found = ours.translate(sentences, 6), theirs.translate(sentences)[0]
    assert [*map(len, found)] == [6] * 4
    assert 0 < theirs.peak() < 200 * MEGABYTE  # less than torch alone takes
    if kind == "float32":  # fairseq's last word must be </s>, which can change the beam that wins
        assert sum(a[:4] == b[:4] for a, b in zip(expected, found, strict=True)) >= 3


TRAIN = """--type transformer --model model.npz --train-sets text text --vocabs words.yml words.yml --cpu-threads 1
--dim-emb 64 --transformer-heads 2 --transformer-dim-ffn 64 --enc-depth 1 --dec-depth 1 --tied-embeddings-all
--learn-rate 0.01 --after 150u --mini-batch 32 --workspace 100 --seed 1"""


def test_marian_is_its_own_model_in_ctranslate2(tmp_path, monkeypatch):
    pytest.importorskip("_pymarian")
    pytest.importorskip("ctranslate2")
    monkeypatch.chdir(tmp_path)
    texts = [f"w{first} w{second}" for first in range(8) for second in range(8)]
    (tmp_path / "text").write_text("\n".join(texts) + "\n")
    words = ["</s>", "<unk>", *(f"w{number}" for number in range(8))]
    (tmp_path / "words.yml").write_text("".join(f"{word!r}: {number}\n" for number, word in enumerate(words)))
    code = "import sys, _pymarian; _pymarian.main(['train', *sys.argv[1:]])"
    subprocess.run([sys.executable, "-c", code, *TRAIN.split()], check=True, capture_output=True)
    sentences = [text.split() for text in texts]
    for number, name in enumerate(("marian/model.npz:mini_batch=16", "ctranslate2/model.npz:compute_type=int8")):
        (tmp_path / str(number)).mkdir()
        with closing(EngineProcess(builder(source(name), str(tmp_path / str(number))))) as engine:
            found, _ = engine.translate(sentences)
        assert sum(a == b for a, b in zip(found, sentences, strict=True)) > 55  # it learned to copy
    with pytest.raises(UserError, match=r"marian/none.npz: cannot be converted: "):
        builder(source("marian/none.npz"), str(tmp_path))
