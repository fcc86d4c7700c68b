"""Settings for all tests."""

import sys
from pathlib import Path

import hypothesis
import torch

sys.path.insert(0, str(Path(__file__).parent))  # oracle.py and builders.py
torch.set_num_threads(1)
hypothesis.settings.register_profile("unhurried", deadline=None)  # a busy machine is no failure
hypothesis.settings.load_profile("unhurried")
