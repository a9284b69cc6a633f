"""`penstock loop`: words to loops, and loops to lines. The rules of a loop are in `penstock.loop`."""
