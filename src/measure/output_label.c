/* What words stand for: units, and the labels that stand before numbers. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "measure/output_priv.h"

#define OUTPUT_SUBS_MAX 24

void output_lower(const char *s, size_t n, char out[OUTPUT_SUB_CAP])
{
	if (n >= OUTPUT_SUB_CAP)
		n = 0;
	for (size_t i = 0; i < n; i++)
		out[i] = (char)tolower((unsigned char)s[i]);
	out[n] = '\0';
}

bool output_in(const char *list, const char *lower_word)
{
	char key[OUTPUT_SUB_CAP + 3];
	size_t n = strlen(lower_word);

	if (n == 0 || n >= OUTPUT_SUB_CAP || memchr(lower_word, ' ', n))
		return false;
	key[0] = ' ';
	memcpy(key + 1, lower_word, n);
	key[n + 1] = ' ';
	key[n + 2] = '\0';
	return strstr(list, key) != NULL;
}

/* ---- units ---- */

static const char output_time_units[] =
	" s sec secs second seconds ms msec msecs millisecond milliseconds us usec usecs microsecond "
	"microseconds \xc2\xb5s \xce\xbcs ns nsec nsecs nanosecond nanoseconds minute minutes mins hour hours "
	"hrs hr ";
/* What programs count when they tell their speed, without prefix and plural. */
static const char output_counted[] =
	" b bit byte flop it iter iteration step timestep cell update site lup op operation point pt particle "
	"interaction atom image sample frame token tok msg message request req query transaction txn tx elem "
	"element key event edge pixel px pair row record line word call run packet pkt hash node generation "
	"sweep vertex ray path move photon spin game position mult add lookup insert item object task job "
	"file page block kernel launch cycle loop test zone dof unknown body bodies queries entries entry "
	"cells/thread matom atom-step matom-step gatom-step ";
static const char output_rate_words[] =
	" mlups glups mlup glup klups gups mups mcups gcups iops kiops miops mips gips bips fps qps rps teps "
	"kteps mteps gteps bps kbps mbps gbps tbps mops gops tops mflops gflops tflops kflops pflops eflops "
	"mflop gflop tflop kflop pflop bogomips ";

/* Numerator of a rate: strips "k", "M", "Gi" ... and the plural.  Bare prefixes are none ("m/s" is
 * a velocity). */
static bool output_is_counted(const char *word)
{
	char w[OUTPUT_SUB_CAP];

	for (int prefix = 0; prefix < 3; prefix++) {
		size_t n;

		if (prefix >= 1 && !(word[0] && strchr("kmgtpe", word[0])))
			break;
		if (prefix == 2 && word[1] != 'i')
			break;
		(void)snprintf(w, sizeof(w), "%s", word + prefix);
		if (output_in(output_counted, w))
			return true;
		n = strlen(w);
		if (n > 2 && w[n - 1] == 's') {
			w[n - 1] = '\0';
			if (output_in(output_counted, w))
				return true;
		}
	}
	return false;
}

static bool output_is_time_name(const char *lower)
{
	return output_in(output_time_units, lower) || output_in(" day days h d ", lower);
}

static enum output_unit output_unit_lower(const char *w)
{
	char left[OUTPUT_SUB_CAP], right[OUTPUT_SUB_CAP];
	const char *slash = strchr(w, '/'), *last;

	if (!slash)
		return output_in(output_time_units, w)	 ? OUTPUT_UNIT_TIME
		       : output_in(output_rate_words, w) ? OUTPUT_UNIT_RATE
							 : OUTPUT_UNIT_NONE;
	(void)snprintf(left, sizeof(left), "%.*s", (int)(slash - w), w);
	/* Mop/s/thread: what it is shared among says nothing new */
	last = strchr(slash + 1, '/');
	(void)snprintf(right, sizeof(right), "%.*s",
		       (int)(last ? (size_t)(last - slash - 1) : strlen(slash + 1)), slash + 1);
	if (output_is_time_name(right))
		return output_is_counted(left) || output_in(output_rate_words, left) ||
				       output_in(" ns tau ", left)
			       ? OUTPUT_UNIT_RATE
			       : OUTPUT_UNIT_NONE;
	/* ns/op, s/iteration, cycles/element, hours/ns */
	if (output_is_counted(right) || strcmp(right, "ns") == 0)
		return output_is_time_name(left) || output_in(" cycle cycles ", left)
			       ? OUTPUT_UNIT_RATE
			       : OUTPUT_UNIT_NONE;
	return OUTPUT_UNIT_NONE;
}

enum output_unit output_unit_of(const char *s, size_t n)
{
	char w[OUTPUT_SUB_CAP];

	/* single letters keep their case: S, H and B are not seconds */
	if (n == 1 && *s != 's')
		return OUTPUT_UNIT_NONE;
	output_lower(s, n, w);
	return *w ? output_unit_lower(w) : OUTPUT_UNIT_NONE;
}

