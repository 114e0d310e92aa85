"""The command line: reads it once, hands over, prints, and sets the exit code."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

from rich.console import Console

from pipeline import options
from pipeline import settings as settings_module
from pipeline.errors import Cancelled, KtrialError
from pipeline.progress import PlainReporter, QuietReporter, Reporter, RichReporter
from pipeline.scope import Scope
from pipeline.settings import Settings

EXIT_INTERNAL = 3
EXIT_INTERRUPTED = 130
EXIT_PIPE = 128 + signal.SIGPIPE  # what a shell says of `git log` in `git log | head`
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def entry() -> None:
    """The `ktrial` command."""
    _open_ends()
    sys.exit(main(sys.argv[1:]))


def main(argv: Sequence[str]) -> int:
    """Run one command line and return its exit code; errors are one line on stderr."""
    arguments = options.parse(argv)
    scope = Scope()
    # Printed at the end, as a whole: see `_print`.
    with _signals(scope) as received, redirect_stdout(io.StringIO()) as out:
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
    return _print(out.getvalue(), code)


def _open_ends() -> None:
    """A job may be started with its standard input or output closed: they lead to /dev/null then,
    or the next file that is opened would be taken for one of them."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", closefd=False))


def _print(text: str, code: int) -> int:
    """Print what a verb has to say, and give back its exit code; another one in place of 0 where
    nobody wants it any more, as in `ktrial list | head`, or there is no room for it."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        code = code or EXIT_PIPE
    except OSError as error:
        print(f"ktrial: cannot write to standard output: {error.strerror}", file=sys.stderr)
        code = code or EXIT_INTERNAL
    else:
        return code
    # What is left must not be tried again at the interpreter's end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
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
    names = (
        "cache",
        "cache_size",
        "results",
        "runtime",
        "share",
        "connect",
        "accel",
        "jobs",
        "memory",
        "lore",
        "toolchain",
    )
    given = {name: getattr(arguments, name, None) for name in names}
    if getattr(arguments, "no_sandbox", False):
        given["sandbox"] = "0"
    return settings_module.read(os.environ, cwd=Path.cwd(), options=given)
