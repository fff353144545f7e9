//! Errors of operations that check their need of memory before they allocate any.
//!
//! There are many such checks, and every version of ttnn adds some. A rule recognizes them: a fatal error that names L1
//! or DRAM and compares what the operation needs with what it may use.

use memchr::memmem;

use super::numbers::{Quantity, quantities};

/// What an operation needs and what it may use, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// `L1`, `L1_SMALL` or `DRAM`.
    pub pool: &'static [u8],
    pub need: Option<u64>,
    pub available: Option<u64>,
}

/// Words between two compared numbers.
struct Comparison {
    words: &'static [u8],
    /// Whether the need precedes the words.
    need_first: bool,
    /// Whether the words compare only if a need is named before them.
    after_need: bool,
}

const fn needs(words: &'static [u8]) -> Comparison {
    Comparison { words, need_first: true, after_need: false }
}

const fn has(words: &'static [u8]) -> Comparison {
    Comparison { words, need_first: false, after_need: false }
}

const fn after_need(words: &'static [u8]) -> Comparison {
    Comparison { words, need_first: true, after_need: true }
}

const COMPARISONS: [Comparison; 22] = [
    needs(b"exceed"),
    needs(b"but only"),
    needs(b"not fit"),
    needs(b"cannot fit"),
    needs(b"can't fit"),
    needs(b"larger than"),
    needs(b"greater than"),
    needs(b"bigger than"),
    needs(b"more than"),
    needs(b"beyond"),
    needs(b" > "),
    has(b"too small for"),
    has(b"smaller than"),
    has(b"less than"),
    has(b"not enough for"),
    has(b"insufficient for"),
    has(b"cannot hold"),
    has(b" < "),
    after_need(b" but "),
    after_need(b"only "),
    after_need(b", have "),
    after_need(b" of the "),
];

/// Words that name a need.
const NEED: [&[u8]; 6] = [b"need", b"Need", b"requir", b"Requir", b"request", b"minimum"];
/// Words that name what may be used.
const AVAILABLE: [&[u8]; 5] = [b"vailable", b"free", b"budget", b"capacity", b"remain"];
/// Words that say that memory is short.
const SHORTAGE: [&[u8]; 11] = [
    b"ut of memory",
    b"ut of Memory",
    b"OOM",
    b"ot enough",
    b"nsufficient",
    b"ould not",
    b"nable to",
    b"annot",
    b"not fit",
    b" fits ",
    b"too large",
];

impl Refusal {
    /// Parses the text of a fatal error; `None` if it is about something else.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let pool = pool(text)?;
        let found = quantities(text);
        if !found.iter().any(|quantity| quantity.has_unit) {
            return None;
        }
        let compared = compared(text, &found);
        let (need, available) = compared.or_else(|| labeled(text, &found))?;
        Some(Self { pool, need, available })
    }
}

/// The pool that a text names. A text that names both pools is about L1: the operation reads DRAM and runs in L1.
fn pool(text: &[u8]) -> Option<&'static [u8]> {
    [&b"L1_SMALL"[..], b"L1", b"DRAM"].into_iter().find(|pool| has_word(text, pool))
}

fn has_word(text: &[u8], word: &[u8]) -> bool {
    let is_part = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    memmem::find_iter(text, word).any(|at| {
        let before = at.checked_sub(1).and_then(|before| text.get(before));
        !is_part(before) && !is_part(text.get(at + word.len()))
    })
}

/// The need and what may be used, from the numbers on both sides of a comparison.
fn compared(text: &[u8], found: &[Quantity]) -> Option<(Option<u64>, Option<u64>)> {
    let mut places: Vec<(usize, &Comparison)> = COMPARISONS
        .iter()
        .flat_map(|comparison| memmem::find_iter(text, comparison.words).map(move |at| (at, comparison)))
        .collect();
    places.sort_by_key(|(at, _)| *at);
    places.into_iter().find_map(|(at, comparison)| {
        let end = at + comparison.words.len();
        let before = found.iter().rposition(|quantity| quantity.has_unit && quantity.end <= at)?;
        if comparison.after_need && !has_any(&text[..found[before].start], &NEED) {
            return None;
        }
        let follows = |quantity: &&Quantity| quantity.start >= end;
        let after = found.iter().filter(follows).find(|quantity| quantity.has_unit).or_else(|| {
            // `only 4096 are available`, `but budget is 4096`.
            found.iter().find(follows).filter(|quantity| quantity.start - end <= NEAR)
        })?;
        let (need, available) = if comparison.need_first {
            (sum_before(text, &found[..=before])?, after.bytes)
        } else {
            (after.bytes, found[before].bytes)
        };
        (need > available).then_some((Some(need), Some(available)))
    })
}

