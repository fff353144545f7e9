// The C++ header: guards, exceptions, several trackers.

#include <cstdio>
#include <sstream>
#include <ttmem.hpp>
#include <utility>

#define EXPECT(condition)                                                \
    do {                                                                 \
        if (!(condition)) {                                              \
            std::fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
            return 1;                                                    \
        }                                                                \
    } while (0)

template <typename Call>
static ttmem_status status_of(Call call) {
    try {
        call();
        return TTMEM_OK;
    } catch (const ttmem::Error& error) {
        return error.status();
    }
}

int main() {
    using ttmem::MemoryUsageTracker;
    {
        ttmem::ScopeGuard guard = MemoryUsageTracker::begin_capture(ttmem::RunMode::NO_DISPATCH);
        EXPECT(status_of([] { (void)MemoryUsageTracker::begin_capture(); }) == TTMEM_ALREADY_CAPTURING);
        MemoryUsageTracker::record_alloc(1, 1 << 20);
        MemoryUsageTracker::snapshot("A");
        // A guard that is moved ends its capture once.
        ttmem::ScopeGuard moved = std::move(guard);
        EXPECT(MemoryUsageTracker::is_capturing());
    }
    EXPECT(!MemoryUsageTracker::is_capturing() && MemoryUsageTracker::get_trace_names().empty());
    EXPECT(status_of([] { MemoryUsageTracker::snapshot("A"); }) == TTMEM_NOT_CAPTURING);

    ttmem::Tracker one, other;
    ttmem::ScopeGuard guard = one.begin_capture();
    EXPECT(one.is_capturing() && !other.is_capturing());
    one.record_alloc(1, 300, ttmem::Pool::TRACE);
    one.record_alloc(2, 40, ttmem::Pool::L1_SMALL);
    one.record_free(1);
    one.end_capture();
    guard.release();
    EXPECT(one.get_dram_usage(ttmem::kDefaultTraceName).total_deallocations == 300);
    EXPECT(one.get_l1_usage_all().at(0).second.peak_buffer == 40);
    EXPECT(one.get_dram_usage_all().at(0).first == "END_TRACE" && one.unknown_frees() == 0);
    EXPECT(status_of([&] { one.get_l1_usage("B"); }) == TTMEM_NO_SUCH_PHASE);
    std::ostringstream out;
    other.print_memory_usage(out);
    EXPECT(out.str() == "WARNING: No traces captured\n");
    // Calls on a moved-from tracker fail.
    ttmem::Tracker moved = std::move(other);
    EXPECT(status_of([&] { other.clear(); }) == TTMEM_INVALID_ARGUMENT);
    EXPECT(status_of([&] { moved.clear(); }) == TTMEM_OK);
    std::puts("as it should be");
}
