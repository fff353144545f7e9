//! Which ranks an answer is about, and in which order.

use std::str::FromStr;

use ttmem_model::{Profile, Rank};

use crate::analyze::oom;

/// Which of the processes that wrote one log are looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProcessFilter {
    /// All of them.
    #[default]
    All,
    /// The one with this number, from 1.
    Number(u32),
}

/// As people write it: `all` or a number.
impl FromStr for ProcessFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            number => match number.parse() {
                Ok(number) if number > 0 => Ok(Self::Number(number)),
                _ => Err("expected `all` or a number from 1".into()),
            },
        }
    }
}

impl ProcessFilter {
    /// Whether a rank is of the processes that are looked at.
    pub fn takes(self, rank: &Rank) -> bool {
        match self {
            Self::All => true,
            Self::Number(number) => process(rank) == number,
        }
    }
}

/// Which process of its log a rank is, counted from 1.
pub fn process(rank: &Rank) -> u32 {
    rank.process.unwrap_or(1)
}

/// The ranks with content. Of several processes, those of the one that ran out of memory come first, otherwise those of
/// the last; then the others, the latest first.
pub fn in_order(profile: &Profile) -> Vec<&Rank> {
    let mut ranks: Vec<&Rank> = profile.ranks.iter().filter(|rank| rank.has_content()).collect();
    let failed = |rank: &&&Rank| oom::fatal(rank).is_some();
    let leading = ranks.iter().filter(failed).map(|rank| process(rank)).max();
    // Stable: the ranks of one process stay in the order of their log.
    ranks.sort_by_key(|rank| (Some(process(rank)) != leading, std::cmp::Reverse(process(rank))));
    ranks
}
