// The keys of the page, as a person sees them; keyboard.js has what they do.

export const SHORTCUTS = [
  ["Enter", "Send the message"],
  ["Shift + Enter", "New line"],
  ["Ctrl + Enter", "Give the message to the agent while it works, or stop it and send"],
  ["Esc", "Stop the agent"],
  ["/", "Write a message"],
  ["1 2 3", "Choose an answer, outside of a field"],
  ["Ctrl + K", "Search all chats, and all actions"],
  ["Alt + N", "New chat"],
  ["Alt + ↑ ↓", "Chat above, chat below"],
  ["j k", "Next message, message before; in a field Alt + PgDn, PgUp"],
  ["Alt + End", "Jump to the latest"],
  ["F2", "Rename the chat"],
  ["q", "Quote what is selected"],
  ["x", "Select chats of the list"],
  ["?", "This list"],
];
