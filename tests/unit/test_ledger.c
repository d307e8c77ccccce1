/* The ledger: opening, appending, damage, crashes, full disks, leases, copies of projects. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "base/json.h"
#include "ledger/ledger.h"
#include "ledger/ledger_priv.h"
#include "ledger/verify.h"
#include "ledger_project.h"

/* Quota errors come at fsync; no file system of a test machine gives one, so this does. */
static int fsync_fails_after = -1; /* so many calls still succeed; -1: all */
static int fsync_error;

int fsync(int fd)
{
	if (fsync_fails_after == 0) {
		errno = fsync_error;
		fsync_fails_after = -1; /* the cutting back is allowed to work */
		return -1;
	}
	if (fsync_fails_after > 0)
		fsync_fails_after--;
	return (int)syscall(SYS_fsync, fd);
}

static void show(void *arg, const char *file, size_t line, const char *message)
{
	(void)arg;
	(void)fprintf(stderr, "finding: %s:%zu: %s\n", file, line, message);
}

static void check_intact(const struct project *p)
{
	struct err err = { 0 };

	CHECK_OK(ledger_verify(p->dir, show, NULL, &err), &err);
	CHECK_INT(ledger_verify(p->dir, NULL, NULL, &err), 0);
}

static int add_bench(struct ledger *l, double wall, char id[LEDGER_ID_CAP], struct err *err)
{
	struct ledger_value v[] = {
		{ .name = "wall",
		  .value = wall,
		  .unit = "s",
		  .n = 5,
		  .has_range = true,
		  .min = wall,
		  .max = wall + 1,
		  .median = wall },
		{ .name = "peak_memory", .value = 1e6, .unit = "bytes", .n = 5 },
	};
	struct ledger_rec rec = {
		.kind = LEDGER_BENCH, .command = "./a.out", .values = v, .n_values = 2
	};

	return ledger_append(l, &rec, id, err);
}

static struct ledger *must_open(const struct project *p)
{
	struct ledger *l = NULL;
	struct err err = { 0 };

	CHECK_OK(ledger_open(p->dir, &l, &err), &err);
	return l;
}

static char *master_path(const struct ledger *l)
{
	return file_join(ledger_state_dir(l), "evidence.jsonl");
}

static void test_append_and_read(void)
{
	struct project p;
	struct ledger *l;
	char id[LEDGER_ID_CAP], head[65];
	struct ledger_value v;
	struct err err = { 0 };
	AUTO_FREE char *a = NULL;
	AUTO_FREE char *b = NULL;
	AUTO_FREE char *copy = NULL;

	project_init(&p);
	CHECK_INT(ledger_open_read(p.dir, &l, &err), ERR_NOT_FOUND);
	CHECK_INT(ledger_verify(p.dir, NULL, NULL, &err), ERR_NOT_FOUND);
	l = must_open(&p);
	CHECK_INT(ledger_count(l), 0);
	CHECK_INT(strspn(ledger_head(l), "0"), 64);
	CHECK_INT(strlen(ledger_project_id(l)), 16);
	check_intact(&p);
	CHECK_OK(add_bench(l, 1.5, id, &err), &err);
	CHECK_STR(id, "E0001");
	CHECK_OK(add_bench(l, 2.5, id, &err), &err);
	CHECK_STR(id, "E0002");
	CHECK_OK(ledger_find_value(ledger_get(l, "E0002"), "wall", &v), &err);
	CHECK(v.value == 2.5 && v.n == 5 && v.has_range && v.max == 3.5 && !v.has_ci);
	CHECK_STR(v.unit, "s");
	CHECK_INT(ledger_find_value(ledger_get(l, "E0002"), "fom", &v), ERR_NOT_FOUND);
	CHECK(!ledger_get(l, "E0003"));
	CHECK(ledger_at(l, 1) == ledger_get(l, "E0002") && !ledger_at(l, 2));
	check_intact(&p); /* also while it is open */
	(void)snprintf(head, sizeof(head), "%s", ledger_head(l));
	a = master_path(l);
	ledger_close(l);
	copy = project_file(&p, "evidence.jsonl");
	{
		AUTO_FREE char *x = slurp(a);

		b = slurp(copy);
		CHECK_STR(x, b);
	}
	check_intact(&p);
	CHECK_OK(ledger_open_read(p.dir, &l, &err), &err);
	CHECK_INT(ledger_count(l), 2);
	CHECK_STR(ledger_head(l), head);
	CHECK(!ledger_from_copy(l));
	CHECK_INT(add_bench(l, 1, id, &err), ERR_INVALID);
	ledger_close(l);
	ledger_close(NULL);
	project_done(&p);
}

