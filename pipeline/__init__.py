"""The job: from a command line to a committed run. `evaluate` is the same scoring without files and without Beam."""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .evaluate import evaluate

__all__ = ["evaluate"]


def __getattr__(name: str) -> Any:
    """`evaluate` on first use: the command line must not pay for numpy and Arrow to print its help."""
    if name == "evaluate":
        from .evaluate import evaluate

        return evaluate
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Package(ModuleType):
    """The function `evaluate` lives in a module of the same name, which Python hangs here once anybody imports it.

    The function takes its place, so that `pipeline.evaluate(...)` never depends on who imported what before.
    """

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "evaluate" and isinstance(value, ModuleType):
            value = value.evaluate
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
