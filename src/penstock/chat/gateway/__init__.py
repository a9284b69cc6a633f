"""The gateway: the chats over HTTP. `docs/gateway-api.md` is what it promises.

::

    server     sockets, signals, the drain
    entrance   every request: who asks, from where; every answer: its headers, its error, its line in the log
    addresses  what there is to ask for; `openapi` tells it to machines
    api        each answer, made of the runtime
    stream     one viewer of a chat      ─┐
    watching   one watch of a chat, for all its viewers: event log → thread → frames
"""
