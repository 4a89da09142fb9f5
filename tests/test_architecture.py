"""The floors of the house, as data, held against every import in the source.

A crawler rots when its parts get to know each other. So imports go downstairs
only, stages never import each other, and the few habits that keep the source
readable (one voice, one `except Exception`, modules with a noun) are counted here. A stage on floor 3
(frontier, robots, buffer, indexer, control, refresh) meets the others in the agent only: even the ledger of
known pages hands its polls to whoever puts them into the frontier.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Container, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parent.parent / "src" / "fieldmouse"

FLOORS: dict[int, set[str]] = {
    7: {"cli", "__main__"},
    6: {"lab", "dashboard"},
    5: {"api", "repair"},
    4: {"agent", "reading"},
    3: {"frontier", "robots", "buffer", "indexer", "control", "refresh", "balancer", "choices"} | {"notify"},
    2: {"settings", "crawldir", "meter", "web", "plugins"},
    1: {"policy", "queueing"},
    0: {"url", "records", "sighting", "summary", "outcome", "clock", "errors", "aside", "compiled", "figures"}
    | {"named", "visible", "__init__"},
}

UPSTAIRS_FOR_TYPES = {"__init__"}
"""The package itself is on the ground floor, for its version, and offers what `api` has: what it names of the
rooms above it names for type checkers only, and loads when it is asked for (tests/api/test_door.py)."""

NEIGHBOURS_MAY_MEET = {0, 7}
"""Floors whose rooms may import each other; on all others a room knows only itself and downstairs."""

OUT_OF_BOUNDS_FOR_POLICIES = {
    "asyncio", "socket", "ssl", "os", "io", "pathlib", "shutil", "tempfile", "subprocess", "threading",
    "multiprocessing", "time", "datetime", "random", "secrets", "uvloop", "logging",
}  # fmt: skip
"""A policy has no clock, no socket, no disk and no dice of its own: time and chance come in as arguments."""

MAY_PRINT = {
    "cli/voice.py": "the one voice of the command line",
    "lab/meadow/serve.py": "its ready line is data for whoever started it",
}

FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "core", "base", "manager", "misc"}

LONGEST = 600

MACHINE_PATHS = re.compile(r"/work/|/root/|/home/\w+/|/farm/|/Users/")


@cache
def floor_of(room: str) -> int:
    for floor, rooms in FLOORS.items():
        if room in rooms:
            return floor
    raise AssertionError(f"`{room}` is on no floor: name it in FLOORS, and in the design")


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """Every module a file imports, anywhere in it, with the line."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} uses a relative import"
            assert node.module is not None
            if node.module == "fieldmouse":
                for alias in node.names:
                    is_room = (SOURCE / alias.name).is_dir() or (SOURCE / f"{alias.name}.py").is_file()
                    yield node.lineno, f"fieldmouse.{alias.name}" if is_room else "fieldmouse.__init__"
            else:
                yield node.lineno, node.module


def rooms_imported_by(path: Path) -> Iterator[tuple[int, str]]:
    for line, module in imports_of(path):
        parts = module.split(".")
        if parts[0] == "fieldmouse":
            yield line, parts[1] if len(parts) > 1 else "__init__"


