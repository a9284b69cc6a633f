"""A chat as a file: Markdown as its readers understand it, and HTML that has no foreign element and loads nothing."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from typing import Any

import pytest

from penstock import events as ev
from penstock.chat.history.denied import DeniedAction
from penstock.chat.history.export import html, markdown
from penstock.chat.history.export.parts import MAX_DEPTH, TurnToExport, file_name, is_exported, parts_of, when
from penstock.chat.history.frames import Steer, TurnView
from penstock.chat.history.items import AnyItem, Asked, Called, Noticed, Planned, Said, Thought

EVIL = (
    "</title></style><script>alert(1)</script><img src=x onerror=alert(1)>\" ' & \x1b[31mred\u202eesrever ``` [a](j:x)"
)


def done(**more: Any) -> TurnView:
    """A turn that ended well."""
    return TurnView(**{"turn": 1, "prompt": "go", "state": "completed", "outcome": "ok", "message": "done", **more})


def file_of(*turns: TurnToExport | TurnView, title: str | None = "Fix *the* [build]", form: Any = markdown) -> str:
    """The whole file."""
    each = [it if isinstance(it, TurnToExport) else TurnToExport(it) for it in turns]
    written = [form.turn(it, "codex") for it in each]
    return "".join([form.head(title, "codex", "/shop"), *written, form.end()])


def read(text: str) -> tuple[list[tuple[str, str]], list[str]]:
    """Headings outside of quotations, and the texts of fenced blocks, as CommonMark has them."""
    headings: list[tuple[str, str]] = []
    fences: list[str] = []
    fence = ""
    for line in text.splitlines():
        found = re.match(r" {0,3}(`{3,}(?!.*`)|~{3,})(.*)", line)
        if fence:
            if found and found[1].startswith(fence) and not found[2].strip():
                fence = ""
            else:
                fences[-1] += f"{line}\n"
        elif found:
            fence = found[1]
            fences.append("")
        elif heading := re.match("(#{1,6}) (.*)", line):
            headings.append((f"h{len(heading[1])}", re.sub(r"\\(.)", r"\1", heading[2])))
    return headings, fences


class Elements(HTMLParser):
    """The elements of a page, the texts of some, and every attribute."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str | None]] = set()
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note it."""
        self.tags.add(tag)
        self.attributes |= set(attrs)

    def handle_data(self, data: str) -> None:
        """Note it."""
        self.texts.append(data)


def test_prompts_are_quoted_and_replies_are_as_they_were_written() -> None:
    """The title, then each turn; headings of a prompt are none of the file."""
    reply = "# A reply\n\n- one\n- *two*\n\n| a | b |\n|---|---|\n| 1 | 2 |"
    text = file_of(done(prompt="# not a heading\n\ntext", message=reply, asked_at=1_764_252_300_000))
    assert read(text)[0] == [
        ("h1", "Fix *the* [build]"),
        ("h2", "You, 2025-11-27 14:05 UTC"),
        ("h3", "codex"),
        ("h1", "A reply"),
    ]
    assert "> # not a heading\n>\n> text\n" in text
    assert f"\n{reply}\n" in text
    assert text.startswith("# Fix \\*the\\* \\[build\\]\n\ncodex in `/shop`\n\n---\n")
    assert file_of(title=None) == "# Chat\n\ncodex in `/shop`\n"


@pytest.mark.parametrize("open", ["```js\nlet a", "~~~\n```\nx", "text\n````\n```\nstill code", "```\na\n```\n```"])
def test_an_open_fence_swallows_nothing(open: str) -> None:
    """What a reply or a prompt leaves open ends with it."""
    text = file_of(done(prompt=open, message=open), done(turn=2, prompt="second"))
    assert [tag for tag, _ in read(text)[0]] == ["h1", "h2", "h3", "h2", "h3"]


@pytest.mark.parametrize(
    ("open", "end"),
    [
        ("text\n  <!-- a\n\n```", "-->"),
        ("<!--", "-->"),
        ("<!-- a -->\n<?php", "?>"),
        ("<![CDATA[ a >", "]]>"),
        ("<!doctype", ">"),
        ("<TEXTAREA rows=2>\n```", "</textarea>"),
        ("<pre\n<!-- a", "</pre>"),
        ("<!-- a\n--> b\n```\n<!--", "```"),
    ],
)
def test_an_open_block_of_html_hides_nothing(open: str, end: str) -> None:
    """In a viewer of Markdown, the rest of the conversation would be part of a comment."""
    assert f"\n{open}\n{end}\n\n---\n" in file_of(done(message=open), done(turn=2, prompt="second"))


@pytest.mark.parametrize(
    "text",
    ["<!-->", "<!-- a\n\n-->", "<pre>\n</pre>", "a <!-- b", "    <!-- code", "```\n<!--\n```", "<!1", "<prefix>"],
)
def test_html_that_is_closed_stays(text: str) -> None:
    """So does text that begins no block."""
    assert f"\n{text}\n\n---\n" in file_of(done(message=text), done(turn=2, prompt="second"))


def test_what_is_no_fence_stays() -> None:
    """Backticks after backticks on the first line begin no block."""
    inline = "```not a fence```\ntext"
    assert f"{inline}\n" in file_of(done(message=inline))
    assert "\n~~~ a `b`\nx\n~~~\n" in file_of(done(message="~~~ a `b`\nx"))


ITEMS: list[AnyItem] = [
    Thought(at=0, text="# a thought", shortened=1200),
    Called(at=1, title="cat `x`", input='{"a":1}', output="```\n# out\n````\n</b>\n", exit_code=2, is_error=True,
           duration_ms=50),
    Said(at=2, parent=1, text="of a sub-agent", cut=True),
    Planned(at=3, items=[ev.PlanItem("<b>one</b>", "completed"), ev.PlanItem("two", "pending")]),
    Asked(at=4, text="May I?", answer="No"),
    Asked(at=4, text="And now?", changes=[ev.Change("b", "update", diff="@@\n-x\n+y\n")]),
    Noticed(at=5, text="a notice", level="warning"),
    Called(at=6, name="edit", refused=True, given_up=True, input="{}",
           changes=[ev.Change("a", "update", diff="@@\n-a\n+b\n"), ev.Change("c", "update")]),
    Said(at=7, text="done"),
]  # fmt: skip


def test_what_an_agent_did_is_quoted_or_in_fences_that_it_cannot_end() -> None:
    """Steps are there if they are wanted, the reply among them is not repeated."""
    text = file_of(TurnToExport(done(), ITEMS))
    assert [words for _, words in read(text)[0]] == ["Fix *the* [build]", "You", "Steps", "codex"]
    assert read(text)[1] == [
        '{"a":1}\n',
        "```\n# out\n````\n</b>\n",
        "@@\n-x\n+y\n",
        "@@\n-a\n+b\n",
    ]
    assert "**Thought** (1,200 characters left out)\n\n> # a thought\n" in text
    assert "**Call** `` cat `x` `` (failed, exit 2, 0.1 s)\n" in text
    assert "> **Text** (cut off)\n>\n> > of a sub-agent\n" in text
    assert "- [x] \\<b\\>one\\</b\\>\n- [ ] two\n" in text
    assert "> May I?\n>\n> Answer: No\n" in text
    assert "**Call** `edit` (not allowed, given up)\n" in text
    assert text.count("done") == 1
    assert "Steps" not in file_of(TurnToExport(done(), []))


def test_sub_agents_below_sub_agents_end_somewhere() -> None:
    """Depth is bounded, and each step is there once, below its call."""
    deep = [Called(at=n, title=f"call {n}", parent=n - 1 if n else None) for n in range(3000)]
    steps = parts_of(TurnToExport(done(), [*deep]), "codex").steps
    assert ([it.title for it in steps], max(it.depth for it in steps)) == ([it.title for it in deep], MAX_DEPTH)
    ahead: list[AnyItem] = [Said(at=0, text="a", parent=1), Called(at=1, title="b"), Said(at=2, text="c", parent=1)]
    assert [it.depth for it in parts_of(TurnToExport(done(), ahead), "codex").steps] == [0, 0, 1]
    assert file_of(TurnToExport(done(), [*deep]), form=html).count('<div class="step">') == 3000


@pytest.mark.parametrize("form", [markdown, html])
def test_what_did_not_end_well_says_so(form: Any) -> None:
    """A reason, a cause, what was denied, what still runs or waits, and what may still come."""
    denied = [DeniedAction("rm -rf build", "person"), DeniedAction("curl", "policy")]
    text = file_of(
        done(outcome="error", reason="it broke", message=""),
        done(outcome="error", cause="auth", message=""),
        done(outcome="cut_off", message="half"),
        done(cause="length"),
        done(refused=4, rejected=1, denied=denied),
        done(refused=1),
        TurnView(2, "more", state="running", reply="half a"),
        TurnView(3, "later"),
        TurnToExport(done(turn=4), gap="the agent's program has not ended yet"),
        done(by="heartbeat"),
        done(person="ana", agent="claude"),
        done(message="", steer=Steer(2, "taken")),
        form=form,
    )
    for words in (
        *("It failed: it broke", "There is no valid login.", "It was cut off.", "The reply met the limit"),
        *("Rejected by a person: rm -rf build.", "Not allowed: curl, 2 more actions.", "Not allowed: 1 action."),
        *("half a", "It is still running.", "It waits for its turn.", "The steps: the agent"),
        *("Heartbeat", "ana", "claude", "It was given to the agent while it worked on the next message."),
    ):
        assert words in text, words


def test_a_page_has_no_foreign_element() -> None:
    """Whatever an agent, a person or a file wrote is text; the page has no script, no address, and a strict policy."""
    items: list[AnyItem] = [
        *(Thought(at=0, text=EVIL), Called(at=1, title=EVIL, input=EVIL, output=EVIL, parent=0), Said(at=2, text=EVIL)),
        *(Planned(at=3, items=[ev.PlanItem(EVIL, "pending")]), Asked(at=4, text=EVIL, answer=EVIL)),
        *(Noticed(at=5, text=EVIL, level="error"), Called(at=6, changes=[ev.Change("a", "update", diff=EVIL)])),
    ]
    view = done(prompt=EVIL, message=EVIL, agent=EVIL, person=EVIL, outcome="error", reason=EVIL, refused=1)
    view.denied = [DeniedAction(EVIL, "policy")]
    text = file_of(TurnToExport(view, items, EVIL), title=EVIL, form=html) + html.head(EVIL, EVIL, EVIL)
    page = Elements(text)
    assert page.tags <= {
        *("html", "head", "meta", "title", "style", "body", "main", "header", "section", "h1", "h2", "h3", "p", "div"),
        *("bdi", "time", "details", "summary", "pre", "code", "b", "span", "ul", "li"),
    }
    assert {name for name, _ in page.attributes} == {"lang", "charset", "http-equiv", "content", "name", "dir", "class"}
    (policy,) = {value for name, value in page.attributes if name == "content" and "default-src" in (value or "")}
    (style,) = set(re.findall(r"<style>(.*?)</style>", text, re.DOTALL))
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert "url(" not in style
    assert "@import" not in style
    assert not set("\x1b\u202e") & set(text)
    assert sum("<script>alert(1)</script>" in it for it in page.texts) >= 10
    assert not set("\x1b\u202e") & set(file_of(TurnToExport(view, items, EVIL), title=EVIL))


def test_a_page_has_the_same_as_the_markdown() -> None:
    """Texts are to be read in it as they were written, steps are folded."""
    text = file_of(TurnToExport(done(message="a\n  b"), ITEMS), form=html)
    page = Elements(text)
    assert "a\n  b" in page.texts
    assert "9 steps" in page.texts
    assert "1 step" in Elements(file_of(TurnToExport(done(), ITEMS[:1]), form=html)).texts
    assert '<div class="below"><b>Text</b>' in text
    assert "<time>2025-11-27 14:05 UTC</time>" in file_of(done(asked_at=1_764_252_300_000), form=html)
    assert "<details>" not in file_of(done(message=""), form=html)
    assert text.endswith("</html>\n")


def test_turns_that_were_taken_back_are_no_part() -> None:
    """One that was stopped after it began is."""
    assert not is_exported(done(outcome="cancelled", message=""))
    assert is_exported(done(outcome="cancelled", began_at=5))
    assert is_exported(TurnView(1, "x"))
    assert when(0) == ""


def test_a_file_is_named_by_the_words_of_the_title() -> None:
    """In any script, without anything that means something to a file system."""
    assert file_name("Fix ../the: build_now!", "md") == "fix-the-build-now.md"
    assert file_name("修正 ビルド", "html") == "修正-ビルド.html"
    assert [file_name(title, "md") for title in (None, "", "…/…", "..")] == ["chat.md"] * 4
    assert len(file_name("x" * 500, "md")) < 70
