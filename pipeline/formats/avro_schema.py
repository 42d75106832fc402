"""Avro writer schemas, judged before anything is decoded by them."""

import json
from typing import Any

import fastavro

from transforms.limits import MIB

_LARGEST_SCHEMA = MIB
_DEEPEST = 64
_MOST_VALUES = 10_000
_PRIMITIVES = {"null": 0, "boolean": 1, "int": 1, "long": 1, "float": 4, "double": 8, "bytes": 1, "string": 1}


class Schema:
    """A writer schema known to be finite, with logical types taken off: a UUID stays the text it is stored as.

    Refused, with ValueError: a type that holds itself (a file of 10 KB then drives fastavro 10,000 calls deep and ends
    the process), a schema that is very deep or stands for very many values (named types used twice double at each
    level), and lists of items that take no bytes (their length is bounded by nothing).
    """

    def __init__(self, text: bytes) -> None:
        if len(text) > _LARGEST_SCHEMA:
            raise ValueError(f"has a schema of {len(text)} bytes, the limit is {_LARGEST_SCHEMA}")
        try:
            parsed = fastavro.parse_schema(json.loads(text), _write_hint=False)
        except RecursionError as error:
            raise ValueError("has a schema that is nested too deeply") from error
        except Exception as error:  # fastavro lets KeyError, TypeError and its own types out
            raise ValueError(f"has a schema that cannot be understood: {error}") from error
        self._named: dict[str, dict[str, Any]] = {}
        self._sizes: dict[str, tuple[int, int, int]] = {}
        self._root, (_, _, width) = self._walk(parsed, ())
        record = self._named.get(self._root) if isinstance(self._root, str) else None
        if record is None or record["type"] != "record":
            raise ValueError("does not hold records; write each sample or output as a record")
        if not width:
            raise ValueError("holds records without content")
        self._record = record

    @property
    def names(self) -> tuple[str, ...]:
        """The fields of a record."""
        return tuple(field["name"] for field in self._record["fields"])

    def written(self) -> Any:
        """The schema to decode by."""
        return self._render(self._root, set())

    def _walk(self, node: Any, above: tuple[str, ...]) -> tuple[Any, tuple[int, int, int]]:
        """A copy that names its named types, and how deep it is, how many values it stands for, its fewest bytes."""
        if len(above) > _DEEPEST:
            raise ValueError(f"has a schema nested more than {_DEEPEST} deep")
        if isinstance(node, list):
            branches = [self._walk(branch, (*above, "")) for branch in node]
            return [copy for copy, _ in branches], _checked([size for _, size in branches], 1)
        if isinstance(node, str):
            if node in above:
                raise ValueError(f"has a recursive schema ({node} holds itself); write it without")
            if node in _PRIMITIVES:
                return node, (1, 1, _PRIMITIVES[node])
            return node, self._sizes[node]
        kind = node["type"]
        if kind in ("array", "map"):
            key = "items" if kind == "array" else "values"
            copy, (depth, values, width) = self._walk(node[key], (*above, ""))
            if not width and kind == "array":
                raise ValueError("has lists of items without content; write them without")
            return {"type": kind, key: copy}, _checked([(depth, values, 1)], 1)
        if kind in ("record", "error", "enum", "fixed"):
            return self._define(node, above)
        return self._walk(kind, (*above, ""))

    def _define(self, node: dict[str, Any], above: tuple[str, ...]) -> tuple[str, tuple[int, int, int]]:
        name, kind = node["name"], node["type"]
        if kind == "enum":
            self._named[name] = {"type": kind, "name": name, "symbols": node["symbols"]}
            self._sizes[name] = (1, 1, 1)
        elif kind == "fixed":
            self._named[name] = {"type": kind, "name": name, "size": node["size"]}
            self._sizes[name] = (1, 1, node["size"])
        else:
            fields = [(field["name"], *self._walk(field["type"], (*above, name))) for field in node["fields"]]
            copies = [{"name": field, "type": copy} for field, copy, _ in fields]
            self._named[name] = {"type": "record", "name": name, "fields": copies}
            sizes = [size for _, _, size in fields]
            self._sizes[name] = _checked(sizes, sum(width for _, _, width in sizes))
        return name, self._sizes[name]

    def _render(self, node: Any, seen: set[str]) -> Any:
        """The copy with each named type spelt out where it is first used."""
        if isinstance(node, list):
            return [self._render(branch, seen) for branch in node]
        if isinstance(node, str):
            if node in seen or node not in self._named:
                return node
            seen.add(node)
            return self._render(self._named[node], seen)
        copy = dict(node)
        for key in ("items", "values"):
            if key in copy:
                copy[key] = self._render(copy[key], seen)
        if "fields" in copy:
            copy["fields"] = [field | {"type": self._render(field["type"], seen)} for field in copy["fields"]]
        return copy


def _checked(parts: list[tuple[int, int, int]], width: int) -> tuple[int, int, int]:
    depth = 1 + max((depth for depth, _, _ in parts), default=0)
    values = 1 + sum(values for _, values, _ in parts)
    if depth > _DEEPEST:
        raise ValueError(f"has a schema nested more than {_DEEPEST} deep")
    if values > _MOST_VALUES:
        raise ValueError(f"has a schema of more than {_MOST_VALUES} values a record")
    return depth, values, width
