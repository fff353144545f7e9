//! The recordings of PyTorch programs: which one is reported, and where it is found.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use super::{Place, page, text};

/// A recording of the corpus.
fn recording(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/ttmem/0.1.0").join(name).canonicalize().unwrap()
}

/// Runs a shell script with recordings as its arguments, in place of the programs that would write them.
fn run(place: &Place, script: &str, recordings: &[&str], settings: &[(&str, &str)]) -> Output {
    let mut command = place.run();
    command.args(["--name", "prog", "sh", "-c", script, "sh"]);
    command.args(recordings.iter().map(|name| recording(name))).envs(settings.iter().copied());
    command.output().unwrap()
}

const COPY: &str = "cp \"$@\" \"$TTMEM_TRACK_DIR\"";

#[test]
fn the_process_with_the_most_device_memory_is_reported() {
    let place = Place::new();
    // By host memory, it would be the first.
    let files = ["cuda_operations.ttmem", "phases.ttmem", "tensors.ttmem"];
    let output = run(&place, COPY, &files, &[]);
    let said = text(&output.stderr);
    page(&place, &output);
    assert!(said.contains("Peak DRAM 228.4 MiB."), "{said}");
    assert!(said.contains("/phases.ttmem\nlog: logs/prog_"), "{said}");
    let others = said.lines().find(|line| line.contains("2 other processes have recordings")).unwrap();
    assert!(others.contains("cuda_operations.ttmem") && others.contains("tensors.ttmem"), "{others}");
    // The memory of the CPU decides only among programs without a device.
    let place = Place::new();
    let said = text(&run(&place, COPY, &["cuda_tensors.ttmem", "tensors.ttmem"], &[]).stderr);
    assert!(said.contains("/cuda_tensors.ttmem\nlog: "), "{said}");
    assert!(said.contains("1 other process has a recording"), "{said}");
}

#[test]
fn a_recording_that_cannot_be_read_is_named() {
    let place = Place::new();
    let script = "cp \"$1\" \"$TTMEM_TRACK_DIR\"; echo x >\"$TTMEM_TRACK_DIR/broken.ttmem\"";
    let output = run(&place, script, &["tensors.ttmem"], &[]);
    let said = text(&output.stderr);
    page(&place, &output);
    assert!(said.contains("/tensors.ttmem\nlog: "), "{said}");
    let warning = said.lines().find(|line| line.contains("broken.ttmem")).unwrap();
    assert!(warning.starts_with("warning: "), "{warning}");
    assert!(warning.ends_with("; the report does not include this process"), "{warning}");
    assert!(!said.contains("other process has"), "{said}");
}

#[test]
fn the_earlier_files_of_a_recording_belong_to_the_newest() {
    let place = Place::new();
    let files = ["rotated.ttmem", "rotated.before.ttmem", "rotated.peak.ttmem"];
    let said = text(&run(&place, COPY, &files, &[]).stderr);
    assert!(said.contains("/rotated.ttmem\nlog: ") && !said.contains("other process"), "{said}");
}

#[test]
fn recordings_are_found_in_the_folder_of_the_user() {
    let place = Place::new();
    fs::create_dir(place.path("mine")).unwrap();
    fs::copy(recording("cuda_oom.ttmem"), place.path("mine/earlier.ttmem")).unwrap();
    let output = run(&place, COPY, &["tensors.ttmem"], &[("TTMEM_TRACK_DIR", "mine")]);
    let said = text(&output.stderr);
    page(&place, &output);
    assert!(said.contains("\nrecording: mine/tensors.ttmem\nlog: logs/"), "{said}");
    assert!(!said.contains("earlier.ttmem"), "{said}");
    // An empty value is no folder.
    let place = Place::new();
    let said = text(&run(&place, COPY, &["tensors.ttmem"], &[("TTMEM_TRACK_DIR", "")]).stderr);
    assert!(said.contains("\nrecording: logs/prog_"), "{said}");
}

#[test]
fn a_tracker_that_is_switched_off_is_named() {
    let output = run(&Place::new(), "true", &[], &[("TTMEM_TRACK", "0")]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("unset TTMEM_TRACK") && !said.contains("pip install"), "{said}");
    let said = text(&run(&Place::new(), "true", &[], &[]).stderr);
    assert!(said.contains("pip install ttmem"), "{said}");
}

#[test]
fn verbose_names_the_variables_of_the_tracker() {
    let place = Place::new();
    let mut command = place.ttmem();
    let output = command.args(["-v", "run", "--log-only", "true"]).output().unwrap();
    let said = text(&output.stderr);
    assert!(said.contains(" TTMEM_TRACK=1 TTMEM_TRACK_DIR=/"), "{said}");
}

/// What `MemoryUsageTracker` prints for a PyTorch device.
const PHASES: &str = "=== Memory Usage Summary ===
--- forward ---
  cpu: Segment Peak 36.00 MiB, Allocations 36.00 MiB, Deallocations 0.00 MiB, Segment Change +36.00 MiB
  cpu: Cumulative Peak 36.00 MiB, Cumulative Current 36.00 MiB
";

#[test]
fn output_that_looks_like_another_format_does_not_hide_a_recording() {
    for printed in ["{\"version\": 1, \"buffers\": [", "SQLite format 3\\000", PHASES] {
        let place = Place::new();
        let script = format!("printf '%b' '{printed}'; {COPY}");
        let output = run(&place, &script, &["tensors.ttmem"], &[]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(said.contains("/tensors.ttmem\nlog: "), "{printed}: {said}");
    }
    // Phases of a Tenstorrent device say more than the CPU tensors of the same program.
    let place = Place::new();
    let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/tt_train/tinyllama.log");
    let script = format!("cat '{}'; {COPY}", log.display());
    let said = text(&run(&place, &script, &["tensors.ttmem"], &[]).stderr);
    assert!(said.contains("Peak DRAM 15.30 of 12.00 GiB (127%).\nlog: "), "{said}");
}
