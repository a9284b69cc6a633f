"""Front matter of a document: single fields are read and edited; everything else stays byte for byte.

It is YAML between lines `---`, or TOML between lines `+++`. There is no YAML parser here on purpose: one that writes
would lose comments, order and quotes of the user. TOML is read by its parser, and edited line by line.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from penstock.doc.lines import without_end

_FIELD = re.compile(r"(?P<key>[A-Za-z_][\w.-]*)(?P<colon>[ \t]*:)(?P<rest>(?:[ \t].*)?)$")
_VALUE = re.compile(
    r"""(?P<space>[ \t]*)(?P<value>"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^"'#\s](?:[^#]|(?<=\S)\#)*?|)"""
    r"(?P<end>[ \t]*|[ \t]+\#.*)$"
)
_TOML_FIELD = re.compile(
    r"""(?P<key>[A-Za-z0-9_-]+)[ \t]*=[ \t]*(?:"(?:[^"\\]|\\.)*"|'[^']*')(?P<end>[ \t]*(?:\#.*)?)$"""
)
_PLAIN = re.compile(r"[A-Za-z][\w./@+-]*")
_RESERVED = frozenset(["null", "true", "false", "yes", "no", "on", "off", "y", "n"])
_STRUCTURES = ("|", ">", "[", "{", "&", "*", "!", "%", "@", "`")
"""First characters of values that are not plain text in YAML."""


class FrontMatter(msgspec.Struct, frozen=True):
    """Lines between the two `---` or `+++` of a document, and their place; `end` is that of the text after them."""

    lines: tuple[str, ...] = ()
    start: int = 0
    end: int = 0
    exists: bool = False
    is_toml: bool = False

    @classmethod
    def parse(cls, text: str) -> FrontMatter:
        """Read the front matter of a document. Text between two rules that has no fields is not front matter."""
        bom = len(text) - len(text.removeprefix("\ufeff"))
        if re.match(r"\+\+\+[ \t]*\r?\n", text[bom : bom + 80]):
            return cls._between(text, bom, ("+++",), is_toml=True)
        if not re.match(r"---[ \t]*\r?\n", text[bom : bom + 80]):
            return cls(start=bom, end=bom)
        found = cls._between(text, bom, ("---", "..."))
        content = [line for line in found.lines if line.strip() and not line.lstrip().startswith("#")]
        return cls(start=bom, end=bom) if content and not _FIELD.match(without_end(content[0])) else found

    @classmethod
    def _between(cls, text: str, bom: int, rules: tuple[str, ...], *, is_toml: bool = False) -> FrontMatter:
        """Return the lines from the one after the first rule to the next rule; none if it never comes."""
        start = end = text.index("\n", bom) + 1
        lines: list[str] = []
        while end < len(text):
            stop = text.find("\n", end) + 1 or len(text)
            line = text[end:stop]
            end = stop
            if line.rstrip() in rules:
                return cls(lines=tuple(lines), start=start, end=end, exists=True, is_toml=is_toml)
            lines.append(line)
        return cls(start=bom, end=bom)

    def get(self, *keys: str) -> str | None:
        """Return the value of the first of these fields that has one; None for `null` and for more than one line."""
        if self.is_toml:
            values = _toml(self.lines) or {}
            return next((found for key in keys if isinstance(found := values.get(key), str)), None)
        for key in keys:
            index = self._find(key)
            value = _parse_value(_rest(self.lines[index])) if index is not None and self._is_single(index) else None
            if value is not None:
                return value
        return None

    def _find(self, key: str) -> int | None:
        for index, line in enumerate(self.lines):
            match = _FIELD.match(without_end(line))
            if match and match["key"] == key:
                return index
        return None

    def _is_single(self, index: int) -> bool:
        """Return whether the value of a field ends on its own line."""
        value = _rest(self.lines[index]).strip()
        following = self.lines[index + 1] if index + 1 < len(self.lines) else ""
        continued = following[:1] in (" ", "\t") and following.strip() != ""
        listed = not value and following.startswith("-")
        return not value.startswith(_STRUCTURES) and not continued and not listed

    def replaced(self, key: str, value: str, newline: str = "\n") -> tuple[str, ...] | None:
        """Return the lines with a field set to a value; None if the field holds more than one line of text."""
        if self.is_toml:
            return self._replaced_toml(key, value, newline)
        index = self._find(key)
        if index is None:
            return (*self.lines, f"{key}: {_format(value, False)}{newline}")
        if self.get(key) == value:
            return self.lines  # as the user writes it, with or without quotes
        match = _VALUE.match(_rest(self.lines[index]))
        if match is None or not self._is_single(index):
            return None
        line = self.lines[index]
        field = _FIELD.match(without_end(line))
        assert field is not None  # _find has matched it
        shown = _format(value, match["value"][:1] in ("'", '"'))
        edited = f"{field['key']}{field['colon']}{match['space'] or ' '}{shown}{match['end']}"
        return (*self.lines[:index], edited + line[len(without_end(line)) :], *self.lines[index + 1 :])

    def _replaced_toml(self, key: str, value: str, newline: str) -> tuple[str, ...] | None:
        """Return the lines with a field of the root table set; None if no edit of one line does just that."""
        before = _toml(self.lines)
        if before is None:
            return None
        if before.get(key) == value:
            return self.lines
        row = f"{key} = {json.dumps(value, ensure_ascii=False)}"
        for index, line in enumerate(self.lines):
            found = _TOML_FIELD.match(without_end(line))
            if found and found["key"] == key:
                end = line[len(without_end(line)) :]
                lines = (*self.lines[:index], row + found["end"] + end, *self.lines[index + 1 :])
                if _toml(lines) == {**before, key: value}:
                    return lines
        # A new field stands before the first table, as all after that is the table's.
        table = next((index for index, line in enumerate(self.lines) if line.startswith("[")), len(self.lines))
        lines = (*self.lines[:table], row + newline, *self.lines[table:])
        return lines if key not in before and _toml(lines) == {**before, key: value} else None


