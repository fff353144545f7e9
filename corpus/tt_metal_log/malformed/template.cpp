// A source file with the templates of messages.
void refuse(uint64_t size, uint64_t budget) {
    TT_FATAL(
        size <= budget,
        "ttnn.pad: padded row of {} B does not fit in the per-core L1 budget ({} B)",
        size,
        budget);
    TT_THROW(
        "Statically allocated circular buffers in program {} clash with L1 buffers on core range {}. L1 buffer allocated at {} and static circular buffer region ends at {}",
        id, range, address, end);
}
