"""A sieve of the gold: which (sample, document) pairs may be judged at all, in a few megabytes.

Only an entry that the gold names can be judged, and a ranking holds few of those. The sieve, built from all samples and
given to the readers of outputs, lets those entries through and nearly nothing else, before anything is shuffled. It may
let through too much, never too little; the join still decides. What a metric needs of a list besides its judged entries
(its length, its repeats, its defects) is taken from the whole list before.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .columns import list_parts
from .hashing import Hashes, hash_column, pair_hashes
from .records import Bools, Ints

Bits = npt.NDArray[np.uint8]

LARGEST = 29
"""2**29 bits are 64 MiB: what every worker can be asked to hold."""
_SMALLEST = 10
_FULLEST = 1 / 32
"""Folded until more than this share of the bits is set: small enough for the cache, still letting little through."""
_WORTH_IT = 1 << 32
"""Bytes of samples past which even the largest sieve would let most entries through."""


@dataclass(frozen=True)
class Sieve:
    """A table of bits, 2**order of them, by the high bits of a pair's hash."""

    bits: bytes
    order: int

    def holds(self, ids: Hashes, docs: Hashes) -> Bools:
        """Which pairs may be in the gold; both arguments have one hash a pair."""
        slots = _slots(ids, docs, self.order)
        found: Bits = np.frombuffer(self.bits, np.uint8).take(slots >> 3)
        found >>= (slots & 7).astype(np.uint8)
        found &= np.uint8(1)
        return found.view(np.bool_)


@dataclass
class BuildSieve(beam.PTransform):
    """Blocks of samples to the one sieve of all their gold."""

    order: int

    def expand(self, samples: beam.PCollection) -> beam.PCollection:
        return samples | "Gather" >> beam.CombineGlobally(SieveCombineFn(self.order))


class SieveCombineFn(beam.CombineFn):
    """Bits are only ever set, so the order of adding and merging cannot matter."""

    def __init__(self, order: int) -> None:
        self._order = order

    def create_accumulator(self) -> Bits:
        return np.zeros(1 << self._order - 3, np.uint8)

    def add_input(self, accumulator: Bits, samples: pa.RecordBatch) -> Bits:
        offsets, docs = list_parts(samples["docs"])
        ids = np.repeat(hash_column(samples["sample_id"]), np.diff(offsets))
        slots = _slots(ids, hash_column(docs), self._order)
        np.bitwise_or.at(accumulator, slots >> 3, np.uint8(1) << (slots & 7).astype(np.uint8))
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[Bits]) -> Bits:
        merged = self.create_accumulator()
        for each in accumulators:
            merged |= each
        return merged

    def extract_output(self, accumulator: Bits) -> Sieve:
        return fold_bits(accumulator)


def order_for(sample_bytes: int) -> int | None:
    """The size to start from: eight bits for each byte of samples, as no gold document takes less; None: no sieve."""
    if sample_bytes > _WORTH_IT:
        return None
    return max(_SMALLEST, min(LARGEST, (8 * sample_bytes).bit_length()))


def fold_bits(bits: Bits) -> Sieve:
    """The smallest sieve that still lets little through. Slots 2i and 2i + 1 become slot i: two bytes become one."""
    order = int(bits.size * 8).bit_length() - 1
    while order > _SMALLEST and np.bitwise_count(bits).sum(dtype=np.int64) < _FULLEST * bits.size * 8 / 2:
        bits = _HALVED[bits.view("<u2")]
        order -= 1
    return Sieve(bits.tobytes(), order)


def _halve(pairs: npt.NDArray[np.uint16]) -> Bits:
    either = pairs | pairs >> np.uint16(1)
    halved = np.zeros(len(pairs), np.uint8)
    for i in range(8):
        halved |= ((either >> np.uint16(2 * i) & np.uint16(1)) << np.uint16(i)).astype(np.uint8)
    return halved


_HALVED = _halve(np.arange(1 << 16, dtype=np.uint16))


def _slots(ids: Hashes, docs: Hashes, order: int) -> Ints:
    return (pair_hashes(ids, docs) >> np.uint64(64 - order)).view(np.int64)  # signed, as numpy indexes fastest
