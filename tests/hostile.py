"""Patches that attack the host in a build of the miniature kernel: what each does, and its end.

Each attack is made twice: by a recipe of a Makefile, and by a program that the build compiles
and runs on the host, as kbuild does with scripts/. An attack that comes through says WON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.minikernel_repo import change

WON = "WON"
LISTING = "\t@$(NM) -n $@ > $(objtree)/System.map\n"
RECIPE = "\t@sh $(srctree)/scripts/hostile.sh || true\n"
HOST_PROGRAM = (
    "\t@gcc -O1 -w -pthread -o $(objtree)/hostile $(srctree)/scripts/hostile.c\n"
    "\t@$(objtree)/hostile || true\n"
)
HEAD = """
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <arpa/inet.h>
#include <unistd.h>
static void won(int yes, const char *what)
{
    printf("%s: %s\\n", what, yes ? "WON" : strerror(errno));
    fflush(stdout);
}
static void *idle(void *unused) { for (;;) pause(); }
static void reads(const char *path) { won(open(path, O_RDONLY) >= 0, path); }
static void writes(const char *path) { won(open(path, O_WRONLY | O_CREAT, 0600) >= 0, path); }
int main(void)
{
"""


@dataclass(frozen=True, kw_only=True)
class Attack:
    """`shell`: for the recipe; `program`: the body of main() in C, "" for system(shell).

    `seen`: a pattern for what the log says, or, where the build is `stopped`, its error.
    {home} is a folder with secrets, {port} and {name} are where the host listens, {pid} is a
    process of the host.
    """

    shell: str
    program: str = ""
    seen: str = ""
    stopped: bool = False


ATTACKS: Mapping[str, Attack] = {
    "read ~/.ssh": Attack(
        shell="for f in {home}/.ssh/id_rsa ~/.ssh/id_rsa /etc/shadow /root/.ssh /home; do\n"
        "cat $f && echo WON; ls $f/* && echo WON; done",
        program='reads("{home}/.ssh/id_rsa"); reads("/etc/shadow"); reads("/root");',
        seen="No such file or directory",
    ),
    "connect to the host by TCP": Attack(
        shell="bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port} && echo WON'",
        program="struct sockaddr_in a = {{ AF_INET, htons({port}), {{ htonl(0x7f000001) }} }};\n"
        'won(!connect(socket(AF_INET, SOCK_STREAM, 0), (void *)&a, sizeof(a)), "tcp");',
        seen="Connection refused",
    ),
    "connect to the host by an abstract UNIX socket": Attack(
        shell="perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0);"
        'print connect(S, sockaddr_un("\\0{name}")) ? "WON" : "$!\\n"\'',
        program='struct sockaddr_un a = {{ AF_UNIX, "" }}; strcpy(a.sun_path + 1, "{name}");\n'
        "won(!connect(socket(AF_UNIX, SOCK_STREAM, 0), (void *)&a,\n"
        'offsetof(struct sockaddr_un, sun_path) + 1 + strlen("{name}")), "unix");',
        seen="Connection refused",
    ),
    "ask a name server": Attack(
        shell="getent hosts example.org && echo WON; bash -c 'exec 3<>/dev/udp/9.9.9.9/53 && "
        "echo WON'",
        seen="Network is unreachable",
    ),
    "talk to the hypervisor by vsock": Attack(
        shell='perl -e \'print socket(S, 40, 1, 0) ? "WON" : "$!\\n"\'',
        program='won(socket(40, SOCK_STREAM, 0) >= 0, "vsock");',
        seen="Address family not supported",
    ),
    "write outside": Attack(
        shell="for f in /usr/bin/x /src/x /src/Makefile {home}/x /etc/x /x /dev/x \\\n"
        "/proc/sys/kernel/core_pattern /proc/sysrq-trigger; do (: >> $f) && echo WON; done",
        program='writes("/usr/bin/x"); writes("/src/Makefile"); writes("{home}/x"); writes("/x");'
        'writes("/dev/x"); writes("/proc/sys/kernel/core_pattern");',
        seen="Read-only file system",
    ),
    "change the host's device nodes": Attack(
        shell="chmod 666 /dev/full && echo WON",
        program='won(!chmod("/dev/full", 0666), "chmod");',
        seen="Read-only file system|Operation not permitted|Permission denied",
    ),
    "leave a daemon": Attack(
        shell="setsid sh -c 'setsid sleep 7411 > /dev/null 2>&1 &'; echo left",
        program="if (!fork()) {{ setsid(); if (fork()) _exit(0); close(1); close(2);\n"
        'execlp("sleep", "sleep", "7411", NULL); }} puts("left");',
        seen="left",
    ),
    "fork without end": Attack(
        shell="f() {{ f | f & }}; f; sleep 60",
        program="for (;;) if (fork() < 0) pause();",
        seen=r"started more than \d+ processes",
        stopped=True,
    ),
    "start threads without end": Attack(
        shell="f() {{ sleep 60 & f; }}; f",
        program="pthread_t t; for (;;) if (pthread_create(&t, NULL, idle, NULL)) pause();",
        seen=r"started more than \d+ processes",
        stopped=True,
    ),
    "fill the disk": Attack(
        shell="i=0; while :; do i=$((i+1)); head -c 50000000 /dev/zero > big$i; done",
        program="static char b[1 << 20]; char n[20]; for (int i = 0;; i++) {{\n"
        'sprintf(n, "big%d", i); int f = open(n, O_WRONLY | O_CREAT, 0600);\n'
        "for (int k = 0; k < 50; k++) write(f, b, sizeof(b)); close(f); }}",
        seen=r"wrote more than 0\.3 GB",
        stopped=True,
    ),
    "fill the disk with a file that has no name": Attack(
        shell="exec 3> gone; rm gone; head -c 2000000000 /dev/zero >&3; sleep 60",
        program='static char b[1 << 20]; int f = open("gone", O_WRONLY | O_CREAT, 0600);\n'
        'unlink("gone"); for (int k = 0; k < 2000; k++) write(f, b, sizeof(b)); sleep(60);',
        seen=r"wrote more than 0\.3 GB",
        stopped=True,
    ),
    "fill the disk out of sight": Attack(
        shell="i=0; while [ $i -lt 300 ]; do i=$((i+1)); mkdir d && cd d; done\n"
        "head -c 250000000 /dev/zero > big; sleep 60",
        program='static char b[1 << 20]; for (int i = 0; i < 3000; i++) {{ mkdir("d", 0700);\n'
        'chdir("d"); }} int f = open("big", O_WRONLY | O_CREAT, 0600);\n'
        "for (int k = 0; k < 250; k++) write(f, b, sizeof(b)); sleep(60);",
        seen="made more than 100 folders inside each other",
        stopped=True,
    ),
    "take the disk in one call": Attack(
        shell="fallocate -l 1G big && echo WON; rm -f big",
        program='won(!fallocate(open("big", O_WRONLY | O_CREAT, 0600), 0, 0, 1 << 30), "big");',
        seen="Operation not supported",
    ),
    "fill memory through /tmp and /dev": Attack(
        shell="for f in /tmp/x /dev/shm/x; do head -c 1100000000 /dev/zero > $f && echo WON\n"
        "rm -f $f; done",
        seen="No space left on device",
    ),
    "allocate without end": Attack(
        shell="perl -e 'for (;;) {{ push @x, \"x\" x 10000000 }}'",
        program="for (;;) {{ char *p = malloc(1 << 24); if (p) memset(p, 1, 1 << 24); }}",
        seen=r"took more than 0\.6 GB of memory",
        stopped=True,
    ),
    "hide memory in no process": Attack(
        shell='perl -e \'print shmget(0, 1 << 20, 0600 | 01000) ? "WON" : "$!\\n"\'',
        program='won(syscall(SYS_memfd_create, "m", 0) >= 0, "memfd");',
        seen="Function not implemented",
    ),
    "read through a link": Attack(
        shell="ln -sf {home}/.ssh/id_rsa link; cat link && echo WON",
        program='symlink("{home}/.ssh/id_rsa", "link"); reads("link");',
        seen="No such file or directory",
    ),
    "leave a link for what is kept": Attack(
        shell="ln -sf {home}/.ssh/id_rsa /build/System.map",
        program='unlink("/build/System.map"); symlink("{home}/.ssh/id_rsa", "/build/System.map");',
        seen=r"left a link out of its folder in place of System\.map",
        stopped=True,
    ),
    "leave a file of holes": Attack(
        shell="truncate -s 7G /build/System.map",
        program='truncate("/build/System.map", 7ll << 30);',
        seen=r"left a System\.map of 7516192768 bytes",
        stopped=True,
    ),
    "leave a pipe for what is kept": Attack(
        shell="rm /build/System.map; mkfifo /build/System.map",
        program='unlink("/build/System.map"); mkfifo("/build/System.map", 0600);',
        seen=r"left no System\.map",
        stopped=True,
    ),
    "overwrite ccache": Attack(
        shell="(: > /ccache/ccache.conf) && echo WON; rm -rf /ccache/*\n"
        "echo 'cache_dir = /ccache' > own.conf; echo 'int poison;' > p.c\n"
        "CCACHE_CONFIGPATH=$PWD/own.conf CCACHE_NOREADONLY=1 CCACHE_RECACHE=1 gcc -c p.c\n"
        "env -u CCACHE_READONLY CCACHE_DIR=/ccache CCACHE_RECACHE=1 ccache gcc -c p.c\n"
        "env -u CCACHE_READONLY ccache -C",
        program='writes("/ccache/ccache.conf"); won(!rename("/ccache", "/tmp/c"), "rename");',
        seen="Read-only file system|No such file or directory|Device or resource busy",
    ),
    "reach the host's processes": Attack(
        shell="kill -9 {pid} && echo WON; cat /proc/{pid}/environ && echo WON",
        program='won(!kill({pid}, 9), "kill"); won(!ptrace(PTRACE_ATTACH, {pid}, 0, 0), "trace");',
        seen="No such (process|file)",
    ),
    "trace a process of the build": Attack(
        shell="perl -e 'print syscall(101 + 16 * (`uname -m` =~ /aarch64/), 16, getppid, 0, 0) "
        '== 0 ? "WON" : "$!\\n"\'',
        program='won(!ptrace(PTRACE_ATTACH, getppid(), 0, 0), "trace");',
        seen="Operation not permitted",
    ),
    "see the host's environment": Attack(
        shell="env; cat /proc/*/environ | tr '\\0' '\\n'; grep -az KTRIAL_SECRET /proc/*/environ "
        "&& echo WON",
        seen="HOME=/nonexistent",
    ),
    "read the user's keys": Attack(
        shell="perl -e 'print syscall(`uname -m` =~ /aarch64/ ? 219 : 250, 0, -3, 0) >= 0 "
        '? "WON" : "$!\\n"\'',
        program='won(syscall(SYS_keyctl, 0, -3, 0) >= 0, "keyctl");',
        seen="Function not implemented",
    ),
    "type on the user's terminal": Attack(
        shell='for f in 0 1 2; do perl -e \'open(T, "<&=", \'$f\'); $c = "x";\n'
        'print ioctl(T, 0x5412, $c) ? "WON" : "$!\\n"\'; done; (: > /dev/tty) && echo WON',
        program='char c = 120; for (int f = 0; f < 3; f++) won(!ioctl(f, 0x5412, &c), "TIOCSTI");\n'
        'won(open("/dev/tty", O_RDWR) >= 0, "tty");',
        seen="Operation not permitted",
    ),
    "become root in a namespace": Attack(
        shell="unshare --user true && echo WON; unshare -Ur true && echo WON",
        program='won(!unshare(CLONE_NEWUSER), "unshare");\n'
        'won(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0) > 0, "clone");',
        seen="Operation not permitted",
    ),
    "outlive others when memory runs out": Attack(
        shell="(echo -1000 > /proc/self/oom_score_adj) && echo WON",
        program='int f = open("/proc/self/oom_score_adj", O_WRONLY);\n'
        'won(write(f, "-1000", 5) == 5, "oom");',
        seen="Permission denied|I/O error",
    ),
    "leave a set-user-id program": Attack(
        shell="cp /bin/sh s; chmod 6755 s; chmod 6755 /build/vmlinux /build/System.map; echo left",
        program='chmod("/build/vmlinux", 06755); chmod("/build/System.map", 06755); puts("left");',
        seen="left",
    ),
    "flood the log": Attack(
        shell="echo first; head -c 30000000 /dev/zero | tr '\\0' x",
        program='puts("first"); static char b[1000]; memset(b, 120, sizeof(b));\n'
        "for (int i = 0; i < 30000; i++) fwrite(b, 1, sizeof(b), stdout);",
        seen="the rest of the output is left out",
    ),
    "send escapes to the screen": Attack(
        shell="printf '  CC      \\033]0;owned\\007\\033[2J\\033[1mfake.o\\n'",
        program='puts("  CC      \\033]0;owned\\007\\033[2J\\033[1mfake.o");',
        seen="owned",
    ),
}
WAYS = ("Makefile", "program")


def patch(repository: Path, attack: Attack, way: str, words: Mapping[str, object]) -> str:
    """Commit the attack to a repository of the miniature; its commit id."""
    scripts = repository / "scripts"
    path = scripts / "build.mk"
    text = path.read_text()
    assert text.count(LISTING) == 1
    path.write_text(
        text.replace(LISTING, LISTING + (RECIPE if way == "Makefile" else HOST_PROGRAM))
    )
    shell = f"cd /build\n{attack.shell.format(**words)}\n"
    (scripts / "hostile.sh").write_text(shell)
    body = attack.program.format(**words) or 'return system("sh /src/scripts/hostile.sh");'
    (scripts / "hostile.c").write_text(f'{HEAD}chdir("/build");\n{body}\nreturn 0;\n}}\n')
    return change(repository, order=1, subject="hostile")  # so that vmlinux is linked anew
