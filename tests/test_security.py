"""Nothing from the data is opened, fetched or executed: text stays text.

Held twice. The source calls nothing that could do it; and a real run over records full of paths, addresses, commands
and pickles, watched from inside (Python's audit hooks) and outside (inotify, a listening socket), does none of it.
"""

import ast
import ctypes
import json
import os
import pickle
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from pipeline.graph import build
from pipeline.inputs import find_inputs
from pipeline.plan import make_plan

ROOT = Path(__file__).resolve().parent.parent

BANNED_MODULES = {
    *("pickle", "cloudpickle", "dill", "marshal", "shelve", "jsonpickle", "runpy", "code", "imp"),
    *("subprocess", "pty", "multiprocessing", "webbrowser"),
    *("socket", "ssl", "http", "urllib", "urllib3", "requests", "ftplib", "smtplib", "httplib2"),
    *("tarfile", "zipfile", "shutil"),
}
BANNED_CALLS = {
    *("eval", "exec", "compile", "__import__", "import_module", "CDLL"),
    *("system", "popen", "startfile", "fork", "forkpty", "posix_spawn", "posix_spawnp"),
    *("execv", "execve", "execvp", "execvpe", "execl", "execle", "execlp", "spawnv", "spawnve", "spawnl", "spawnlp"),
    *("load", "load_all", "full_load", "unsafe_load"),
}
ALLOWED = {
    ("pipeline/storage.py", "import_module"): "clients of gs:// and s3://, by names written in that file",
    ("pipeline/runners.py", "ctypes.CDLL"): "the C library's own allocator setting",
    ("pipeline/plan.py", "tomllib.load"): "TOML of the user's plan; it has no tags and no code",
    ("pipeline/formats/parquet.py", "import shutil"): "copies an open stream into another",
}


def suspicious(tree: ast.Module) -> Iterator[str]:
    """Imports and calls that could open, fetch or execute what a record says."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        else:
            names = []
        yield from (f"import {name}" for name in names if name.partition(".")[0] in BANNED_MODULES)
        if isinstance(node, ast.Call):
            called = getattr(node.func, "attr", None) or getattr(node.func, "id", None)
            dotted = ast.unparse(node.func)
            if called in BANNED_CALLS and not dotted.startswith("re."):
                yield dotted
            yield from (keyword.arg for keyword in node.keywords if keyword.arg in ("shell", "allow_pickle"))


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("import pickle", "import pickle"),
        ("from urllib.request import urlopen", "import urllib.request"),
        ("yaml.load(text, Loader)", "yaml.load"),
        ("os.system(text)", "os.system"),
        ("run(text, shell=True)", "shell"),
        ("np.load(file, allow_pickle=True)", "allow_pickle"),
        ("eval(text)", "eval"),
    ],
)
def test_the_search_finds(line: str, found: str) -> None:
    assert found in list(suspicious(ast.parse(line)))


def test_source_calls_nothing_that_could_act_on_data() -> None:
    found = {
        (str(path.relative_to(ROOT)), what)
        for package in ("pipeline", "transforms")
        for path in (ROOT / package).rglob("*.py")
        for what in suspicious(ast.parse(path.read_text()))
    }
    assert found == set(ALLOWED)


WATCHED = """
import json, os, sys
from pipeline.cli import main
seen = []
def note(event, about):
    if event in ("open", "pickle.find_class"):
        seen.append((event, str(about[0]), str(about[1])))
    elif event.startswith(("subprocess.", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn",
                           "socket.connect",
                           "socket.sendto", "socket.getaddrinfo", "socket.gethostby", "urllib.", "http.", "ftplib.")):
        seen.append((event, repr(about)[:200], ""))
sys.addaudithook(note)
code = main(json.loads(sys.argv[1]))
print(json.dumps([code, seen, [sys.prefix, sys.base_prefix]]), file=sys.__stderr__)
"""
# What Beam unpickles in a run: its own classes, ours, and what those are made of.
UNPICKLED = {
    "apache_beam",
    "pipeline",
    "transforms",
    "pyarrow",
    "numpy",
    "builtins",
    "collections",
    "_operator",
    "logging",
}


class Command:
    """A pickle that runs a command when it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch /tmp/rankbeam-was-here",)


