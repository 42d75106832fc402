"""The command line's grammar: which flags each command takes, and one-line errors with the nearest known word."""

import argparse
from typing import Any, NoReturn

from .errors import UsageError
from .nearest import nearest
from .redact import redact

COMMANDS = ("run", "show", "metrics", "validate", "demo")
_BEAM_HINT = "flags for Beam go after a bare --"
# Those people reach for first; --runner would else be taken for a mistyped --run-date.
_BEAM_FLAGS = ("--runner", "--streaming", "--project", "--region", "--parallelism", "--job_name")


class Parser(argparse.ArgumentParser):
    """argparse with exact flag names, and errors raised instead of pages printed."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **kwargs})

    def error(self, message: str) -> NoReturn:
        message = message.removeprefix("argument ")
        raise UsageError(redact(" ".join(message.split())))


def parse(argv: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """The flags, and what follows a bare `--`."""
    ours, beam_args = split(argv)
    command = next((arg for arg in ours if not arg.startswith("-")), None)
    if command is not None and command not in COMMANDS:
        near = nearest(command, COMMANDS)
        known = f"did you mean {near}?" if near else f"known: {', '.join(COMMANDS)}"
        raise UsageError(f"unknown command {redact(command)!r}; {known}")
    parser, commands = _build()
    flags, unknown = parser.parse_known_args(ours)
    if unknown:
        raise UsageError(_unknown_message(unknown, commands.get(command or "", parser)))
    if command is None and not flags.version:
        raise UsageError(f"no command; one of {', '.join(COMMANDS)} (rankbeam --help tells more)")
    if beam_args and command not in ("run", "demo"):
        raise UsageError(f"{command} starts no Beam job and takes nothing after --")
    return flags, beam_args


def split(argv: list[str]) -> tuple[list[str], list[str]]:
    """Ours, and Beam's: what stands before and after the first bare `--`."""
    if "--" not in argv:
        return argv, []
    at = argv.index("--")
    return argv[:at], argv[at + 1 :]


def _unknown_message(unknown: list[str], parser: argparse.ArgumentParser) -> str:
    flag = next((arg for arg in unknown if arg.startswith("-")), None)
    if flag is None:
        return f"unexpected {redact(unknown[0])!r}; quote a pattern to keep the shell off it, or repeat its flag"
    name = flag.split("=", 1)[0]
    known = [option for action in parser._actions for option in action.option_strings if option.startswith("--")]
    near = None if name in _BEAM_FLAGS else nearest(name, known)
    return f"unknown flag {redact(name)}" + (f"; did you mean {near}?" if near else f"; {_BEAM_HINT}")


def _build() -> tuple[Parser, dict[str, Parser]]:
    parser = Parser(
        prog="rankbeam",
        description="Score retrieval outputs against samples, every record accounted for.",
        epilog="Exit codes: 0 ok, 1 internal or runner failure, 2 usage or plan, 3 input contract.",
    )
    parser.add_argument("--version", action="store_true", help="print the version and leave")
    _add_debug(parser, default=False)
    commands = parser.add_subparsers(dest="command", metavar="|".join(COMMANDS), parser_class=Parser)

    run = commands.add_parser(
        "run",
        help="join, score, pool and commit",
        usage="rankbeam run --samples PATTERN --outputs PATTERN --out FOLDER [flags] [-- Beam's flags]",
        description="Join samples with outputs by id, score, pool, and commit the result. Flags beat the plan file.",
    )
    _add_inputs(run)
    run.add_argument("--out", metavar="FOLDER", help="where runs are committed")
    run.add_argument("--run-date", metavar="DATE", help="YYYY-MM-DD; today's UTC date if left out")
    run.add_argument("--replace", action="store_true", default=None, help="take the place of the date's committed run")
    run.add_argument("--buckets", metavar="N", help="parts of the join (from the size of the input)")
    run.add_argument("--block-rows", metavar="N", help="records of a block (65536)")
    _add_debug(run)

    show = commands.add_parser("show", help="print a committed run", description="Check a committed run and print it.")
    show.add_argument("out", metavar="FOLDER", help="what --out of the run was")
    show.add_argument("--run-date", metavar="DATE", help="YYYY-MM-DD; the latest if left out")
    show.add_argument("--format", default="table", metavar="F", help="table, json, csv or md")
    _add_debug(show)

    metrics = commands.add_parser("metrics", help="print every metric", description="Every metric, and what it means.")
    metrics.add_argument("--format", default="table", metavar="F", help="table, md or json")
    _add_debug(metrics)

    validate = commands.add_parser(
        "validate",
        help="check the inputs, write nothing",
        description="Check both sides against the input contract and preview the join. Writes nothing.",
    )
    _add_inputs(validate)
    _add_debug(validate)

    demo = commands.add_parser(
        "demo", help="write a small dataset and run it", description="Try it out on made-up data."
    )
    demo.add_argument("folder", nargs="?", default="rankbeam-demo", metavar="FOLDER", help="./rankbeam-demo by default")
    _add_debug(demo)
    return parser, {"run": run, "show": show, "metrics": metrics, "validate": validate, "demo": demo}


def _add_inputs(parser: Parser) -> None:
    parser.add_argument("--samples", action="append", metavar="PATTERN", help="files of samples; may be repeated")
    parser.add_argument("--outputs", action="append", metavar="PATTERN", help="files of outputs; may be repeated")
    parser.add_argument("--metrics", metavar="LIST", help="such as hit@5,recall@5,10,mrr (hit@k,recall@k,mrr,ndcg@k)")
    parser.add_argument("--k", metavar="N", help="the cutoff of @k where a sample names none (5)")
    parser.add_argument("--dialect", metavar="NAME", help="whose conventions to follow (standard)")
    parser.add_argument("--slice-by", metavar="FIELDS", help="fields of metadata, separated by commas")
    parser.add_argument("--missing", metavar="HOW", help="a sample without output: zero, skip or fail (zero)")
    parser.add_argument("--plan", metavar="FILE", help="a TOML file with any of these flags, named with underscores")
    parser.add_argument("--samples-format", metavar="F", help="jsonl parquet avro yaml trec beir autorag json")
    parser.add_argument("--outputs-format", metavar="F", help="likewise; both are guessed from the name where safe")
    parser.add_argument("--max-rejects", metavar="N|N%", help="most rejects of a side (the lesser of 1%% and 1000)")
    parser.add_argument("--ties", metavar="HOW", help="equal scores of a TREC run: trec, trec10 or given (trec)")


def _add_debug(parser: Parser, default: Any = argparse.SUPPRESS) -> None:
    """On the command as well as before it; suppressed there so that its absence does not undo the other."""
    parser.add_argument("--debug", action="store_true", default=default, help="show tracebacks and Beam's log")
