"""The ways a run ends badly on purpose. Each carries the exit code a shell sees; DESIGN §5 lists them.

A message is one line: what is wrong, where, and what to do about it. Anything raised that is not one of
these is a fault in rankbeam, and the command says so instead of dressing it up as the user's mistake.
"""


class RankbeamError(Exception):
    """The run could not be finished; nothing was made visible."""

    exit_code = 1


class UsageError(RankbeamError):
    """The command, a flag, or the plan file asks for something that cannot be asked for."""

    exit_code = 2


class ContractError(RankbeamError):
    """The data broke a promise the run was told to hold it to (too many rejects, missing outputs, a moved ledger)."""

    exit_code = 3
