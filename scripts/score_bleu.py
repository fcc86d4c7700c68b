"""Run `resmlp-mt score` from a checkout."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # also runs uninstalled

from resmlp_mt.cli import main

if __name__ == "__main__":
    main("score")
