//! Names of reports.

use std::path::Path;

/// Files append up to 80 bytes to the name; file systems allow 255.
const LONGEST: usize = 120;

/// The report name for a file: the file name without extension and without `_profile`.
///
/// `logs/my_model_profile.log.gz` gives `my-model`, and so does the `my_model_memory.json` of its report; standard
/// input gives `stdin`.
pub fn name_of(file: &str) -> String {
    if file == "-" {
        return "stdin".to_owned();
    }
    let path = Path::new(file);
    let packed = path.extension().is_some_and(|end| ["gz", "zst", "zstd"].iter().any(|known| end == *known));
    let path = if packed { path.with_extension("") } else { path.to_owned() };
    let stem = path.file_stem().map(|stem| stem.to_string_lossy()).unwrap_or_default();
    let end = if path.extension().is_some_and(|end| end == "json") { "_memory" } else { "_profile" };
    clean_name(stem.strip_suffix(end).unwrap_or(&stem))
}

/// Turns any name into a single plain path component: `_` and `/` become `-`.
pub fn clean_name(name: &str) -> String {
    plain_name(&name.replace('_', "-"))
}

/// The same, but keeps `_`, for the files of a run.
pub fn plain_name(name: &str) -> String {
    let plain = |c: char| {
        let is_special = matches!(c, '/' | '\\' | ':' | '<' | '>' | '|' | '?' | '*' | '"');
        if is_special || c.is_control() { '-' } else { c }
    };
    let clean: String = name.chars().map(plain).collect();
    // A name with a leading dot would be hidden or point elsewhere.
    let clean = clean.trim().trim_start_matches('.').trim_start();
    let fits = clean.char_indices().map(|(at, c)| at + c.len_utf8()).take_while(|end| *end <= LONGEST).last();
    let clean = clean[..fits.unwrap_or(0)].trim_end_matches(|c: char| c == '.' || c.is_whitespace());
    if clean.is_empty() { "report".to_owned() } else { clean.to_owned() }
}

/// The name of the run that a log belongs to, if the log is in that run's folder: `vae` for
/// `logs/vae_20261115_081250/vae_profile.log`.
pub fn run_of(log: &Path) -> Option<String> {
    let script = log.file_name()?.to_str()?.strip_suffix("_profile.log")?;
    let folder = std::path::absolute(log).ok()?;
    let stamp = folder.parent()?.file_name()?.to_str()?.strip_prefix(script)?.strip_prefix('_')?;
    // A second run in the same second has a number after its time.
    let stamp = stamp
        .get(..15)
        .filter(|_| stamp.get(15..).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')))?;
    let is_stamp = stamp
        .bytes()
        .enumerate()
        .all(|(at, byte)| if at == 8 { byte == b'_' } else { byte.is_ascii_digit() });
    is_stamp.then(|| script.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_rule() {
        for (file, name) in [
            ("logs/my_model_profile.log", "my-model"),
            ("a_b_profile.log", "a-b"),
            ("a-b.log", "a-b"),
            ("/abs/x.log.gz", "x"),
            ("x_profile.log.zst", "x"),
            ("x.ttmem", "x"),
            ("logs/my_model_memory.json", "my-model"),
            ("x_memory.json.gz", "x"),
            ("x_memory.log", "x-memory"),
            ("no-extension", "no-extension"),
            ("profile.log", "profile"),
            ("_profile.log", "report"),
            (".log", "log"),
            ("-", "stdin"),
            ("..", "report"),
            ("", "report"),
            ("/", "report"),
        ] {
            assert_eq!(name_of(file), name, "{file}");
        }
    }

    #[test]
    fn names_are_one_plain_part_of_a_path() {
        for (given, name) in [
            ("a/b", "a-b"),
            ("../../etc/passwd", "-..-etc-passwd"),
            ("/etc/passwd", "-etc-passwd"),
            ("..", "report"),
            (".", "report"),
            ("...hidden", "hidden"),
            ("", "report"),
            (" \t\n ", "--"),
            ("a\0b\u{1b}[0m", "a-b-[0m"),
            ("C:\\x", "C--x"),
            ("trailing. . ", "trailing"),
        ] {
            let made = clean_name(given);
            assert!(
                !made.contains(['/', '\\']) && !made.starts_with('.') && !made.is_empty(),
                "{given:?}: {made:?}"
            );
            assert!(!made.chars().any(char::is_control));
            assert_eq!(made, name, "{given:?}");
        }
        assert!(clean_name(&"ü".repeat(1000)).len() <= LONGEST);
    }

    #[test]
    fn a_log_in_the_folder_of_its_run_is_known_by_the_names() {
        for (log, run) in [
            ("logs/vae_20261115_081250/vae_profile.log", Some("vae")),
            ("/x/my_model_20261115_081250-2/my_model_profile.log", Some("my_model")),
            ("logs/vae_20261115_081250/other_profile.log", None),
            ("logs/vae_2026111_0812500/vae_profile.log", None),
            ("logs/vae_20261115_081250x/vae_profile.log", None),
            ("logs/vae_20261115_081250/vae.log", None),
            ("vae_profile.log", None),
        ] {
            assert_eq!(run_of(Path::new(log)).as_deref(), run, "{log}");
        }
    }
}
