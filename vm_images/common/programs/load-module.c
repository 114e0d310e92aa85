/*
 * Loads a kernel module, once.
 *
 *     load-module FILE.ko [PARAMETER=VALUE ...]
 *
 * busybox's insmod and modprobe load a module twice where its init returns an error (they try
 * finit_module(2), then init_module(2)): a test that ends so, such as test_vmalloc, would run twice.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char parameters[4096] = "";
	int fd;

	if (argc < 2) {
		fprintf(stderr, "load-module: FILE.ko [PARAMETER=VALUE ...]\n");
		return 2;
	}
	for (int i = 2; i < argc; i++) {
		if (strlen(parameters) + strlen(argv[i]) + 2 > sizeof(parameters)) {
			fprintf(stderr, "load-module: too many parameters\n");
			return 2;
		}
		strcat(strcat(parameters, argv[i]), " ");
	}
	fd = open(argv[1], O_RDONLY | O_CLOEXEC);
	if (fd < 0 || syscall(SYS_finit_module, fd, parameters, 0) < 0) {
		fprintf(stderr, "load-module: %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	return 0;
}
