"""Sentences that people read: first sentences of docstrings, messages, and texts of the page.

Each pattern below marks a sentence that has to be read twice. `docs/style.md` has what to write instead.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "penstock"

PATTERNS = {
    "a negated nobody; name who does it, or write it passively": r"\bnobody (?!could be asked)|\bno one\b",
    "a clause in a clause": r"\bthat\b[^.,;:()\"]{0,80}\bthat\b",
    "write `unknown`": r"\b(?:is|are|was|were) not known\b",
    "write `no longer`": r"\bany more\b",
    "write `confirmation`": r"\byour word\b",
    "a chain of `of`": r"\bof (?:the |a |an |its )?\w+ of (?:the |a |an |its )?\w+ of\b",
    "a question in place of a noun": r"^Return (?:what|who|when) [^.]*\bthat\b[^.,]* (?:was|is|were|are)\b",
}
FOREIGN = {"agents/acp/end.py": "nobody cancelled"}
"""Messages that are right as they are."""

SENTENCE = re.compile(r"(?<=[.:])\s")
JS_TEXT = re.compile(r"(?<![\w:])//.*$|/\*.*?\*/", re.MULTILINE | re.DOTALL)

Found = Iterator[tuple[str, str]]


def modules() -> Iterator[tuple[Path, ast.Module]]:
    """Yield the modules of the package."""
    for path in sorted(PACKAGE.rglob("*.py")):
        if "vendor" not in path.parts:
            yield path, ast.parse(path.read_text("utf-8"))


def texts_alone(module: ast.Module) -> Iterator[ast.Constant]:
    """Yield texts that are statements: the docstrings of modules, classes, functions and attributes."""
    for node in ast.walk(module):
        match node:
            case ast.Expr(value=ast.Constant(value=str()) as text):
                yield text


def first_sentences() -> Found:
    """Yield the place and the first sentence of each docstring."""
    for path, module in modules():
        for text in texts_alone(module):
            sentence = " ".join(SENTENCE.split(str(text.value).strip())[0].split())
            yield f"{path.relative_to(PACKAGE)}:{text.lineno}", sentence


def messages() -> Found:
    """Yield the place and the text of each other string with several words."""
    for path, module in modules():
        alone = {id(text) for text in texts_alone(module)}
        for node in ast.walk(module):
            match node:
                case ast.Constant(value=str(text)) if id(node) not in alone and " " in text and text.count("\n") < 2:
                    yield f"{path.relative_to(PACKAGE)}:{node.lineno}", text


def page_texts() -> Found:
    """Yield the place and each line of the page's modules, without comments."""
    for path in sorted((PACKAGE / "chat" / "page").rglob("*.js")):
        if "vendor" not in path.parts:
            code = JS_TEXT.sub("", path.read_text("utf-8"))
            yield from ((f"{path.relative_to(PACKAGE)}", line.strip()) for line in code.splitlines())


@pytest.mark.parametrize("texts", [first_sentences, messages, page_texts])
def test_no_sentence_has_to_be_read_twice(texts: Callable[[], Found]) -> None:
    """The worst patterns are nowhere."""
    found = [
        f"{place}: {why}: {text}"
        for place, text in texts()
        for why, pattern in PATTERNS.items()
        if re.search(pattern, text) and FOREIGN.get(place.partition(":")[0], "\n") not in text
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text",
    [
        "it is not known who asks",
        "nobody asks this any more",
        "Return what the run was asked that began at a time; the id is unknown.",
        "Save of another program that came out of the document that was read.",
        "expected your word for it",
    ],
)
def test_the_patterns_find_such_sentences(text: str) -> None:
    """Sentences of the class that is meant."""
    assert any(re.search(pattern, text) for pattern in PATTERNS.values())