/// The distance in bytes within which a word describes a number.
const NEAR: usize = 24;

/// The last number, with the numbers before it that are added to it.
fn sum_before(text: &[u8], found: &[Quantity]) -> Option<u64> {
    let (last, before) = found.split_last()?;
    let mut sum = last.bytes;
    let mut next = last.start;
    for quantity in before.iter().rev().filter(|quantity| quantity.has_unit) {
        let between = &text[quantity.end..next];
        if memchr::memchr(b'+', between).is_none() && memmem::find(between, b" plus ").is_none() {
            break;
        }
        sum = sum.checked_add(quantity.bytes)?;
        next = quantity.start;
    }
    Some(sum)
}

/// The need and what may be used, from the words next to the numbers.
fn labeled(text: &[u8], found: &[Quantity]) -> Option<(Option<u64>, Option<u64>)> {
    if !has_any(text, &SHORTAGE) {
        return None;
    }
    let (mut need, mut available) = (None, None);
    let mut from = 0;
    for quantity in found {
        // The words since the previous number, and those right after this one.
        let before = &text[from.max(quantity.start.saturating_sub(2 * NEAR))..quantity.start];
        let behind = &text[quantity.end..text.len().min(quantity.end + NEAR / 2)];
        from = quantity.end;
        if !quantity.has_unit {
            continue;
        }
        if has_any(before, &AVAILABLE) || has_any(behind, &AVAILABLE) {
            available = available.or(Some(quantity.bytes));
        } else if has_any(before, &NEED) || has_any(behind, &NEED) || ends_with_place(before) {
            need = need.or(Some(quantity.bytes));
        }
    }
    let is_consistent = need.zip(available).is_none_or(|(need, available)| need > available);
    ((need.is_some() || available.is_some()) && is_consistent).then_some((need, available))
}

fn ends_with_place(text: &[u8]) -> bool {
    text.ends_with(b"place ") || text.ends_with(b"allocate ")
}

