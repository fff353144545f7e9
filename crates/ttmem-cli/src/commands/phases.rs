//! `ttmem phases`: expected and measured memory of training sessions, and whether it fits.

use std::path::{Path, PathBuf};

use clap::Args;
use ttmem::query::{self, MemorySize, PhasesRequest, Thresholds};
use ttmem::report::chart::{self, Picture};
use ttmem::{Error, Result, report};

use crate::replacing::Output;
use crate::{console, reading};

const EXAMPLES: &str = "\
Examples:
  ttmem phases train.log                              show what uses memory and whether it fits
  ttmem phases train.log --chart peak.svg             also draw the peaks
  ttmem phases --logs train.log --visualize-peak --title 'TinyLlama'
  ttmem phases train.log --device-memory 32GB         check whether it fits another device
  ttmem phases train.log --model-size 1848.93MB --use-actual-sizes
  ttmem phases before.log after.log --json            print JSON (see docs/phases.md)

Sizes are bytes, or numbers with a unit (12GB, 800MiB); MB means MiB, as in the logs.
Option names may use underscores instead of dashes (--device_memory).

Exit codes: 0 success; 2 wrong usage or unreadable input; 4 no phases.";

/// The default file of `--visualize-peak`.
const DEFAULT_PICTURE: &str = "memory_peak_visualization.png";

/// `ttmem phases`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Phases {
    /// Training logs and profiles, optionally compressed (gzip, zstd); `-` is standard input.
    #[arg(required_unless_present = "logs", value_name = "FILE")]
    pub files: Vec<String>,

    /// Read this training log, like FILE.
    #[arg(long, value_name = "FILE")]
    pub logs: Vec<String>,

    /// Set the device memory [default: the size in the log, otherwise 12 GiB].
    #[arg(long, alias = "device_memory", value_name = "SIZE")]
    pub device_memory: Option<MemorySize>,

    /// Set the expected model size [default: parameters times bytes per parameter].
    #[arg(long, alias = "model_size", value_name = "SIZE")]
    pub model_size: Option<MemorySize>,

    /// Set the expected optimizer size [default: twice the model size].
    #[arg(long, alias = "optimizer_size", value_name = "SIZE")]
    pub optimizer_size: Option<MemorySize>,

    /// Set the expected gradient size [default: the model size].
    #[arg(long, alias = "gradients_size", value_name = "SIZE")]
    pub gradients_size: Option<MemorySize>,

    /// Use measured instead of expected model and optimizer sizes in the breakdown of the peak.
    #[arg(long, alias = "use_actual_sizes")]
    pub use_actual_sizes: bool,

    /// Print JSON.
    #[arg(long)]
    pub json: bool,

    /// The pictures to draw.
    #[command(flatten)]
    pub pictures: Pictures,

    /// Select a rank, such as `0` or `1,0`.
    #[arg(long, value_name = "RANK")]
    pub rank: Option<String>,

    /// Set the format instead of detecting it (see `ttmem formats`).
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,
}

/// Pictures of the peaks.
#[derive(Debug, Args)]
pub(crate) struct Pictures {
    /// Also draw the parts of each peak, to FILE.svg or FILE.png.
    #[arg(long, value_name = "FILE")]
    pub chart: Option<PathBuf>,

    /// Also draw the parts of each peak, to the file given with --output.
    #[arg(long, alias = "visualize_peak")]
    pub visualize_peak: bool,

    /// Set the title of the picture.
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,

    /// Write the picture of --visualize-peak to this file [default: memory_peak_visualization.png].
    #[arg(short, long, value_name = "FILE", requires = "visualize_peak")]
    pub output: Option<PathBuf>,

    /// Replace files that ttmem did not write, unless they are logs, recordings or profiles.
    #[arg(long)]
    pub force: bool,
}

/// Reads the files, prints the phases, and draws the pictures. If a file cannot be read or has no phases, an error is
/// printed and the other files are still reported.
pub(crate) fn run(args: &Phases) -> Result<u8> {
    let files: Vec<&String> = args.files.iter().chain(&args.logs).collect();
    let pictures = outputs(&args.pictures, &files)?;
    let request = request(args)?;
    let opened = reading::open_each(&files, |file| {
        let profile = reading::open(file, args.format.as_deref())?;
        // Each file separately first, so that one without phases does not fail the others.
        query::phases(std::slice::from_ref(&profile), &PhasesRequest::default())?;
        Ok(profile)
    })?;
    if opened.profiles.is_empty() {
        return Ok(opened.exit_code);
    }
    let answer = query::phases(&opened.profiles, &request)?;
    console::warn(&answer.source);
    if args.json {
        console::print(|out| report::phases_json(&answer, out))?;
    } else {
        console::print_text(&report::phases(&answer, console::screen(None).width))?;
    }
    for (output, picture) in pictures {
        let drawn = chart::peak_bars(&answer, args.pictures.title.as_deref())?;
        console::write_picture(&output, &picture.bytes(&drawn)?)?;
    }
    Ok(opened.exit_code)
}

/// The pictures to draw. A file that must not be replaced is an error before anything is read.
fn outputs<'a>(args: &'a Pictures, files: &'a [&String]) -> Result<Vec<(Output<'a>, Picture)>> {
    let output = args.output.as_deref().unwrap_or(Path::new(DEFAULT_PICTURE));
    let visualized = args.visualize_peak.then_some(output);
    let paths = args.chart.as_deref().into_iter().chain(visualized);
    paths.map(|path| Ok((Output::at(path, args.force, files)?, Picture::of(path)?))).collect()
}

fn request(args: &Phases) -> Result<PhasesRequest> {
    let bytes = |size: Option<MemorySize>| size.map(|size| size.0);
    if args.device_memory == Some(MemorySize(0)) {
        return Err(Error::Usage("--device-memory 0: expected a size greater than 0".into()));
    }
    Ok(PhasesRequest {
        rank: args.rank.clone(),
        device_memory: bytes(args.device_memory),
        model: bytes(args.model_size),
        optimizer: bytes(args.optimizer_size),
        gradients: bytes(args.gradients_size),
        use_actual_sizes: args.use_actual_sizes,
        thresholds: Thresholds::default(),
    })
}
