//! The actions of CUDA's caching allocator, as they happen.
//!
//! The allocator's history is a ring buffer that only Python can read, at the cost of an object per entry. In a program
//! that allocates 60,000 times per second, it loses entries faster than they can be read. The allocator also calls
//! functions that other libraries attach to it (NCCL registers memory that way), for every action. We attach one that
//! adds the action to a queue.
//!
//! PyTorch offers this to C++ only, and not as a stable interface. Therefore `attach` is looked up by its complete
//! signature, only the fields of an entry that all versions have in the same place are read, and
//! [`Reported`](ttmem::history::snapshot::Reported) compares the first actions with the history before they are used.

mod attach;

use std::cell::Cell;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use ttmem::history::snapshot::{Entry, LiveOrigin, Reported, Within};
use ttmem::model::HistoryAction;

/// PyTorch supports fewer devices.
const MAX_DEVICES: usize = 128;
/// The number of actions in a queue: further ones are lost.
const MAX_QUEUED: usize = 1_000_000;
/// The number of actions whose memory is kept.
const MAX_SPARE: usize = 1 << 17;

/// The first part of PyTorch's `TraceEntry`, which is the same in all versions.
#[repr(C)]
struct TraceEntry {
    action: i32,
    device: i8,
    address: u64,
    /// A `std::shared_ptr`.
    context: [usize; 2],
    stream: usize,
    size: u64,
}

/// PyTorch's numbers of actions, in order. `None` is a snapshot.
const ACTIONS: [Option<HistoryAction>; 9] = [
    Some(HistoryAction::Allocated),
    Some(HistoryAction::FreeRequested),
    Some(HistoryAction::FreeCompleted),
    Some(HistoryAction::Reserved),
    Some(HistoryAction::Released),
    Some(HistoryAction::Mapped),
    Some(HistoryAction::Unmapped),
    None,
    Some(HistoryAction::OutOfMemory),
];

/// An action in a queue; `None` for a snapshot.
type Action = Option<Entry<LiveOrigin>>;

#[derive(Debug)]
struct Queue {
    actions: Vec<Action>,
    /// The memory of actions that were moved, for the next ones: touching new memory takes time.
    spare: Vec<Action>,
    has_lost: bool,
}

impl Queue {
    const EMPTY: Self = Self { actions: Vec::new(), spare: Vec::new(), has_lost: false };
}

static IS_ON: AtomicBool = AtomicBool::new(false);
static QUEUES: [Mutex<Queue>; MAX_DEVICES] = [const { Mutex::new(Queue::EMPTY) }; MAX_DEVICES];
static QUEUED: AtomicUsize = AtomicUsize::new(0);
/// The number of allocations that were received.
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// The number of the call that runs in this thread.
    static CALL: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Sets the call that runs in this thread.
pub(super) fn runs(call: Option<u64>) {
    CALL.set(call);
}

/// Attaches to the allocator in `library`, once per process, and empties the queues. Returns why that is not possible.
pub(super) fn begin(library: &CStr) -> Result<(), String> {
    static ATTACHED: OnceLock<Result<(), String>> = OnceLock::new();
    ATTACHED.get_or_init(|| attach::attach(library, invoked)).clone()?;
    for device in 0..MAX_DEVICES {
        *queue(device) = Queue::EMPTY;
    }
    QUEUED.store(0, Ordering::Relaxed);
    IS_ON.store(true, Ordering::Release);
    Ok(())
}

/// Whether actions are received.
pub(super) fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// Ends it. The attached function remains, and does nothing.
pub(super) fn end() {
    IS_ON.store(false, Ordering::Release);
}

/// The number of actions in all queues.
pub(super) fn queued() -> usize {
    QUEUED.load(Ordering::Relaxed)
}

/// The number of allocations on all devices that were received since the program started.
pub(super) fn allocations() -> u64 {
    ALLOCATIONS.load(Ordering::Relaxed)
}

/// Moves the actions of a device from its queue. Returns whether it has all of them.
pub(super) fn receive(device: usize, reported: &mut Reported) -> bool {
    if device >= MAX_DEVICES {
        return false;
    }
    let (mut actions, has_lost) = {
        let mut queue = queue(device);
        if queue.actions.is_empty() {
            return !queue.has_lost;
        }
        // The allocator waits for nothing here but this exchange.
        let spare = std::mem::take(&mut queue.spare);
        (std::mem::replace(&mut queue.actions, spare), queue.has_lost)
    };
    QUEUED.fetch_sub(actions.len(), Ordering::Relaxed);
    for action in actions.drain(..) {
        match action {
            Some(entry) => reported.push(entry),
            None => reported.snapshot(),
        }
    }
    actions.shrink_to(MAX_SPARE);
    queue(device).spare = actions;
    !has_lost
}

fn queue(device: usize) -> MutexGuard<'static, Queue> {
    QUEUES[device].lock().unwrap_or_else(PoisonError::into_inner)
}

/// Called by the allocator for every action, while it is locked. Must not call PyTorch or Python.
#[allow(unsafe_code)]
unsafe extern "C" fn invoked(_: *const attach::AnyData, entry: *const TraceEntry) {
    if !IS_ON.load(Ordering::Acquire) {
        return;
    }
    // SAFETY: the allocator passes a reference to an entry, which begins with these fields.
    let entry = unsafe { &*entry };
    let number = usize::try_from(entry.action).ok();
    // Others are unrelated to memory.
    let Some(&action) = number.and_then(|number| ACTIONS.get(number)) else { return };
    let Some(device) = usize::try_from(entry.device).ok().filter(|device| *device < MAX_DEVICES) else {
        return;
    };
    let mut queue = queue(device);
    // Nearly all frees are completed at once. They have one time, because the clock is a large part of what this costs.
    if action == Some(HistoryAction::FreeCompleted)
        && let Some(Some(last)) = queue.actions.last_mut()
        && last.action == HistoryAction::FreeRequested
        && last.address == entry.address
    {
        last.action = HistoryAction::Freed;
        return;
    }
    if queue.actions.len() >= MAX_QUEUED {
        queue.has_lost = true;
        return;
    }
    queue.actions.push(action.map(|action| received(action, entry)));
    QUEUED.fetch_add(1, Ordering::Relaxed);
    if action == Some(HistoryAction::Allocated) {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    }
}

fn received(action: HistoryAction, entry: &TraceEntry) -> Entry<LiveOrigin> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Entry {
        action,
        address: entry.address,
        bytes: entry.size,
        time_us: u64::try_from(now.as_micros()).unwrap_or(u64::MAX),
        origin: LiveOrigin { stack: None, within: CALL.get().map_or(Within::Unknown, Within::Call) },
    }
}
