//! `make check-data`: compares every log that has a truth file with it, field by field, and prints one table.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ttmem::read;

#[path = "check_data/real.rs"]
mod real;
#[path = "../tests/it/truth/mod.rs"]
mod truth;

use truth::{Field, Fields, Shown, Truth};

fn main() -> ExitCode {
    let mut table = Table::default();
    for folder in folders() {
        for log in logs_with_truth(&folder) {
            table.add(&name_of(&log), &check(&log));
        }
    }
    let (text, all_hold) = table.finish();
    let written = io::stdout().lock().write_all(text.as_bytes());
    if written.is_ok() && all_hold { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The folders with logs and their truths. The first is not part of the repository and may be missing.
fn folders() -> [PathBuf; 2] {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    [root.join("../shared/data/tt"), root.join("corpus/tt_log")]
}

fn logs_with_truth(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut logs: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|ending| ending == "log"))
        .filter(|path| truth_of(path).exists())
        .collect();
    logs.sort();
    logs
}

fn truth_of(log: &Path) -> PathBuf {
    log.with_extension("truth.json")
}

/// The log's name with its folder: the same log may be in both.
fn name_of(log: &Path) -> String {
    let parts: Vec<_> = log.iter().rev().take(2).map(|part| part.to_string_lossy()).collect();
    parts.into_iter().rev().collect::<Vec<_>>().join("/")
}

fn check(log: &Path) -> Fields {
    checked(log).unwrap_or_else(|problem| {
        let mut fields = Fields::default();
        fields.judge("reading", false, &"a summary", &problem);
        fields
    })
}

fn checked(log: &Path) -> Result<Fields, String> {
    let json = fs::read_to_string(truth_of(log)).map_err(|error| error.to_string())?;
    let profile = read::open(&log.to_string_lossy()).map_err(|error| error.to_string())?;
    if json.contains("\"left_behind_MB_per_bank\"") {
        return real::compare(&profile, &json);
    }
    let truth = Truth::parse(&json).map_err(|error| format!("cannot read the truth: {error}"))?;
    let text = fs::read(log).map_err(|error| error.to_string())?;
    Ok(truth::compare(&profile, &truth, Shown::of_log(&text)))
}

/// The table, with a row per log and group of fields.
#[derive(Default)]
struct Table {
    text: String,
    held: usize,
    fields: usize,
}

impl Table {
    fn add(&mut self, log: &str, fields: &Fields) {
        for (group, of_group) in groups(fields) {
            let broken: Vec<&&Field> = of_group.iter().filter(|field| !field.holds).collect();
            self.fields += of_group.len();
            self.held += of_group.len() - broken.len();
            let verdict = if broken.is_empty() { "holds" } else { "DOES NOT HOLD" };
            self.row(log, group, of_group.len(), verdict);
            for field in broken {
                let (expected, found) = (truth::short(&field.expected), truth::short(&field.found));
                self.note(&format!("{}: expected {expected}, found {found}", field.name));
            }
        }
    }

    fn row(&mut self, log: &str, group: &str, count: usize, verdict: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{log:42} {group:12} {count:3} fields  {verdict}");
    }

    fn note(&mut self, note: &str) {
        let _ = writeln!(self.text, "{:42}   {note}", "");
    }

    fn finish(mut self) -> (String, bool) {
        let _ = writeln!(self.text, "{} of {} hold", self.held, self.fields);
        (self.text, self.held == self.fields && self.fields > 0)
    }
}

/// The fields grouped by the first word of their names, in order of first appearance.
fn groups(fields: &Fields) -> Vec<(&str, Vec<&Field>)> {
    let mut groups: Vec<(&str, Vec<&Field>)> = Vec::new();
    for field in &fields.0 {
        let group = field.name.split(' ').next().unwrap_or_default();
        match groups.iter_mut().find(|(name, _)| *name == group) {
            Some((_, of_group)) => of_group.push(field),
            None => groups.push((group, vec![field])),
        }
    }
    groups
}
