"""Write the addresses of a publisher into the repository: `python packaging/addresses.py --help`.

`ADDRESSES.md` beside this file lists them. Each place has a marker; if one is missing, it was filled in before, and
nothing is changed.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parents[1]


class Missing(Exception):
    """A place has no marker; the message names it."""


def main(words: list[str] | None = None) -> int:
    """Fill in all places and print their names; return the exit status."""
    parser = argparse.ArgumentParser(description="Write the addresses of a publisher into the repository.")
    parser.add_argument("--repository", required=True, metavar="URL", help="address of the repository on its forge")
    parser.add_argument(
        "--contact", required=True, help="private address for vulnerabilities: a URL, or an e-mail address"
    )
    parser.add_argument("--reviewers", required=True, help="accounts or teams that review changes, e.g. @ana @org/team")
    parser.add_argument("--site", metavar="URL", help="address of the documents, if they are published as a site")
    parser.add_argument("--name", default="penstock", help="name on the package index (default: penstock)")
    given = parser.parse_args(words)
    try:
        changed = fill(ROOT, **vars(given))
    except (Missing, ValueError) as error:
        print(f"addresses: {error}", file=sys.stderr)
        return 1
    print("\n".join(changed))
    return 0


def fill(root: Path, *, repository: str, contact: str, reviewers: str, site: str | None, name: str) -> list[str]:
    """Replace the marker of each place below `root`; return the names of the files.

    Raises:
        Missing: a place has no marker; no file was changed.
        ValueError: an address or the name cannot be one.
    """
    repository = repository.rstrip("/").removesuffix(".git")
    address = urlsplit(repository)
    path = address.path.strip("/")
    if address.scheme != "https" or not re.fullmatch(r"[\w.-]+/[\w./-]+", path):
        raise ValueError(
            f"{repository} is not the address of a repository, such as https://forge.example/owner/penstock"
        )
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", name):
        raise ValueError(f"{name} cannot be the name of a package")
    for text in (contact, reviewers, site or ""):
        if re.search(r"[\"\\\n]", text):
            raise ValueError(f"{text!r} has a character that no address has")
    link = contact if "://" in contact else f"mailto:{contact}"
    urls = {
        "Source": repository,
        "Issues": f"{repository}/issues",
        "Changelog": f"{repository}/blob/main/CHANGELOG.md",
        **({"Documentation": site} if site else {}),
    }
    table = "\n".join(["[project.urls]", *(f'{key} = "{value}"' for key, value in urls.items())])
    pages = [f"docs/{page.name}" for page in sorted((root / "docs").glob("*.md")) if CLONE in _text(page)]
    command = "" if name == "penstock" else '"cmd": "penstock",\n      '
    places = [
        ("pyproject.toml", "# For the publisher: packaging/addresses.py adds [project.urls].", table),
        ("pyproject.toml", 'name = "penstock"\n', f'name = "{name}"\n'),
        ("src/penstock/_version.py", 'DISTRIBUTION = "penstock"', f'DISTRIBUTION = "{name}"'),
        *((page, CLONE, f"{repository} && cd {path.rpartition('/')[2]}") for page in ["README.md", *pages]),
        ("docs/ci.md", "OWNER/penstock", path),
        ("packaging/acp/agent.json", "https://forge.example/OWNER/penstock", repository),
        ("packaging/acp/agent.json", '"package": "penstock==', f'{command}"package": "{name}=='),
        ("SECURITY.md", PARAGRAPH, f"Write to <{link}>."),
        ("mkdocs.yml", MKDOCS, "\n".join([*([f"site_url: {site}"] if site else []), f"repo_url: {repository}"])),
        (".github/CODEOWNERS", CODEOWNERS, f"* {reviewers}"),
        (".github/ISSUE_TEMPLATE/config.yml", TEMPLATE, f'{CONTACT_LINKS}    url: "{link}"\n'),
        (".github/workflows/release.yml", "OWNER/penstock", path),
    ]  # fmt: skip
    texts: dict[str, str] = {}
    for file, marker, new in places:
        text = texts.get(file) or _text(root / file)
        if marker not in text:
            raise Missing(f"{file} has no {marker.splitlines()[0]!r}: it was filled in before")
        texts[file] = text.replace(marker, new)
    for file, text in texts.items():
        (root / file).write_text(text, "utf-8")
    return sorted(texts)


def _text(path: Path) -> str:
    return path.read_text("utf-8")


CLONE = "…/penstock && cd penstock"

PARAGRAPH = "> **For the publisher:** `packaging/addresses.py` writes the private address here."

MKDOCS = "# For the publisher: set site_url and repo_url when the addresses are known."

CODEOWNERS = """\
# For the publisher: name the accounts or teams that review changes, for example
#   *                 @OWNER
#   /src/penstock/    @OWNER"""

TEMPLATE = """\
# For the publisher: add contact_links with the private address for vulnerabilities (SECURITY.md) when it is known.
"""

CONTACT_LINKS = """\
contact_links:
  - name: A vulnerability
    about: Please report it in private, as SECURITY.md describes.
"""


if __name__ == "__main__":
    sys.exit(main())
