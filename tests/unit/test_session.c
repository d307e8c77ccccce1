/* Session logs, their names, and the answers of a project. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "base/json.h"
#include "base/yaml.h"
#include "ledger_project.h"
#include "session/answers.h"
#include "session/session.h"

static struct session *must_create(const struct project *p, const char *name)
{
	struct session *s = NULL;
	struct err err = { 0 };

	CHECK_OK(session_create(p->dir, name, &s, &err), &err);
	return s;
}

static int say(struct session *s, enum session_kind kind, const char *text, struct err *err)
{
	AUTO_JSON struct json *d = json_new_obj();

	json_set_str(d, "text", text);
	return session_append(s, kind, d, err);
}

static const char *text_at(const struct session *s, size_t i)
{
	return json_get_str(session_event(s, i), "text", "(none)");
}

static void test_events(void)
{
	struct project p;
	struct session *s, *t = NULL;
	struct err err = { 0 };
	AUTO_JSON struct json *bad = json_new_obj();
	char id[SESSION_ID_CAP];

	project_init(&p);
	CHECK_INT(session_open_last(p.dir, &t, &err), ERR_NOT_FOUND);
	s = must_create(&p, "first \xc3\xa4");
	(void)snprintf(id, sizeof(id), "%s", session_id(s));
	CHECK_INT(strlen(id), 20);
	CHECK_STR(session_name(s), "first \xc3\xa4");
	CHECK_INT(session_event_kind(session_event(s, 0)), SESSION_START);
	for (int k = 0; k < SESSION_N_KINDS; k++) {
		CHECK_OK(
			say(s, (enum session_kind)k, session_kind_name((enum session_kind)k), &err),
			&err);
		CHECK_INT(session_event_kind(session_event(s, 1 + (size_t)k)), k);
	}
	CHECK_OK(session_append(s, SESSION_NUDGE, NULL, &err), &err);
	json_set_str(bad, "kind", "end");
	CHECK_INT(session_append(s, SESSION_USER, bad, &err), ERR_INVALID);
	CHECK_HAS(err.msg, "without t and kind");
	CHECK_INT(session_count(s), SESSION_N_KINDS + 2);
	session_close(s);

	CHECK_OK(session_open_last(p.dir, &t, &err), &err);
	CHECK_STR(session_id(t), id);
	CHECK_INT(session_count(t), SESSION_N_KINDS + 2);
	CHECK_STR(text_at(t, 3), "assistant");
	CHECK_INT(session_n_remarks(t), 0);
	CHECK_OK(say(t, SESSION_USER, "line\nend \xff\x01", &err), &err);
	session_close(t);
	CHECK_OK(session_open_read(p.dir, id, &t, &err), &err);
	CHECK_STR(text_at(t, SESSION_N_KINDS + 2), "line\nend \\xff\x01");
	CHECK_INT(say(t, SESSION_USER, "x", &err), ERR_INVALID);
	CHECK(!session_event(t, session_count(t)));
	session_close(t);
	session_close(NULL);
	CHECK_INT(session_open(p.dir, "../../x", &t, &err), ERR_NOT_FOUND);
	CHECK_INT(session_open(p.dir, "20260101_000000-0000", &t, &err), ERR_NOT_FOUND);
	CHECK_INT(session_create(p.dir, "a\nb", &t, &err), ERR_INVALID);
	CHECK_HAS(err.msg, "control character 0x0a");
	CHECK_INT(session_create(p.dir, "\xff", &t, &err), ERR_INVALID);
	CHECK_HAS(err.msg, "UTF-8");
	project_done(&p);
}

static void test_damage(void)
{
	struct project p;
	struct session *s;
	struct err err = { 0 };
	AUTO_FREE char *path = NULL;
	AUTO_FREE char *text = NULL;
	char id[SESSION_ID_CAP];

	project_init(&p);
	s = must_create(&p, NULL);
	CHECK_OK(say(s, SESSION_USER, "one", &err), &err);
	CHECK_OK(say(s, SESSION_USER, "two", &err), &err);
	CHECK_OK(say(s, SESSION_USER, "three", &err), &err);
	(void)snprintf(id, sizeof(id), "%s", session_id(s));
	path = xstrdup(session_path(s));
	session_close(s);

	/* torn: readers leave it out, a writer cuts it and says so */
	append_text(path, "{\"t\":\"2026");
	CHECK_OK(session_open_read(p.dir, id, &s, &err), &err);
	CHECK_INT(session_count(s), 4);
	CHECK_INT(session_n_remarks(s), 1);
	CHECK_HAS(session_remark(s, 0), ":5: the last line is not whole");
	session_close(s);
	CHECK_OK(session_open(p.dir, id, &s, &err), &err);
	CHECK_INT(session_count(s), 5);
	CHECK_INT(session_event_kind(session_event(s, 4)), SESSION_ERROR);
	CHECK_STR(json_get_str(session_event(s, 4), "what", ""), "torn last line cut");
	CHECK_INT(json_get_int(session_event(s, 4), "line", 0), 5);
	CHECK_OK(say(s, SESSION_USER, "four", &err), &err);
	session_close(s);

	/* in the middle: named by line, the rest is kept, the file is left as it is */
	text = slurp(path);
	*strstr(text, "\"two\"") = '?';
	spew(path, text);
	append_text(path,
		    "{\"t\":\"2026-01-01T00:00:00.000Z\"}\n[1]\n"
		    "{\"t\":\"2026-01-01T00:00:00.000Z\",\"kind\":\"later\",\"text\":\"new\"}\n"
		    "{\"t\":5,\"kind\":\"user\"}\n");
	CHECK_OK(session_open(p.dir, id, &s, &err), &err);
	CHECK_INT(session_count(s), 6);
	CHECK_STR(text_at(s, 1), "one");
	CHECK_STR(text_at(s, 2), "three");
	CHECK_STR(text_at(s, 5), "new");
	CHECK_INT(session_event_kind(session_event(s, 5)), SESSION_N_KINDS);
	CHECK_INT(session_n_remarks(s), 4);
	CHECK_HAS(session_remark(s, 0), ".jsonl:3: not valid JSON");
	CHECK_HAS(session_remark(s, 1), ".jsonl:7: the event has no kind");
	CHECK_HAS(session_remark(s, 2), ".jsonl:8: not an object");
	CHECK_HAS(session_remark(s, 3), ".jsonl:10: t is not");
	/* somebody else writes to it */
	append_text(path, "x\n");
	CHECK_INT(say(s, SESSION_USER, "five", &err), ERR_STALE);
	CHECK_HAS(err.msg, "was changed or removed");
	session_close(s);
	CHECK(unlink(path) == 0 && symlink("/dev/null", path) == 0);
	CHECK_INT(session_open(p.dir, id, &s, &err), ERR_INVALID);
	project_done(&p);
}

