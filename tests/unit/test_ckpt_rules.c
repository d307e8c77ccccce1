/* What is covered, what a restoration may remove, and what is said about it. */
#include <time.h>

#include "ckpttest.h"

#define SEEN_MAX 64

/* What a callback was told: "write a", "large big", ... */
struct seen {
	char text[SEEN_MAX][160];
	size_t n;
};

static void see(struct seen *s, const char *word, const char *path)
{
	CHECK(s->n < SEEN_MAX);
	(void)snprintf(s->text[s->n++], sizeof(s->text[0]), "%s %s", word, path);
}

static bool seen_has(const struct seen *s, const char *text)
{
	for (size_t i = 0; i < s->n; i++) {
		if (strcmp(s->text[i], text) == 0)
			return true;
	}
	return false;
}

#define CHECK_SEEN(s, what)                                                                        \
	do {                                                                                       \
		if (!seen_has(s, what)) {                                                          \
			for (size_t i_ = 0; i_ < (s)->n; i_++)                                     \
				(void)fprintf(stderr, "  told: %s\n", (s)->text[i_]);              \
			(void)fprintf(stderr, "%s:%d: not told: %s\n", __FILE__, __LINE__, what);  \
			exit(1);                                                                   \
		}                                                                                  \
	} while (0)

static int see_act(void *arg, enum ckpt_act act, const char *path)
{
	static const char *const words[] = {
		[CKPT_ACT_WRITE] = "write",	[CKPT_ACT_META] = "meta",
		[CKPT_ACT_REMOVE] = "remove",	[CKPT_ACT_KEEP] = "keep",
		[CKPT_ACT_DISCARD] = "discard", [CKPT_ACT_REPLACE] = "replace",
	};

	see(arg, words[act], path);
	return 0;
}

static void see_note(void *arg, const char *path, enum ckpt_reason why, uint64_t size_bytes)
{
	static const char *const words[] = {
		[CKPT_WHY_NONE] = "none",	[CKPT_WHY_EXCLUDED] = "excluded",
		[CKPT_WHY_USER_GIT] = "git",	[CKPT_WHY_SIZE] = "size",
		[CKPT_WHY_SPECIAL] = "special", [CKPT_WHY_MOUNT] = "mount",
		[CKPT_WHY_HARDLINK] = "links",	[CKPT_WHY_CHANGING] = "changing",
	};

	(void)size_bytes;
	CHECK(strlen(ckpt_reason_text(why)) > 5);
	see(arg, words[why], path);
}

