"""Seeded mutations: of bytes, of JSON texts and of the values in them. The same seed gives the same bytes anywhere."""

import json
import random
import re
from typing import Any

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*|true|false|null|[\[\]{},:]')

# What a JSON token may turn into; the raw ones are texts that no writer of JSON would give.
RAW_TOKENS: tuple[bytes, ...] = (
    b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999", b"1e-999", b"1E400", b"9" * 30, b"9" * 310,
    b"-" + b"9" * 512,
    b"9" * 513, b"9" * 5000, b"01", b"1.", b".5", b"-", b"+1", b"0x1F", b"nul", b"True", b"None",
    b"undefined", b"'a'",
    b'"\\ud800"', b'"\\udc00\\ud800"', b'"\\ud83d\\ude00"', b'"\\q"', b'"\\u12"', b'"\\u0000"',
    b'"a\\u0007b"', b'"\x01"',
    b'"a\x00b"', b'"\xff"', b'"\xed\xa0\x80"', b'"\xc3"', b"\xef\xbb\xbf", b'"', b"[", b"]", b"{", b"}", b",",
    b":", b"{}", b"[]",
    b"", b" ", b"\t", b"\x0c", b"\xc2\xa0", b"\n", b"\r", b"\r\n", b"//", b"/*x*/", b"1,", b'"a" "b"',
    b'"a":1', b"1 2",
)  # fmt: skip


def values(rng: random.Random) -> Any:
    """A value that a field may be swapped for."""
    plain: list[Any] = [
        None, True, False, 0, 1, -1, 7, 2**31, 2**53 + 1, 2**64, -(2**70), 10**25, 0.0, -0.0, 0.5, 1e308, 5e-324,
        "", " ", "\t", "a", "doc-1", "q-1", "null", "[]", "{}", "[", '["doc-1"]', '{"doc-1": 2}',
        '[["doc-1"],["doc-2"]]',
        '[NaN]', '{"doc-1": NaN}', '{"retrieved": ["doc-1"]}', '{"retrieved": "[\\"doc-1\\"]"}', '"[\\"doc-1\\"]"',
        '{"doc-1": 1e999}', '[["doc-1"], "doc-2"]', '["\\ud800"]', '{"k": 3, "lang": "x"}', "1", "1.5", "nan",
        "inf", "1_0", " 2 ",
        "x" * 511, "x" * 512, "x" * 513, "é" * 512, "日" * 513, "a\x00b", "a\x1bb", "a\x7fb", "a\x85b",
        "a\u2028b", "\u00a0",
        "\u200b", "\u202eabc", "../../etc/passwd", "=HYPERLINK(1)", "</script>", "http://localhost/", "a\nb",
        "\ufeff", "😀",
        "e\u0301", "\u00e9", [], {}, [[]], [[], []], [None], [True], [1], [1.5], [""], [" "], ["doc-1"],
        ["doc-1", "doc-1"],
        ["doc-1", 2], [["doc-1"]], [["doc-1"], []], [["doc-1"], "doc-2"], [[["doc-1"]]], [[1], [2]], [[None]], [{}],
        {"doc-1": 1}, {"doc-1": True}, {"doc-1": None}, {"doc-1": "2"}, {"doc-1": "nan"}, {"doc-1": "1_0"},
        {"doc-1": -3},
        {"doc-1": 10**400}, {"doc-1": []}, {"": 1}, {" ": 1}, {"doc-1": 0}, {"doc-1": 0.1, "doc-2": 1e300},
        {"retrieved": ["doc-1"]}, {"retrieved": None}, {"retrieved": 42}, {"retrieved": []}, {"hits": []},
        {"retrieved": ["doc-1"], "error": "boom"}, {"error": "boom"}, {"error": ""}, {"retrieved": "not json"},
        [{"id": "doc-1"}], [{"id": "doc-1", "score": 1}], [{"id": "doc-1", "score": True}], [{"id": "doc-1",
        "score": "x"}],
        [{"id": "doc-1", "score": 10**400}], [{"id": "doc-1", "text": 5}], [{"id": ""}], [{"id": None}],
        [{"text": "t"}],
        [{"id": "doc-1", "text": "café"}, "doc-2", 3], {"k": 3}, {"k": 0}, {"k": True}, {"k": 10**20}, {"k": "3"},
        {"lang": [[[[1]]]]}, {"lang": {"a": [1, None]}}, {"lang": ["a", "a", None, 1, True]},
    ]  # fmt: skip
    if rng.random() < 0.15:
        return nested(rng)
    return rng.choice(plain)


