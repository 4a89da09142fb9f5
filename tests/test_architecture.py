"""Layers of the source, and the habits that keep it readable.

Imports go down only: a package may import packages of lower layers, never one of its own layer or above,
so the stages of a crawl (frontier, fetch, workers, control, refresh, cluster, notify) meet in the crawler
only. The other tests limit the size of modules and folders and keep printing, `except Exception` and late
wiring out.
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

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"

LAYERS: tuple[str, ...] = (
    "types url errors clock aio formatting import_string jit lazy_names __init__",
    "policy queueing",
    "storage http plugins backpressure_state",
    "config",
    "parse robotstxt",
    "archive",
    "search diff",
    "frontier fetch workers control refresh cluster notify",
    "crawler",
    "reader doctor",
    "api",
    "testing",
    "cli __main__",
    "fieldmouse_lab",
)
"""Packages and root modules of `fieldmouse` from the lowest layer to the highest, and the lab above them."""

LAYER_OF = {package: number for number, layer in enumerate(LAYERS) for package in layer.split()}

MAY_IMPORT_EACH_OTHER = {LAYER_OF["types"], LAYER_OF["reader"], LAYER_OF["cli"]}
"""Layers whose packages may import each other."""

PUBLIC_NAMES = {"__init__"}
"""The package itself is in the lowest layer, for its version. It imports the names that it offers for type
checkers only, and loads them on first use (tests/api/test_door.py)."""

FORBIDDEN_FOR_POLICIES = set(
    "asyncio socket ssl os io pathlib shutil tempfile subprocess threading multiprocessing time datetime"
    " random secrets uvloop logging".split()
)
"""A policy has no clock, no socket, no disk and no randomness: time and random generators are arguments."""

MAY_PRINT = {
    "fieldmouse/cli/console.py": "the console of the command line",
    "fieldmouse/testing/meadow/serve.py": "its ready line is data for the process that started it",
}

FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "core", "base", "manager", "misc"}

LONGEST_MODULE = 600
LARGEST_FOLDER = 15

MACHINE_PATHS = re.compile(r"/work/|/root/|/home/\w+/|/farm/|/Users/")


def modules() -> list[Path]:
    return sorted(path for name in ("fieldmouse", "fieldmouse_lab") for path in (SOURCE / name).rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(SOURCE).as_posix()


def package_of(path: Path) -> str:
    """Package or root module of `fieldmouse` that a file belongs to; `fieldmouse_lab` for the lab."""
    top, *rest = path.relative_to(SOURCE).with_suffix("").parts
    return rest[0] if top == "fieldmouse" else top


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def imports_of(path: Path) -> Iterator[tuple[int, str]]:
    """Every module that a file imports, anywhere in it, with the line."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno} uses a relative import"
            assert node.module is not None
            if node.module == "fieldmouse":
                for alias in node.names:
                    at = SOURCE / "fieldmouse" / alias.name
                    is_module = at.is_dir() or at.with_suffix(".py").is_file()
                    yield node.lineno, f"fieldmouse.{alias.name}" if is_module else "fieldmouse.__init__"
            else:
                yield node.lineno, node.module


def packages_imported_by(path: Path) -> Iterator[tuple[int, str]]:
    for line, module in imports_of(path):
        top, *rest = module.split(".")
        if top == "fieldmouse":
            yield line, rest[0] if rest else "__init__"
        elif top == "fieldmouse_lab":
            yield line, top


