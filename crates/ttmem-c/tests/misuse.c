/* Misuse from C: every call returns an error, and none terminates the program. A failed check prints its line and exits
 * with 1. */

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <ttmem.h>

#define EXPECT(condition)                                                                    \
    do {                                                                                     \
        if (!(condition)) {                                                                  \
            fprintf(stderr, "line %d: %s; %s\n", __LINE__, #condition, ttmem_last_error());  \
            return 1;                                                                        \
        }                                                                                    \
    } while (0)

static void *in_another_thread(void *place) {
    *(int *)place = (int)strlen(ttmem_last_error());
    return NULL;
}

int main(int argc, char **argv) {
    const char invalid[] = {(char)0xff, (char)0xfe, 0};
    ttmem_tracker *tracker = NULL;
    ttmem_dram_usage dram;
    ttmem_l1_usage l1;
    ttmem_phase *phases = NULL;
    size_t count = 0;
    uint64_t capture = 0, number = 0;
    char *text = NULL;

    EXPECT(strlen(ttmem_last_error()) == 0);
    EXPECT(ttmem_tracker_new(NULL) == TTMEM_INVALID_ARGUMENT);
    EXPECT(ttmem_begin_capture(NULL, TTMEM_NORMAL, &capture) == TTMEM_INVALID_ARGUMENT);
    EXPECT(strstr(ttmem_last_error(), "the tracker is NULL") != NULL);
    EXPECT(ttmem_snapshot(NULL, "A") == TTMEM_INVALID_ARGUMENT);
    EXPECT(ttmem_end_capture(NULL, "A") == TTMEM_INVALID_ARGUMENT);
    EXPECT(ttmem_clear(NULL) == TTMEM_INVALID_ARGUMENT);
    EXPECT(ttmem_record_alloc(NULL, 1, 2, TTMEM_DRAM) == TTMEM_INVALID_ARGUMENT);
    EXPECT(ttmem_record_free(NULL, 1) == TTMEM_INVALID_ARGUMENT);
    EXPECT(ttmem_record_circular_buffer(NULL, 1, "", false) == TTMEM_INVALID_ARGUMENT);
    EXPECT(ttmem_record_circular_buffers_gone(NULL) == TTMEM_INVALID_ARGUMENT);
    EXPECT(ttmem_get_phases(NULL, &phases, &count) == TTMEM_INVALID_ARGUMENT);
    EXPECT(ttmem_memory_usage_text(NULL, &text) == TTMEM_INVALID_ARGUMENT);
    EXPECT(ttmem_print_memory_usage(NULL) == TTMEM_INVALID_ARGUMENT);
    EXPECT(ttmem_finish(NULL) == TTMEM_INVALID_ARGUMENT);
    EXPECT(!ttmem_is_capturing(NULL));
    ttmem_tracker_free(NULL);
    ttmem_string_free(NULL);
    ttmem_phases_free(NULL, 3);

    EXPECT(ttmem_tracker_new(&tracker) == TTMEM_OK);
    EXPECT(ttmem_snapshot(tracker, "A") == TTMEM_NOT_CAPTURING);
    EXPECT(strstr(ttmem_last_error(), "snapshot outside a capture") != NULL);
    EXPECT(ttmem_end_capture(tracker, "A") == TTMEM_NOT_CAPTURING);
    EXPECT(ttmem_begin_capture(tracker, 7, NULL) == TTMEM_INVALID_ARGUMENT);
    EXPECT(ttmem_begin_capture(tracker, TTMEM_NORMAL, &capture) == TTMEM_OK);
    EXPECT(ttmem_begin_capture(tracker, TTMEM_NORMAL, NULL) == TTMEM_ALREADY_CAPTURING);
    EXPECT(ttmem_record_to(tracker, "never.ttmem") == TTMEM_ALREADY_CAPTURING);
    EXPECT(ttmem_snapshot(tracker, NULL) == TTMEM_INVALID_ARGUMENT);
    EXPECT(ttmem_snapshot(tracker, invalid) == TTMEM_INVALID_ARGUMENT);
    EXPECT(strstr(ttmem_last_error(), "the name is not valid UTF-8") != NULL);
    EXPECT(ttmem_record_alloc(tracker, 1, 100, 9) == TTMEM_INVALID_ARGUMENT);
    EXPECT(ttmem_record_circular_buffer(tracker, 1, invalid, false) == TTMEM_INVALID_ARGUMENT);
    EXPECT(ttmem_record_circular_buffer(tracker, 1, NULL, false) == TTMEM_OK);
    EXPECT(ttmem_record_free(tracker, 77) == TTMEM_OK);
    EXPECT(ttmem_unknown_frees(tracker, &number) == TTMEM_OK && number == 1);
    EXPECT(ttmem_unknown_frees(tracker, NULL) == TTMEM_INVALID_ARGUMENT);
    EXPECT(ttmem_record_alloc(tracker, 1, 100, TTMEM_DRAM) == TTMEM_OK);
    EXPECT(ttmem_record_alloc(tracker, 1, 300, TTMEM_DRAM) == TTMEM_OK);
    EXPECT(ttmem_repeated_allocations(tracker, &number) == TTMEM_OK && number == 1);
    EXPECT(ttmem_snapshot(tracker, "A") == TTMEM_OK);
    EXPECT(ttmem_snapshot(tracker, "A") == TTMEM_OK);
    EXPECT(ttmem_get_dram_usage(tracker, "A", &dram) == TTMEM_AMBIGUOUS_PHASE);
    EXPECT(ttmem_get_dram_usage(tracker, "B", &dram) == TTMEM_NO_SUCH_PHASE);
    EXPECT(strcmp(ttmem_last_error(), "no phase named \"B\"; the phases are A") == 0);
    EXPECT(ttmem_get_l1_usage(tracker, "A", NULL) != TTMEM_OK);
    EXPECT(ttmem_end_capture(tracker, "B") == TTMEM_OK);
    EXPECT(ttmem_get_l1_usage(tracker, "B", &l1) == TTMEM_OK && l1.peak_total == 0);
    EXPECT(ttmem_begin_capture(tracker, TTMEM_NO_DISPATCH, NULL) == TTMEM_OTHER_MODE);

    EXPECT(ttmem_get_phases(tracker, NULL, &count) == TTMEM_INVALID_ARGUMENT);
    EXPECT(ttmem_get_phases(tracker, &phases, &count) == TTMEM_OK && count == 3);
    EXPECT(strcmp(phases[2].name, "B") == 0 && phases[0].dram.peak == 300 && phases[0].l1.peak_cb == 1);
    ttmem_phases_free(phases, count);
    EXPECT(ttmem_memory_usage_text(tracker, &text) == TTMEM_OK && strstr(text, "--- A ---") != NULL);
    ttmem_string_free(text);

    /* Errors are per thread. */
    int length = -1;
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, in_another_thread, &length) == 0);
    EXPECT(pthread_join(thread, NULL) == 0 && length == 0);

    /* A guard only ends its own capture. */
    EXPECT(ttmem_end_and_clear(tracker, capture + 1) == TTMEM_OK);
    EXPECT(ttmem_get_phases(tracker, &phases, &count) == TTMEM_OK && count == 3);
    ttmem_phases_free(phases, count);
    EXPECT(ttmem_end_and_clear(tracker, capture) == TTMEM_OK);
    EXPECT(ttmem_get_phases(tracker, &phases, &count) == TTMEM_OK && count == 0 && phases == NULL);

    EXPECT(argc == 2);
    EXPECT(ttmem_record_to(tracker, "/no/such/folder/x.ttmem") == TTMEM_RECORDING_FAILED);
    EXPECT(ttmem_record_to(tracker, argv[1]) == TTMEM_OK);
    EXPECT(ttmem_begin_capture(tracker, TTMEM_NO_DISPATCH, NULL) == TTMEM_OK);
    EXPECT(ttmem_end_capture(tracker, "ONLY") == TTMEM_OK);
    ttmem_tracker_free(tracker);

    /* The process-wide tracker is always the same, and cannot be freed. */
    EXPECT(ttmem_default_tracker() == ttmem_default_tracker());
    ttmem_tracker_free(ttmem_default_tracker());
    EXPECT(ttmem_clear(ttmem_default_tracker()) == TTMEM_OK);
    puts("as it should be");
    return 0;
}
