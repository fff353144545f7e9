//! `ttmem diff`: what changed between two profiles.

use std::str::FromStr;

use clap::Args;
use ttmem::query::{self, Diff as Answer, DiffRequest, MemorySize};
use ttmem::{Result, report};

use crate::{console, reading};

const EXAMPLES: &str = "\
Examples:
  ttmem diff before.log after.log                       show what changed
  ttmem diff before.pickle after.pickle --markdown      for a comment on a pull request
  ttmem diff main.ttmem branch.ttmem --fail-over 5%     exit with 1 if a peak grew by more than 5%
  ttmem diff a.log b.log --json                         print JSON (see docs/diff.md)

Both files must be of the same kind of device. A recording and a snapshot of PyTorch can be compared.

Exit codes: 0 success; 1 a peak grew by more than --fail-over; 2 wrong usage or unreadable input; 4 no memory data.";

/// The exit code if a limit was exceeded.
const OVER_LIMIT: u8 = 1;

/// `ttmem diff`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Diff {
    /// The first log, recording, snapshot or profile; `-` is standard input.
    #[arg(value_name = "BEFORE")]
    pub before: String,

    /// The second one.
    #[arg(value_name = "AFTER")]
    pub after: String,

    /// Print JSON.
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,

    /// Print Markdown.
    #[arg(long)]
    pub markdown: bool,

    /// Exit with 1 if the peak of a pool grew by more than this: a size per bank, or a percentage of the peak before.
    #[arg(long, value_name = "LIMIT")]
    pub fail_over: Option<Growth>,

    /// List at most this many changes [default: 10; JSON lists all].
    #[arg(long, value_name = "COUNT")]
    pub top: Option<usize>,

    /// Select a rank, such as `0` or `1,0`.
    #[arg(long, value_name = "RANK")]
    pub rank: Option<String>,

    /// Set the format of both files instead of detecting it (see `ttmem formats`).
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,
}

/// How much a peak may grow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Growth {
    /// By a share of the peak before, in percent.
    Percent(f64),
    /// By bytes per bank.
    Bytes(u64),
}

impl FromStr for Growth {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(number) = text.trim().strip_suffix('%') else {
            return text.parse().map(|MemorySize(bytes)| Self::Bytes(bytes));
        };
        let percent =
            number.trim().parse::<f64>().ok().filter(|percent| percent.is_finite() && *percent >= 0.0);
        percent
            .map(Self::Percent)
            .ok_or_else(|| format!("{number:?} is not a percentage; expected one such as 5%"))
    }
}

impl Growth {
    /// Whether a growth is larger than this.
    #[allow(clippy::cast_precision_loss, reason = "a share in percent")]
    fn is_exceeded(self, change: i64, before: u64) -> bool {
        let Ok(grown) = u64::try_from(change) else { return false };
        match self {
            Self::Bytes(limit) => grown > limit,
            Self::Percent(limit) => grown > 0 && grown as f64 * 100.0 > limit * before as f64,
        }
    }
}

/// Reads both files, prints what changed, and checks the limit.
pub(crate) fn run(args: &Diff) -> Result<u8> {
    let files = [args.before.as_str(), args.after.as_str()];
    if files == ["-", "-"] {
        return Err(ttmem::Error::Usage("standard input can be read only once; pass `-` once".into()));
    }
    let [before, after] = reading::open_both(files, args.format.as_deref())?;
    for profile in [&before, &after] {
        console::warn_of(&profile.source.file, &profile.warnings);
    }
    let answer = query::diff(&before, &after, &DiffRequest { rank: args.rank.clone() })?;
    if args.json {
        console::print(|out| report::diff_json(&answer, out))?;
    } else if args.markdown {
        console::print(|out| report::diff_markdown(&answer, args.top, out))?;
    } else {
        console::print_text(&report::diff(&answer, console::screen(None).width, args.top))?;
    }
    Ok(args.fail_over.map_or(0, |limit| check(&answer, limit)))
}

/// The exit code of the limit. A pool over it is named on standard error.
fn check(answer: &Answer, limit: Growth) -> u8 {
    let mut code = 0;
    for rank in &answer.ranks {
        for (name, pool) in rank.pools.iter() {
            let (Some(change), Some(before)) = (pool.change_per_bank, pool.before_per_bank) else { continue };
            if !pool.sampled && limit.is_exceeded(change, before) {
                let rank = rank.rank.as_ref().map_or_else(String::new, |rank| format!("rank {rank}: "));
                let grown = report::size(change.unsigned_abs());
                console::say(&format!(
                    "ttmem: {rank}{name}: the peak grew by {grown}, more than --fail-over allows"
                ));
                code = OVER_LIMIT;
            }
        }
    }
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_sizes_or_shares() {
        let limit = |text: &str| text.parse::<Growth>();
        assert_eq!(limit("5%"), Ok(Growth::Percent(5.0)));
        assert_eq!(limit(" 2.5 % "), Ok(Growth::Percent(2.5)));
        assert_eq!(limit("200MiB"), Ok(Growth::Bytes(200 << 20)));
        for text in ["", "%", "-5%", "nan%", "inf%", "5 parts", "-1MB"] {
            assert!(limit(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_growth_beyond_the_limit_fails() {
        assert!(Growth::Percent(5.0).is_exceeded(6, 100));
        assert!(!Growth::Percent(5.0).is_exceeded(5, 100));
        assert!(!Growth::Percent(5.0).is_exceeded(-50, 100));
        assert!(Growth::Percent(5.0).is_exceeded(1, 0), "from nothing to something");
        assert!(!Growth::Percent(0.0).is_exceeded(0, 0));
        assert!(Growth::Bytes(10).is_exceeded(11, 0));
        assert!(!Growth::Bytes(10).is_exceeded(10, 0));
    }
}
