"""The chats at work: who asked for what, which agent does it, and the rows that come of it (`runtime.Runtime`)."""
