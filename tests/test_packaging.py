"""Two plain import names at the top level are safe only while these hold."""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("pipeline", "transforms")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = PROJECT["tool"]["setuptools"]["packages"]
LOCKS = ("constraints.txt", "tests/benchmarks/constraints.txt")
# The first versions without a known security fault, for what reads bytes that others wrote.
SAFE_FLOORS = {"pyarrow": "23.0.1", "orjson": "3.11.6", "PyYAML": "6.0.2", "fastavro": "1.13", "msgspec": "0.20"}


def python(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], cwd=cwd, capture_output=True, text=True)


@pytest.mark.parametrize("name", NAMES)
def test_import_name_belongs_to_rankbeam_alone(name: str) -> None:
    owners = set(packages_distributions().get(name, []))
    assert owners == {"rankbeam"}, f"{name} is owned by {owners or 'nobody'}; `make test` installs rankbeam first"


def test_listed_packages_are_the_folders_on_disk() -> None:
    modules = [module for name in NAMES for module in (ROOT / name).rglob("*.py")]
    folders = {".".join(module.parent.relative_to(ROOT).parts) for module in modules}
    assert sorted(folders) == sorted(PACKAGES)


def test_every_package_has_an_init_file() -> None:
    """Without it, mypy and importers take the folder for a namespace, which other distributions may share."""
    assert [name for name in PACKAGES if not (ROOT / name.replace(".", "/") / "__init__.py").is_file()] == []


@pytest.mark.slow
def test_wheel_holds_the_listed_packages_and_nothing_else(tmp_path: Path) -> None:
    source = tmp_path / "source"  # a copy: setuptools leaves folders behind where it builds
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", "build", "*.egg-info", "__pycache__"))
    built = python(
        "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(tmp_path), str(source)
    )
    assert built.returncode == 0, built.stderr

    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        files = [Path(name) for name in archive.namelist()]
        scripts = next(archive.read(str(file)).decode() for file in files if file.name == "entry_points.txt")
    shipped = {".".join(file.parent.parts) for file in files if not file.parts[0].endswith(".dist-info")}
    assert sorted(shipped) == sorted(PACKAGES)
    assert "rankbeam = pipeline.cli:command" in scripts
    sources = {module.relative_to(ROOT) for name in NAMES for module in (ROOT / name).rglob("*.py")}
    assert sources <= set(files)


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("transforms/score.py", "import pipeline"),
        ("transforms/score.py", "import pipeline.plan as plan"),
        ("transforms/score.py", "from pipeline import plan"),
        ("transforms/score.py", "from pipeline.formats.jsonl import read"),
        ("transforms/metrics/ranking.py", "from pipeline.plan import Plan"),
        ("transforms/score.py", "def late():\n    from pipeline import plan\n    return plan"),
    ],
)
def test_linter_refuses_pipeline_in_transforms(tmp_path: Path, module: str, line: str) -> None:
    assert "TID251" in findings(tmp_path, module, line)


@pytest.mark.parametrize("module", ["pipeline/graph.py", "tests/test_graph.py"])
def test_linter_allows_pipeline_elsewhere(tmp_path: Path, module: str) -> None:
    assert "TID251" not in findings(tmp_path, module, "from pipeline import plan")


def findings(folder: Path, module: str, text: str) -> str:
    """What ruff says, under the project's own settings, of a module with this text."""
    shutil.copy(ROOT / "pyproject.toml", folder)
    path = folder / module
    path.parent.mkdir(parents=True)
    for package in (path.parent, *path.parent.parents):
        if package == folder:
            break
        (package / "__init__.py").touch()
    path.write_text(text + "\n")
    return python("-m", "ruff", "check", "--no-cache", "--output-format=concise", module, cwd=folder).stdout


def test_transforms_load_where_pipeline_does_not_exist(tmp_path: Path) -> None:
    """What the linter cannot see: an import by a string."""
    shutil.copytree(ROOT / "transforms", tmp_path / "transforms")
    modules = [name for name, _ in trees("transforms")]
    block = "import sys; sys.modules['pipeline'] = None"
    loaded = python("-c", "\n".join([block, *(f"import {name}" for name in modules)]), cwd=tmp_path)
    assert loaded.returncode == 0, loaded.stderr


