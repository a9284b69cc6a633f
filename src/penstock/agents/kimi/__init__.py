"""kimi: Kimi Code, the command line of Moonshot AI."""
