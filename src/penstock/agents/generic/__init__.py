"""Any stream of JSON events that is of no known agent."""
