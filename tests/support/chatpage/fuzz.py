"""Replies that are hard to read: deep, wide, half, and mixed, always the same ones."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

SEED = 20261121
DEEP = 3000
"""Levels; a parser that recurses into each of them has no stack left."""
END = "END-OF-REPLY"
SIGNS = """
> >>>> - * + 1. 10) # * ** *** _ __ ~~ ` ``` ~~~ [ ] ( ) ![ ]( ](http://a.b) [a][a] < </ <b> </b> <i> <div> <a <!-- <?
<![CDATA[ <http: | |- \\ & &amp; &#x41; &# ; www.a http://a a@b.c ! $ word é 👋 \u202e מלה
"""
GAPS = ["> ", "- ", "1. ", "- [ ] ", "    ", "  ", "\t", "\n", "\n\n", " ", "  \n", "---\n", "===\n", "\x1b[31m"]
MARKS = [*SIGNS.split(), *GAPS, "```js\n", "[a]: http://a.b\n", "|---|---|\n", "| a "]
"""What Markdown is made of, and what it is often broken with."""


def replies() -> dict[str, str]:
    """Every reply by its name. Each begins with a word, has `word1`, `word2`, … in it, and ends with `END`."""
    made = dict([*_deep(), *_wide(), *_long()])
    chance = random.Random(SEED)
    for number in range(12):
        made[f"mixed {number}"] = _mixed(chance, 400)
    for number in range(4):
        made[f"repeated {number}"] = _mixed(chance, 5) * 400
    return {name: f"Before.\n\n{body}\n\nAfter {END}" for name, body in made.items()}


def tried() -> dict[str, str]:
    """Those that the test of all kinds sends: one of five, and all of them with `PENSTOCK_SOAK=1`."""
    step = 1 if os.environ.get("PENSTOCK_SOAK") else 5
    return dict([*replies().items()][::step])


def words(name: str) -> list[str]:
    """The words that must be seen of a reply; in a mixed one any of them may be an address or a comment."""
    return ["Before.", END] if name.startswith(("mixed", "repeated")) else ["Before.", "word1", "word2", END]


def _deep() -> Iterator[tuple[str, str]]:
    yield "quotes", f"{'>' * DEEP} word1\nword2"
    yield "spaced quotes", "> " * DEEP + "word1 word2"
    yield "quotes that go on", "\n".join(">" * depth + " word1\nlazy" for depth in range(1, 400)) + "\nword2"
    yield "lists", "\n".join(" " * 2 * depth + f"- word{depth}" for depth in range(400))
    yield "lists in a line", "- " * DEEP + "word1\nword2"
    yield "numbers in a line", "1. " * DEEP + "word1\nword2"
    yield "lists in quotes", "> - " * DEEP + "word1\nword2"
    yield "emphasis", "*a **b " * DEEP + "word1" + "** c*" * DEEP + " word2"
    yield "stars", f"{'*' * DEEP}word1{'*' * DEEP} word2"
    yield "lines", f"{'_' * DEEP}word1{'_' * DEEP} {'~' * DEEP}word2{'~' * DEEP}"
    yield "brackets", f"{'[' * DEEP}word1{']' * DEEP} word2"
    yield "links", f"{'[' * DEEP}word1{'](http://a.b)' * DEEP} word2"
    yield "images", f"{'![' * DEEP}word1{'](http://a.b)' * DEEP} word2"
    yield "tags", f"{'<b><i>' * DEEP}word1{'</i></b>' * DEEP} word2"
    yield "tags without an end", "\n".join(f"- <b><i><u><em>word{n}" for n in range(400))
    yield "html", f"{'<div><p><table>' * DEEP}word1 word2"


def _wide() -> Iterator[tuple[str, str]]:
    yield "columns", f"{'|word1' * DEEP}|\n{'|-' * DEEP}|\n" + "|\n" * DEEP + "\nword2"
    yield "rows", "|word1|b|\n|-|-|\n" + "|*a*|word2|\n" * DEEP
    yield "items", "- word1\n" * DEEP + "\nword2"
    yield "entities", "&amp;&#60;&lt;&#x3c;" * DEEP + " word1 word2"
    yield "headings", "# word1\n" * 500 + "\nword2"
    yield "targets", "\n".join(f"[a{n}]: http://a.b/{n}" for n in range(DEEP)) + "\n\n[word1][a7] [word2][a8]"


def _long() -> Iterator[tuple[str, str]]:
    for mark in ("*a", "_a", "[a](", "[`", "`a", "<a", "<!--a", "\\[", "![", "~~a", "<http:", "www.a", "&a", "a@", "!"):
        yield f"{mark} on and on", f"word1 {mark * 10_000} {f'{mark} ' * 5000} word2"
    yield "backticks", " ".join("`" * size for size in range(1, 300)) + " word1 word2"
    yield "spaces", f"word1{' ' * 60_000}word2"
    yield "a fence without an end", "```js\n" + "word1 ((((((\n" * DEEP + "word2"
    yield "code that is one line", "```js\nword1 " + "(a" * 20_000 + "\nword2\n```"


def _mixed(chance: random.Random, count: int) -> str:
    return "".join(chance.choice(MARKS) * chance.choice((1, 1, 1, 2, 9)) for _ in range(count))
