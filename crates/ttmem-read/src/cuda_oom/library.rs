//! Out-of-memory errors of CUDA, of its libraries, of NCCL, of XLA (JAX), and of servers. Most of them have no numbers.

use memchr::memmem;
use ttmem_model::Amount;

use super::amount::{Cursor, after, bare_amount, leading_size};
use super::cache;
use super::found::Found;
use super::startup::Part;

/// Errors without numbers: their words, what failed to allocate, and the platform.
const WITHOUT_NUMBERS: [(&str, &str, &str); 17] = [
    ("CUBLAS_STATUS_ALLOC_FAILED", "cublas", "cuda"),
    ("HIPBLAS_STATUS_ALLOC_FAILED", "hipblas", "hip"),
    ("CUBLASLT_STATUS_ALLOC_FAILED", "cublas", "cuda"),
    ("CUDNN_STATUS_ALLOC_FAILED", "cudnn", "cuda"),
    ("CUSOLVER_STATUS_ALLOC_FAILED", "cusolver", "cuda"),
    ("CUSPARSE_STATUS_ALLOC_FAILED", "cusparse", "cuda"),
    ("CUDA error: out of memory", "cuda", "cuda"),
    ("CUDA driver error: out of memory", "cuda", "cuda"),
    ("CUDA runtime error: out of memory", "cuda", "cuda"),
    ("cuda runtime error (2) : out of memory", "cuda", "cuda"),
    ("CUDA_ERROR_OUT_OF_MEMORY", "cuda", "cuda"),
    ("HIP error: out of memory", "cuda", "hip"),
    ("hipErrorOutOfMemory", "cuda", "hip"),
    ("Triton Error [CUDA]: out of memory", "cuda", "cuda"),
    ("Triton Error [HIP]: out of memory", "cuda", "hip"),
    ("UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY", "cuda", "xpu"),
    // The first version of XPU's allocator.
    (
        "XPU out of memory, please use `empty_cache` to release all unoccupied cached memory.",
        "pytorch",
        "xpu",
    ),
];

/// What is printed before a status, up to its number: `Native API failed. Native API returns: 39 (UR_RESULT_…)`.
const OF_LEVEL_ZERO: [&[u8]; 2] =
    [b"Native API failed. Native API returns: ", b"level_zero backend failed with error: "];

/// Finds an error in a line. PyTorch quotes the last error of NCCL after the line `Last error:`.
pub(super) fn find(line: &[u8], is_after_last_error: bool) -> Option<Found> {
    let found =
        nccl(line, is_after_last_error).or_else(|| xla(line)).or_else(|| tpu(line)).or_else(|| vllm(line));
    found.or_else(|| cache::find(line)).or_else(|| without_numbers(line))
}

fn without_numbers(line: &[u8]) -> Option<Found> {
    let of = |(words, source, platform): &(&str, &'static str, &'static str)| {
        let at = memmem::find(line, words.as_bytes())?;
        let found = Found::new(source, platform, beginning(line, at));
        let end = at + words.len();
        Some(found.with_message(&line[beginning(line, at)..end + call(&line[end..])]))
    };
    WITHOUT_NUMBERS.iter().find_map(of)
}

/// Where the message begins that contains a status: `CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling …`.
fn beginning(line: &[u8], at: usize) -> usize {
    const BEFORE: [&[u8]; 5] =
        [b"CUDA error: ", b"HIP error: ", b"cuDNN error: ", b"cusolver error: ", b"CUDA driver error: "];
    if let Some(words) = BEFORE.iter().find(|words| line[..at].ends_with(words)) {
        return at - words.len();
    }
    let number = line[..at].strip_suffix(b" (").unwrap_or_default();
    let words = number.trim_ascii_end();
    let words = &words[..words.iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |last| last + 1)];
    OF_LEVEL_ZERO.iter().find(|known| words.ends_with(known)).map_or(at, |known| words.len() - known.len())
}

/// The length of the call that failed, or of its source file, at the start of a text: `` when calling `cublasCreate(handle)` ``.
fn call(text: &[u8]) -> usize {
    const BEFORE: &[u8] = b" when calling `";
    if text.starts_with(BEFORE) {
        return memchr::memchr(b'`', &text[BEFORE.len()..]).map_or(0, |length| BEFORE.len() + length + 1);
    }
    if text.starts_with(b" at /") { text.len() } else { 0 }
}

