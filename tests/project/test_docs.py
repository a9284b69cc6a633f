"""The words for people stay true: their examples run, their links lead somewhere, their tables are the code's."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
import runpy
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_args
from xml.etree import ElementTree

import msgspec
import pytest

import penstock
from penstock import Stream, TextSink, events
from penstock.agents import registry
from penstock.cli.main import main
from penstock.cli.options import SINKS
from penstock.testing import feeds

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("tests/**/*.md"), *ROOT.glob("bench/*.md")]
    if ".venv" not in page.parts
)
RUN = ROOT / "tests" / "recordings" / "claude" / "tools" / "input.ndjson"

# A block of Python, and a block with no language right behind it: what it prints. Examples that show a file
# and are no program are marked `py`.
EXAMPLE = re.compile(r"^```python\n(.*?)^```\n(?:\n```\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)


def named(page: Path) -> str:
    """A page as its path in the repository."""
    return page.relative_to(ROOT).as_posix()


def examples() -> Iterator[Any]:
    """Every example of every page: its code and what it prints, "" where that is not shown."""
    for page in PAGES:
        for found in EXAMPLE.finditer(page.read_text("utf-8")):
            line = page.read_text("utf-8")[: found.start()].count("\n") + 1
            yield pytest.param(found[1], found[2] or "", id=f"{named(page)}:{line}")


@pytest.mark.parametrize(("code", "printed"), [*examples()])
def test_examples_run(code: str, printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each Python example runs where a recording lies as `run.ndjson`, and prints what the page says."""
    shutil.copy(RUN, tmp_path / "run.ndjson")
    monkeypatch.chdir(tmp_path)
    with contextlib.redirect_stdout(io.StringIO()) as out:
        exec(compile(code, "example", "exec"), {"__name__": "example"})
    if printed:
        assert out.getvalue() == printed


def test_there_are_examples() -> None:
    """The README and the page on Python have examples, with what they print."""
    for page, least in ((ROOT / "README.md", 1), (ROOT / "docs" / "python.md", 3)):
        found = EXAMPLE.findall(page.read_text("utf-8"))
        assert len(found) >= least
        assert all(printed for _, printed in found)


