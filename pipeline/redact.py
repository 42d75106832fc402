"""Credentials never reach a message, a log or a manifest: everything that echoes a URI or an option passes here."""

import re

HIDDEN = "***"

# Names whose values are secrets. The look-behind keeps `monkey=` and `turkey=` readable.
_NAME = (
    r"[\w.\-]{0,64}(?<![A-Za-z])(?:x-amz-|x-goog-)?"
    r"(?:[a-z]*token|[a-z]*secret|passw(?:or)?d|passphrase|pwd|(?:api|access|account|private|secret|shared|signing)?[_\-]?key"
    r"|sig|signature|credentials?|auth|authorization)(?![A-Za-z])[\w.\-]*"
)
_USERINFO = re.compile(r"(?<=://)[^/\s?#]*@")
_PAIR = re.compile(rf"(?i)({_NAME}\s?=\s?)(\"[^\"]*\"|'[^']*'|[^&\s\"']+)")
_QUOTED = re.compile(rf"(?i)([\"']{_NAME}[\"']\s*:\s*[\"'])[^\"']*")
_SPACED = re.compile(rf"(?i)(--{_NAME}\s+)([^\s\-]\S*)")
_BEARER = re.compile(r"(?i)\b(bearer\s+)[\w.~+/=\-]{6,}")


def redact(text: str) -> str:
    """`text` without the secrets of URIs (`user:pass@`, `?token=`), options (`--x_key=v`, `--x_key v`) and JSON pairs.

    Errs on the side of hiding: a folder named `key=7` loses its value in messages, and nothing but the message.
    """
    text = _USERINFO.sub(f"{HIDDEN}@", text)
    for pattern in (_PAIR, _QUOTED, _SPACED, _BEARER):
        text = pattern.sub(rf"\g<1>{HIDDEN}", text)
    return text


def redact_args(args: list[str]) -> list[str]:
    """Each option redacted, also where name and value are two arguments: `--s3_secret_access_key`, `abc`."""
    shown: list[str] = []
    for index, arg in enumerate(args):
        before = args[index - 1] if index else ""
        if before.startswith("-") and "=" not in before and not arg.startswith("-"):
            joined = redact(f"{before} {arg}")
            shown.append(joined[len(before) + 1 :] if joined.startswith(f"{before} ") else HIDDEN)
        else:
            shown.append(redact(arg))
    return shown
