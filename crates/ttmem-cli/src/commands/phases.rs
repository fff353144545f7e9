//! `ttmem phases`: what training sessions were expected to take, what they took, and whether they fit.

use std::path::{Path, PathBuf};

use clap::Args;
use ttmem::query::{self, MemorySize, PhasesRequest, Thresholds};
use ttmem::report::chart::{self, Picture};
use ttmem::{Error, Result, report};

use crate::replacing::Output;
use crate::{console, reading};

const EXAMPLES: &str = "\
Examples:
  ttmem phases train.log                              does it fit, and what takes the memory
  ttmem phases train.log --chart peak.svg             the same as a picture
  ttmem phases --logs train.log --visualize-peak --title 'TinyLlama'
  ttmem phases train.log --device-memory 32GB         would it fit there?
  ttmem phases train.log --model-size 1848.93MB --use-actual-sizes
  ttmem phases before.log after.log --json            for scripts: docs/phases.md

Sizes are bytes, or numbers with a unit (12GB, 800MiB); MB is MiB, as in the logs.
Options may be written with underscores, too (--device_memory).

Exit codes: 0 answered; 2 wrong usage or unreadable input; 4 no phases in it.";

/// Where `--visualize-peak` draws to unless told.
const USUAL_PICTURE: &str = "memory_peak_visualization.png";

/// `ttmem phases`
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Phases {
    /// Training logs and profiles; `-` is standard input. Packed files (gzip, zstd) are unpacked.
    #[arg(required_unless_present = "logs", value_name = "FILE")]
    pub files: Vec<String>,

    /// A training log: the same as FILE.
    #[arg(long, value_name = "FILE")]
    pub logs: Vec<String>,

    /// What the device has, instead of what the log says (12 GiB where it says nothing).
    #[arg(long, alias = "device_memory", value_name = "SIZE")]
    pub device_memory: Option<MemorySize>,

    /// What the model is expected to take, instead of its parameters times the bytes of one.
    #[arg(long, alias = "model_size", value_name = "SIZE")]
    pub model_size: Option<MemorySize>,

    /// What the optimizer is expected to take, instead of twice the model.
    #[arg(long, alias = "optimizer_size", value_name = "SIZE")]
    pub optimizer_size: Option<MemorySize>,

    /// What the gradients are expected to take, instead of as much as the model.
    #[arg(long, alias = "gradients_size", value_name = "SIZE")]
    pub gradients_size: Option<MemorySize>,

    /// Show the peak with the measured sizes of model and optimizer; the difference to the expected ones is no longer
    /// in Other.
    #[arg(long, alias = "use_actual_sizes")]
    pub use_actual_sizes: bool,

    /// As JSON.
    #[arg(long)]
    pub json: bool,

    /// What is drawn besides.
    #[command(flatten)]
    pub pictures: Pictures,

    /// Which rank: `0` or `1,0`.
    #[arg(long, value_name = "RANK")]
    pub rank: Option<String>,

    /// The format, instead of looking at the content (see `ttmem formats`).
    #[arg(long, value_name = "NAME")]
    pub format: Option<String>,
}

/// Pictures of the peaks.
#[derive(Debug, Args)]
pub(crate) struct Pictures {
    /// Draw what the peaks are made of, too, to FILE.svg or FILE.png.
    #[arg(long, value_name = "FILE")]
    pub chart: Option<PathBuf>,

    /// Draw the same to the file that --output names.
    #[arg(long, alias = "visualize_peak")]
    pub visualize_peak: bool,

    /// The title of the picture.
    #[arg(long, value_name = "TEXT")]
    pub title: Option<String>,

    /// Where --visualize-peak draws to [default: memory_peak_visualization.png].
    #[arg(short, long, value_name = "FILE", requires = "visualize_peak")]
    pub output: Option<PathBuf>,

    /// Replace existing pictures. A log, recording or profile is never replaced.
    #[arg(long)]
    pub force: bool,
}

/// Reads the files, prints the answer, and draws it where that is asked for. A file that cannot be read, or has no
/// phases, is said, and the others are answered.
pub(crate) fn run(args: &Phases) -> Result<u8> {
    let files: Vec<&String> = args.files.iter().chain(&args.logs).collect();
    let pictures = wanted(&args.pictures, &files)?;
    let request = request(args)?;
    let opened = reading::open_each(&files, |file| {
        let profile = reading::open(file, args.format.as_deref())?;
        // Alone first, so that one without phases does not keep the others from an answer.
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

/// The pictures to draw. Files that may not be replaced are refused before anything is read.
fn wanted<'a>(args: &'a Pictures, files: &'a [&String]) -> Result<Vec<(Output<'a>, Picture)>> {
    let usual = args.output.as_deref().unwrap_or(Path::new(USUAL_PICTURE));
    let visualized = args.visualize_peak.then_some(usual);
    let wanted = args.chart.as_deref().into_iter().chain(visualized);
    wanted.map(|path| Ok((Output::at(path, args.force, files)?, Picture::of(path)?))).collect()
}

fn request(args: &Phases) -> Result<PhasesRequest> {
    let bytes = |size: Option<MemorySize>| size.map(|size| size.0);
    if args.device_memory == Some(MemorySize(0)) {
        return Err(Error::Usage("--device-memory 0: nothing fits into a device without memory".into()));
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
