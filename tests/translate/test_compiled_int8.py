"""A model compiled in 8 bits and with a shortlist; in its own file, to be compiled while test_compiled.py runs."""

import os
import subprocess
import sys

import pytest
import torch
from translate.engines import GATED, assert_equal
from translate.small_folder import SYMBOLS, make

from resmlp_mt.common.files import checksum
from resmlp_mt.nn.encoder_decoder import fold_
from resmlp_mt.text.tokenizer import END
from resmlp_mt.translate.compiled import compiled_model
from resmlp_mt.translate.model_folder import SHORTLIST, WEIGHTS, load
from resmlp_mt.translate.options import Options
from resmlp_mt.translate.precision import lower_precision_
from resmlp_mt.translate.search import search


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kinds", [("ema,attention", "synthesizer,gated"), ("conv,mlp", "ssru,dynamic")])
def test_in_8_bits_and_with_a_shortlist_a_batch_changes_no_score(tmp_path, cache, kinds):
    each = {"mixing_of_encoder_layers": kinds[0], "mixing_of_decoder_layers": kinds[1]}
    folder = make(tmp_path / "folder", more=400, **GATED, **each)
    model, _, _ = load(folder)
    fold_(model)
    lower_precision_(model, "int8", ("output_projection",))
    both = compiled_model(model.cfg, checksum(folder / WEIGHTS), lambda: model, "int8", shortlist=True)
    generator = torch.Generator().manual_seed(3)
    source = torch.randint(END + 1, len(SYMBOLS), (9, 8), generator=generator)
    candidates = torch.randint(END + 1, len(SYMBOLS), (9, 20), generator=generator)
    candidates[:, 0] = END
    lengths = [8, 8, 3, 5, 1, 8, 2, 7, 4]
    for row, length in enumerate(lengths):
        source[row, length - 1], source[row, length:] = END, model.cfg.pad
    ones = [(source[row : row + 1, :length], candidates[row : row + 1]) for row, length in enumerate(lengths)]
    alone = [search(both, one, Options(), its_candidates)[0] for one, its_candidates in ones]
    assert_equal(search(both, source, Options(), candidates), alone, 1e-4)
    assert len(search(both, source[:1], Options(beam=300), candidates[:1])[0]) == 300  # the first step has only 20
    (folder / SHORTLIST).write_text("\tthe in\nA\tA\n")
    code = "import sys, resmlp_mt as r; r.Translator(sys.argv[1], engine='compiled', precision='int8').translate('a')"
    for path in os.environ["PATH"], "":  # the second time without a compiler
        subprocess.run([sys.executable, "-c", code, folder], check=True, env={**os.environ, "PATH": path})
