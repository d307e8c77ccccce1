/* Bytes before the loop of kernel.c: a slow and a fast place, as hunt.sh found them. */
#define PAD_SLOW 8
#define PAD_FAST 40