static void test_list(void)
{
	struct project p;
	struct session *s[3];
	struct session_info *v = NULL;
	size_t n = 9;
	struct err err = { 0 };
	AUTO_FREE char *names = NULL;
	char *remark = NULL;
	int64_t now = (int64_t)time(NULL);

	project_init(&p);
	names = file_join(p.dir, ".rocbudai-sessions.json");
	CHECK_OK(session_list(p.dir, &v, &n, &remark, &err), &err);
	CHECK(n == 0 && !remark);
	session_list_free(v, n);
	/* an entry of the earlier system, with a key that we do not know */
	spew(names, "{\"ses_abc\":{\"name\":\"old\",\"created\":1.5,\"last_active\":2,\"x\":[1]}}");
	for (int i = 0; i < 3; i++) {
		s[i] = must_create(&p, i == 1 ? NULL : "n");
		(void)poll(NULL, 0, 20); /* coarse time stamps of files */
	}
	CHECK_OK(say(s[0], SESSION_USER, "hello", &err), &err);
	CHECK_OK(session_list(p.dir, &v, &n, &remark, &err), &err);
	CHECK(n == 3 && !remark);
	CHECK_STR(v[0].id, session_id(s[0]));
	CHECK_STR(v[1].id, session_id(s[2]));
	CHECK_STR(v[0].name, "n");
	CHECK_STR(v[2].name, "");
	CHECK(v[0].created_s >= now - 5 && v[0].created_s <= now + 60);
	CHECK(v[0].last_active_s >= now - 5 && v[0].last_active_s <= now + 60);
	session_list_free(v, n);
	CHECK_OK(session_set_name(p.dir, session_id(s[1]), "re\"named", &err), &err);
	CHECK_OK(session_set_name(p.dir, "ses_abc", "older", &err), &err);
	CHECK_INT(session_set_name(p.dir, "", "x", &err), ERR_INVALID);
	for (int i = 0; i < 3; i++)
		session_close(s[i]);
	{
		AUTO_JSON struct json *j = NULL;
		AUTO_FREE char *text = slurp(names);
		const struct json *e;

		CHECK_OK(json_parse(text, strlen(text), "names", &j, &err), &err);
		CHECK_INT(json_len(j), 4);
		e = json_get(j, "ses_abc");
		CHECK_STR(json_get_str(e, "name", ""), "older");
		CHECK(json_get_num(e, "created", 0) == 1.5 && json_get(e, "x"));
		CHECK(json_get_int(e, "last_active", 0) >= now - 5);
	}
	CHECK_OK(session_list(p.dir, &v, &n, NULL, &err), &err);
	CHECK_STR(v[2].name, "re\"named");
	session_list_free(v, n);

	/* damaged names do not hide sessions, and are not written over */
	spew(names, "{\"a\":");
	CHECK_OK(session_list(p.dir, &v, &n, &remark, &err), &err);
	CHECK_INT(n, 3);
	CHECK_STR(v[0].name, "n"); /* as its start event says */
	CHECK_HAS(remark, ".rocbudai-sessions.json:1:");
	free(remark);
	CHECK_INT(session_set_name(p.dir, v[0].id, "x", &err), ERR_PARSE);
	CHECK_HAS(err.msg, "move the file away");
	session_list_free(v, n);
	s[0] = must_create(&p, "still works");
	CHECK_INT(session_n_remarks(s[0]), 1);
	session_close(s[0]);
	{
		AUTO_FREE char *text = slurp(names);

		CHECK_STR(text, "{\"a\":");
	}
	project_done(&p);
}

