/*
 * One loop for each kernel path that patches touch, timed one after the other.
 *
 *     micro [-l LOOP,LOOP] [-n OPS] [-r ROUNDS] [-c CPU] [-d FOLDER]
 *
 * prints a line for each loop, over all of its rounds:
 *
 *     create: 12345678 ns 1000 ops 12345.678 ns/op
 *
 * One task on one CPU wherever the path allows it: what a schedule decides is noise. No malloc
 * within a loop, no random layout (the program runs itself again without it), no huge pages, the
 * same work in every run. Before a loop is timed, a tenth of it is run.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAPPED_PAGES 4
#define FAULTED_PAGES 256
#define HEAP_BYTES (64 * 1024)

static const char *folder = "/dev/shm";
static const char *running = "start";
static char path[4096];
static char self[4096];
static long page;

static void fail(const char *what)
{
	fprintf(stderr, "micro: %s: %s: %s\n", running, what, strerror(errno));
	exit(1);
}

static long must(long result, const char *what)
{
	if (result < 0)
		fail(what);
	return result;
}

/* One byte, which cannot be transferred in part. */
static void put(int fd)
{
	char byte = 1;

	if (write(fd, &byte, 1) != 1)
		fail("write");
}

static void get(int fd)
{
	char byte;

	if (read(fd, &byte, 1) != 1)
		fail("read");
}

static pid_t forked(void)
{
	/* Not libc's fork(), which runs handlers of its own. */
	return must(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0), "clone");
}

static void reap(pid_t child)
{
	int status;

	must(waitpid(child, &status, 0), "wait");
	if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
		errno = ECHILD;
		fail("the other task failed");
	}
}

/* ------------------------------------------------------------------ one task */

static void do_syscall(long ops)
{
	while (ops--)
		syscall(SYS_getppid);
}

static void do_create(long ops)
{
	while (ops--) {
		int fd = must(open(path, O_CREAT | O_EXCL | O_RDWR, 0600), "create");

		must(close(fd), "close");
		must(unlink(path), "unlink");
	}
}

static void make_file(void)
{
	must(close(must(open(path, O_CREAT | O_EXCL | O_RDWR, 0600), "create")), "close");
}

/* A page comes and goes with each. */
static void do_truncate(long ops)
{
	make_file();
	while (ops--) {
		int fd = must(open(path, O_RDWR | O_TRUNC), "open");

		put(fd);
		must(close(fd), "close");
	}
	must(unlink(path), "unlink");
}

static void do_open(long ops)
{
	make_file();
	while (ops--)
		must(close(must(open(path, O_RDONLY), "open")), "close");
	must(unlink(path), "unlink");
}

static void do_stat(long ops)
{
	struct stat facts;

	make_file();
	while (ops--)
		must(stat(path, &facts), "stat");
	must(unlink(path), "unlink");
}

static char *mapped(size_t bytes)
{
	char *area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (area == MAP_FAILED)
		fail("mmap");
	return area;
}

static void touch(char *area, long pages)
{
	for (long i = 0; i < pages; i++)
		*(volatile char *)(area + i * page) = 1;
}

static void do_mmap(long ops)
{
	while (ops--) {
		char *area = mapped(MAPPED_PAGES * page);

		touch(area, MAPPED_PAGES);
		must(munmap(area, MAPPED_PAGES * page), "munmap");
	}
}

/* An operation is a page: its fault, its allocation, its zeroing, and its being freed. */
static void do_fault(long ops)
{
	char *area = mapped(FAULTED_PAGES * page);

	while (ops > 0) {
		long pages = ops < FAULTED_PAGES ? ops : FAULTED_PAGES;

		touch(area, pages);
		must(madvise(area, FAULTED_PAGES * page, MADV_DONTNEED), "madvise");
		ops -= pages;
	}
	must(munmap(area, FAULTED_PAGES * page), "munmap");
}

static void do_brk(long ops)
{
	char *heap = sbrk(0);

	while (ops--) {
		if (sbrk(HEAP_BYTES) == (void *)-1)
			fail("brk");
		touch(heap, 1);
		if (sbrk(-HEAP_BYTES) == (void *)-1)
			fail("brk");
	}
}

static void do_pipe(long ops)
{
	int ends[2];

	must(pipe(ends), "pipe");
	while (ops--) {
		put(ends[1]);
		get(ends[0]);
	}
	close(ends[0]);
	close(ends[1]);
}

