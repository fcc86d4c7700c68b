"""Preparations in the process that commands are forked from, after its other imports; see forked.py."""

import gc
import logging
import os
import warnings

import composed  # noqa: F401
from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

os.fsync = os.fstat  # as in conftest.py

# hydra's parser learns its grammar, and the caches of composed.py are filled, here instead of in each command
logging.disable(logging.DEBUG)
generation = options.get_generation_parser()
generation.add_argument("--arch", default="wav2vec2")  # as fairseq-generate does
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    for parser, *words in (
        (options.get_training_parser(), "--arch", "transformer"),
        (options.get_training_parser(), "--arch", "transformer", "--criterion", "label_smoothed_cross_entropy"),
        (generation, "--path", "model.pt"),
        (options.get_interactive_generation_parser(), "--path", "model.pt"),
    ):
        convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, ["data-bin", *words]))
logging.disable(logging.NOTSET)

gc.collect()
gc.freeze()  # collections in commands need not look at these million objects
