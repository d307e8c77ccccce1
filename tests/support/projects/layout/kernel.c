/* A call in a loop: fast unless the code straddles the wrong boundary. */
static int __attribute__((noinline)) sign(const int *a, int i)
{
	return a[i & 63] > i ? 1 : -1;
}

int kernel(const int *a, unsigned long n)
{
	int sum = 0;

	for (unsigned long i = 0; i < n; i++)
		sum += sign(a, (int)i);
	return sum;
}