static void do_socket(long ops)
{
	int ends[2];

	must(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), "socketpair");
	while (ops--) {
		put(ends[1]);
		get(ends[0]);
	}
	close(ends[0]);
	close(ends[1]);
}

static long futex(uint32_t *word, int operation, uint32_t value)
{
	return syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

/* Nobody waits: the way to the hash bucket and back. */
static void do_futex(long ops)
{
	static uint32_t word;

	while (ops--)
		must(futex(&word, FUTEX_WAKE, 1), "futex");
}

static void do_epoll(long ops)
{
	struct epoll_event event = { .events = EPOLLIN };
	int queue = must(epoll_create1(0), "epoll_create");
	int counter = must(eventfd(0, 0), "eventfd");
	uint64_t value;

	must(epoll_ctl(queue, EPOLL_CTL_ADD, counter, &event), "epoll_ctl");
	while (ops--) {
		value = 1;
		if (write(counter, &value, sizeof(value)) != sizeof(value))
			fail("write");
		if (epoll_wait(queue, &event, 1, -1) != 1)
			fail("epoll_wait");
		if (read(counter, &value, sizeof(value)) != sizeof(value))
			fail("read");
	}
	close(counter);
	close(queue);
}

static volatile sig_atomic_t caught;

static void on_signal(int number)
{
	caught += number != 0;
}

static void do_signal(long ops)
{
	struct sigaction action = { .sa_handler = on_signal };
	pid_t own = getpid();

	must(sigaction(SIGUSR1, &action, NULL), "sigaction");
	caught = 0;
	for (long i = 0; i < ops; i++)
		must(syscall(SYS_tgkill, own, own, SIGUSR1), "tgkill");
	if (caught != ops)
		fail("signals were lost");
}

/* ------------------------------------------------------------------ two tasks */

static void do_fork(long ops)
{
	while (ops--) {
		pid_t child = forked();

		if (child == 0)
			_exit(0);
		reap(child);
	}
}

static void do_exec(long ops)
{
	static char *arguments[] = { "micro", "exit", NULL };
	static char *environment[] = { NULL };

	while (ops--) {
		pid_t child = must(vfork(), "vfork");

		if (child == 0) {
			execve(self, arguments, environment);
			_exit(1);
		}
		reap(child);
	}
}

/* Ping-pong: an operation is a message there and one back, two switches where the CPU is one. */
static void ping_pong(long ops, int mine[2], int other[2])
{
	pid_t child = forked();

	if (child == 0) {
		while (ops--) {
			get(other[0]);
			put(other[1]);
		}
		_exit(0);
	}
	while (ops--) {
		put(mine[1]);
		get(mine[0]);
	}
	reap(child);
}

static void do_pipe_switch(long ops)
{
	int there[2], back[2];

	must(pipe(there), "pipe");
	must(pipe(back), "pipe");
	ping_pong(ops, (int[]){ back[0], there[1] }, (int[]){ there[0], back[1] });
	for (int i = 0; i < 2; i++) {
		close(there[i]);
		close(back[i]);
	}
}

static void do_socket_switch(long ops)
{
	int ends[2];

	must(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), "socketpair");
	ping_pong(ops, (int[]){ ends[0], ends[0] }, (int[]){ ends[1], ends[1] });
	close(ends[0]);
	close(ends[1]);
}

static void await(uint32_t *word, uint32_t value)
{
	uint32_t seen;

	while ((seen = __atomic_load_n(word, __ATOMIC_ACQUIRE)) != value)
		if (futex(word, FUTEX_WAIT, seen) < 0 && errno != EAGAIN && errno != EINTR)
			fail("futex");
}

static void hand_over(uint32_t *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
	must(futex(word, FUTEX_WAKE, 1), "futex");
}

static void do_futex_switch(long ops)
{
	uint32_t *turn = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t child;

	if (turn == MAP_FAILED)
		fail("mmap");
	*turn = 0;
	child = forked();
	for (long i = 0; i < ops; i++) {
		if (child == 0) {
			await(turn, 1);
			hand_over(turn, 0);
		} else {
			hand_over(turn, 1);
			await(turn, 0);
		}
	}
	if (child == 0)
		_exit(0);
	reap(child);
	munmap(turn, page);
}

/* ------------------------------------------------------------------ all of them */

