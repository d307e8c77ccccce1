/* Full disks and mounts, on small file systems of our own. */
#include <sched.h>
#include <sys/mount.h>

#include "ckpttest.h"

static void mount_small(const char *dir, const char *size)
{
	char opts[32];

	(void)snprintf(opts, sizeof(opts), "size=%s", size);
	CHECK(mount("none", dir, "tmpfs", 0, opts) == 0);
}

static void fill(const char *dir, const char *name, size_t n)
{
	char *block = malloc(n);

	CHECK(block);
	for (size_t i = 0; i < n; i++)
		block[i] = (char)((i * 2654435761U + strlen(name)) >> 11);
	tree_write_n(dir, name, block, n);
	free(block);
}

static void test_full_store(void)
{
	char id[CKPT_ID_CAP];
	struct place p;

	place_init(&p, NULL);
	ckpt_close(p.c);
	p.c = NULL;
	mount_small(p.state, "512k");
	place_reopen(&p, NULL);
	tree_write(p.project, "a", "a");
	CHECK_OK(ckpt_create(p.c, NULL, id, &e), &e);
	fill(p.project, "large", 2 << 20);
	CHECK_INT(ckpt_create(p.c, NULL, id, &e), ERR_SYS);
	CHECK_HAS(e.msg, "No space left");
	CHECK_HAS(e.msg, p.state);
	CHECK_OK(ckpt_verify(p.c, &e), &e);
	CHECK(!tree_has(p.state, "ckpt/packs/new.tmp"));
	remove_path(p.project, "large");
	tree_write(p.project, "a", "b");
	CHECK_OK(ckpt_create(p.c, NULL, id, &e), &e);
	CHECK_STR(id, "C0002");
	CHECK_OK(ckpt_restore(p.c, "C0001", NULL, NULL, NULL, NULL, &e), &e);
	ckpt_close(p.c);
	p.c = NULL;
	CHECK(umount2(p.state, MNT_DETACH) == 0);
	place_done(&p);
}

static void test_full_project(void)
{
	char id[CKPT_ID_CAP];
	char *text[2], *now;
	struct ckpt_switch *sw = NULL;
	struct place p;
	int side;

	place_init(&p, NULL);
	ckpt_close(p.c);
	p.c = NULL;
	mount_small(p.project, "2m");
	place_reopen(&p, NULL);
	fill(p.project, "large", 900000);
	tree_write(p.project, "small", "1");
	CHECK_OK(ckpt_create(p.c, NULL, id, &e), &e);
	text[0] = tree_describe(p.project);
	fill(p.project, "other", 800000);
	tree_write(p.project, "large", "gone");
	tree_write(p.project, "small", "2");
	CHECK_OK(ckpt_create(p.c, NULL, id, &e), &e);
	fill(p.project, "the rest", 800000);
	text[1] = tree_describe(p.project);
	/* no room beside the tree: nothing is touched */
	CHECK_INT(ckpt_restore(p.c, "C0001", NULL, NULL, NULL, NULL, &e), ERR_SYS);
	CHECK_HAS(e.msg, "No space left");
	now = tree_describe(p.project);
	TREE_CHECK_SAME(now, text[1]);
	free(now);
	CHECK(!tree_has(p.project, ".rocbudai/restore"));
	CHECK_INT(ckpt_switch_open(p.c, "C0001", "C0002", &sw, &side, &e), ERR_SYS);
	CHECK_HAS(e.msg, "No space left");
	CHECK(!tree_has(p.project, ".rocbudai/stage") && !tree_has(p.state, "ckpt/switch"));
	remove_path(p.project, "the rest");
	CHECK_OK(ckpt_restore(p.c, "C0001", NULL, NULL, NULL, NULL, &e), &e);
	now = tree_describe(p.project);
	TREE_CHECK_SAME(now, text[0]);
	free(now);
	free(text[0]);
	free(text[1]);
	ckpt_close(p.c);
	p.c = NULL;
	CHECK(umount2(p.project, MNT_DETACH) == 0);
	place_done(&p);
}

