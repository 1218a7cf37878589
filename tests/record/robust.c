/* A child dies with a robust mutex, in two ways; who waits for it is told. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void)
{
	pthread_mutex_t *mutex = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t kind;
	int told = 0;

	pthread_mutexattr_init(&kind);
	pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(mutex, &kind);
	for (int way = 0; way < 2; way++) {
		if (fork() == 0) {
			pthread_mutex_lock(mutex);
			if (way)
				raise(SIGKILL);
			_exit(0);
		}
		wait(NULL);
		if (pthread_mutex_lock(mutex) == EOWNERDEAD)
			told += pthread_mutex_consistent(mutex) == 0;
		pthread_mutex_unlock(mutex);
	}
	return 20 + told;
}
