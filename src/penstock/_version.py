"""The version of Penstock, in one place: the build, the command line and the recordings read it here."""

__version__ = "0.1.0"
