/* System calls without a library: nothing else in the program makes any. */
#include <stddef.h>
#include <stdint.h>

static long raw(long number, long a, long b, long c, long d, long e, long f)
{
	long result;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

#define call0(n) raw(n, 0, 0, 0, 0, 0, 0)
#define call1(n, a) raw(n, (long)(a), 0, 0, 0, 0, 0)
#define call2(n, a, b) raw(n, (long)(a), (long)(b), 0, 0, 0, 0)
#define call3(n, a, b, c) raw(n, (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define call4(n, a, b, c, d) raw(n, (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define call6(n, a, b, c, d, e, f) \
	raw(n, (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))
