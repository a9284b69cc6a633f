"""`penstock loop`: turns arguments into loops, and loops into lines. `penstock.loop` has the rules of a loop."""
