//! Parses PyTorch's out-of-memory messages, in all wordings since 1.0.
//!
//! ```text
//! 1.0  CUDA out of memory. Tried to allocate X (GPU 0; X total capacity; X already allocated; X free; X cached)
//! 1.4  … X free; X reserved in total by PyTorch)                       1.8: `X allowed; ` before the last part
//! 2.1  CUDA out of memory. Tried to allocate X. GPU 0 has a total capacty of X of which X is free. [Process 1 has X
//!      memory in use. ]…[Including non-PyTorch memory, this process has X memory in use. ][X allowed; ]Of the
//!      allocated memory X is allocated by PyTorch, [with X allocated in private pools (e.g., CUDA Graphs), ]and X is
//!      reserved by PyTorch but unallocated.                            2.2: `capacity`
//! XPU  the same; the first versions have no `of which X is free`
//! MPS  MPS backend out of memory (MPS allocated: X, other allocations: X, max allowed: X). Tried to allocate X
//! ```
//!
//! With `backend:cudaMallocAsync`, the message has a line for each number:
//!
//! ```text
//! Allocation on device 0 would exceed allowed memory. (out of memory)
//! Currently allocated     : X
//! Requested               : X
//! Device limit            : X
//! Free (according to CUDA): X
//! PyTorch limit (set by user-supplied memory fraction)
//!                         : X
//! ```
//!
//! A number is taken only if the words around it are those of the message.

use memchr::memmem;
use ttmem_model::Amount;

use super::amount::Cursor;
use super::found::{Found, Numbers};

/// The platforms by their names in messages.
const PLATFORMS: [(&str, &str); 4] = [("CUDA", "cuda"), ("HIP", "hip"), ("XPU", "xpu"), ("NPU", "npu")];

/// Finds a message in a text.
pub(super) fn find(text: &[u8]) -> Option<Found> {
    find_torch(text).or_else(|| find_mps(text)).or_else(|| find_async(text))
}

fn find_torch(text: &[u8]) -> Option<Found> {
    let at = memmem::find(text, b" out of memory.")?;
    let (name, platform) = PLATFORMS.iter().find(|(name, _)| text[..at].ends_with(name.as_bytes()))?;
    let start = at - name.len();
    // `XCUDA` is another word.
    if start > 0 && text[start - 1].is_ascii_alphanumeric() {
        return None;
    }
    let mut cursor = Cursor::new(&text[start..]);
    let mut found = Found::new("pytorch", platform, start);
    cursor.eat(name);
    cursor.eat(" out of memory.");
    found.is_complete = torch(&mut cursor, &mut found).is_some();
    Some(found.ending(&cursor, text))
}

/// The part after `out of memory.`; `None` if it ends early.
fn torch(cursor: &mut Cursor<'_>, found: &mut Found) -> Option<()> {
    cursor.eat(" Tried to allocate ").then_some(())?;
    if cursor.eat("more than 1EB memory.") {
        // The whole message. The request itself is unknown.
        return Some(());
    }
    found.numbers.requested = Some(cursor.size()?);
    if cursor.eat_any(&[" (GPU ", " (NPU ", " (XPU "]).is_some() {
        return in_parentheses(cursor, found);
    }
    cursor.eat_any(&[". GPU ", ". NPU ", ". XPU "])?;
    found.device = u32::try_from(cursor.number()?).ok();
    cursor.eat_any(&[" has a total capacity of ", " has a total capacty of "])?;
    found.numbers.capacity = Some(cursor.size()?);
    // XPU did not state the free memory in its first versions.
    if cursor.eat(" of which ") {
        found.numbers.free = Some(taken(cursor, " is free.")?);
    } else {
        cursor.eat(".").then_some(())?;
    }
    while process(cursor, found)? {}
    let mut ahead = cursor.clone();
    if ahead.eat(" ")
        && let Some(allowed) = ahead.size()
        && ahead.eat(" allowed;")
    {
        found.numbers.allowed = Some(allowed);
        *cursor = ahead;
    } else {
        cursor.is_cut |= ahead.is_cut;
    }
    cursor.eat(" Of the allocated memory ").then_some(())?;
    found.numbers.allocated = Some(taken(cursor, " is allocated by PyTorch,")?);
    if cursor.eat(" with ") {
        found.numbers.private_pools =
            Some(taken(cursor, " allocated in private pools (e.g., CUDA Graphs),")?);
    }
    cursor.eat(" and ").then_some(())?;
    found.numbers.unallocated = Some(taken(cursor, " is reserved by PyTorch but unallocated")?);
    Some(())
}

/// A sentence about a process. Returns whether there was one; `None` if the text ends inside it.
fn process(cursor: &mut Cursor<'_>, found: &mut Found) -> Option<bool> {
    if cursor.eat(" Process ") {
        let pid = cursor.number()?;
        cursor.eat(" has ").then_some(())?;
        let amount = taken(cursor, " memory in use.")?;
        found.processes.push((pid, amount));
        return Some(true);
    }
    if cursor.eat(" Including non-PyTorch memory, this process has ") {
        found.numbers.process = Some(taken(cursor, " memory in use.")?);
        return Some(true);
    }
    Some(false)
}

