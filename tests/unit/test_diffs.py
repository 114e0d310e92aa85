"""What is read from the text of a diff."""

from __future__ import annotations

import pytest

from pipeline.diffs import Change, changes, from_header, of_mail, unquoted

PLAIN = """diff --git a/mm/slub.c b/mm/slub.c
index 1234567..89abcde 100644
--- a/mm/slub.c
+++ b/mm/slub.c
@@ -1,3 +1,4 @@ int f(void)
 one
-two
+zwei
+drei
 four
"""


def only(text: str) -> Change:
    (found,) = changes(text)
    return found


def test_a_change_with_its_blobs_and_lines() -> None:
    found = only(f"words\n\n---\n mm/slub.c | 3 ++-\n\n{PLAIN}-- \n2.39.5\n")
    assert (found.old, found.new, found.old_blob, found.new_blob) == (
        "mm/slub.c", "mm/slub.c", "1234567", "89abcde",
    )  # fmt: skip
    assert (found.insertions, found.deletions, found.exact) == (2, 1, True)


def test_lines_that_look_like_headers_are_content() -> None:
    text = (
        "diff --git a/x b/x\nindex 1234567..89abcde 100644\n--- a/x\n+++ b/x\n"
        "@@ -1,2 +1,2 @@\n---- a/../up\n+++ b/../up\n diff --git a/y b/y\n"
    )
    found = only(text)
    assert (found.path, found.insertions, found.deletions) == ("x", 1, 1)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("diff --git a/n b/n\nnew file mode 100644\nindex 0000000..e69de29\n",
         Change(old="", new="n", new_mode="100644", new_blob="e69de29")),
        ("diff --git a/n b/n\ndeleted file mode 100644\nindex e69de29..0000000\n",
         Change(old="n", new="", old_mode="100644", old_blob="e69de29")),
        ("diff --git a/n b/n\nold mode 100644\nnew mode 100755\n",
         Change(old="n", new="n", old_mode="100644", new_mode="100755")),
        ("diff --git a/one b/two\nsimilarity index 100%\nrename from one\nrename to two\n",
         Change(old="one", new="two", renamed=True)),
        ("diff --git a/l b/l\nnew file mode 120000\nindex 0000000..1234567\n--- /dev/null\n"
         "+++ b/l\n@@ -0,0 +1 @@\n+../out\n\\ No newline at end of file\n",
         Change(old="", new="l", new_mode="120000", new_blob="1234567", insertions=1,
                content="../out")),
        ("diff --git a/b.png b/b.png\nindex 1234567..89abcde 100644\nGIT binary patch\n"
         "literal 4\nLc$_@\n\n",
         Change(old="b.png", new="b.png", old_mode="100644", new_mode="100644",
                old_blob="1234567", new_blob="89abcde", binary=True)),
        ("--- a/old.c\t2024-01-01\n+++ b/old.c\t2024-01-01\n@@ -1 +1 @@\n-a\n+b\n",
         Change(old="old.c", new="old.c", insertions=1, deletions=1)),
        ('diff --git "a/\\303\\251 \\"x\\".c" "b/\\303\\251 \\"x\\".c"\nold mode 100644\n'
         "new mode 100755\n",
         Change(old='é "x".c', new='é "x".c', old_mode="100644", new_mode="100755")),
        ("--- /dev/null\n+++ /etc/passwd\n@@ -0,0 +1 @@\n+x\n",
         Change(old="", new="etc/passwd", insertions=1, outside=True)),
    ],
)  # fmt: skip
def test_kinds_of_changes(text: str, want: Change) -> None:
    assert only(text) == want


def test_a_mail_is_decoded() -> None:
    head = b"From: a@b\nContent-Type: text/plain; charset=UTF-8\n"
    raw = (
        head
        + b"Content-Transfer-Encoding: quoted-printable\n\n"
        + PLAIN.encode().replace(b"zwei", b"=7Awei")
    )
    assert of_mail(raw) == changes(PLAIN)


@pytest.mark.parametrize(
    ("header", "names"),
    [
        ("a/x y b/x y", ("a/x y", "b/x y")),
        ('"a/\\t" "b/\\t"', ("a/\t", "b/\t")),
        ("a/b b/b b/b b/b", ("a/b b/b", "b/b b/b")),
    ],
)
def test_the_names_in_a_header(header: str, names: tuple[str, str]) -> None:
    assert from_header(header) == names


def test_quoted_names() -> None:
    assert unquoted('"a\\342\\200\\256b\\\\"') == "a\u202eb\\"
    assert unquoted('"\\377"') == "\udcff"
    assert unquoted("plain") == "plain"
