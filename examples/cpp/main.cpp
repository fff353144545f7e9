// The tracker in a program that simulates training: four layers, an optimizer, two micro-batches.
// With a path it also writes a recording: ./train train.ttmem, then `ttmem summary train.ttmem`.

#include <algorithm>
#include <cstdint>
#include <iostream>
#include <ttmem.hpp>

using ttmem::MemoryUsageTracker;
using ttmem::Pool;

constexpr std::uint64_t KiB = 1024;
constexpr std::uint64_t MiB = 1024 * KiB;
constexpr int layers = 4;
constexpr const char* cores = "{[(x=0,y=0) - (x=7,y=7)]}";

// Each layer runs a program and keeps its activation.
void forward() {
    for (int layer = 0; layer < layers; ++layer) {
        MemoryUsageTracker::record_circular_buffers_gone();
        MemoryUsageTracker::record_circular_buffer(96 * KiB, cores);
        MemoryUsageTracker::record_alloc(300 + layer, 6 * MiB);
        MemoryUsageTracker::record_alloc(400, 200 * KiB, Pool::L1);
        MemoryUsageTracker::record_free(400);
    }
}

// Each layer frees its activation and allocates a gradient. The second micro-batch adds its gradients to the first's.
void backward() {
    const auto names = MemoryUsageTracker::get_trace_names();
    const bool is_first = std::find(names.begin(), names.end(), "BACKWARD_PASS") == names.end();
    for (int layer = layers - 1; layer >= 0; --layer) {
        MemoryUsageTracker::record_circular_buffers_gone();
        MemoryUsageTracker::record_circular_buffer(128 * KiB, cores);
        MemoryUsageTracker::record_alloc(600, 12 * MiB);
        if (is_first) {
            MemoryUsageTracker::record_alloc(500 + layer, 12 * MiB);
        }
        MemoryUsageTracker::record_free(600);
        MemoryUsageTracker::record_free(300 + layer);
    }
}

int main(int argc, char** argv) {
    if (argc > 1) {
        MemoryUsageTracker::record_to(argv[1]);
    }
    ttmem::ScopeGuard guard = MemoryUsageTracker::begin_capture();

    for (int layer = 0; layer < layers; ++layer) {
        MemoryUsageTracker::record_alloc(100 + layer, 12 * MiB + layer * 64 * KiB);
    }
    MemoryUsageTracker::snapshot("MODEL_CREATION");

    for (int layer = 0; layer < layers; ++layer) {
        MemoryUsageTracker::record_alloc(200 + layer, 24 * MiB);
    }
    MemoryUsageTracker::snapshot("OPTIMIZER_CREATION");

    for (int micro_batch = 0; micro_batch < 2; ++micro_batch) {
        forward();
        MemoryUsageTracker::snapshot("FORWARD_PASS");
        backward();
        MemoryUsageTracker::snapshot("BACKWARD_PASS");
    }
    for (int layer = 0; layer < layers; ++layer) {
        MemoryUsageTracker::record_free(500 + layer);
    }
    MemoryUsageTracker::end_capture("ITERATION_COMPLETE");
    MemoryUsageTracker::print_memory_usage();

    const ttmem::DRAMUsage model = MemoryUsageTracker::get_dram_usage("MODEL_CREATION");
    std::cout << "The model takes " << model.total_allocations - model.total_deallocations << " bytes.\n";
    try {
        MemoryUsageTracker::get_dram_usage("FORWARD_PASS");
    } catch (const ttmem::Error& error) {
        std::cout << error.what() << "\n";
    }
}
