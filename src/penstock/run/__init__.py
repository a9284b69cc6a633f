"""One run of one agent: started, supervised, recorded and ended, whatever the agent does.

No module here knows a conversation, a document or the command line; what is shown of a run is a sink's work.
"""
