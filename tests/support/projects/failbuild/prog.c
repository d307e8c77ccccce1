/* Does not compile: the name in return is declared nowhere. */
int main(void)
{
	return undeclared;
}
