/*
 * The subset of YAML that our data files use, as JSON values: maps, lists and scalars.  Anchors,
 * aliases, tags, several documents and duplicate keys are refused; nesting at most 8, 10,000 nodes.
 * Plain scalars: true/false become booleans, whole numbers of up to 15 digits integers, the rest
 * (version numbers such as 7.2 too) stays text.  Threads: any.
 */
#ifndef BASE_YAML_H
#define BASE_YAML_H

#include <stddef.h>

struct err;
struct json;

/*
 * what names the text in errors and first_line is the number of its first line there.  An empty
 * text gives an empty map.  *lines, if wanted, maps each dotted path ("action.compile", "risk",
 * "list.0") to its line, so that callers can name the line of what they refuse.
 * ERR_PARSE (message starts "what:line: "), ERR_LIMIT.
 */
int yaml_parse(const char *text, size_t len, const char *what, int first_line, struct json **out,
	       struct json **lines, struct err *err);
/*
 * Splits "---\nyaml\n---\nbody"; *body points into text (borrowed) and *body_line is its line.
 * ERR_PARSE where the first line is not "---" or the second "---" is missing.
 */
int yaml_front_matter(const char *text, size_t len, const char *what, struct json **out,
		      struct json **lines, const char **body, int *body_line, struct err *err);
/* Writes a value as YAML block text (strings quoted where needed).  Caller frees. */
char *yaml_dump(const struct json *map);

#endif
