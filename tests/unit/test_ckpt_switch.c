/* Two states of one tree in turns. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "ckpttest.h"

static struct timespec mtime_of(const char *dir, const char *path, ino_t *ino)
{
	char full[2 * PATH_MAX];
	struct stat st;

	(void)snprintf(full, sizeof(full), "%s/%s", dir, path);
	CHECK(lstat(full, &st) == 0);
	*ino = st.st_ino;
	return st.st_mtim;
}

static char *content_of(const struct place *p, const char *path)
{
	char full[2 * PATH_MAX];
	char *text;

	(void)snprintf(full, sizeof(full), "%s/%s", p->project, path);
	CHECK_OK(file_read(AT_FDCWD, full, 1 << 20, &text, NULL, &e), &e);
	return text;
}

#define CHECK_CONTENT(p, path, want)                                                               \
	do {                                                                                       \
		char *text_ = content_of(p, path);                                                 \
		CHECK_STR(text_, want);                                                            \
		free(text_);                                                                       \
	} while (0)

/* Differences of every kind; the tree is left at b. */
static void make_two(struct place *p, char a[CKPT_ID_CAP], char b[CKPT_ID_CAP], char *text[2])
{
	const char *d = p->project;

	place_init(p, NULL);
	tree_write(d, "same", "same");
	tree_write(d, "content", "A");
	tree_write(d, "mode", "m");
	tree_write(d, "time", "t");
	set_mtime(d, "time", 1000, 1);
	tree_write(d, "only a", "A");
	make_link(d, "link", "same");
	make_link(d, "link or file", "same");
	tree_write(d, "file or folder", "A");
	tree_mkdir(d, "folder or file");
	tree_write(d, "folder or file/in", "A");
	tree_mkdir(d, "folder of a");
	tree_mkdir(d, "folder of a/deep");
	tree_write(d, "folder of a/deep/in", "A");
	tree_mkdir(d, "locked");
	tree_write(d, "locked/content", "A");
	set_mode(d, "locked", 0555);
	set_mtime(d, "content", 2000, 2);
	set_mtime(d, "folder of a/deep", 3000, 3);
	text[0] = tree_describe(d);
	CHECK_OK(ckpt_create(p->c, "a", a, &e), &e);

	tree_write(d, "content", "B");
	set_mtime(d, "content", 2001, 2);
	set_mode(d, "mode", 0755);
	set_mtime(d, "time", 1001, 1);
	remove_path(d, "only a");
	tree_write(d, "only b", "B");
	remove_path(d, "link");
	make_link(d, "link", "content");
	remove_path(d, "link or file");
	tree_write(d, "link or file", "B");
	remove_path(d, "file or folder");
	tree_mkdir(d, "file or folder");
	tree_write(d, "file or folder/in", "B");
	remove_path(d, "folder or file");
	tree_write(d, "folder or file", "B");
	remove_path(d, "folder of a");
	tree_mkdir(d, "folder of b");
	set_mode(d, "folder of b", 0700);
	set_mode(d, "locked", 0755);
	tree_write(d, "locked/content", "B");
	set_mode(d, "locked", 0555);
	text[1] = tree_describe(d);
	CHECK_OK(ckpt_create(p->c, "b", b, &e), &e);
}

static void check_at(const struct place *p, const char *want)
{
	char *now = tree_describe(p->project);

	TREE_CHECK_SAME(now, want);
	free(now);
}

static void done_two(struct place *p, char *text[2])
{
	free(text[0]);
	free(text[1]);
	set_mode(p->project, "locked", 0755);
	place_done(p);
}