@pytest.mark.parametrize("package", NAMES)
def test_imports_inside_a_package_are_relative(package: str) -> None:
    absolute = [
        f"{name}: {found}"
        for name, tree in trees(package)
        for found in absolute_imports(tree)
        if found.partition(".")[0] == package
    ]
    assert absolute == []


@pytest.mark.parametrize("package", NAMES)
def test_relative_imports_stay_inside_their_package(package: str) -> None:
    """`from ..pipeline import` above the top of a package fails only when it runs, and the linter lets it pass."""
    escapes = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.level >= len(path.relative_to(ROOT).parts)
    ]
    assert escapes == []


@pytest.mark.parametrize("package", NAMES)
def test_modules_with_dofns_keep_their_annotations(package: str) -> None:
    """Postponed annotations are strings: Beam then loses the types of elements and pickles them."""
    postponed = [
        name
        for name, tree in trees(package)
        if any(found.startswith("__future__") for found in absolute_imports(tree)) and "DoFn" in ast.dump(tree)
    ]
    assert postponed == []


def trees(package: str) -> Iterator[tuple[str, ast.Module]]:
    """Each module of a package by its import name, parsed."""
    for path in sorted((ROOT / package).rglob("*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        yield name, ast.parse(path.read_text())


def absolute_imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module


def asked(*extras: str) -> list[Requirement]:
    """What pyproject.toml asks for: always, under these extras, and for the benchmarks."""
    project = PROJECT["project"]
    lists = [project["dependencies"], *(project["optional-dependencies"][extra] for extra in extras)]
    return [Requirement(line) for lines in (*lists, PROJECT["dependency-groups"]["bench"]) for line in lines]


def locked(name: str) -> dict[str, tuple[str, list[str]]]:
    """Package → its pinned version and its hashes. A line of any other kind fails here."""
    found: dict[str, tuple[str, list[str]]] = {}
    for entry in (ROOT / name).read_text().replace("\\\n", " ").splitlines():
        if entry.startswith("#"):
            continue
        pinned = re.fullmatch(r"([a-z0-9-]+)==([\w.]+)( ; [^/@]+?)?((?: +--hash=sha256:[0-9a-f]{64})+)", entry)
        assert pinned, entry[:100]
        assert pinned[1] not in found, f"{pinned[1]} stands twice: pip would have to choose"
        found[pinned[1]] = pinned[2], pinned[4].split()
    return found


@pytest.mark.parametrize("name", LOCKS)
def test_every_pin_is_one_version_with_hashes_and_no_address(name: str) -> None:
    pins = locked(name)
    assert pins and all(hashes for _, hashes in pins.values())
    assert "://" not in (ROOT / name).read_text()


def test_both_lists_pin_the_same_versions() -> None:
    main, bench = (locked(name) for name in LOCKS)
    assert {name: (main[name], bench[name]) for name in main.keys() & bench.keys() if main[name] != bench[name]} == {}


def test_pins_satisfy_what_the_project_asks_for() -> None:
    pins = {name: version for lock in LOCKS for name, (version, _) in locked(lock).items()}
    wrong = {
        str(requirement): pins.get(canonicalize_name(requirement.name))
        for requirement in asked("dev")
        if not requirement.specifier.contains(pins.get(canonicalize_name(requirement.name), "0"))
    }
    assert wrong == {}, "write the pins anew with `make lock`"


@pytest.mark.parametrize(("package", "floor"), SAFE_FLOORS.items())
def test_no_version_below_the_safe_floor_is_accepted(package: str, floor: str) -> None:
    found = [each for each in asked("gcp", "dev") if each.name == package]
    assert found, f"{package} is not asked for by name, so any version may come in"
    assert all(f">={floor}" in str(each.specifier).split(",") for each in found)


def test_make_installs_only_what_a_hash_covers() -> None:
    """The one install without hashes is the project itself, and that brings in nothing."""
    makefile = (ROOT / "Makefile").read_text()
    assert "INSTALL := $(PIP) --require-hashes" in makefile
    plain = [line.strip() for line in makefile.splitlines() if line.strip().startswith("$(PIP)")]
    assert plain == ["$(PIP) --no-deps --no-build-isolation -e ."]
