"""Any agent with the Agent Client Protocol."""
