//! `ttmem chart`: memory over time as a picture.

use std::path::PathBuf;

use clap::Args;
use ttmem::query::{self, ChartRequest, Drawn, ProcessFilter, RunFilter};
use ttmem::report::chart::{self, Picture};
use ttmem::{Result, model::Profile};

use crate::replacing::Output;
use crate::{console, reading};

const EXAMPLES: &str = "\
Examples:
  ttmem chart model.log -o memory.svg                 DRAM over the steps, by class
  ttmem chart model.log -o memory.png --run last      the last pass alone
  ttmem chart model.log -o l1.png --pool L1           another pool
  ttmem chart train.log -o phases.svg                 a training log: memory over its phases

Exit codes: 0 drawn; 2 wrong usage or unreadable input; 4 nothing to draw in it.";

/// `ttmem chart`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Chart {
    /// A log or profile; `-` is standard input. A packed file (gzip, zstd) is unpacked.
    #[arg(value_name = "FILE")]
    pub file: String,

    /// Where to draw to: FILE.svg or FILE.png.
    #[arg(short, long, value_name = "FILE")]
    pub output: PathBuf,

    /// Which pool, instead of the one that ran out, or DRAM.
    #[arg(long, value_name = "POOL")]
    pub pool: Option<String>,

    /// Which program runs: `all`, those of the last pass (`last`), or one by its number from 1.
    #[arg(long, value_name = "RUN", default_value = "all")]
    pub run: RunFilter,

    /// Which rank: `0` or `1,0`; the first unless told.
    #[arg(long, value_name = "RANK")]
    pub rank: Option<String>,

    /// Which of the processes that wrote one log, by its number from 1; by default the one that ran out of memory, otherwise
    /// the last.
    #[arg(long, value_name = "PROCESS", default_value = "all", hide_default_value = true)]
    pub process: ProcessFilter,

    /// The title of the picture.
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,

    /// The format, instead of looking at the content (see `ttmem formats`).
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,

    /// Replace an existing file, unless it is a log, recording or profile.
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
                    "rank {rank} is drawn; --rank chooses one of {}",
                    drawn.other_ranks + 1
                ));
            }
            Ok(chart::over_time(&drawn, title))
        }
        Drawn::Phases(answer) => chart::over_phases(&answer, title),
    }
}
