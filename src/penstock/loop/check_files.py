"""Files by which a check can be made easier: what its command names, what its programs read, and tests. Pure.

What a command names is protected, and so are names under which Python would import something else in place of the
program that tests. A task may change the other files for good reasons, such as a target in a Makefile, so they are
named in reports instead, and the checks run once more with those of the base before a loop is done.
"""

from __future__ import annotations

import configparser
import json
import posixpath
import re
import sys
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cache

import msgspec

from penstock.loop.steps import FileChange
from penstock.repo.path_patterns import PathPatterns

MAX_BUILD_FILES = 50
"""Build files that are searched for the programs and scripts which they start."""

MAX_LINKS = 10
"""Links that are followed, as they may be a circle."""

EXECUTABLE, LINK = "100755", "120000"
"""Modes of entries of git."""


class Tool(msgspec.Struct, frozen=True):
    """Programs that run tests, and what they read. A name of a file without a slash counts at any level."""

    programs: tuple[str, ...]
    reads: tuple[str, ...]
    modules: tuple[str, ...] = ()
    """Python modules that it imports, whose names nothing new of the repository may have."""


PYTHON = "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg", "pyproject.toml", \
    "conftest.py", "noxfile.py", ".coveragerc", "sitecustomize.py", "usercustomize.py"  # fmt: skip
PYTHON_MODULES = "unittest", "doctest", "pytest", "_pytest", "pluggy", "iniconfig", "py", "tox", "nox", "coverage", \
    "sitecustomize", "usercustomize"  # fmt: skip
NODE = "package.json", ".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", "pnpm-workspace.yaml", "bunfig.toml", \
    "deno.json", "deno.jsonc", "jest.config.*", "jest.setup.*", "vitest.config.*", "vitest.workspace.*", \
    "vite.config.*", ".mocharc*", "mocha.opts", "ava.config.*", "karma.conf.*", "playwright.config.*", \
    "cypress.config.*", ".nycrc*", ".babelrc*", "babel.config.*", "eslint.config.*", ".eslintrc*", ".eslintignore", \
    "tsconfig*.json", "turbo.json", "nx.json"  # fmt: skip

TOOLS = (
    Tool(("make", "gmake", "bmake"), ("Makefile", "makefile", "GNUmakefile", "BSDmakefile")),
    Tool(
        (
            "python",
            "pypy",
            "pytest",
            "py.test",
            "unittest",
            "tox",
            "nox",
            "coverage",
            "nose2",
            "trial",
            "hatch",
            "uv",
            "poetry",
            "pdm",
            "pipenv",
            "rye",
        ),
        PYTHON,
        PYTHON_MODULES,
    ),
    Tool(("ruff",), ("ruff.toml", ".ruff.toml", "pyproject.toml")),
    Tool(("mypy", "dmypy"), ("mypy.ini", ".mypy.ini", "setup.cfg", "pyproject.toml")),
    Tool(("pyright", "basedpyright"), ("pyrightconfig.json", "pyproject.toml")),
    Tool(("flake8",), (".flake8", "setup.cfg", "tox.ini")),
    Tool(("pylint",), (".pylintrc", "pylintrc", "pyproject.toml")),
    Tool(
        (
            "npm",
            "npx",
            "pnpm",
            "pnpx",
            "yarn",
            "bun",
            "bunx",
            "node",
            "deno",
            "jest",
            "vitest",
            "mocha",
            "ava",
            "karma",
            "playwright",
            "cypress",
            "nyc",
            "c8",
            "eslint",
            "tsc",
            "tsx",
            "turbo",
            "nx",
        ),
        NODE,
    ),
    Tool(
        ("cargo", "cross"),
        ("Cargo.toml", "build.rs", "/.cargo/**", "rust-toolchain*", ".nextest.toml", "/.config/nextest.toml"),
    ),
    Tool(("go", "gotestsum", "ginkgo"), ("go.work", "go.mod")),
    Tool(
        ("gradle", "gradlew"),
        (
            "build.gradle*",
            "settings.gradle*",
            "gradle.properties",
            "gradlew",
            "gradlew.bat",
            "/gradle/**",
            "/buildSrc/**",
        ),
    ),
    Tool(("mvn", "mvnw", "mvnd"), ("pom.xml", "/.mvn/**", "mvnw", "mvnw.cmd")),
    Tool(("sbt",), ("build.sbt", "/project/**")),
    Tool(("ant",), ("build.xml",)),
    Tool(("just",), ("justfile", "Justfile", ".justfile")),
    Tool(("task", "go-task"), ("Taskfile.y*ml", "taskfile.y*ml", "Taskfile.dist.y*ml")),
    Tool(
        ("rake", "ruby", "bundle", "rspec", "minitest", "cucumber"),
        ("Rakefile", "rakefile", "Rakefile.rb", "/rakelib/**", ".rspec", ".rubocop.yml", "cucumber.yml"),
    ),
    Tool(("phpunit", "pest", "composer", "php"), ("phpunit.xml*", "composer.json", "phpstan.neon*")),
    Tool(
        ("ctest", "cmake", "ninja", "meson"),
        ("CMakeLists.txt", "*.cmake", "CMakePresets.json", "build.ninja", "meson.build", "meson_options.txt"),
    ),
    Tool(
        ("bazel", "bazelisk", "buck2"),
        ("BUILD", "BUILD.bazel", "*.bzl", ".bazelrc", "MODULE.bazel", "WORKSPACE*", "BUCK", ".buckconfig"),
    ),
    Tool(
        ("dotnet", "msbuild", "nunit"),
        ("*.csproj", "*.fsproj", "*.sln", "*.slnx", "Directory.Build.*", "*.runsettings", "global.json"),
    ),
    Tool(("mix", "rebar3"), ("mix.exs", "rebar.config", ".formatter.exs")),
    Tool(("swift", "xcodebuild"), ("Package.swift", "*.xctestplan")),
    Tool(("dart", "flutter"), ("pubspec.yaml", "dart_test.yaml")),
    Tool(("stack", "cabal"), ("stack.yaml", "*.cabal", "cabal.project*", "package.yaml")),
    Tool(("zig",), ("build.zig", "build.zig.zon")),
    Tool(("pre-commit", "prek"), (".pre-commit-config.yaml",)),
    Tool(("bats", "shellspec"), (".shellspec", "*.bats")),
    Tool(("docker", "docker-compose", "podman"), ("Dockerfile*", "docker-compose*.y*ml", "compose*.y*ml")),
)
"""What the programs of a check read, by their names. A program with a version counts too: `python3.12`."""

