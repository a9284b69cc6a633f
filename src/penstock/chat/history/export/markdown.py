"""An exported chat as Markdown. Prompts are quotations, so that their headings are not those of the file."""

from __future__ import annotations

import re

from penstock.chat.history.export.parts import ExportedStep, TurnToExport, one_line, parts_of

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^\n]*)")
_HTML = re.compile(r" {0,3}(<!--|<\?|<!\[CDATA\[|<!(?=[a-z])|<(script|pre|style|textarea)(?=[\s>]|$))", re.IGNORECASE)
"""Beginning of a block of HTML that goes on beyond an empty line."""
_ENDS = {"<!--": "-->", "<?": "?>", "<![cdata[": "]]>"}
_SPECIAL = re.compile(r"[\\`*_{}\[\]<>#|~&!]")
_TICKS = re.compile("`+")


def head(title: str | None, agent: str, cwd: str) -> str:
    """Return the beginning of the file."""
    return f"# {_escaped(one_line(title) or 'Chat')}\n\n{_escaped(one_line(agent))} in {_code(one_line(cwd))}\n"


def turn(exported: TurnToExport, agent: str) -> str:
    """Return the part of a turn. `agent`: that of the chat."""
    parts = parts_of(exported, agent)
    blocks = [
        f"---\n\n## {_escaped(parts.who)}" + (f", {parts.asked_at}" if parts.asked_at else ""),
        _quoted(parts.prompt),
        f"*The steps: {_escaped(parts.gap)}*" if parts.gap else "",
        "### Steps" if parts.steps else "",
        *map(_step, parts.steps),
        f"### {_escaped(parts.agent)}",
        _closed(parts.reply),
        *(f"*{_escaped(note)}*" for note in parts.notes),
    ]
    return "\n" + "\n\n".join(block for block in blocks if block) + "\n"


def end() -> str:
    """Return the end of the file."""
    return ""


def _step(step: ExportedStep) -> str:
    said = f"**{step.kind}**"
    if step.title:
        said += f" {_code(step.title)}"
    if step.facts:
        said += f" ({', '.join(step.facts)})"
    done = [f"- [{'x' if is_done else ' '}] {_escaped(text)}" for text, is_done in step.plan]
    blocks = [said, _quoted(step.text), *(_fenced(code.text, code.language) for code in step.codes), "\n".join(done)]
    text = "\n\n".join(block for block in blocks if block)
    for _ in range(step.depth):
        text = _quoted(text)
    return text


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in _closed(text).split("\n")) if text else ""


def _closed(text: str) -> str:
    """Return a text with an end for a fence, or a block of HTML such as a comment, that it leaves open.

    What follows in the file would be code, or hidden.
    """
    fence = end = ""
    for line in text.split("\n"):
        if end:
            end = "" if end in line.lower() else end
            continue
        if not fence:
            end = _end_of_html(line)
        found = _FENCE.fullmatch(line)
        if found is None:
            continue
        mark, rest = found[1], found[2]
        if fence:
            if mark.startswith(fence) and not rest.strip():
                fence = ""
        elif mark[0] == "~" or "`" not in rest:
            fence = mark
    left = fence or end
    return f"{text}\n{left}" if left else text


def _end_of_html(line: str) -> str:
    """Return the end of the block of HTML that a line begins and does not end; "" if it begins none."""
    found = _HTML.match(line)
    if found is None:
        return ""
    begin = found[1].lower()
    end = _ENDS.get(begin) or (f"</{found[2].lower()}>" if found[2] else ">")
    return "" if end in line[found.end(1) - begin.count("-") :].lower() else end


def _fenced(text: str, language: str) -> str:
    """Return a text as a block of code, in a fence that nothing in it ends."""
    fence = "`" * max(3, _longest(text) + 1)
    return f"{fence}{language}\n{text.removesuffix(chr(10))}\n{fence}"


def _code(text: str) -> str:
    marks = "`" * (_longest(text) + 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{marks}{space}{text}{space}{marks}"


def _longest(text: str) -> int:
    return max(map(len, _TICKS.findall(text)), default=0)


def _escaped(text: str) -> str:
    """Return a text that means nothing in Markdown."""
    return _SPECIAL.sub(r"\\\g<0>", text)
