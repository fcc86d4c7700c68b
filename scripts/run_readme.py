"""Run the commands of a README unchanged, from the root of a fresh clone, and report which fail.

    python scripts/run_readme.py README.md --multi30k DIR

Commands that take more than some minutes, or need what a machine may not have, are left out and reported.
`--multi30k DIR` has the six public files of Multi30k, for a machine without a network.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = {
    r"scripts/test\.sh": "runs every check, and CI runs it by itself",
    r"scripts/demo\.sh": "takes five minutes, and a job of ci.yml runs it by itself",
    r"wmt14": "downloads gigabytes and trains for days",
    r"benchmark": "takes minutes, and its tests run it in small",
}
SERVER = re.compile(r"resmlp-mt serve ")


def commands(readme: Path) -> list[str]:
    """Return the commands of all blocks of bash and Python, in order."""
    found = []
    for language, block in re.findall(r"```(bash|python)\n(.*?)```", readme.read_text(encoding="utf-8"), re.S):
        if language == "python":
            found.append(f"python - <<'END'\n{block}END")
        else:
            lines = block.replace("\\\n", " ").split("\n")
            found += [re.sub(r" {2,}", " ", re.sub(r"\s#.*", "", line)).strip() for line in lines if line.strip()]
    return found


def own_text(folder: Path) -> None:
    """Make two aligned files for each split, like a user's own text, where the README's commands look for them."""
    sizes = {"train": "400", "valid": "40", "test": "40"}
    options = [option for split, size in sizes.items() for option in (f"--{split}", size)]
    subprocess.run(
        [sys.executable, "examples/toy_en_de/make_corpus.py", "--out", folder, *options], cwd=ROOT, check=True
    )


def serve(command: str) -> int:
    """Start the server, check its health, and stop it; return 0 if it was healthy, else 1."""
    with subprocess.Popen(["bash", "-c", f"exec {command}"], cwd=ROOT) as server:
        for _ in range(60):
            try:
                with urllib.request.urlopen("http://127.0.0.1:8000/health", timeout=5) as answer:
                    well = answer.status == 200
                    break
            except OSError:
                well = False
                time.sleep(1)
        server.terminate()
    return 0 if well else 1


def main() -> int:
    """Run the commands; return 1 if one failed, else 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("readme", type=Path)
    parser.add_argument("--multi30k", type=Path, help="folder of Multi30k's six public files")
    args = parser.parse_args()
    if args.multi30k:
        shutil.copytree(args.multi30k, ROOT / "work" / "multi30k" / "raw", dirs_exist_ok=True)
    own_text(ROOT / "work" / "own-text")
    os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    failed = []
    for command in commands(args.readme):
        print(f"== {command}", flush=True)
        reason = next((reason for pattern, reason in LEFT_OUT.items() if re.search(pattern, command)), None)
        if reason:
            print(f"   left out: {reason}", flush=True)
            continue
        started = time.monotonic()
        bash = ["bash", "-o", "pipefail", "-ec", command]
        status = serve(command) if SERVER.match(command) else subprocess.run(bash, cwd=ROOT).returncode
        print(f"   status {status} after {time.monotonic() - started:.0f} s", flush=True)
        failed += [command] if status else []
    print(f"FAILED: {failed}" if failed else "All that was run succeeded.")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
