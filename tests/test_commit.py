"""Committing: whole or not at all, one winner a date, and nothing read that the manifest does not vouch for."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipeline import storage
from pipeline.commit import (
    Attempt,
    FileDescriptor,
    Result,
    begin,
    committed_dates,
    finish,
    open_run,
    publish,
    read_result,
    result_name,
    resume,
)
from pipeline.committed import sealed
from pipeline.errors import ContractError, RankbeamError, UsageError
from transforms.records import PER_SAMPLE, REJECTED, SUMMARY

DATE = "2026-11-18"
LEDGER = {"balanced": True, "metric_rows": {"expected": 2, "written": 2}}
ROOT = Path(__file__).parents[1]


def write_part(attempt: Attempt, kind: str, table: pa.Table) -> FileDescriptor:
    path = f"{kind}/part-{os.urandom(8).hex()}.parquet"
    file = storage.HashingFile(storage.join(attempt.path, path))
    pq.write_table(table, file, store_schema=False, write_page_checksum=True)
    file.close()
    return FileDescriptor(kind, path, table.num_rows, file.hexdigest(), {})


def write_run(attempt: Attempt, value: float = 0.5) -> Result:
    """What a pipeline leaves in an attempt: files, an orphan, and a result."""
    row = {"metric": "mrr", "k": None, "status": "scored", "value": value}
    scores = pa.Table.from_pylist([{"sample_id": name, **row} for name in "ab"], schema=PER_SAMPLE)
    counts = {"count": 2, "expected": 2, "missing": 0, "undefined": 0}
    pooled = pa.Table.from_pylist([{"metric": "mrr", "slice": "all", "mean": value, **counts}], schema=SUMMARY)
    write_part(attempt, "per_sample", scores)
    files = [write_part(attempt, "summary", pooled), write_part(attempt, "per_sample", scores)]
    content = {"descriptors": [file._asdict() for file in files], "terms": {"samples.read": 2}, "problems": []}
    storage.write_json(storage.join(attempt.path, result_name()), content)
    return read_result(attempt)


def commit(attempt: Attempt, **changes: object) -> dict:
    given = {
        "plan": {"k": 5},
        "inputs": [{"path": "s.jsonl", "bytes": 7}],
        "versions": {"rankbeam": "0"},
        "ledger": LEDGER,
    }
    return finish(attempt, **{**given, **changes})


def commit_new(out: Path, value: float = 0.5, replace: bool = False, run_date: str = DATE) -> Attempt:
    attempt = begin(str(out), run_date, replace)
    write_run(attempt, value)
    commit(attempt)
    return attempt


def current(out: Path) -> str:
    return (out / f"run_date={DATE}" / "CURRENT").read_text()


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def mean(out: Path) -> float:
    return open_run(str(out), DATE).summary()["mean"].to_pylist()[0]


def test_a_committed_run_reads_back_without_its_orphans(tmp_path):
    attempt = begin(str(tmp_path), DATE, replace=False)
    write_run(attempt, 0.25)
    with pytest.raises(UsageError):
        open_run(str(tmp_path), DATE)
    manifest = commit(attempt)
    assert current(tmp_path) == f"{attempt.name}\n"
    run = open_run(str(tmp_path))
    run.verify()
    assert run.manifest == manifest
    assert (run.run_date, run.attempt, run.path) == (DATE, attempt.name, attempt.path)
    assert run.per_sample()["value"].to_pylist() == [0.25, 0.25]
    assert run.per_sample().schema == PER_SAMPLE
    assert run.rejected().equals(REJECTED.empty_table())
    assert json.loads((Path(attempt.path) / "ledger.json").read_text()) == LEDGER


def test_the_manifest_lists_the_parquet_files_in_order_with_rows_and_hash(tmp_path):
    attempt = begin(str(tmp_path), DATE, replace=False)
    result = write_run(attempt)
    manifest = commit(attempt, result=result)
    assert [file["path"] for file in manifest["files"]] == sorted(file.path for file in result.descriptors)
    assert all(set(file) == {"path", "rows", "sha256"} for file in manifest["files"])
    promised = {"run_date", "attempt", "created", "inputs", "plan", "versions", "ledger", "files"}
    assert set(manifest) == promised | {"sha256"}


def test_keys_in_addresses_do_not_reach_the_manifest(tmp_path):
    attempt = begin(str(tmp_path), DATE, replace=False)
    write_run(attempt)
    commit(attempt, plan={"samples": ["s3://me:hunter2@bucket/x"]}, inputs=[{"path": "s3://me:hunter2@bucket/x"}])
    assert b"hunter2" not in b"".join(snapshot(tmp_path).values())


def test_a_second_run_of_a_date_is_refused_and_names_the_winner(tmp_path):
    winner = commit_new(tmp_path)
    before = snapshot(tmp_path)
    with pytest.raises(ContractError, match=winner.name) as refused:
        begin(str(tmp_path), DATE, replace=False)
    assert refused.value.exit_code == 3
    assert "--replace" in str(refused.value)
    assert snapshot(tmp_path) == before


def test_replace_swaps_the_run_and_leaves_the_old_files_alone(tmp_path):
    commit_new(tmp_path, 0.25)
    before = {name: data for name, data in snapshot(tmp_path).items() if not name.endswith("CURRENT")}
    commit_new(tmp_path, 0.75, replace=True)
    assert mean(tmp_path) == 0.75
    assert before.items() <= snapshot(tmp_path).items()


def test_replace_of_a_date_without_a_run_is_a_first_commit(tmp_path):
    commit_new(tmp_path, 0.75, replace=True)
    assert mean(tmp_path) == 0.75


@pytest.mark.parametrize("replace", [False, True])
def test_a_run_that_finds_another_current_at_the_end_loses_and_names_the_winner(tmp_path, replace):
    if replace:
        commit_new(tmp_path, 0.1)
    slow = begin(str(tmp_path), DATE, replace)
    write_run(slow)
    winner = commit_new(tmp_path, 0.9, replace)
    with pytest.raises(ContractError, match=winner.name) as lost:
        commit(slow)
    assert lost.value.exit_code == 3
    assert mean(tmp_path) == 0.9


def test_publishing_the_committed_attempt_again_changes_nothing(tmp_path):
    attempt = commit_new(tmp_path)
    before = snapshot(tmp_path)
    publish(attempt)
    publish(resume(str(tmp_path), DATE, attempt.name))
    assert snapshot(tmp_path) == before


def test_another_process_can_commit_an_attempt_from_its_directory_alone(tmp_path):
    commit_new(tmp_path, 0.1)
    begun = begin(str(tmp_path), DATE, replace=True)
    write_run(begun, 0.9)
    resumed = resume(str(tmp_path), DATE, begun.name)
    assert resumed == begun
    commit(resumed)
    assert mean(tmp_path) == 0.9


def test_a_disk_without_hard_links_still_takes_one_first_commit(tmp_path, monkeypatch):
    def no_links(*_: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", no_links)
    slow = begin(str(tmp_path), DATE, replace=False)
    write_run(slow)
    commit_new(tmp_path, 0.9)
    with pytest.raises(ContractError):
        commit(slow)
    assert mean(tmp_path) == 0.9


def test_a_ledger_that_does_not_balance_is_kept_for_reading_and_not_committed(tmp_path):
    attempt = begin(str(tmp_path), DATE, replace=False)
    write_run(attempt)
    for ledger in ({**LEDGER, "balanced": False}, {}):
        with pytest.raises(ContractError, match="ledger.json"):
            commit(attempt, ledger=ledger)
    assert (Path(attempt.path) / "ledger.json").exists()
    assert committed_dates(str(tmp_path)) == []


def test_a_problem_met_on_the_way_stops_the_commit(tmp_path):
    attempt = begin(str(tmp_path), DATE, replace=False)
    result = write_run(attempt)
    with pytest.raises(ContractError, match=r"s.jsonl broke off \(and 1 more\)"):
        commit(attempt, result=Result(result.descriptors, result.terms, ("s.jsonl broke off", "x")))
    assert committed_dates(str(tmp_path)) == []


def test_an_attempt_without_a_complete_result_is_not_committed(tmp_path):
    attempt = begin(str(tmp_path), DATE, replace=False)
    for torn in ('{"descriptors": [', "{}", "[]", '{"descriptors": [{"x": 1}], "terms": {}, "problems": []}'):
        (Path(attempt.path) / result_name()).write_text(torn)
    with pytest.raises(ContractError, match="_result"):
        commit(attempt)
    write_run(attempt)
    commit(attempt)


def test_an_unfinished_attempt_cannot_be_published(tmp_path):
    attempt = begin(str(tmp_path), DATE, replace=False)
    with pytest.raises(ContractError, match=r"manifest\.json is missing"):
        publish(attempt)


@pytest.mark.parametrize("harm", ["altered", "missing", "rows", "twice", "escape"])
def test_a_file_that_is_not_what_its_writer_said_stops_the_commit(tmp_path, harm):
    attempt = begin(str(tmp_path), DATE, replace=False)
    first, *others = write_run(attempt).descriptors
    path = Path(attempt.path) / first.path
    if harm == "altered":
        path.write_bytes(path.read_bytes()[:-9] + b"x" + path.read_bytes()[-8:])
    elif harm == "missing":
        path.unlink()
    elif harm == "rows":
        first = first._replace(rows=first.rows + 1)
    elif harm == "twice":
        others.append(first)
    else:
        first = first._replace(path="per_sample/../../../etc/part-00000000.parquet")
    with pytest.raises(ContractError, match=first.path.split("/")[-1]) as refused:
        commit(attempt, result=Result((first, *others), {}, ()))
    assert refused.value.exit_code == 3
    assert committed_dates(str(tmp_path)) == []


@pytest.mark.parametrize("kind", ["summary", "per_sample"])
@pytest.mark.parametrize("harm", ["altered", "missing"])
def test_a_committed_file_altered_or_missing_later_is_named_and_not_read(tmp_path, kind, harm):
    commit_new(tmp_path)
    run = open_run(str(tmp_path))
    (name,) = (file["path"] for file in run.manifest["files"] if file["path"].startswith(kind))
    path = Path(run.path) / name
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.unlink()
    if harm == "altered":
        path.write_bytes(data)
    for read in (run.verify, run.summary if kind == "summary" else run.per_sample):
        with pytest.raises(ContractError, match=name) as refused:
            read()
        assert harm in str(refused.value)


@pytest.mark.parametrize("name", ["..", "attempt=../../x", "/etc", "attempt=20261118T000000Z-00000000/..", "", "a\nb"])
def test_a_current_that_points_elsewhere_is_not_followed(tmp_path, name):
    attempt = commit_new(tmp_path)
    (tmp_path / f"run_date={DATE}" / "CURRENT").write_text(name)
    for deed in (lambda: open_run(str(tmp_path)), lambda: begin(str(tmp_path), DATE, True), lambda: publish(attempt)):
        with pytest.raises(ContractError, match="CURRENT does not name an attempt"):
            deed()


@pytest.mark.parametrize(
    "path", ["../CURRENT", "/etc/passwd", "per_sample/../../x.parquet", "summary/part-00\n.parquet", None]
)
def test_a_manifest_that_points_elsewhere_is_not_followed(tmp_path, path):
    attempt = commit_new(tmp_path)
    manifest = Path(attempt.path) / "manifest.json"
    content = json.loads(manifest.read_text())
    content["files"][0]["path"] = path
    manifest.write_text(json.dumps(sealed(content)))  # a forger can seal it; a name is not followed for that
    with pytest.raises(ContractError, match="manifest.json names a file that no run writes"):
        open_run(str(tmp_path))


@pytest.mark.parametrize("text", ["", "[]", "{", '{"files": 3}', '{"files": [3]}', '{"files": [{"path": "x"}]}'])
def test_a_damaged_manifest_is_an_error_that_names_it(tmp_path, text):
    attempt = commit_new(tmp_path)
    (Path(attempt.path) / "manifest.json").write_text(text)
    with pytest.raises(ContractError, match="manifest.json"):
        open_run(str(tmp_path))


def test_the_latest_committed_date_is_opened_by_default(tmp_path):
    commit_new(tmp_path, run_date="2026-11-17")
    commit_new(tmp_path, run_date="2026-11-18")
    begin(str(tmp_path), "2026-11-19", replace=False)
    (tmp_path / "run_date=zzzz").mkdir()
    (tmp_path / "run_date=zzzz" / "CURRENT").write_text("x")
    assert open_run(str(tmp_path)).run_date == "2026-11-18"
    assert committed_dates(str(tmp_path)) == ["2026-11-17", "2026-11-18"]
    with pytest.raises(UsageError, match="2026-11-17, 2026-11-18"):
        open_run(str(tmp_path), "2026-11-19")


@pytest.mark.parametrize("text", ["../x", "2026-13-01", "20261118", "", "2026-11-18/../x"])
def test_a_run_date_that_is_no_date_makes_no_folder(tmp_path, text):
    with pytest.raises(UsageError):
        begin(str(tmp_path), text, replace=False)
    assert list(tmp_path.iterdir()) == []


def test_an_output_folder_that_cannot_be_made_is_an_error_that_names_it(tmp_path):
    (tmp_path / "out").write_text("a file")
    with pytest.raises(RankbeamError, match=f"cannot make {tmp_path}/out/") as failed:
        begin(str(tmp_path / "out"), DATE, replace=False)
    assert failed.value.exit_code == 1


@pytest.mark.parametrize("name", ["ledger.json", "manifest.json", "CURRENT"])
def test_a_full_disk_at_any_small_file_fails_with_its_name_and_publishes_nothing(tmp_path, monkeypatch, name):
    earlier = commit_new(tmp_path, 0.25)
    attempt = begin(str(tmp_path), DATE, replace=True)
    write_run(attempt)
    replace = os.replace

    def full(source: str, target: str) -> None:
        if target.endswith(f"/{name}"):
            raise OSError(errno.ENOSPC, "No space left on device")
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(RankbeamError, match=rf"{name}: No space left on device") as failed:
        commit(attempt)
    assert failed.value.exit_code == 1
    assert current(tmp_path) == f"{earlier.name}\n"
    assert mean(tmp_path) == 0.25
    assert not [path for path in tmp_path.rglob(".*-*") if path.is_file()], "a temporary file stayed"


def in_process(script: str, *args: str) -> str:
    """Run a script in a process of its own, where forking is safe: this one may hold the threads of Beam and Arrow."""
    text = f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'tests')!r}]\nfrom test_commit import *\n{script}"
    command = [sys.executable, "-B", "-c", text, *args]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


RACE = """
import multiprocessing, time
replace = sys.argv[2] == "replace"