def for_types_only(path: Path) -> set[int]:
    """The lines that only a type checker reads."""
    return {
        line
        for node in tree_of(path).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_imports_go_downstairs_only(path: Path) -> None:
    room = room_of(path)
    floor = floor_of(room)
    if room in UPSTAIRS_FOR_TYPES:
        assert all(line in for_types_only(path) for line, _ in rooms_imported_by(path))
        return
    for line, other in rooms_imported_by(path):
        if other == room:
            continue
        below = floor_of(other)
        allowed = below < floor or (below == floor and floor in NEIGHBOURS_MAY_MEET)
        assert allowed, f"{name_of(path)}:{line}: `{room}` (floor {floor}) imports `{other}` (floor {below})"


@pytest.mark.parametrize("path", [p for p in modules() if room_of(p) in FLOORS[1]], ids=name_of)
def test_policies_are_pure(path: Path) -> None:
    for line, module in imports_of(path):
        outside = module.split(".")[0]
        assert outside not in OUT_OF_BOUNDS_FOR_POLICIES, f"{name_of(path)}:{line} imports {module}"


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_only_the_voice_speaks(path: Path) -> None:
    if name_of(path) in MAY_PRINT:
        return
    for node in ast.walk(tree_of(path)):
        match node:
            case ast.Call(func=ast.Name(id="print")):
                pytest.fail(f"{name_of(path)}:{node.lineno} prints; say it through cli/voice.py")
            case ast.Attribute(value=ast.Name(id="sys"), attr="stdout" | "stderr"):
                pytest.fail(f"{name_of(path)}:{node.lineno} writes to sys.{node.attr}")
            case ast.Attribute(value=ast.Name(id="click"), attr="echo" | "secho"):
                pytest.fail(f"{name_of(path)}:{node.lineno} uses click.{node.attr}")


COMMAND_NAMING = re.compile(r"fieldmouse \w+ \{(?!typed\()")


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_a_hint_names_a_directory_as_it_is_typed(path: Path) -> None:
    """`fieldmouse resume my crawls` is no command that anybody could repeat."""
    assert not COMMAND_NAMING.search(path.read_text()), "use `errors.typed`"


def test_except_exception_appears_at_most_once_and_in_the_agent() -> None:
    found = [
        f"{name_of(path)}:{node.lineno}"
        for path in modules()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or (isinstance(node.type, ast.Name) and node.type.id == "Exception"))
    ]
    assert len(found) <= 1, found
    assert all(place.startswith("agent") for place in found), found


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_a_module_opens_with_a_sentence_and_has_one_noun(path: Path) -> None:
    said = ast.get_docstring(tree_of(path))
    assert said, f"{name_of(path)} does not say what it is"
    assert said.splitlines()[0].rstrip().endswith((".", ":", "?")), (
        f"{name_of(path)}: {said.splitlines()[0]!r}"
    )
    assert len(path.read_text().splitlines()) <= LONGEST, f"{name_of(path)} asks to be split"
    assert not FORBIDDEN_NAMES & set(path.relative_to(SOURCE).with_suffix("").parts), name_of(path)


def test_a_class_name_means_one_class() -> None:
    places: dict[str, list[str]] = {}
    for path in modules():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(f"{name_of(path)}:{node.lineno}")
    assert not {name: where for name, where in places.items() if len(where) > 1}


WORDS = {
    "lost": {"summary.py", "agent/vitals.py"},
    "settled": {"crawldir/tally.py", "reading/examination/books.py", "balancer/", "frontier/landlord.py"},
    "level": {"meter.py", "summary.py", "buffer.py", "control/", "policy/thresholds.py", "robots/fleet.py"}
    | {"queueing/", "agent/vitals.py", "cli/model/", "cli/voice.py", "lab/meadow/", "lab/papers/"},
    "front": {"summary.py", "frontier/", "policy/", "agent/frontiers.py", "agent/vitals.py", "lab/"},
}
"""Words that once meant several things each, and where what the tour calls so may be defined."""


def names_given_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """What others see the name of: classes, functions, arguments and fields, not variables; with the line."""
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield node.lineno, name
            case ast.arg(arg=name) | ast.keyword(arg=str(name)) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield node.lineno, name
        if isinstance(node, ast.ClassDef):
            fields = (inner.target for inner in node.body if isinstance(inner, ast.AnnAssign))
            yield from ((field.lineno, field.id) for field in fields if isinstance(field, ast.Name))


@pytest.mark.parametrize("word", WORDS)
def test_a_word_means_one_thing(word: str) -> None:
    strays = [
        f"{name_of(path)}:{line} calls something else `{name}`"
        for path in modules()
        for line, name in names_given_in(tree_of(path))
        if name.strip("_").lower() == word and not name_of(path).startswith(tuple(WORDS[word]))
    ]
    assert not strays, "the tour has the words, and others for other things"


SHELVES = ("model", "simulate", "solve", "optimise")
"""Of `queueing`: each imports only those before it, and `fit` the first alone."""


