"""Golden files: what a renderer gave when someone last looked at it.

`KTRIAL_GOLDEN=write pytest …` writes them anew; look at the difference before committing it.
"""

from __future__ import annotations

import os
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "golden"


def check_golden(name: str, text: str) -> None:
    path = FOLDER / name
    if os.environ.get("KTRIAL_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), f"KTRIAL_GOLDEN=write makes {name} anew"
