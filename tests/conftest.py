"""What holds for every test."""

from hypothesis import settings

# The same examples on every machine, so that a failure can be seen by whoever looks; no deadline, because a loaded
# machine is not a bug.
settings.register_profile("rankbeam", derandomize=True, deadline=None)
settings.load_profile("rankbeam")