/* ---- verdicts ---- */

bool output_is_verdict(const char *s, size_t n)
{
	static const char words[] =
		" pass passed passes fail failed fails failure ok okay valid validates validated invalid "
		"success successful successfully unsuccessful verified correct correctly incorrect converged "
		"diverged match matches matched mismatch true false yes no identical ";
	char w[OUTPUT_SUB_CAP];
	size_t digits = 0, hex = 0;

	output_lower(s, n, w);
	if (output_in(words, w))
		return true;
	for (size_t i = 0; i < n; i++) {
		if (!isalnum((unsigned char)s[i]))
			return false;
		digits += isdigit((unsigned char)s[i]) ? 1 : 0;
		hex += isxdigit((unsigned char)s[i]) ? 1 : 0;
	}
	/* a digest, or a sequence that is too long to be prose */
	return (n >= 8 && hex == n && digits) || n >= 32;
}

/* ---- labels ---- */

struct output_sub {
	char s[OUTPUT_SUB_CAP];
	bool paren; /* stands in brackets */
	bool glued; /* its bracket touches the word before */
};

struct output_subs {
	struct output_sub v[OUTPUT_SUBS_MAX];
	size_t n;
};

bool output_is_preposition(const char *w)
{
	return output_in(
		" for of in at on after over with to from by until during using since when per "
		"between against as through across ",
		w);
}

static void output_add_sub(struct output_subs *subs, const char *s, size_t n, bool paren,
			   bool glued)
{
	struct output_sub *sub = &subs->v[subs->n];

	if (subs->n == OUTPUT_SUBS_MAX || n == 0)
		return;
	output_lower(s, n, sub->s);
	sub->paren = paren;
	sub->glued = glued;
	subs->n++;
}

/* total_time, solve-time, wallTime and min/avg/max are several words; MB/s is one. */
static void output_split_word(struct output_subs *subs, const char *s, size_t n, bool paren,
			      bool glued)
{
	size_t from = 0;

	if (output_unit_of(s, n) != OUTPUT_UNIT_NONE) {
		output_add_sub(subs, s, n, paren, glued);
		return;
	}
	for (size_t i = 0; i <= n; i++) {
		bool stop = i == n || (!isalnum((unsigned char)s[i]) && (unsigned char)s[i] < 0x80);
		bool hump = i > from && i < n && isupper((unsigned char)s[i]) &&
			    islower((unsigned char)s[i - 1]);

		if (!stop && !hump)
			continue;
		output_add_sub(subs, s + from, i - from, paren, glued);
		from = stop ? i + 1 : i;
	}
}

static void output_collect(const char *text, const struct output_tok *v, size_t a, size_t b,
			   struct output_subs *subs)
{
	bool paren = false, glued = false;

	subs->n = 0;
	for (size_t i = a; i < b; i++) {
		char c = text[v[i].off];

		if (v[i].kind == OUTPUT_PUNCT && (c == '(' || c == '[')) {
			paren = true;
			glued = v[i].gap == 0;
		} else if (v[i].kind == OUTPUT_PUNCT && (c == ')' || c == ']')) {
			paren = false;
		} else if (v[i].kind == OUTPUT_PUNCT && c == '#') {
			output_add_sub(subs, "number", 6, paren, glued);
		} else if (v[i].kind == OUTPUT_WORD && v[i].shape == OUTPUT_PLAIN) {
			output_split_word(subs, text + v[i].off, v[i].len, paren, glued);
		}
	}
}

static bool output_is_time_noun(const char *w)
{
	return output_in(
		" time times timing timings elapsed runtime walltime wallclock wtime cputime "
		"duration latency seconds secs sec msec msecs usec usecs nsec milliseconds "
		"microseconds nanoseconds took makespan ",
		w);
}

static bool output_is_statistic(const char *w)
{
	return output_in(
		" avg average mean min minimum max maximum median best worst std stddev stdev "
		"fastest slowest ",
		w);
}

/* Words that may follow the noun: "time taken", "time total". */
static bool output_is_qualifier(const char *w)
{
	return output_is_statistic(w) ||
	       output_in(" total taken used spent sum overall measured wall cpu all ", w);
}

