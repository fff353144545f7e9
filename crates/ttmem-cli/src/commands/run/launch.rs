//! Starts the command, with the environment that it needs.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use ttmem::{Error, Result};

use super::account::ACCOUNT;
use crate::console;

/// The names of the Python interpreter, in this order; an active environment comes first in PATH.
const PYTHONS: [&str; 2] = ["python", "python3"];

/// A command to start.
#[derive(Debug)]
pub(super) struct Launch {
    /// The programs to try, in order; the first that exists is used.
    programs: Vec<OsString>,
    arguments: Vec<OsString>,
    name: String,
}

impl Launch {
    /// Parses the words of a command line.
    pub fn of(words: &[OsString]) -> Result<Self> {
        let Some((first, rest)) = words.split_first().filter(|(first, _)| !first.is_empty()) else {
            return Err(Error::NotFound("no command; pass a script or command to run".into()));
        };
        if first.as_encoded_bytes().starts_with(b"-") {
            let option = first.to_string_lossy();
            return Err(Error::NotFound(format!(
                "{option}: not an option of `ttmem run`; pass its options before the command (to run a file with this \
                 name, pass ./{option})"
            )));
        }
        let name = name_of(words);
        if !is_python(first) {
            return Ok(Self { programs: vec![first.clone()], arguments: rest.to_vec(), name });
        }
        if !Path::new(first).is_file() {
            let script = first.to_string_lossy();
            return Err(Error::NotFound(format!("{script}: not found; pass a script or command to run")));
        }
        let arguments = [OsString::from("-u")].into_iter().chain(words.iter().cloned()).collect();
        Ok(Self { programs: PYTHONS.map(OsString::from).to_vec(), arguments, name })
    }

    /// The name of the run.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Warns about the user's settings that reduce the memory data in the log. With `--verbose`, prints the command and
    /// the variables that are set for it.
    pub fn warn_about_settings(&self, folder: &Path) {
        for variable in REMARKED {
            let value = env::var_os(variable).map(|value| value.to_string_lossy().into_owned());
            if let Some((remark, value)) = value.and_then(|value| Some((remark(variable, &value)?, value))) {
                console::warning(&format!("{variable}={value}"), None, remark);
            }
        }
        console::detail(|| {
            let tracking = tracking(folder).map(|(name, value)| (name, value.to_string_lossy().into_owned()));
            let ours = missing().map(|(name, value)| (name, value.to_owned())).chain(tracking);
            let ours: Vec<String> = ours.map(|(name, value)| format!("{name}={value}")).collect();
            let words: Vec<_> = self.arguments.iter().map(|word| word.to_string_lossy()).collect();
            format!("{} {} {}", ours.join(" "), self.programs[0].to_string_lossy(), words.join(" "))
        });
    }

    /// Starts the command. Both of its streams go into one pipe, which keeps their order. If the command uses PyTorch and
    /// the Python package of ttmem is installed, its tracker records into `folder`.
    pub fn start(&self, folder: &Path) -> Result<(Child, PipeReader)> {
        for program in &self.programs {
            match self.spawn(program, folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && self.programs.len() > 1 => {}
                Err(error) => {
                    let program = program.to_string_lossy();
                    return Err(Error::NotFound(format!("cannot start {program}: {error}")));
                }
                Ok(started) => return Ok(started),
            }
        }
        Err(Error::NotFound(format!(
            "{}: not found; activate the model's environment, or pass its Python: ttmem run /path/to/python …",
            PYTHONS.join(" and ")
        )))
    }

    fn spawn(&self, program: &OsStr, folder: &Path) -> io::Result<(Child, PipeReader)> {
        let (output, input) = io::pipe()?;
        enlarge(&input);
        // The command takes the write ends; none may stay open here, or the pipe would never end.
        let child = Command::new(program)
            .args(&self.arguments)
            .envs(missing())
            .envs(tracking(folder))
            .env_remove(ACCOUNT)
            .stdin(Stdio::inherit())
            .stdout(input.try_clone()?)
            .stderr(input)
            .spawn()?;
        Ok((child, output))
    }
}

/// Enlarges the pipe if possible, so that a command with much output does not wait for ttmem.
fn enlarge(pipe: &io::PipeWriter) {
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, 1 << 20);
    #[cfg(not(target_os = "linux"))]
    let _ = pipe;
}

fn is_python(word: &OsStr) -> bool {
    Path::new(word).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("py"))
}

fn has_spaces(word: &OsStr) -> bool {
    word.as_encoded_bytes().iter().any(u8::is_ascii_whitespace)
}