def nested(rng: random.Random) -> Any:
    """A value nested near the limit, or far past it; inside a text the limit is not looked for."""
    depth = rng.choice([62, 63, 64, 65, 200, 700])
    value: Any = rng.choice(["doc-1", 1, []])
    for _ in range(depth):
        value = [value] if rng.random() < 0.7 else {"a": value}
    return {"lang": value} if rng.random() < 0.3 else value


def mutate_bytes(rng: random.Random, data: bytes, other: bytes) -> bytes:
    """One to three changes that know nothing of what the bytes mean."""
    changed = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        at = rng.randrange(len(changed) + 1)
        until = min(len(changed), at + rng.choice([1, 1, 2, 5, 20, 200]))
        way = rng.randrange(9)
        if way == 0 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif way == 1 and at < len(changed):
            changed[at] = rng.randrange(256)
        elif way == 2:
            del changed[at:until]
        elif way == 3:
            changed[at:at] = rng.randbytes(rng.choice([1, 1, 2, 8]))
        elif way == 4:
            changed[at:at] = changed[at:until]
        elif way == 5:
            del changed[at:]
        elif way == 6:
            start = rng.randrange(len(other) + 1)
            changed[at:until] = other[start : start + rng.choice([1, 10, 100, 1000])]
        elif way == 7:
            changed[at:until] = bytes(until - at)
        else:
            changed[at:until] = rng.choice([b"\xff" * (until - at), b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f"])
    return bytes(changed)


def mutate_tokens(rng: random.Random, line: bytes) -> bytes:
    """One or two tokens of a JSON text swapped, doubled, dropped or replaced."""
    for _ in range(rng.choice([1, 1, 2])):
        found = list(_TOKEN.finditer(line))
        if not found:
            return line
        one, two = rng.choice(found), rng.choice(found)
        new = rng.choice(
            [two.group(), two.group(), one.group() * 2, b"", rng.choice(RAW_TOKENS), rng.choice(RAW_TOKENS)]
        )
        line = line[: one.start()] + new + line[one.end() :]
    return line


def mutate_record(rng: random.Random, record: dict[str, Any], other: dict[str, Any]) -> bytes:
    """A record with one to three of its parts swapped, dropped, wrapped, doubled or made into text."""
    changed = json.loads(json.dumps(record))
    twice = b""
    for _ in range(rng.choice([1, 1, 2, 3])):
        way = rng.randrange(8)
        key = rng.choice(list(changed) or ["id"])
        if way == 0:
            changed.pop(key, None)
        elif way in (1, 2):
            changed[key] = values(rng)
        elif way == 3:
            changed[key] = rng.choice([[changed.get(key)], {"retrieved": changed.get(key)}, {"a": changed.get(key)}])
        elif way == 4:
            changed[key] = json.dumps(changed.get(key))
        elif way == 5:
            _swap_inside(rng, changed)
        elif way == 6:
            names = [
                "id",
                "metadata",
                "answer",
                "input",
                "error",
                "retrieved",
                "actualOutput",
                "cost",
                "unknown",
                "expected_output",
            ]
            changed[rng.choice(names)] = rng.choice([values(rng), changed.get(key), other.get(key)])
        else:
            twice = (
                b", "
                + json.dumps(key).encode()
                + b": "
                + json.dumps(rng.choice([other.get(key), values(rng)])).encode()
            )
    line = json.dumps(changed, ensure_ascii=rng.random() < 0.5).encode(errors="replace")
    return line[:-1] + twice + b"}" if twice and len(changed) else line


def _swap_inside(rng: random.Random, record: Any) -> None:
    """Put another value somewhere deep in the record."""
    spots: list[tuple[Any, Any]] = []
    todo = [record]
    while todo:
        holder = todo.pop()
        for key in list(holder) if isinstance(holder, dict) else range(len(holder)):
            spots.append((holder, key))
            if isinstance(holder[key], (dict, list)):
                todo.append(holder[key])
    if spots:
        holder, key = rng.choice(spots)
        holder[key] = values(rng)


def mutate_line(rng: random.Random, record: dict[str, Any], other: dict[str, Any]) -> bytes:
    """One record as a line that may no longer be one: changed on the level of bytes, tokens or values."""
    level = rng.choices([0, 1, 2], [2, 3, 5])[0]  # most changes of bytes only make it no JSON at all
    if level == 2:
        return mutate_record(rng, record, other)
    line = json.dumps(record, ensure_ascii=rng.random() < 0.5).encode()
    if level == 1:
        return mutate_tokens(rng, line)
    if rng.random() < 0.02:
        return b'{"id": "q-1", "input": ' + b"[" * 20_000 + rng.choice([b"", b"NaN"]) + b"]" * 20_000 + b"}"
    return mutate_bytes(rng, line, json.dumps(other).encode())
