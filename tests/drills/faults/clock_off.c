/* The time of day, off by CLOCK_OFF_S seconds, for a process that loads this before the C library. What it measures by
 * is left as it is, and deadlines that it says in time of day come when it means. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>

/* A deadline above it is one in time of day: the other clock counts from the start of the machine. */
static const time_t TIME_OF_DAY = 1000000000;

static long off(void) {
    static long seconds;
    static int known;
    if (!known) {
        const char *text = getenv("CLOCK_OFF_S");
        seconds = text ? atol(text) : 0;
        known = 1;
    }
    return seconds;
}

static struct timespec really(const struct timespec *deadline) {
    struct timespec at = *deadline;
    if (at.tv_sec > TIME_OF_DAY) at.tv_sec -= off();
    return at;
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    static int (*next)(clockid_t, struct timespec *);
    if (!next) next = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int failed = next(clock, at);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) at->tv_sec += off();
    return failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}

int timespec_get(struct timespec *at, int base) {
    return base == TIME_UTC && !clock_gettime(CLOCK_REALTIME, at) ? base : 0;
}

int pthread_cond_timedwait(pthread_cond_t *restrict cond, pthread_mutex_t *restrict mutex,
                           const struct timespec *restrict deadline) {
    static int (*next)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (!next) {
        /* the C library has an older one of the same name, for another layout */
        void *found = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
        if (!found) found = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
        next = (int (*)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *))found;
    }
    const struct timespec at = really(deadline);
    return next(cond, mutex, &at);
}

int cnd_timedwait(cnd_t *restrict cond, mtx_t *restrict mutex, const struct timespec *restrict deadline) {
    static int (*next)(cnd_t *, mtx_t *, const struct timespec *);
    if (!next) next = (int (*)(cnd_t *, mtx_t *, const struct timespec *))dlsym(RTLD_NEXT, "cnd_timedwait");
    const struct timespec at = really(deadline);
    return next(cond, mutex, &at);
}

int sem_timedwait(sem_t *restrict semaphore, const struct timespec *restrict deadline) {
    static int (*next)(sem_t *, const struct timespec *);
    if (!next) next = (int (*)(sem_t *, const struct timespec *))dlsym(RTLD_NEXT, "sem_timedwait");
    const struct timespec at = really(deadline);
    return next(semaphore, &at);
}
