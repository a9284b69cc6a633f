"""`penstock serve`: its options, and what it starts."""
