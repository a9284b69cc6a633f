"""Any stream of JSON events that no known agent prints."""
