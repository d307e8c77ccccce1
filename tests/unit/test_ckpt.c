#include <grp.h>
#include <sys/wait.h>

#include "ckpttest.h"

/* Every kind of thing that a version control system is known to bend. */
static void make_odd_tree(const char *d)
{
	static char big[3000000];

	tree_write(d, "plain.c", "int main(void) { return 0; }\n");
	tree_write(d, "name with space", "a");
	tree_write(d, "new\nline", "b");
	tree_write(d, "quote'\"\\`$x", "c");
	tree_write(d, "\xff\xfe\x80 not utf-8", "d");
	tree_write(d, "-rf", "e");
	tree_write(d, "%41", "an escape of ours as a name");
	tree_write(d, "empty", "");
	tree_write_n(d, "nul bytes", "a\0b\r\n\0", 7);
	tree_write(d, "read-only", "f");
	tree_write(d, "script.sh", "#!/bin/sh\n");
	tree_write(d, "setuid", "g");
	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = (char)(i * 2654435761U >> 13);
	tree_write_n(d, "big", big, sizeof(big));
	tree_mkdir(d, "a");
	tree_mkdir(d, "a/b");
	tree_mkdir(d, "a/b/c");
	tree_write(d, "a/b/c/deep", "h");
	tree_write(d, "a.b", "sorts between a and a/b for plain strcmp");
	tree_write(d, "a-b", "i");
	tree_mkdir(d, "empty folder");
	tree_mkdir(d, "locked");
	tree_write(d, "locked/in", "j");
	tree_mkdir(d, "times");
	tree_write(d, "times/old", "k");
	tree_write(d, "times/future", "l");
	tree_write(d, "times/before epoch", "m");
	make_link(d, "dangling", "no/such/file");
	make_link(d, "to file", "plain.c");
	make_link(d, "to folder", "a/b");
	make_link(d, "out of the project", "/etc");
	make_link(d, "-", "-");
	tree_mkdir(d, "nested");
	tree_mkdir(d, "nested/.git");
	tree_mkdir(d, "nested/.git/hooks");
	tree_mkdir(d, "nested/.git/refs");
	tree_write(d, "nested/.git/HEAD", "ref: refs/heads/main\n");
	tree_write(d, "nested/file", "one\r\ntwo\nthree\r");
	tree_write(d, ".gitattributes", "* text eol=crlf filter=evil\n");
	tree_write(d, "lines", "one\ntwo\r\nthree\n");
	set_mode(d, "read-only", 0444);
	set_mode(d, "script.sh", 0751);
	set_mode(d, "setuid", 04755);
	set_mode(d, "locked", geteuid() == 0 ? 0 : 0555);
	set_mtime(d, "times/old", 86400, 123456789);
	set_mtime(d, "times/future", 4102444800, 999999999);
	set_mtime(d, "times/before epoch", -1000000, 5);
	set_mtime(d, "dangling", 1000000000, 7);
	set_mtime(d, "a/b", 1100000000, 11);
	set_mtime(d, "empty folder", 1200000000, 13);
}

/* Changes everything that make_odd_tree made, by type, content, mode, time and place. */
static void wreck_odd_tree(const char *d)
{
	tree_write(d, "plain.c", "int main(void) { return 1; }\n");
	remove_path(d, "new\nline");
	remove_path(d, "\xff\xfe\x80 not utf-8");
	tree_mkdir(d, "\xff\xfe\x80 not utf-8");
	remove_path(d, "a");
	tree_write(d, "a", "a file where a folder was");
	remove_path(d, "empty folder");
	make_link(d, "empty folder", "/");
	remove_path(d, "to folder");
	tree_mkdir(d, "to folder");
	remove_path(d, "dangling");
	make_link(d, "dangling", "plain.c");
	set_mode(d, "read-only", 0777);
	set_mode(d, "script.sh", 0644);
	set_mode(d, "setuid", 0600);
	set_mode(d, "locked", 0700);
	tree_write(d, "locked/in", "J");
	set_mtime(d, "times/old", 1, 1);
	tree_write(d, "nested/file", "one\ntwo\nthree\n");
	remove_path(d, "nested/.git/refs");
	tree_write(d, "big", "small");
	set_mode(d, "empty", 0);
}

