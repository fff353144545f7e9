/* The tracker in a C program: the same simulated training as in examples/cpp, and the same output. */

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <ttmem.h>

#define KIB ((uint64_t)1024)
#define MIB (1024 * KIB)
#define LAYERS 4
#define CORES "{[(x=0,y=0) - (x=7,y=7)]}"

/* Exits with the error message if a call failed. */
static void check(ttmem_status status) {
    if (status != TTMEM_OK) {
        fprintf(stderr, "%s\n", ttmem_last_error());
        exit(1);
    }
}

static void forward(ttmem_tracker *tracker) {
    for (uint64_t layer = 0; layer < LAYERS; ++layer) {
        check(ttmem_record_circular_buffers_gone(tracker));
        check(ttmem_record_circular_buffer(tracker, 96 * KIB, CORES, false));
        check(ttmem_record_alloc(tracker, 300 + layer, 6 * MIB, TTMEM_DRAM));
        check(ttmem_record_alloc(tracker, 400, 200 * KIB, TTMEM_L1));
        check(ttmem_record_free(tracker, 400));
    }
}

static void backward(ttmem_tracker *tracker, bool is_first) {
    for (uint64_t layer = LAYERS; layer-- > 0;) {
        check(ttmem_record_circular_buffers_gone(tracker));
        check(ttmem_record_circular_buffer(tracker, 128 * KIB, CORES, false));
        check(ttmem_record_alloc(tracker, 600, 12 * MIB, TTMEM_DRAM));
        if (is_first) {
            check(ttmem_record_alloc(tracker, 500 + layer, 12 * MIB, TTMEM_DRAM));
        }
        check(ttmem_record_free(tracker, 600));
        check(ttmem_record_free(tracker, 300 + layer));
    }
}

int main(int argc, char **argv) {
    ttmem_tracker *tracker = NULL;
    check(argc > 1 ? ttmem_tracker_recording_to(argv[1], &tracker) : ttmem_tracker_new(&tracker));
    check(ttmem_begin_capture(tracker, TTMEM_NORMAL, NULL));

    for (uint64_t layer = 0; layer < LAYERS; ++layer) {
        check(ttmem_record_alloc(tracker, 100 + layer, 12 * MIB + layer * 64 * KIB, TTMEM_DRAM));
    }
    check(ttmem_snapshot(tracker, "MODEL_CREATION"));
    for (uint64_t layer = 0; layer < LAYERS; ++layer) {
        check(ttmem_record_alloc(tracker, 200 + layer, 24 * MIB, TTMEM_DRAM));
    }
    check(ttmem_snapshot(tracker, "OPTIMIZER_CREATION"));
    for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
        forward(tracker);
        check(ttmem_snapshot(tracker, "FORWARD_PASS"));
        backward(tracker, micro_batch == 0);
        check(ttmem_snapshot(tracker, "BACKWARD_PASS"));
    }
    for (uint64_t layer = 0; layer < LAYERS; ++layer) {
        check(ttmem_record_free(tracker, 500 + layer));
    }
    check(ttmem_end_capture(tracker, "ITERATION_COMPLETE"));
    check(ttmem_print_memory_usage(tracker));

    ttmem_dram_usage model;
    check(ttmem_get_dram_usage(tracker, "MODEL_CREATION", &model));
    printf("The model takes %" PRIu64 " bytes.\n", model.total_allocations - model.total_deallocations);
    if (ttmem_get_dram_usage(tracker, "FORWARD_PASS", &model) == TTMEM_AMBIGUOUS_PHASE) {
        printf("%s\n", ttmem_last_error());
    }
    check(ttmem_finish(tracker));
    ttmem_tracker_free(tracker);
    return 0;
}
