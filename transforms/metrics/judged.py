"""A block of rankings after judgement: all that a metric may look at. No ids, no texts, no I/O."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..records import Bools, Floats, Ints


@dataclass(frozen=True)
class Judged:
    """n samples; what their rankings hold of their gold, as sparse entries.

    Only documents that the gold names appear: everything else in a ranking is unjudged, and its position is known
    from the ranks of the others and from `length`. An entry of a missing, bad or empty ranking does not exist.
    """

    n: int
    row: Ints
    """Entry → sample. Entries are sorted by (row, rank)."""
    rank: Ints
    """Entry → 1-based rank; where a dialect takes repeats of an id out, counted after that."""
    gain: Floats
    """Entry → gain of the document in the gold (1.0 for binary gold; may be 0 or negative)."""
    first: Bools
    """Entry → whether it is the first of its document in the list. False only where a dialect keeps repeats."""
    length: Ints
    """Sample → length of its ranking, counted as the ranks are."""
    gold_row: Ints
    """Gold document → sample. Sorted by (row, gain descending). Each document once a sample."""
    gold_gain: Floats
    """Gold document → gain."""
    group_row: Ints
    """Gold group → sample, sorted by row. A gold that is not grouped has one group for each of its documents."""
    group_gain: Floats
    """Gold group → its gain: that of its document, or 1.0 for a group of several."""
    group_rank: Ints
    """Gold group → the best rank at which any member was found; 0 when none was."""
    match_group: Ints
    """Match → gold group: every time that an entry is a member of a group, also of a second one."""
    match_rank: Ints
    """Match → rank of the entry."""
    listed: Ints
    """Sample → documents in its gold as given, repeats counted."""

    def flat(self) -> "Judged":
        """The same with every gain 1: to be named in the gold is to be relevant."""
        ones = (np.ones(len(gains)) for gains in (self.gain, self.gold_gain, self.group_gain))
        gain, gold_gain, group_gain = ones
        return replace(self, gain=gain, gold_gain=gold_gain, group_gain=group_gain)


Cutoff = npt.NDArray[np.int64]
"""Sample → deepest rank that a metric may read; WHOLE where it reads the whole list."""

WHOLE = np.iinfo(np.int32).max
