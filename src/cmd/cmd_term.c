#include "cmd/cmd_term.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/json.h"
#include "core/cleanup.h"
#include "core/err.h"
#include "core/str.h"
#include "flow/flow.h"

#define TERM_LINE_MAX	  4096
#define TERM_REDRAW_NS	  (100 * NS_PER_MS)
#define TERM_NO_REMAINING UINT64_MAX

/* Text from programs must not drive the terminal. */
static void term_print(FILE *to, const char *text)
{
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text, next = (unsigned char)text[1];

		if (c == 0xc2 && next >= 0x80 && next < 0xa0) { /* U+0080 to U+009F */
			(void)fprintf(to, "\\x%02x", next);
			text++;
		} else if ((c < 0x20 && c != '\n' && c != '\t') || c == 0x7f) {
			(void)fprintf(to, "\\x%02x", c);
		} else {
			(void)fputc(c, to);
		}
	}
}

void cmd_term_clear(struct cmd_term *t)
{
	if (t->line_open)
		(void)fputs("\r\033[K", stderr);
	t->line_open = false;
	(void)fflush(stderr);
}

/* ---- questions ---- */

/* One line from stdin; ERR_CANCELLED at its end or when a signal came. */
static int term_read_line(struct cmd_term *t, struct str *line, struct err *err)
{
	for (;;) {
		struct pollfd p[2] = { { .fd = STDIN_FILENO, .events = POLLIN },
				       { .fd = t->stop_fd, .events = POLLIN } };
		char c;
		ssize_t n;

		if (poll(p, t->stop_fd > 0 ? 2 : 1, -1) < 0 && errno != EINTR)
			return err_sys(err, errno, "wait for an answer");
		if (p[1].revents && t->stop_fd > 0)
			return err_set(err, ERR_CANCELLED, "interrupted");
		if (!p[0].revents)
			continue;
		n = read(STDIN_FILENO, &c, 1);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n <= 0 && !line->len)
			return err_set(err, ERR_CANCELLED, "the input ended before the answer");
		if (n <= 0 || c == '\n')
			return str_check(line, "the answer", err);
		str_addc(line, c);
	}
}

static int term_ask(void *arg, enum flow_question q, const char *fallback, const char *why,
		    char **answer, struct err *err)
{
	static const char *const texts[] = {
		[FLOW_Q_NAME] = "name of this session",
		[FLOW_Q_TYPE] = "type of application",
		[FLOW_Q_ROCM] = "ROCm version",
		[FLOW_Q_MODULES] = "other modules to load",
		[FLOW_Q_BUILD] = "command that builds it",
		[FLOW_Q_RUN] = "command that runs it",
		[FLOW_Q_FOM] = "figure of merit (a word in its output, a pattern, or wall time)",
	};
	struct cmd_term *t = arg;
	struct str line = { .max = TERM_LINE_MAX };
	int r;

	cmd_term_clear(t);
	(void)fprintf(stderr, "Q%d/7: %s", (int)q, texts[q]);
	if (fallback) {
		(void)fputs(" [", stderr);
		term_print(stderr, fallback);
		(void)fputs("]", stderr);
	}
	if (why)
		(void)fprintf(stderr, " (%s)", why);
	(void)fputs(": ", stderr);
	(void)fflush(stderr);
	r = term_read_line(t, &line, err);
	if (r < 0) {
		str_done(&line);
		return r;
	}
	*answer = line.s ? str_take(&line) : strdup("");
	return *answer ? ERR_OK : err_set(err, ERR_NOMEM, "no memory for the answer");
}

static bool term_agree(void *arg, const char *text)
{
	struct cmd_term *t = arg;
	AUTO_STR struct str line = { .max = TERM_LINE_MAX };

	cmd_term_clear(t);
	(void)fputs("\n", stderr);
	term_print(stderr, text);
	(void)fputs("go on? [Y/n] ", stderr);
	(void)fflush(stderr);
	if (term_read_line(t, &line, NULL) < 0) {
		(void)raise(SIGTERM); /* blocked: it makes the stop descriptor readable */
		return false;
	}
	return !line.len || strcasecmp(str_get(&line), "y") == 0 ||
	       strcasecmp(str_get(&line), "yes") == 0 || strcasecmp(str_get(&line), "ok") == 0;
}

/* ---- progress ---- */

static void term_redraw(struct cmd_term *t, const char *detail)
{
	if (!t->tty)
		return;
	(void)fprintf(stderr, "\r\033[K%s", t->phase);
	if (detail)
		(void)fprintf(stderr, " · %s", detail);
	(void)fflush(stderr);
	t->line_open = true;
	t->last_ns = clock_mono_ns();
}

static void term_progress(void *arg, const char *state, unsigned iteration, uint64_t elapsed_ns,
			  uint64_t remaining_ns)
{
	struct cmd_term *t = arg;
	char elapsed[32], left[32], it[32] = "";

	clock_human(elapsed_ns, elapsed);
	if (iteration)
		(void)snprintf(it, sizeof(it), " · iteration %u", iteration);
	if (remaining_ns == TERM_NO_REMAINING) {
		(void)snprintf(t->phase, sizeof(t->phase), "%s%s · %s", state, it, elapsed);
	} else {
		clock_human(remaining_ns, left);
		(void)snprintf(t->phase, sizeof(t->phase), "%s%s · %s, %s left", state, it, elapsed,
			       left);
	}
	term_redraw(t, NULL);
}

static void term_detail(void *arg, const char *text)
{
	struct cmd_term *t = arg;

	if (clock_mono_ns() - t->last_ns >= TERM_REDRAW_NS)
		term_redraw(t, text);
}

static void term_say(void *arg, const char *text)
{
	struct cmd_term *t = arg;
	bool open = t->line_open;

	cmd_term_clear(t);
	term_print(stderr, text);
	if (*text && text[strlen(text) - 1] != '\n')
		(void)fputc('\n', stderr);
	if (open)
		term_redraw(t, NULL);
}

static void term_event(void *arg, const struct json *event)
{
	AUTO_FREE char *line = json_dump(event);

	(void)arg;
	(void)printf("%s\n", line);
	(void)fflush(stdout);
}

void cmd_term_ui(struct cmd_term *t, struct flow_ui *ui)
{
	t->tty = isatty(STDERR_FILENO) == 1;
	t->ask = !t->yes && isatty(STDIN_FILENO) == 1;
	*ui = (struct flow_ui){
		.arg = t,
		.ask = t->ask ? term_ask : NULL,
		.agree = t->ask ? term_agree : NULL,
		.progress = term_progress,
		.detail = term_detail,
		.say = term_say,
		.event = t->json ? term_event : NULL,
	};
}
