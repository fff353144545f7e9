/* ttmem: the memory tracker for C programs.
 *
 * Generated from crates/ttmem-c; do not edit. See docs/tracker.md for a guide. For C++, use ttmem.hpp.
 *
 * A program reports every allocation and free to a tracker, which divides the run into phases. All functions are
 * thread-safe. Functions that can fail return a ttmem_status; after an error, ttmem_last_error() returns a message with
 * advice. No function terminates the program, even if its arguments are invalid.
 *
 * Ownership:
 *  - The caller owns trackers from ttmem_tracker_new() and ttmem_tracker_recording_to(), and frees them with
 *    ttmem_tracker_free(). The library owns the tracker from ttmem_default_tracker(); freeing it does nothing.
 *  - The caller owns returned strings and arrays, and frees them with the function named in their documentation.
 *  - String arguments are copied. They must be zero-terminated UTF-8.
 */

#ifndef TTMEM_H
#define TTMEM_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/**
 * The result of a call.
 */
typedef enum {
    /**
     * Success.
     */
    TTMEM_OK = 0,
    /**
     * A pointer is NULL, a string is not valid UTF-8 or not a graph capture, or a number is out of range.
     */
    TTMEM_INVALID_ARGUMENT = 1,
    /**
     * A capture is already running.
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
     * The existing phases were captured in another mode.
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
 * The memory pool of an allocation.
 */
typedef enum {
    /**
     * Device memory. Sizes are totals for the device.
     */
    TTMEM_DRAM = 0,
    /**
     * Core-local memory. Sizes are per core.
     */
    TTMEM_L1 = 1,
    /**
     * The part of L1 reserved for small buffers. Phases count it as L1.
     */
    TTMEM_L1_SMALL = 2,
    /**
     * The part of DRAM reserved for traces. Phases count it as DRAM.
     */
    TTMEM_TRACE = 3,
} ttmem_pool;

/**
 * Whether a program's operations run while it is captured.
 */
typedef enum {
    /**
     * Operations run.
     */
    TTMEM_NORMAL = 0,
    /**
     * Operations don't run, and nothing is allocated: the program only reports sizes. The figures are estimates.
     */
    TTMEM_NO_DISPATCH = 1,
} ttmem_run_mode;

/**
 * A tracker. Opaque.
 */
typedef struct ttmem_tracker ttmem_tracker;

/**
 * A phase's DRAM usage, in bytes for the whole device.
 */
typedef struct {
    /**
     * The peak above the usage at the start of the phase; 0 if it was never exceeded.
     */
    int64_t peak;
    /**
     * The total size of all allocations.
     */
    uint64_t total_allocations;
    /**
     * The total size of all frees.
     */
    uint64_t total_deallocations;
} ttmem_dram_usage;

/**
 * A phase's L1 usage, in bytes per core.
 */
typedef struct {
    /**
     * The peak of circular buffers.
     */
    uint64_t peak_cb;
    /**
     * The peak of other buffers.
     */
    uint64_t peak_buffer;
    /**
     * The peak of both together.
     */
    uint64_t peak_total;
} ttmem_l1_usage;

/**
 * A phase.
 */
typedef struct {
    /**
     * The name.
     */
    char *name;
    /**
     * The DRAM usage.
     */
    ttmem_dram_usage dram;
    /**
     * The L1 usage.
     */
    ttmem_l1_usage l1;
} ttmem_phase;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Returns the message of this thread's last error, with advice; an empty string if there was none. Valid until the
 * next error in this thread. Must not be freed.
 */
const char *ttmem_last_error(void);

/**
 * Frees a string that this library returned. NULL is allowed.
 */
void ttmem_string_free(char *text);

/**
 * Creates a tracker without a recording.
 */
ttmem_status ttmem_tracker_new(ttmem_tracker **out);

/**
 * Creates a tracker that also writes its captures to a .ttmem file while the program runs. An existing recording is
 * replaced; any other existing file is an error.
 */
ttmem_status ttmem_tracker_recording_to(const char *path, ttmem_tracker **out);

/**
 * Returns the process-wide tracker: always the same one, never NULL. It exists until the process ends. If it records,
 * call ttmem_finish() before that.
 */
ttmem_tracker *ttmem_default_tracker(void);

/**
 * Frees a tracker and finishes its recording. Does nothing for NULL and the process-wide tracker.
 */
void ttmem_tracker_free(ttmem_tracker *tracker);

/**
 * Starts recording future captures to a .ttmem file. Finishes an earlier recording and discards the phases so far.
 * Fails during a capture.
 */
ttmem_status ttmem_record_to(ttmem_tracker *tracker, const char *path);

/**
 * Finishes the recording, if there is one. Returns the error that ended it early; such an error affects nothing else.
 */
ttmem_status ttmem_finish(ttmem_tracker *tracker);

/**
 * Begins a capture and its first phase. `mode` is a ttmem_run_mode. Stores the number of the capture in `capture`,
 * which may be NULL, for ttmem_end_and_clear().
 */
ttmem_status ttmem_begin_capture(ttmem_tracker *tracker, int32_t mode, uint64_t *capture);

/**
 * Ends the current phase, gives it a name, and begins the next one. Names may repeat.
 */
ttmem_status ttmem_snapshot(ttmem_tracker *tracker, const char *name);

/**
 * Ends the last phase and the capture.
 */
ttmem_status ttmem_end_capture(ttmem_tracker *tracker, const char *name);

/**
 * Ends a capture with a phase END_TRACE if it is running, and discards the phases. Does nothing if another capture has
 * begun since. For the destructor of a guard.
 */
ttmem_status ttmem_end_and_clear(ttmem_tracker *tracker,
                                 uint64_t capture);

/**
 * Discards the phases and all known allocations, and ends a running capture.
 */
ttmem_status ttmem_clear(ttmem_tracker *tracker);

/**
 * Records an allocation. `id` identifies it until it is freed: an address, or a buffer number. `pool` is a ttmem_pool.
 * Outside a capture, this and the other recording functions do nothing.
 */
ttmem_status ttmem_record_alloc(ttmem_tracker *tracker,
                                uint64_t id,
                                uint64_t bytes,
                                int32_t pool);

/**
 * Records that an allocation was freed. An unknown id is not an error; ttmem_unknown_frees() counts them.
 */
ttmem_status ttmem_record_free(ttmem_tracker *tracker, uint64_t id);

/**
 * Records a program's circular buffer: its bytes per core, and its cores (may be NULL). A buffer inside another one
 * (`globally_allocated`) takes no additional memory.
 */
ttmem_status ttmem_record_circular_buffer(ttmem_tracker *tracker,
                                          uint64_t bytes,
                                          const char *cores,
                                          bool globally_allocated);

/**
 * Records that all circular buffers were freed, because a program begins or ends.
 */
ttmem_status ttmem_record_circular_buffers_gone(ttmem_tracker *tracker);

/**
 * Records a ttnn graph capture as part of the current phase. `json` is a zero-terminated list of nodes, or the report
 * that contains it. If it is invalid, none of it is recorded.
 */
ttmem_status ttmem_record_graph(ttmem_tracker *tracker,
                                const char *json);

/**
 * Returns the DRAM usage of the named phase. Fails if several phases have that name.
 */
ttmem_status ttmem_get_dram_usage(ttmem_tracker *tracker, const char *name, ttmem_dram_usage *out);

/**
 * Returns the L1 usage of the named phase. Fails if several phases have that name.
 */
ttmem_status ttmem_get_l1_usage(ttmem_tracker *tracker, const char *name, ttmem_l1_usage *out);

/**
 * Returns all phases, in order. Stores an array of `count` phases in `out`, or NULL if there are none. Free it with
 * ttmem_phases_free().
 */
ttmem_status ttmem_get_phases(ttmem_tracker *tracker, ttmem_phase **out, size_t *count);

/**
 * Frees an array that ttmem_get_phases() returned. NULL is allowed.
 */
void ttmem_phases_free(ttmem_phase *phases, size_t count);

/**
 * Whether a capture is running; false if the tracker is NULL.
 */
bool ttmem_is_capturing(ttmem_tracker *tracker);

/**
 * Stores the number of frees of unknown ids. Usually, these were allocated before the capture.
 */
ttmem_status ttmem_unknown_frees(ttmem_tracker *tracker, uint64_t *out);

/**
 * Stores the number of allocations with an id that had not been freed. The earlier allocation counts as freed.
 */
ttmem_status ttmem_repeated_allocations(ttmem_tracker *tracker, uint64_t *out);

/**
 * Returns the figures of all phases as text in the format of tt-train's tracker. Free it with ttmem_string_free().
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
