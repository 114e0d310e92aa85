"""The command line: reads it once, hands over, prints, and sets the exit code."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console

from pipeline import settings as settings_module
from pipeline.errors import Cancelled, KtrialError, UserError
from pipeline.progress import PlainReporter, QuietReporter, Reporter, RichReporter
from pipeline.scope import Scope
from pipeline.settings import Settings

EXIT_INTERNAL = 3
EXIT_INTERRUPTED = 130
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

DESCRIPTION = """Put a Linux kernel patch series on trial: apply it, build it, boot it in KVM/QEMU
guests, run workloads, compare with base, and report."""

RUN_EXAMPLES = """examples:
  ktrial run patches/num_present_cpus
  ktrial run my.mbox --tree ~/linux --base v6.12 --arch aarch64 --workload hackbench
  ktrial run A..B --tree .
  git bisect run ktrial run --rev HEAD --tree . --bisect-exit"""


def entry() -> None:
    """The `ktrial` command."""
    sys.exit(main(sys.argv[1:]))


def main(argv: Sequence[str]) -> int:
    """Run one command line and return its exit code; errors are one line on stderr."""
    parser = _parser()
    arguments = parser.parse_args(argv)
    scope = Scope()
    with _signals(scope) as received:
        try:
            settings = _settings(arguments)
            with _reporter(arguments) as reporter:
                code = _verb(arguments.verb)(arguments, settings, reporter, scope)
        except KtrialError as error:
            _complain(error)
            bisecting = getattr(arguments, "bisect_exit", False)
            code = error.bisect_code if bisecting else error.exit_code
        except Cancelled:
            code = EXIT_INTERRUPTED
        except Exception:
            traceback.print_exc()
            print("ktrial: this is a defect of ktrial, not of the series", file=sys.stderr)
            bisecting = getattr(arguments, "bisect_exit", False)
            code = KtrialError.bisect_code if bisecting else EXIT_INTERNAL
        if received:
            code = 128 + received[0]
    return code


def _complain(error: KtrialError) -> None:
    print(f"ktrial: {error.message}", file=sys.stderr)
    if error.hint:
        print(f"        {error.hint}", file=sys.stderr)


def _verb(name: str) -> Callable[[argparse.Namespace, Settings, Reporter, Scope], int]:
    """The function behind a verb; imported late, since `--help` needs none of it."""
    from pipeline import verbs  # noqa: PLC0415

    return verbs.VERBS[name]


@contextmanager
def _signals(scope: Scope) -> Iterator[list[int]]:
    """The first Ctrl-C or SIGTERM asks everything to stop; the second one kills."""
    received: list[int] = []

    def stop(signum: int, _frame: object) -> None:
        if received:
            signal.signal(signum, signal.SIG_DFL)
            os.kill(os.getpid(), signum)
        received.append(signum)
        # In a thread: the handler may have interrupted a wait that holds the flag's lock.
        threading.Thread(target=scope.cancel).start()

    before = {each: signal.signal(each, stop) for each in STOPPING}
    try:
        yield received
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


@contextmanager
def _reporter(arguments: argparse.Namespace) -> Iterator[Reporter]:
    console = Console(stderr=True)
    if arguments.quiet:
        yield QuietReporter()
    elif console.is_terminal:
        with RichReporter(console) as live:
            yield live
    else:
        yield PlainReporter(sys.stderr)


def _settings(arguments: argparse.Namespace) -> Settings:
    names = ("cache", "results", "runtime", "share", "connect", "accel", "jobs")
    options = {name: getattr(arguments, name, None) for name in names}
    if getattr(arguments, "no_sandbox", False):
        options["sandbox"] = "0"
    return settings_module.read(os.environ, cwd=Path.cwd(), options=options)


# ------------------------------------------------------------------------- the parser


class _Parser(argparse.ArgumentParser):
    def __init__(self, *words: Any, **settings: Any) -> None:
        # Whole option names only: the launcher and `git bisect` look for them too.
        super().__init__(*words, **(settings | {"allow_abbrev": False}))

    def error(self, message: str) -> None:  # type: ignore[override]
        """One line, as for every other kind of bad input."""
        print(f"ktrial: {message}", file=sys.stderr)
        print(f"        `{self.prog} --help` tells what there is", file=sys.stderr)
        # git bisect takes 2 for "bad"; its own option is not parsed yet.
        bisecting = "--bisect-exit" in sys.argv[1:]
        sys.exit(UserError.bisect_code if bisecting else UserError.exit_code)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="ktrial", description=DESCRIPTION)
    parser.add_argument(
        "--version", action="version", version=f"ktrial {settings_module.version()}"
    )
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB", parser_class=_Parser)
    common = _common()
    _run_parser(verbs, common)
    demo = verbs.add_parser(
        "demo", parents=[common], help="the main job once, on a real kernel, with its own patch"
    )
    _trial_options(demo)
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
    return parser


def _common() -> _Parser:
    common = _Parser(add_help=False)
    group = common.add_argument_group("where and how")
    group.add_argument("--cache", metavar="DIR", help="trees, builds, images (~/.cache/ktrial)")
    group.add_argument("--results", metavar="DIR", help="where runs go (results/)")
    group.add_argument("--share", metavar="DIR", help="a root with patches/, kconfigs/, … of yours")
    group.add_argument(
        "--runtime", metavar="DIR", help="a short path for sockets (/tmp/ktrial-UID)"
    )
    group.add_argument("--connect", metavar="URI", help="libvirt connection (qemu:///embed)")
    group.add_argument("--accel", metavar="WHICH", help="kvm, tcg or auto (measured)")
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
    run.add_argument(
        "source",
        nargs="*",
        help="a scenario, an mbox, a maildir, a folder of *.patch, several *.patch, - or A..B",
    )
    run.add_argument("--rev", metavar="REV", help="the tree as it is at REV, without a series")
    run.add_argument("--tree", metavar="TREE", help="a git repository, or debian:5.10, debian:6.12")
    run.add_argument("--base", metavar="REV", help="apply on this revision (HEAD)")
    _trial_options(run)


def _trial_options(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--arch", action="append", default=[], metavar="ARCH", help="x86_64, aarch64; A,B for both")
    add("--guest", action="append", default=[], metavar="SHAPE", help="a guest shape")
    add("--image", default="", metavar="IMAGE", help="the guest's image")
    add("--kconfig", action="append", default=[], metavar="NAME", help="one more fragment")
    add(
        "--workload",
        action="append",
        default=[],
        metavar="NAME[:KEY=VALUE,…]",
        help="hackbench:loops=500,groups=4; none: only boot",
    )
    add("--probe", action="append", default=[], metavar="NAME", help="read this in the guest")
    add(
        "--transport",
        choices=("ssh", "console"),
        default="ssh",
        help="how results come back: ssh, or the console of a guest without a network",
    )
    add("--boots", type=int, metavar="N", help="boots of each kernel in each cell")
    add("--jobs", type=int, metavar="N", help="make -jN (all cores)")
    add("--no-sandbox", action="store_true", help="build without bubblewrap, and say so")
    add("--strict", action="store_true", help="inconclusive is a failure")
    add("--bisect-exit", action="store_true", help="exit codes for git bisect run")


def _clean_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--older-than", metavar="AGE", help="such as 14d or 12h")
    parser.add_argument("--max-size", metavar="SIZE", help="such as 20G")
    parser.add_argument("--all", action="store_true", help="everything that no run uses")
    parser.add_argument("--dry-run", action="store_true", help="only say what would go")
