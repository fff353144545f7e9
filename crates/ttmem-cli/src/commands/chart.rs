//! `ttmem chart`: draws memory over time.

use std::path::PathBuf;

use clap::Args;
use ttmem::query::{self, ChartRequest, Drawn, ProcessFilter, RunFilter};
use ttmem::report::chart::{self, Picture};
use ttmem::{Result, model::Profile};

use crate::replacing::Output;
use crate::{console, reading};

const EXAMPLES: &str = "\
Examples:
  ttmem chart model.log -o memory.svg                 draw DRAM per step, by class
  ttmem chart model.log -o memory.png --run last      last pass only
  ttmem chart model.log -o l1.png --pool L1           draw another pool
  ttmem chart train.log -o phases.svg                 draw memory per training phase

Exit codes: 0 success; 2 wrong usage or unreadable input; 4 nothing to draw.";

/// `ttmem chart`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Chart {
    /// Log or profile, optionally compressed (gzip, zstd); `-` is standard input.
    #[arg(value_name = "FILE")]
    pub file: String,

    /// Write the picture to this file: FILE.svg or FILE.png.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,

    /// Select a pool [default: the pool that ran out of memory, otherwise DRAM].
    #[arg(long, value_name = "POOL")]
    pub pool: Option<String>,

    /// Select program runs: `all`, `last` (the last pass), or a run number, starting at 1.
    #[arg(long, value_name = "RUN", default_value = "all")]
    pub run: RunFilter,

    /// Select a rank, such as `0` or `1,0` [default: the first].
    #[arg(long, value_name = "RANK")]
    pub rank: Option<String>,

    /// Select a process by its number, starting at 1 [default: the process that ran out of memory, otherwise the last].
    #[arg(long, value_name = "PROCESS", default_value = "all", hide_default_value = true)]
    pub process: ProcessFilter,

    /// Set the title of the picture.
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,

    /// Set the format instead of detecting it (see `ttmem formats`).
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,

    /// Replace a file that ttmem did not write, unless it is a log, recording or profile.
    #[arg(long)]
    pub force: bool,
}

/// Reads the file and draws it.
pub(crate) fn run(args: &Chart) -> Result<()> {
    let picture = Picture::of(&args.output)?;
    let inputs = [&args.file];
    let output = Output::at(&args.output, args.force, &inputs)?;
    let profile = reading::open(&args.file, args.format.as_deref())?;
    console::warn_of(&profile.source.file, &profile.warnings);
    let drawn = draw(args, &profile)?;
    console::write_picture(&output, &picture.bytes(&drawn)?)
}

fn draw(args: &Chart, profile: &Profile) -> Result<chart::Chart> {
    let request = ChartRequest {
        pool: args.pool.clone(),
        rank: args.rank.clone(),
        process: args.process,
        run: args.run,
        columns: chart::COLUMNS,
    };
    let title = args.title.as_deref();
    match query::chart(profile, &request)? {
        Drawn::Steps(drawn) => {
            if let (Some(rank), true) = (&drawn.rank, drawn.other_ranks > 0) {
                console::note(&format!(
                    "drawing rank {rank}; use --rank to select one of {}",
                    drawn.other_ranks + 1
                ));
            }
            Ok(chart::over_time(&drawn, title))
        }
        Drawn::Phases(answer) => chart::over_phases(&answer, title),
    }
}
