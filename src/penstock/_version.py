"""The version of Penstock, in one place: the build, the command line and the recordings read it here."""

__version__ = "0.1.0"

DISTRIBUTION = "penstock"
"""Name of the package as it is installed, which a publisher may have to change: `packaging/addresses.py`."""