def anchors(page: Path) -> set[str]:
    """What a link can point to inside of a page, as GitHub makes it of the headings."""
    headings = HEADING.findall(FENCED.sub("", page.read_text("utf-8")))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    """Each relative link leads to a file of the repository, and its anchor to a heading."""
    for target in LINK.findall(FENCED.sub("", page.read_text("utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.is_relative_to(ROOT), target
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


@pytest.mark.parametrize("page", [page for page in PAGES if page.parent.name != "agents"], ids=named)
def test_pages_that_are_named_exist(page: Path) -> None:
    """A page of `docs` that is named without a link is there as well (pages on agents also name those of others)."""
    for name in re.findall(r"`(docs/[\w./-]*)`", page.read_text("utf-8")):
        assert (ROOT / name).exists(), name


def test_every_page_is_in_the_index() -> None:
    """Every page is reached from the index of the documents, or from that of the agents or of the decisions."""
    indexes = [ROOT / "docs" / folder / "README.md" for folder in ("", "agents", "decisions")]
    linked = {
        (index.parent / target).resolve() for index in indexes for target in LINK.findall(index.read_text("utf-8"))
    }
    missing = {named(page) for page in (ROOT / "docs").glob("**/*.md") if page not in linked}
    assert missing <= {named(index) for index in indexes}


def test_the_index_for_language_models() -> None:
    """`docs/llms.txt` is what `docs/llms.py` makes of the index of the documents."""
    made = runpy.run_path(str(ROOT / "docs" / "llms.py"))["text"]()
    assert (ROOT / "docs" / "llms.txt").read_text("utf-8") == made


def sections() -> dict[str, str]:
    """`docs/events.md` by its headings."""
    parts = re.split(r"^## (.+)$", (ROOT / "docs" / "events.md").read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


EVENTS = {str(kind.__struct_config__.tag): kind for kind in get_args(events.Event)}


@pytest.mark.parametrize("tag", EVENTS)
def test_events_are_told(tag: str) -> None:
    """Each event has a heading, its fields in a table (`?` where they may be absent), and a true example."""
    section = sections()[tag]
    table = section.split("| field | |\n|---|---|\n")[1].split("\n\n")[0]
    told = dict(re.findall(r"^\| `(\w+)`(\??)", table, re.MULTILINE))
    common = {field.name for field in msgspec.structs.fields(events.Base)}
    fields = {field.name: "" if field.required else "?" for field in msgspec.structs.fields(EVENTS[tag])}
    assert told == {name: mark for name, mark in fields.items() if name not in common}
    [example] = re.findall(r"^```json\n(.*)\n```$", section, re.MULTILINE)
    event = events.decode(example)
    assert type(event) is EVENTS[tag]
    assert msgspec.json.decode(events.encode([event])) == msgspec.json.decode(example)


def test_nothing_else_is_told() -> None:
    """The other sections are about what events share."""
    shared = {"How to read them", "Fields of every event", "Changes", "Causes"}
    assert set(sections()) - set(EVENTS) == shared


def test_changes_and_causes_are_told() -> None:
    """The page has each field of a change with an example, and each cause, and no other."""
    found = sections()
    fields = {field.name: "" if field.required else "?" for field in msgspec.structs.fields(events.Change)}
    assert dict(re.findall(r"^\| `(\w+)`(\??) \|", found["Changes"], re.MULTILINE)) == fields
    [example] = re.findall(r"^```json\n(.*)\n```$", found["Changes"], re.MULTILINE)
    change = msgspec.json.decode(example, type=events.Change)
    assert msgspec.json.decode(msgspec.json.encode(change)) == msgspec.json.decode(example)
    assert re.findall(r"^\| `(\w+)` \|", found["Causes"], re.MULTILINE) == list(get_args(events.Cause))


def test_notice_codes_are_told() -> None:
    """The page has each notice code, and each outcome of a run, and no other."""
    found = sections()
    codes = re.findall(r"^\| `(\w+)` \|", found["notice"].split("| code | |")[1], re.MULTILINE)
    assert codes == list(get_args(events.NoticeCode))
    outcomes = re.findall(r"^\| `(\w+)` \|", found["run_ended"].split("| outcome | |")[1], re.MULTILINE)
    assert outcomes == list(get_args(events.Outcome))


def rows(page: str) -> dict[str, str]:
    """The rows of a page's table of agents, by agent."""
    return dict(re.findall(r"^\| \[(\w+)\]\(\S+\.md\)(.*)\|$", (ROOT / page).read_text("utf-8"), re.MULTILINE))


def test_the_readme_names_every_agent() -> None:
    """The README links the page of each agent: first those that are proven, then the others and the index."""
    linked = (ROOT / "README.md").read_text("utf-8").split("tested with\nrecordings of the real programs.")
    found = [set(re.findall(r"\]\(docs/agents/(\w+)\.md\)", part)) for part in linked]
    proven = {name for name, facts in registry.AGENTS.items() if facts.proven}
    assert found == [proven, {*registry.AGENTS, "README"} - proven]


def test_the_table_of_agents() -> None:
    """The table has every agent, proven or not, and live text or not, as the registry has them."""
    table = rows("docs/agents/README.md")
    assert set(table) == set(registry.AGENTS)
    for name, row in table.items():
        state, comes = [cell.strip() for cell in row.split("|")][1:3]
        entry = registry.AGENTS[name]
        assert state.strip("*").startswith("proven" if entry.proven else "unproven"), name
        assert comes.startswith(("in pieces", "as it comes") if entry.default.live else "whole"), name


def test_agents_resume_and_fork() -> None:
    """The table of agents says who can resume and fork as the registry does."""
    for name, row in rows("docs/agents/README.md").items():
        said = [cell.strip() == "yes" for cell in row.split("|")[3:5]]
        best = registry.AGENTS[name].default
        assert said == [best.resume, best.fork], name


def test_agents_allow_edits() -> None:
    """The table of flags leaves out `--allow edits` exactly where the facts of an agent's plain command do."""
    page = (ROOT / "docs/agents/README.md").read_text("utf-8").split("adds these flags:")[1].split("On the others:")[0]
    refused: dict[str, bool] = {}
    for names, edits in re.findall(r"^\| ([a-z, ]+) \|[^|]*\|([^|]*)\|[^|]*\|$", page, re.MULTILINE):
        refused |= dict.fromkeys(names.split(", "), edits.strip() == "not supported")
    del refused["agent"]
    assert refused == {name: "edits" not in registry.AGENTS[name].routes["exec"].supports for name in refused}
    assert set(refused) == {name for name, facts in registry.AGENTS.items() if facts.stream or facts.profiles}


@pytest.mark.parametrize("agent", [name for name, facts in registry.AGENTS.items() if not facts.no_command])
def test_agents_say_what_they_may_do(agent: str) -> None:
    """The facts of an agent say what it does at each level that a route supports, and at no other."""
    facts = registry.AGENTS[agent]
    supported = {
        route: {"own", "all"} | ({"read", "ask", "edits"} & set(found.supports))
        for route, found in facts.routes.items()
    }
    assert {route: set(allows) for route, allows in facts.allows.items()} == supported


@pytest.mark.parametrize("agent", registry.AGENTS)
def test_agents_have_pages(agent: str) -> None:
    """Each agent has a page of its own: how it is read, and, where it is proven, its traps and its regular end."""
    page = (ROOT / "docs" / "agents" / f"{agent}.md").read_text("utf-8")
    assert page.startswith(f"# {agent}\n")
    if registry.AGENTS[agent].proven:
        assert {"## Traps", "## What proves its regular end"} <= set(page.splitlines())
    else:
        assert "nproven" in page or agent == "generic"


def test_counters_of_health_are_told() -> None:
    """The page on health has each counter."""
    from penstock.core.health import Health

    table = (ROOT / "docs" / "health.md").read_text("utf-8").split("## Counters")[1].split("##")[0]
    cells = " ".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE))
    assert set(re.findall(r"`(\w+)`", cells)) == {field.name for field in msgspec.structs.fields(Health)}


def test_the_sample_of_the_text_output(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The page on text output shows what is really written."""
    monkeypatch.setenv("PENSTOCK_CONFIG", "/dev/null")
    recording = RUN.parents[1] / "tools" / "input.ndjson"
    assert main(["read", str(recording), "--mode", "none", "--color", "never"]) == 0
    assert f"```\n{capfd.readouterr().out}```\n" in (ROOT / "docs" / "text-output.md").read_text("utf-8")


def script(name: str) -> ModuleType:
    """A script of the folder `docs`."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "docs" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_man_page() -> None:
    """The man page is what `make man` writes now, and `man` shows it without a warning."""
    man = script("man")
    assert man.PAGE.read_text("utf-8") == man.page()
    if shutil.which("man"):
        done = subprocess.run(["man", "--warnings", "-l", str(man.PAGE)], capture_output=True, text=True, timeout=60)
        assert done.stderr == ""
        assert "penstock run" in done.stdout


def test_the_tables_of_options() -> None:
    """The tables of a run's options are what `make options` writes now."""
    options = script("options")
    for name, table in options.tables().items():
        text = (ROOT / "docs" / name).read_text("utf-8")
        assert options.page(text, table) == text


def test_the_stub_of_the_package() -> None:
    """The names that type checkers see are what `make reference` writes now."""
    reference = script("reference")
    assert reference.STUB.read_text("utf-8") == reference.stub()


def test_the_reference_of_python() -> None:
    """The reference is what `make reference` writes now, and covers every exported name."""
    reference = script("reference")
    made = reference.page()
    assert reference.PAGE.read_text("utf-8") == made
    headings = {line.removeprefix("### ") for line in made.splitlines() if line.startswith("### ")}
    assert {*penstock.__all__} - headings == {"__version__"}


def test_public_names_are_documented() -> None:
    """Every public name has a docstring, which names each parameter and each error that is raised."""
    assert not script("reference").gaps()


def test_what_is_not_documented_is_found(tmp_path: Path) -> None:
    """A name without a docstring, a parameter and an error that are not named: each is reported."""
    import griffe

    (tmp_path / "sample.py").write_text("""\
def bare(): ...

def ask(prompt, model):
    'Ask `prompt`.'
    raise ValueError(prompt)
""")
    sample = griffe.load("sample", search_paths=[tmp_path])
    found = [gap for name in ("bare", "ask") for gap in script("reference").gaps_of(name, sample[name])]
    assert found == ["bare: docstring", "ask: model", "ask: raises ValueError"]


@pytest.fixture(scope="module")
def picture() -> ModuleType:
    """The script that draws the picture of the README."""
    return script("picture")


def test_the_picture_is_of_today(picture: ModuleType) -> None:
    """`docs/terminal.svg` is what `make picture` draws now."""
    assert picture.picture() == picture.PICTURE.read_text("utf-8")


def test_the_first_run_is_drawn_as_recorded(picture: ModuleType) -> None:
    """`docs/first-run.svg` is what `make picture` draws of the recorded output, in which nothing ran over the edge."""
    assert picture.first_picture() == picture.FIRST_PICTURE.read_text("utf-8")
    shown = re.sub(r"\x1b\[[0-9;]*m", "", picture.FIRST_RUN.read_text("utf-8"))
    assert max(map(len, shown.splitlines())) <= picture.COLUMNS
    for mark in (
        "? asks to change a file",
        "or your own words): y\n",
        "→ Allow once",
        "● done",
        "go on: penstock run claude",
    ):
        assert mark in shown


def test_the_editors_are_drawn_as_recorded(picture: ModuleType) -> None:
    """The pictures of editors are what `make picture` draws of their screens, which show what the page says of them."""
    page = (ROOT / "docs" / "doc.md").read_text("utf-8")
    screens = {}
    for name in picture.EDITORS:
        assert picture.editor_picture(name) == (ROOT / "docs" / f"{name}.svg").read_text("utf-8"), name
        assert f"({name}.svg)" in page
        screens[name] = re.sub(r"\x1b\[[0-9;]*m", "", (ROOT / "docs" / f"{name}.ansi").read_text("utf-8"))
        assert max(map(len, screens[name].splitlines())) <= picture.COLUMNS
    for name in ("doc-vim", "doc-emacs"):
        assert "## Assistant\n\nThe outer five" in screens[name]
    assert "W12" in screens["doc-vim-changed"]
    assert "has changed since visited or saved" in screens["doc-emacs-changed"]


def test_the_picture_says_what_penstock_says(picture: ModuleType) -> None:
    """Row by row, the texts of the SVG are the output of the recording at that width, without its colours."""
    lines: dict[str, str] = {}
    for piece in ElementTree.parse(picture.PICTURE).getroot().iter("{http://www.w3.org/2000/svg}text"):
        column = round((float(piece.attrib["x"]) - picture.MARGIN) / picture.CELL)
        before = lines.get(piece.attrib["y"], "").ljust(column)
        lines[piece.attrib["y"]] = before + (piece.text or "").replace("\xa0", " ")
    sink = TextSink("full", width=picture.COLUMNS, color=True, render="auto")
    coloured = sink.render(feeds.whole(Stream("claude"), picture.RECORDING.read_bytes()))
    plain = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert list(lines.values()) == [f"$ {picture.COMMAND}", *filter(None, map(str.rstrip, plain.splitlines()))]
    count = picture.RECORDING.read_bytes().count(b"\n")
    assert f"printed {count} lines of JSON" in (ROOT / "README.md").read_text("utf-8")


def test_the_picture_reads_what_a_terminal_reads(picture: ModuleType) -> None:
    """Colours and bold begin and end where their codes do, lines wrap at the edge, wide characters take two columns."""
    [first, second] = picture.rows("a\x1b[1mb\x1b[0m" + "日" * (picture.COLUMNS // 2) + "\n")
    assert [(column, text) for column, text, _ in first] == [(0, "a"), (1, "b"), (2, "日" * (picture.COLUMNS // 2 - 1))]
    assert [(column, text) for column, text, _ in second] == [(0, "日")]
    assert "bold" in first[1][2]
    assert "bold" not in first[0][2] + first[2][2]
    [[(_, _, marked)]] = picture.rows("\x1b[7mline\x1b[0m\n")
    assert picture.drawn([[(0, "line", marked)]]).count("<rect") == 2
    assert picture.attributes({2, 36}) != picture.attributes({36}) != picture.attributes(set())


@pytest.mark.parametrize(
    "command",
    [
        "run",
        "read",
        "replay",
        "demo",
        "sessions",
        "trees",
        "agents",
        "config",
        "completion",
        "serve",
        "doc",
        "link",
        "chats",
    ],
)
def test_flags_are_told(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every flag that a command's help names is in one of the pages about the command line."""
    with pytest.raises(SystemExit):
        main([command, "--help"])
    flags = set(re.findall(r"^  (--[a-z]+)", capsys.readouterr().out, re.MULTILINE))
    pages = [
        (ROOT / "docs" / name).read_text("utf-8")
        for name in ("cli.md", "run.md", "configuration.md", "sessions.md", "trees.md", "doc-reference.md")
    ]
    assert flags - set(re.findall(r"--[a-z]+", "".join(pages))) == set()


def test_sinks_are_told() -> None:
    """The table of sinks has all of them."""
    page = (ROOT / "docs" / "cli.md").read_text("utf-8")
    table = re.split(r"^\| sink \|.*\n.*\n", page, flags=re.MULTILINE)[1]
    assert set(re.findall(r"^\| `(\w+)`", table.split("\n\n")[0], re.MULTILINE)) == set(SINKS)
