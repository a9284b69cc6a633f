"""Writes what follows from the public names of the package: the stub for type checkers and the reference in `docs`.

The names come from the table in `src/penstock/__init__.py` and from the public modules. The reference is made from
their docstrings by griffe, which reads the source without importing it. Run by `make reference`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import penstock

if TYPE_CHECKING:
    import griffe

FOLDER = Path(__file__).parent
SOURCE = FOLDER.parent / "src"
STUB = SOURCE / "penstock" / "__init__.pyi"
PAGE = FOLDER / "python-reference.md"

INTRO = """\
# Python: reference

Made from the docstrings by `make reference`: do not edit. [The guide](python.md) has examples.
"""

SECTIONS = {
    "Agents, runs and streams": "penstock",
    "Events": "penstock.events",
    "Adapters": "penstock.adapter",
    "Updates": "penstock.updates",
    "Errors": "penstock.errors",
    "Documents": "penstock.doc",
    "Loops": "penstock.loop",
    "Tools for tests": "penstock.testing",
    "Names of older designs": "penstock.classic",
}
"""Parts of the reference, and the module from which their names are imported."""

MADE_BY_CALLS = frozenset({"Agent", "Conversation", "Run"})
"""Classes whose objects come from `agent` and its methods, so that the arguments of `__init__` are not public."""


def stub() -> str:
    """Return the stub of the package: an import of each public name from the module that defines it."""
    lines = ['"""Public names of the package, for type checkers. Made by `make reference`: do not edit."""', ""]
    for module, names in sorted(penstock._EXPORTS.items()):
        # Classes before functions, as ruff sorts them.
        lines += [f"from {module} import {name} as {name}" for name in sorted(names)]
    lines += ["", "__all__ = [", *(f'    "{name}",' for name in sorted(penstock.__all__)), "]"]
    return "\n".join([*lines, ""])


def names_of(module: str) -> dict[str, str]:
    """Return the public names of a module, and the module that defines each."""
    if module == "penstock":
        own = {"penstock.events", "penstock.errors", "penstock._version"}
        return {name: home for home, names in penstock._EXPORTS.items() if home not in own for name in names}
    if module in penstock._EXPORTS:
        return dict.fromkeys(penstock._EXPORTS[module], module)
    found = import_module(module)
    if module == "penstock.loop":
        return {name: f"{module}.{home}" for name, home in found._HOME.items()}
    if not hasattr(found, "__all__"):
        return {name: module for name, value in vars(found).items() if is_defined_in(module, name, value)}
    return {name: home_of(module, name, getattr(found, name)) for name in found.__all__}


def is_defined_in(module: str, name: str, value: object) -> bool:
    """Return whether a module defines this class or function itself, under a public name."""
    return not name.startswith("_") and callable(value) and getattr(value, "__module__", "") == module


def home_of(module: str, name: str, value: object) -> str:
    """Return the module that defines a name; for a module its own."""
    if isinstance(value, ModuleType):
        return f"{module}.{name}"
    home = str(getattr(value, "__module__", ""))
    return home if home.startswith("penstock") else module


def members() -> Iterator[tuple[str, str, griffe.Object]]:
    """Yield the section, the name and the definition of each public name, once."""
    import griffe

    package = griffe.load("penstock", search_paths=[SOURCE], docstring_parser="google")
    seen: set[tuple[str, str]] = set()
    for section, module in SECTIONS.items():
        for name, home in sorted(names_of(module).items()):
            path = home.removeprefix("penstock.")
            found = package[path] if home.endswith(f".{name}") else package[path].members[name]
            if (home, name) not in seen and isinstance(found, griffe.Object):
                seen.add((home, name))
                yield section, name, found


def is_public(name: str, owner: str) -> bool:
    """Return whether a member of a class belongs into the reference."""
    return not name.startswith("_") or (name == "__init__" and owner not in MADE_BY_CALLS)


def text_of(item: griffe.Object) -> str:
    """Return a docstring, "" where there is none."""
    return item.docstring.value if item.docstring else ""


def public_members(name: str, item: griffe.Object) -> Iterator[griffe.Object]:
    """Yield the methods, properties and fields that a class defines itself."""
    for key, member in item.members.items():
        if item.is_class and not member.is_alias and is_public(key, name):
            yield member


def gaps() -> list[str]:
    """Return what the docstrings lack: the name, a parameter, or an error that is raised."""
    return sorted(gap for _, name, item in members() for gap in gaps_of(name, item))


def gaps_of(name: str, item: griffe.Object) -> Iterator[str]:
    """Yield what the docstrings of one public name lack."""
    if not text_of(item):
        yield f"{name}: docstring"
    yield from gaps_of_call(name, item, text_of(item))
    for member in public_members(name, item):
        path = f"{name}.{member.name}"
        if not text_of(member) and member.name != "__init__" and (member.is_function or "property" in member.labels):
            yield f"{path}: docstring"
        # The docstring of a class explains what several of its methods take.
        yield from gaps_of_call(path, member, text_of(item) + text_of(member))


def gaps_of_call(path: str, item: griffe.Object, about: str) -> Iterator[str]:
    """Yield the parameters and errors of a function that its docstring does not name."""
    for parameter in getattr(item, "parameters", ()) if item.is_function else ():
        if parameter.name not in ("self", "cls") and not re.search(rf"\b{parameter.name}\b", about):
            yield f"{path}: {parameter.name}"
    if item.is_function or "property" in item.labels:
        yield from (
            f"{path}: raises {error}"
            for error in sorted({*re.findall(r"\braise (\w+)\(", item.source)})
            if error not in about
        )


def shown(item: griffe.Object) -> str:
    """Return a docstring as Markdown, its arguments and errors as lists."""
    import griffe

    parts = []
    for section in griffe.parse_google(item.docstring, warnings=False) if item.docstring else ():
        if section.kind is griffe.DocstringSectionKind.text:
            parts.append(section.value)
        elif (
            section.kind is griffe.DocstringSectionKind.parameters
            or section.kind is griffe.DocstringSectionKind.attributes
        ):
            parts.append("\n".join(f"- `{part.name}`: {one_line(part.description)}" for part in section.value))
        elif section.kind is griffe.DocstringSectionKind.raises:
            parts.append(
                "\n".join(f"- raises `{part.annotation}`: {one_line(part.description)}" for part in section.value)
            )
        elif section.kind is griffe.DocstringSectionKind.admonition:
            parts.append(f"{section.title}: {section.value.description}")
        else:
            raise ValueError(f"{item.path}: a docstring with a section of kind {section.kind}")
    return "\n\n".join(parts)


def one_line(text: str) -> str:
    """Return a text as one line of a table or a list."""
    return " ".join(text.split())


def signature(name: str, item: griffe.Object) -> str:
    """Return how a function is called, with the types of its parameters, as a block of code."""
    assert item.is_function
    text = item.signature(name=name).replace("self, ", "").replace("(self)", "()")
    return f"```py\n{text}\n```\n"


def entry(name: str, item: griffe.Object) -> Iterator[str]:
    """Yield the parts of one public name: its docstring, its fields as a table, and its methods."""
    yield f"### {name}\n"
    if item.is_function:
        yield signature(name, item)
    yield shown(item) + "\n"
    inside = [*public_members(name, item)]
    fields = [member for member in inside if member.is_attribute]
    if fields:
        yield "| field | type | |\n|---|---|---|"
        for field in fields:
            kind = str(getattr(field, "annotation", None) or "").replace("|", "\\|")
            about = one_line(shown(field)).replace("|", "\\|")
            yield f"| `{field.name}` | {f'`{kind}`' if kind else ''} | {about} |"
        yield ""
    for method in inside:
        if method.is_function:
            yield signature(name if method.name == "__init__" else f"{name}.{method.name}", method)
            yield shown(method) + "\n"


def page() -> str:
    """Return the reference."""
    lines, last = [INTRO], ""
    for section, name, item in members():
        if section != last:
            lines.append(f"## {section}\n\nImported from `{SECTIONS[section]}`.\n")
            last = section
        lines += entry(name, item)
    return re.sub(r"[ \t]+$", "", re.sub(r"\n{3,}", "\n\n", "\n".join(lines)), flags=re.MULTILINE).rstrip() + "\n"


if __name__ == "__main__":
    if found := gaps():
        raise SystemExit("Docstrings lack:\n" + "\n".join(found))
    STUB.write_text(stub(), "utf-8")
    PAGE.write_text(page(), "utf-8")
