#!/bin/sh
# Runs a command in a network that has loopback and nothing else; where the machine does not allow that, as it is.
if unshare --map-root-user --net ip link set lo up 2>/dev/null; then
    exec unshare --map-root-user --net sh -c 'ip link set lo up && exec "$@"' offline "$@"
fi
echo "This machine gives no network of its own: the agents run in the usual one." >&2
exec "$@"