static void test_kill_writer(void)
{
	struct project p;
	unsigned seed = (unsigned)getpid();
	long last = -1;
	char id[SESSION_ID_CAP];
	struct session *s;
	struct err err = { 0 };

	project_init(&p);
	s = must_create(&p, NULL);
	(void)snprintf(id, sizeof(id), "%s", session_id(s));
	session_close(s);
	for (int round = 0; round < 30; round++) {
		int fds[2], st;
		long got;
		pid_t pid;
		bool there = last < 0;

		CHECK(pipe2(fds, O_CLOEXEC) == 0);
		pid = fork();
		CHECK(pid >= 0);
		if (pid == 0) {
			CHECK_OK(session_open(p.dir, id, &s, &err), &err);
			for (long i = last + 1; i < last + 100; i++) {
				AUTO_JSON struct json *d = json_new_obj();

				json_set_int(d, "i", i);
				CHECK_OK(session_append(s, SESSION_USER, d, &err), &err);
				CHECK(write(fds[1], &i, sizeof(i)) == (ssize_t)sizeof(i));
			}
			for (;;)
				(void)pause();
		}
		CHECK(close(fds[1]) == 0);
		if (round % 2 && read(fds[0], &got, sizeof(got)) == (ssize_t)sizeof(got))
			last = got; /* not before it writes */
		(void)poll(NULL, 0, rand_r(&seed) % 15);
		CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, &st, 0) == pid && WIFSIGNALED(st));
		while (read(fds[0], &got, sizeof(got)) == (ssize_t)sizeof(got))
			last = got;
		CHECK(close(fds[0]) == 0);
		CHECK_OK(session_open(p.dir, id, &s, &err), &err);
		for (size_t i = 0; i < session_count(s); i++)
			there |= json_get_int(session_event(s, i), "i", -1) == last;
		CHECK(there);
		session_close(s);
	}
	CHECK(last >= 0);
	project_done(&p);
}

/* A disk that is full: the event does not count, and later ones do again. */
static void test_full(void)
{
	pid_t pid = fork();
	int st;

	CHECK(pid >= 0);
	if (pid == 0) {
		struct project p;
		struct session *s;
		struct err err = { 0 };
		struct rlimit lim;
		size_t n;
		int r = 0;

		project_init(&p);
		s = must_create(&p, NULL);
		CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
		CHECK(getrlimit(RLIMIT_FSIZE, &lim) == 0);
		lim.rlim_cur = 4000;
		CHECK(setrlimit(RLIMIT_FSIZE, &lim) == 0);
		for (int i = 0; i < 1000 && r == 0; i++)
			r = say(s, SESSION_USER, "some text of some length", &err);
		CHECK_INT(r, ERR_SYS);
		CHECK_INT(err.sys_errno, EFBIG);
		CHECK_HAS(err.msg, session_path(s));
		n = session_count(s);
		lim.rlim_cur = lim.rlim_max;
		CHECK(setrlimit(RLIMIT_FSIZE, &lim) == 0);
		CHECK_OK(say(s, SESSION_USER, "again", &err), &err);
		session_close(s);
		CHECK_OK(session_open_last(p.dir, &s, &err), &err);
		CHECK_INT(session_count(s), n + 1);
		CHECK_INT(session_n_remarks(s), 0);
		session_close(s);
		project_done(&p);
		_exit(0);
	}
	CHECK(waitpid(pid, &st, 0) == pid && WIFEXITED(st));
	CHECK_INT(WEXITSTATUS(st), 0);
}

