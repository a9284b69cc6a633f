"""One run of one agent: it is started, supervised, recorded and ended, whatever the agent does.

No module here depends on a conversation, a document or the command line; sinks decide how a run is shown.
"""
