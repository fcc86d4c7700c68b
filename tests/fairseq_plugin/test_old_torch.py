"""A PyTorch that is too old is told in one line."""

import pytest
import torch

from resmlp_mt.common.errors import UserError
from resmlp_mt.fairseq_plugin.patches import check_torch


@pytest.mark.parametrize("version", ["1.13.1", "2.5.1+cu121"])
def test_too_old(version):
    with pytest.raises(UserError, match=r"^torch \S+ is too old for resmlp_mt: pip install 'torch>=2\.6'"):
        check_torch(version)


@pytest.mark.parametrize("version", ["2.6.0", "2.13.0+cpu", "3.0.0a0+git123", torch.__version__])
def test_new_enough(version):
    check_torch(version)
