//! Selects and orders the ranks of a response.

use std::str::FromStr;

use ttmem_model::{Profile, Rank};

use crate::analyze::oom;

/// The processes to include, if several processes wrote one log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProcessFilter {
    /// All processes.
    #[default]
    All,
    /// The process with this number, from 1.
    Number(u32),
}

/// Parses `all` or a number.
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
    /// Whether a rank belongs to an included process.
    pub fn takes(self, rank: &Rank) -> bool {
        match self {
            Self::All => true,
            Self::Number(number) => process(rank) == number,
        }
    }
}

/// The number of the process that wrote a rank, from 1.
pub fn process(rank: &Rank) -> u32 {
    rank.process.unwrap_or(1)
}

/// The ranks with content, by number. If several processes wrote the log, the ranks of the process that ran out of
/// memory come first, then those of the others, latest first.
pub fn in_order(profile: &Profile) -> Vec<&Rank> {
    let mut ranks: Vec<&Rank> = profile.ranks.iter().filter(|rank| rank.has_content()).collect();
    let failed = |rank: &&&Rank| oom::fatal(rank).is_some();
    let leading = ranks.iter().filter(failed).map(|rank| process(rank)).max();
    ranks.sort_by_cached_key(|rank| {
        let label = rank.label.map(|label| rank_number(profile.text(label)));
        (Some(process(rank)) != leading, std::cmp::Reverse(process(rank)), label)
    });
    ranks
}

/// The sort key of a rank label: its numbers, so that `1,2` comes before `1,10`. A part that is not a number comes
/// after all numbers.
pub fn rank_number(label: &str) -> Vec<u64> {
    label.split(',').map(|part| part.trim().parse().unwrap_or(u64::MAX)).collect()
}
