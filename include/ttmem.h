/* ttmem: where did the device memory go? The tracker for programs in C.
 *
 * Generated from crates/ttmem-c; do not edit. docs/tracker.md says how it is used, ttmem.hpp is for C++.
 *
 * A tracker is told of every allocation and free, and cuts the program into phases. Every function may be called from any
 * thread. Those that can fail return a ttmem_status: TTMEM_OK, or why not; ttmem_last_error() then says it in words, and
 * what to do. No function ends the program, whatever it is given.
 *
 * Who owns what:
 *  - a ttmem_tracker of ttmem_tracker_new() or ttmem_tracker_recording_to() is the caller's, who frees it with
 *    ttmem_tracker_free(); that of ttmem_default_tracker() is the library's, and freeing it does nothing;
 *  - texts and arrays that are handed out are the caller's, who frees them with the function that is named there;
 *  - texts that are handed in are copied, and must end with a zero byte and be UTF-8.
 */

#ifndef TTMEM_H
#define TTMEM_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/**
 * Whether a call did what it was asked to, or why not.
 */
typedef enum {
    /**
     * It did.
     */
    TTMEM_OK = 0,
    /**
     * A pointer is NULL, a text is no UTF-8 or no graph capture, or a number stands for nothing.
     */
    TTMEM_INVALID_ARGUMENT = 1,
    /**
     * A capture is running already.
     */
    TTMEM_ALREADY_CAPTURING = 2,
    /**
     * No capture is running.
     */
    TTMEM_NOT_CAPTURING = 3,
    /**
     * No phase has that name.
     */
    TTMEM_NO_SUCH_PHASE = 4,
    /**
     * Several phases have that name.
     */
    TTMEM_AMBIGUOUS_PHASE = 5,
    /**
     * The phases so far are of another mode.
     */
    TTMEM_OTHER_MODE = 6,
    /**
     * The recording cannot be written.
     */
    TTMEM_RECORDING_FAILED = 7,
    /**
     * A bug in ttmem.
     */
    TTMEM_BUG = 70,
} ttmem_status;

/**
 * Where an allocation lies.
 */
typedef enum {
    /**
     * The device's memory; sizes are those of the whole device.
     */
    TTMEM_DRAM = 0,
    /**
     * The memory of the cores; sizes are those of one core.
     */
    TTMEM_L1 = 1,
    /**
     * The part of L1 for small buffers; it counts as L1 in the figures of phases.
     */
    TTMEM_L1_SMALL = 2,
    /**
     * The part of DRAM for traces; it counts as DRAM in the figures of phases.
     */
    TTMEM_TRACE = 3,
} ttmem_pool;

/**
 * What is done with the operations of a program while it is captured.
 */
typedef enum {
    /**
     * They run.
     */
    TTMEM_NORMAL = 0,
    /**
     * They do not run, and nothing is allocated: only sizes are told. The figures are estimates.
     */
    TTMEM_NO_DISPATCH = 1,
} ttmem_run_mode;

/**
 * A tracker. What is in it is nobody's business but the library's.
 */
typedef struct ttmem_tracker ttmem_tracker;

/**
 * What a phase did in DRAM, in bytes of the whole device.
 */
typedef struct {
    /**
     * The highest use above the start of the phase; 0 if it was never above.
     */
    int64_t peak;
    /**
     * The bytes of all allocations.
     */
    uint64_t total_allocations;
    /**
     * The bytes of all frees.
     */
    uint64_t total_deallocations;
} ttmem_dram_usage;

/**
 * What a phase did in L1, in bytes of one core.
 */
typedef struct {
    /**
     * The most that circular buffers took.
     */
    uint64_t peak_cb;
    /**
     * The most that buffers took.
     */
    uint64_t peak_buffer;
    /**
     * The most that both took at once.
     */
    uint64_t peak_total;
} ttmem_l1_usage;

/**
 * A phase.
 */
typedef struct {
    /**
     * Its name.
     */
    char *name;
    /**
     * What it did in DRAM.
     */
    ttmem_dram_usage dram;
    /**
     * What it did in L1.
     */
    ttmem_l1_usage l1;
} ttmem_phase;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Why the last call of this thread that failed did, and what to do about it; an empty text where none did. It is valid
 * until the next call of this thread that fails, and is not the caller's to free.
 */
const char *ttmem_last_error(void);

/**
 * Frees a text that a function of this library has handed out. NULL is fine.
 */
void ttmem_string_free(char *text);

/**
 * Makes a tracker that keeps figures only.
 */
ttmem_status ttmem_tracker_new(ttmem_tracker **out);

/**
 * Makes a tracker whose captures also go into a .ttmem file, as they happen. An earlier recording of that name is
 * replaced; any other file is an error.
 */
ttmem_status ttmem_tracker_recording_to(const char *path, ttmem_tracker **out);

/**
 * The tracker of the process: always the same, never NULL. It is there until the process ends; call ttmem_finish() before
 * that if it records.
 */