static void test_refused_records(void)
{
	struct project p;
	struct ledger *l;
	char id[LEDGER_ID_CAP] = "kept";
	struct ledger_value v = { .name = "wall", .value = 1, .unit = "s", .n = 5 };
	struct ledger_rec rec = { .kind = LEDGER_BENCH, .values = &v, .n_values = 1 };
	struct ledger_file f = { .path = "a", .sha256 = "12" };
	const char *parent = "E0009";
	struct json *arr = json_new_arr();
	struct err err = { 0 };

	project_init(&p);
	l = must_open(&p);
	v.unit = "";
	CHECK_INT(ledger_append(l, &rec, id, &err), ERR_INVALID);
	CHECK_HAS(err.msg, "value 'wall' has no unit");
	v.unit = "s";
	v.n = 0;
	CHECK_INT(ledger_append(l, &rec, id, &err), ERR_INVALID);
	CHECK_HAS(err.msg, "n is not a whole number");
	v.n = 5;
	v.has_ci = true;
	v.ci95_low = 0.5;
	v.ci95_high = 1.5;
	CHECK_INT(ledger_append(l, &rec, id, &err), ERR_INVALID);
	CHECK_HAS(err.msg, "6 at least");
	v.n = 6;
	v.ci95_high = 0.25;
	CHECK_INT(ledger_append(l, &rec, id, &err), ERR_INVALID);
	v.ci95_high = NAN;
	CHECK_INT(ledger_append(l, &rec, id, &err), ERR_INVALID);
	CHECK_HAS(err.msg, "not finite");
	v.has_ci = false;
	v.has_range = true;
	v.min = 2;
	CHECK_INT(ledger_append(l, &rec, id, &err), ERR_INVALID);
	CHECK_HAS(err.msg, "min <= median");
	v.has_range = false;
	rec.files = &f;
	rec.n_files = 1;
	CHECK_INT(ledger_append(l, &rec, id, &err), ERR_INVALID);
	CHECK_HAS(err.msg, "sha256");
	rec.n_files = 0;
	rec.parents = &parent;
	rec.n_parents = 1;
	CHECK_INT(ledger_append(l, &rec, id, &err), ERR_INVALID);
	CHECK_HAS(err.msg, "E0009");
	rec.n_parents = 0;
	rec.detail = arr;
	CHECK_INT(ledger_append(l, &rec, id, &err), ERR_INVALID);
	rec.detail = NULL;
	CHECK_STR(id, "kept");
	CHECK_INT(ledger_count(l), 0);
	CHECK_OK(ledger_append(l, &rec, id, &err), &err);
	CHECK_STR(id, "E0001");
	json_unref(arr);
	ledger_close(l);
	check_intact(&p);
	project_done(&p);
}

static void test_too_long(void)
{
	struct project p;
	struct ledger *l;
	char id[LEDGER_ID_CAP];
	struct json *detail = json_new_obj();
	struct ledger_rec rec = { .kind = LEDGER_NOTE, .detail = detail };
	AUTO_FREE char *big = xcalloc(1, LEDGER_LINE_MAX + 1);
	struct err err = { 0 };

	project_init(&p);
	l = must_open(&p);
	memset(big, 'x', LEDGER_LINE_MAX);
	json_set_str(detail, "text", big);
	CHECK_INT(ledger_append(l, &rec, id, &err), ERR_LIMIT);
	big[LEDGER_LINE_MAX - 1000] = '\0';
	json_set_str(detail, "text", big);
	CHECK_OK(ledger_append(l, &rec, id, &err), &err);
	json_unref(detail);
	ledger_close(l);
	check_intact(&p);
	ledger_close(must_open(&p));
	project_done(&p);
}

static void test_torn_tails(void)
{
	struct project p;
	struct ledger *l;
	char id[LEDGER_ID_CAP];
	struct err err = { 0 };
	AUTO_FREE char *copy = NULL;
	AUTO_FREE char *master = NULL;
	AUTO_FREE char *whole = NULL;
	const char *last;

	project_init(&p);
	l = must_open(&p);
	CHECK_OK(add_bench(l, 1, id, &err), &err);
	CHECK_OK(add_bench(l, 2, id, &err), &err);
	master = master_path(l);
	copy = project_file(&p, "evidence.jsonl");
	ledger_close(l);
	whole = slurp(copy);

	/* the copy lags, within a line and by a whole one, or is gone: completed, nothing recorded
	 */
	last = strchr(whole, '\n') + 1;
	CHECK(truncate(copy, (last - whole) + 20) == 0);
	CHECK(ledger_verify(p.dir, NULL, NULL, &err) > 0);
	l = must_open(&p);
	CHECK_INT(ledger_count(l), 2);
	ledger_close(l);
	check_intact(&p);
	CHECK(unlink(copy) == 0);
	CHECK(ledger_verify(p.dir, NULL, NULL, &err) > 0);
	ledger_close(must_open(&p));
	check_intact(&p);

	/* a torn tail of the master is cut and recorded; the copy's too */
	append_text(master, "{\"id\":\"E0003\",\"ki");
	CHECK(ledger_verify(p.dir, NULL, NULL, &err) > 0);
	CHECK_OK(ledger_open_read(p.dir, &l, &err), &err);
	CHECK_INT(ledger_count(l), 2);
	ledger_close(l);
	append_text(copy, "garbage without end");
	l = must_open(&p);
	CHECK_INT(ledger_count(l), 4);
	CHECK_STR(json_get_str(ledger_at(l, 2), "kind", ""), "note");
	CHECK_STR(json_get_str(json_get(ledger_at(l, 2), "detail"), "what", ""), "torn tail cut");
	CHECK_STR(json_get_str(json_get(ledger_at(l, 2), "detail"), "file", ""), "master");
	CHECK_STR(json_get_str(json_get(ledger_at(l, 3), "detail"), "file", ""), "published copy");
	CHECK_INT(ledger_n_remarks(l), 2);
	CHECK_HAS(ledger_remark(l, 0), "evidence.jsonl:3: ");
	ledger_close(l);
	check_intact(&p);

	/* zeros at the end, as some file systems leave them after a power cut, with a newline */
	append_text(master, "\x01\x01\x01\n");
	l = must_open(&p);
	CHECK_INT(ledger_count(l), 5);
	ledger_close(l);
	check_intact(&p);
	project_done(&p);
}