static void test_flips(void)
{
	char a[CKPT_ID_CAP], b[CKPT_ID_CAP], id[CKPT_ID_CAP];
	char *text[2];
	ino_t same[2], content[2], now;
	struct ckpt_switch *sw;
	struct place p;
	int side;

	make_two(&p, a, b, text);
	(void)mtime_of(p.project, "same", &same[0]);
	CHECK_OK(ckpt_switch_open(p.c, a, b, &sw, &side, &e), &e);
	CHECK_INT(side, 1);
	CHECK(ckpt_switch_count(sw) > 8);
	CHECK_INT(ckpt_create(p.c, NULL, id, &e), ERR_BUSY);
	CHECK_INT(ckpt_restore(p.c, a, NULL, NULL, NULL, NULL, &e), ERR_BUSY);
	CHECK_INT(ckpt_gc(p.c, NULL, NULL, &e), ERR_BUSY);
	{
		struct ckpt_switch *second = NULL;

		CHECK_INT(ckpt_switch_open(p.c, a, b, &second, &side, &e), ERR_BUSY);
	}
	for (int i = 0; i < 100; i++) {
		int to = i % 2;
		struct timespec t;

		CHECK_OK(ckpt_switch_to(sw, to, &e), &e);
		CHECK_OK(ckpt_switch_to(sw, to, &e), &e); /* again: nothing to do */
		if (i < 4 || i > 95)
			check_at(&p, text[to]);
		t = mtime_of(p.project, "content", &now);
		CHECK_INT(t.tv_sec, 2000 + to);
		if (i < 2)
			content[to] = now;
		CHECK(content[to] == now); /* moved, never copied */
		(void)mtime_of(p.project, "same", &same[1]);
		CHECK(same[0] == same[1]);
	}
	CHECK(content[0] != content[1]);
	CHECK_INT(ckpt_switch_to(sw, 2, &e), ERR_INVALID);
	CHECK_OK(ckpt_switch_close(sw, 0, &e), &e);
	check_at(&p, text[0]);
	CHECK(!tree_has(p.project, ".rocbudai/stage"));
	CHECK(!tree_has(p.state, "ckpt/switch"));
	/* from the other side, and left at once */
	CHECK_OK(ckpt_switch_open(p.c, a, b, &sw, &side, &e), &e);
	CHECK_INT(side, 0);
	CHECK_OK(ckpt_switch_close(sw, 1, &e), &e);
	check_at(&p, text[1]);
	CHECK_OK(ckpt_switch_close(NULL, 0, &e), &e);
	done_two(&p, text);
}

/* What programs write, remove and make between the flips. */
static void test_programs_work(void)
{
	char a[CKPT_ID_CAP], b[CKPT_ID_CAP];
	char *text[2], *saved;
	struct ckpt_switch *sw;
	struct place p;
	int side;

	make_two(&p, a, b, text);
	CHECK_OK(ckpt_switch_open(p.c, a, b, &sw, &side, &e), &e);
	tree_write(p.project, "results", "by b");	       /* in neither */
	tree_write(p.project, "content", "B, by the program"); /* in both */
	remove_path(p.project, "link or file");
	CHECK_OK(ckpt_switch_to(sw, 0, &e), &e);
	CHECK_CONTENT(&p, "results", "by b");
	CHECK_CONTENT(&p, "content", "A");
	tree_write(p.project, "only b", "made by a, too");
	tree_write(p.project, "folder of a/more", "keeps the folder");
	CHECK_OK(ckpt_switch_to(sw, 1, &e), &e);
	CHECK_CONTENT(&p, "only b", "B");
	CHECK_CONTENT(&p, "link or file", "B"); /* removed by the program, made anew */
	CHECK_CONTENT(&p, "content", "B, by the program");
	CHECK_CONTENT(&p, "folder of a/more", "keeps the folder");
	CHECK_OK(ckpt_switch_to(sw, 0, &e), &e);
	CHECK_CONTENT(&p, "only b", "made by a, too");
	CHECK_OK(ckpt_switch_close(sw, 1, &e), &e);
	CHECK_CONTENT(&p, "only b", "B");
	/* what lay at the side that was left, and is in no checkpoint, is saved */
	CHECK_OK(ckpt_read(p.c, "C0003", "only b", 100, &saved, NULL, &e), &e);
	CHECK_STR(saved, "made by a, too");
	free(saved);
	done_two(&p, text);
}

