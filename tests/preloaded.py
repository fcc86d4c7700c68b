"""Done once in the process that commands are forked from, after its other imports; see forked.py."""

import gc
import logging
import warnings

from fairseq import options
from fairseq.dataclass.utils import convert_namespace_to_omegaconf

# hydra's parser learns its grammar from the first command's options, which takes half a second
parser = options.get_training_parser()
logging.disable(logging.DEBUG)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    convert_namespace_to_omegaconf(options.parse_args_and_arch(parser, ["data-bin", "--arch", "transformer"]))
logging.disable(logging.NOTSET)

gc.collect()
gc.freeze()  # a million objects, which no collection in a command needs to look at
