"""Handlers of documents and loops."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from penstock.chat.errors import Invalid
from penstock.chat.people.rights import Right, check, may_read
from penstock.chat.store import permits
from penstock.chat.web import schemas
from penstock.chat.web.api import Api
from penstock.chat.web.handlers.parts import format_of, json_response, lines_response
from penstock.chat.web.security import person_of
from penstock.errors import shown


async def list_runs(api: Api, request: Request) -> Response:
    """Return the documents and loops that the person may see."""
    return json_response({"runs": await api.runs.listed(partial(may_read, person_of(request)))})


async def run(api: Api, request: Request, run: str) -> Response:
    """Return one document or loop."""
    return json_response(await api.runs.details(run))


async def change_run(api: Api, request: Request, run: str, body: schemas.RunChanges) -> Response:
    """Change who sees a document or loop; an owner also decides to whom it belongs."""
    right: Right = "manage"
    if body.person is not None:
        right = "operate"
        check(person_of(request), right)
        if api.security.logins.people.find(body.person) is None:
            raise Invalid(f"there is no person named {shown(body.person)}", expected="a person of: penstock people")
    with permits.acting(api.permit(request, right, None, await api.runs.folder(run))):
        return json_response(await api.runs.change(run, person=body.person, visibility=body.visibility))


async def run_details(api: Api, request: Request, run: str, turn: int) -> Response:
    """Return everything that the agent did in a turn of a document or loop."""
    if format_of(request) == "json":
        return json_response(await api.runs.turn_details(run, turn))
    return await lines_response(await api.runs.turn(run, turn))


async def run_output(api: Api, request: Request, run: str, step: int) -> Response:
    """Return the output of a command of a loop."""
    return json_response(await api.runs.output(run, step))


async def run_changes(api: Api, request: Request, run: str, round: int) -> Response:
    """Return the changes of a round of a loop."""
    return json_response(await api.runs.changes(run, round))


async def run_candidate_changes(api: Api, request: Request, run: str, round: int, candidate: int) -> Response:
    """Return the changes of a candidate in a round of a loop."""
    return json_response(await api.runs.changes(run, round, candidate))


async def stop_run(api: Api, request: Request, run: str, body: schemas.StopRun) -> Response:
    """Ask a loop to end."""
    return json_response(await api.runs.stop(run, now=body.now), 202)


async def land_run(api: Api, request: Request, run: str, body: schemas.LandRun) -> Response:
    """Merge the result of a loop into the branch that is checked out; its directory has to be trusted."""
    api.service.places.check_trusted((await api.runs.details(run)).run.path)
    return json_response(await api.runs.land(run, squash=body.squash))


async def message_run(api: Api, request: Request, run: str, body: schemas.LoopMessage) -> Response:
    """Write to the agents of a loop."""
    return json_response(await api.runs.message(run, body.text), 202)
