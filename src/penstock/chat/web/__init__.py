"""Chats over HTTP, as `docs/gateway-api.md` promises, and the page.

::

    sockets     addresses and sockets to bind             auth        the token, one-time codes
    server      signals, connections, the drain           browsers    signed-in browsers, and their file
                                                          security    hosts, origins, users, headers
    middleware  passed by every request and response
    app         each route to its handler  ◄──  routes    the one table; `openapi` makes the document from it
    handlers    each response, made by the service: a module for each subject
    api         what the handlers share                   schemas     requests and responses, checked
    sse         the stream of one client of a chat        static      the page
    broadcast   one subscription for all clients of a chat
    openai_api  OpenAI's interface                        doors       formats of other programs
    ai_sdk_api  the AI SDK's chat                         agui_api    AG-UI
    foreign_turns  turns that other programs ask for, followed to their end
    errors      responses to requests that fail           metrics     counters and durations

No module here starts an agent or writes to the store; the service does.
"""

PORT = 8377
"""Port of the gateway, if none is named."""
