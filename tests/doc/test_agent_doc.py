"""Documents as agent-doc writes them: they come back with the reply, and otherwise byte for byte."""

from __future__ import annotations

import independent_components
import pytest

from penstock.doc.document import Document
from penstock.doc.lines import split_lines
from penstock.doc.merge import merge
from penstock.doc.reply import Reply
from penstock.doc.submission import submission

APPEND = """\
---
session: 05304d74-90f1-46a1-8a79-55736341b193
agent: claude
model: null
branch: null
---

# Session: Topic Name

## User

Your question or instruction here.

## Assistant

An earlier answer.

## User

Follow-up. You can also annotate inline:

> What about edge cases?
"""

INLINE = """\
---
# kept by hand
agent_doc_session: "0b1c"   # quoted
agent_doc_format: inline
agent_doc_write: merge
agent_doc_mode: append
agent_doc_debounce: 500
agent_args: ["--add-dir", "../x"]
claude_model: opus
prompt_presets:
  "#spec-test": |
    Run checks.
links:
  - notes.md
custom key: 'as it is'
---
Plan: ship it.
<!-- a scratchpad note -->
> is that so?
"""

TEMPLATE = """\
---
agent_doc_session: test-session
agent_doc_format: template
agent_doc_write: crdt
queue_active: true
agent_doc_stream:
  interval: 200
---

# Dashboard

## Status

<!-- agent:status patch=replace -->
All *green*.
<!-- /agent:status -->

## Exchange

<!-- agent:exchange patch=append max_lines=200 custom="two words" flag -->
### Re: prior

Done. Markers look like `<!-- agent:status -->` and

```markdown
<!-- agent:exchange -->
<!-- /agent:exchange -->
```

<!-- agent:boundary:a0cfeb34 -->
❯ And what is next?
<!-- /agent:exchange -->

## Queue

<!-- agent:queue auto -->
- do [#prep]
- ~~done before~~
<!-- /agent:queue -->

<!-- agent:backlog -->
- [ ] [#gval] Verify helper bridge.
- [x] [#old] Old.
<!-- /agent:backlog -->

<!-- agent:done archive="session.done.md" -->
<!-- completed work archived in session.done.md -->
<!-- /agent:done -->
"""

ONE_LINE = """\
build: <!-- agent:build mode=replace -->passing<!-- /agent:build -->

<!-- agent:log patch=prepend -->
- first
<!-- /agent:log -->
"""

BLOCKS = """\
Reply.
<!-- patch:status -->
Broken.
<!-- /patch:status -->
<!-- patch:build -->
failing
<!-- /patch:build -->
"""

DOCUMENTS = {"append": APPEND, "inline": INLINE, "template": TEMPLATE, "one line": ONE_LINE}
ENDS = {
    "lf": lambda text: text,
    "crlf": lambda text: text.replace("\n", "\r\n"),
    "no end": lambda text: text.rstrip("\n"),
}


@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("name", DOCUMENTS)
def test_d4_a_document_of_agent_doc_is_untouched_but_for_the_reply(name: str, ends: str) -> None:
    """Without the lines of the reply, the document is what it was; the boundary alone moves behind the reply."""
    text = ENDS[ends](DOCUMENTS[name])
    merged = merge(text, text, Reply.parse("One line R1.\n\nAnother one R2.\n"), at_boundary=False)
    added = {"One line R1.", "Another one R2.", "## Assistant", "## User", ""}
    boundary = "<!-- agent:boundary:a0cfeb34 -->"
    before = [line.strip() for line in split_lines(text) if line.strip() and line.strip() != boundary]
    after = [line.strip() for line in split_lines(merged.text) if line.strip() and line.strip() != boundary]
    rest = iter(after)
    assert all(line in rest for line in before)
    assert [line for line in after if line not in before and line not in added] == []
    assert merged.text.count("R1.") == merged.text.count("R2.") == 1
    assert merged.text.endswith("\n") or name == "template"  # whose exchange is not at the end
    assert merged.text.count(boundary) == text.count(boundary)
    cut = text.index("---", 3) if text.startswith("---") else 0
    assert merged.text[:cut] == text[:cut]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_d4_another_parser_finds_the_same_components(name: str) -> None:
    """A parser written from the description finds the same names, attributes and contents, also after a reply."""
    text = DOCUMENTS[name]
    for current in (text, merge(text, text, Reply.parse(BLOCKS)).text):
        ours = [
            (
                item.name,
                {key: value for key, value in item.attributes.items() if value and " " not in value},
                current[item.start : item.end].strip(),
            )
            for item in Document.parse(current).markers.components
        ]
        theirs = [
            (
                name,
                {key: value.strip("\"'") for key, value in attributes.items() if not value.startswith('"two')},
                content.strip(),
            )
            for name, attributes, content in independent_components.components(current)
        ]
        assert ours == theirs
        assert len(ours) == text.count("<!-- /agent:") - (1 if name == "template" else 0)


