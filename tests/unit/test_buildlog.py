"""First errors in build output, as gcc, binutils, Kconfig and make write them."""

from __future__ import annotations

import pytest

from pipeline.buildlog import FirstError, first_error, host_fault

GCC = """\
  CC      mm/slub.o
/src/mm/slub.c: In function 'calculate_order':
/src/mm/slub.c:3386:9: error: 'nr_cpu_idz' undeclared (first use in this function)
 3386 |         nr_cpu_idz;
make[2]: *** [/src/scripts/Makefile.build:286: mm/slub.o] Error 1
make[1]: *** [/src/Makefile:1837: mm] Error 2
"""
HEADER = (
    "In file included from ../mm/slub.c:12:\n../include/linux/x.h:3:10: fatal error: y.h: No such"
)
LINK = """\
  LD      vmlinux
ld: mm/slub.o: in function `kmem_cache_init':
slub.c:(.init.text+0x2f): undefined reference to `not_there'
make: *** [/src/Makefile:1210: vmlinux] Error 1
"""
CROSS_LINK = (
    "aarch64-linux-gnu-ld: kernel/fork.o: in function `fork_init':\n"
    "/src/kernel/fork.c:812: undefined reference to `gone'\n"
)
MULTIPLE = (
    "ld: lib/b.o:/src/lib/b.c:3: multiple definition of `x'; lib/a.o:/src/lib/a.c:9: first here\n"
)
LLD = """\
ld.lld: error: undefined symbol: not_there
>>> referenced by slub.c
>>>               mm/slub.o:(calculate_order) in archive vmlinux.a
make: *** [/src/Makefile:1210: vmlinux] Error 1
"""
LLD_LINES = """\
ld.lld: error: undefined symbol: not_there
>>> referenced by slub.c:7 (/src/mm/slub.c:7)
>>>               vmlinux.o:(calculate_order)
"""
PARALLEL = """\
make[2]: *** No rule to make target 'mm/forgotten.o', needed by 'mm/built-in.a'.  Stop.
make[1]: *** [/src/Makefile:1837: mm] Error 2
make[1]: *** Waiting for unfinished jobs....
/src/fs/namei.c:77:1: error: expected identifier
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            GCC,
            FirstError(
                error="'nr_cpu_idz' undeclared (first use in this function)",
                file="mm/slub.c",
                line=3386,
            ),
        ),
        (HEADER, FirstError(error="y.h: No such", file="include/linux/x.h", line=3)),
        (LINK, FirstError(error="undefined reference to `not_there'", file="mm/slub.c")),
        (LLD, FirstError(error="undefined symbol: not_there", file="mm/slub.c")),
        (LLD_LINES, FirstError(error="undefined symbol: not_there", file="mm/slub.c", line=7)),
        ("clang: error: unknown argument: '-x'\n", FirstError(error="unknown argument: '-x'")),
        (
            CROSS_LINK,
            FirstError(error="undefined reference to `gone'", file="kernel/fork.c", line=812),
        ),
        (
            MULTIPLE,
            FirstError(
                error="multiple definition of `x'; lib/a.o:/src/lib/a.c:9: first here",
                file="lib/b.c",
                line=3,
            ),
        ),
        (PARALLEL, FirstError(error="expected identifier", file="fs/namei.c", line=77)),
        (
            PARALLEL.splitlines()[0],
            FirstError(error="No rule to make target 'mm/forgotten.o', needed by 'mm/built-in.a'"),
        ),
        (
            "/src/mm/Makefile:12: *** missing separator.  Stop.\n",
            FirstError(error="missing separator", file="mm/Makefile", line=12),
        ),
        (
            'mm/Kconfig:4: syntax error\nmm/Kconfig:4: unknown statement "configg"\n',
            FirstError(error="syntax error", file="mm/Kconfig", line=4),
        ),
        (
            "/src/arch/x86/entry/entry_64.S:90: Error: no such instruction: `bad %rax'\n",
            FirstError(
                error="no such instruction: `bad %rax'", file="arch/x86/entry/entry_64.S", line=90
            ),
        ),
        (
            'ERROR: modpost: "gone" [drivers/net/x.ko] undefined!\n',
            FirstError(error='"gone" [drivers/net/x.ko] undefined!'),
        ),
        (
            "make: *** [/src/Makefile:9: vmlinux] Error 1\n",
            FirstError(error="vmlinux: Error 1", file="Makefile", line=9),
        ),
        ("sh: odd: not found\n\n", FirstError(error="sh: odd: not found")),
        ("", FirstError(error="make said nothing")),
    ],
)
def test_first_error(text: str, expected: FirstError) -> None:
    assert first_error(text) == expected


def test_warnings_are_no_errors() -> None:
    text = "/src/mm/a.c:1:1: warning: 'x' unused\n" + GCC
    assert first_error(text).line == 3386


def test_files_below_other_roots() -> None:
    text = "/home/me/linux/mm/a.c:7: error: no"
    assert first_error(text, roots=("/home/me/linux", "/b")).file == "mm/a.c"


@pytest.mark.parametrize(
    "line",
    [
        "/src/mm/slub.c:1:1: fatal error: error writing to /tmp/x.s: No space left on device",
        "gcc: fatal error: Killed signal terminated program cc1",
        "/tmp/ccX1.s: Fatal error: can't close mm/slub.o: No space left on device",
        "aarch64-linux-gnu-ld: final link failed: No space left on device",
        "virtual memory exhausted: Cannot allocate memory",
        "cc1: out of memory allocating 65536 bytes after a total of 4096 bytes",
        "make[2]: vfork: Cannot allocate memory",
        "/src/a.c:9:1: internal compiler error: Killed (program cc1)",
        "clang: error: unable to execute command: Killed",
        "make[2]: *** [/src/scripts/Makefile.build:286: mm/slub.o] Killed",
        "LLVM ERROR: out of memory",
    ],
)
def test_faults_of_the_host_are_told_from_those_of_the_tree(line: str) -> None:
    assert host_fault(f"  CC  x.o\n{line}\nmake: *** Error 1\n") == line
    assert host_fault(GCC) == ""


@pytest.mark.parametrize(
    "line",
    [
        '  120 |         pr_err("slub: Cannot allocate memory");',
        "123456 | out: Cannot allocate memory",
        "      |         hint: Cannot allocate memory",
        'pr_err("slub: Cannot allocate memory',
        "/src/mm/slub.c:9:2: error: #error mm: No space left on device",
        '/src/mm/slub.c:9:2: error: static assertion failed: "x: Cannot allocate memory"',
        "/src/a.c:9:2: error: call to 'f' declared with attribute error: Cannot allocate memory",
        "/src/mm/entry.S:7: Error: Cannot allocate memory",
        "/src/mm/Makefile:3: *** mm: No space left on device.  Stop.",
        "/src/mm/slub.c:1:1: warning: No space left on device is not tested",
    ],
)
def test_the_tree_s_own_words_are_no_fault_of_the_host(line: str) -> None:
    before = "/src/mm/slub.c:9:2: error: expected ';'\n    9 | x\n"
    assert host_fault(f"{before}{line}\nmake: *** Error 1\n") == ""


def test_a_line_of_the_source_as_clang_shows_it_is_no_fault_of_the_host() -> None:
    excerpt = "// mm: Cannot allocate memory\n"
    assert host_fault(f"/src/mm/slub.c:9:2: error: expected ';'\n{excerpt}  ^\n") == ""
    assert host_fault(f"cc1: warning: odd\n{excerpt}") == excerpt.strip()


def test_detour_within_the_tree_is_left_out() -> None:
    text = "/src/arch/x86/boot/compressed/../../../../lib/zlib.c:3:1: error: odd"
    assert first_error(text).file == "lib/zlib.c"