/* What was acknowledged is never taken for a torn tail. */
static void test_damage_is_refused(void)
{
	struct project p;
	struct ledger *l = NULL;
	char id[LEDGER_ID_CAP];
	struct err err = { 0 };
	AUTO_FREE char *copy = NULL;
	AUTO_FREE char *master = NULL;
	AUTO_FREE char *head = NULL;
	AUTO_FREE char *whole = NULL;
	AUTO_FREE char *edited = NULL;
	AUTO_FREE char *mark = NULL;

	project_init(&p);
	l = must_open(&p);
	CHECK_OK(add_bench(l, 1, id, &err), &err);
	CHECK_OK(add_bench(l, 2, id, &err), &err);
	master = master_path(l);
	head = file_join(ledger_state_dir(l), "head");
	copy = project_file(&p, "evidence.jsonl");
	ledger_close(l);
	whole = slurp(master);
	mark = slurp(head);

	CHECK(truncate(master, (off_t)strlen(whole) - 5) == 0);
	CHECK_INT(ledger_open(p.dir, &l, &err), ERR_PARSE);
	CHECK_HAS(err.msg, "evidence.jsonl:2: ");
	CHECK_HAS(err.msg, "remove ");
	CHECK_INT(ledger_open_read(p.dir, &l, &err), ERR_PARSE);
	CHECK(truncate(master, strchr(whole, '\n') + 1 - whole) == 0);
	CHECK_INT(ledger_open(p.dir, &l, &err), ERR_PARSE);
	CHECK_HAS(err.msg, "the last ones are missing");
	spew(master, whole);
	append_text(master, strchr(whole, '\n') + 1);
	CHECK_INT(ledger_open(p.dir, &l, &err), ERR_PARSE);
	spew(master, whole);
	CHECK(unlink(head) == 0);
	CHECK_INT(ledger_open(p.dir, &l, &err), ERR_PARSE);
	CHECK_HAS(err.msg, "head is missing");
	spew(head, "2 nonsense\n");
	CHECK_INT(ledger_open(p.dir, &l, &err), ERR_PARSE);
	CHECK_HAS(err.msg, "head:1");
	spew(head, mark);

	/* the copy was edited: the line is named, and moving it away is the way out */
	edited = xstrdup(whole);
	*strstr(strchr(edited, '\n'), "\"value\":2") = ' ';
	spew(copy, edited);
	CHECK_INT(ledger_open(p.dir, &l, &err), ERR_PARSE);
	CHECK_HAS(err.msg, "evidence.jsonl:2: ");
	CHECK(unlink(copy) == 0);
	ledger_close(must_open(&p));
	check_intact(&p);
	/* a link in its place could make us write anywhere */
	CHECK(unlink(copy) == 0 && symlink("/tmp/rb-nowhere", copy) == 0);
	CHECK_INT(ledger_open(p.dir, &l, &err), ERR_INVALID);
	CHECK_HAS(err.msg, "is a link");
	CHECK(!file_exists(AT_FDCWD, "/tmp/rb-nowhere"));
	project_done(&p);
}

/* The published copy is changed or removed while the program runs. */
static void test_copy_under_us(void)
{
	struct project p;
	struct ledger *l;
	char id[LEDGER_ID_CAP];
	struct err err = { 0 };
	AUTO_FREE char *copy = NULL;
	AUTO_FREE char *lease = NULL;

	project_init(&p);
	l = must_open(&p);
	CHECK_OK(add_bench(l, 1, id, &err), &err);
	copy = project_file(&p, "evidence.jsonl");
	lease = project_file(&p, "lease");
	CHECK(unlink(copy) == 0 && unlink(lease) == 0); /* git clean */
	CHECK_OK(add_bench(l, 2, id, &err), &err);
	CHECK(file_exists(AT_FDCWD, lease));
	check_intact(&p);
	append_text(copy, "{}\n");
	CHECK_INT(add_bench(l, 3, id, &err), ERR_STALE);
	CHECK_HAS(err.msg, "evidence.jsonl was changed");
	CHECK_INT(ledger_count(l), 2);
	ledger_close(l);
	CHECK_INT(ledger_open(p.dir, &l, &err), ERR_PARSE);
	CHECK(unlink(copy) == 0);
	l = must_open(&p);
	CHECK_INT(ledger_count(l), 2);
	ledger_close(l);
	check_intact(&p);
	project_done(&p);
}

static void test_failing_fsync(void)
{
	struct project p;
	struct ledger *l;
	char id[LEDGER_ID_CAP];
	struct err err = { 0 };
	int failures = 0;

	project_init(&p);
	l = must_open(&p);
	CHECK_OK(add_bench(l, 1, id, &err), &err);
	for (int k = 0; k < 6; k++) {
		size_t n = ledger_count(l);
		int r;

		fsync_error = EDQUOT;
		fsync_fails_after = k;
		r = add_bench(l, 2, id, &err);
		fsync_fails_after = -1;
		if (r < 0) {
			failures++;
			CHECK_INT(r, ERR_SYS);
			CHECK_INT(err.sys_errno, EDQUOT);
			CHECK_HAS(err.msg, k ? "evidence.jsonl" : "head");
			CHECK_INT(ledger_count(l), n);
		}
		check_intact(&p);
		CHECK_OK(add_bench(l, 3, id, &err), &err);
	}
	CHECK(failures >= 3); /* head, master, published copy */
	ledger_close(l);
	check_intact(&p);
	project_done(&p);
}

