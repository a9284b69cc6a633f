"""Chats: stored conversations with agents, shown in a browser while they run.

    history    meaning of a chat's numbered entries           store      storage of the entries
    service    service of the chats: prompts, runs, answers   web        the chats over HTTP
    page       files that the browser loads                   turn       one prompt with its reply

A package imports only from those after it: web, service, store, history, turn. No module here reads an agent's wire.
"""