/// A size and the words after it.
fn taken(cursor: &mut Cursor<'_>, words: &str) -> Option<Amount> {
    let size = cursor.size()?;
    cursor.eat(words).then_some(size)
}

/// `0; X total capacity; X already allocated; X free; X reserved in total by PyTorch)`.
fn in_parentheses(cursor: &mut Cursor<'_>, found: &mut Found) -> Option<()> {
    found.device = u32::try_from(cursor.number()?).ok();
    cursor.eat("; ").then_some(())?;
    let numbers: &mut Numbers = &mut found.numbers;
    numbers.capacity = Some(taken(cursor, " total capacity; ")?);
    let allocated = taken(cursor, " already allocated; ")?;
    numbers.allocated = Some(allocated);
    numbers.free = Some(taken(cursor, " free; ")?);
    let mut size = cursor.size()?;
    if cursor.eat(" allowed; ") {
        numbers.allowed = Some(size);
        size = cursor.size()?;
    }
    // Up to 1.3, the last number is memory that the allocator keeps but does not use.
    if cursor.eat_any(&[" cached)", " cached; "]).is_some() {
        numbers.unallocated = Some(size);
        return Some(());
    }
    cursor.eat(" reserved in total by PyTorch)").then_some(())?;
    numbers.unallocated = size.minus(allocated);
    Some(())
}

fn find_mps(text: &[u8]) -> Option<Found> {
    let start = memmem::find(text, b"MPS backend out of memory")?;
    let mut cursor = Cursor::new(&text[start..]);
    let mut found = Found::new("pytorch", "mps", start);
    cursor.eat("MPS backend out of memory");
    found.is_complete = mps(&mut cursor, &mut found.numbers).is_some();
    Some(found.ending(&cursor, text))
}

fn mps(cursor: &mut Cursor<'_>, numbers: &mut Numbers) -> Option<()> {
    cursor.eat(" (MPS allocated: ").then_some(())?;
    numbers.allocated = Some(taken(cursor, ", other allocations: ")?);
    numbers.other = Some(taken(cursor, ", max allowed: ")?);
    numbers.allowed = Some(taken(cursor, "). Tried to allocate ")?);
    numbers.requested = Some(cursor.size()?);
    Some(())
}

fn find_async(text: &[u8]) -> Option<Found> {
    let start = memmem::find(text, b"Allocation on ")?;
    let mut cursor = Cursor::new(&text[start..]);
    let mut found = Found::new("pytorch", "cuda", start);
    let is_headline = asynchronous_headline(&mut cursor, &mut found).is_some();
    // The beginning of the message may be that of another one.
    let may_be_headline = cursor.is_cut && text[..start].ends_with(b"OutOfMemoryError: ");
    (is_headline || may_be_headline).then_some(())?;
    found.is_complete = is_headline && asynchronous(&mut cursor, &mut found.numbers).is_some();
    Some(found.ending(&cursor, text))
}

fn asynchronous_headline(cursor: &mut Cursor<'_>, found: &mut Found) -> Option<()> {
    cursor.eat("Allocation on device ").then_some(())?;
    found.device = u32::try_from(cursor.number()?).ok();
    cursor.eat(" would exceed allowed memory. (out of memory)").then_some(())
}

fn asynchronous(cursor: &mut Cursor<'_>, numbers: &mut Numbers) -> Option<()> {
    for (words, number) in [
        (" Currently allocated : ", &mut numbers.allocated),
        (" Requested : ", &mut numbers.requested),
        (" Device limit : ", &mut numbers.capacity),
        (" Free (according to CUDA): ", &mut numbers.free),
        (" PyTorch limit (set by user-supplied memory fraction) : ", &mut numbers.allowed),
    ] {
        cursor.eat(words).then_some(())?;
        *number = Some(cursor.size()?);
    }
    // Without a limit, PyTorch prints 2^64 bytes.
    let is_limit = |allowed: &Amount| numbers.capacity.is_some_and(|capacity| allowed.bytes < capacity.bytes);
    numbers.allowed = numbers.allowed.filter(is_limit);
    Some(())
}

/// The numbers of a warning that precedes some messages (since 2.10), in bytes: the request, the free memory and the
/// memory of the device. PyTorch frees cached memory and tries again, so the warning alone is not an error.
pub(super) fn warning(text: &[u8]) -> Option<[u64; 3]> {
    let start = memmem::find(text, b"memory allocation failed with OOM on device ")?;
    let mut cursor = Cursor::new(&text[start..]);
    cursor.eat("memory allocation failed with OOM on device ");
    cursor.number()?;
    cursor.eat(" while trying to allocate ").then_some(())?;
    let requested = cursor.number()?;
    cursor.eat(" bytes (free: ").then_some(())?;
    let free = cursor.number()?;
    cursor.eat(", total: ").then_some(())?;
    let total = cursor.number()?;
    cursor.eat(")").then_some([requested, free, total])
}
