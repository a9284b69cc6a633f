"""Service of the chats: it accepts prompts, starts runs, and appends their results (`service.Service`).

No module here depends on HTTP or the page.
"""
