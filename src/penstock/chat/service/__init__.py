"""The chats at work: it accepts prompts, starts runs, and appends what comes of them (`service.Service`).

No module here knows HTTP or the page.
"""
