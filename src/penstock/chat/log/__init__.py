"""The event log: what one must do (`protocol`), the one in a SQLite file (`sqlite`), the check for others."""
