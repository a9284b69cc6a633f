"""Colours of a line of code, by Pygments.

Pygments is imported with the first block of code whose language is named: it takes longer than to start Penstock.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from penstock.sinks.text.styles import COLOURS, Piece, SpanStyle

if TYPE_CHECKING:
    from pygments.lexer import Lexer

MAX_CODE_CHARS = 500
"""Characters of the longest line that is coloured: an agent's text must not keep a lexer busy."""
LANGUAGES = frozenset(
    re.findall(
        r"\S+",
        """
        bash c c++ clojure cmake console cpp cs csharp css dart diff docker dockerfile elixir erlang go golang graphql
        groovy haskell hcl html ini java javascript js json jsx julia kotlin less lua make makefile nginx nix objc ocaml
        perl php powershell properties proto protobuf ps1 py python r rb rs ruby rust sass scala scss sh shell sql swift
        terraform tf toml ts tsx typescript vim vue xml yaml yml zig zsh
        """,
    )
)
"""Names of languages whose code is coloured. Pygments has hundreds more; an agent must not choose which of its oldest
parts, or of its plug-ins, read a text."""

_SGR = {
    "Comment": "2",
    "Keyword": "35",
    "Literal.String": "32",
    "Literal.Number": "33",
    "Name.Function": "94",
    "Name.Class": "94",
    "Name.Decorator": "94",
    "Name.Tag": "94",
    "Name.Builtin": "36",
    "Name.Attribute": "36",
    "Generic.Heading": "1",
    "Generic.Subheading": "1",
    "Generic.Inserted": "32",
    "Generic.Deleted": "31",
    "Generic.Prompt": "2",
}
"""SGR parameters of tokens by their names; kinds below them have the same."""

PLAIN = SpanStyle(COLOURS["code block"], is_wrapped=False)
"""Style of code that is not coloured."""


def coloured(line: str, language: str) -> list[Piece]:
    """Return a line of code in pieces. Lines are read one by one, so a text over several lines may look like code."""
    lexer = _lexer(language) if len(line) <= MAX_CODE_CHARS else None
    if lexer is None:
        return [(PLAIN, line)]
    pieces: list[Piece] = []
    for token, text in lexer.get_tokens(line):
        if text := text.rstrip("\n"):
            pieces.append((_style(".".join(token)), text))
    # A lexer may change the text, for example its white space; then it is shown as it came.
    return pieces if "".join(text for _, text in pieces) == line else [(PLAIN, line)]


@lru_cache(maxsize=64)
def _lexer(language: str) -> Lexer | None:
    language = language.lower()
    if language not in LANGUAGES:
        return None
    try:
        from pygments.lexers import get_lexer_by_name
        from pygments.util import ClassNotFound
    except ImportError:  # removed by a packager: code has one colour
        return None
    try:
        return get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


@lru_cache(maxsize=256)
def _style(token: str) -> SpanStyle:
    parts = token.split(".")
    found = (_SGR.get(".".join(parts[:count])) for count in range(len(parts), 0, -1))
    return SpanStyle(next(filter(None, found), ""), is_wrapped=False)