/* ---- full disk ---- */

/* Appends until nothing fits, then checks that all that was acknowledged is there. */
static void fill_up(const struct project *p, void (*make_room)(const struct project *p))
{
	struct ledger *l = must_open(p);
	struct err err = { 0 };
	char id[LEDGER_ID_CAP];
	size_t n;
	int r = 0;

	for (int i = 0; i < 5000 && r == 0; i++)
		r = add_bench(l, i, id, &err);
	CHECK_INT(r, ERR_SYS);
	CHECK(err.sys_errno == ENOSPC || err.sys_errno == EFBIG);
	CHECK_HAS(err.msg, p->root);
	n = ledger_count(l);
	CHECK(n > 3);
	CHECK(add_bench(l, 1, id, &err) < 0);
	CHECK_INT(ledger_count(l), n);
	check_intact(p);
	ledger_close(l);
	check_intact(p);
	make_room(p);
	l = must_open(p);
	CHECK_INT(ledger_count(l), n);
	CHECK_OK(add_bench(l, 1, id, &err), &err);
	ledger_close(l);
	check_intact(p);
}

static void room_by_limit(const struct project *p)
{
	struct rlimit lim;

	(void)p;
	CHECK(getrlimit(RLIMIT_FSIZE, &lim) == 0);
	lim.rlim_cur = lim.rlim_max;
	CHECK(setrlimit(RLIMIT_FSIZE, &lim) == 0);
}

static void room_in_state(const struct project *p)
{
	AUTO_FREE char *filler = file_join(p->state, "filler");

	CHECK(unlink(filler) == 0);
}

static void room_in_project(const struct project *p)
{
	AUTO_FREE char *filler = file_join(p->dir, "filler");

	CHECK(unlink(filler) == 0);
}

/* In a child, since limits and namespaces stay.  Exit status 0, 1, or 77 where it cannot run. */
static void in_child(void (*fn)(void))
{
	pid_t pid = fork();
	int st;

	CHECK(pid >= 0);
	if (pid == 0) {
		fn();
		_exit(0);
	}
	CHECK(waitpid(pid, &st, 0) == pid);
	CHECK(WIFEXITED(st));
	if (WEXITSTATUS(st) == 77)
		return;
	CHECK_INT(WEXITSTATUS(st), 0);
}

static void full_by_limit(void)
{
	struct project p;
	struct rlimit lim;

	project_init(&p);
	CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
	CHECK(getrlimit(RLIMIT_FSIZE, &lim) == 0);
	lim.rlim_cur = 10000;
	CHECK(setrlimit(RLIMIT_FSIZE, &lim) == 0);
	fill_up(&p, room_by_limit);
	project_done(&p);
}

static void full_by_tmpfs(bool state)
{
	struct project p;
	AUTO_FREE char *filler = NULL;
	char block[4096] = { 0 };
	const char *at;
	int fd;

	project_init(&p);
	if (mkdir(p.state, 0755) < 0 ||
	    (unshare(CLONE_NEWNS) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) < 0) ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0) {
		project_done(&p);
		(void)printf("no mounts here: the full tmpfs was not tried\n");
		_exit(77);
	}
	at = state ? p.state : p.dir;
	CHECK(mount("tmpfs", at, "tmpfs", 0, "size=128k") == 0);
	filler = file_join(at, "filler");
	fd = open(filler, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	for (int i = 0; i < 16; i++)
		CHECK(write(fd, block, sizeof(block)) == (ssize_t)sizeof(block));
	CHECK(close(fd) == 0);
	fill_up(&p, state ? room_in_state : room_in_project);
	CHECK(umount(at) == 0);
	project_done(&p);
}

static void full_state(void)
{
	full_by_tmpfs(true);
}

static void full_project(void)
{
	full_by_tmpfs(false);
}

/* ---- kill -9 ---- */

/* Some records, then waits for its end: what was written is read again each round. */
static void write_some(const struct project *p, int fd)
{
	struct ledger *l;
	struct err err = { 0 };
	char id[LEDGER_ID_CAP] = { 0 };
	int r = ledger_open(p->dir, &l, &err);

	if (r < 0) {
		(void)fprintf(stderr, "child: %s\n", err.msg);
		_exit(3);
	}
	for (int i = 0; i < 25; i++) {
		if (add_bench(l, i, id, &err) < 0)
			_exit(4);
		if (write(fd, id, sizeof(id)) != (ssize_t)sizeof(id))
			_exit(5);
	}
	for (;;)
		(void)pause();
}

