/* Works and says nothing. */
static volatile double result;

int main(void)
{
	double x = 0.0;

	for (int r = 0; r < 15000000; r++)
		x += 1e-6 * (2.0 - x * x);
	result = x;
	return 0;
}
