/* ttmem: the memory tracker for C++17 programs.
 *
 * A header-only wrapper around ttmem.h; link with libttmem.a or libttmem.so. See docs/tracker.md for a guide.
 *
 *     auto guard = ttmem::MemoryUsageTracker::begin_capture();
 *     // ... create the model and record its allocations ...
 *     ttmem::MemoryUsageTracker::snapshot("MODEL_CREATION");
 *     // ... train ...
 *     ttmem::MemoryUsageTracker::end_capture("ITERATION_COMPLETE");
 *     ttmem::MemoryUsageTracker::print_memory_usage();
 *
 * Errors are thrown as ttmem::Error, with a message and advice.
 */
#ifndef TTMEM_HPP
#define TTMEM_HPP

#include <cstddef>
#include <cstdint>
#include <iostream>
#include <memory>
#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "ttmem.h"

namespace ttmem {

/* The error of a failed call. */
class Error : public std::runtime_error {
public:
    Error(ttmem_status status, const std::string& what) : std::runtime_error(what), status_(status) {}

    /* The status code. */
    ttmem_status status() const noexcept { return status_; }

private:
    ttmem_status status_;
};

/* Whether a program's operations run while it is captured. NO_DISPATCH: nothing is allocated, and the figures are
 * estimates. */
enum class RunMode : std::int32_t { NORMAL = TTMEM_NORMAL, NO_DISPATCH = TTMEM_NO_DISPATCH };

/* The pool of an allocation. Sizes in DRAM and TRACE are totals for the device, in L1 and L1_SMALL per core. */
enum class Pool : std::int32_t {
    DRAM = TTMEM_DRAM,
    L1 = TTMEM_L1,
    L1_SMALL = TTMEM_L1_SMALL,
    TRACE = TTMEM_TRACE
};

/* A phase's DRAM usage: peak, total_allocations, total_deallocations. */
using DRAMUsage = ttmem_dram_usage;
/* A phase's L1 usage per core: peak_cb, peak_buffer, peak_total. */
using L1UsagePerCore = ttmem_l1_usage;

/* The name of a phase ended by a guard. */
inline constexpr const char* kDefaultTraceName = "END_TRACE";

namespace detail {

inline void check(ttmem_status status) {
    if (status != TTMEM_OK) {
        throw Error(status, ttmem_last_error());
    }
}

inline std::string memory_usage_text(ttmem_tracker* tracker) {
    char* text = nullptr;
    check(ttmem_memory_usage_text(tracker, &text));
    std::unique_ptr<char, void (*)(char*)> owner(text, ttmem_string_free);
    return std::string(text);
}

/* The results of `take` for each phase, in order. */
template <typename Take>
auto phases(ttmem_tracker* tracker, Take take) {
    ttmem_phase* found = nullptr;
    std::size_t count = 0;
    check(ttmem_get_phases(tracker, &found, &count));
    auto free = [count](ttmem_phase* phases) { ttmem_phases_free(phases, count); };
    std::unique_ptr<ttmem_phase, decltype(free)> owner(found, free);
    std::vector<decltype(take(*found))> result;
    result.reserve(count);
    for (std::size_t index = 0; index < count; ++index) {
        result.push_back(take(found[index]));
    }
    return result;
}

}  // namespace detail

/* Ends its capture and clears the tracker when destroyed, unless it is released. Does nothing if another capture has
 * begun. Must not outlive its tracker. */
class [[nodiscard]] ScopeGuard {
public:
    ScopeGuard(ttmem_tracker* tracker, std::uint64_t capture) noexcept : tracker_(tracker), capture_(capture) {}
    ScopeGuard(ScopeGuard&& other) noexcept
        : tracker_(std::exchange(other.tracker_, nullptr)), capture_(other.capture_) {}
    ScopeGuard& operator=(ScopeGuard&& other) noexcept {
        if (this != &other) {
            finish();
            tracker_ = std::exchange(other.tracker_, nullptr);
            capture_ = other.capture_;
        }
        return *this;
    }
    ScopeGuard(const ScopeGuard&) = delete;
    ScopeGuard& operator=(const ScopeGuard&) = delete;
    ~ScopeGuard() { finish(); }

    /* Leaves the capture and the phases as they are. */
    void release() noexcept { tracker_ = nullptr; }

private:
    void finish() noexcept {
        if (tracker_ != nullptr) {
            ttmem_end_and_clear(std::exchange(tracker_, nullptr), capture_);
        }
    }

    ttmem_tracker* tracker_;
    std::uint64_t capture_;
};

/* A tracker. It can be moved but not copied. Any thread may use it. */
class Tracker {
public:
    /* A tracker without a recording. */
    Tracker() : owner_(make(), ttmem_tracker_free) {}

    /* A tracker that also writes its captures to a .ttmem file. */
    explicit Tracker(const std::string& path) : owner_(make_recording(path), ttmem_tracker_free) {}

    /* The process-wide tracker, used by MemoryUsageTracker. Its recording is finished when the process ends. */
    static Tracker& process_wide() {
        static Tracker tracker(ttmem_default_tracker());
        return tracker;
    }

    void record_to(const std::string& path) { detail::check(ttmem_record_to(handle(), path.c_str())); }
    void finish() { detail::check(ttmem_finish(handle())); }

