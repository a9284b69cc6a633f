"""goose: the agent of the Agentic AI Foundation, once Block's."""
