"""Sizes of reads, and of what waits in memory. They are apart from the queues, as a pipe of one input has none."""

READ_BYTES = 64 * 1024
"""Bytes requested by one read: the capacity of a pipe on Linux."""
MAX_WAITING_BYTES = 256 * 1024 * 1024
"""Bytes that may wait in memory for a slow output, over all inputs. The largest recorded runs are a few megabytes, so
this is hours of work of many agents; beyond it the agents wait, which is better than being killed for memory."""
