"""`rankbeam demo`: a help centre's search, made up but lifelike, with the kinds of dirt that real exports hold.

The same bytes every time: one seed, and only draws whose algorithm Python keeps stable.
"""

import json
import os
from dataclasses import dataclass
from random import Random
from typing import Any

from .errors import UsageError
from .plan import Plan, make_plan

SEED = 20261118
SAMPLES = 600
METRICS = "hit@5,recall@5,recall@k,precision@5,mrr,ndcg@10"

_PRODUCTS = ("billing", "shipping", "accounts", "mobile", "integrations")
_SUBJECTS = {
    "billing": ("invoice", "refund", "card payment", "tax number", "subscription", "credit note"),
    "shipping": ("parcel label", "return", "customs form", "pick-up point", "delivery date", "damaged parcel"),
    "accounts": ("password", "two-step sign-in", "team seat", "e-mail address", "audit log", "data export"),
    "mobile": ("push notice", "offline mode", "barcode scan", "app update", "dark mode", "camera access"),
    "integrations": ("webhook", "API token", "calendar sync", "CSV import", "single sign-on", "rate limit"),
}
_ASPECTS = ("set up", "change", "cancel", "fix", "find", "share", "download")
_QUESTIONS = {
    "en": "How do I {aspect} my {subject}?",
    "de": "Wie geht das: {aspect} – {subject}?",
    "fr": "Comment faire « {aspect} » pour {subject} ?",
    "es": "¿Cómo hago esto: {aspect}, {subject}?",
}
_LANGUAGES = ("en", "en", "en", "de", "de", "fr", "es")
_TAGS = ("how-to", "error", "urgent", "security", "mobile")
# How far the made-up search engine is off: it was tuned on English.
_NOISE = {"en": 0.7, "de": 0.85, "fr": 1.0, "es": 1.1}


@dataclass(frozen=True)
class Article:
    id: str
    product: str
    subject: str
    aspect: str

    @property
    def text(self) -> str:
        return f"To {self.aspect} your {self.subject}, open {self.product} and pick {self.subject}. It takes a minute."


def write_demo(folder: str) -> tuple[str, str]:
    """Write samples.jsonl and outputs.jsonl into `folder`; gives their paths. Never overwrites a file of another."""
    samples, outputs = dataset()
    paths = (os.path.join(folder, "samples.jsonl"), os.path.join(folder, "outputs.jsonl"))
    contents = ["".join(line + "\n" for line in lines).encode() for lines in (samples, outputs)]
    for path, content in zip(paths, contents, strict=True):
        if os.path.exists(path) and not _holds(path, content):
            raise UsageError(f"{path}: there already, and not the demo's; name another folder: rankbeam demo FOLDER")
    os.makedirs(folder, exist_ok=True)
    for path, content in zip(paths, contents, strict=True):
        with open(path, "wb") as file:
            file.write(content)
    return paths


def demo_plan(folder: str) -> Plan:
    """The run the demo shows. Its dirt is more than the 1 % that a run allows unless told otherwise."""
    flags = {
        "samples": [os.path.join(folder, "samples.jsonl")],
        "outputs": [os.path.join(folder, "outputs.jsonl")],
        "out": os.path.join(folder, "runs"),
        "metrics": METRICS,
        "slice_by": "lang,tags",
        "max_rejects": "5%",
        "replace": True,
    }
    return make_plan(flags, {})


def dataset() -> tuple[list[str], list[str]]:
    """The lines of both files, dirt included, in the order they are written."""
    random = Random(SEED)
    articles = _corpus()
    samples: list[str] = []
    outputs: list[str] = []
    for number in range(SAMPLES):
        sample, wanted = _sample(random, number, articles)
        samples.append(_line(sample))
        if number % 50 != 7:  # these stay without an output: a system that gave no answer
            outputs.append(_line(_output(random, number, sample, wanted, articles)))
    samples += _bad_samples(samples)
    outputs += _bad_outputs(outputs)
    random.shuffle(samples)
    random.shuffle(outputs)
    return samples, outputs


def _corpus() -> list[Article]:
    triples = [(p, subject, aspect) for p in _PRODUCTS for subject in _SUBJECTS[p] for aspect in _ASPECTS]
    return [Article(f"kb-{number:04d}", *triple) for number, triple in enumerate(triples, start=1)]