def late(source, target, replace=os.replace):
    # Between compare and rename a launcher is given time to do harm, if the lock lets it.
    time.sleep(0.02 if target.endswith("CURRENT") else 0)
    replace(source, target)

def racer(start, outcomes):
    os.replace = late
    for turn in range(20):
        out = Path(sys.argv[1], str(turn))
        attempt = begin(str(out), DATE, replace)
        write_run(attempt)
        start.wait()
        try:
            commit(attempt)
            outcomes.put((turn, "won", attempt.name))
        except ContractError as error:
            assert error.exit_code == 3
            outcomes.put((turn, "lost", str(error)))

fork = multiprocessing.get_context("fork")
if replace:
    for turn in range(20):
        commit_new(Path(sys.argv[1], str(turn)))
start, outcomes = fork.Barrier(2), fork.Queue()
racers = [fork.Process(target=racer, args=(start, outcomes)) for _ in range(2)]
[each.start() for each in racers]
found = [outcomes.get(timeout=60) for _ in range(40)]
[each.join() for each in racers]
print(json.dumps(sorted(found)))
"""


@pytest.mark.parametrize("how", ["first", "replace"])
def test_of_two_launchers_exactly_one_commits_and_the_other_names_it(tmp_path, how):
    outcomes = json.loads(in_process(RACE, str(tmp_path), how))
    for turn in range(20):
        (_, lost, message), (_, won, winner) = (each for each in outcomes if each[0] == turn)
        assert (lost, won) == ("lost", "won")
        assert winner in message
        run = open_run(str(tmp_path / str(turn)), DATE)
        run.verify()
        assert run.attempt == winner


CRASH = """
# Each round a child commits a replacement and dies before its n-th touch of the disk; the last round's child survives.
out = Path(sys.argv[1])

