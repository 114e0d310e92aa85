/*
 * One task that frees huge pages between allocations of single pages, on one CPU.
 *
 *     thp-churn [-g HUGE] [-p PAGES] [-n ROUNDS]
 *
 * Each round touches HUGE huge pages and gives them back, then does the same with PAGES single
 * pages, and takes the time of both. Where per-CPU lists hold pages of all sizes, huge ones that are
 * freed may push single ones out of them. It prints
 *
 *     huge: 61234 ns a page, 4000 pages in 500 rounds
 *     single: 812 ns a page, 128000 pages, worst round 1234567 ns
 *     huge pages that the kernel gave: 4000
 *
 * and fails where the kernel gave fewer huge pages than were touched.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define HUGE (2UL << 20)

static void fail(const char *what)
{
	fprintf(stderr, "thp-churn: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static long number(const char *text)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (*end || end == text || value < 1) {
		fprintf(stderr, "thp-churn: not a number from 1: %s\n", text);
		exit(2);
	}
	return value;
}

static void stay(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(sched_getcpu(), &set);
	if (sched_setaffinity(0, sizeof(set), &set) < 0)
		fail("sched_setaffinity");
}

/* Address space that begins at a huge page's boundary. */
static char *area(size_t bytes, int advice)
{
	char *start = mmap(NULL, bytes + HUGE, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_PRIVATE, -1,
			   0);

	if (start == MAP_FAILED)
		fail("mmap");
	start = (char *)(((uintptr_t)start + HUGE - 1) & ~(HUGE - 1));
	if (madvise(start, bytes, advice) < 0)
		fail("madvise (is CONFIG_TRANSPARENT_HUGEPAGE set?)");
	return start;
}

/* Touches each step and gives all of it back; the nanoseconds that both took. */
static int64_t churn(volatile char *start, size_t bytes, size_t step)
{
	int64_t begun = now();

	for (size_t at = 0; at < bytes; at += step)
		start[at] = 1;
	if (madvise((void *)start, bytes, MADV_DONTNEED) < 0)
		fail("MADV_DONTNEED");
	return now() - begun;
}

static long counter(const char *name)
{
	char line[128];
	size_t length = strlen(name);
	long value = -1;
	FILE *file = fopen("/proc/vmstat", "r");

	if (!file)
		fail("/proc/vmstat");
	while (fgets(line, sizeof(line), file))
		if (!strncmp(line, name, length) && line[length] == ' ')
			value = atol(line + length);
	fclose(file);
	return value;
}

int main(int argc, char **argv)
{
	long huge = 8, pages = 256, rounds = 500, page = sysconf(_SC_PAGESIZE), given;
	int64_t took, large = 0, small = 0, worst = 0;
	char *large_area, *small_area;
	int option;

	while ((option = getopt(argc, argv, "g:p:n:")) != -1) {
		switch (option) {
		case 'g': huge = number(optarg); break;
		case 'p': pages = number(optarg); break;
		case 'n': rounds = number(optarg); break;
		default: return 2;
		}
	}
	stay();
	large_area = area(huge * HUGE, MADV_HUGEPAGE);
	small_area = area(pages * page, MADV_NOHUGEPAGE);
	given = counter("thp_fault_alloc");
	for (long round = 0; round < rounds; round++) {
		large += churn(large_area, huge * HUGE, HUGE);
		took = churn(small_area, pages * page, page);
		small += took;
		if (took > worst)
			worst = took;
	}
	given = counter("thp_fault_alloc") - given;
	printf("huge: %.1f ns a page, %ld pages in %ld rounds\n", (double)large / huge / rounds,
	       huge * rounds, rounds);
	printf("single: %.2f ns a page, %ld pages, worst round %lld ns\n",
	       (double)small / pages / rounds, pages * rounds, (long long)worst);
	printf("huge pages that the kernel gave: %ld\n", given);
	return given < huge * rounds;
}
