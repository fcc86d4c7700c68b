"""Settings for all tests."""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent))  # oracle.py and builders.py
torch.set_num_threads(1)