def for_types_only(path: Path) -> set[int]:
    """The lines that only a type checker reads."""
    return {
        line
        for node in tree_of(path).body
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_imports_go_to_lower_layers_only(path: Path) -> None:
    package = package_of(path)
    layer = LAYER_OF[package]
    if package in PUBLIC_NAMES:
        loaded = {other for line, other in packages_imported_by(path) if line not in for_types_only(path)}
        assert loaded == {"lazy_names"}
        return
    for line, other in packages_imported_by(path):
        if other == package:
            continue
        allowed = LAYER_OF[other] < layer or (LAYER_OF[other] == layer and layer in MAY_IMPORT_EACH_OTHER)
        assert allowed, f"{name_of(path)}:{line}: `{package}` imports `{other}` of its own layer or above"


@pytest.mark.parametrize("path", [p for p in modules() if package_of(p) in LAYERS[1].split()], ids=name_of)
def test_policies_are_pure(path: Path) -> None:
    for line, module in imports_of(path):
        assert module.split(".")[0] not in FORBIDDEN_FOR_POLICIES, f"{name_of(path)}:{line} imports {module}"


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_only_the_console_prints(path: Path) -> None:
    if name_of(path) in MAY_PRINT:
        return
    for node in ast.walk(tree_of(path)):
        match node:
            case ast.Call(func=ast.Name(id="print")):
                pytest.fail(f"{name_of(path)}:{node.lineno} prints; say it through cli/console.py")
            case ast.Attribute(value=ast.Name(id="sys"), attr="stdout" | "stderr"):
                pytest.fail(f"{name_of(path)}:{node.lineno} writes to sys.{node.attr}")
            case ast.Attribute(value=ast.Name(id="click"), attr="echo" | "secho"):
                pytest.fail(f"{name_of(path)}:{node.lineno} uses click.{node.attr}")


COMMAND_NAMING = re.compile(r"fieldmouse \w+ \{(?!shell_quoted\()")


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_a_hint_names_a_directory_as_it_is_typed(path: Path) -> None:
    """`fieldmouse resume my crawls` is no command that anybody could repeat."""
    assert not COMMAND_NAMING.search(path.read_text()), "use `errors.shell_quoted`"


def test_except_exception_appears_only_in_the_crawler_and_around_a_policy_of_the_user() -> None:
    found = [
        f"{name_of(path)}:{node.lineno}"
        for path in modules()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or (isinstance(node.type, ast.Name) and node.type.id == "Exception"))
    ]
    places = ("fieldmouse/crawler/", "fieldmouse/policy/polling/registry.py:")
    assert len(found) <= len(places), found
    assert all(place.startswith(places) for place in found), found


QUESTION_WORDS = re.compile(r"(?:What|Who|How|Which|When|Where|Whether|Why|That|Whoever)\b")


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_a_module_has_a_docstring_that_names_it(path: Path) -> None:
    docstring = ast.get_docstring(tree_of(path))
    assert docstring, f"{name_of(path)} has no docstring"
    first = docstring.split("\n\n")[0]
    assert first.endswith((".", ":", "?")), first
    assert not QUESTION_WORDS.match(first), f"{name_of(path)} opens with a question word: {first}"


@pytest.mark.parametrize("path", modules(), ids=name_of)
def test_a_module_is_not_too_long_and_not_vaguely_named(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= LONGEST_MODULE, f"{name_of(path)} is too long"
    assert "# fmt: skip" not in text
    assert not FORBIDDEN_NAMES & set(path.relative_to(SOURCE).with_suffix("").parts), name_of(path)


@pytest.mark.parametrize("path", [path for path in modules() if path.name == "__init__.py"], ids=name_of)
def test_an_init_holds_a_docstring_and_imports_only(path: Path) -> None:
    docstring, *rest = tree_of(path).body
    assert isinstance(docstring, ast.Expr)
    for node in rest:
        inner = node.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" else [node]
        assert all(isinstance(each, ast.Import | ast.ImportFrom) for each in inner), f"{name_of(path)}:{node.lineno}"


def test_no_folder_holds_more_than_fifteen_modules() -> None:
    sizes: dict[str, int] = {}
    for path in modules():
        if path.name != "__init__.py":
            sizes[name_of(path.parent)] = sizes.get(name_of(path.parent), 0) + 1
    assert not {folder: size for folder, size in sizes.items() if size > LARGEST_FOLDER}


def test_a_class_name_means_one_class_whatever_its_case() -> None:
    places: dict[str, list[str]] = {}
    for path in modules():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name.lower(), []).append(f"{name_of(path)}:{node.lineno}")
    assert not {name: where for name, where in places.items() if len(where) > 1}


STEPS = ("model", "simulate", "solve", "optimise")
"""Packages of `queueing`: each imports only those before it, and `fit` the first alone."""