ttmem_tracker *ttmem_default_tracker(void);

/**
 * Frees a tracker, and finishes its recording. NULL and the tracker of the process are left alone.
 */
void ttmem_tracker_free(ttmem_tracker *tracker);

/**
 * Begins a recording of the captures to come into a .ttmem file; an earlier one is finished. It must happen outside of a
 * capture, and forgets the phases so far.
 */
ttmem_status ttmem_record_to(ttmem_tracker *tracker,
                             const char *path);

/**
 * Finishes the recording, if there is one, and says what went wrong with it: nothing else is disturbed by that.
 */
ttmem_status ttmem_finish(ttmem_tracker *tracker);

/**
 * Begins a capture, and its first phase. `mode` is a ttmem_run_mode. The number of the capture goes to `capture`, which
 * may be NULL; ttmem_end_and_clear() takes it.
 */
ttmem_status ttmem_begin_capture(ttmem_tracker *tracker,
                                 int32_t mode,
                                 uint64_t *capture);

/**
 * Ends the phase, which gets its name now, and begins the next. Names may repeat.
 */
ttmem_status ttmem_snapshot(ttmem_tracker *tracker, const char *name);

/**
 * Ends the last phase, and the capture with it.
 */
ttmem_status ttmem_end_capture(ttmem_tracker *tracker, const char *name);

/**
 * Ends a capture, if it is running, with a phase END_TRACE, and forgets the phases; nothing if another capture has begun
 * since. What a guard does in the end.
 */
ttmem_status ttmem_end_and_clear(ttmem_tracker *tracker,
                                 uint64_t capture);

/**
 * Forgets the phases and everything that is known of allocations. A capture that runs is over.
 */
ttmem_status ttmem_clear(ttmem_tracker *tracker);

/**
 * Takes an allocation down. `id` is its own until it is freed: an address, a buffer's number. `pool` is a ttmem_pool.
 * Outside of a capture nothing happens, here and in all that records.
 */
ttmem_status ttmem_record_alloc(ttmem_tracker *tracker,
                                uint64_t id,
                                uint64_t bytes,
                                int32_t pool);

/**
 * Takes down that an allocation is gone. One that is not known is no error, but counted: ttmem_unknown_frees().
 */
ttmem_status ttmem_record_free(ttmem_tracker *tracker, uint64_t id);

/**
 * Takes a circular buffer of a program down: what it takes of a core, and on which cores it is (may be NULL). One that
 * lies in a buffer that is there already (`globally_allocated`) takes nothing.
 */
ttmem_status ttmem_record_circular_buffer(ttmem_tracker *tracker,
                                          uint64_t bytes,
                                          const char *cores,
                                          bool globally_allocated);

/**
 * Takes down that all circular buffers are gone: a program begins, or is over.
 */
ttmem_status ttmem_record_circular_buffers_gone(ttmem_tracker *tracker);

/**
 * Takes down what a graph capture of ttnn says, as JSON that ends with a zero byte: the list of nodes, or the report that
 * wraps it. It belongs to the phase that runs. If it cannot be read, nothing of it is taken down.
 */
ttmem_status ttmem_record_graph(ttmem_tracker *tracker,
                                const char *json);

/**
 * What the phase of that name did in DRAM. A name that several phases have is an error.
 */
ttmem_status ttmem_get_dram_usage(ttmem_tracker *tracker, const char *name, ttmem_dram_usage *out);

/**
 * What the phase of that name did in L1. A name that several phases have is an error.
 */
ttmem_status ttmem_get_l1_usage(ttmem_tracker *tracker, const char *name, ttmem_l1_usage *out);

/**
 * All phases, in order. `out` gets an array of `count`, to be freed by ttmem_phases_free(); NULL where there are none.
 */
ttmem_status ttmem_get_phases(ttmem_tracker *tracker,
                              ttmem_phase **out,
                              size_t *count);

/**
 * Frees what ttmem_get_phases() has handed out. NULL is fine.
 */
void ttmem_phases_free(ttmem_phase *phases, size_t count);

/**
 * Whether a capture runs; false where the tracker is NULL.
 */
bool ttmem_is_capturing(ttmem_tracker *tracker);

/**
 * How many frees were of ids that are not known: allocated before the capture, as a rule.
 */
ttmem_status ttmem_unknown_frees(ttmem_tracker *tracker, uint64_t *out);

/**
 * How often an id was allocated that was there already. What it was before is taken as freed then.
 */
ttmem_status ttmem_repeated_allocations(ttmem_tracker *tracker, uint64_t *out);

/**
 * The figures of all phases as text, in the format of tt-train's tracker, to be freed by ttmem_string_free().
 */
ttmem_status ttmem_memory_usage_text(ttmem_tracker *tracker, char **out);

/**
 * Prints the figures of all phases to C's standard output.
 */
ttmem_status ttmem_print_memory_usage(ttmem_tracker *tracker);

extern int printf(const char *format, ...);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TTMEM_H */
