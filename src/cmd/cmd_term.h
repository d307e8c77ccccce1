/* What the long-running commands share at a terminal: stopping, asking, progress.  Main thread. */
#ifndef CMD_CMD_TERM_H
#define CMD_CMD_TERM_H

#include <stdbool.h>
#include <stdint.h>

struct err;
struct flow_ui;

struct cmd_term {
	int stop_fd;
	bool tty;	 /* progress in one line that is written over */
	bool yes;	 /* agree to everything */
	bool ask;	 /* questions may be asked: stdin is a terminal */
	bool json;	 /* events as JSON lines on stdout */
	bool line_open;	 /* a progress line stands there */
	char phase[160]; /* of the progress line */
	uint64_t last_ns;
};

/* Fills ui with what suits the terminal; t must outlive it. */
void cmd_term_ui(struct cmd_term *t, struct flow_ui *ui);
/* Ends a progress line, so that other text can follow. */
void cmd_term_clear(struct cmd_term *t);

#endif