ALWAYS_READ = (".gitattributes",)
"""Files that change how all others are written, whatever the check is."""

INTERPRETERS = frozenset(
    {"sh", "bash", "dash", "zsh", "ksh", "fish", "source", ".", "python", "pypy", "node", "deno", "bun", "tsx", "ruby",
        "perl", "php", "lua", "Rscript", "pwsh"}
)  # fmt: skip
"""Programs whose argument is a script, in the files that a check reads."""

DIRECTORY_WORDS = frozenset({"cd", "pushd", "-C", "--directory", "--prefix", "--cwd", "--dir", "--project"})
"""Words before the name of a directory in which the words after it count."""

IMPORT_ROOTS = "", "src/", "lib/", "python/", "tests/", "test/"
"""Directories from which Python imports when tests run."""

_WORDS = re.compile(r"[\s;&|()'\"`$<>{}=,]+")
_INCLUDE = re.compile(r"^[ \t]*(?:-|s)?include[ \t]+(.+)$", re.MULTILINE)
_VERSION = re.compile(r"[\d.]+$")

_TEST_PARTS = frozenset({"test", "tests", "spec", "specs", "__tests__", "__snapshots__", "testdata", "e2e", "cypress"})
_TEST_NAME = re.compile(r"tests?[._-]|tests?$|conftest\.py$|.*[._-](?:tests?|specs?)\.[^.]+$|.*\.(?:bats|snap)$")
_CAMEL_TEST_NAME = re.compile(
    r"(?:Test[A-Z]\w*|\w*(?:Test|Tests|TestCase|Spec|IT))\.(?:java|kt|kts|groovy|scala|cs|fs|swift|php)"
)


class CheckFiles(msgspec.Struct, frozen=True):
    """Patterns of the files that checks depend on."""

    protects: tuple[str, ...] = ()
    """Files that are put back before each check."""
    reads: tuple[str, ...] = ()
    """Files that a task may change; then they are named."""


def is_test(path: str) -> bool:
    """Return whether a path is that of a test, by the names that are usual."""
    *above, name = path.split("/")
    is_below = any(part.lower() in _TEST_PARTS for part in above)
    return is_below or _TEST_NAME.match(name.lower()) is not None or _CAMEL_TEST_NAME.fullmatch(name) is not None