static int ignore_act(void *arg, enum ckpt_act act, const char *path)
{
	(void)act;
	(void)path;
	(*(int *)arg)++;
	return 0;
}

static void test_exact(void)
{
	struct ckpt_restored res;
	char id[CKPT_ID_CAP], wrecked_id[CKPT_ID_CAP];
	char *before, *after, *wrecked;
	struct place p;
	int n = 0;

	place_init(&p, NULL);
	make_odd_tree(p.project);
	before = tree_describe(p.project);
	CHECK_OK(ckpt_create(p.c, "odd", id, &e), &e);
	CHECK_STR(id, "C0001");
	after = tree_describe(p.project);
	TREE_CHECK_SAME(after, before);
	free(after);

	wreck_odd_tree(p.project);
	wrecked = tree_describe(p.project);
	CHECK_OK(ckpt_create(p.c, "wrecked", wrecked_id, &e), &e);
	CHECK_OK(ckpt_restore_preview(p.c, id, NULL, ignore_act, &n, &e), &e);
	CHECK(n > 15);
	after = tree_describe(p.project);
	TREE_CHECK_SAME(after, wrecked); /* a preview changes nothing */
	free(after);

	CHECK_OK(ckpt_restore(p.c, id, NULL, NULL, NULL, &res, &e), &e);
	CHECK_STR(res.saved_id, ""); /* all contents are in a checkpoint */
	CHECK_INT(res.n_kept + res.n_discarded + res.n_replaced, 0);
	after = tree_describe(p.project);
	TREE_CHECK_SAME(after, before);
	free(after);
	CHECK(!tree_has(p.project, ".rocbudai/restore"));

	/* and the other way, by another object */
	place_reopen(&p, NULL);
	CHECK(!ckpt_recovered(p.c));
	CHECK_OK(ckpt_restore(p.c, wrecked_id, NULL, NULL, NULL, NULL, &e), &e);
	after = tree_describe(p.project);
	TREE_CHECK_SAME(after, wrecked);
	free(after);
	CHECK_OK(ckpt_restore(p.c, id, NULL, NULL, NULL, &res, &e), &e);
	after = tree_describe(p.project);
	TREE_CHECK_SAME(after, before);
	free(after);

	/* there already: nothing to do */
	n = 0;
	CHECK_OK(ckpt_restore(p.c, id, NULL, ignore_act, &n, &res, &e), &e);
	CHECK_INT(n, 0);
	CHECK_OK(ckpt_verify(p.c, &e), &e);
	free(before);
	free(wrecked);
	set_mode(p.project, "locked", 0700);
	place_done(&p);
}

/* Runs argv in dir with its output in the file out; its status, or -1 where it cannot be run. */
static int run_in(const char *dir, const char *const *argv, const char *out)
{
	union {
		const char *const *in;
		char *const *out;
	} args = { .in = argv };
	pid_t pid = fork();
	int status;

	CHECK(pid >= 0);
	if (pid == 0) {
		int fd = open(out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

		if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0 || chdir(dir) < 0)
			_exit(126);
		(void)execvp(argv[0], args.out);
		_exit(127);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) && WEXITSTATUS(status) != 127 ? WEXITSTATUS(status) : -1;
}

static char *read_all(const char *dir, const char *path, size_t *n)
{
	char full[2 * PATH_MAX];
	char *text;

	(void)snprintf(full, sizeof(full), "%s/%s", dir, path);
	CHECK_OK(file_read(AT_FDCWD, full, 1 << 24, &text, n, &e), &e);
	return text;
}

