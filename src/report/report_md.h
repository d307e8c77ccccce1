/* Markdown pieces that are safe with text from programs.  Private to the module. */
#ifndef REPORT_REPORT_MD_H
#define REPORT_REPORT_MD_H

struct json;
struct str;

/* A code span: control bytes become visible, back quotes cannot end it, cut at 400 bytes. */
void md_code(struct str *o, const char *text);
/* Plain text: characters with a meaning in Markdown or HTML are escaped, one line, cut at 600. */
void md_text(struct str *o, const char *text);
/* A fenced block whose fence is longer than any in the text. */
void md_block(struct str *o, const char *info, const char *text);
/* A number as the reports write it: 4 significant digits, or as many as it is a whole number of. */
void md_num(struct str *o, double v);
/* "0.612 s", "1.83×" for unit 1, "5.2 %" for unit %. */
void md_value(struct str *o, double v, const char *unit);

#endif