/// The name of a run: that of the first script among the words (`mpirun -np 2 python model.py`), otherwise the
/// command's.
fn name_of(words: &[OsString]) -> String {
    // A whole program in one word (`sh -c '…'`) is not a script.
    let is_script = |word: &&OsString| is_python(word) && (Path::new(word).is_file() || !has_spaces(word));
    let word = words.iter().find(is_script).or(words.first());
    let stem = word.and_then(|word| Path::new(word).file_stem()).unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// The settings that make the runtime log its memory and Python print without buffering.
const SETTINGS: [(&str, &str); 4] = [
    ("TTMLIR_RUNTIME_LOGGER_LEVEL", "DEBUG"),
    ("TT_RUNTIME_MEMORY_LOG_LEVEL", "any"),
    ("TTXLA_LOGGER_LEVEL", "DEBUG"),
    ("PYTHONUNBUFFERED", "1"),
];

/// The settings that the user has not set.
fn missing() -> impl Iterator<Item = (&'static str, &'static str)> {
    SETTINGS.into_iter().filter(|(variable, _)| env::var_os(variable).is_none())
}

const TRACK: &str = "TTMEM_TRACK";
const TRACK_DIR: &str = "TTMEM_TRACK_DIR";

/// The settings that start the tracker, unless the user has set them.
fn tracking(folder: &Path) -> impl Iterator<Item = (&'static str, OsString)> {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let settings = [(TRACK, OsString::from("1")), (TRACK_DIR, folder.into_os_string())];
    settings.into_iter().filter(|(variable, _)| own(variable).is_none())
}

/// The user's value of a variable. The tracker ignores an empty one.
fn own(variable: &str) -> Option<OsString> {
    env::var_os(variable).filter(|value| !value.is_empty())
}

/// The folder that the tracker writes to, given the folder of the run: the user's setting takes precedence.
pub(super) fn recordings_folder(folder: &Path) -> PathBuf {
    own(TRACK_DIR).map_or_else(|| folder.to_owned(), PathBuf::from)
}

/// Whether the user has switched the tracker off.
pub(super) fn is_tracking_off() -> bool {
    own(TRACK).is_some_and(|value| value == "0")
}

/// The variables that [`remark`] checks.
const REMARKED: [&str; 4] = [
    "TTMLIR_RUNTIME_LOGGER_LEVEL",
    "TT_RUNTIME_MEMORY_LOG_LEVEL",
    "TTXLA_LOGGER_LEVEL",
    "TTMLIR_RUNTIME_LOGGER_FILE",
];

/// What the log will lack with the user's setting, if anything.
fn remark(variable: &str, value: &str) -> Option<&'static str> {
    let (upper, lower) = (value.to_ascii_uppercase(), value.to_ascii_lowercase());
    match variable {
        "TTMLIR_RUNTIME_LOGGER_LEVEL" => match upper.as_str() {
            "DEBUG" | "TRACE" => None,
            "WARNING" | "ERROR" | "FATAL" => Some("the log will have no memory data; set it to DEBUG"),
            _ => Some("the log will have pools but no operations; set it to DEBUG"),
        },
        "TT_RUNTIME_MEMORY_LOG_LEVEL" => match lower.as_str() {
            "any" | "all" | "operation" => None,
            "program" => Some("the log will have memory states around programs only; set it to any"),
            "none" => Some("the log will have no memory data; set it to any"),
            _ => Some("the runtime does not know this value and may not start; set it to any"),
        },
        "TTXLA_LOGGER_LEVEL" => match value {
            "DEBUG" | "VERBOSE" => None,
            _ => Some("weights and inputs will have no names; set it to DEBUG"),
        },
        "TTMLIR_RUNTIME_LOGGER_FILE" if !value.is_empty() => {
            Some("the runtime logs to that file, so the captured log will have no memory data; unset it")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_run_is_named_after_its_script() {
        for (line, name) in [
            ("model.py --batch 4", "model"),
            ("dir/my_model.py", "my_model"),
            ("python -u train.py", "train"),
            ("mpirun -np 2 python a/b.py c.py", "b"),
            ("./run.sh x", "run"),
            ("/usr/bin/env", "env"),
        ] {
            assert_eq!(name_of(&words(line)), name, "{line}");
        }
    }

    #[test]
    fn invalid_commands_are_rejected() {
        for (line, message) in [
            ("--log-onyl model.py", "--log-onyl: not an option"),
            ("no/such/script.py", "no/such/script.py: not found"),
            (concat!(env!("CARGO_MANIFEST_DIR"), "/none.py"), "none.py: not found"),
        ] {
            let error = Launch::of(&words(line)).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
            assert_eq!(error.exit_code(), 2);
        }
    }

    #[test]
    fn settings_that_reduce_the_data_have_a_remark() {
        let said = |variable: &str, value: &str| {
            assert!(REMARKED.contains(&variable));
            remark(variable, value).unwrap_or("")
        };
        for fits in ["any", "ANY", "operation", "all"] {
            assert_eq!(said("TT_RUNTIME_MEMORY_LOG_LEVEL", fits), "");
        }
        assert!(said("TT_RUNTIME_MEMORY_LOG_LEVEL", "none").contains("no memory data"));
        assert!(said("TT_RUNTIME_MEMORY_LOG_LEVEL", "").contains("does not know"));
        for fits in ["DEBUG", "debug", "trace"] {
            assert_eq!(said("TTMLIR_RUNTIME_LOGGER_LEVEL", fits), "");
        }
        assert!(said("TTMLIR_RUNTIME_LOGGER_LEVEL", "warning").contains("no memory data"));
        assert!(said("TTMLIR_RUNTIME_LOGGER_LEVEL", "info").contains("no operations"));
        assert!(said("TTXLA_LOGGER_LEVEL", "debug").contains("no names"), "upper case only");
        assert_eq!(said("TTXLA_LOGGER_LEVEL", "VERBOSE"), "");
        assert!(said("TTMLIR_RUNTIME_LOGGER_FILE", "/tmp/x").contains("no memory data"));
        assert_eq!(said("TTMLIR_RUNTIME_LOGGER_FILE", ""), "");
    }
}
