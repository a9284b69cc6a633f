"""Programs on stdin and stdout: JSON-RPC with their client, and the server whose chats they use."""