def files_of_checks(
    checks: Iterable[str], files: Mapping[str, str], read: Callable[[str], str], directory: str = ""
) -> CheckFiles:
    """Return the files that these commands depend on.

    Args:
        checks: commands of a shell.
        files: paths of the base with their modes.
        read: reads a file of the base as text.
        directory: directory in which the commands run; "" is the top.
    """
    protects: dict[str, None] = {}
    reads = dict.fromkeys("**/" + name for name in ALWAYS_READ)
    modules: dict[str, None] = {}
    searched: set[str] = set()
    texts = [(command, directory) for command in checks]
    for command, _ in texts:
        protects |= dict.fromkeys(_named(command, files, read, directory))
    while texts:
        text, folder = texts.pop()
        tools = [tool for tool in TOOLS if not _programs(text).isdisjoint(tool.programs)]
        new = {_anywhere(name) for tool in tools for name in tool.reads} - reads.keys()
        reads |= dict.fromkeys(sorted(new))
        modules |= dict.fromkeys(name for tool in tools for name in tool.modules)
        patterns = PathPatterns(new)
        scripts = [path for path in _scripts(text, files, {directory, folder}) if path not in protects]
        reads |= dict.fromkeys(scripts)
        found = [*protects, *scripts, *(path for path in files if patterns.matches(path))]
        for path in found:
            if path not in searched and len(searched) < MAX_BUILD_FILES:
                searched.add(path)
                content = _commands_of(path, read(path))
                texts.append((content, posixpath.dirname(path)))
                included = _included(path, content, files)
                reads |= dict.fromkeys(included)
                found += included
    protects |= dict.fromkeys(_shadows(modules, files, {"", directory}))
    return CheckFiles(tuple(protects), tuple(reads))


def changes_to_look_at(
    changes: Iterable[tuple[str, str]], reads: Iterable[str], read: Callable[[str, bool], bytes], directory: str = ""
) -> list[FileChange]:
    """Return the changes of tests and of files that checks read, without figures; those that were there before first.

    Args:
        changes: paths that differ, each with git's letter.
        reads: patterns of the files that the checks read.
        read: reads a path of the base, or with True of the result.
        directory: directory in which the checks run; "" is the top.
    """
    patterns, found = PathPatterns(reads), []
    is_python = any(pattern.endswith("/conftest.py") for pattern in reads)
    for path, letter in changes:
        change = FileChange(path=path, change="new" if letter == "A" else "removed" if letter == "D" else "changed")
        if patterns.matches(path) or (is_python and letter == "A" and _is_shadow(path, directory)):
            part = _PARTS.get(path.rpartition("/")[2])
            if (
                change.change == "changed"
                and part is not None
                and not _differs(part, read(path, False), read(path, True))
            ):
                continue
            found.append(msgspec.structs.replace(change, is_read=True))
        elif is_test(path):
            found.append(change)
    return sorted(found, key=lambda one: (not one.is_read, one.change == "new", one.path))


# --- commands ----------------------------------------------------------------------------------------


@cache
def _programs(text: str) -> frozenset[str]:
    """Return the words of a text that may be programs, without directories and versions."""
    names = {word.rpartition("/")[2] for word in _WORDS.split(text)}
    return frozenset(names | {_VERSION.sub("", name) for name in names})


def _named(command: str, files: Mapping[str, str], read: Callable[[str], str], directory: str) -> Iterable[str]:
    """Yield the files that a command names, and where links among them lead."""
    folders, before = list(dict.fromkeys(["", directory])), ""
    for word in _WORDS.split(command):
        for folder in folders:
            path = posixpath.normpath(posixpath.join(folder, word.partition("::")[0] or "."))
            for _ in range(MAX_LINKS):
                if path not in files:
                    break
                yield path
                if files[path] == LINK:
                    path = posixpath.normpath(posixpath.join(posixpath.dirname(path), read(path)))
        if before in DIRECTORY_WORDS:
            folders.append(posixpath.join(folders[-1], word))
        before = word


def _scripts(text: str, files: Mapping[str, str], folders: Collection[str]) -> list[str]:
    """Return the scripts in some directories that a text starts: arguments of interpreters, and executable files."""
    found, before = [], ""
    for word in _WORDS.split(text):
        for folder in ("", *folders):
            path = posixpath.normpath(posixpath.join(folder, word or "."))
            if path in files and (files[path] == EXECUTABLE or word.startswith("./") or _is_interpreter(before)):
                found.append(path)
        if not word.startswith("-"):
            before = word
    return found


