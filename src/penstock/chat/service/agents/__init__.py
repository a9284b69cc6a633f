"""Agents as chats use them: which are offered, in which directories they may work, and how one is started."""