def with_fields(text: str, fields: Mapping[str, str], newline: str = "\n") -> tuple[str, list[str]]:
    """Set fields of the front matter, which is made if it is missing; return the text and the fields left alone."""
    skipped: list[str] = []
    for key, value in fields.items():
        front = FrontMatter.parse(text)
        if not front.exists:
            block = f"---{newline}{key}: {_format(value, False)}{newline}---{newline}"
            gap = "" if re.match(r"[ \t]*(\r?\n|$)", text[front.end :]) else newline
            text = text[: front.start] + block + gap + text[front.end :]
            continue
        lines = front.replaced(key, value, newline)
        if lines is None:
            skipped.append(key)
            continue
        old = sum(map(len, front.lines))
        text = text[: front.start] + "".join(lines) + text[front.start + old :]
    return text, skipped


def _toml(lines: Sequence[str]) -> dict[str, Any] | None:
    """Return the fields of lines in TOML; None if they are not TOML."""
    try:
        return tomllib.loads("".join(lines).replace("\r\n", "\n"))
    except (tomllib.TOMLDecodeError, RecursionError):
        return None


def _rest(line: str) -> str:
    match = _FIELD.match(without_end(line))
    assert match is not None  # only fields are asked for
    return match["rest"]


def _parse_value(rest: str) -> str | None:
    match = _VALUE.match(rest)
    if match is None:
        return None
    value = match["value"]
    if value.startswith('"'):
        try:
            return str(json.loads(value))
        except ValueError:
            return None
    if value.startswith("'"):
        return value[1:-1].replace("''", "'")
    return None if value in ("", "~") or value.lower() == "null" else value


def _format(value: str, quoted: bool) -> str:
    plain = _PLAIN.fullmatch(value) and value.lower() not in _RESERVED
    return value if plain and not quoted else json.dumps(value, ensure_ascii=False)
