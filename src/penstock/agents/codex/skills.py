"""Skills of codex, which are its commands: `$name`, anywhere in a prompt."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from penstock.agents._json import as_dict, as_list, text_of, word_of
from penstock.events import AgentCommand
from penstock.updates import Commands

SKILLS = "penstock-skills"
"""Id of the request for them: a word, which no request has that is counted."""


def skills_of(result: Any) -> Commands:
    """Return the skills of an answer that are turned on; nothing of an error or of another form."""
    return Commands([*_skills(result)])


def _skills(result: Any) -> Iterator[AgentCommand]:
    for directory in as_list(as_dict(result).get("data")):
        for skill in map(as_dict, as_list(as_dict(directory).get("skills"))):
            if skill.get("enabled") is not False and (name := word_of(skill.get("name"))):
                short = text_of(as_dict(skill.get("interface")).get("shortDescription"))
                yield AgentCommand(f"${name}", short or text_of(skill.get("description")))