@pytest.mark.parametrize("path", sorted((SOURCE / "queueing").rglob("*.py")), ids=name_of)
def test_a_shelf_of_the_model_imports_only_those_before_it(path: Path) -> None:
    shelf = path.parent.name
    below = SHELVES[: SHELVES.index(shelf)] if shelf in SHELVES else SHELVES[:1]
    for line, module in imports_of(path):
        if module.startswith("fieldmouse.queueing."):
            assert module.split(".")[2] in (shelf, *below), f"{name_of(path)}:{line} imports {module}"


BOARDS = ("memory", "server", "spread")
"""Of `balancer/board`: each knows the contract beside them, and neither the others nor an agent's side."""


@pytest.mark.parametrize("path", sorted((SOURCE / "balancer" / "board").rglob("*.py")), ids=name_of)
def test_a_board_knows_neither_agents_nor_other_boards(path: Path) -> None:
    own = path.parent.name
    for line, module in imports_of(path):
        if module.startswith("fieldmouse.balancer"):
            house, *rooms = module.removeprefix("fieldmouse.balancer.").split(".")
            strangers = {*BOARDS} - {own}
            assert house == "board", f"{name_of(path)}:{line} imports {module} of an agent's side"
            assert not strangers & {*rooms[:1]}, f"{name_of(path)}:{line} imports {module}"


def test_no_file_speaks_of_the_machine_it_was_written_on() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=SOURCE.parent.parent, capture_output=True, check=True, text=True
    ).stdout.split("\0")
    for name in listed:
        path = SOURCE.parent.parent / name
        if not name or name == "tests/test_architecture.py" or not path.is_file():
            continue
        for number, line in enumerate(path.read_bytes().decode("utf-8", "replace").splitlines(), 1):
            assert not MACHINE_PATHS.search(line), f"{name}:{number}: {line.strip()[:100]}"


def test_importing_the_command_line_loads_no_heavy_library() -> None:
    probe = "import sys, fieldmouse.cli; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, check=True, text=True
    ).stdout.split()
    heavy = {"numpy", "tantivy", "pyarrow", "uvloop", "lmdb", "selectolax", "publicsuffixlist", "rich"}
    assert not heavy & set(loaded)


def test_reading_a_crawl_loads_no_crawler() -> None:
    """Whoever only reads pays for no loop, no robot and no agent."""
    probe = (
        "import sys, fieldmouse.reading.room, fieldmouse.reading.explanation, fieldmouse.reading.status,"
        " fieldmouse.reading.examination, fieldmouse.indexer.search, fieldmouse.indexer.contents;"
        "print(*sys.modules)"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, check=True, text=True
    ).stdout.split()
    crawling = ("fieldmouse.agent", "fieldmouse.robots", "fieldmouse.api", "uvloop")
    for module in loaded:
        assert not any(module == name or module.startswith(f"{name}.") for name in crawling), module


def test_a_plain_crawl_loads_what_it_needs_and_no_more() -> None:
    """Not the ledger and the policies of polling, no board, no room for readers, and nothing of the workers'.

    All of that made the start of a crawl a third dearer, once for every worker.
    """
    probe = "import sys, fieldmouse.cli.crawl, fieldmouse.agent.build; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, check=True, text=True
    ).stdout.split()
    others = (
        "fieldmouse.refresh", "fieldmouse.policy.polling", "fieldmouse.balancer.board",
        "fieldmouse.policy.balance",
        "fieldmouse.reading", "fieldmouse.indexer.shard", "redis", "tantivy", "selectolax", "scipy",
    )  # fmt: skip
    for module in loaded:
        assert not any(module == name or module.startswith(f"{name}.") for name in others), module


# -- nothing is wired late


@cache
def attributes_of(path: Path, *, changeable: bool = False) -> frozenset[str]:
    """What the classes of a module keep in their objects; `changeable` leaves out those that are frozen."""
    found: set[str] = set()
    for node in ast.walk(tree_of(path)):
        if not isinstance(node, ast.ClassDef):
            continue
        heads = [*node.decorator_list, *node.keywords]
        if changeable and any("frozen=True" in ast.unparse(head) for head in heads):
            continue
        for inner in node.body:
            if isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name):
                found.add(inner.target.id)
            elif isinstance(inner, ast.Assign):
                found |= {target.id for target in inner.targets if isinstance(target, ast.Name)}
        for inner in ast.walk(node):
            if isinstance(inner, ast.Attribute) and is_changed(inner) and is_own(inner.value):
                found.add(inner.attr)
    return frozenset(found)


