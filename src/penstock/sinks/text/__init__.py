"""The text sink: the content, order and colours of a run in a terminal or a log."""
