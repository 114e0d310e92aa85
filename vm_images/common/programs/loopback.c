/*
 * Pairs of a client and a server that send requests and answers to each other over the loopback
 * device, all at once.
 *
 *     loopback [-c CLIENTS] [-n TRANSACTIONS] [-m BYTES] [-u]
 *
 * prints, over the time from their common start to the end of the last one:
 *
 *     16 clients: 1234567890 ns 16000 transactions 12960.000 /s mean 1234.567 us worst 45678.901 us
 *
 * As netperf's TCP_RR (-u: UDP_RR) each client has a server process of its own; unlike its, all
 * clients are connected before the first request, begin together and have the same number of them.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST_BYTES 65507

struct result {
	int64_t total;
	int64_t worst;
};

static char buffer[MOST_BYTES];
static int kind = SOCK_STREAM;
static size_t bytes = 1;

static void fail(const char *what)
{
	fprintf(stderr, "loopback: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int must(int result, const char *what)
{
	if (result < 0)
		fail(what);
	return result;
}

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static struct sockaddr_in bound(int fd)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	socklen_t length = sizeof(address);

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	must(bind(fd, (struct sockaddr *)&address, length), "bind");
	must(getsockname(fd, (struct sockaddr *)&address, &length), "getsockname");
	return address;
}

static void joined(int fd, const struct sockaddr_in *to)
{
	must(connect(fd, (const struct sockaddr *)to, sizeof(*to)), "connect");
}

/* Both ends of a connection. */
static void pair(int ends[2])
{
	int one = 1, first = must(socket(AF_INET, kind, 0), "socket");
	struct sockaddr_in here = bound(first), there;

	ends[1] = must(socket(AF_INET, kind, 0), "socket");
	if (kind == SOCK_DGRAM) {
		there = bound(ends[1]);
		joined(first, &there);
		joined(ends[1], &here);
		ends[0] = first;
		return;
	}
	must(listen(first, 1), "listen");
	joined(ends[1], &here);
	ends[0] = must(accept(first, NULL, NULL), "accept");
	close(first);
	for (int i = 0; i < 2; i++)
		must(setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)), "TCP_NODELAY");
}

static void put(int fd)
{
	for (size_t done = 0; done < bytes; )
		done += must(send(fd, buffer, bytes - done, MSG_NOSIGNAL), "send");
}

static void get(int fd)
{
	for (size_t done = 0; done < bytes; ) {
		int part = must(recv(fd, buffer, bytes - done, 0), "recv");

		if (part == 0) {
			errno = ECONNRESET;
			fail("recv");
		}
		done += part;
	}
}

static void serve(int fd, long transactions)
{
	while (transactions--) {
		get(fd);
		put(fd);
	}
}

static void ask(int fd, long transactions, struct result *result)
{
	while (transactions--) {
		int64_t begun = now(), took;

		put(fd);
		get(fd);
		took = now() - begun;
		result->total += took;
		if (took > result->worst)
			result->worst = took;
	}
}

/* What ended badly takes the others with it: they would wait for it. */
static int reaped(long processes)
{
	int status;

	while (processes--) {
		must(wait(&status), "wait");
		if (status) {
			signal(SIGTERM, SIG_IGN);
			kill(0, SIGTERM);
			return 1;
		}
	}
	return 0;
}

static void await_start(int fd)
{
	char byte;

	if (read(fd, &byte, 1) != 0)
		fail("start");
}

static long number(const char *text, long least, long most)
{
	char *end;
	long value = strtol(text, &end, 10);

	if (*end || end == text || value < least || value > most) {
		fprintf(stderr, "loopback: not a number from %ld to %ld: %s\n", least, most, text);
		exit(2);
	}
	return value;
}

int main(int argc, char **argv)
{
	long clients = 1, transactions = 1000;
	int option, start[2];
	struct result *results, all = { 0, 0 };
	int64_t begun, took;

	while ((option = getopt(argc, argv, "c:n:m:u")) != -1) {
		switch (option) {
		case 'c': clients = number(optarg, 1, 10000); break;
		case 'n': transactions = number(optarg, 1, 1000000000); break;
		case 'm': bytes = number(optarg, 1, MOST_BYTES); break;
		case 'u': kind = SOCK_DGRAM; break;
		default: return 2;
		}
	}
	setpgid(0, 0);
	results = mmap(NULL, clients * sizeof(*results), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (results == MAP_FAILED)
		fail("mmap");
	must(pipe(start), "pipe");
	for (long i = 0; i < clients; i++) {
		int ends[2];

		pair(ends);
		for (int side = 0; side < 2; side++) {
			pid_t child = must(fork(), "fork");

			if (child)
				continue;
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			close(ends[!side]);
			close(start[1]);
			if (side == 0) {
				serve(ends[0], transactions);
			} else {
				await_start(start[0]);
				ask(ends[1], transactions, &results[i]);
			}
			_exit(0);
		}
		close(ends[0]);
		close(ends[1]);
	}
	begun = now();
	close(start[1]);
	if (reaped(2 * clients))
		return 1;
	took = now() - begun;
	for (long i = 0; i < clients; i++) {
		all.total += results[i].total;
		if (results[i].worst > all.worst)
			all.worst = results[i].worst;
	}
	printf("%ld clients: %lld ns %ld transactions %.3f /s mean %.3f us worst %.3f us\n", clients,
	       (long long)took, clients * transactions, clients * transactions * 1e9 / took,
	       all.total / 1e3 / clients / transactions, all.worst / 1e3);
	return 0;
}
