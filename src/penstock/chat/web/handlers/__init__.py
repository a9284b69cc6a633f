"""Handlers of requests, a module for each subject. `routes` names the handler of each address.

A handler is a function that takes the `Api`, a request, which is authenticated unless its address is public, the ids of
its path and, if it has one, its body. It calls the service and makes the response. Rules of chats do not belong here:
they are those of the service.
"""