/// `NCCL WARN Cuda failure 2 'out of memory'`, `NCCL WARN Failed to CUDA malloc 4096 bytes`, or the last error that
/// PyTorch quotes on a separate line.
fn nccl(line: &[u8], is_after_last_error: bool) -> Option<Found> {
    let warning = memmem::find(line, b"NCCL WARN ");
    let device = warning.and_then(|at| nccl_device(&line[..at]));
    let start = warning.unwrap_or(0);
    let text = warning.map_or(line, |at| &line[at + b"NCCL WARN ".len()..]);
    let mut cursor = Cursor::new(text);
    if cursor.eat("Cuda failure ") {
        let code = cursor.number();
        cursor.eat(" ");
        // 2 is cudaErrorMemoryAllocation.
        let is_memory = code.is_none_or(|code| code == 2) && cursor.eat("'out of memory'");
        let found = is_memory.then(|| Found::new("nccl", "cuda", start).with_message(&line[start..]));
        return found.map(|found| Found { device, ..found });
    }
    (warning.is_some() || is_after_last_error).then_some(())?;
    cursor.eat_any(&["Failed to CUDA malloc ", "Failed to CUDA calloc ", "Failed to CUDA host alloc "])?;
    cursor.eat("async ");
    let requested = cursor.number()?;
    cursor.eat(" bytes").then_some(())?;
    let mut found = Found::new("nccl", "cuda", start).with_message(&line[start..]);
    found.device = device;
    found.numbers.requested = Some(Amount::exact(requested));
    Some(found)
}

/// The 3 of `node1:812:1200 [3] include/alloc.h:205 `: the CUDA device of the process.
fn nccl_device(prefix: &[u8]) -> Option<u32> {
    let open = memmem::rfind(prefix, b" [")? + 2;
    let digits = prefix[open..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    prefix[open + digits..].starts_with(b"] ").then_some(())?;
    std::str::from_utf8(&prefix[open..open + digits]).ok()?.parse().ok()
}

/// `RESOURCE_EXHAUSTED: Out of memory while trying to allocate 30.55GiB.`, or since 2024
/// `RESOURCE_EXHAUSTED: Failed to allocate request for 154.06GiB (165425291480B) on device ordinal 0`.
fn xla(line: &[u8]) -> Option<Found> {
    const STATUS: &[u8] = b"RESOURCE_EXHAUSTED: Out of memory";
    const REQUEST: &str = "RESOURCE_EXHAUSTED: Failed to allocate request for ";
    if let Some(start) = memmem::find(line, REQUEST.as_bytes()) {
        let mut cursor = Cursor::new(&line[start..]);
        let mut found = Found::new("xla", "cuda", start);
        cursor.eat(REQUEST);
        found.numbers.requested = cursor.size();
        if cursor.eat(" (") {
            found.numbers.requested = cursor.size().or(found.numbers.requested);
            cursor.eat(")");
        }
        found.is_complete = found.numbers.requested.is_some();
        return Some(found.ending(&cursor, line));
    }
    if let Some(start) = memmem::find(line, STATUS) {
        let mut cursor = Cursor::new(&line[start..]);
        let mut found = Found::new("xla", "cuda", start);
        cursor.eat("RESOURCE_EXHAUSTED: Out of memory");
        cursor.eat_any(&[" while trying to allocate ", " allocating ", " trying to allocate "]);
        // A unit at the end of the text is whole, a number is not.
        found.numbers.requested = cursor.size();
        found.is_complete = found.numbers.requested.is_some();
        return Some(found.ending(&cursor, line));
    }
    None
}

/// `RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. Used 18.21G of 15.48G hbm.`
fn tpu(line: &[u8]) -> Option<Found> {
    let start = memmem::find(line, b"RESOURCE_EXHAUSTED: ")?;
    let numbers = after(&line[start..], "Ran out of memory in memory space ")?;
    let mut found = Found::new("xla", "tpu", start).with_message(&line[start..]);
    let gib = |text: &[u8]| {
        let (amount, length) = bare_amount(text, 2, 30)?;
        text.get(length).is_some_and(|unit| *unit == b'G').then_some(amount)
    };
    let used = after(numbers, " Used ");
    found.numbers.requested = used.and_then(gib);
    found.numbers.capacity = used.and_then(|text| after(text, " of ")).and_then(gib);
    Some(found)
}

/// What XLA's allocator reports about itself, one line each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct AllocatorStats {
    limit: Option<u64>,
    in_use: Option<u64>,
    largest_free: Option<u64>,
    /// The request after rounding, and the index of the device.
    pub requested: Option<u64>,
    pub device: Option<u32>,
}

