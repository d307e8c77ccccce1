/*
 * SIGKILL at moments spread over everything that writes: a child runs the operation under ptrace
 * and is killed as it enters its n-th system call, so that the moments are the same each time and
 * none is missed because the machine was fast.
 */
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "ckpttest.h"

#define KILLS 40

struct job {
	struct place *p;
	char a[CKPT_ID_CAP], b[CKPT_ID_CAP];
};

typedef int (*job_cb)(struct ckpt *c, const struct job *j);

static void job_child(const struct job *j, job_cb cb)
{
	struct ckpt *c = NULL;

	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0 || raise(SIGSTOP) != 0)
		_exit(99);
	if (ckpt_open(j->p->state, j->p->project, NULL, &c, &e) < 0 || cb(c, j) < 0) {
		(void)fprintf(stderr, "in the child: %s\n", e.msg);
		_exit(1);
	}
	ckpt_close(c);
	_exit(0);
}

/*
 * Runs the job until it has entered kill_at system calls, and kills it there; 0 lets it end.
 * Returns the number of calls it got to.
 */
static long job_run(const struct job *j, job_cb cb, long kill_at, bool *killed)
{
	long calls = 0;
	bool inside = false;
	int status;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (pid == 0)
		job_child(j, cb);
	CHECK(waitpid(pid, &status, 0) == pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 99)
		CHECK_SKIP("ptrace is not allowed here");
	*killed = false;
	CHECK(WIFSTOPPED(status));
	CHECK(ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) == 0);
	for (;;) {
		CHECK(ptrace(PTRACE_SYSCALL, pid, NULL, NULL) == 0);
		CHECK(waitpid(pid, &status, 0) == pid);
		if (WIFEXITED(status)) {
			CHECK_INT(WEXITSTATUS(status), 0);
			return calls;
		}
		CHECK(WIFSTOPPED(status) && WSTOPSIG(status) == (SIGTRAP | 0x80));
		inside = !inside;
		if (!inside || ++calls != kill_at)
			continue;
		CHECK(kill(pid, SIGKILL) == 0);
		CHECK(waitpid(pid, &status, 0) == pid);
		CHECK(WIFSIGNALED(status));
		*killed = true;
		return calls;
	}
}

/* The i-th moment: every other one in the last third, where the tree itself is changed. */
static long moment(long i, long calls)
{
	long from = i % 2 ? calls * 2 / 3 : 1;

	return from + i * (calls - 1 - from) / KILLS;
}

static void make_state(const char *d, int which)
{
	char name[64], text[64];

	tree_mkdir(d, which ? "b" : "a");
	tree_mkdir(d, "both");
	for (int i = 0; i < 12; i++) {
		(void)snprintf(text, sizeof(text), "content %d of %d", i, which);
		(void)snprintf(name, sizeof(name), "both/f%d", i);
		tree_write(d, name, text);
		set_mtime(d, name, 1000 + i + 100 * which, 5);
		(void)snprintf(name, sizeof(name), "%s/only%d", which ? "b" : "a", i);
		tree_write(d, name, text);
	}
	make_link(d, "link", which ? "b" : "a");
	set_mode(d, "both/f3", which ? 0755 : 0600);
	if (which)
		tree_write(d, "kind", "file");
	else
		tree_mkdir(d, "kind");
	if (!which)
		tree_write(d, "kind/in", "x");
	set_mtime(d, "both", 5000 + which, 6);
}

