#include "base/json.h"
#include "check.h"
#include "core/cleanup.h"
#include "flow/flow_state.h"

/* The whole table again, by hand: one letter a cell, '.' for "cannot happen".  A change of the
 * workflow has to be made twice, knowingly. */
static const struct {
	enum flow_state state;
	int ok, failed, kept, nothing, budget;
} want[] = {
	{ FLOW_DISCOVER, FLOW_AGREE, FLOW_FAILED, -1, -1, -1 },
	{ FLOW_AGREE, FLOW_SETUP, FLOW_FAILED, -1, -1, -1 },
	{ FLOW_SETUP, FLOW_BUILD, FLOW_FAILED, -1, -1, -1 },
	{ FLOW_BUILD, FLOW_CHECK, FLOW_AGREE, -1, -1, FLOW_DELIVER },
	{ FLOW_CHECK, FLOW_BASELINE, FLOW_AGREE, -1, -1, FLOW_DELIVER },
	{ FLOW_BASELINE, FLOW_PROFILE, FLOW_AGREE, -1, -1, FLOW_DELIVER },
	{ FLOW_PROFILE, FLOW_DIAGNOSE, -1, -1, -1, FLOW_DELIVER },
	{ FLOW_DIAGNOSE, FLOW_PROPOSE, -1, -1, -1, FLOW_DELIVER },
	{ FLOW_PROPOSE, FLOW_CHANGE, -1, -1, FLOW_DELIVER, FLOW_DELIVER },
	{ FLOW_CHANGE, FLOW_RECHECK, FLOW_DECIDE, -1, -1, FLOW_RESTORE },
	{ FLOW_RECHECK, FLOW_SCREEN, FLOW_DECIDE, -1, -1, FLOW_RESTORE },
	{ FLOW_SCREEN, FLOW_CONFIRM, FLOW_DECIDE, -1, -1, FLOW_RESTORE },
	{ FLOW_CONFIRM, FLOW_DECIDE, FLOW_DECIDE, -1, -1, FLOW_RESTORE },
	{ FLOW_DECIDE, -1, FLOW_RESTORE, FLOW_PROFILE, -1, -1 },
	{ FLOW_RESTORE, FLOW_PROPOSE, FLOW_FAILED, -1, -1, FLOW_DELIVER },
	{ FLOW_DELIVER, FLOW_REPORT, FLOW_REPORT, -1, -1, -1 },
	{ FLOW_REPORT, FLOW_DONE, FLOW_FAILED, -1, -1, -1 },
	{ FLOW_DONE, -1, -1, -1, -1, -1 },
	{ FLOW_FAILED, -1, -1, -1, -1, -1 },
};

static void test_cells(void)
{
	CHECK_INT(sizeof(want) / sizeof(want[0]), FLOW_N_STATES);
	for (size_t i = 0; i < FLOW_N_STATES; i++) {
		CHECK_INT(want[i].state, i);
		CHECK_INT(flow_next(want[i].state, FLOW_OK), want[i].ok);
		CHECK_INT(flow_next(want[i].state, FLOW_EV_FAILED), want[i].failed);
		CHECK_INT(flow_next(want[i].state, FLOW_EV_KEPT), want[i].kept);
		CHECK_INT(flow_next(want[i].state, FLOW_EV_NOTHING), want[i].nothing);
		CHECK_INT(flow_next(want[i].state, FLOW_EV_BUDGET), want[i].budget);
		CHECK(flow_state_name(want[i].state)[0]);
	}
	for (int e = 0; e < FLOW_N_EVENTS; e++)
		CHECK(flow_event_name((enum flow_event)e)[0]);
}

/* Every state is reached from the start, and from every state an end is reached. */
static void test_reach(void)
{
	bool from_start[FLOW_N_STATES] = { [FLOW_DISCOVER] = true };
	bool to_end[FLOW_N_STATES] = { [FLOW_DONE] = true, [FLOW_FAILED] = true };

	for (int round = 0; round < FLOW_N_STATES; round++) {
		for (int s = 0; s < FLOW_N_STATES; s++) {
			for (int e = 0; e < FLOW_N_EVENTS; e++) {
				int n = flow_next((enum flow_state)s, (enum flow_event)e);

				if (n >= 0 && from_start[s])
					from_start[n] = true;
				if (n >= 0 && to_end[n])
					to_end[s] = true;
			}
		}
	}
	for (int s = 0; s < FLOW_N_STATES; s++)
		CHECK(from_start[s] && to_end[s]);
}

static void test_guards(void)
{
	struct flow_guards g;
	AUTO_JSON struct json *j = NULL;

	flow_guards_init(&g);
	CHECK(!flow_guards_hold(&g));
	for (int i = 0; i < FLOW_N_GUARDS; i++)
		flow_guard_set(&g, (enum flow_guard)i, i % 2 ? FLOW_MET : FLOW_NOT_APPLICABLE, "x");
	CHECK(flow_guards_hold(&g));
	flow_guard_set(&g, FLOW_G_COLD, FLOW_NOT_REACHED, "%s", "");
	CHECK(!flow_guards_hold(&g));
	flow_guard_set(&g, FLOW_G_COLD, FLOW_NOT_MET, "%d slower", 3);
	CHECK_INT(flow_guards_first_open(&g), FLOW_G_COLD);
	j = flow_guards_json(&g);
	CHECK_INT(json_len(j), FLOW_N_GUARDS);
	CHECK_STR(json_get_str(json_at(j, FLOW_G_COLD), "state", ""), "failed");
	CHECK_STR(json_get_str(json_at(j, FLOW_G_COLD), "why", ""), "3 slower");
}

int main(void)
{
	test_cells();
	test_reach();
	test_guards();
	return 0;
}
