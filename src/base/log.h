/*
 * Diagnostics on stderr (or a descriptor given to log_init).  Control bytes are escaped, since what
 * programs and models print gets logged.  Libraries log at debug only.  Threads: any.
 * Each .c file defines LOG_MODULE before it includes this.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

enum log_level { LOG_ERR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* fd is borrowed; lines above the level are dropped.  Default: stderr, LOG_INFO. */
void log_init(int fd, enum log_level level);
void log_line(enum log_level level, const char *module, const char *file, int line, const char *fmt,
	      ...) __attribute__((format(printf, 5, 6)));

#define log_err(...)   log_line(LOG_ERR, LOG_MODULE, __FILE__, __LINE__, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_WARN, LOG_MODULE, __FILE__, __LINE__, __VA_ARGS__)
#define log_info(...)  log_line(LOG_INFO, LOG_MODULE, __FILE__, __LINE__, __VA_ARGS__)
#define log_debug(...) log_line(LOG_DEBUG, LOG_MODULE, __FILE__, __LINE__, __VA_ARGS__)

#endif