static void clear(const char *d)
{
	size_t n;
	int fd = open(d, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char **v;

	CHECK(fd >= 0);
	v = tree_names(fd, &n);
	for (size_t i = 0; i < n; i++) {
		CHECK_OK(file_remove_tree(fd, v[i], &e), &e);
		free(v[i]);
	}
	free(v);
	CHECK(close(fd) == 0);
}

/* Makes both states and a checkpoint of each; the tree is at b. */
static void job_init(struct job *j, struct place *p, char *text[2])
{
	*j = (struct job){ .p = p };
	place_init(p, NULL);
	make_state(p->project, 0);
	text[0] = tree_describe(p->project);
	CHECK_OK(ckpt_create(p->c, "a", j->a, &e), &e);
	clear(p->project);
	make_state(p->project, 1);
	text[1] = tree_describe(p->project);
	CHECK_OK(ckpt_create(p->c, "b", j->b, &e), &e);
	ckpt_close(p->c);
	p->c = NULL;
}

static void job_done(struct place *p, char *text[2])
{
	free(text[0]);
	free(text[1]);
	place_done(p);
}

/* Which of both is the tree at?  Anything else ends the test. */
static int whole_side(const struct place *p, char *const text[2])
{
	char *now = tree_describe(p->project);
	int side = strcmp(now, text[1]) == 0;

	if (!side)
		TREE_CHECK_SAME(now, text[0]);
	free(now);
	return side;
}

static int do_restore(struct ckpt *c, const struct job *j)
{
	return ckpt_restore(c, j->a, NULL, NULL, NULL, NULL, &e);
}

/* From b to a, killed: either whole, the old one at first and the new one in the end. */
static void test_restore(void)
{
	int at[2] = { 0, 0 }, recovered = 0, n_killed = 0;
	char *text[2];
	struct place p;
	struct job j;
	bool killed;
	long calls;

	job_init(&j, &p, text);
	calls = job_run(&j, do_restore, 0, &killed);
	CHECK(calls > 200);
	CHECK_INT(whole_side(&p, text), 0);
	for (long i = 0; i <= KILLS; i++) {
		place_reopen(&p, NULL);
		CHECK_OK(ckpt_restore(p.c, j.b, NULL, NULL, NULL, NULL, &e), &e);
		CHECK_INT(whole_side(&p, text), 1);
		ckpt_close(p.c);
		p.c = NULL;
		(void)job_run(&j, do_restore, moment(i, calls), &killed);
		n_killed += killed;
		place_reopen(&p, NULL);
		recovered += ckpt_recovered(p.c) != NULL;
		at[whole_side(&p, text)]++;
		CHECK(!tree_has(p.project, ".rocbudai/restore"));
		CHECK(!tree_has(p.state, "ckpt/journal"));
		CHECK_OK(ckpt_verify(p.c, &e), &e);
	}
	CHECK(at[0] > 0 && at[1] > 0 && recovered > 0);
	(void)printf(
		"%d kills: %d times the old tree, %d the new one, %d completed at the next start\n",
		n_killed, at[1], at[0], recovered);
	CHECK(n_killed >= KILLS * 3 / 4); /* the number of calls varies a little */
	job_done(&p, text);
}

/* Completing what was killed is killed, too. */
static int do_nothing(struct ckpt *c, const struct job *j)
{
	(void)c;
	(void)j;
	return 0;
}

static void test_recovery(void)
{
	char *text[2];
	struct place p;
	struct job j;
	bool killed;
	long calls, half = 0;

	job_init(&j, &p, text);
	calls = job_run(&j, do_restore, 0, &killed);
	/* a moment at which the journal is there */
	for (long k = calls / 2; !half && k < calls; k += 5) {
		place_reopen(&p, NULL);
		CHECK_OK(ckpt_restore(p.c, j.b, NULL, NULL, NULL, NULL, &e), &e);
		ckpt_close(p.c);
		p.c = NULL;
		(void)job_run(&j, do_restore, k, &killed);
		if (tree_has(p.state, "ckpt/journal"))
			half = k;
	}
	CHECK(half > 0);
	for (int i = 0; i < 12; i++) {
		(void)job_run(&j, do_nothing, 60 + 15 * i, &killed);
		if (!killed)
			break;
	}
	place_reopen(&p, NULL);
	CHECK_INT(whole_side(&p, text), 0);
	CHECK_OK(ckpt_verify(p.c, &e), &e);
	job_done(&p, text);
}

static int do_switch(struct ckpt *c, const struct job *j)
{
	struct ckpt_switch *sw;
	int side, r = ckpt_switch_open(c, j->a, j->b, &sw, &side, &e);

	for (int i = 0; r == 0 && i < 3; i++)
		r = ckpt_switch_to(sw, i % 2, &e);
	return r == 0 ? ckpt_switch_close(sw, 0, &e) : r;
}

/* From b through several flips to a. */
static void test_switch(void)
{
	int at[2] = { 0, 0 }, recovered = 0, n_killed = 0;
	char *text[2];
	struct place p;
	struct job j;
	bool killed;
	long calls;

	job_init(&j, &p, text);
	calls = job_run(&j, do_switch, 0, &killed);
	CHECK(calls > 200);
	CHECK_INT(whole_side(&p, text), 0);
	for (long i = 0; i <= KILLS; i++) {
		place_reopen(&p, NULL);
		CHECK_OK(ckpt_restore(p.c, j.b, NULL, NULL, NULL, NULL, &e), &e);
		ckpt_close(p.c);
		p.c = NULL;
		(void)job_run(&j, do_switch, moment(i, calls), &killed);
		n_killed += killed;
		place_reopen(&p, NULL);
		recovered += ckpt_recovered(p.c) != NULL;
		at[whole_side(&p, text)]++;
		CHECK(!tree_has(p.project, ".rocbudai/stage"));
		CHECK(!tree_has(p.state, "ckpt/switch"));
	}
	CHECK(at[0] > 0 && at[1] > 0 && recovered > 0);
	(void)printf(
		"%d kills: %d times the old tree, %d the new one, %d completed at the next start\n",
		n_killed, at[1], at[0], recovered);
	CHECK(n_killed >= KILLS * 3 / 4); /* the number of calls varies a little */
	CHECK_OK(ckpt_verify(p.c, &e), &e);
	job_done(&p, text);
}

static int count_one(void *arg, const struct ckpt_info *info)
{
	(void)info;
	(*(int *)arg)++;
	return 0;
}

static int do_create(struct ckpt *c, const struct job *j)
{
	char id[CKPT_ID_CAP];

	(void)j;
	return ckpt_create(c, "killed", id, &e);
}

static int do_gc(struct ckpt *c, const struct job *j)
{
	return ckpt_gc(c, (const char *const[]){ j->a, j->b, NULL }, NULL, &e);
}

/* A killed checkpoint is there whole, or not at all; a killed clean-up never takes too much. */
static void test_create_and_gc(void)
{
	int whole = 0, none = 0;
	char *text[2];
	struct place p;
	struct job j;
	bool killed;
	long calls;

	job_init(&j, &p, text);
	tree_write(p.project, "both/new0", "new 0");
	calls = job_run(&j, do_create, 0, &killed);
	for (long i = 0; i <= KILLS; i++) {
		int before = 0, after = 0;
		char line[32];

		(void)snprintf(line, sizeof(line), "new %ld", i + 1);
		tree_write(p.project, "both/new0", line);
		place_reopen(&p, NULL);
		CHECK_OK(ckpt_list(p.c, count_one, &before, &e), &e);
		ckpt_close(p.c);
		p.c = NULL;
		(void)job_run(&j, i % 4 == 3 ? do_gc : do_create, moment(i, calls), &killed);
		place_reopen(&p, NULL);
		CHECK_OK(ckpt_list(p.c, count_one, &after, &e), &e);
		CHECK_OK(ckpt_verify(p.c, &e), &e);
		if (i % 4 != 3) {
			CHECK(after == before || after == before + 1);
			whole += after > before;
			none += after == before;
		}
	}
	CHECK(whole > 0 && none > 0);
	for (int s = 0; s < 2; s++) {
		CHECK_OK(ckpt_restore(p.c, s ? j.b : j.a,
				      &(struct ckpt_restore_opts){ .policy = CKPT_DELETE }, NULL,
				      NULL, NULL, &e),
			 &e);
		CHECK_INT(whole_side(&p, text), s);
	}
	job_done(&p, text);
}

int main(void)
{
	/* the many syncs cost nothing in memory, and a kill is no power cut */
	if (access("/dev/shm", W_OK) == 0)
		(void)setenv("TMPDIR", "/dev/shm", 0);
	test_restore();
	test_recovery();
	test_switch();
	test_create_and_gc();
	return 0;
}
