"""Real kernels built in-process: patched trees of debian:6.12 and what it takes to build them."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pipeline import settings, tree
from pipeline.catalog import Catalog
from pipeline.kernelbuild import Wish
from pipeline.model import Build, Revision, Role, Tree, TreeSpec
from pipeline.scope import Scope
from tests.conftest import QuietStep
from tests.makes import Maker

TREE = "debian:6.12"
ORDER = "min_objects = 4 * (fls(nr_cpus) + 1);"  # calculate_order() in mm/slub.c


class Ground(Maker):
    """A tree with its base, the settings, and a scope; `cache` is shared with other runs."""

    def __init__(self, cache: Path, logs: Path, scope: Scope, *, spec: str = TREE) -> None:
        self.logs, self.scope, self.step = logs, scope, QuietStep()
        options: dict[str, str | bool | int | None] = {"cache": str(cache)}
        self.settings = settings.read({"HOME": str(logs)}, cwd=logs, options=options)
        self.shelf = Catalog(data=self.settings.data, share=self.settings.share)
        self.opened: Tree = tree.open_tree(
            TreeSpec(name=spec, base="HEAD"), cache=cache, scope=scope, step=self.step
        )
        self.built = 0

    def revision(self, tree_id: str, name: str) -> Revision:
        return Revision(kernel=name, role=Role.PATCHED, commit=self.opened.base, tree_id=tree_id)

    @property
    def base_tree(self) -> str:
        return self.git("rev-parse", f"{self.opened.base}^{{tree}}")

    def wish(
        self,
        tree_id: str,
        *,
        arch: str = "x86_64",
        trusted: bool = False,
        below: Build | None = None,
    ) -> Wish:
        self.built += 1
        name = f"kernel{self.built}"
        return Wish(
            opened=self.opened,
            revision=self.revision(tree_id, name),
            base=self.revision(self.base_tree, "base"),
            architecture=self.shelf.architecture(arch),
            fragments=(),
            trusted=trusted,
            log_folder=self.logs / name,
            below=below,
        )

    def base(self, arch: str = "x86_64") -> Build:
        return self.make(self.wish(self.base_tree, arch=arch, trusted=True))

    # ------------------------------------------------------------------ patched trees

    def text(self, path: str, tree_id: str = "") -> str:
        return self.git("cat-file", "blob", f"{tree_id or self.base_tree}:{path}", strip=False)

    def replaced(self, path: str, old: str, new: str, tree_id: str = "") -> str:
        """The tree in which one file has `new` in place of its first `old`."""
        text = self.text(path, tree_id)
        assert old in text, (path, old)
        return self.patched({path: text.replace(old, new, 1)}, tree_id)

    def patched(self, files: Mapping[str, str], tree_id: str = "") -> str:
        """The tree with these files as they are given. It lies in the cache's repository."""
        with tempfile.TemporaryDirectory() as folder:
            index = {"GIT_INDEX_FILE": f"{folder}/index"}
            self.git("read-tree", tree_id or self.base_tree, extra=index)
            for path, text in files.items():
                blob = self.git("hash-object", "-w", "--stdin", stdin=text)
                self.git(
                    "update-index", "--add", "--cacheinfo", f"100644,{blob},{path}", extra=index
                )
            return self.git("write-tree", extra=index)

    def git(
        self,
        *words: str,
        stdin: str = "",
        extra: Mapping[str, str] | None = None,
        strip: bool = True,
    ) -> str:
        done = subprocess.run(
            ("git", "--git-dir", str(self.opened.repository), *words),
            input=stdin.encode(),
            capture_output=True,
            check=True,
            env={**os.environ, **(extra or {})},
        )
        text = done.stdout.decode()
        return text.strip() if strip else text
