"""Blanks and tabs that keep a patch from its place."""

from __future__ import annotations

import pytest

from pipeline import whitespace

FILE = "int a;\n\nint f(void)\n{\n\treturn 1;\n}\n"
MAIL = (
    "From: Ada <ada@example.org>\nContent-Type: text/plain; charset=utf-8\n\nwords\n---\n"
    "diff --git a/x.c b/x.c\n--- a/x.c\n+++ b/x.c\n"
    "@@ -3,4 +3,4 @@\n int f(void)\n {\n-\treturn 1;\n+\treturn 2;\n }\n"
)


@pytest.mark.parametrize(
    ("right", "sent"), [("\treturn 1", "        return 1"), (" {", " { "), ("int f", "int\xa0f")]
)
def test_a_place_that_only_blanks_hide(right: str, sent: str) -> None:
    assert whitespace.explains(MAIL.replace(right, sent).encode(), "x.c", FILE)
    assert not whitespace.explains(MAIL.replace(right, sent).encode(), "y.c", FILE)


def test_other_causes() -> None:
    assert not whitespace.explains(MAIL.encode(), "x.c", FILE)
    assert not whitespace.explains(MAIL.encode(), "x.c", FILE.replace("return 1", "return 3"))
    assert not whitespace.explains(MAIL.encode(), "x.c", "")
