/*
 * Processes that map memory, write all of it and unmap it, over and over.
 *
 *     mmap-writers [-w WRITERS] [-m MIB] [-n LOOPS] [-s]
 *
 * prints, with the time from their common start to the end of the last one:
 *
 *     10 writers: 4123456789 ns 100 loops 1677721600 bytes
 *     throughput: 406.871 MB/s
 *     loop: mean 389.123 ms worst 641.020 ms
 *
 * Huge pages are off for them (PR_SET_THP_DISABLE), so that all is done page by page. -s: the
 * memory is shared (shmem), as that of Python's mmap.mmap(-1, SIZE).
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct result {
	int64_t total;
	int64_t worst;
};

static void fail(const char *what)
{
	fprintf(stderr, "mmap-writers: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static void *mapped(size_t bytes, int flags)
{
	void *area = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | flags, -1, 0);

	if (area == MAP_FAILED)
		fail("mmap");
	return area;
}

static void work(size_t bytes, long loops, int flags, struct result *result)
{
	while (loops--) {
		int64_t begun = now(), took;
		void *area = mapped(bytes, flags);

		memset(area, 0xff, bytes);
		if (munmap(area, bytes) < 0)
			fail("munmap");
		took = now() - begun;
		result->total += took;
		if (took > result->worst)
			result->worst = took;
	}
}

/* Waits until the parent closes its end: all begin at once. */
static void await_start(int fd)
{
	char byte;

	if (read(fd, &byte, 1) != 0)
		fail("start");
}

static long number(const char *text)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (*end || end == text || value < 1) {
		fprintf(stderr, "mmap-writers: not a number from 1: %s\n", text);
		exit(2);
	}
	return value;
}

static int reaped(long writers)
{
	int status, bad = 0;

	for (long i = 0; i < writers; i++) {
		if (wait(&status) < 0)
			fail("wait");
		if (WIFSIGNALED(status))
			fprintf(stderr, "mmap-writers: a writer was ended by signal %d (no memory?)\n",
				WTERMSIG(status));
		bad |= status;
	}
	return bad;
}

int main(int argc, char **argv)
{
	long writers = 10, mebibytes = 16, loops = 10;
	int flags = MAP_PRIVATE, option, start[2];
	struct result *results, all = { 0, 0 };
	int64_t begun, took;
	double bytes;

	while ((option = getopt(argc, argv, "w:m:n:s")) != -1) {
		switch (option) {
		case 'w': writers = number(optarg); break;
		case 'm': mebibytes = number(optarg); break;
		case 'n': loops = number(optarg); break;
		case 's': flags = MAP_SHARED; break;
		default: return 2;
		}
	}
	if (prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) < 0)
		fail("PR_SET_THP_DISABLE");
	results = mapped(writers * sizeof(*results), MAP_SHARED);
	if (pipe(start) < 0)
		fail("pipe");
	for (long i = 0; i < writers; i++) {
		pid_t child = fork();

		if (child < 0)
			fail("fork");
		if (child == 0) {
			close(start[1]);
			await_start(start[0]);
			work((size_t)mebibytes << 20, loops, flags, &results[i]);
			_exit(0);
		}
	}
	begun = now();
	close(start[1]);
	if (reaped(writers))
		return 1;
	took = now() - begun;
	for (long i = 0; i < writers; i++) {
		all.total += results[i].total;
		if (results[i].worst > all.worst)
			all.worst = results[i].worst;
	}
	bytes = (double)writers * loops * (mebibytes << 20);
	printf("%ld writers: %lld ns %ld loops %.0f bytes\n", writers, (long long)took,
	       writers * loops, bytes);
	printf("throughput: %.3f MB/s\n", bytes * 1e3 / took);
	printf("loop: mean %.3f ms worst %.3f ms\n", all.total / 1e6 / writers / loops, all.worst / 1e6);
	return 0;
}