/* Every way for git to run something, in the user's configuration and in a nested repository. */
static void make_hostile(const struct place *p)
{
	static const char *const scripts[] = { "home/hooks/pre-commit", "home/hooks/post-checkout",
					       "home/hooks/evil" };
	char text[8 * PATH_MAX];

	tree_mkdir(p->top, "home");
	tree_mkdir(p->top, "home/hooks");
	(void)snprintf(text, sizeof(text), "#!/bin/sh\ntouch '%s/code-ran'\n", p->top);
	for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++) {
		tree_write(p->top, scripts[i], text);
		set_mode(p->top, scripts[i], 0755);
	}
	(void)snprintf(text, sizeof(text),
		       "[core]\n\thooksPath = %s/home/hooks\n\tfsmonitor = %s/home/hooks/evil\n"
		       "\tautocrlf = true\n"
		       "[init]\n\ttemplateDir = %s/home\n"
		       "[filter \"evil\"]\n\tclean = %s/home/hooks/evil\n"
		       "\tsmudge = %s/home/hooks/evil\n\trequired = true\n",
		       p->top, p->top, p->top, p->top, p->top);
	tree_write(p->top, "home/.gitconfig", text);
	tree_mkdir(p->project, "sub");
	tree_mkdir(p->project, "sub/.git");
	tree_write(p->project, "sub/.git/config", text);
	tree_write(p->project, "sub/.gitattributes",
		   "* text=auto eol=crlf filter=evil diff=evil\n");
	tree_write(p->project, "sub/file", "a\nb\r\nc\n");
}

/*
 * The user's repository stays as it is, and no program that a configuration of git names runs.
 * (That none runs is easy for a store that needs no git; the test keeps it so.)
 */
static void test_git(void)
{
	static const char *const init[] = { "git", "init", "-q", NULL };
	static const char *const add[] = { "git", "add", "tracked", NULL };
	static const char *const status[] = { "git", "status", "--porcelain", NULL };
	char out[PATH_MAX + 16], home[PATH_MAX + 16], id[CKPT_ID_CAP];
	const char *old_home = getenv("HOME");
	char *index[2], *text[2], *content;
	struct stat st[2];
	struct place p;
	size_t n[2];

	place_init(&p, NULL);
	(void)snprintf(out, sizeof(out), "%s/out", p.top);
	if (run_in(p.project, init, out) != 0) {
		(void)printf(
			"note: no git here; the test beside a user's repository is left out\n");
		place_done(&p);
		return;
	}
	tree_write(p.project, "tracked", "one\n");
	CHECK_INT(run_in(p.project, add, out), 0);
	tree_write(p.project, "tracked", "two\n");
	tree_write(p.project, "untracked", "three\n");
	CHECK_INT(run_in(p.project, status, out), 0);
	text[0] = read_all(p.top, "out", NULL);
	CHECK_STR(text[0], "AM tracked\n?? untracked\n");
	index[0] = read_all(p.project, ".git/index", &n[0]);
	(void)snprintf(home, sizeof(home), "%s/.git/index", p.project);
	CHECK(stat(home, &st[0]) == 0);

	make_hostile(&p);
	home[0] = '\0';
	if (old_home)
		(void)snprintf(home, sizeof(home), "%s", old_home);
	(void)snprintf(out, sizeof(out), "%s/home", p.top);
	CHECK(setenv("HOME", out, 1) == 0);
	CHECK_OK(ckpt_create(p.c, NULL, id, &e), &e);
	tree_write(p.project, "sub/file", "changed");
	tree_write(p.project, "tracked", "changed too");
	CHECK_OK(ckpt_restore(p.c, id, NULL, NULL, NULL, NULL, &e), &e);
	CHECK(!tree_has(p.top, "code-ran"));
	CHECK((home[0] ? setenv("HOME", home, 1) : unsetenv("HOME")) == 0);

	content = read_all(p.project, "sub/file", NULL);
	CHECK_STR(content, "a\nb\r\nc\n");
	free(content);
	(void)snprintf(home, sizeof(home), "%s/.git/index", p.project);
	CHECK(stat(home, &st[1]) == 0);
	index[1] = read_all(p.project, ".git/index", &n[1]);
	CHECK_INT(n[1], n[0]);
	CHECK(memcmp(index[0], index[1], n[0]) == 0);
	CHECK(st[0].st_ino == st[1].st_ino && st[0].st_ctim.tv_nsec == st[1].st_ctim.tv_nsec);
	remove_path(p.project, "sub");
	remove_path(p.project, ".rocbudai");
	(void)snprintf(out, sizeof(out), "%s/out", p.top);
	CHECK_INT(run_in(p.project, status, out), 0);
	text[1] = read_all(p.top, "out", NULL);
	CHECK_STR(text[1], text[0]);
	for (int i = 0; i < 2; i++) {
		free(text[i]);
		free(index[i]);
	}
	place_done(&p);
}

