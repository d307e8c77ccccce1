#include "pad.h"

#define TEXT_(x) #x
#define TEXT(x)	 TEXT_(x)

/* CHEAT_LAYOUT changes nothing but where the code after it lies. */
#ifdef CHEAT_LAYOUT
#define PAD PAD_FAST
#endif
#ifndef PAD
#define PAD PAD_SLOW
#endif

#if PAD > 0
__asm__(".text\n\t.skip " TEXT(PAD) ", 0x90\n");
#endif
