"""The judge of turns is no test, and is found beside the tests that ask it."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
