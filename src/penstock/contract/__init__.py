"""The contract: from loose updates to strict events. `docs/contract.md` tells its rules."""