def die_at(step):
    left = step
    def touch(event, *_):
        nonlocal left
        left -= 1
        if left == 0:
            os._exit(9)
    watched = {"open", "os.mkdir", "os.rename", "os.link", "os.remove"}
    sys.addaudithook(lambda event, args: touch(event) if event in watched and str(out) in str(args) else None)
    fsync = os.fsync
    os.fsync = lambda file: (touch("fsync"), fsync(file))

first = sys.argv[2] == "first"
for step in range(1, 500):
    where = out / str(step)
    if not first:
        commit_new(where, 0.25)
    before = snapshot(where)
    child = os.fork()
    if child == 0:
        die_at(step)
        commit_new(where, 0.75, replace=not first)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    after = snapshot(where)
    pointer = f"run_date={DATE}/CURRENT"
    assert {**after, pointer: None}.items() >= {**before, pointer: None}.items(), "an earlier file changed"
    if after.get(pointer) == before.get(pointer):
        assert status == 9
        if first:
            assert committed_dates(str(where)) == []
        else:
            assert mean(where) == 0.25
            open_run(str(where)).verify()
        seen = "old"
    else:
        assert mean(where) == 0.75
        open_run(str(where)).verify()
        seen = "new"
    commit_new(where, 0.5, replace=seen == "new" or not first)
    open_run(str(where)).verify()
    assert mean(where) == 0.5
    print(step, seen, status)
    if status == 0:
        break
