/* Ctrl-C and its like as a descriptor that what runs can wait for.  Threads: main only. */
#ifndef CMD_STOP_H
#define CMD_STOP_H

#include <stdbool.h>

struct err;

/*
 * From now on SIGINT, SIGTERM and SIGHUP make the returned descriptor readable instead of ending
 * the program.  Readable stays readable.  The caller owns it; ERR_SYS.
 */
int stop_open(struct err *err);
bool stop_asked(int stop_fd);
/* 128 and the signal that is pending: what a shell reports for a program that it ended. */
int stop_exit_code(void);

#endif
