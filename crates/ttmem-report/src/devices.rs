//! Whose memory it is: of a device of Tenstorrent's, or of one that PyTorch has a name for.

use ttmem_query::RankSummary;

/// The kinds of devices that PyTorch has names for; and what the system counts for the process.
const TORCH: [&str; 7] = ["cpu", "cuda", "xpu", "mps", "hpu", "npu", "host"];

/// Whether the evidence is of a program that uses PyTorch's memory: it has no banks, no tiles and no graphs.
pub(super) fn is_torch(rank: &RankSummary) -> bool {
    let kind = |name: &str| name.split([':', ' ']).next().is_some_and(|kind| TORCH.contains(&kind));
    rank.pools.iter().any(|(name, _)| kind(name))
}