"""


@pytest.mark.parametrize("how", ["first", "replace"])
def test_killed_at_any_step_the_old_run_stands_or_the_new_one_does_and_the_next_commits(tmp_path, how):
    rounds = [line.split() for line in in_process(CRASH, str(tmp_path), how).splitlines()]
    seen = [each[1] for each in rounds]
    assert rounds[-1][1:] == ["new", "0"]
    assert len(rounds) > 30, "the hook saw too few steps to have covered the commit"
    assert seen == sorted(seen, reverse=True), "once the new run stands it stays"
    assert seen.count("new") > 1, "a crash after the swap was not tried"


class Refused(Exception):
    response = {"Error": {"Code": "PreconditionFailed"}}


class FakeBucket:
    """As much of both stores as a conditional put needs: bytes with a version that each write changes."""

    def __init__(self) -> None:
        self.data: bytes | None = None
        self.version = 0

    def put(self, data: bytes, version: int) -> None:
        if version != (self.version if self.data is not None else 0):
            raise Refused
        self.data, self.version = data, self.version + 1

    # gs://
    def bucket(self, name: str) -> "FakeBucket":
        assert name == "lake"
        return self

    def get_blob(self, name: str) -> SimpleNamespace | None:
        assert name == "runs/CURRENT"
        data = self.data
        read = SimpleNamespace(generation=self.version, download_as_bytes=lambda if_generation_match: data)
        return None if data is None else read

    def blob(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(upload_from_string=lambda data, if_generation_match: self.put(data, if_generation_match))

    # s3://
    def get_object(self, Bucket: str, Key: str) -> dict:
        return {"Body": SimpleNamespace(read=lambda: self.data), "ETag": str(self.version)}

    def put_object(self, Bucket: str, Key: str, Body: bytes, IfNoneMatch: str = "", IfMatch: str = "0") -> None:
        assert (Bucket, Key, IfNoneMatch in ("", "*")) == ("lake", "runs/CURRENT", True)
        self.put(Body, int(IfMatch))


@pytest.mark.parametrize("kind", ["gs", "s3"])
def test_object_stores_swap_only_what_was_expected(monkeypatch, kind):
    store = FakeBucket()
    modules = {
        "google.cloud.storage": SimpleNamespace(Client=lambda: store),
        "google.api_core.exceptions": SimpleNamespace(PreconditionFailed=Refused),
        "boto3": SimpleNamespace(client=lambda _: store),
        "botocore.exceptions": SimpleNamespace(ClientError=Refused),
    }
    monkeypatch.setattr(storage, "import_module", modules.__getitem__)
    path = f"{kind}://lake/runs/CURRENT"
    assert storage.compare_and_set(path, None, b"one")
    assert not storage.compare_and_set(path, None, b"two")
    assert not storage.compare_and_set(path, b"other", b"two")
    assert storage.compare_and_set(path, b"one", b"two")
    assert store.data == b"two"


@pytest.mark.parametrize(("kind", "extra"), [("gs", "rankbeam[gcp]"), ("s3", "rankbeam[aws]")])
def test_a_missing_client_is_an_error_that_names_the_extra_and_no_key(monkeypatch, kind, extra):
    def missing(name: str) -> None:
        raise ImportError(name)

    monkeypatch.setattr(storage, "import_module", missing)
    with pytest.raises(UsageError) as failed:
        storage.compare_and_set(f"{kind}://me:hunter2@lake/CURRENT", None, b"x")
    assert extra in str(failed.value)
    assert "hunter2" not in str(failed.value)


REMOTE = """
import io
from apache_beam.io.filesystem import CompressionTypes, FileMetadata, FileSystem