impl AllocatorStats {
    /// Takes a line. The list begins with `Stats:`.
    pub fn line(&mut self, line: &[u8]) {
        if let Some(text) = after(line, "Allocator (GPU_") {
            let mut cursor = Cursor::new(text);
            let device = cursor.number().and_then(|device| u32::try_from(device).ok());
            let rounded = after(text, "(rounded to ").and_then(|text| {
                let mut cursor = Cursor::new(text);
                cursor.number().filter(|_| cursor.eat(")"))
            });
            *self = Self { device, requested: rounded, ..Self::default() };
            return;
        }
        let text = line.trim_ascii();
        let set = |name: &[u8], value: &mut Option<u64>| {
            let Some(rest) = text.strip_prefix(name) else { return };
            let digits = rest.trim_ascii();
            *value = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).or(*value);
        };
        set(b"Limit:", &mut self.limit);
        set(b"InUse:", &mut self.in_use);
        set(b"LargestFreeBlock:", &mut self.largest_free);
    }

    /// Adds the numbers to an error of XLA. A limit without the use of it belongs to something else.
    pub fn complete(&self, found: &mut Found) {
        let (Some(limit), Some(in_use)) = (self.limit.filter(|limit| *limit > 0), self.in_use) else {
            return;
        };
        found.numbers.allowed = Some(Amount::exact(limit));
        found.numbers.allocated = Some(Amount::exact(in_use));
        found.numbers.unallocated = limit.checked_sub(in_use).map(Amount::exact);
        found.numbers.largest_free = self.largest_free.map(Amount::exact);
        found.device = found.device.or(self.device);
        let exact = self.requested.map(Amount::exact);
        let is_near = |exact: &Amount| found.numbers.requested.is_some_and(|known| known.is_near(*exact));
        found.numbers.requested = exact.filter(is_near).or(found.numbers.requested);
    }
}

/// The part of an executable that a line of XLA's summary states: `preallocated temp allocation:   12.45GiB`.
pub(super) fn executable_part(line: &[u8]) -> Option<Part> {
    const PARTS: [(&[u8], &str); 4] = [
        (b"parameter allocation:", "xla_parameters"),
        (b"maybe_live_out allocation:", "xla_outputs"),
        (b"preallocated temp allocation:", "xla_temporary"),
        (b"total allocation:", "xla_total"),
    ];
    let text = line.trim_ascii();
    let of = |(words, name): &(&[u8], &'static str)| {
        let amount = leading_size(text.strip_prefix(*words)?.trim_ascii_start())?;
        Some(Part { name, label: None, amount })
    };
    PARTS.iter().find_map(of)
}

/// `Free memory on device cuda:0 (7.34/15.49 GiB) on startup is less than desired GPU memory utilization (0.8, 12.39 GiB)`.
fn vllm(line: &[u8]) -> Option<Found> {
    /// Python's `round(…, 2)`.
    const DIGITS: u32 = 2;
    let start = memmem::find(line, b"Free memory on device ")?;
    let text = &line[start..];
    let device = after(&text[..text.len().min(60)], "cuda:").and_then(|text| {
        let mut cursor = Cursor::new(text);
        u32::try_from(cursor.number()?).ok()
    });
    let open = memchr::memchr(b'(', text)? + 1;
    let (free, length) = bare_amount(&text[open..], DIGITS, 30)?;
    let rest = text[open + length..].strip_prefix(b"/")?;
    let (capacity, length) = bare_amount(rest, DIGITS, 30)?;
    let rest = rest[length..].strip_prefix(b" GiB) ")?;
    let rest = after(rest, "is less than desired GPU memory utilization (")?;
    let comma = memmem::find(rest, b", ")?;
    let (requested, length) = bare_amount(&rest[comma + 2..], DIGITS, 30)?;
    rest[comma + 2 + length..].starts_with(b" GiB)").then_some(())?;
    let end = line.len() - rest.len() + comma + 2 + length + b" GiB)".len();
    let mut found = Found::new("vllm", "cuda", start).with_message(&line[start..end]);
    found.device = device;
    (found.numbers.free, found.numbers.capacity, found.numbers.requested) =
        (Some(free), Some(capacity), Some(requested));
    Some(found)
}