@pytest.mark.parametrize("path", sorted((SOURCE / "fieldmouse" / "queueing").rglob("*.py")), ids=name_of)
def test_a_step_of_the_queueing_model_imports_only_those_before_it(path: Path) -> None:
    step = path.relative_to(SOURCE / "fieldmouse" / "queueing").with_suffix("").parts[0]
    below = STEPS[: STEPS.index(step)] if step in STEPS else STEPS[:1]
    for line, module in imports_of(path):
        if module.startswith("fieldmouse.queueing."):
            assert module.split(".")[2] in (step, *below), f"{name_of(path)}:{line} imports {module}"


COORDINATORS = ("redis", "sharded")
"""Implementations of the coordinator: neither imports the other, nor the client side of an agent."""


@pytest.mark.parametrize(
    "path",
    [path for path in modules() if path.parent.parent.name == "cluster" and path.parent.name in COORDINATORS],
    ids=name_of,
)
def test_a_coordinator_imports_neither_the_client_nor_another_coordinator(path: Path) -> None:
    forbidden = ({*COORDINATORS} - {path.parent.name}) | {"client"}
    for line, module in imports_of(path):
        if module.startswith("fieldmouse.cluster."):
            assert module.split(".")[2] not in forbidden, f"{name_of(path)}:{line} imports {module}"


def test_no_file_names_a_path_of_a_developers_machine() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
    ).stdout.split("\0")
    for name in listed:
        path = ROOT / name
        if not name or name == "tests/test_architecture.py" or not path.is_file():
            continue
        for number, line in enumerate(path.read_bytes().decode("utf-8", "replace").splitlines(), 1):
            assert not MACHINE_PATHS.search(line), f"{name}:{number}: {line.strip()[:100]}"


def test_importing_the_command_line_loads_no_heavy_library() -> None:
    probe = "import sys, fieldmouse.cli.main; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", probe], capture_output=True, check=True, text=True).stdout.split()
    heavy = {"numpy", "tantivy", "pyarrow", "uvloop", "lmdb", "selectolax", "publicsuffixlist", "rich"}
    assert not heavy & set(loaded)


def test_reading_a_crawl_loads_no_crawler() -> None:
    """Reading needs no event loop, no fetch worker and no crawler."""
    probe = (
        "import sys, fieldmouse.reader.crawl_reader, fieldmouse.reader.explain, fieldmouse.reader.status,"
        " fieldmouse.doctor.check.examine, fieldmouse.search.search, fieldmouse.parse.content;"
        "print(*sys.modules)"
    )
    loaded = subprocess.run([sys.executable, "-c", probe], capture_output=True, check=True, text=True).stdout.split()
    crawling = ("fieldmouse.crawler", "fieldmouse.fetch", "fieldmouse.api", "uvloop")
    for module in loaded:
        assert not any(module == name or module.startswith(f"{name}.") for name in crawling), module


def test_a_plain_crawl_loads_what_it_needs_and_no_more() -> None:
    """No page table, polling policies, coordinator, reader or worker modules.

    All of these made the start of a crawl a third slower, once for every worker.
    """
    probe = "import sys, fieldmouse.cli.crawl.crawl, fieldmouse.crawler.builder; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", probe], capture_output=True, check=True, text=True).stdout.split()
    others = set(
        "fieldmouse.refresh fieldmouse.policy.polling fieldmouse.policy.balance "
        "fieldmouse.cluster.coordinator"
        " fieldmouse.reader fieldmouse.workers.shard_writer redis tantivy selectolax scipy".split()
    )
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
    "agent.intake.trace = BufferTrace()": True,
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


# -- no import cycles


def modules_by_name() -> dict[str, Path]:
    named = {}
    for path in modules():
        parts = path.relative_to(SOURCE).with_suffix("").parts
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


def test_no_modules_import_each_other() -> None:
    known = modules_by_name()
    graph = {
        name: [other for other in loaded_by(path, known) if other in known and other != name]
        for name, path in known.items()
    }
    assert cycle_in(graph) == []
    assert cycle_in({"a": ["b"], "b": ["c"], "c": ["b"]}) == ["b", "c"], "a circle is found"
    assert cycle_in({"a": ["b", "c"], "b": ["c"], "c": []}) == []
