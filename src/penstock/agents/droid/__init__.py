"""droid: Factory's command line."""