def test_d4_attributes_and_unknown_keys_are_kept() -> None:
    """Values may be quoted, attributes may have none, and `mode` means what `patch` does."""
    document = Document.parse(TEMPLATE)
    exchange, queue = document.component("exchange"), document.component("queue")
    assert exchange is not None
    assert queue is not None
    assert exchange.attributes == {"patch": "append", "max_lines": "200", "custom": "two words", "flag": ""}
    assert exchange.max_lines == 200
    assert queue.attributes == {"auto": ""}
    modes = [item.mode for item in Document.parse(ONE_LINE).markers.components]
    assert modes == ["replace", "prepend"]


def test_d4_the_reply_is_below_a_prompt_that_was_written_below_the_boundary() -> None:
    """agent-doc leaves its boundary above the next prompt; the reply is below it, and then the boundary."""
    snapshot = TEMPLATE.replace("❯ And what is next?\n", "")
    for before in (snapshot, None):
        asked = submission(Document.parse(TEMPLATE), before)
        assert not asked.at_boundary
    merged = merge(TEMPLATE, TEMPLATE, Reply.parse("Tests."), at_boundary=False)
    assert "❯ And what is next?\n\nTests.\n<!-- agent:boundary:a0cfeb34 -->\n<!-- /agent:exchange -->" in merged.text
    asked = submission(Document.parse(merged.text), merged.snapshot)
    assert asked.at_boundary
    assert not asked.is_new


OUTPUT = """\
---
agent_doc_session: 05304d74-90f1-46a1-8a79-55736341b193
agent_doc_mode: stream
agent: null
model: ~
---
<!-- agent:output -->
### 1

An earlier answer.
<!-- /agent:output -->

<!-- agent:input -->
And now?
<!-- /agent:input -->
"""


def test_d4_earlier_answers_stay_in_the_output() -> None:
    """A document without `exchange` has its answers in `output`, one below the other, unless it says `replace`."""
    merged = merge(OUTPUT, OUTPUT, Reply.parse("Later."))
    assert merged.text == OUTPUT.replace("An earlier answer.\n", "An earlier answer.\n\nLater.\n")
    replacing = OUTPUT.replace("agent:output -->\n#", "agent:output patch=replace -->\n#")
    assert "earlier" not in merge(replacing, replacing, Reply.parse("Later.")).text


def test_d4_a_field_that_has_its_value_stays_as_it_is_written() -> None:
    """An id without quotes, which our own would have, gets none; a field that is null is set."""
    document = Document.parse(OUTPUT)
    assert (document.front.get("agent"), document.front.get("model")) == (None, None)
    assert document.session is not None
    merged = merge(OUTPUT, OUTPUT, Reply.parse("R."), fields={"agent_doc_session": document.session, "agent": "claude"})
    assert merged.text.startswith(OUTPUT.partition("agent: ")[0] + "agent: claude\nmodel: ~\n---\n")


def test_d4_a_component_inside_a_line_stays_in_it() -> None:
    """A value of one line is replaced where it is; more than one line gets lines of its own."""
    said = "<!-- patch:build -->\nfailing\n<!-- /patch:build -->\n<!-- patch:log -->\n- second\n<!-- /patch:log -->"
    merged = merge(ONE_LINE, ONE_LINE, Reply.parse(said))
    assert "build: <!-- agent:build mode=replace -->failing<!-- /agent:build -->" in merged.text
    assert "<!-- agent:log patch=prepend -->\n- second\n- first\n" in merged.text
    merged = merge(ONE_LINE, ONE_LINE, Reply.parse(said.replace("failing", "two\nlines")))
    assert "<!-- agent:build mode=replace -->\ntwo\nlines\n<!-- /agent:build -->" in merged.text
