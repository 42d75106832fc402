"""Just enough of Thrift's compact protocol to look at a Parquet file before a library trusts it."""

from typing import Any

_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_DEEPEST = 16


class Malformed(ValueError):
    """Not what the protocol allows. Running out of bytes is an IndexError instead: more bytes may help."""


def read_struct(data: bytes, at: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """The struct at this offset, field number → value, and the offset behind it."""
    fields: dict[int, Any] = {}
    number = 0
    while True:
        head = data[at]
        at += 1
        kind = head & 15
        if not kind:
            return fields, at
        if head >> 4:
            number += head >> 4
        else:
            number, at = _zigzag(data, at)
        fields[number], at = (kind == _TRUE, at) if kind <= _FALSE else _read_value(data, at, kind, depth)


def _read_value(data: bytes, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if depth > _DEEPEST:
        raise Malformed("nested too deeply")
    if kind in (_I16, _I32, _I64):
        return _zigzag(data, at)
    if kind in (_TRUE, _FALSE, _BYTE):
        return data[at], at + 1
    if kind == _BINARY:
        size, at = _varint(data, at)
        return data[at : at + size], _within(data, at + size)
    if kind == _DOUBLE:
        return None, _within(data, at + 8)
    if kind == _STRUCT:
        return read_struct(data, at, depth + 1)
    if kind in (_LIST, _SET):
        length, item = data[at] >> 4, data[at] & 15
        at += 1
        if length == 15:
            length, at = _varint(data, at)
        items = []
        for _ in range(length):
            value, at = _read_value(data, at, item, depth + 1)
            items.append(value)
        return items, at
    raise Malformed(f"unexpected type {kind}")


def _within(data: bytes, at: int) -> int:
    if at > len(data):
        raise IndexError("out of bytes")
    return at


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value, at = _varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise Malformed("a number of more than ten bytes")