    ScopeGuard begin_capture(RunMode mode = RunMode::NORMAL) {
        std::uint64_t capture = 0;
        detail::check(ttmem_begin_capture(handle(), static_cast<std::int32_t>(mode), &capture));
        return ScopeGuard(handle(), capture);
    }
    void snapshot(const std::string& name) { detail::check(ttmem_snapshot(handle(), name.c_str())); }
    void end_capture(const std::string& name = kDefaultTraceName) {
        detail::check(ttmem_end_capture(handle(), name.c_str()));
    }
    void clear() { detail::check(ttmem_clear(handle())); }
    bool is_capturing() const { return ttmem_is_capturing(handle()); }

    void record_alloc(std::uint64_t id, std::uint64_t bytes, Pool pool = Pool::DRAM) {
        detail::check(ttmem_record_alloc(handle(), id, bytes, static_cast<std::int32_t>(pool)));
    }
    void record_free(std::uint64_t id) { detail::check(ttmem_record_free(handle(), id)); }
    void record_circular_buffer(std::uint64_t bytes, const std::string& cores = "", bool globally_allocated = false) {
        detail::check(ttmem_record_circular_buffer(handle(), bytes, cores.c_str(), globally_allocated));
    }
    void record_circular_buffers_gone() { detail::check(ttmem_record_circular_buffers_gone(handle())); }
    /* Records a ttnn graph capture (JSON) as part of the current phase. */
    void record_graph(const std::string &json) { detail::check(ttmem_record_graph(handle(), json.c_str())); }

    DRAMUsage get_dram_usage(const std::string& name) const {
        DRAMUsage usage{};
        detail::check(ttmem_get_dram_usage(handle(), name.c_str(), &usage));
        return usage;
    }
    L1UsagePerCore get_l1_usage(const std::string& name) const {
        L1UsagePerCore usage{};
        detail::check(ttmem_get_l1_usage(handle(), name.c_str(), &usage));
        return usage;
    }
    std::vector<std::pair<std::string, DRAMUsage>> get_dram_usage_all() const {
        return detail::phases(handle(), [](const ttmem_phase& phase) {
            return std::make_pair(std::string(phase.name), phase.dram);
        });
    }
    std::vector<std::pair<std::string, L1UsagePerCore>> get_l1_usage_all() const {
        return detail::phases(handle(), [](const ttmem_phase& phase) {
            return std::make_pair(std::string(phase.name), phase.l1);
        });
    }
    std::vector<std::string> get_trace_names() const {
        return detail::phases(handle(), [](const ttmem_phase& phase) { return std::string(phase.name); });
    }
    std::uint64_t unknown_frees() const {
        std::uint64_t frees = 0;
        detail::check(ttmem_unknown_frees(handle(), &frees));
        return frees;
    }
    std::uint64_t repeated_allocations() const {
        std::uint64_t times = 0;
        detail::check(ttmem_repeated_allocations(handle(), &times));
        return times;
    }
    std::string memory_usage_text() const { return detail::memory_usage_text(handle()); }
    void print_memory_usage(std::ostream& out = std::cout) const { out << memory_usage_text() << std::flush; }

private:
    explicit Tracker(ttmem_tracker* shared) : owner_(shared, finish_shared) {}

    static ttmem_tracker* make() {
        ttmem_tracker* made = nullptr;
        detail::check(ttmem_tracker_new(&made));
        return made;
    }
    static ttmem_tracker* make_recording(const std::string& path) {
        ttmem_tracker* made = nullptr;
        detail::check(ttmem_tracker_recording_to(path.c_str(), &made));
        return made;
    }
    /* NULL if it was moved from; calls then fail. */
    ttmem_tracker* handle() const noexcept { return owner_.get(); }
    static void finish_shared(ttmem_tracker* shared) { ttmem_finish(shared); }

    std::unique_ptr<ttmem_tracker, void (*)(ttmem_tracker*)> owner_;
};

/* Static functions for the process-wide tracker. */
class MemoryUsageTracker {
public:
    MemoryUsageTracker() = delete;

    static ScopeGuard begin_capture(RunMode mode = RunMode::NORMAL) { return it().begin_capture(mode); }
    static void snapshot(const std::string& name) { it().snapshot(name); }
    static void end_capture(const std::string& name = kDefaultTraceName) { it().end_capture(name); }
    static void clear() { it().clear(); }
    static bool is_capturing() { return it().is_capturing(); }
    static void record_to(const std::string& path) { it().record_to(path); }
    static void finish() { it().finish(); }
    static void record_alloc(std::uint64_t id, std::uint64_t bytes, Pool pool = Pool::DRAM) {
        it().record_alloc(id, bytes, pool);
    }
    static void record_free(std::uint64_t id) { it().record_free(id); }
    static void record_circular_buffer(
        std::uint64_t bytes, const std::string& cores = "", bool globally_allocated = false) {
        it().record_circular_buffer(bytes, cores, globally_allocated);
    }
    static void record_circular_buffers_gone() { it().record_circular_buffers_gone(); }
    static void record_graph(const std::string &json) { it().record_graph(json); }
    static DRAMUsage get_dram_usage(const std::string& name) { return it().get_dram_usage(name); }
    static L1UsagePerCore get_l1_usage(const std::string& name) { return it().get_l1_usage(name); }
    static auto get_dram_usage_all() { return it().get_dram_usage_all(); }
    static auto get_l1_usage_all() { return it().get_l1_usage_all(); }
    static std::vector<std::string> get_trace_names() { return it().get_trace_names(); }
    static std::uint64_t unknown_frees() { return it().unknown_frees(); }
    static std::uint64_t repeated_allocations() { return it().repeated_allocations(); }
    static void print_memory_usage(std::ostream& out = std::cout) { it().print_memory_usage(out); }

private:
    static Tracker& it() { return Tracker::process_wide(); }
};

}  // namespace ttmem

#endif  // TTMEM_HPP