static void see_mount(void *arg, const char *path, enum ckpt_reason why, uint64_t size_bytes)
{
	(void)size_bytes;
	if (why == CKPT_WHY_MOUNT)
		(void)snprintf(arg, 64, "%s", path);
}

/* What is mounted below the project is named, not covered, and survives a restoration. */
static void test_mounts(void)
{
	char id[CKPT_ID_CAP], seen[64] = "", dir[2 * PATH_MAX], from[2 * PATH_MAX];
	struct ckpt_restore_opts del = { .policy = CKPT_DELETE };
	struct place p;

	place_init(&p, NULL);
	tree_mkdir(p.project, "mnt");
	tree_write(p.project, "f", "1");
	(void)snprintf(dir, sizeof(dir), "%s/mnt", p.project);
	mount_small(dir, "1m");
	tree_write(p.project, "mnt/other", "theirs");
	CHECK_OK(ckpt_plan(p.c, see_mount, seen, NULL, &e), &e);
	CHECK_STR(seen, "mnt");
	CHECK_OK(ckpt_create(p.c, NULL, id, &e), &e);
	tree_write(p.project, "mnt/other", "changed");
	tree_write(p.project, "mnt/more", "more");
	tree_write(p.project, "f", "2");
	CHECK_OK(ckpt_restore(p.c, id, &del, NULL, NULL, NULL, &e), &e);
	CHECK(tree_has(p.project, "mnt/more"));
	CHECK(umount2(dir, MNT_DETACH) == 0);
	/* a bind mount has the same device number */
	tree_mkdir(p.top, "elsewhere");
	tree_write(p.top, "elsewhere/precious", "p");
	(void)snprintf(from, sizeof(from), "%s/elsewhere", p.top);
	CHECK(mount(from, dir, NULL, MS_BIND, NULL) == 0);
	seen[0] = '\0';
	CHECK_OK(ckpt_plan(p.c, see_mount, seen, NULL, &e), &e);
	CHECK_STR(seen, "mnt");
	CHECK_OK(ckpt_restore(p.c, id, &del, NULL, NULL, NULL, &e), &e);
	CHECK(tree_has(p.top, "elsewhere/precious"));
	CHECK(umount2(dir, MNT_DETACH) == 0);
	place_done(&p);
}

/* Our own folder on another file system: nothing can be renamed out of it. */
static void test_stage_elsewhere(void)
{
	char id[2][CKPT_ID_CAP], dir[2 * PATH_MAX];
	char *text, *now;
	struct ckpt_switch *sw = NULL;
	struct place p;
	int side;

	place_init(&p, NULL);
	tree_mkdir(p.project, ".rocbudai");
	(void)snprintf(dir, sizeof(dir), "%s/.rocbudai", p.project);
	mount_small(dir, "1m");
	tree_mkdir(p.project, "d");
	tree_write(p.project, "d/f", "1");
	make_link(p.project, "d/l", "f");
	set_mode(p.project, "d/f", 0640);
	text = tree_describe(p.project);
	CHECK_OK(ckpt_create(p.c, NULL, id[0], &e), &e);
	remove_path(p.project, "d");
	tree_write(p.project, "other", "2");
	CHECK_OK(ckpt_create(p.c, NULL, id[1], &e), &e);
	CHECK_OK(ckpt_restore(p.c, id[0], NULL, NULL, NULL, NULL, &e), &e);
	now = tree_describe(p.project);
	TREE_CHECK_SAME(now, text);
	free(now);
	free(text);
	CHECK_INT(ckpt_switch_open(p.c, id[0], id[1], &sw, &side, &e), ERR_SYS);
	CHECK_HAS(e.msg, "another file system");
	CHECK_OK(ckpt_create(p.c, NULL, id[1], &e), &e); /* nothing was left open */
	CHECK(umount2(dir, MNT_DETACH) == 0);
	place_done(&p);
}

int main(void)
{
	/* a name space of our own, so that nothing stays mounted whatever happens */
	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		CHECK_SKIP("no right to mount a small file system");
	test_full_store();
	test_full_project();
	test_mounts();
	test_stage_elsewhere();
	return 0;
}