/* The class that a head word gives with the word before it. */
static enum output_class output_head_class(const char *w, const char *before, bool alone)
{
	if (output_is_time_noun(w) || (strcmp(w, "clock") == 0 && strcmp(before, "wall") == 0))
		return OUTPUT_TIME;
	/* time_ms, t_us; but "ns = 4" is a size */
	if (output_in(" ms us ns ", w) && !alone)
		return OUTPUT_TIME;
	if (strcmp(w, "s") == 0 && (output_is_time_noun(before) || strlen(before) == 1))
		return OUTPUT_TIME;
	if (output_unit_lower(w) == OUTPUT_UNIT_RATE)
		return OUTPUT_RATE;
	if (strcmp(w, "bandwidth") == 0 &&
	    !output_in(" matrix half semi kernel filter sparse ", before))
		return OUTPUT_RATE;
	if (output_in(" throughput performance perf speedup ", w))
		return OUTPUT_RATE;
	/* an error rate or the speed of a wind is a result */
	if (strcmp(w, "rate") == 0 &&
	    (alone ||
	     output_in(" data transfer update best avg average max min peak sustained total "
		       "processing compute execution frame bit memory read write copy iteration "
		       "flop site lattice cell message triad io ",
		       before)))
		return OUTPUT_RATE;
	if (strcmp(w, "speed") == 0 &&
	    (alone ||
	     output_in(" simulation execution processing run compute calculation transfer read "
		       "write copy memory bus clock cpu search decode encode generation ",
		       before)))
		return OUTPUT_RATE;
	if (strcmp(w, "efficiency") == 0 && strcmp(before, "parallel") == 0)
		return OUTPUT_RATE;
	if (output_in(" pid ppid ", w) || (strcmp(w, "id") == 0 && strcmp(before, "process") == 0))
		return OUTPUT_PID;
	if (output_in(" timestamp date datetime ", w))
		return OUTPUT_DATE;
	if (output_in(" address addr ptr pointer ip ", w))
		return OUTPUT_ADDRESS;
	return OUTPUT_RESULT;
}

/* Only the words up to the first preposition say what a number is: "error at final time" is an
 * error.  False: that leaves nothing, or a count ("number of time steps"). */
static bool output_cut_head(struct output_subs *subs, enum output_class *cls)
{
	for (size_t i = 0; i < subs->n; i++) {
		if (strcmp(subs->v[i].s, "per") == 0 && i && i + 1 < subs->n &&
		    output_is_time_name(subs->v[i + 1].s)) {
			*cls = OUTPUT_RATE;
			return false;
		}
	}
	for (size_t i = 0; i < subs->n; i++) {
		if (output_is_preposition(subs->v[i].s)) {
			subs->n = i;
			break;
		}
		if (output_in(" number num count nb no ", subs->v[i].s))
			return false;
	}
	return subs->n > 0;
}

/* A unit in brackets at the end: "Time (ms)", "t [s]"; "thread(s)" is a plural. */
static enum output_class output_bracket_class(struct output_subs *subs)
{
	while (subs->n && subs->v[subs->n - 1].paren) {
		const struct output_sub *sub = &subs->v[subs->n - 1];
		const char *before = subs->n > 1 ? subs->v[subs->n - 2].s : "";
		enum output_unit unit = output_unit_lower(sub->s);

		if (unit == OUTPUT_UNIT_RATE)
			return OUTPUT_RATE;
		if (unit == OUTPUT_UNIT_TIME &&
		    (!sub->glued || strlen(sub->s) > 1 || strlen(before) == 1 ||
		     output_is_time_noun(before)))
			return OUTPUT_TIME;
		subs->n--;
	}
	return OUTPUT_RESULT;
}

/* "as pid 4711", "process id: 4711" */
static bool output_ends_in_pid(const struct output_subs *subs)
{
	const char *w = subs->n ? subs->v[subs->n - 1].s : "";

	return output_in(" pid ppid ", w) || (subs->n > 1 && strcmp(w, "id") == 0 &&
					      strcmp(subs->v[subs->n - 2].s, "process") == 0);
}

enum output_class output_label_class(const char *text, const struct output_tok *v, size_t a,
				     size_t b, struct output_stat *stat)
{
	enum output_class cls = OUTPUT_RESULT;
	struct output_subs subs;
	size_t n, n_stat = 0;

	output_collect(text, v, a, b, &subs);
	for (size_t i = 0; i < subs.n; i++)
		n_stat += output_is_statistic(subs.v[i].s) ? 1 : 0;
	*stat = (struct output_stat){ .some = n_stat > 0, .only = n_stat && n_stat == subs.n };
	if (output_ends_in_pid(&subs))
		return OUTPUT_PID;
	if (!output_cut_head(&subs, &cls))
		return cls;
	cls = output_bracket_class(&subs);
	if (cls != OUTPUT_RESULT)
		return cls;
	n = subs.n;
	while (n && output_is_qualifier(subs.v[n - 1].s))
		n--;
	if (n == 0) /* "wall: 1.2" */
		return subs.n == 1 && strcmp(subs.v[0].s, "wall") == 0 ? OUTPUT_TIME
								       : OUTPUT_RESULT;
	return output_head_class(subs.v[n - 1].s, n > 1 ? subs.v[n - 2].s : "", n == 1);
}
