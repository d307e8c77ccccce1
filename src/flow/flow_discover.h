/*
 * Defaults for the seven questions, found by looking at a project folder.  Nothing is run and
 * nothing is changed.  Threads: any.
 */
#ifndef FLOW_FLOW_DISCOVER_H
#define FLOW_FLOW_DISCOVER_H

struct flow_found {
	char *name;	 /* of the folder */
	char *type;	 /* "C", "C with OpenMP", "HIP", "Fortran with MPI", … or "general" */
	char *rocm;	 /* version below /opt/rocm, or "none" */
	char *build;	 /* command line, or NULL */
	char *build_why; /* what it was concluded from */
	char *run;
	char *run_why;
};

/* At most 2,000 entries and 3 levels of the folder are looked at.  Owns: flow_found_done(). */
void flow_discover(const char *dir, struct flow_found *out);
void flow_found_done(struct flow_found *f);

#endif