/* ---- answers ---- */

static int parse(const char *text, struct session_answers *a, struct err *err)
{
	return session_answers_parse(text, strlen(text), "p.yaml", a, err);
}

static void refused(const char *text, const char *msg)
{
	struct session_answers a = { 0 };
	struct err err = { 0 };

	CHECK_INT(parse(text, &a, &err), ERR_PARSE);
	CHECK_HAS(err.msg, msg);
	CHECK(!a.name && !a.build);
}

static void test_answers_parse(void)
{
	struct session_answers a = { 0 };
	struct err err = { 0 };
	AUTO_JSON struct json *j = NULL;

	CHECK_OK(parse("name: 2026\ntype: ~\nrocm: 7.2\nmodules: []\nbuild: |\n  make\n  true\n"
		       "fom:\n  unit: GB/s\n  higher: true\n  note: mine\n"
		       "tunables:\n  - N=1,2\n  - M=a b,c\nnotes: [x, {y: 1}]\na.b: 3\n",
		       &a, &err),
		 &err);
	CHECK_STR(a.name, "2026");
	CHECK(!a.type && !a.run && !a.fom_pattern);
	CHECK_STR(a.rocm, "7.2");
	CHECK(a.modules && !a.modules[0]);
	CHECK_STR(a.build, "make\ntrue\n");
	CHECK(a.has_fom_higher && a.fom_higher);
	CHECK_STR(a.tunables[1], "M=a b,c");
	CHECK(!a.tunables[2]);
	CHECK_INT(json_len(a.extra), 3);
	j = session_answers_json(&a);
	CHECK_STR(json_get_str(json_get(j, "fom"), "unit", ""), "GB/s");
	CHECK(json_get(j, "run") && json_kind(json_get(j, "run")) == JSON_KIND_NULL);
	CHECK_INT(json_len(json_get(j, "modules")), 0);
	CHECK_INT(json_kind(json_get(j, "modules")), JSON_KIND_ARR);
	session_answers_done(&a);
	CHECK_OK(parse("", &a, &err), &err);
	CHECK(!a.name && !a.extra);

	refused("name: x\nbuild: [make]\n", "p.yaml:2: this must be one text");
	refused("name: x\nmodules: gcc\n", "p.yaml:2: this must be a list");
	refused("name: x\nmodules:\n  - gcc\n  - a b\n", "p.yaml:4: module 'a b' is not one word");
	refused("name: x\nmodules:\n  - {a: 1}\n", "p.yaml:3: an entry must be one text");
	refused("tunables:\n  - N=1\n  - 2N=1\n", "p.yaml:3: tunable '2N=1' is not of the form");
	refused("tunables: [N]\n", "p.yaml:1: tunable 'N' is not of the form");
	refused("tunables: [\"N=\"]\n", "has an empty value");
	refused("tunables: [\"N=1,,2\"]\n", "has an empty value");
	refused("tunables:\n  - N=1\n  - NN=1\n  - N=2\n", "p.yaml:4: tunable 'N' stands twice");
	refused("fom: GB/s\n", "p.yaml:1: this must be a map");
	refused("\nfom:\n  higher: maybe\n", "p.yaml:3: this must be true or false");
	refused("fom:\n  unit: \"a\\nb\"\n", "p.yaml:2: fom.unit: the control character 0x0a");
	refused("name: \"a\\eb\"\n", "control character 0x1b");
	refused("- a\n", "p.yaml:1: this must be a map");
	refused("name: a\nname: b\n", "p.yaml:2");
	refused("name: *a\n", "p.yaml:1");
}

/* The answers own their texts; a save only reads them. */
static char *lent(const char *s)
{
	return (char *)(uintptr_t)s;
}

