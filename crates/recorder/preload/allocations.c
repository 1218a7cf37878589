/* Preloaded library that stands before malloc and the like.
 *
 * With PAGELAB_SITES=mark it tells the recorder who allocates what (mark.h), with PAGELAB_SITES=huge:...
 * it gives the sites that are named huge pages (advised.h), and with `populate:` or `collapse:` memory at
 * once. With PAGELAB_CODE=huge code has huge pages (code.h). Else it only passes calls on.
 *
 * Rules: no call here allocates by itself. A call that an allocator makes of another, or of mmap, is
 * its own affair: only a thread's outermost call is told. Real functions are looked up at first use,
 * since other libraries' constructors allocate before ours runs.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "advised.h"
#include "code.h"
#include "mark.h"

#define EXPORT __attribute__((visibility("default"), noinline))

/* Where the caller's frame pointer and the return address are. */
#define FRAME ((unsigned long)__builtin_frame_address(0))

/* Memory for a look-up that allocates: it is never given back. */
static char early[4096] __attribute__((aligned(16)));
static size_t early_used;

/* Set before the first thread is made: tell of calls, or some sites are advised. */
static int marks, advises;

/* Frame of the outermost call of an allocator that this thread is in; 0 for none. Calls that it makes
 * have lower ones: with another the call was left otherwise than by returning, as by std::bad_alloc. */
static __thread unsigned long outermost __attribute__((tls_model("initial-exec")));

static __thread int looking_up __attribute__((tls_model("initial-exec")));

static void *look_up(const char *name)
{
	looking_up++;
	void *found = dlsym(RTLD_NEXT, name);
	looking_up--;
	if (!found)
		abort();
	return found;
}

