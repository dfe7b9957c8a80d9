"""The shape of the house: import direction, light import, complete exports."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import discreet

SRC = Path(discreet.__file__).parent

# The road, left to right; a package may import only from packages to its left.
ROAD = (
    "_dataclass",
    "errors",
    "_exact",
    "_canonical",
    "_frozen",
    "_address",
    "_recent",
    "_errand",
    "_session",
    "_text",
    "_log",
    "_lazy",
    "_unseen",
    "_print",
    "_vega",
    "verify",
    "noise",
    "privacy",
    "mechanisms",
    "policy",
    "plan",
    "sql",
    "frame",
    "ledger",
    "engines",
    "answer",
    "curator",
    "inference",
    "meaning",
    "release",
    "local",
    "audit",
    "testing",
    "lab",
    "service",
    "cli",
)

# Methods that open a door to the right when called: the import stands inside them.
DOORS = {"answer": {"inference"}, "curator": {"inference", "release"}}

PACKAGES = sorted(p.name for p in SRC.iterdir() if (p / "__init__.py").exists())


def _imports(source: str) -> set[str]:
    """Top-level parts of discreet that `source` imports, however it spells the import."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module == "discreet":
            names = [
                f"discreet.{alias.name}" for alias in node.names if alias.name != "__version__"
            ]
        elif isinstance(node, ast.ImportFrom) and not node.level:
            names = [node.module or ""]
        else:
            continue
        found |= {n.split(".")[1] for n in names if n.startswith("discreet.")}
    return found


def _violations(part: str, source: str) -> set[str]:
    allowed = set(ROAD[: ROAD.index(part) + 1]) | DOORS.get(part, set())
    return _imports(source) - allowed


@pytest.mark.parametrize("part", [*PACKAGES, *(p for p in ROAD if (SRC / f"{p}.py").exists())])
def test_packages_import_only_from_their_left(part):
    path = SRC / part
    files = sorted(path.rglob("*.py")) if path.is_dir() else [SRC / f"{part}.py"]
    for file in files:
        assert not _violations(part, file.read_text("utf-8")), file.relative_to(SRC)


def test_the_import_check_can_fail():
    assert _violations("noise", "from discreet.privacy import Pure") == {"privacy"}
    assert _violations("privacy", "from discreet import mechanisms as m") == {"mechanisms"}
    assert _violations("mechanisms", "import discreet.curator") == {"curator"}
    assert not _violations("mechanisms", "from discreet.noise import DiscreteLaplace")


