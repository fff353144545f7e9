//! `ttmem diff`: what changed between two profiles.

use clap::Args;
use ttmem::query::{self, Diff as Answer, DiffRequest, GrowthLimit};
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
    pub fail_over: Option<GrowthLimit>,

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
    let top = args.top.or((!args.json).then_some(report::MAX_DIFF_CHANGES));
    let answer = query::diff(&before, &after, &DiffRequest { rank: args.rank.clone(), top })?;
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
fn check(answer: &Answer, limit: GrowthLimit) -> u8 {
    let over = answer.over(limit);
    for pool in &over {
        let rank = pool.rank.map_or_else(String::new, |rank| format!("rank {rank}: "));
        let (name, grown) = (pool.pool, report::size(pool.grown_per_bank));
        console::say(&format!("ttmem: {rank}{name}: the peak grew by {grown}, more than --fail-over allows"));
    }
    if over.is_empty() { 0 } else { OVER_LIMIT }
}
