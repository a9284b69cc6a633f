"""Documents, replies and edits at random, from a seed, for the tests of the merge."""

from __future__ import annotations

from random import Random

WORDS = ["the", "quick", "fox", "jumps", "over", "7", "lazy", "dogs", "und", "läuft", "—", "`code`", "**so**"]
SHAPES = [
    "",
    "",
    "- item",
    "1. one",
    "> quoted",
    "| a | b |",
    "## User",
    "## Assistant",
    "### Re: this",
    "---",
    "* * *",
]
COMPONENTS = [
    "status patch=replace",
    "notes mode=append max_lines=50",
    "log patch=prepend",
    "other x-key='kept'",
    "findings",
]
FENCED = [
    "```python\nprint('<!-- agent:status -->')\n```",
    "~~~\n<!-- /agent:exchange -->\n~~~",
    "- ```\n  in a list\n  ```",
]
COMMENTS = ["<!-- a note of mine -->", "<!-- over\nlines\n\n``` -->", "`<!-- agent:exchange -->` is text"]


def line(random: Random) -> str:
    """A line of a user."""
    if random.random() < 0.15:
        return random.choice(SHAPES)
    return " ".join(random.choices(WORDS, k=random.randint(1, 9)))


def lines(random: Random, most: int) -> list[str]:
    """Some lines, blocks of code and comments."""
    found: list[str] = []
    for _ in range(random.randint(0, most)):
        piece = random.random()
        if piece < 0.06:
            found += random.choice(FENCED).split("\n")
        elif piece < 0.1:
            found += random.choice(COMMENTS).split("\n")
        else:
            found.append(line(random))
    return found


def document(random: Random) -> str:
    """A document in one of the formats."""
    found = random.choice([[], ["---", "agent_doc_session: x1", "resume: s-1 # mine", "tags: [a, b]", "---", ""]])[:]
    found += lines(random, 5)
    template = random.random() < 0.7
    if template:
        parts = [["exchange", "exchange patch=append"]] if random.random() < 0.95 else []
        parts += [[name.split()[0], name] for name in random.sample(COMPONENTS, random.randint(0, 3))]
        random.shuffle(parts)
        for name, opening in parts:
            found += [f"<!-- agent:{opening} -->", *lines(random, 12)]
            if name == "exchange" and random.random() < 0.5:
                found.append("<!-- agent:boundary:a0cfeb34 -->")
                found += lines(random, 2) if random.random() < 0.4 else []
            found += [f"<!-- /agent:{name} -->", *lines(random, 3)]
    else:
        found += lines(random, 20)
    newline = random.choice(["\n", "\n", "\n", "\r\n"])
    return random.choice(["", "", "\ufeff"]) + newline.join(found) + random.choice(["", newline, newline])


def is_structure(row: str) -> bool:
    """Whether a line is part of the structure that random edits leave alone."""
    return any(mark in row for mark in ("agent:", "---", "```", "~~~", "<!--", "-->")) or row.lstrip(
        "\ufeff"
    ).startswith(("resume", "tags"))


def edited(random: Random, text: str) -> str:
    """The text after some edits of a user: typed on, inserted, deleted, moved, changed."""
    newline = "\r\n" if "\r\n" in text else "\n"
    rows = text.split(newline)
    for _ in range(random.randint(1, 5)):
        at = random.randrange(len(rows) + 1)
        new = line(random) + f" u{random.randrange(10**6)}"
        free = [index for index, row in enumerate(rows) if not is_structure(row)]
        kind = random.randrange(9)
        if kind == 0:
            rows[len(rows) :] = [new]
        elif kind == 1:
            rows[at:at] = [new] * random.randint(1, 2)
        elif kind == 2 and free:
            index = random.choice(free)
            rows[index] = rows[index] + " " + new
        elif kind == 3 and free:
            first = random.choice(free)
            last = first
            while last + 1 in free and random.random() < 0.7:
                last += 1
            taken = rows[first : last + 1]
            del rows[first : last + 1]
            if random.random() < 0.5:
                at = random.randrange(len(rows) + 1)
                rows[at:at] = taken
        elif kind == 4:
            ends = [index for index, row in enumerate(rows) if row.startswith("<!-- /agent:")]
            if ends:
                at = random.choice(ends)
                rows[at:at] = [new]
        elif kind == 5 and free:
            rows[random.choice(free)] = new
        elif kind == 6:
            edit_component(random, rows)
        elif kind == 7 and random.random() < 0.3:
            rows[at:at] = random.choice(["<!-- agent:half", "<!-- not closed", "```", "<!-- /agent:", "---"]).split(
                "\n"
            )
        elif kind == 8 and random.random() < 0.1:
            newline = random.choice(["\n", "\r\n"])
    return newline.join(rows)


def edit_component(random: Random, rows: list[str]) -> None:
    """Move or delete a component, or change its attributes."""
    starts = [index for index, row in enumerate(rows) if row.lstrip("\ufeff").startswith("<!-- agent:") and index]
    if not starts:
        return
    start = random.choice(starts)
    name = rows[start].split()[1].removeprefix("agent:")
    end = next((index for index in range(start, len(rows)) if rows[index] == f"<!-- /agent:{name} -->"), None)
    if end is None:
        return
    kind = random.randrange(3)
    if kind == 0:
        rows[start] = f"<!-- agent:{name} patch={random.choice(['append', 'replace', 'prepend'])} new=1 -->"
        return
    taken = rows[start : end + 1]
    del rows[start : end + 1]
    if kind == 1:
        at = random.randrange(len(rows) + 1)
        rows[at:at] = taken


def reply(random: Random) -> str:
    """A reply, with patch blocks for some components. Each of its lines names it."""
    parts = [f"R{random.randrange(10**6)} {line(random)}".rstrip() for _ in range(random.randint(1, 6))]
    blocks = []
    for name in random.sample(COMPONENTS, random.randint(0, 2)):
        name = name.split()[0]
        blocks += [
            f"<!-- patch:{name} -->",
            f"P{random.randrange(10**6)} {line(random)}".rstrip(),
            f"<!-- /patch:{name} -->",
        ]
    return "\n".join([*parts, *blocks])