def _sample(random: Random, number: int, articles: list[Article]) -> tuple[dict[str, Any], dict[str, int]]:
    """A question about one article, and the gain of every article that helps."""
    target = random.choice(articles)
    near = [a for a in articles if a.subject == target.subject and a.id != target.id]
    helpful = random.sample(near, random.randrange(3))
    wanted = {target.id: 3} | {article.id: 2 - at for at, article in enumerate(helpful)}
    lang = random.choice(_LANGUAGES)
    tags = random.sample(_TAGS, random.randrange(4))
    metadata: dict[str, Any] = {"lang": lang, "product": target.product, "tags": tags}
    if number % 10 == 3:
        metadata["k"] = random.choice((3, 10))
    sample = {
        "id": f"q-{number:04d}",
        "input": {"question": _QUESTIONS[lang].format(aspect=target.aspect, subject=target.subject)},
        "expected_output": _gold(number, wanted),
        "answer": f"open {target.product}",
        "metadata": metadata,
    }
    return sample, wanted


def _gold(number: int, wanted: dict[str, int]) -> Any:
    """The three shapes in turn; now and then a question that nothing in the help centre answers."""
    ids = list(wanted)
    if number % 150 == 44:
        return []
    return (ids, wanted, [ids[:2], ids[2:]] if ids[2:] else [ids])[number % 3]


def _output(
    random: Random, number: int, sample: dict[str, Any], wanted: dict[str, int], articles: list[Article]
) -> dict[str, Any]:
    product: str = sample["metadata"]["product"]
    noise = _NOISE[sample["metadata"]["lang"]]
    if number % 120 == 11:
        return {"id": sample["id"], "error": "search backend timed out after 2000 ms"}

    def score(article: Article) -> float:
        closeness = 0.45 * wanted.get(article.id, 0) + 0.8 * (article.product == product)
        return closeness + (random.random() + random.random() - 1) * 2 * noise

    scored = sorted(((score(article), article) for article in articles), key=lambda pair: (-pair[0], pair[1].id))
    retrieved: Any = [
        {"id": article.id, "score": round(value, 4), "text": article.text} for value, article in scored[:12]
    ]
    # Exports differ in how they wrap the list; all of these are in the contract.
    shapes: tuple[Any, ...] = (
        {"retrieved": retrieved},
        {"retrieved": retrieved},
        [entry["id"] for entry in retrieved],
        json.dumps({"retrieved": retrieved}),
    )
    return {"id": sample["id"], "actual_output": shapes[number % 4], "latency_ms": 40 + int(random.random() * 200)}


def _bad_samples(good: list[str]) -> list[str]:
    return [
        good[20],  # the same line again
        good[21],
        good[22],
        good[30][: len(good[30]) // 2].replace("q-0030", "q-9001"),  # cut off by a full disk
        "id,question,expected",  # a header of another export
        _line({"input": {"question": "Who wrote this?"}, "expected_output": ["kb-0001"]}),
        _line({"id": "  ", "input": {"question": "Blank?"}, "expected_output": ["kb-0002"]}),
        _line({"id": "q-9002", "input": {"question": "Gold?"}, "expected_output": 42, "metadata": {"lang": "en"}}),
        '{"id": "q-9003", "input": {"question": "NaN?"}, "expected_output": {"kb-0003": NaN}}',
        _line({"id": "q-9004", "input": {"question": "Which?"}, "expected_output": ["kb-0004"]}),
        _line({"id": "q-9004", "input": {"question": "Which?"}, "expected_output": ["kb-0005"]}),
    ]


def _bad_outputs(good: list[str]) -> list[str]:
    other = json.loads(good[60])
    other["actual_output"] = {"retrieved": ["kb-0001", "kb-0002"]}
    return [
        good[50],
        good[51],
        _line(other),  # one id, two answers: neither can be believed
        good[70][:80],
        "Traceback (most recent call last):",
        _line({"actual_output": {"retrieved": ["kb-0001"]}}),
        _line({"id": "q-0007", "actual_output": {"retrieved": 7}}),  # q-0007 has no other output
        *(_line({"id": f"old-{number:02d}", "actual_output": {"retrieved": ["kb-0009"]}}) for number in range(5)),
    ]


def _line(record: dict[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False)


def _holds(path: str, content: bytes) -> bool:
    if os.path.getsize(path) != len(content):
        return False
    with open(path, "rb") as file:
        return file.read() == content