/* Operations: some 0.1 s each where a guest is emulated, 0.3 s where something waits for RCU. */
static const struct loop {
	const char *name;
	void (*run)(long ops);
	long ops;
} loops[] = {
	{ "syscall", do_syscall, 200000 },
	{ "create", do_create, 20000 },
	{ "truncate", do_truncate, 10000 },
	{ "open", do_open, 10000 },
	{ "stat", do_stat, 20000 },
	{ "mmap", do_mmap, 2000 },
	{ "fault", do_fault, 16384 },
	{ "brk", do_brk, 5000 },
	{ "fork", do_fork, 500 },
	{ "exec", do_exec, 200 },
	{ "pipe", do_pipe, 20000 },
	{ "pipe-switch", do_pipe_switch, 2000 },
	{ "socket", do_socket, 10000 },
	{ "socket-switch", do_socket_switch, 2000 },
	{ "futex", do_futex, 50000 },
	{ "futex-switch", do_futex_switch, 2000 },
	{ "epoll", do_epoll, 10000 },
	{ "signal", do_signal, 20000 },
};

#define COUNT (sizeof(loops) / sizeof(loops[0]))

static const struct loop *find(const char *name)
{
	for (size_t i = 0; i < COUNT; i++)
		if (strcmp(loops[i].name, name) == 0)
			return &loops[i];
	fprintf(stderr, "micro: no loop “%s”; there are", name);
	for (size_t i = 0; i < COUNT; i++)
		fprintf(stderr, " %s", loops[i].name);
	fprintf(stderr, "\n");
	exit(2);
}

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static void measure(const struct loop *loop, long ops, long rounds)
{
	int64_t total = 0;

	running = loop->name;
	loop->run(ops / 10 + 1);
	for (long i = 0; i < rounds; i++) {
		int64_t begun = now();

		loop->run(ops);
		total += now() - begun;
	}
	printf("%s: %lld ns %ld ops %.3f ns/op\n", loop->name, (long long)total, ops * rounds,
	       (double)total / ops / rounds);
}

static void pin(long cpu)
{
	cpu_set_t only;

	CPU_ZERO(&only);
	CPU_SET(cpu, &only);
	must(sched_setaffinity(0, sizeof(only), &only), "this CPU");
}

/* Where the stack, the heap and mappings lie decides which page tables are there already. */
static void without_random_layout(char **arguments)
{
	int have = personality(0xffffffff);

	if (have < 0 || have & ADDR_NO_RANDOMIZE || personality(have | ADDR_NO_RANDOMIZE) < 0)
		return;
	execv(self, arguments);
	fail("running itself again");
}

static long number(const char *text, long least)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (*end || end == text || value < least) {
		fprintf(stderr, "micro: not a number from %ld: %s\n", least, text);
		exit(2);
	}
	return value;
}

int main(int argc, char **argv)
{
	char *wanted = NULL;
	long ops = 0, rounds = 1, cpu = 0;
	int option;

	if (argc == 2 && strcmp(argv[1], "exit") == 0)
		_exit(0);
	must(readlink("/proc/self/exe", self, sizeof(self) - 1), "/proc/self/exe");
	without_random_layout(argv);
	while ((option = getopt(argc, argv, "l:n:r:c:d:")) != -1) {
		switch (option) {
		case 'l': wanted = optarg; break;
		case 'n': ops = number(optarg, 0); break;
		case 'r': rounds = number(optarg, 1); break;
		case 'c': cpu = number(optarg, -1); break;
		case 'd': folder = optarg; break;
		default: return 2;
		}
	}
	if (optind != argc) {
		fprintf(stderr, "micro: what is %s?\n", argv[optind]);
		return 2;
	}
	page = sysconf(_SC_PAGESIZE);
	snprintf(path, sizeof(path), "%s/ktrial-micro", folder);
	unlink(path);
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	if (cpu >= 0)
		pin(cpu);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (wanted == NULL || *wanted == '\0' || strcmp(wanted, "all") == 0) {
		for (size_t i = 0; i < COUNT; i++)
			measure(&loops[i], ops ? ops : loops[i].ops, rounds);
		return 0;
	}
	for (char *name = strtok(wanted, ","); name; name = strtok(NULL, ",")) {
		const struct loop *loop = find(name);

		measure(loop, ops ? ops : loop->ops, rounds);
	}
	return 0;
}
