"""`make bench-hostile`: what hostile volume costs, and whether every record of it is accounted for.

Each case is the real command in a process of its own; a hostile run follows its clean one, round after round. One
table: wall time, its ratio to the clean run's, peak memory, the bar, and whether it holds. Exits 1 if one does not.
"""

import argparse
import json
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import hostile_copies as copies
import hostile_mixed as mixed
import pyarrow.parquet as pq

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MB = 1_000_000
ANY = ("--max-rejects", "100%")


@dataclass
class Run:
    """What one run cost and said."""

    wall: float
    peak: float
    code: int
    out: Path
    log: str

    def attempt(self) -> Path:
        (current,) = self.out.glob("run_date=*/CURRENT")
        return current.parent / current.read_text().strip()

    def ledger(self) -> dict:
        return json.loads((self.attempt() / "manifest.json").read_text())["ledger"]

    def places(self) -> Counter[tuple[str, str]]:
        """(file:line, code) of every row of `rejected` that the manifest names."""
        found: Counter[tuple[str, str]] = Counter()
        for file in json.loads((self.attempt() / "manifest.json").read_text())["files"]:
            if file["path"].startswith("rejected/"):
                table = pq.read_table(self.attempt() / file["path"], columns=["location", "code"])
                locations = (location.rsplit("/", 1)[-1] for location in table["location"].to_pylist())
                found.update(zip(locations, table["code"].to_pylist(), strict=True))
        return found


@dataclass
class Verdict:
    case: str
    wall: float
    ratio: float | None
    peak: float
    bar: str
    wrong: list[str]


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench-hostile", description=__doc__.split("\n")[0])
    parser.add_argument("--records", type=int, default=1_000_000, help="copies of one id, and ids of the mixed set")
    parser.add_argument("--line-mb", type=int, default=100, help="size of a giant line")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--seed", type=int, default=20261118)
    parser.add_argument("--workdir", type=Path, default=ROOT / "build" / "hostile")
    flags = parser.parse_args()
    flags.workdir = flags.workdir.resolve()
    verdicts = [verdict for name in flags.only for verdict in CASES[name](flags)]
    print(f"{'':<38} {'wall':>8} {'ratio':>6} {'peak':>8}  bar")
    for each in verdicts:
        ratio = "" if each.ratio is None else f"{each.ratio:.2f}"
        said = "holds" if not each.wrong else "DOES NOT HOLD: " + "; ".join(each.wrong)
        print(f"{each.case:<38} {each.wall:6.1f} s {ratio:>6} {each.peak / MB:5.0f} MB  {each.bar}: {said}")
    return 1 if any(each.wrong for each in verdicts) else 0


def copied(flags: argparse.Namespace) -> list[Verdict]:
    """A million copies of one id: under 1 GB, in less than twice the clean time, every count exact."""
    return [
        verdict
        for format in copies.FORMATS
        for side in ("samples", "outputs")
        for verdict in _copied(flags, side, format)
    ]


def _copied(flags: argparse.Namespace, side: str, format: str) -> list[Verdict]:
    folder, records = flags.workdir / "copies", flags.records + copies.OTHERS
    folder.mkdir(parents=True, exist_ok=True)
    # The last is refused: the default allows 1,000 rejects.
    cases = {"clean": ANY, "equal": ANY, "differing": ANY, "differing, refused": ()}
    inputs = {case: copies.write(folder, side, case.split(",")[0], format, records) for case in cases}
    runs: dict[str, list[Run]] = {case: [] for case in cases}
    wrong: dict[str, list[str]] = {case: [] for case in cases}
    for _ in range(flags.rounds):
        for case, allowed in cases.items():
            run = command(flags.workdir / "out", *inputs[case], *allowed)
            runs[case].append(run)
            if run.code != (0 if allowed else 3):
                wrong[case].append(f"exit {run.code}: {run.log[-300:]}")
            elif allowed:
                must = copies.expected(side, case, records)
                wrong[case] += [f"{each}: {run.ledger()[each]}" for each in must if run.ledger()[each] != must[each]]
    clean = median(run.wall for run in runs["clean"])
    verdicts = []
    for case in cases:
        wall, peak = median(run.wall for run in runs[case]), max(run.peak for run in runs[case])
        if case != "clean" and peak >= 1000 * MB:
            wrong[case].append("memory")
        if wall >= 2 * clean:
            wrong[case].append("time")
        bar = "counts" if case == "clean" else "< 2 x clean, < 1000 MB, counts"
        verdicts.append(Verdict(f"{format} {side}, {case}", wall, wall / clean, peak, bar, wrong[case]))
    return verdicts


