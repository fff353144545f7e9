/* Simulated training with the tracker, four iterations: the program of the guide "Memory grows during training".
 *
 *     cc phases.c -I../../include ../../target/debug/libttmem.a -lpthread -ldl -lm -o phases
 *     ./phases keep > phases-grow.log; ./phases > phases-flat.log
 */

#include <stdio.h>
#include <stdlib.h>
#include <ttmem.h>

#define MIB ((uint64_t)1 << 20)

static ttmem_tracker *tracker;

/* Exits with the error message if a call failed. */
static void check(ttmem_status status) {
    if (status != TTMEM_OK) {
        fprintf(stderr, "%s\n", ttmem_last_error());
        exit(1);
    }
}

static void allocate(uint64_t id, uint64_t mib) { check(ttmem_record_alloc(tracker, id, mib * MIB, TTMEM_DRAM)); }

static void release(uint64_t id) { check(ttmem_record_free(tracker, id)); }

int main(int argc, char **argv) {
    (void)argv;
    int keep = argc > 1;
    check(ttmem_tracker_new(&tracker));
    check(ttmem_begin_capture(tracker, TTMEM_NORMAL, NULL));
    allocate(1, 1849);
    check(ttmem_snapshot(tracker, "MODEL_CREATION"));
    allocate(2, 3698);
    check(ttmem_snapshot(tracker, "OPTIMIZER_CREATION"));
    for (uint64_t iteration = 0; iteration < 4; ++iteration) {
        allocate(10, 960);              /* activations */
        allocate(100 + iteration, 250); /* logits */
        check(ttmem_snapshot(tracker, "FORWARD_PASS"));
        allocate(11, 1849); /* gradients */
        release(10);
        check(ttmem_snapshot(tracker, "BACKWARD_PASS"));
        release(11);
        if (!keep) {
            release(100 + iteration);
        }
        if (iteration < 3) {
            check(ttmem_snapshot(tracker, "ITERATION_COMPLETE"));
        }
    }
    check(ttmem_end_capture(tracker, "ITERATION_COMPLETE"));
    check(ttmem_print_memory_usage(tracker));
    ttmem_tracker_free(tracker);
    return 0;
}
