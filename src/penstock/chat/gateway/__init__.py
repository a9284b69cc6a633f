"""The gateway: the chats over HTTP. `docs/gateway-api.md` is what it promises.

::

    listening  where: a port, a socket              logins     the token, one-time codes
    server     signals, connections, the drain      browsers   those that are signed in, and their file
                                                    security   hosts, origins, persons, headers
    entrance   what every request and every answer passes
    app        who answers at which address  ◄──  addresses   the one table; `openapi` tells it to machines
    api        each answer, made of the runtime     bodies     requests and answers, checked
    stream     one viewer of a chat                 pagefiles  the page
    watching   one watch of a chat for all its viewers: event log → thread → frames
    refusing   why not                              metrics    how often, how long
"""
