"""In processes of their own, since it lasts as long as the process; without PyTorch, which takes seconds to import."""

import os
import subprocess
import sys

import pytest

from resmlp_mt.common import allocator

FAULTS = """
import resource, runpy, sys
kept = runpy.run_path(sys.argv[1])["keep_freed_memory"]()
def work():
    for _ in range(20):
        bytearray(b"x") * (4 << 20)
work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
work()
print(int(kept), resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(**environment):
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("MALLOC_")},
        **environment,
    }
    command = [sys.executable, "-c", FAULTS, allocator.__file__]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return [int(word) for word in done.stdout.split()[-2:]]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="page faults are counted as Linux does")
def test_freed_memory_is_used_again_without_page_faults():
    kept, faults = page_faults()
    if not kept:
        pytest.skip("no glibc")
    assert faults < 1024 < page_faults(MALLOC_TRIM_THRESHOLD_="131072", MALLOC_MMAP_THRESHOLD_="131072")[1]


def test_the_environment_has_the_last_word():
    assert page_faults(MALLOC_TRIM_THRESHOLD_="131072")[0] == 0