def _private_imports(part: str, source: str) -> list[str]:
    """Private modules and private names of other packages that `source` imports."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            root, *way = name.split(".")
            # what stands beside the packages (errors, _exact, _text …) is everybody's
            if root == "discreet" and way[:1] != [part] and any(x.startswith("_") for x in way[1:]):
                found.append(name)
    return found


@pytest.mark.parametrize("part", PACKAGES)
def test_nobody_imports_another_packages_private_parts(part):
    for file in sorted((SRC / part).rglob("*.py")):
        assert not _private_imports(part, file.read_text("utf-8")), file.relative_to(SRC)


def test_the_check_of_private_imports_can_fail():
    assert _private_imports("policy", "from discreet.privacy._relation import Neighbours")
    assert _private_imports("policy", "from discreet.privacy import _relation")
    assert _private_imports("policy", "def f():\n    import discreet.privacy._relation")
    assert not _private_imports("policy", "from discreet.policy import _toml")
    assert not _private_imports("policy", "from discreet import _exact")


# private by name only: a namedtuple's method, a process's end, sqlglot's way to extend its parser
FOREIGN = {"_replace", "_asdict", "_fields", "_exit"} | {
    "_match",
    "_match_text_seq",
    "_parse_bitwise",
    "_parse_csv",
    "_parse_wrapped_csv",
    "_parse_disjunction",
    "_tokens",
}


def _private_names(sources: list[str]) -> tuple[set[str], set[str]]:
    """Private names that these sources define, and private attributes that they read."""
    defined, read = set(), set()
    for node in (n for source in sources for n in ast.walk(ast.parse(source))):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                defined.add(name)
            case ast.AsyncFunctionDef(name=name):
                defined.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                defined.add(name)
            case ast.ImportFrom(names=names):
                defined |= {alias.asname or alias.name for alias in names}
            case ast.Attribute(attr=name) if name.startswith("_") and not name.endswith("__"):
                read.add(name)
    return defined, read


@pytest.mark.parametrize("part", PACKAGES)
def test_nobody_reads_another_packages_private_attributes(part):
    sources = [f.read_text("utf-8") for f in (SRC / part).rglob("*.py")]
    defined, read = _private_names(sources)
    assert read <= defined | FOREIGN


def test_the_check_of_private_attributes_can_fail():
    defined, read = _private_names(["def f(curator): return curator._engine", "_own = 1"])
    assert read - defined == {"_engine"}


@pytest.mark.races
@pytest.mark.parametrize(("part", "door"), [(p, d) for p in DOORS for d in sorted(DOORS[p])])
def test_doors_stay_closed_until_called(part, door):
    code = f"import discreet.{part}, sys; sys.exit('discreet.{door}' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.races
def test_import_discreet_is_light():
    heavy = {
        "scipy",
        "scipy.stats",
        "duckdb",
        "pyarrow",
        "pandas",
        "sqlglot",
        "cryptography",
        "numpy",
    }
    code = "import discreet, sys; print(*sys.modules)"
    loaded = set(
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        ).stdout.split()
    )
    assert not heavy & loaded


@pytest.mark.races
def test_core_never_imports_scipy_stats_or_engines():
    code = (
        "import discreet.noise, discreet.privacy, discreet.mechanisms, discreet.audit, sys;"
        "print(*sys.modules)"
    )
    loaded = set(
        subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True
        ).stdout.split()
    )
    assert not {"scipy.stats", "duckdb", "pyarrow", "pandas"} & loaded


@pytest.mark.parametrize("name", PACKAGES)
def test_every_exported_name_exists_and_all_is_complete(name):
    module = importlib.import_module(f"discreet.{name}")
    exported = set(module.__all__)
    assert exported <= set(dir(module))
    # a public name that is defined here but missing from __all__ is an accident
    public = {
        attribute
        for attribute, value in vars(module).items()
        if not attribute.startswith("_")
        and getattr(value, "__module__", "").startswith(f"discreet.{name}")
    }
    assert public <= exported


def test_lazy_top_level_names_resolve():
    for name in discreet.__all__:
        assert getattr(discreet, name) is not None
    with pytest.raises(AttributeError):
        _ = discreet.no_such_name


def test_modules_stay_short():
    long = {
        str(f.relative_to(SRC)): n
        for f in SRC.rglob("*.py")
        if (n := len(f.read_text("utf-8").splitlines())) > 620
    }
    assert not long


_KEYWORD = re.compile(r"(?<!OPTIONS\()\b[a-z]\w*=(?![=\s])")
"""Python's way to set a parameter; SQL writes `OPTIONS(name=value)`, TOML `name = value`."""


def _texts(node: ast.AST) -> Iterator[str]:
    """Texts inside an expression; the holes of an f-string hold a name."""
    if isinstance(node, ast.JoinedStr):
        yield "".join(str(v.value) if isinstance(v, ast.Constant) else "x" for v in node.values)
    elif isinstance(node, ast.Constant):
        yield str(node.value)
    elif not (isinstance(node, ast.Call) and "Hint" in ast.unparse(node.func)):
        for inner in ast.iter_child_nodes(node):
            yield from _texts(inner)


def _python_hints(source: str) -> list[str]:
    """Hints that are plain text and yet set a parameter as only Python does."""
    nodes = ast.walk(ast.parse(source))
    hints = (n.value for n in nodes if isinstance(n, ast.keyword) and n.arg == "hint")
    return [text for hint in hints for text in _texts(hint) if _KEYWORD.search(text)]


def test_hints_that_set_parameters_are_structured():
    """Other languages (the command line, a service) write them from names and values."""
    hints = {str(f): _python_hints(f.read_text("utf-8")) for f in SRC.rglob("*.py")}
    assert {file: texts for file, texts in hints.items() if texts} == {}


def test_the_check_of_hints_can_fail():
    assert _python_hints("E('x', hint='fresh=True')") == ["fresh=True"]
    assert _python_hints("E('x', hint=f'n={n}' if n else 'GROUP BY x')") == ["n=x"]
    assert not _python_hints("E('x', hint=Hint('fresh', True)); E('y', hint='min = 0')")
