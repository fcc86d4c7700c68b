"""Processes forked after the imports and before any work."""

import logging
import multiprocessing
import warnings
from concurrent.futures import ProcessPoolExecutor


def quiet() -> None:
    """Print no progress of fairseq's and no warnings."""
    for package in "fairseq", "fairseq_cli":
        logging.getLogger(package).setLevel(logging.ERROR)
    warnings.simplefilter("ignore")


def fresh_processes(count: int) -> ProcessPoolExecutor:
    """Start processes, forked from one that has imported the packages but has used no thread and no GPU."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["resmlp_mt.lab.benchmarks.training", "resmlp_mt.lab.benchmarks.generation"])
    return ProcessPoolExecutor(count, mp_context=context, initializer=quiet)
