"""Line editor of conversations in a terminal: keys, earlier prompts, completion, commands, and what is typed ahead.

`prompt_toolkit` is imported by `line_editor` and `suggestions`, and at the first key that is typed ahead. Nothing else
here needs it, so a run without a conversation never imports it.
"""
