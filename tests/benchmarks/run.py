"""`make bench`: rankbeam and its peers, from the same files to the same per-sample rows.

Each contender runs in a process of its own, in turn, several rounds, the order turning with the round. One table:
medians of wall time, CPU and peak memory, and their ratios to the baseline's. The same with every round's figures goes
to a JSON file. Exits 1 when a contender fails, or when its values differ from the baseline's by more than 1e-9.
"""

import argparse
import importlib
import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from statistics import median
from types import ModuleType

from agree import TOLERANCE, difference

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BASELINE = "pytrec_eval"
FIGURES = ("wall", "cpu", "peak")

Costs = dict[str, list[dict[str, float]]]


def main() -> int:
    cases, contenders = modules("case_"), modules("with_")
    flags = read_flags(cases, contenders)
    workdir = flags.workdir.resolve()
    case = cases[flags.case].prepare(flags, workdir)
    commands = {}
    for name in flags.only or contenders:
        out = workdir / "out" / name
        if command := contenders[name].command(case, out):
            commands[name] = (command, out)

    costs: Costs = {name: [] for name in commands}
    for turn in range(flags.rounds):
        for name in rotated(list(commands), turn):
            costs[name].append(measured(*commands[name]))
            note(f"round {turn + 1}/{flags.rounds}  {name:<24} {costs[name][-1]['wall']:7.2f} s")

    files = {name: contenders[name].tables(out) for name, (_, out) in commands.items()}
    reference = BASELINE if BASELINE in files else next(iter(files))
    verdicts = {name: difference(paths, files[reference]) for name, paths in files.items() if name != reference}

    print(table(costs, reference))
    for name, found in verdicts.items():
        print(f"{name}: {found or f'every value equals that of {reference} within {TOLERANCE}'}")
    result = workdir / f"{flags.case}.json"
    result.write_text(json.dumps(report(flags, costs, reference, verdicts), indent=2) + "\n")
    print(f"all figures: {result}")
    return 1 if any(verdicts.values()) else 0


def modules(prefix: str) -> dict[str, ModuleType]:
    names = sorted(path.stem for path in HERE.glob(f"{prefix}*.py"))
    return {name.removeprefix(prefix): importlib.import_module(name) for name in names}


def read_flags(cases: dict[str, ModuleType], contenders: dict[str, ModuleType]) -> argparse.Namespace:
    """The case's own flags exist only once the case is known, hence two parsers."""
    first = argparse.ArgumentParser(add_help=False)
    first.add_argument("--case", choices=cases, default="lists", help="what is evaluated (default: %(default)s)")
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__.split("\n")[0], parents=[first])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workdir", type=Path, default=ROOT / "build" / "bench", help="data, outputs and results")
    parser.add_argument("--only", nargs="+", choices=contenders, help="these contenders instead of all")
    cases[first.parse_known_args()[0].case].add_flags(parser)
    return parser.parse_args()


def rotated(names: list[str], turn: int) -> list[str]:
    start = turn % len(names)
    return names[start:] + names[:start]


def measured(command: list[str], out: Path) -> dict[str, float]:
    """Runs a contender into an empty folder. What it prints is kept, and shown only if it fails."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    cost, log = out.with_suffix(".json"), out.with_suffix(".log")
    done = subprocess.run([sys.executable, str(HERE / "measure.py"), str(cost), str(log), *command], cwd=ROOT)
    if done.returncode:
        raise SystemExit(f"{out.name} failed with {done.returncode}:\n{log.read_text(errors='replace')[-4000:]}")
    return json.loads(cost.read_text())


def table(costs: Costs, reference: str) -> str:
    lines = [f"{'':<24} {'wall':>9} {'CPU':>9} {'peak':>9}   ratio to {reference}: wall, CPU, peak"]
    for name in costs:
        wall, cpu, peak = (middle(costs, name, figure) for figure in FIGURES)
        ratios = "  ".join(f"{ratio(costs, name, reference, figure):6.3f}" for figure in FIGURES)
        lines.append(f"{name:<24} {wall:7.2f} s {cpu:7.2f} s {peak / 1e6:6.0f} MB   {ratios}")
    return "\n".join(lines)


def report(
    flags: argparse.Namespace, costs: Costs, reference: str, verdicts: dict[str, str | None]
) -> dict[str, object]:
    return {
        "flags": {name: str(value) if isinstance(value, Path) else value for name, value in vars(flags).items()},
        "machine": {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()},
        "baseline": reference,
        "contenders": {
            name: {
                "median": {figure: middle(costs, name, figure) for figure in FIGURES},
                "ratio": {figure: ratio(costs, name, reference, figure) for figure in FIGURES},
                "rounds": rounds,
                "differs": verdicts.get(name),
            }
            for name, rounds in costs.items()
        },
    }


def middle(costs: Costs, name: str, figure: str) -> float:
    return median(cost[figure] for cost in costs[name])


def ratio(costs: Costs, name: str, reference: str, figure: str) -> float:
    return middle(costs, name, figure) / middle(costs, reference, figure)


def note(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