static void test_refusals(void)
{
	char a[CKPT_ID_CAP], b[CKPT_ID_CAP];
	char *text[2];
	struct ckpt_switch *sw = NULL;
	struct place p;
	int side = 7;

	make_two(&p, a, b, text);
	CHECK_INT(ckpt_switch_open(p.c, a, "C0077", &sw, &side, &e), ERR_NOT_FOUND);
	CHECK_INT(ckpt_switch_open(p.c, a, CKPT_LIVE, &sw, &side, &e), ERR_NOT_FOUND);
	tree_write(p.project, "content", "neither");
	CHECK_INT(ckpt_switch_open(p.c, a, b, &sw, &side, &e), ERR_STALE);
	CHECK_HAS(e.msg, "content");
	tree_write(p.project, "content", "A");
	CHECK_INT(ckpt_switch_open(p.c, a, b, &sw, &side, &e), ERR_STALE);
	CHECK_HAS(e.msg, "partly");
	CHECK(!sw && side == 7);
	CHECK(!tree_has(p.project, ".rocbudai/stage"));
	/* a checkpoint with itself: nothing differs */
	CHECK_OK(ckpt_switch_open(p.c, a, a, &sw, &side, &e), &e);
	CHECK_INT(ckpt_switch_count(sw), 0);
	CHECK_OK(ckpt_switch_to(sw, 1, &e), &e);
	CHECK_OK(ckpt_switch_close(sw, 0, &e), &e);
	done_two(&p, text);
}

/* A flip that fails half way: closing brings the tree to the side asked for all the same. */
static void test_failed_flip(void)
{
	char a[CKPT_ID_CAP], b[CKPT_ID_CAP];
	char *text[2];
	struct ckpt_switch *sw;
	struct place p;
	int side;

	make_two(&p, a, b, text);
	CHECK_OK(ckpt_switch_open(p.c, a, b, &sw, &side, &e), &e);
	/* cannot become a file while this is in it */
	tree_write(p.project, "file or folder/mine", "m");
	CHECK_INT(ckpt_switch_to(sw, 0, &e), ERR_SYS);
	CHECK_HAS(e.msg, "file or folder");
	CHECK_INT(ckpt_switch_to(sw, 1, &e), ERR_STALE);
	CHECK_OK(ckpt_switch_close(sw, 1, &e), &e);
	CHECK_CONTENT(&p, "file or folder/mine", "m");
	remove_path(p.project, "file or folder/mine");
	set_mtime(p.project, "file or folder", 0, 0);
	CHECK_OK(ckpt_restore(p.c, b, NULL, NULL, NULL, NULL, &e), &e);
	check_at(&p, text[1]);
	done_two(&p, text);
}

/* A file system that cannot exchange or refuses to: renameat2() with flags fails as on NFS. */
static void deny_exchange(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 0, 3),
		/* the low half of the flags */
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, args[4]) +
				 (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 4 : 0)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { .len = sizeof(code) / sizeof(code[0]), .filter = code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog) < 0) {
		(void)printf("note: no system call filters here; slow exchange left out\n");
		_exit(0);
	}
}

static void test_without_exchange(void)
{
	pid_t pid = fork();
	int status;

	CHECK(pid >= 0);
	if (pid == 0) {
		deny_exchange();
		CHECK(renameat2(AT_FDCWD, "/no/a", AT_FDCWD, "/no/b", RENAME_EXCHANGE) < 0);
		CHECK_INT(errno, EINVAL);
		test_flips();
		test_programs_work();
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
	test_flips();
	test_programs_work();
	test_refusals();
	test_failed_flip();
	test_without_exchange();
	return 0;
}
