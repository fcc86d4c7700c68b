"""``python -m resmlp_mt.cli`` runs ``resmlp-mt`` where it is not installed."""

from resmlp_mt.cli import main

main()
