"""``python -m resmlp_mt.cli``: ``resmlp-mt`` where it is not installed."""

from resmlp_mt.cli import main

main()
