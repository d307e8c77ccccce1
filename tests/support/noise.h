/*
 * Made-up measurements for the simulation tests: a generator with a fixed seed, and the ways in
 * which run times vary.  Everything is reproducible; no test fails by chance on one machine only.
 */
#ifndef SUPPORT_NOISE_H
#define SUPPORT_NOISE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

struct noise {
	uint64_t state;
	double before; /* the value that the next one resembles */
	size_t step;   /* values since noise_start() */
};

enum noise_kind {
	NOISE_NORMAL,
	NOISE_LOGNORMAL,   /* skewed to the slow side, sigma 0.75 */
	NOISE_EXPONENTIAL, /* a sharp fastest time */
	NOISE_OUTLIERS,	   /* normal; 5 % are slower by 10 to 30 deviations */
	NOISE_TWO_MODES,   /* 30 % are slower by 10 of their deviations */
	NOISE_DRIFT,	   /* normal, getting slower by 1 deviation in 33, over and over */
	NOISE_ALIKE,	   /* each resembles the one before: lag-1 correlation 0.1 */
	NOISE_N_HELD,	   /* above: models that the coverage is claimed for */
	NOISE_ALIKE_MUCH = NOISE_N_HELD, /* correlation 0.3: beyond what is claimed */
	NOISE_COARSE,			 /* normal, on a clock with steps of 1 deviation */
	NOISE_N_KINDS,
};

static const char *const noise_names[] = {
	[NOISE_NORMAL] = "normal",	     [NOISE_LOGNORMAL] = "log-normal, skewed",
	[NOISE_EXPONENTIAL] = "exponential", [NOISE_OUTLIERS] = "normal, 5 % outliers",
	[NOISE_TWO_MODES] = "two modes",     [NOISE_DRIFT] = "drift",
	[NOISE_ALIKE] = "correlation 0.1",   [NOISE_ALIKE_MUCH] = "correlation 0.3",
	[NOISE_COARSE] = "coarse clock",
};

/* splitmix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014 */
static inline uint64_t noise_bits(struct noise *s)
{
	uint64_t z = s->state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

/* Inside (0, 1). */
static inline double noise_uniform(struct noise *s)
{
	return ((double)(noise_bits(s) >> 11) + 0.5) * 0x1p-53;
}

static inline double noise_normal(struct noise *s)
{
	return sqrt(-2 * log(noise_uniform(s))) * cos(2 * M_PI * noise_uniform(s));
}

static inline size_t noise_below(struct noise *s, size_t n)
{
	return noise_bits(s) % n;
}

/* Begins a new series. */
static inline void noise_start(struct noise *s)
{
	s->before = noise_normal(s);
	s->step = 0;
}

static inline double noise_alike(struct noise *s, double rho)
{
	double z = s->before;

	s->before = rho * z + sqrt(1 - rho * rho) * noise_normal(s);
	return z;
}

#define NOISE_DRIFT_PERIOD 33

/* What the drift adds to value i. */
static inline double noise_drift(size_t i)
{
	return (double)(i % NOISE_DRIFT_PERIOD) / NOISE_DRIFT_PERIOD;
}

/* The next deviation of the series. */
static inline double noise_next(struct noise *s, enum noise_kind kind)
{
	size_t step = s->step++;

	switch (kind) {
	case NOISE_LOGNORMAL:
		return exp(0.75 * noise_normal(s));
	case NOISE_EXPONENTIAL:
		return -log(noise_uniform(s));
	case NOISE_OUTLIERS:
		return noise_normal(s) + (noise_uniform(s) < 0.05 ? 10 + 20 * noise_uniform(s) : 0);
	case NOISE_TWO_MODES:
		return 0.3 * noise_normal(s) + (noise_uniform(s) < 0.3 ? 3 : 0);
	case NOISE_DRIFT:
		return noise_normal(s) + noise_drift(step);
	case NOISE_ALIKE:
		return noise_alike(s, 0.1);
	case NOISE_ALIKE_MUCH:
		return noise_alike(s, 0.3);
	case NOISE_COARSE:
		return floor(noise_normal(s) + 0.5);
	case NOISE_NORMAL:
	case NOISE_N_KINDS:
		break;
	}
	return noise_normal(s);
}

/* The median of what noise_next() gives; of the first n values for one that drifts. */
static inline double noise_median(enum noise_kind kind, size_t n)
{
	double sum = 0;

	switch (kind) {
	case NOISE_LOGNORMAL:
		return 1;
	case NOISE_EXPONENTIAL:
		return M_LN2;
	case NOISE_OUTLIERS:
		return 0.0660; /* normal quantile of 0.5 / 0.95: outliers all lie above */
	case NOISE_TWO_MODES:
		return 0.3 * 0.5659; /* normal quantile of 0.5 / 0.7 */
	case NOISE_DRIFT:
		for (size_t i = 0; i < n; i++)
			sum += noise_drift(i);
		return sum / (double)n;
	case NOISE_NORMAL:
	case NOISE_ALIKE:
	case NOISE_ALIKE_MUCH:
	case NOISE_COARSE:
	case NOISE_N_KINDS:
		break;
	}
	return 0;
}

#endif