static void test_kill_writer(void)
{
	struct project p;
	char id[LEDGER_ID_CAP] = "";
	unsigned seed = (unsigned)getpid();
	size_t taken_over = 0;
	struct err err = { 0 };

	project_init(&p);
	for (int round = 0; round < 50; round++) {
		int fds[2], st;
		pid_t pid;
		struct ledger *l;
		char got[LEDGER_ID_CAP];

		CHECK(pipe2(fds, O_CLOEXEC) == 0);
		pid = fork();
		CHECK(pid >= 0);
		if (pid == 0) {
			(void)close(fds[0]);
			write_some(&p, fds[1]);
		}
		CHECK(close(fds[1]) == 0);
		if (round % 2 && read(fds[0], got, sizeof(got)) == (ssize_t)sizeof(got))
			memcpy(id, got, sizeof(id)); /* not before it writes */
		(void)poll(NULL, 0, rand_r(&seed) % 20);
		CHECK(kill(pid, SIGKILL) == 0);
		CHECK(waitpid(pid, &st, 0) == pid);
		CHECK(WIFSIGNALED(st)); /* else the child met an error */
		while (read(fds[0], got, sizeof(got)) == (ssize_t)sizeof(got))
			memcpy(id, got, sizeof(id));
		CHECK(close(fds[0]) == 0);
		/* killed before there was a ledger: nothing to verify yet */
		if (id[0] || ledger_verify(p.dir, NULL, NULL, &err) != ERR_NOT_FOUND)
			check_intact(&p);
		l = must_open(&p);
		for (size_t i = 0; i < ledger_n_remarks(l); i++)
			taken_over += strstr(ledger_remark(l, i), "taken over") != NULL;
		CHECK(!id[0] || ledger_get(l, id));
		ledger_close(l);
		check_intact(&p);
	}
	CHECK(id[0] && taken_over > 0);
	project_done(&p);
}

/* ---- leases ---- */

static void test_busy(void)
{
	struct project p;
	struct ledger *l, *m = NULL;
	char want[64], id[LEDGER_ID_CAP];
	int fds[2], st;
	pid_t pid;
	struct err err = { 0 };
	char c;

	project_init(&p);
	CHECK(pipe2(fds, O_CLOEXEC) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		l = must_open(&p);
		CHECK_OK(add_bench(l, 1, id, &err), &err);
		CHECK(write(fds[1], "x", 1) == 1);
		for (;;)
			(void)pause();
	}
	CHECK(read(fds[0], &c, 1) == 1);
	CHECK_INT(ledger_open(p.dir, &m, &err), ERR_BUSY);
	CHECK(!m);
	(void)snprintf(want, sizeof(want), "process %d, since 2", (int)pid);
	CHECK_HAS(err.msg, want);
	CHECK_HAS(err.msg, "host ");
	CHECK_HAS(err.msg, "at once on its own host");
	CHECK_OK(ledger_open_read(p.dir, &l, &err), &err); /* reading is free */
	CHECK_INT(ledger_count(l), 1);
	ledger_close(l);
	CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, &st, 0) == pid);
	l = must_open(&p);
	CHECK_INT(ledger_count(l), 3); /* both leases were taken over */
	CHECK_STR(json_get_str(json_get(ledger_at(l, 1), "detail"), "what", ""),
		  "lease taken over");
	(void)snprintf(want, sizeof(want), "process %d", (int)pid);
	CHECK_HAS(json_get_str(json_get(ledger_at(l, 1), "detail"), "from", ""), want);
	CHECK_INT(ledger_open(p.dir, &m, &err), ERR_BUSY); /* also within one process */

	/* a child that inherits it can neither write nor give the lease back */
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		CHECK_INT(add_bench(l, 1, id, &err), ERR_INVALID);
		ledger_close(l);
		_exit(0);
	}
	CHECK(waitpid(pid, &st, 0) == pid && WIFEXITED(st) && WEXITSTATUS(st) == 0);
	CHECK_INT(ledger_open(p.dir, &m, &err), ERR_BUSY);
	CHECK_OK(add_bench(l, 1, id, &err), &err);
	CHECK_OK(ledger_heartbeat(l, &err), &err);
	ledger_close(l);
	ledger_close(must_open(&p));
	check_intact(&p);
	CHECK(close(fds[0]) == 0 && close(fds[1]) == 0);
	project_done(&p);
}

/* A lease as another host would have written it, so many seconds ago. */
static void foreign_lease(const char *path, int age_s)
{
	struct timespec t[2];

	spew(path, "{\"host\":\"n7\",\"boot_id\":\"other\",\"pid\":1,\"pid_namespace\":1,"
		   "\"start_ticks\":5,\"since\":\"2026-01-01T00:00:00.000Z\",\"id\":\"x\","
		   "\"heartbeat\":\"2026-01-01T00:00:00.000Z\"}\n");
	CHECK(clock_gettime(CLOCK_REALTIME, &t[0]) == 0);
	t[0].tv_sec -= age_s;
	t[1] = t[0];
	CHECK(utimensat(AT_FDCWD, path, t, 0) == 0);
}