fn has_any(text: &[u8], words: &[&[u8]]) -> bool {
    words.iter().any(|word| memmem::find(text, word).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Option<(&'static str, Option<u64>, Option<u64>)> {
        let refusal = Refusal::parse(text.as_bytes())?;
        Some((std::str::from_utf8(refusal.pool).unwrap(), refusal.need, refusal.available))
    }

    #[test]
    fn texts_that_compare_a_need_with_what_may_be_used() {
        for (text, need, available) in [
            (
                "LayerNorm streaming circular buffers require 118784 bytes, but only 62897 bytes of the allocator's L1 span are available",
                118_784,
                62897,
            ),
            (
                "ttnn::slice: required DFB size 2000000 B exceeds per-core L1 budget 1393312 B (row_bytes=64, misalignment=32); consider slicing along a non-width dim",
                2_000_000,
                1_393_312,
            ),
            (
                "ttnn.concat: required DFB entry size (2000000 B) exceeds per-core L1 capacity (1393312 B); op cannot fit on this device.",
                2_000_000,
                1_393_312,
            ),
            (
                "ttnn.concat: double-buffered tile-height chunk (2 x 32 x 31250 = 2000000 B) exceeds L1 capacity (1393312 B)",
                2_000_000,
                1_393_312,
            ),
            (
                "ttnn.pad: padded row of 2000000 B does not fit in the per-core L1 budget (1393312 B)",
                2_000_000,
                1_393_312,
            ),
            ("scratch=1000000 B + CBs=500000 B exceed L1 budget (1393312 B)", 1_500_000, 1_393_312),
            (
                "H2DStreamService: data CB 100 B + metadata CB 20 B + scratch reserve 3 B exceeds service-core free L1 64 B",
                123,
                64,
            ),
            ("D2HStreamService: service-core free L1 (64 B) too small for reservations (128 B)", 128, 64),
            (
                "conv3d: 64 B of L1 above the allocator base cannot hold the 128 B headroom for L1 buffers",
                128,
                64,
            ),
            (
                "RM reshape dest staging does not fit in L1: need at least 100 B dest + 28 B source, have 64 B",
                128,
                64,
            ),
            (
                "Negate H reduce: acc + ineg (128 B for 4 tiles) would not fit in available L1 (64 B). Caller must",
                128,
                64,
            ),
            (
                "unified_routed_expert_ffn: per-core CBs do not fit in L1 even at the smallest config (per_core_M=1, in0_block_w_gu=1): need 128 B but only 64 B available (emb=7, hidden=9, grid 8x8). Reduce model dims.",
                128,
                64,
            ),
            (
                "qkv_causal_conv1d_silu: channel_chunk_size = 32 needs 128 bytes of L1 per core, only 64 are available",
                128,
                64,
            ),
            ("moe_fused_swiglu: needs 128 bytes of CB L1 but budget is 64 (32)", 128, 64),
            ("attn_res_gather_softmax needs 128 B of L1 per core at Wt 4 but the core has 64 B", 128, 64),
            (
                "non_zero_indices: indices staging buffer requires 128 L1 bytes but per-core L1 is 64 bytes; maximum supported volume is ~16 elements",
                128,
                64,
            ),
            ("the dataflow buffers need 128 B of the 64 B available in L1", 128, 64),
            ("kernel needs 2 KiB of L1, but only 1 KB is available", 2048, 1024),
        ] {
            assert_eq!(parse(text), Some(("L1", Some(need), Some(available))), "{text}");
        }
        assert_eq!(
            parse("the profiler DRAM region (64 B) is smaller than the 128 B GDDR spool"),
            Some(("DRAM", Some(128), Some(64)))
        );
    }

    #[test]
    fn texts_with_one_of_the_two_numbers() {
        assert_eq!(
            parse(
                "DRAM Auto slice could not find valid slice configuration. Tried up to 16 slices for width-slicing on output dimension 512. Available L1: 1393312 bytes. Operation requires more memory than available even with maximum slicing."
            ),
            Some(("L1", None, Some(1_393_312)))
        );
        assert_eq!(
            parse(
                "DRAM slicing configuration failed for conv2d with output layout TILE. Unable to find a valid slice configuration. This indicates that even with maximum slicing granularity, the operation requires more L1 memory than available. Output shape: 512x512, Available L1: 1393312 bytes"
            ),
            Some(("L1", None, Some(1_393_312)))
        );
        assert_eq!(
            parse("internal::ServiceCoreManager: L1 OOM on core 1-1 (4096 bytes requested)"),
            Some(("L1", Some(4096), None))
        );
        assert_eq!(
            parse(
                "Persistent L1 arena is out of memory: cannot place 4096 bytes aligned to 32 on cores [0-0 - 7-7] in [100, 200)"
            ),
            Some(("L1", Some(4096), None))
        );
    }

    #[test]
    fn texts_about_alignment_limits_or_other_things() {
        for text in [
            "",
            "Out of luck",
            "LayerNorm streaming circular buffers require {} bytes, but only {} bytes of the allocator's L1 span are available",
            "Input row-major shard width 20 bytes gives page size 40 bytes, which must be aligned to 16 bytes L1 SRAM buffer alignment requirement",
            "DFB 3: TRISC entry_size (70000 L1 units of 16 bytes) exceeds uint16_t; reduce entry_size",
            "SliceRmShardedProgramFactory: width-begin (20 bytes) must be L1-aligned.",
            "input rows pad to 96 B but the output reserves 64 B; use the same buffer type, or a row size that is a multiple of both DRAM and L1 alignments",
            "elem_bytes = 70 exceeds L1 rebank threshold 64 (would overflow the 1.5 MB L1 via the ~17",
            "DRAM-sharded RM roll requires shard_size (20 bytes) to be 32-byte aligned for NOC DRAM writes.",
            "the buffer of 64 B does not exceed the L1 budget of 128 B",
            "host buffer of 128 B exceeds the page of 64 B",
            "Mux memory map end address: 200 exceeds allocated L1 end address: 100",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