def is_changed(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store | ast.Del)


def is_own(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id in ("self", "cls")


def late_wires(path: Path, ours: frozenset[str]) -> Iterator[str]:
    """Attributes of objects of other modules that are set here; `ours` are those that we define anywhere."""
    here = attributes_of(path, changeable=True)
    for node in ast.walk(tree_of(path)):
        match node:
            case ast.Attribute(value=value, attr=attr) if is_changed(node) and not is_own(value):
                if attr in ours and attr not in here:
                    yield f"{path.name}:{node.lineno} sets `{ast.unparse(node)}`"
            case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[value, *_]) if not is_own(value):
                yield f"{path.name}:{node.lineno} calls `{ast.unparse(node)}`"


def test_no_attribute_of_another_modules_object_is_assigned_outside_its_class() -> None:
    """An object is ready when its constructor returns; what changes it is its own module."""
    ours = frozenset().union(*(attributes_of(path) for path in modules()))
    assert [wire for path in modules() for wire in late_wires(path, ours)] == []


LATE = {
    "agent.intake = Intake()": True,
    "agent.intake.trace = PageTrace()": True,
    "fleet.rule += 1": True,
    "del home.identity": True,
    "setattr(tally, field, 1)": True,
    "thread.daemon = True": False,  # not one of our classes has it
    "class Mine:\n    rule: int = 0\n\nmine = Mine()\nmine.rule = 1": False,
    "class Mine(Struct, frozen=True):\n    rule: int = 0\n\nfleet.rule = 1": True,
    "class Fleet:\n    def obey(self, rule):\n        self.rule = rule": False,
}


@pytest.mark.parametrize(("source", "late"), LATE.items())
def test_a_late_wire_is_seen(source: str, late: bool, tmp_path: Path) -> None:
    path = tmp_path / "sample.py"
    path.write_text(source)
    ours = frozenset({"intake", "trace", "rule", "identity"})
    assert any(late_wires(path, ours)) == late


# -- nobody imports whoever imports him


def modules_by_name() -> dict[str, Path]:
    named = {}
    for path in modules():
        parts = ("fieldmouse", *path.relative_to(SOURCE).with_suffix("").parts)
        named[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return named


def loaded_by(path: Path, known: Container[str]) -> Iterator[str]:
    """Modules that it loads, at once or in a function; not those that only a type checker sees."""
    for_checkers = {
        id(inner)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree_of(path)):
        if id(node) in for_checkers:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            inner = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in known else str(node.module) for name in inner)


def cycle_in(graph: Mapping[str, Iterable[str]]) -> list[str]:
    """Some of the names in a circle, each of which leads to the next; empty if there is no circle.

    >>> cycle_in({"a": ["b"], "b": ["c"], "c": []})
    []
    >>> cycle_in({"a": ["b"], "b": ["c"], "c": ["b"]})
    ['b', 'c']
    """
    done: set[str] = set()

    def follow(name: str, trail: list[str]) -> list[str]:
        if name in trail:
            return trail[trail.index(name) :]
        if name in done:
            return []
        for other in graph.get(name, ()):
            if circle := follow(other, [*trail, name]):
                return circle
        done.add(name)
        return []

    return next((circle for name in graph if (circle := follow(name, []))), [])


def test_no_module_is_loaded_by_what_it_loads() -> None:
    known = modules_by_name()
    graph = {
        name: [other for other in loaded_by(path, known) if other in known and other != name]
        for name, path in known.items()
    }
    assert cycle_in(graph) == []
    assert cycle_in({"a": ["b"], "b": ["c"], "c": ["b"]}) == ["b", "c"], "a circle is found"
    assert cycle_in({"a": ["b", "c"], "b": ["c"], "c": []}) == []