static void test_answers_save(void)
{
	struct project p;
	struct session_answers a = { 0 }, b = { 0 };
	char *modules[] = { NULL, NULL }, *tunables[] = { NULL, NULL };
	static const char *const texts[] = { "make -j \"$(nproc)\" 'x' # not a comment",
					     "a: b\n\tc\n",
					     " lead",
					     "true",
					     "7",
					     "- x",
					     "{",
					     "\xc3\xa9 \xe2\x82\xac",
					     "null",
					     "~",
					     "",
					     "&a *b !c",
					     "trail ",
					     "a\n\n  b\n",
					     "%d",
					     "@x",
					     "`y`",
					     "0x10",
					     "1e3",
					     "'" };
	struct err err = { 0 };

	project_init(&p);
	CHECK_INT(session_answers_load(p.dir, &b, &err), ERR_NOT_FOUND);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		a.build = a.run = lent(texts[i]);
		CHECK_OK(session_answers_save(p.dir, &a, &err), &err);
		CHECK_OK(session_answers_load(p.dir, &b, &err), &err);
		CHECK_STR(b.build, texts[i]);
		CHECK_STR(b.run, texts[i]);
		CHECK(!b.check && !b.modules && !b.has_fom_higher);
		session_answers_done(&b);
	}
	modules[0] = lent("rocm/7.2");
	tunables[0] = lent("BLOCK=64,128");
	a.modules = modules;
	a.tunables = tunables;
	a.fom_pattern = lent("GLUPS:\\s*([0-9.]+)");
	a.has_fom_higher = true;
	a.extra = json_new_obj();
	json_set_str(a.extra, "mine", "kept");
	json_set(a.extra, "fom", json_new_obj());
	json_set_str(json_get(a.extra, "fom"), "also", "kept");
	CHECK_OK(session_answers_save(p.dir, &a, &err), &err);
	CHECK_OK(session_answers_load(p.dir, &b, &err), &err);
	CHECK_STR(b.modules[0], "rocm/7.2");
	CHECK_STR(b.tunables[0], "BLOCK=64,128");
	CHECK_STR(b.fom_pattern, "GLUPS:\\s*([0-9.]+)");
	CHECK(b.has_fom_higher && !b.fom_higher);
	CHECK_STR(json_get_str(b.extra, "mine", ""), "kept");
	CHECK_STR(json_get_str(json_get(b.extra, "fom"), "also", ""), "kept");
	/* what could not be read back is refused, and the file stays */
	a.run = lent("a\x7f");
	CHECK_INT(session_answers_save(p.dir, &a, &err), ERR_INVALID);
	CHECK_HAS(err.msg, "run: the control character 0x7f");
	a.run = lent("a\xe2\x80\xa8"
		     "b \xc2\x85 \xef\xbb\xbf");
	CHECK_INT(session_answers_save(p.dir, &a, &err), ERR_INVALID);
	a.run = lent("\xff");
	CHECK_INT(session_answers_save(p.dir, &a, &err), ERR_INVALID);
	CHECK_HAS(err.msg, "run: '\\xff' is not UTF-8");
	a.run = NULL;
	tunables[0] = lent("x");
	CHECK_INT(session_answers_save(p.dir, &a, &err), ERR_INVALID);
	session_answers_done(&b);
	CHECK_OK(session_answers_load(p.dir, &b, &err), &err);
	CHECK_STR(b.run, "'");
	session_answers_done(&b);
	json_unref(a.extra);
	CHECK_INT(session_answer_check("nonsense", "x", &err), ERR_INVALID);
	CHECK_OK(session_answer_check("fom.pattern", "([0-9]+)", &err), &err);
	CHECK_INT(session_answer_check("modules", "", &err), ERR_INVALID);
	project_done(&p);
}

static void test_unwritable(void)
{
	struct session *s = NULL;
	struct session_answers a = { 0 };
	struct err err = { 0 };

	CHECK_INT(session_create("/dev/null", NULL, &s, &err), ERR_SYS);
	CHECK_HAS(err.msg, "/dev/null/.rocbudai");
	CHECK_INT(session_answers_save("/proc", &a, &err), ERR_SYS);
	CHECK_HAS(err.msg, "/proc/.rocbudai");
}

int main(void)
{
	test_events();
	test_damage();
	test_list();
	test_kill_writer();
	test_full();
	test_answers_parse();
	test_answers_save();
	test_unwritable();
	return 0;
}
