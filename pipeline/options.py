"""The options of the command line, and what they say in the words of `scenario`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from pipeline import settings as settings_module
from pipeline.errors import UserError

DESCRIPTION = """Put a Linux kernel patch series on trial: apply it, build it, boot it in KVM/QEMU
guests, run workloads, compare with base, and report."""

RUN_EXAMPLES = """examples:
  ktrial run patches/num_present_cpus
  ktrial run my.mbox --tree ~/linux --base v6.12 --arch aarch64 --workload hackbench
  ktrial run A..B --tree .
  git bisect run ktrial run --rev HEAD --tree . --bisect-exit"""

BUILD_EXAMPLES = """examples:
  ktrial build my.mbox --tree ~/linux --per-commit --arch x86_64,aarch64
  ktrial build A..B --tree . --check sparse,checkpatch
  ktrial build --rev HEAD --tree . --configuration all=allmodconfig
  git bisect run ktrial build --rev HEAD --tree . --bisect-exit"""

CALIBRATION_BOOTS = 20

SHELL_EXAMPLES = """examples:
  ktrial shell                          the kernel tree at hand, built first
  ktrial shell numa2 --tree debian:6.12
  ktrial shell smp4 -- uname -r         exits with the command's status
  ktrial shell smp4 < script.sh
  ktrial shell --kernel ~/linux/arch/x86/boot/bzImage --console"""


class _Parser(argparse.ArgumentParser):
    def __init__(self, *words: Any, **settings: Any) -> None:
        # Whole option names only: the launcher and `git bisect` look for them too.
        super().__init__(*words, **(settings | {"allow_abbrev": False}))

    def error(self, message: str) -> NoReturn:
        """One line, as for every other kind of bad input."""
        _refuse(message, f"`{self.prog} --help` tells what there is")


def _refuse(message: str, hint: str) -> NoReturn:
    print(f"ktrial: {message}\n        {hint}", file=sys.stderr)
    # git bisect takes 2 for "bad"; its own option is not parsed yet.
    bisecting = "--bisect-exit" in sys.argv[1:]
    sys.exit(UserError.bisect_code if bisecting else UserError.exit_code)


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """A command line; `command` is what stands behind “--”. Exits where it is a wrong one."""
    words, command = split_command(argv)
    arguments, rest = parser().parse_known_args(words)
    if rest:
        prog = f"ktrial {arguments.verb}"
        behind = f"; a command stands behind two dashes: `{prog} smp2 -- uname -r`"
        _refuse(
            f"unrecognized arguments: {' '.join(rest)}",
            f"`{prog} --help` tells what there is" + behind * (arguments.verb == "shell"),
        )
    arguments.command = command
    return arguments


def parser() -> argparse.ArgumentParser:
    """Every verb and its options."""
    top = _Parser(prog="ktrial", description=DESCRIPTION)
    top.add_argument("--version", action="version", version=f"ktrial {settings_module.version()}")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB", parser_class=_Parser)
    common = _common()
    _run_parser(verbs, common)
    _build_parser(verbs, common)
    _plan_parser(verbs, common)
    _series_parser(verbs, common)
    _shell_parser(verbs, common)
    _reader_parsers(verbs)
    demo = verbs.add_parser(
        "demo", parents=[common], help="the main job once, on a real kernel, with its own patch"
    )
    _trial_options(demo)
    demo.set_defaults(scale="small")  # minutes, not the whole experiment
    _calibrate_parser(verbs, common)
    verbs.add_parser("doctor", parents=[common], help="what works on this host")
    listing = verbs.add_parser("list", parents=[common], help="scenarios, workloads, guests, …")
    listing.add_argument(
        "kind",
        nargs="?",
        help="scenarios, workloads, probes, guests, images, kconfigs, architectures, trees, …",
    )
    clean = verbs.add_parser(
        "clean", parents=[common], help="free what was not used for 30 days, or as told"
    )
    _clean_options(clean)
    return top


def _common() -> _Parser:
    common = _Parser(add_help=False)
    group = common.add_argument_group("where and how")
    group.add_argument("--cache", metavar="DIR", help="trees, builds, images (~/.cache/ktrial)")
    group.add_argument("--cache-size", metavar="SIZE", help="what it may take on disk (40G)")
    group.add_argument("--results", metavar="DIR", help="where runs go (results/)")
    group.add_argument("--share", metavar="DIR", help="a root with patches/, kconfigs/, … of yours")
    group.add_argument(
        "--runtime", metavar="DIR", help="a short path for sockets (/tmp/ktrial-UID)"
    )
    group.add_argument("--connect", metavar="URI", help="libvirt connection (qemu:///embed)")
    group.add_argument("--accel", metavar="WHICH", help="kvm, tcg or auto (measured)")
    group.add_argument("--jobs", type=int, metavar="N", help="cores to use, for make and guests")
    group.add_argument(
        "--memory",
        metavar="SIZE",
        help="memory of all guests together: 16G (what is free)",
    )
    group.add_argument("--toolchain", metavar="NAME", help="gcc or clang (gcc)")
    group.add_argument("--no-sandbox", action="store_true", help="build without bubblewrap")
    group.add_argument("--quiet", action="store_true", help="no progress")
    return common


def _run_parser(verbs: argparse._SubParsersAction[_Parser], common: _Parser) -> None:
    run = verbs.add_parser(
        "run",
        parents=[common],
        help="try a scenario, a series, a git range or a revision",
        epilog=RUN_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _source_options(run)
    _trial_options(run)


def _build_parser(verbs: argparse._SubParsersAction[_Parser], common: _Parser) -> None:
    build = verbs.add_parser(
        "build",
        parents=[common],
        help="build a series for each architecture and configuration; boots nothing",
        epilog=BUILD_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _source_options(build)
    _build_options(build)
    build.add_argument(
        "--verify", action="store_true", help="build once more, clean, and compare bit for bit"
    )


def _plan_parser(verbs: argparse._SubParsersAction[_Parser], common: _Parser) -> None:
    plan = verbs.add_parser(
        "plan",
        parents=[common],
        help="what `run` would do, how long it would take, and what it would skip; runs nothing",
    )
    _source_options(plan)
    _trial_options(plan)


def _calibrate_parser(verbs: argparse._SubParsersAction[_Parser], common: _Parser) -> None:
    calibrate = verbs.add_parser(
        "calibrate",
        parents=[common],
        help="a kernel against itself: this host's noise, and which effects it lets a trial see",
    )
    calibrate.add_argument("--rev", default="HEAD", metavar="REV", help="of the tree (HEAD)")
    _tree_options(calibrate)
    _trial_options(calibrate)
    calibrate.set_defaults(source=[], boots=CALIBRATION_BOOTS)


def _source_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "source",
        nargs="*",
        help="a scenario, an mbox, a maildir, a folder of *.patch, several *.patch, -, A..B, "
        "a message-id or a lore URL",
    )
    parser.add_argument("--rev", metavar="REV", help="the tree as it is at REV, without a series")
    _tree_options(parser)


def _tree_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--tree", metavar="TREE", help="a git repository, or debian:5.10, debian:6.12")
    add("--base", metavar="REV", help="apply on this revision (what the series says, else HEAD)")
    add("--series-version", type=int, metavar="N", help="version N of the series, not the newest")
    add("--pick", metavar="WHICH", help="the series with this message-id or subject, of several")
    add("--trailers", action="store_true", help="collect Reviewed-by and the like from replies")
    add("--lore", metavar="URL", help="public-inbox server for message-ids, with %%s for the id")


def _series_parser(verbs: argparse._SubParsersAction[_Parser], common: _Parser) -> None:
    series = verbs.add_parser(
        "series",
        parents=[common],
        help="how a series reads and whether it applies; builds nothing",
    )
    series.add_argument(
        "source", nargs="+", help="a file, a maildir, a folder, several *.patch, -, a message-id"
    )
    _tree_options(series)
    series.add_argument("--json", action="store_true", help="for programs")


def _shell_parser(verbs: argparse._SubParsersAction[_Parser], common: _Parser) -> None:
    shell = verbs.add_parser(
        "shell",
        parents=[common],
        help="boot a guest and give a shell in it, or run a command",
        epilog=SHELL_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = shell.add_argument
    add("guest", nargs="?", default="smp2", metavar="SHAPE", help="a guest shape (smp2)")
    add("--arch", default="", metavar="ARCH", help="x86_64, aarch64 (the host's)")
    add("--tree", metavar="TREE", help="a repository, or debian:6.12 (the tree at hand)")
    add("--rev", metavar="REV", help="this revision of the tree, without uncommitted changes")
    add("--kernel", metavar="PATH", help="boot this image, or what lies in this build folder")
    add("--kconfig", action="append", default=[], metavar="NAME", help="one more fragment")
    add("--image", default="bench", metavar="IMAGE", help="an image, or a qcow2 or raw file")
    add("--console", action="store_true", help="the serial console in place of ssh; Ctrl-] leaves")


def _reader_parsers(verbs: argparse._SubParsersAction[_Parser]) -> None:
    """Readers of logs from elsewhere: they need no caches, libvirt or trees."""
    for name, text in (
        ("console", "what went wrong in a console log"),
        ("ktap", "the cases in KTAP or TAP output"),
    ):
        reader = verbs.add_parser(name, help=text)
        reader.add_argument("file", help="a file, or - for standard input")
        reader.add_argument("--json", action="store_true", help="for programs")
        reader.set_defaults(quiet=True)


def _trial_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    _build_options(parser)
    add("--guest", action="append", default=[], metavar="SHAPE", help="a guest shape")
    add("--image", default="", metavar="IMAGE", help="the guest's image, or a qcow2 or raw file")
    add(
        "--workload",
        action="append",
        default=[],
        metavar="NAME[:KEY=VALUE,…]",
        help="hackbench:loops=500,groups=4; none: only boot",
    )
    add("--probe", action="append", default=[], metavar="NAME", help="read this in the guest")
    add(
        "--event",
        action="append",
        default=[],
        metavar="ACTION[:KEY=VALUE,…]",
        help="vcpu-add:when=after 2 s,count=2; memory-add, cpu-offline, cpu-storm, …",
    )
    for word, text in (("exclude", "leave these cells out"), ("include", "add these cells")):
        add(f"--{word}", action="append", default=[], metavar="KEY=VALUE,…", help=text)
    add(
        "--no-table-override",
        action="store_true",
        help="leave the firmware tables as they are, though the kernel may not see vCPUs then",
    )
    add(
        "--transport",
        choices=("ssh", "console"),
        default="ssh",
        help="how results come back: ssh, or the console of a guest without a network",
    )
    _boot_options(parser)


def _boot_options(parser: argparse.ArgumentParser) -> None:
    """How often kernels boot, and what is made of it."""
    add = parser.add_argument
    add("--boots", type=int, metavar="N", help="boots of each kernel in each cell")
    add(
        "--exclusive",
        choices=("auto", "always", "never"),
        default="auto",
        help="which boots have the host to themselves (auto: those that measure time)",
    )
    add(
        "--max-boots",
        type=int,
        metavar="N",
        help="trials look as they go and end once they are clear, after N boots at the latest",
    )
    add("--scale", metavar="NAME", help="the scenario in another size of its own: small, mail")
    add(
        "--deterministic",
        action="store_true",
        help="guest time counts instructions: the same in every repetition, whatever the host does",
    )
    add("--max-time", metavar="TIME", help="begin no further boots after so long (30m, 900)")
    add(
        "--odds",
        metavar="RATE",
        help="look for a fault that comes on one boot in many (0.2): fixes the number of boots",
    )
    add(
        "--known-issues",
        action="append",
        default=[],
        metavar="FILE",
        help="reports that are known: their cases are `known`, not failed",
    )


def _build_options(parser: argparse.ArgumentParser) -> None:
    """What building takes, with or without boots behind it."""
    add = parser.add_argument
    add("--arch", action="append", default=[], metavar="ARCH", help="x86_64, aarch64; A,B for both")
    add("--kconfig", action="append", default=[], metavar="NAME", help="one more fragment")
    add(
        "--configuration",
        action="append",
        default=[],
        metavar="NAME[=FRAGMENT,…]",
        help="a point of the kconfig axis: everything is repeated for each",
    )
    add("--per-commit", action="store_true", help="build every patch of a series, in order")
    add(
        "--check",
        action="append",
        default=[],
        metavar="NAME",
        help="w1, sparse, checkpatch: what the series adds to that",
    )
    add(
        "--cover",
        action="store_true",
        help="build once more, with the changed lines that no configuration compiles",
    )
    add("--fail-fast", action="store_true", help="start nothing more once something has failed")
    add("--strict", action="store_true", help="inconclusive is a failure")
    add("--bisect-exit", action="store_true", help="exit codes for git bisect run")
    add(
        "--junit-dialect",
        choices=("jenkins", "ant"),
        default="jenkins",
        help="whose schema junit.xml keeps to",
    )


def _clean_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--older-than", metavar="AGE", help="such as 14d or 12h")
    parser.add_argument("--max-size", metavar="SIZE", help="such as 20G")
    parser.add_argument("--all", action="store_true", help="everything that no run uses")
    parser.add_argument("--dry-run", action="store_true", help="only say what would go")


def split_command(argv: Sequence[str]) -> tuple[list[str], tuple[str, ...] | None]:
    """What stands before “--”, and the command behind it; None where there is no “--”.

    Only `shell` takes a command: argparse would take the first word of it for the shape.
    """
    words = list(argv)
    if words[:1] != ["shell"] or "--" not in words:
        return words, None
    at = words.index("--")
    return words[:at], tuple(words[at + 1 :])