/* The heartbeat itself, which ledger_heartbeat() makes once a minute. */
static void test_heartbeat(void)
{
	struct project p;
	struct ledger_lease ls = LEDGER_LEASE_INIT;
	struct err err = { 0 };
	struct stat st;
	struct timespec old[2] = { { .tv_sec = 1000000 }, { .tv_sec = 1000000 } };
	AUTO_FREE char *lease = NULL;
	AUTO_FREE char *before = NULL;
	AUTO_FREE char *after = NULL;
	AUTO_FREE char *from = NULL;
	int fd;

	project_init(&p);
	fd = open(p.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	lease = file_join(p.dir, "lease");
	CHECK_OK(ledger_lease_take(&ls, fd, p.dir, &from, &err), &err);
	CHECK(!from);
	before = slurp(lease);
	CHECK_HAS(before, "\"boot_id\":\"");
	CHECK(utimensat(AT_FDCWD, lease, old, 0) == 0);
	(void)poll(NULL, 0, 5);
	CHECK_OK(ledger_lease_beat(&ls, &err), &err);
	CHECK(stat(lease, &st) == 0 && st.st_mtim.tv_sec > 1000000);
	after = slurp(lease);
	CHECK_INT(strlen(after), strlen(before));
	CHECK(strcmp(after, before) != 0);
	*strstr(before, "\"heartbeat\"") = *strstr(after, "\"heartbeat\"") = '\0';
	CHECK_STR(after, before);
	CHECK(unlink(lease) == 0);
	CHECK_OK(ledger_lease_beat(&ls, &err), &err); /* made again */
	CHECK(file_exists(AT_FDCWD, lease));
	foreign_lease(lease, 0); /* in place: still our inode */
	CHECK_OK(ledger_lease_check(&ls, &err), &err);
	CHECK(unlink(lease) == 0);
	foreign_lease(lease, 0);
	CHECK_INT(ledger_lease_beat(&ls, &err), ERR_STALE);
	ledger_lease_done(&ls, true);
	CHECK(file_exists(AT_FDCWD, lease));
	CHECK(close(fd) == 0);
	project_done(&p);
}

/* Many programs find the lease of a dead one at the same time: they take turns or are told so. */
static void test_takeover_race(void)
{
	struct project p;
	struct ledger *l;
	struct err err = { 0 };

	project_init(&p);
	ledger_close(must_open(&p));
	for (int round = 0; round < 5; round++) {
		pid_t pids[6];
		size_t before, opened = 0, records = 0;
		pid_t dead = fork();
		int st;

		CHECK(dead >= 0);
		if (dead == 0) {
			(void)must_open(&p);
			(void)kill(getpid(), SIGKILL);
		}
		CHECK(waitpid(dead, &st, 0) == dead && WIFSIGNALED(st));
		CHECK_OK(ledger_open_read(p.dir, &l, &err), &err);
		before = ledger_count(l);
		ledger_close(l);
		for (int i = 0; i < 6; i++) {
			pids[i] = fork();
			CHECK(pids[i] >= 0);
			if (pids[i] == 0) {
				char id[LEDGER_ID_CAP];
				int r = ledger_open(p.dir, &l, &err);

				if (r == ERR_BUSY)
					_exit(10);
				CHECK_OK(r, &err);
				CHECK_OK(add_bench(l, 1, id, &err), &err);
				ledger_close(l);
				_exit(0);
			}
		}
		for (int i = 0; i < 6; i++) {
			CHECK(waitpid(pids[i], &st, 0) == pids[i] && WIFEXITED(st));
			CHECK(WEXITSTATUS(st) == 0 || WEXITSTATUS(st) == 10);
			opened += WEXITSTATUS(st) == 0;
		}
		check_intact(&p);
		CHECK_OK(ledger_open_read(p.dir, &l, &err), &err);
		for (size_t i = before; i < ledger_count(l); i++)
			records += strcmp(json_get_str(ledger_at(l, i), "kind", ""), "bench") == 0;
		ledger_close(l);
		CHECK(opened >= 1);
		CHECK_INT(records, opened);
	}
	project_done(&p);
}

/* Reading and verifying beside a writer shows one state, never half of one. */
static void test_beside_a_writer(void)
{
	struct project p;
	struct ledger *l;
	struct err err = { 0 };
	size_t last = 0;
	pid_t pid;
	int st;

	project_init(&p);
	ledger_close(must_open(&p));
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		char id[LEDGER_ID_CAP];

		l = must_open(&p);
		for (int i = 0; i < 120; i++)
			CHECK_OK(add_bench(l, i, id, &err), &err);
		ledger_close(l);
		_exit(0);
	}
	do {
		check_intact(&p);
		CHECK_OK(ledger_open_read(p.dir, &l, &err), &err);
		CHECK(ledger_count(l) >= last);
		last = ledger_count(l);
		ledger_close(l);
	} while (waitpid(pid, &st, WNOHANG) == 0);
	CHECK(WIFEXITED(st) && WEXITSTATUS(st) == 0);
	project_done(&p);
}

