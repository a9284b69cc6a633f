"""Chats: conversations with agents that are kept, and shown in a browser while they go on.

    history    what a chat's numbered entries mean            store      where they are kept
    service    the chats at work: prompts, runs, answers      web        the chats over HTTP
    page       what the browser loads                         turn       one prompt with its reply

A package imports from those before it alone: web, service, store, history, turn. No module here reads an agent's wire.
"""