STORE = {}

class Upload(io.BytesIO):
    def __init__(self, path):
        super().__init__()
        self.path = path
    def close(self):
        if not self.closed:
            STORE[self.path] = self.getvalue()
        super().close()

class Mem(FileSystem):
    scheme = classmethod(lambda cls: "mem")
    has_dirs = lambda self: False
    exists = lambda self, path: path in STORE
    open = lambda self, path, mime_type=None, compression_type=None: io.BytesIO(STORE[path])
    create = lambda self, path, mime_type=None, compression_type=None: Upload(path)
    def _list(self, prefix):
        return (FileMetadata(path, len(data)) for path, data in STORE.items() if path.startswith(prefix))
    def join(self, base, *paths): return "/".join((base, *paths))
    def split(self, path): return tuple(path.rsplit("/", 1))
    mkdirs = copy = rename = size = last_updated = checksum = delete = metadata = lambda self, *args: 1 / 0
Mem.__abstractmethods__ = frozenset()

commit_new("mem://lake/runs/", 0.25)
commit_new("mem://lake/runs", 0.75, replace=True)
run = open_run("mem://lake/runs")
run.verify()
print(run.summary()["mean"].to_pylist(), committed_dates("mem://lake/runs"))
try:
    begin("mem://lake/runs", DATE, False)
except ContractError as error:
    print(error.exit_code)
"""


def test_a_store_known_only_to_beam_takes_and_gives_back_a_run():
    assert in_process(REMOTE).splitlines() == [f"[0.75] ['{DATE}']", "3"]
