"""vibe: Mistral Vibe, the agent of Mistral AI."""