static void test_foreign_lease(void)
{
	struct project p;
	struct ledger *l, *m = NULL;
	struct err err = { 0 };
	char id[LEDGER_ID_CAP];
	AUTO_FREE char *lease = NULL;
	AUTO_FREE char *takeover = NULL;
	AUTO_FREE char *text = NULL;

	project_init(&p);
	ledger_close(must_open(&p));
	lease = project_file(&p, "lease");
	takeover = project_file(&p, "lease.takeover");
	CHECK(!file_exists(AT_FDCWD, lease));
	foreign_lease(lease, 200);
	CHECK_INT(ledger_open(p.dir, &m, &err), ERR_BUSY);
	CHECK_HAS(err.msg, "host n7, process 1");
	CHECK_HAS(err.msg, "after 5 minutes");
	foreign_lease(lease, 400);
	foreign_lease(takeover, 100); /* somebody is at it */
	CHECK_INT(ledger_open(p.dir, &m, &err), ERR_BUSY);
	foreign_lease(takeover, 400); /* and died over it */
	l = must_open(&p);
	CHECK_INT(ledger_count(l), 1);
	CHECK(!file_exists(AT_FDCWD, takeover));
	CHECK_OK(add_bench(l, 1, id, &err), &err);

	/* the lease goes to another host while we were stopped: the next record is refused */
	text = slurp(lease);
	CHECK(unlink(lease) == 0);
	foreign_lease(lease, 0);
	CHECK_INT(add_bench(l, 1, id, &err), ERR_STALE);
	CHECK_HAS(err.msg, "taken the project over");
	ledger_close(l);
	CHECK(file_exists(AT_FDCWD, lease)); /* it is not ours to remove */
	spew(lease, "not a lease");
	CHECK_INT(ledger_open(p.dir, &m, &err), ERR_BUSY);
	CHECK_HAS(err.msg, "remove ");
	/* same boot and namespace, but the process id belongs to a later process by now */
	*strstr(text, "\"start_ticks\":") = '\0';
	{
		AUTO_FREE char *old = xasprintf("%s\"start_ticks\":7}\n", text);

		spew(lease, old);
	}
	ledger_close(must_open(&p));
	check_intact(&p);
	project_done(&p);
}

/* ---- where projects are ---- */

static void copy_tree(const char *from, const char *to)
{
	pid_t pid = fork();
	int st;

	CHECK(pid >= 0);
	if (pid == 0) {
		(void)execlp("cp", "cp", "-a", from, to, (char *)NULL);
		_exit(127);
	}
	CHECK(waitpid(pid, &st, 0) == pid && WIFEXITED(st) && WEXITSTATUS(st) == 0);
}

static void test_copied_project(void)
{
	struct project p, q;
	struct ledger *l, *m;
	char id[LEDGER_ID_CAP];
	struct err err = { 0 };
	const struct json *note;
	AUTO_FREE char *aside = NULL;

	project_init(&p);
	l = must_open(&p);
	CHECK_OK(add_bench(l, 1, id, &err), &err);
	ledger_close(l);
	q = p;
	q.dir = file_join(p.root, "copy");
	copy_tree(p.dir, q.dir);
	CHECK_INT(ledger_verify(q.dir, NULL, NULL, &err), ERR_STALE);
	CHECK_HAS(err.msg, "is a copy of");
	CHECK_OK(ledger_open_read(q.dir, &m, &err), &err);
	CHECK(ledger_from_copy(m) && ledger_count(m) == 1 && !ledger_state_dir(m));
	ledger_close(m);

	m = must_open(&q);
	l = must_open(&p); /* they share nothing */
	CHECK(strcmp(ledger_project_id(l), ledger_project_id(m)) != 0);
	CHECK_INT(ledger_count(m), 1);
	note = json_get(ledger_at(m, 0), "detail");
	CHECK_STR(json_get_str(note, "what", ""), "copied project");
	CHECK_STR(json_get_str(note, "of_id", ""), ledger_project_id(l));
	aside = project_file(&q, json_get_str(note, "set_aside", "?"));
	CHECK(file_exists(AT_FDCWD, aside));
	CHECK_HAS(ledger_remark(m, 0), "is a copy of");
	CHECK_INT(ledger_count(l), 1);
	ledger_close(l);
	ledger_close(m);
	check_intact(&p);
	check_intact(&q);
	free(q.dir);
	project_done(&p);
}

static void test_moved_project(void)
{
	struct project p;
	struct ledger *l;
	char id[LEDGER_ID_CAP];
	struct err err = { 0 };
	char *to;

	project_init(&p);
	l = must_open(&p);
	CHECK_OK(add_bench(l, 1, id, &err), &err);
	ledger_close(l);
	to = file_join(p.root, "moved");
	CHECK(rename(p.dir, to) == 0);
	free(p.dir);
	p.dir = to;
	check_intact(&p);
	l = must_open(&p);
	CHECK_INT(ledger_count(l), 2);
	CHECK_STR(json_get_str(json_get(ledger_at(l, 1), "detail"), "what", ""), "moved");
	ledger_close(l);
	l = must_open(&p);
	CHECK_INT(ledger_count(l), 2);
	ledger_close(l);
	check_intact(&p);
	project_done(&p);
}

static void test_lost_master(void)
{
	struct project p;
	struct ledger *l = NULL;
	char id[LEDGER_ID_CAP];
	struct err err = { 0 };
	AUTO_FREE char *other = NULL;
	AUTO_FREE char *idfile = NULL;

	project_init(&p);
	l = must_open(&p);
	CHECK_OK(add_bench(l, 1, id, &err), &err);
	ledger_close(l);
	other = file_join(p.root, "other state");
	CHECK(setenv("XDG_STATE_HOME", other, 1) == 0);
	l = NULL;
	CHECK_INT(ledger_open(p.dir, &l, &err), ERR_STALE);
	CHECK_HAS(err.msg, "XDG_STATE_HOME");
	CHECK_HAS(err.msg, "remove ");
	CHECK_INT(ledger_verify(p.dir, NULL, NULL, &err), 2);
	CHECK_OK(ledger_open_read(p.dir, &l, &err), &err);
	CHECK(ledger_from_copy(l) && ledger_count(l) == 1);
	ledger_close(l);
	/* the way out that the message names */
	idfile = project_file(&p, "id");
	CHECK(unlink(idfile) == 0);
	l = must_open(&p);
	CHECK_INT(ledger_count(l), 1);
	CHECK_STR(json_get_str(json_get(ledger_at(l, 0), "detail"), "what", ""),
		  "evidence set aside");
	ledger_close(l);
	check_intact(&p);
	spew(idfile, "../../../etc\n");
	CHECK_INT(ledger_open(p.dir, &l, &err), ERR_PARSE);
	CHECK_HAS(err.msg, "not a project id");
	project_done(&p);
}

