//! `make-log`: writes a scenario's log to one file, and its truth to another.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use ttmem_testkit::tt::{Chip, ErrorEra, LayoutEra, Level, MemoryLevel, Modules, Options, Scenario, make};

const USAGE: &str = "\
usage: make-log SCENARIO -o FILE [options]

SCENARIO is one of: vae llm two-graphs oom oom-frag random passes repeated distinct

  -o FILE                       where the log goes
  --truth FILE                  where the truth goes, as JSON
  --seed N                      another log of the same kind (0)
  --ops N                       operations of `repeated` and `distinct` (100000)
  --plain                       no colors
  --info                        memory lines only
  --memory operation|program|any
                                when states are printed (operation)
  --ranks N                     that many tagged ranks (0: no tags)
  --noise PERCENT               lines of others (0)
  --chip wormhole|p100|p150     the device (wormhole)
  --era N                       the spelling of layouts, 1 (2024) to 6 (2026) (5)
  --error-era N                 the text of a lack of memory, 1 (2023) to 6 (2026) (4)
  --modules none|signatures|full
                                what is dumped of compiled modules (full)
  --keep                        some operations leave bytes behind
  --exact                       the truth has the bytes at every position
";

/// The parsed command line.
struct Request {
    scenario: Scenario,
    options: Options,
    log: String,
    truth: Option<String>,
}

fn main() -> ExitCode {
    let outcome = match parse(std::env::args().skip(1)) {
        Ok(request) => write(&request).map_err(|error| error.to_string()),
        Err(problem) => Err(format!("{problem}\n\n{USAGE}")),
    };
    if let Err(problem) = outcome {
        // Nothing else can be done if standard error is closed.
        let _ = writeln!(io::stderr(), "make-log: {problem}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

fn write(request: &Request) -> io::Result<()> {
    let truth = make(request.scenario, &request.options, &mut File::create(&request.log)?)?;
    if let Some(path) = &request.truth {
        let mut out = BufWriter::new(File::create(path)?);
        serde_json::to_writer_pretty(&mut out, &truth)?;
        writeln!(out)?;
        out.flush()?;
    }
    Ok(())
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Request, String> {
    let (mut name, mut log, mut truth, mut ops) = (None, None, None, 100_000);
    let mut options = Options::default();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        match word.as_str() {
            "-o" => log = Some(value()?),
            "--truth" => truth = Some(value()?),
            "--seed" => options.seed = number(&value()?)?,
            "--ops" => ops = number(&value()?)?,
            "--plain" => options.color = false,
            "--info" => options.level = Level::Info,
            "--memory" => options.memory = memory(&value()?)?,
            "--ranks" => options.ranks = number(&value()?)?,
            "--noise" => options.noise = number(&value()?)?,
            "--chip" => options.chip = chip(&value()?)?,
            "--era" => options.era = nth(&LayoutEra::ALL, &value()?)?,
            "--error-era" => options.error_era = nth(&ErrorEra::ALL, &value()?)?,
            "--modules" => options.modules = modules(&value()?)?,
            "--keep" => options.keep = true,
            "--exact" => options.exact_states = true,
            other if other.starts_with('-') || name.is_some() => return Err(format!("what is `{other}`?")),
            _ => name = Some(word),
        }
    }
    let name = name.ok_or("no scenario")?;
    let scenario = Scenario::named(&name, ops).ok_or_else(|| format!("no scenario is called `{name}`"))?;
    Ok(Request { scenario, options, log: log.ok_or("no -o FILE")?, truth })
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number that fits here"))
}

fn chip(name: &str) -> Result<Chip, String> {
    match name {
        "wormhole" => Ok(Chip::Wormhole),
        "p100" => Ok(Chip::BlackholeP100),
        "p150" => Ok(Chip::BlackholeP150),
        _ => Err(format!("no chip is called `{name}`")),
    }
}

fn modules(name: &str) -> Result<Modules, String> {
    match name {
        "none" => Ok(Modules::None),
        "signatures" => Ok(Modules::SignaturesOnly),
        "full" => Ok(Modules::Full),
        _ => Err(format!("no modules are `{name}`")),
    }
}

fn memory(name: &str) -> Result<MemoryLevel, String> {
    match name {
        "operation" => Ok(MemoryLevel::Operation),
        "program" => Ok(MemoryLevel::Program),
        "any" => Ok(MemoryLevel::Any),
        _ => Err(format!("no memory level is called `{name}`")),
    }
}

/// One of several eras, counted from 1.
fn nth<T: Copy>(eras: &[T], text: &str) -> Result<T, String> {
    let row: usize = number(text)?;
    let era = row.checked_sub(1).and_then(|index| eras.get(index));
    era.copied().ok_or_else(|| format!("there is no era {row}"))
}
