"""The text sink: what a person sees of a run in a terminal or a log, in which order, and in which colours."""