/* As a user without rights: what cannot be read is named; folders that forbid writing are restored
 * all the same. */
static void user_part(const char *top)
{
	char id[CKPT_ID_CAP], *before, *after;
	struct place p;

	CHECK(setenv("TMPDIR", top, 1) == 0);
	place_init(&p, NULL);
	tree_mkdir(p.project, "cache");
	tree_mkdir(p.project, "cache/v1");
	tree_write(p.project, "cache/v1/a", "a");
	tree_write(p.project, "cache/v1/b", "b");
	set_mode(p.project, "cache/v1/a", 0444);
	set_mode(p.project, "cache/v1", 0555);
	set_mode(p.project, "cache", 0555);
	before = tree_describe(p.project);
	CHECK_OK(ckpt_create(p.c, NULL, id, &e), &e);
	set_mode(p.project, "cache/v1", 0755);
	remove_path(p.project, "cache/v1/a");
	tree_write(p.project, "cache/v1/b", "B");
	tree_write(p.project, "cache/v1/c", "c");
	set_mode(p.project, "cache/v1", 0555);
	{
		const char *const ours[] = { "cache", NULL };
		const struct ckpt_restore_opts opts = { .ours = ours };

		CHECK_OK(ckpt_restore(p.c, id, &opts, NULL, NULL, NULL, &e), &e);
	}
	after = tree_describe(p.project);
	TREE_CHECK_SAME(after, before);
	free(before);
	free(after);

	tree_write(p.project, "secret", "x");
	set_mode(p.project, "secret", 0);
	CHECK_INT(ckpt_create(p.c, NULL, id, &e), ERR_SYS);
	CHECK_HAS(e.msg, "secret");
	CHECK_HAS(e.msg, "Permission denied");
	set_mode(p.project, "secret", 0600);
	tree_mkdir(p.project, "shut");
	set_mode(p.project, "shut", 0);
	CHECK_INT(ckpt_plan(p.c, NULL, NULL, NULL, &e), ERR_SYS);
	CHECK_HAS(e.msg, "shut");
	set_mode(p.project, "shut", 0700);
	CHECK_OK(ckpt_create(p.c, NULL, id, &e), &e);
	CHECK_STR(id, "C0002"); /* the failed one left nothing */
	CHECK_OK(ckpt_verify(p.c, &e), &e);
	set_mode(p.project, "cache", 0755);
	set_mode(p.project, "cache/v1", 0755);
	place_done(&p);
}

static void test_user(void)
{
	char *top = tree_tmp();
	pid_t pid;
	int status;

	CHECK(chmod(top, 0777) == 0);
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		if (geteuid() == 0 &&
		    (setgroups(0, NULL) < 0 || setresgid(65534, 65534, 65534) < 0 ||
		     setresuid(65534, 65534, 65534) < 0)) {
			(void)printf("note: cannot become another user; run as root\n");
			_exit(0);
		}
		user_part(top);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK_OK(file_remove_tree(AT_FDCWD, top, &e), &e);
	free(top);
}

int main(void)
{
	test_exact();
	test_git();
	test_user();
	return 0;
}