def _is_interpreter(word: str) -> bool:
    name = word.rpartition("/")[2]
    return name in INTERPRETERS or _VERSION.sub("", name) in INTERPRETERS


def _commands_of(path: str, text: str) -> str:
    """Return the part of a build file that has commands."""
    if path.rpartition("/")[2] in ("package.json", "composer.json"):
        try:
            return "\n".join(map(str, json.loads(text).get("scripts", {}).values()))
        except (ValueError, AttributeError):
            return ""
    return text


def _included(path: str, text: str, files: Mapping[str, str]) -> list[str]:
    """Return the files that a Makefile includes."""
    if "makefile" not in path.lower() and not path.endswith(".mk"):
        return []
    wanted = [word for line in _INCLUDE.findall(text) for word in line.split() if "$" not in word]
    patterns = PathPatterns(posixpath.normpath(posixpath.join(posixpath.dirname(path), word)) for word in wanted)
    return [found for found in files if patterns.matches(found)]


def _anywhere(name: str) -> str:
    return name.removeprefix("/") if "/" in name else f"**/{name}"


# --- Python ------------------------------------------------------------------------------------------


def _shadows(modules: Iterable[str], files: Mapping[str, str], folders: Collection[str]) -> Iterable[str]:
    """Yield the paths under which Python would import something else, but for those that the base has."""
    roots = [posixpath.join(folder, root) for folder in sorted(folders) for root in IMPORT_ROOTS]
    for module in modules:
        for root in roots:
            if not any(path.startswith((f"{root}{module}/", f"{root}{module}.")) for path in files):
                yield from (f"{root}{module}{end}" for end in ("", ".py", ".pyc", ".*.so", ".so", ".pyd"))


def _is_shadow(path: str, directory: str) -> bool:
    """Return whether a new path has the name of a module of the standard library."""
    for root in (posixpath.join(folder, root) for folder in {"", directory} for root in IMPORT_ROOTS):
        first, slash, rest = path.removeprefix(root).partition("/")
        name, dot, end = first.partition(".")
        is_module = (slash and not dot and rest.startswith("__init__.")) or (not slash and end == "py")
        if path.startswith(root) and is_module and name in sys.stdlib_module_names:
            return True
    return False


# --- files of which only a part decides about checks ---------------------------------------------------

_PACKAGING = {"dependencies", "dev-dependencies", "devDependencies", "optional-dependencies", "build-dependencies",
    "peerDependencies", "optionalDependencies", "dependency-groups", "group", "sources", "target", "version", "name",
    "description", "authors", "license", "keywords", "readme", "repository", "homepage", "bugs"}  # fmt: skip
"""Keys of a project file that say what it is and needs, and not how it is tested."""


def _without_packaging(value: object, levels: int) -> object:
    """Return tables without these keys, at so many levels; below them a key of the same name may be a script."""
    if not isinstance(value, dict) or levels == 0:
        return value
    return {key: _without_packaging(inner, levels - 1) for key, inner in value.items() if key not in _PACKAGING}


def _package_json(text: str) -> object:
    return _without_packaging(json.loads(text), 1)


def _pyproject(text: str) -> object:
    tables = tomllib.loads(text).get("tool", {})
    return {name: left for name, table in tables.items() if (left := _without_packaging(table, 1))}


def _cargo(text: str) -> object:
    return _without_packaging(tomllib.loads(text), 2)


def _setup_cfg(text: str) -> object:
    found = configparser.ConfigParser(interpolation=None, strict=False)
    found.read_string(text)
    return {name: dict(found[name]) for name in found.sections() if name not in ("metadata", "options")}


def _go_mod(text: str) -> object:
    return [line for line in text.splitlines() if "replace" in line or "=>" in line or "toolchain" in line]


_PARTS: Mapping[str, Callable[[str], object]] = {
    "package.json": _package_json,
    "composer.json": _package_json,
    "pyproject.toml": _pyproject,
    "Cargo.toml": _cargo,
    "setup.cfg": _setup_cfg,
    "go.mod": _go_mod,
}
"""Files that tasks change every day for other reasons, with what counts of them."""


def _differs(part: Callable[[str], object], old: bytes, new: bytes) -> bool:
    """Return whether what counts of a file differs; a file that cannot be read differs."""
    try:
        return part(old.decode()) != part(new.decode())
    except (ValueError, KeyError, RecursionError, AttributeError, configparser.Error):
        return True