static void test_no_state_home(void)
{
	struct project p;
	struct ledger *l = NULL;
	struct err err = { 0 };
	AUTO_FREE char *home = xstrdup(getenv("HOME"));
	AUTO_FREE char *dot = NULL;

	project_init(&p);
	CHECK(unsetenv("XDG_STATE_HOME") == 0 && unsetenv("HOME") == 0);
	CHECK_INT(ledger_open(p.dir, &l, &err), ERR_INVALID);
	CHECK_HAS(err.msg, "neither XDG_STATE_HOME nor HOME");
	/* relative paths are to be ignored */
	CHECK(setenv("XDG_STATE_HOME", "rel", 1) == 0);
	CHECK_INT(ledger_open(p.dir, &l, &err), ERR_INVALID);
	CHECK(setenv("HOME", p.root, 1) == 0 && unsetenv("XDG_STATE_HOME") == 0);
	CHECK_OK(ledger_open(p.dir, &l, &err), &err);
	CHECK_HAS(ledger_state_dir(l), "/.local/state/rocbudai/");
	ledger_close(l);
	/* a file where a folder must be: fails for root, too */
	CHECK(setenv("XDG_STATE_HOME", "/dev/null", 1) == 0);
	dot = file_join(p.dir, ".rocbudai");
	CHECK_OK(file_remove_tree(AT_FDCWD, dot, &err), &err);
	CHECK_INT(ledger_open(p.dir, &l, &err), ERR_SYS);
	CHECK_HAS(err.msg, "/dev/null");
	CHECK_HAS(err.msg, "set XDG_STATE_HOME");
	CHECK_INT(ledger_open("/nonexistent/x", &l, &err), ERR_SYS);
	if (home)
		CHECK(setenv("HOME", home, 1) == 0);
	project_done(&p);
}

/* As a user who may not write (root may): state folder, then project. */
static void read_only(void)
{
	struct project p;
	struct ledger *l = NULL;
	struct err err = { 0 };
	char id[LEDGER_ID_CAP];

	if (getuid() == 0)
		CHECK(setgid(65534) == 0 && setuid(65534) == 0);
	project_init(&p);
	l = must_open(&p);
	CHECK_OK(add_bench(l, 1, id, &err), &err);
	ledger_close(l);
	{
		AUTO_FREE char *dot = file_join(p.dir, ".rocbudai");

		CHECK(chmod(dot, 0555) == 0);
		CHECK_INT(ledger_open(p.dir, &l, &err), ERR_SYS);
		CHECK_INT(err.sys_errno, EACCES);
		CHECK_HAS(err.msg, ".rocbudai/lease");
		check_intact(&p); /* verification writes nothing */
		CHECK_OK(ledger_open_read(p.dir, &l, &err), &err);
		CHECK_INT(ledger_count(l), 1);
		ledger_close(l);
		CHECK(chmod(dot, 0755) == 0);
	}
	l = must_open(&p);
	{
		AUTO_FREE char *state = xstrdup(ledger_state_dir(l));

		ledger_close(l);
		CHECK(chmod(state, 0555) == 0);
		CHECK_INT(ledger_open(p.dir, &l, &err), ERR_SYS);
		CHECK_INT(err.sys_errno, EACCES);
		CHECK(chmod(state, 0700) == 0);
	}
	ledger_close(must_open(&p));
	project_done(&p);
}

static void test_small_things(void)
{
	struct json *j = NULL;
	struct err err = { 0 };
	enum ledger_kind k = LEDGER_NOTE;

	CHECK_STR(ledger_tag_bench(2), "OPINION");
	CHECK_STR(ledger_tag_bench(3), "FACT");
	for (int i = 0; i < LEDGER_N_KINDS; i++) {
		CHECK_OK(ledger_kind_from(ledger_kind_name((enum ledger_kind)i), &k), &err);
		CHECK_INT(k, i);
	}
	CHECK_INT(ledger_kind_from("nonsense", &k), ERR_NOT_FOUND);
	CHECK_INT(ledger_parse_line("{", 1, "f", 7, &j, &err), ERR_PARSE);
	CHECK_HAS(err.msg, "f:7: not valid JSON");
	CHECK_INT(ledger_parse_line("[]", 2, "f", 7, &j, &err), ERR_PARSE);
	CHECK(!j);
}

int main(void)
{
	test_small_things();
	test_append_and_read();
	test_refused_records();
	test_too_long();
	test_torn_tails();
	test_damage_is_refused();
	test_copy_under_us();
	test_failing_fsync();
	test_busy();
	test_heartbeat();
	test_takeover_race();
	test_beside_a_writer();
	test_foreign_lease();
	test_copied_project();
	test_moved_project();
	test_lost_master();
	test_no_state_home();
	in_child(read_only);
	in_child(full_by_limit);
	in_child(full_state);
	in_child(full_project);
	test_kill_writer();
	return 0;
}