static int see_diff(void *arg, const struct ckpt_diff *d)
{
	static const char *const words[] = {
		[CKPT_ADDED] = "added",
		[CKPT_REMOVED] = "removed",
		[CKPT_CHANGED] = "changed",
		[CKPT_META] = "meta",
	};

	CHECK(d->a || d->b);
	CHECK((d->change == CKPT_ADDED) == !d->a);
	CHECK((d->change == CKPT_REMOVED) == !d->b);
	see(arg, words[d->change], d->a ? d->a->path : d->b->path);
	return 0;
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

static void test_plan(void)
{
	static const char *const exclude[] = { "report.md", "data/raw", NULL };
	struct seen s = { .n = 0 }, s2 = { .n = 0 };
	struct ckpt_opts opts = {
		.exclude = exclude, .file_bytes_max = 1000, .on_note = see_note, .arg = &s2
	};
	char id[CKPT_ID_CAP], from[PATH_MAX], to[PATH_MAX];
	struct ckpt_summary sum;
	char *before, *after;
	static char large[1001];
	struct place p;

	place_init(&p, &opts);
	memset(large, 'x', sizeof(large));
	tree_write_n(p.project, "limit", large, 1000);
	tree_write_n(p.project, "large", large, 1001);
	tree_write(p.project, "report.md", "r");
	tree_mkdir(p.project, "data");
	tree_mkdir(p.project, "data/raw");
	tree_write(p.project, "data/raw/in", "i");
	tree_write(p.project, "data/rawer", "j");
	tree_mkdir(p.project, ".git");
	tree_write(p.project, ".git/config", "c");
	tree_mkdir(p.project, "sub");
	tree_mkdir(p.project, "sub/.git");
	tree_mkdir(p.project, ".rocbudai");
	tree_write(p.project, ".rocbudai/project.yaml", "y");
	tree_write(p.project, ".rocbudai-sessions.json", "{}");
	(void)snprintf(to, sizeof(to), "%.4000s/pipe", p.project);
	CHECK(mkfifo(to, 0600) == 0);
	(void)snprintf(to, sizeof(to), "%.4000s/sock", p.project);
	CHECK(mknod(to, S_IFSOCK | 0600, 0) == 0);
	(void)snprintf(from, sizeof(from), "%.4000s/limit", p.project);
	(void)snprintf(to, sizeof(to), "%.4000s/other name", p.project);
	CHECK(link(from, to) == 0);

	CHECK_OK(ckpt_plan(p.c, see_note, &s, &sum, &e), &e);
	CHECK_SEEN(&s, "size large");
	CHECK_SEEN(&s, "excluded report.md");
	CHECK_SEEN(&s, "excluded data/raw");
	CHECK_SEEN(&s, "git .git");
	CHECK_SEEN(&s, "excluded .rocbudai");
	CHECK_SEEN(&s, "excluded .rocbudai-sessions.json");
	CHECK_SEEN(&s, "special pipe");
	CHECK_SEEN(&s, "special sock");
	CHECK_SEEN(&s, "links limit");
	CHECK_SEEN(&s, "links other name");
	CHECK_INT(s.n, 10);
	CHECK_INT(sum.n_files, 3);
	CHECK_INT(sum.n_dirs, 3);
	CHECK_INT(sum.n_uncovered, 8);
	CHECK_INT(sum.total_bytes, 2001);

	/* what is not covered is never touched */
	CHECK_OK(ckpt_create(p.c, NULL, id, &e), &e);
	CHECK_INT(s2.n, 10);
	tree_write(p.project, "large", "now small, but unknown");
	tree_write(p.project, "data/raw/in", "changed");
	tree_write(p.project, "report.md", "changed");
	tree_write(p.project, ".git/config", "changed");
	remove_path(p.project, "pipe");
	tree_write(p.project, "pipe", "a file now");
	before = tree_describe(p.project);
	{
		const char *const ours[] = { "data", NULL };
		const struct ckpt_restore_opts ro = { .policy = CKPT_DELETE, .ours = ours };
		struct ckpt_restored res;

		CHECK_OK(ckpt_restore(p.c, id, &ro, NULL, NULL, &res, &e), &e);
		CHECK_INT(res.n_written + res.n_removed + res.n_discarded + res.n_replaced, 0);
	}
	after = tree_describe(p.project);
	TREE_CHECK_SAME(after, before);
	CHECK_CONTENT(&p, ".git/config", "changed");
	free(before);
	free(after);

	/* the total, too, has a limit, which is named */
	opts.total_bytes_max = 1500;
	place_reopen(&p, &opts);
	CHECK_INT(ckpt_plan(p.c, NULL, NULL, &sum, &e), ERR_LIMIT);
	CHECK_HAS(e.msg, "1500");
	CHECK_INT(ckpt_create(p.c, NULL, id, &e), ERR_LIMIT);
	CHECK_HAS(e.msg, "1500");
	place_done(&p);
}

static void test_exclude_is_checked(void)
{
	static const char *const bad[] = { "../other", NULL };
	static const struct ckpt_opts opts = { .exclude = bad };
	struct place p;
	struct ckpt *c = NULL;

	place_init(&p, NULL);
	ckpt_close(p.c);
	p.c = NULL;
	CHECK_INT(ckpt_open(p.state, p.project, &opts, &c, &e), ERR_INVALID);
	CHECK_HAS(e.msg, "../other");
	CHECK(!c);
	CHECK_INT(ckpt_open(p.state, "/no/such/folder", NULL, &c, &e), ERR_SYS);
	CHECK_HAS(e.msg, "/no/such/folder");
	place_done(&p);
}

static void test_one_at_a_time(void)
{
	struct ckpt *c = NULL;
	struct place p;

	place_init(&p, NULL);
	CHECK_INT(ckpt_open(p.state, p.project, NULL, &c, &e), ERR_BUSY);
	CHECK_HAS(e.msg, "another program");
	place_done(&p);
}

/* A user works in the tree while we do. */
static void test_unknown_is_kept(void)
{
	struct seen s = { .n = 0 };
	struct ckpt_restored res;
	char id[CKPT_ID_CAP], later[CKPT_ID_CAP];
	struct place p;

	place_init(&p, NULL);
	tree_write(p.project, "main.c", "one");
	tree_mkdir(p.project, "src");
	CHECK_OK(ckpt_create(p.c, NULL, id, &e), &e);
	tree_write(p.project, "main.o", "built");
	tree_mkdir(p.project, "build");
	tree_write(p.project, "build/prog", "built");
	CHECK_OK(ckpt_create(p.c, NULL, later, &e), &e);
	/* since then, by the user */
	tree_write(p.project, "notes", "mine");
	tree_write(p.project, "src/new.c", "mine");
	tree_write(p.project, "build/mine", "mine");
	tree_mkdir(p.project, "my empty");
	tree_write(p.project, "main.c", "edited by the user");

	CHECK_OK(ckpt_restore_preview(p.c, id, NULL, see_act, &s, &e), &e);
	CHECK_SEEN(&s, "keep notes");
	CHECK_SEEN(&s, "keep src/new.c");
	CHECK_SEEN(&s, "keep build/mine");
	CHECK_SEEN(&s, "keep my empty");
	CHECK_SEEN(&s, "replace main.c");
	CHECK_SEEN(&s, "remove main.o");
	CHECK_SEEN(&s, "remove build/prog");
	CHECK_INT(s.n, 7);
	CHECK_OK(ckpt_restore(p.c, id, NULL, NULL, NULL, &res, &e), &e);
	CHECK_INT(res.n_kept, 4);
	CHECK_INT(res.n_replaced, 1);
	CHECK_INT(res.n_removed, 2);
	CHECK_CONTENT(&p, "notes", "mine");
	CHECK_CONTENT(&p, "src/new.c", "mine");
	CHECK_CONTENT(&p, "build/mine", "mine");
	CHECK_CONTENT(&p, "main.c", "one");
	CHECK(tree_has(p.project, "my empty"));
	CHECK(!tree_has(p.project, "main.o") && !tree_has(p.project, "build/prog"));
	{
		char *text;

		/* and what was edited is not lost */
		CHECK_STR(res.saved_id, "C0003");
		CHECK_OK(ckpt_read(p.c, res.saved_id, "main.c", 1000, &text, NULL, &e), &e);
		CHECK_STR(text, "edited by the user");
		free(text);
		CHECK_INT(ckpt_read(p.c, res.saved_id, "notes", 1000, &text, NULL, &e),
			  ERR_NOT_FOUND);
		CHECK_INT(ckpt_read(p.c, res.saved_id, "main.c", 5, &text, NULL, &e), ERR_LIMIT);
		/* it is no state of the tree to come back to */
		CHECK_INT(ckpt_restore(p.c, res.saved_id, NULL, NULL, NULL, NULL, &e), ERR_REFUSED);
	}
	place_done(&p);
}

static void test_consent_and_ours(void)
{
	static const char *const ours[] = { "build", "main.o", NULL };
	struct ckpt_restore_opts opts = { .ours = ours };
	struct ckpt_restored res;
	char id[CKPT_ID_CAP], *text;
	struct place p;

	place_init(&p, NULL);
	tree_write(p.project, "main.c", "one");
	CHECK_OK(ckpt_create(p.c, NULL, id, &e), &e);
	tree_mkdir(p.project, "build");
	tree_write(p.project, "build/prog", "built");
	tree_write(p.project, "main.o", "built");
	tree_write(p.project, "main.objection", "the user's");
	tree_mkdir(p.project, "d");
	tree_write(p.project, "d/notes", "mine");
	CHECK_OK(ckpt_restore(p.c, id, &opts, NULL, NULL, &res, &e), &e);
	CHECK(!tree_has(p.project, "build") && !tree_has(p.project, "main.o"));
	CHECK(tree_has(p.project, "main.objection") && tree_has(p.project, "d/notes"));
	CHECK_STR(res.saved_id, ""); /* what is ours is not saved */

	opts.policy = CKPT_DELETE;
	CHECK_OK(ckpt_restore(p.c, id, &opts, NULL, NULL, &res, &e), &e);
	CHECK_INT(res.n_discarded, 3);
	CHECK(!tree_has(p.project, "main.objection") && !tree_has(p.project, "d"));
	CHECK_OK(ckpt_read(p.c, res.saved_id, "d/notes", 100, &text, NULL, &e), &e);
	CHECK_STR(text, "mine");
	free(text);

	/* made again after that, it is wanted: what was saved is no reason to remove it */
	tree_mkdir(p.project, "d");
	tree_write(p.project, "d/notes", "mine");
	CHECK_OK(ckpt_restore(p.c, id, NULL, NULL, NULL, &res, &e), &e);
	CHECK_INT(res.n_kept, 1);
	CHECK(tree_has(p.project, "d/notes"));
	place_done(&p);
}

static void test_in_the_way(void)
{
	struct ckpt_restore_opts del = { .policy = CKPT_DELETE };
	struct ckpt_opts small = { .file_bytes_max = 100 };
	static char large[200];
	char id[CKPT_ID_CAP];
	char *before, *after;
	struct place p;

	place_init(&p, &small);
	tree_write(p.project, "x", "file");
	tree_mkdir(p.project, "y");
	tree_write(p.project, "y/in", "in");
	tree_write(p.project, "z", "small");
	CHECK_OK(ckpt_create(p.c, NULL, id, &e), &e);

	remove_path(p.project, "x");
	tree_mkdir(p.project, "x");
	tree_write(p.project, "x/mine", "m");
	before = tree_describe(p.project);
	CHECK_INT(ckpt_restore(p.c, id, NULL, NULL, NULL, NULL, &e), ERR_REFUSED);
	CHECK_HAS(e.msg, "x");
	after = tree_describe(p.project);
	TREE_CHECK_SAME(after, before);
	free(before);
	free(after);
	CHECK_OK(ckpt_restore(p.c, id, &del, NULL, NULL, NULL, &e), &e);
	CHECK_CONTENT(&p, "x", "file");

	remove_path(p.project, "y");
	tree_write(p.project, "y", "a file of the user's");
	CHECK_INT(ckpt_restore(p.c, id, NULL, NULL, NULL, NULL, &e), ERR_REFUSED);
	CHECK_HAS(e.msg, "y: ");
	CHECK_CONTENT(&p, "y", "a file of the user's");
	CHECK_OK(ckpt_restore(p.c, id, &del, NULL, NULL, NULL, &e), &e);
	CHECK_CONTENT(&p, "y/in", "in");

	/* grown beyond the limit: it could not be saved */
	memset(large, 'l', sizeof(large));
	tree_write_n(p.project, "z", large, sizeof(large));
	CHECK_INT(ckpt_restore(p.c, id, NULL, NULL, NULL, NULL, &e), ERR_REFUSED);
	CHECK_HAS(e.msg, "z: ");
	CHECK_OK(ckpt_restore(p.c, id, &del, NULL, NULL, NULL, &e), &e);
	CHECK_CONTENT(&p, "z", "small");
	place_done(&p);
}

/* A build turns a folder into a link out of the project: nothing behind it is touched. */
static void test_links_are_not_followed(void)
{
	char id[CKPT_ID_CAP], outside[PATH_MAX];
	struct ckpt_restore_opts del = { .policy = CKPT_DELETE };
	struct place p;

	place_init(&p, NULL);
	tree_mkdir(p.project, "out");
	tree_write(p.project, "out/a", "a");
	tree_write(p.project, "out/b", "b");
	tree_mkdir(p.top, "elsewhere");
	tree_write(p.top, "elsewhere/a", "precious");
	tree_write(p.top, "elsewhere/c", "precious");
	CHECK_OK(ckpt_create(p.c, NULL, id, &e), &e);
	remove_path(p.project, "out");
	(void)snprintf(outside, sizeof(outside), "%s/elsewhere", p.top);
	make_link(p.project, "out", outside);
	CHECK_OK(ckpt_restore(p.c, id, &del, NULL, NULL, NULL, &e), &e);
	CHECK_CONTENT(&p, "out/a", "a");
	CHECK(tree_has(p.top, "elsewhere/c") && !tree_has(p.top, "elsewhere/b"));
	CHECK_CONTENT(&p, "../elsewhere/a", "precious");
	/* our own folder may not be one either: the stage would lie elsewhere */
	remove_path(p.project, ".rocbudai");
	make_link(p.project, ".rocbudai", outside);
	tree_write(p.project, "out/a", "A");
	CHECK(ckpt_restore(p.c, id, &del, NULL, NULL, NULL, &e) < 0);
	CHECK_HAS(e.msg, ".rocbudai");
	CHECK_CONTENT(&p, "out/a", "A");
	place_done(&p);
}

static void test_diff_and_hash(void)
{
	const char *const sub[] = { "src", "gone" };
	struct seen s = { .n = 0 };
	char a[CKPT_ID_CAP], b[CKPT_ID_CAP];
	char h1[65], h2[65], h3[65];
	struct place p;

	place_init(&p, NULL);
	tree_mkdir(p.project, "src");
	tree_write(p.project, "src/a", "1");
	tree_write(p.project, "src/b", "2");
	tree_write(p.project, "gone", "3");
	tree_write(p.project, "same", "4");
	tree_write(p.project, "type", "5");
	CHECK_OK(ckpt_create(p.c, NULL, a, &e), &e);
	CHECK_OK(ckpt_hash_subset(p.c, a, sub, 2, h1, &e), &e);
	CHECK_OK(ckpt_hash_subset(p.c, CKPT_LIVE, sub, 2, h2, &e), &e);
	CHECK_STR(h2, h1);
	set_mtime(p.project, "src/b", 5, 5);
	CHECK_OK(ckpt_hash_subset(p.c, CKPT_LIVE, sub, 2, h2, &e), &e);
	CHECK_STR(h2, h1); /* times are no content */
	CHECK_OK(ckpt_hash_subset(p.c, a, NULL, 0, h3, &e), &e);
	CHECK(strcmp(h3, h1) != 0);
	CHECK_INT(ckpt_hash_subset(p.c, a, (const char *const[]){ "none" }, 1, h3, &e),
		  ERR_NOT_FOUND);
	CHECK_HAS(e.msg, "none");

	tree_write(p.project, "src/a", "I");
	remove_path(p.project, "gone");
	remove_path(p.project, "type");
	make_link(p.project, "type", "same");
	tree_write(p.project, "new", "n");
	CHECK_OK(ckpt_hash_subset(p.c, CKPT_LIVE, sub, 1, h2, &e), &e);
	CHECK(strcmp(h2, h1) != 0);
	CHECK_OK(ckpt_create(p.c, NULL, b, &e), &e);
	for (int i = 0; i < 2; i++) {
		s.n = 0;
		CHECK_OK(ckpt_diff(p.c, a, i ? CKPT_LIVE : b, see_diff, &s, &e), &e);
		CHECK_SEEN(&s, "changed src/a");
		CHECK_SEEN(&s, "meta src/b");
		CHECK_SEEN(&s, "removed gone");
		CHECK_SEEN(&s, "changed type");
		CHECK_SEEN(&s, "added new");
		CHECK_INT(s.n, 5);
	}
	s.n = 0;
	CHECK_OK(ckpt_diff(p.c, b, CKPT_LIVE, see_diff, &s, &e), &e);
	CHECK_INT(s.n, 0);
	CHECK_INT(ckpt_diff(p.c, a, "C0009", see_diff, &s, &e), ERR_NOT_FOUND);
	CHECK_INT(ckpt_diff(p.c, a, "../../etc", see_diff, &s, &e), ERR_NOT_FOUND);
	place_done(&p);
}

/* Bytes that this process has read with read() and the like; 0 where the kernel does not count. */
static unsigned long long bytes_read(void)
{
	char line[64] = "";
	FILE *f = fopen("/proc/self/io", "re");

	if (!f)
		return 0;
	if (!fgets(line, sizeof(line), f))
		line[0] = '\0';
	CHECK(fclose(f) == 0);
	return strncmp(line, "rchar: ", 7) == 0 ? strtoull(line + 7, NULL, 10) : 0;
}

static void test_unchanged_is_not_read(void)
{
	const struct timespec racy = { .tv_sec = 2, .tv_nsec = 200000000 };
	static char mb[4 << 20];
	unsigned long long before, cost[2];
	char id[CKPT_ID_CAP], path[PATH_MAX], *text;
	struct stat st;
	struct place p;

	place_init(&p, NULL);
	memset(mb, 'a', sizeof(mb));
	tree_write_n(p.project, "mb", mb, sizeof(mb));
	tree_write(p.project, "small", "1");
	set_mtime(p.project, "small", 1000, 0);
	(void)snprintf(path, sizeof(path), "%.4000s/small", p.project);
	CHECK(stat(path, &st) == 0);
	/* fresh files are read each time, since their times do not tell */
	CHECK_OK(ckpt_create(p.c, NULL, id, &e), &e);
	before = bytes_read();
	CHECK_OK(ckpt_create(p.c, NULL, id, &e), &e);
	cost[0] = bytes_read() - before;
	CHECK(clock_nanosleep(CLOCK_MONOTONIC, 0, &racy, NULL) == 0);
	CHECK_OK(ckpt_create(p.c, NULL, id, &e), &e);
	before = bytes_read();
	CHECK_OK(ckpt_create(p.c, NULL, id, &e), &e);
	cost[1] = bytes_read() - before;
	if (before) {
		CHECK(cost[0] >= sizeof(mb));
		CHECK(cost[1] < sizeof(mb));
	}
	/* same size, same mtime, same inode, other content */
	tree_write(p.project, "small", "2");
	set_mtime(p.project, "small", 1000, 0);
	CHECK_OK(ckpt_create(p.c, NULL, id, &e), &e);
	CHECK_OK(ckpt_read(p.c, id, "small", 10, &text, NULL, &e), &e);
	CHECK_STR(text, "2");
	free(text);
	place_done(&p);
}

static int count_info(void *arg, const struct ckpt_info *info)
{
	struct seen *s = arg;

	CHECK(info->created_s > 1600000000);
	CHECK(info->sum.n_files > 0 || info->partial);
	see(s, info->id, info->label);
	return 0;
}

static uint64_t disk_bytes(const char *dir)
{
	uint64_t sum = 0;
	size_t n;
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char **v;

	CHECK(fd >= 0);
	v = tree_names(fd, &n);
	for (size_t i = 0; i < n; i++) {
		struct stat st;

		CHECK(fstatat(fd, v[i], &st, 0) == 0);
		sum += (uint64_t)st.st_size;
		free(v[i]);
	}
	free(v);
	CHECK(close(fd) == 0);
	return sum;
}

static void test_gc(void)
{
	static char block[100000];
	char ids[5][CKPT_ID_CAP], packs[PATH_MAX];
	char *states[5], *now;
	struct seen s = { .n = 0 };
	uint64_t freed = 0, before;
	struct place p;

	place_init(&p, NULL);
	(void)snprintf(packs, sizeof(packs), "%.4000s/ckpt/packs", p.state);
	for (int i = 0; i < 5; i++) {
		char name[16];

		memset(block, 'a' + i, sizeof(block));
		(void)snprintf(name, sizeof(name), "only %d", i);
		tree_write_n(p.project, "each", block, sizeof(block));
		block[0] = '!';
		tree_write_n(p.project, name, block, sizeof(block));
		states[i] = tree_describe(p.project);
		CHECK_OK(ckpt_create(p.c, name, ids[i], &e), &e);
	}
	before = disk_bytes(packs);
	CHECK(before > 10 * sizeof(block));
	CHECK_INT(ckpt_gc(p.c, (const char *const[]){ "C0099", NULL }, NULL, &e), ERR_NOT_FOUND);
	CHECK_INT(disk_bytes(packs), before);
	/* of each pack but the last, one of two contents is needed no more */
	CHECK_OK(ckpt_gc(p.c, (const char *const[]){ ids[1], ids[4], NULL }, &freed, &e), &e);
	CHECK(freed >= 2 * sizeof(block));
	CHECK_INT(before - disk_bytes(packs), freed);
	CHECK_OK(ckpt_list(p.c, count_info, &s, &e), &e);
	CHECK_INT(s.n, 2);
	CHECK_SEEN(&s, "C0002 only 1");
	CHECK_SEEN(&s, "C0005 only 4");
	CHECK_OK(ckpt_verify(p.c, &e), &e);
	place_reopen(&p, NULL);
	CHECK_OK(ckpt_verify(p.c, &e), &e);
	CHECK_OK(ckpt_restore(p.c, ids[1], NULL, NULL, NULL, NULL, &e), &e);
	now = tree_describe(p.project);
	TREE_CHECK_SAME(now, states[1]);
	free(now);
	CHECK_INT(ckpt_restore(p.c, ids[0], NULL, NULL, NULL, NULL, &e), ERR_NOT_FOUND);
	/* numbers are not given twice, not even the last one */
	CHECK_OK(ckpt_gc(p.c, (const char *const[]){ ids[1], NULL }, &freed, &e), &e);
	place_reopen(&p, NULL);
	CHECK_OK(ckpt_create(p.c, NULL, ids[0], &e), &e);
	CHECK_STR(ids[0], "C0006");
	CHECK_OK(ckpt_gc(p.c, NULL, &freed, &e), &e);
	CHECK_INT(disk_bytes(packs), 0);
	for (int i = 0; i < 5; i++)
		free(states[i]);
	place_done(&p);
}

/* Flips one byte in the middle of a file. */
static void damage(const char *dir, const char *name, long at)
{
	char full[2 * PATH_MAX];
	FILE *f;
	int ch;

	(void)snprintf(full, sizeof(full), "%s/%s", dir, name);
	f = fopen(full, "r+e");
	CHECK(f);
	CHECK(fseek(f, at, at < 0 ? SEEK_END : SEEK_SET) == 0);
	ch = fgetc(f);
	CHECK(ch != EOF);
	CHECK(fseek(f, at, at < 0 ? SEEK_END : SEEK_SET) == 0);
	CHECK(fputc(ch ^ 1, f) != EOF);
	CHECK(fclose(f) == 0);
}

static void test_damage(void)
{
	struct ckpt *c = NULL;
	char id[CKPT_ID_CAP];
	struct place p;

	place_init(&p, NULL);
	tree_write(p.project, "victim", "0123456789");
	CHECK_OK(ckpt_create(p.c, NULL, id, &e), &e);
	tree_write(p.project, "victim", "changed by a build");
	damage(p.state, "ckpt/packs/P000001.pack", 12);
	CHECK_INT(ckpt_verify(p.c, &e), ERR_PARSE);
	CHECK_HAS(e.msg, "victim");
	CHECK_HAS(e.msg, id);
	/* a damaged content never gets into the tree */
	CHECK_INT(ckpt_restore(p.c, id, NULL, NULL, NULL, NULL, &e), ERR_PARSE);
	CHECK_HAS(e.msg, "victim");
	CHECK_CONTENT(&p, "victim", "changed by a build");
	CHECK(!tree_has(p.project, ".rocbudai/restore"));
	damage(p.state, "ckpt/packs/P000001.pack", 12);
	CHECK_OK(ckpt_restore(p.c, id, NULL, NULL, NULL, NULL, &e), &e);
	CHECK_CONTENT(&p, "victim", "0123456789");

	damage(p.state, "ckpt/manifests/C0001", 60);
	CHECK_INT(ckpt_restore(p.c, id, NULL, NULL, NULL, NULL, &e), ERR_PARSE);
	CHECK_HAS(e.msg, "manifests/C0001");
	damage(p.state, "ckpt/manifests/C0001", 60);
	/* a damaged index costs time alone */
	tree_write(p.state, "ckpt/index", "rubbish");
	CHECK_OK(ckpt_create(p.c, NULL, id, &e), &e);
	ckpt_close(p.c);
	p.c = NULL;
	damage(p.state, "ckpt/packs/P000001.pack", -3);
	CHECK_INT(ckpt_open(p.state, p.project, NULL, &c, &e), ERR_PARSE);
	CHECK_HAS(e.msg, "P000001.pack");
	damage(p.state, "ckpt/packs/P000001.pack", -3);
	tree_write(p.state, "ckpt/journal", "rubbish");
	CHECK_INT(ckpt_open(p.state, p.project, NULL, &c, &e), ERR_PARSE);
	CHECK_HAS(e.msg, "journal");
	place_done(&p);
}

/* The state folder in the project, as when somebody optimises a whole home folder. */
static void test_state_inside(void)
{
	char id[CKPT_ID_CAP];
	struct seen s = { .n = 0 };
	struct place p;

	place_init(&p, NULL);
	ckpt_close(p.c);
	p.c = NULL;
	(void)snprintf(p.state, sizeof(p.state), "%.4000s/.local/state/x", p.project);
	place_reopen(&p, NULL);
	tree_write(p.project, "f", "1");
	CHECK_OK(ckpt_create(p.c, NULL, id, &e), &e);
	CHECK_OK(ckpt_plan(p.c, see_note, &s, NULL, &e), &e);
	CHECK_SEEN(&s, "excluded .local/state/x/ckpt");
	tree_write(p.project, "f", "2");
	CHECK_OK(ckpt_create(p.c, NULL, id, &e), &e);
	CHECK_OK(ckpt_restore(p.c, "C0001", NULL, NULL, NULL, NULL, &e), &e);
	CHECK_CONTENT(&p, "f", "1");
	CHECK_OK(ckpt_verify(p.c, &e), &e);
	place_done(&p);
}

int main(void)
{
	test_plan();
	test_exclude_is_checked();
	test_one_at_a_time();
	test_unknown_is_kept();
	test_consent_and_ours();
	test_in_the_way();
	test_links_are_not_followed();
	test_diff_and_hash();
	test_unchanged_is_not_read();
	test_gc();
	test_damage();
	test_state_inside();
	return 0;
}
