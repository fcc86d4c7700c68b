"""Which package ("room") may import which, by their levels ("floors"), and what an import loads."""

import ast
import sys
from pathlib import Path

import pytest

from scripts import new_process

PACKAGE = Path(__file__).resolve().parents[1] / "resmlp_mt"
FLOORS = [
    {"common", "nn", "text"},
    {"translate", "data", "score"},
    {"serve", "fairseq_plugin"},
    {"export", "lab"},
    {"cli"},
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
ALONE = {"nn", "text"}  # import only themselves
FORBIDDEN = {("translate", "data"), *((room, "lab") for room in FLOOR if room not in ("cli", "lab"))}


def arrows() -> dict[tuple[str, str], str]:
    """Return which room imports which other one, with a place where it does."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        room = path.relative_to(PACKAGE).parts[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = []
            if isinstance(node, ast.ImportFrom):
                if node.level:  # .name: in the same folder, as exported files need it
                    assert node.level == 1, f"{path}:{node.lineno}"
                    continue
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            for name in names:
                package, _, rest = name.partition(".")
                other = rest.partition(".")[0]
                if package == "resmlp_mt" and other in FLOOR and room in FLOOR and other != room:
                    found[room, other] = f"{path.relative_to(PACKAGE)}:{node.lineno}"
    return found


def allowed(room: str, other: str) -> bool:
    return FLOOR[other] < FLOOR[room] and room not in ALONE and (room, other) not in FORBIDDEN


def test_every_room_has_a_floor_and_at_most_one_level_of_folders() -> None:
    files = [path.relative_to(PACKAGE).parts for path in PACKAGE.rglob("*.py")]
    assert {parts[0] for parts in files if len(parts) > 1} == set(FLOOR)
    assert [parts for parts in files if len(parts) > 3] == []


def test_arrows_point_down() -> None:
    """So rooms cannot import each other in a circle."""
    wrong = {arrow: place for arrow, place in arrows().items() if not allowed(*arrow)}
    assert not wrong, wrong


def run(program: str) -> list[str]:
    """Run a program in a new process; return the words of the last line that it prints."""
    return new_process("-c", program).split("\n")[-2].split()  # after what libraries print


def test_the_rooms_of_use_need_no_fairseq() -> None:
    modules = [
        ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        for room in ("common", "nn", "text", "translate", "serve")
        for path in sorted((PACKAGE / room).rglob("*.py"))
    ]
    for library in "onnxruntime", "starlette":
        pytest.importorskip(library)
    program = f"""
import importlib, sys
for name in {modules}:
    importlib.import_module(name)
print(*sys.modules)
"""
    assert not any(name.startswith("fairseq") for name in run(program))


def test_user_dir_imports_what_training_uses_alone() -> None:
    program = """
import sys
import fairseq.models.transformer, fairseq.tasks.translation, fairseq.trainer
before = set(sys.modules)
import resmlp_mt.fairseq_plugin
print(*set(sys.modules) - before)
"""
    added = set(run(program))
    assert {name.split(".")[0] for name in added} - set(sys.stdlib_module_names) == {"resmlp_mt"}
    rooms = {name.split(".")[1] for name in added if name.startswith("resmlp_mt.")}
    assert "fairseq_plugin" in rooms
    assert not rooms & {"serve", "lab", "export", "cli", "score"}
