/* A process that forks during a recording: the child continues without the parent's recording, and may start its own. */

#define _DEFAULT_SOURCE

#include <stdio.h>
#include <sys/wait.h>
#include <ttmem.h>
#include <unistd.h>

#define EXPECT(condition)                                                                    \
    do {                                                                                     \
        if (!(condition)) {                                                                  \
            fprintf(stderr, "line %d: %s; %s\n", __LINE__, #condition, ttmem_last_error());  \
            _exit(1);                                                                        \
        }                                                                                    \
    } while (0)

static void child(ttmem_tracker *tracker, const char *path) {
    /* A call that waits for the parent's thread would never return. */
    alarm(60);
    EXPECT(ttmem_record_alloc(tracker, 2, 500, TTMEM_DRAM) == TTMEM_OK);
    EXPECT(ttmem_end_capture(tracker, "CHILD") == TTMEM_OK);
    EXPECT(ttmem_record_to(tracker, path) == TTMEM_OK);
    EXPECT(ttmem_begin_capture(tracker, TTMEM_NORMAL, NULL) == TTMEM_OK);
    EXPECT(ttmem_record_alloc(tracker, 3, 70, TTMEM_DRAM) == TTMEM_OK);
    EXPECT(ttmem_end_capture(tracker, "ITS OWN") == TTMEM_OK);
    EXPECT(ttmem_finish(tracker) == TTMEM_OK);
    _exit(0);
}

int main(int argc, char **argv) {
    ttmem_tracker *tracker = NULL;
    int status = 0;

    EXPECT(argc == 3);
    EXPECT(ttmem_tracker_recording_to(argv[1], &tracker) == TTMEM_OK);
    EXPECT(ttmem_begin_capture(tracker, TTMEM_NORMAL, NULL) == TTMEM_OK);
    EXPECT(ttmem_record_alloc(tracker, 1, 1000, TTMEM_DRAM) == TTMEM_OK);
    EXPECT(ttmem_snapshot(tracker, "BEFORE") == TTMEM_OK);
    pid_t pid = fork();
    EXPECT(pid >= 0);
    if (pid == 0) {
        child(tracker, argv[2]);
    }
    EXPECT(waitpid(pid, &status, 0) == pid && status == 0);
    EXPECT(ttmem_record_free(tracker, 1) == TTMEM_OK);
    EXPECT(ttmem_end_capture(tracker, "AFTER") == TTMEM_OK);
    EXPECT(ttmem_finish(tracker) == TTMEM_OK);
    ttmem_tracker_free(tracker);
    return 0;
}