def baits(folder: Path, port: int) -> list[str]:
    """Texts that something careless would open, fetch or run."""
    secret = folder / "secret.jsonl"
    return [
        *(
            str(secret),
            f"file://{secret}",
            "/etc/passwd",
            "file:///etc/passwd",
            "../../../../etc/passwd",
            "~/.ssh/id_rsa",
        ),
        *(f"http://127.0.0.1:{port}/a", f"//127.0.0.1:{port}/share", "gs://bucket/key", "s3://bucket/key"),
        *(f"$(cat {secret})", f"`cat {secret}`", f"; cat {secret}", f"| cat {secret}", "${jndi:ldap://127.0.0.1/a}"),
        *("__import__('os').system('id')", "{{7*7}}", "!!python/object/apply:os.system ['id']", f"@{secret}"),
        pickle.dumps(Command(), 0).decode("latin-1"),
    ]


def records(found: list[str]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Every bait in every field of both sides."""
    samples, outputs = [], []
    for number, bait in enumerate(found):
        sample_id = bait if "\n" not in bait else f"pickle-{number}"
        samples.append(
            {
                "id": sample_id,
                "input": {"question": bait},
                "expected_output": json.dumps([bait, *found[:2]]),
                "metadata": {"lang": bait, "k": 3},
                "answer": bait,
            }
        )
        entries = json.dumps([{"id": bait, "text": bait}, {"id": f"{number}", "text": found[-number]}])
        outputs.append({"id": sample_id, "actual_output": entries, "error": None if number % 5 else bait})
    return samples, outputs


def write(path: Path, format: str, side: str, rows: list[dict[str, Any]]) -> None:
    if format == "jsonl":
        # One line that is no record, and one whose k is a path, go to the rejected or noted ones.
        odd = [{"id": "odd", "metadata": {"k": "/etc/passwd"}, "expected_output": ["a"], "retrieved": ["a"]}]
        path.write_text("\n".join(map(json.dumps, [*rows, *odd])) + "\n!!python/name:os.system\n")
    elif format == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        path.write_text(yaml.safe_dump({side: rows}))


class Watch:
    """Says whether any process opened a file, natively too, which Python's hooks do not see."""

    def __init__(self, path: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._queue = libc.inotify_init1(os.O_NONBLOCK)
        assert libc.inotify_add_watch(self._queue, str(path).encode(), 0x20) > 0  # IN_OPEN

    def opened(self) -> bool:
        try:
            return len(os.read(self._queue, 4096)) >= struct.calcsize("iIII")
        except BlockingIOError:
            return False


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="inotify, which sees native code open a file, is Linux's")
@pytest.mark.parametrize("format", ["jsonl", "parquet", "yaml"])
def test_nothing_that_records_name_is_opened_fetched_or_run(tmp_path: Path, format: str) -> None:
    work, temporary = tmp_path / "work", tmp_path / "temporary"
    work.mkdir()
    temporary.mkdir()
    secret = tmp_path / "secret.jsonl"
    secret.write_text('{"id": "secret"}\n')
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        watch = Watch(secret)
        command = ["run", "--out", str(work / "runs"), "--slice-by", "lang", "--max-rejects", "100%"]
        command += ["--metrics", "recall@k,ndcg,containment@k,recall(match=fuzzy)@5"]
        for side, rows in zip(("samples", "outputs"), records(baits(tmp_path, server.getsockname()[1])), strict=True):
            write(work / f"{side}.{format}", format, side, rows)
            command += [f"--{side}", str(work / f"{side}.{format}")]
        done = subprocess.run(
            [sys.executable, "-c", WATCHED, json.dumps(command)],
            cwd=work,
            env={**os.environ, "TMPDIR": str(temporary)},
            capture_output=True,
            text=True,
        )
        code, seen, installed = json.loads(done.stderr.splitlines()[-1])
        assert code == 0, done.stderr
        assert not watch.opened()
        with pytest.raises(BlockingIOError):
            server.accept()
    allowed = tuple(f"{folder}/" for folder in (work, temporary, ROOT, *installed))
    opened = {path for event, path, _ in seen if event == "open" and not path.isdigit()}
    assert {path for path in opened if not os.path.realpath(path).startswith(allowed)} == set()
    assert {name.partition(".")[0] for event, name, _ in seen if event == "pickle.find_class"} <= UNPICKLED
    assert [each for each in seen if each[0] not in ("open", "pickle.find_class")] == []
    assert not Path("/tmp/rankbeam-was-here").exists()
    secret.read_text()
    assert watch.opened(), "the watch sees nothing, so it proves nothing"


# What Beam pickles where bytes leave a process. Values that our own code made, loaded by our own workers; a record's
# bytes are never among them as bytes, so nothing that a record holds is ever loaded as a pickle.
PICKLED_SHUFFLES = {
    "ReadSamples/Spread/ReshufflePerKey/GroupByKey": "the launcher's list of input files",
    "ReadOutputs/Spread/ReshufflePerKey/GroupByKey": "the launcher's list of input files",
    "BuildSieve/Gather/CombinePerKey/GroupByKey": "a table of bits",
    "PoolMetrics/PoolSlices/GroupByKey": "sums and counts; the slice is a number and UTF-8 text",
    "PoolMetrics/PoolOther/GroupByKey": "sums and counts; the slice is a number and UTF-8 text",
    "PoolMetrics/GatherSlices/GatherSlices/CombinePerKey/GroupByKey": "finished rows of the summary",
}
PLAIN_SHUFFLES = {
    "JoinById/CoGroupByKey/CoGroupByKeyImpl/GroupByKey": "records, as Arrow's bytes",
    "PoolMetrics/KeepFrequent/TopPerKey(1000)/CombinePerKey(TopCombineFn)/GroupByKey": "values of slices, as UTF-8",
    "WriteLedger/SumTerms/GroupByKey": "the ledger's terms",
    "WriteLedger/Gather": "JSON of what was written",
}
GROUPED = {f"{side}/GroupByQuery/GroupByKey": "lines, as Arrow's bytes" for side in ("ReadSamples", "ReadOutputs")}


def shuffles(folder: Path, files: dict[str, str]) -> dict[str, bool]:
    """Every GroupByKey of the graph → whether what it shuffles is pickled."""
    for name, text in files.items():
        (folder / name).write_text(text)
    samples, outputs = (str(folder / name) for name in files)
    asked = {"samples": [samples], "outputs": [outputs], "out": str(folder / "runs"), "slice_by": ["lang"]}
    plan = make_plan(asked, {}, require=())
    root = beam.Pipeline(runner="FnApiRunner")
    build(root, plan, find_inputs(plan), str(folder / "attempt"))
    parts = root.to_runner_api().components

    def pickled(coder: str) -> bool:
        found = parts.coders[coder]
        return "pickle" in found.spec.urn or any(map(pickled, found.component_coder_ids))

    groups = [each for each in parts.transforms.values() if each.spec.urn == "beam:transform:group_by_key:v1"]
    return {
        group.unique_name: any(pickled(parts.pcollections[name].coder_id) for name in group.inputs.values())
        for group in groups
    }


def test_records_are_shuffled_as_bytes_never_as_pickles(tmp_path: Path) -> None:
    lists = {"s.jsonl": '{"id": "a", "expected_output": ["x"]}\n', "o.jsonl": '{"id": "a", "retrieved": ["x"]}\n'}
    found = shuffles(tmp_path, lists)
    assert found == dict.fromkeys(PICKLED_SHUFFLES, True) | dict.fromkeys(PLAIN_SHUFFLES, False)
    lines = {"s.qrels": "a 0 x 1\n", "o.run": "a Q0 x 1 1.0 t\n"}
    assert shuffles(tmp_path, lines) == found | dict.fromkeys(GROUPED, False)