/* The next library's function of this name, looked up once. */
#define NEXT(name, ...)                                                                            \
	({                                                                                         \
		static __typeof__(name) *volatile next;                                            \
		if (!next)                                                                         \
			next = (__typeof__(name) *)look_up(#name);                                 \
		next;                                                                              \
	})

static int is_early(const void *memory)
{
	return (const char *)memory >= early && (const char *)memory < early + sizeof(early);
}

static void *take_early(size_t size)
{
	size_t at = early_used;

	if (size > sizeof(early) - at)
		return NULL;
	early_used = (at + size + 15) & ~(size_t)15;
	return early + at;
}

static int is_nested(unsigned long frame)
{
	return frame < outermost;
}

/* True if the call is told. */
static int begin(enum allocator which, unsigned long frame)
{
	if (!marks || is_nested(frame))
		return 0;
	outermost = frame;
	mark(MARK_BEGIN, which, frame);
	return 1;
}

static void *end(int told, void *memory, size_t size)
{
	if (told) {
		mark(MARK_END, (unsigned long)memory, size);
		outermost = 0;
	}
	return memory;
}

/* Memory is about to be given back: afterwards it may be another thread's. */
static void gone(const void *memory, unsigned long frame)
{
	if (marks && memory && !is_nested(frame))
		mark(MARK_FREE, (unsigned long)memory, 0);
}

/* `call`, which gives `size` bytes, and is told. */
#define TOLD(which, size, call)                                                                    \
	({                                                                                         \
		int told_ = begin(which, FRAME);                                                   \
		end(told_, call, size);                                                            \
	})

/* The same, but for a site that is advised: that has memory of the pool. */
#define GIVEN(which, size, alignment, zeroed, call)                                                \
	({                                                                                         \
		void *advised_ = NULL;                                                             \
		if (advises && advised_site(__builtin_return_address(0)))                          \
			advised_ = advised_take(size, alignment, zeroed);                          \
		advised_ ? advised_ : TOLD(which, size, call);                                     \
	})

EXPORT void *malloc(size_t size)
{
	if (looking_up)
		return take_early(size);
	return GIVEN(MALLOC, size, 16, 0, NEXT(malloc)(size));
}

EXPORT void *calloc(size_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	if (looking_up)
		return take_early(bytes);
	return GIVEN(CALLOC, bytes, 16, 1, NEXT(calloc)(count, size));
}

EXPORT void free(void *memory)
{
	if (!memory || is_early(memory))
		return;
	if (advised_has(memory)) {
		advised_give_back(memory);
		return;
	}
	gone(memory, FRAME);
	NEXT(free)(memory);
}

/* Memory of ours, or for a site that is advised, is moved by hand. */
static void *moved(void *memory, size_t size, int to_pool)
{
	size_t before = advised_has(memory) ? advised_size(memory)
		      : is_early(memory)    ? (size_t)(early + sizeof(early) - (char *)memory)
					    : NEXT(malloc_usable_size)(memory);
	void *found = to_pool ? advised_take(size, 16, 0) : NULL;

	if (!found)
		found = NEXT(malloc)(size);
	if (found) {
		memcpy(found, memory, before < size ? before : size);
		free(memory);
	}
	return found;
}

#define MOVED(memory, size)                                                                        \
	({                                                                                         \
		int to_pool_ = advises && advised_site(__builtin_return_address(0));               \
		void *found_;                                                                      \
		if (!memory && to_pool_ && (found_ = advised_take(size, 16, 0)))                   \
			;                                                                          \
		else if (memory && size && (to_pool_ || advised_has(memory) || is_early(memory)))  \
			found_ = advised_has(memory) && advised_size(memory) >= size               \
				       ? memory                                                    \
				       : moved(memory, size, to_pool_);                            \
		else if (memory && !size && (advised_has(memory) || is_early(memory)))             \
			free(memory), found_ = NULL;                                               \
		else {                                                                             \
			gone(memory, FRAME);                                                       \
			found_ = TOLD(REALLOC, size, NEXT(realloc)(memory, size));                 \
		}                                                                                  \
		found_;                                                                            \
	})

EXPORT void *realloc(void *memory, size_t size)
{
	return MOVED(memory, size);
}

EXPORT void *reallocarray(void *memory, size_t count, size_t size)
{
	size_t bytes;

	if (__builtin_mul_overflow(count, size, &bytes)) {
		errno = ENOMEM;
		return NULL;
	}
	return MOVED(memory, bytes);
}

EXPORT size_t malloc_usable_size(void *memory)
{
	if (advised_has(memory))
		return advised_size(memory);
	return NEXT(malloc_usable_size)(memory);
}

EXPORT void *aligned_alloc(size_t alignment, size_t size)
{
	return GIVEN(ALIGNED_ALLOC, size, alignment, 0, NEXT(aligned_alloc)(alignment, size));
}

EXPORT void *memalign(size_t alignment, size_t size)
{
	return GIVEN(ALIGNED_ALLOC, size, alignment, 0, NEXT(memalign)(alignment, size));
}

EXPORT void *valloc(size_t size)
{
	return GIVEN(ALIGNED_ALLOC, size, 4096, 0, NEXT(valloc)(size));
}

EXPORT void *pvalloc(size_t size)
{
	return TOLD(ALIGNED_ALLOC, size, NEXT(pvalloc)(size));
}

EXPORT int posix_memalign(void **memory, size_t alignment, size_t size)
{
	if (advises && advised_site(__builtin_return_address(0))) {
		void *advised = advised_take(size, alignment, 0);

		if (advised) {
			*memory = advised;
			return 0;
		}
	}

	int told = begin(ALIGNED_ALLOC, FRAME);
	int error = NEXT(posix_memalign)(memory, alignment, size);

	end(told, error ? NULL : *memory, size);
	return error;
}

EXPORT void *mmap(void *at, size_t length, int protection, int flags, int file, off_t offset)
{
	__typeof__(mmap) *next = NEXT(mmap);

	if (!(flags & MAP_ANONYMOUS))
		return next(at, length, protection, flags, file, offset);

	int told = begin(MMAP, FRAME);
	void *memory = next(at, length, protection, flags, file, offset);

	end(told, memory == MAP_FAILED ? NULL : memory, length);
	if (memory != MAP_FAILED && advises && advised_site(__builtin_return_address(0)))
		advised_map(memory, length);
	return memory;
}

EXPORT void *mmap64(void *at, size_t length, int protection, int flags, int file, off_t offset)
	__attribute__((alias("mmap")));

/* C++: operator new and operator new[], by their mangled names; throwing, with std::nothrow, with
 * std::align_val_t, and with both. */
#define NEW_OPERATOR(name, alignment, list, ...)                                                   \
	EXPORT void *name list                                                                     \
	{                                                                                          \
		return GIVEN(NEW, size, alignment, 0, NEXT(name)(__VA_ARGS__));                    \
	}
#define NEW_OPERATORS(name)                                                                        \
	NEW_OPERATOR(name, 16, (size_t size), size)                                                \
	NEW_OPERATOR(name##RKSt9nothrow_t, 16, (size_t size, const void *nothrow), size, nothrow)  \
	NEW_OPERATOR(name##St11align_val_t, to, (size_t size, size_t to), size, to)                \
	NEW_OPERATOR(name##St11align_val_tRKSt9nothrow_t, to,                                      \
		     (size_t size, size_t to, const void *nothrow), size, to, nothrow)

NEW_OPERATORS(_Znwm)
NEW_OPERATORS(_Znam)

/* And operator delete: an allocator's own would not know memory of the pool. What these call free for
 * is told there. */
#define DELETE_OPERATOR(name, list, ...)                                                           \
	EXPORT void name list                                                                      \
	{                                                                                          \
		if (advised_has(memory)) {                                                         \
			advised_give_back(memory);                                                 \
			return;                                                                    \
		}                                                                                  \
		NEXT(name)(__VA_ARGS__);                                                           \
	}
#define DELETE_OPERATORS(name)                                                                     \
	DELETE_OPERATOR(name, (void *memory), memory)                                              \
	DELETE_OPERATOR(name##m, (void *memory, size_t size), memory, size)                        \
	DELETE_OPERATOR(name##RKSt9nothrow_t, (void *memory, const void *nothrow), memory, nothrow) \
	DELETE_OPERATOR(name##St11align_val_t, (void *memory, size_t to), memory, to)              \
	DELETE_OPERATOR(name##mSt11align_val_t, (void *memory, size_t size, size_t to), memory,    \
			size, to)                                                                  \
	DELETE_OPERATOR(name##St11align_val_tRKSt9nothrow_t,                                       \
			(void *memory, size_t to, const void *nothrow), memory, to, nothrow)

DELETE_OPERATORS(_ZdlPv)
DELETE_OPERATORS(_ZdaPv)

__attribute__((constructor)) static void set_up(void)
{
	const char *sites = getenv("PAGELAB_SITES");
	const char *code = getenv("PAGELAB_CODE");

	if (code && !strcmp(code, "huge"))
		code_set_up();
	if (sites && !strcmp(sites, "mark"))
		marks = 1;
	else if (sites)
		advises = advised_set_up(sites);
}
