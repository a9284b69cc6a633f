"""The chats over HTTP, as `docs/gateway-api.md` promises, and the page.

::

    sockets     which addresses and sockets are bound     auth        the token, one-time codes
    server      signals, connections, the drain           browsers    those that are signed in, and their file
                                                          security    hosts, origins, users, headers
    middleware  every request and every answer passes it
    app         each route to its handler  ◄──  routes    the one table; `openapi` makes the document of it
    handlers    each answer, made by the service          schemas     requests and answers, checked
    sse         one viewer of a chat                      static      the page
    broadcast   one subscription for all viewers of a chat
    errors      what is answered if it cannot be done     metrics     counters and durations

No module here starts an agent or writes to the store; the service does.
"""
