"""Log of one chat in this process: its entries, decided and appended in one step, and the timeline folded from them."""
