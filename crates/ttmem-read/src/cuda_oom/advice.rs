//! The advice that PyTorch adds to its messages. It names settings that are not in use, and may be wrapped.

/// The advice without blanks, as far as it is the same in all versions. `$` is the name of the variable.
const ADVICE: [&str; 4] = [
    ".Ifreservedbutunallocatedmemoryislargetrysettingmax_split_size_mbtoavoidfragmentation.SeedocumentationforMemoryManagementandPYTORCH_CUDA_ALLOC_CONF",
    ".Ifreservedbutunallocatedmemoryislargetrysetting$=expandable_segments:Truetoavoidfragmentation.SeedocumentationforMemoryManagement(https://",
    "Ifreservedmemoryis>>allocatedmemorytrysettingmax_split_size_mbtoavoidfragmentation.SeedocumentationforMemoryManagementandPYTORCH_CUDA_ALLOC_CONF",
    ".Pleaseuse`empty_cache`toreleaseallunoccupiedcachedmemory.",
];

/// The variables of the allocator.
pub(super) const VARIABLES: [&str; 3] =
    ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"];

/// What a text after a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tail {
    /// The beginning of the advice; the rest may follow.
    Open,
    /// The whole advice.
    Whole,
    /// Something else.
    Other,
}

/// What a text after a message is. `text` has no blanks.
pub(super) fn tail(text: &[u8]) -> Tail {
    let known = ADVICE.iter().flat_map(|advice| VARIABLES.map(|variable| advice.replace('$', variable)));
    known
        .map(|advice| compared(text, advice.as_bytes()))
        .find(|tail| *tail != Tail::Other)
        .unwrap_or(Tail::Other)
}

fn compared(text: &[u8], advice: &[u8]) -> Tail {
    if advice.starts_with(text) && text.len() < advice.len() {
        return Tail::Open;
    }
    let Some(rest) = text.strip_prefix(advice) else { return Tail::Other };
    let is_address = advice.ends_with(b"//");
    match memchr::memchr(b')', rest) {
        _ if !is_address => Tail::Whole,
        None if rest.len() < 200 => Tail::Open,
        _ => Tail::Whole,
    }
}

/// A text without blanks.
pub(super) fn without_blanks(text: &[u8]) -> impl Iterator<Item = u8> {
    text.iter().copied().filter(|byte| !byte.is_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Tail {
        tail(&without_blanks(text.as_bytes()).collect::<Vec<u8>>())
    }

    #[test]
    fn advice_may_end_anywhere() {
        let whole = ". If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)";
        for end in 0..whole.len() - 1 {
            assert_eq!(of(&whole[..end]), Tail::Open, "{}", &whole[..end]);
        }
        assert_eq!(of(whole), Tail::Whole);
        assert_eq!(of(". Please use `empty_cache` to release all unoccupied cached memory."), Tail::Whole);
        assert_eq!(of(&whole.replace("CUDA_ALLOC", "ALLOC")), Tail::Whole);
        for other in [". step 4", "x", ". If reserved memory"] {
            assert_eq!(of(other), Tail::Other, "{other}");
        }
    }
}
