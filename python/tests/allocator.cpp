// An allocator with the classes and names of PyTorch's, which reports what a test tells it.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#ifdef BEFORE_2_11
namespace c10::cuda::CUDACachingAllocator {
#else
namespace c10::CachingDeviceAllocator {
#endif
struct TraceEntry {
    enum Action { ALLOC, FREE_REQUESTED, FREE_COMPLETED, SEGMENT_ALLOC, SEGMENT_FREE, SEGMENT_MAP, SEGMENT_UNMAP, SNAPSHOT, OOM, OTHER };
    Action action;
    int8_t device;
    size_t address;
    std::shared_ptr<int> context;
    void* stream;
    size_t size;
    std::pair<unsigned long long, unsigned long long> pool;
    int64_t time;
    std::string compile_context, user_metadata;
};
}  // namespace

namespace c10::cuda::CUDACachingAllocator {
#ifndef BEFORE_2_11
using c10::CachingDeviceAllocator::TraceEntry;
#endif
using Tracker = std::function<void(const TraceEntry&)>;

struct CUDAAllocator {
    virtual void other() {}
    virtual void attachAllocatorTraceTracker(Tracker tracker) = 0;
    virtual ~CUDAAllocator() = default;
};

__attribute__((visibility("default"))) std::atomic<CUDAAllocator*> allocator;

namespace Native {
struct NativeCachingAllocator : CUDAAllocator {
    // For each device.
    std::vector<Tracker> trackers[2];
    void attachAllocatorTraceTracker(Tracker tracker) override;
};
void NativeCachingAllocator::attachAllocatorTraceTracker(Tracker tracker) {
    for (auto& of : trackers) of.emplace_back(tracker);
}
NativeCachingAllocator native;
}  // namespace Native
struct Other : CUDAAllocator {
    void attachAllocatorTraceTracker(Tracker) override {}
} other;
}  // namespace

using namespace c10::cuda::CUDACachingAllocator;

extern "C" __attribute__((visibility("default"))) void choose(int which) {
    allocator = which == 0 ? nullptr : which == 1 ? static_cast<CUDAAllocator*>(&Native::native) : &other;
}

extern "C" __attribute__((visibility("default"))) void act(int action, int device, size_t address, size_t size) {
    TraceEntry entry{};
    entry.action = static_cast<TraceEntry::Action>(action);
    entry.device = static_cast<int8_t>(device);
    entry.address = address;
    entry.size = size;
    entry.user_metadata = "a text that is too long to be stored in place";
    for (auto& tracker : Native::native.trackers[device]) tracker(entry);
}