def giants(flags: argparse.Namespace) -> list[Verdict]:
    """Giant lines: all rejected, at a cost in proportion to their bytes, under 500 MB."""
    folder = flags.workdir / "giants"
    folder.mkdir(parents=True, exist_ok=True)
    samples = folder / "samples.jsonl"
    samples.write_text("".join(f'{{"id": "q-{i}", "expected_output": ["a"]}}\n' for i in range(1000)))
    numbers = (0, 2, 10)
    files = {number: _giants(folder / f"outputs-{number}.jsonl", number, flags.line_mb * MB) for number in numbers}
    runs: dict[int, list[Run]] = {number: [] for number in numbers}
    wrong: dict[int, list[str]] = {number: [] for number in numbers}
    for _ in range(flags.rounds):
        for number in numbers:
            run = command(flags.workdir / "out", samples, files[number], *ANY)
            runs[number].append(run)
            if run.code:
                wrong[number].append(f"exit {run.code}: {run.log[-300:]}")
            elif run.ledger()["rejected"]["outputs"] != ({"too_large": number} if number else {}):
                wrong[number].append(f"rejected {run.ledger()['rejected']['outputs']}")
            elif run.ledger()["outputs"]["matched"] != 1000:
                wrong[number].append(f"matched {run.ledger()['outputs']['matched']}")
    wall = {number: median(run.wall for run in runs[number]) for number in numbers}
    added = {number: (wall[number] - wall[0]) / number for number in numbers if number}
    # A cost that grew with the square would be five times as high. Below 0.05 s a line is noise.
    if added[10] > 1.5 * max(added[2], 0.05):
        wrong[10].append(f"{added[10]:.2f} s a line for ten, {added[2]:.2f} s for two")
    verdicts = []
    for number in numbers:
        peak = max(run.peak for run in runs[number])
        if peak >= 500 * MB:
            wrong[number].append("memory")
        each = f", {added[number]:.2f} s a line" if number else ""
        bar = f"all rejected, in proportion, < 500 MB{each}"
        case = f"{number} lines of {flags.line_mb} MB"
        verdicts.append(Verdict(case, wall[number], wall[number] / wall[0], peak, bar, wrong[number]))
    return verdicts


def _giants(path: Path, number: int, size: int) -> Path:
    """A thousand good outputs with the giants spread among them."""
    good = [f'{{"id": "q-{i}", "actual_output": ["a"]}}\n'.encode() for i in range(1000)]
    with path.open("wb") as file:
        for i, line in enumerate(good):
            file.write(line)
            if i % 100 == 50 and i // 100 < number:
                file.write(b'{"id": "giant", "actual_output": ["' + b"x" * (size - 37) + b'"]}\n')
    return path


def mix(flags: argparse.Namespace) -> list[Verdict]:
    """Half a percent of each fault: every count and every place exact."""
    folder = flags.workdir / "mixed"
    shutil.rmtree(folder, ignore_errors=True)
    known = mixed.write(folder, flags.records, flags.seed)
    plan = ("--plan", str(folder / "plan.toml"))
    run = command(flags.workdir / "out", folder / "samples-*.jsonl", folder / "outputs-*.jsonl", *ANY, *plan)
    wrong = [f"exit {run.code}: {run.log[-300:]}"] if run.code else []
    wrong = wrong or mixed.differences(known, run.ledger(), run.places())
    bar = f"every count and all {known.places.total()} places exact"
    return [Verdict(f"mixed, {len(mixed.FATES) - 1} faults", run.wall, None, run.peak, bar, wrong)]


def command(out: Path, samples: Path, outputs: Path, *more: str) -> Run:
    """`rankbeam run` into an empty folder, measured."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    cost, log = out.with_suffix(".json"), out.with_suffix(".log")
    given = ["--samples", str(samples), "--outputs", str(outputs), "--out", str(out), *more]
    run = [sys.executable, "-m", "pipeline", "run", *given]
    done = subprocess.run([sys.executable, str(HERE / "measure.py"), str(cost), str(log), *run], cwd=ROOT)
    figures = json.loads(cost.read_text())
    print(f"  {figures['wall']:6.1f} s {figures['peak'] / MB:5.0f} MB  {outputs.name}", file=sys.stderr, flush=True)
    return Run(figures["wall"], figures["peak"], done.returncode, out, log.read_text(errors="replace"))


CASES = {"copies": copied, "giants": giants, "mixed": mix}


if __name__ == "__main__":
    sys.exit(main())
