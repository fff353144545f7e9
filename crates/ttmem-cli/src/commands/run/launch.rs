//! What is started, and with which environment.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use ttmem::{Error, Result};

use super::account::ACCOUNT;
use crate::console;

/// Where `python` is looked for, in this order; an active environment stands first in the PATH.
const PYTHONS: [&str; 2] = ["python", "python3"];

/// A command that is ready to be started.
#[derive(Debug)]
pub(super) struct Launch {
    /// The programs to try, the first that is there.
    programs: Vec<OsString>,
    arguments: Vec<OsString>,
    name: String,
}

impl Launch {
    /// Understands the words of a command line.
    pub fn of(words: &[OsString]) -> Result<Self> {
        let Some((first, rest)) = words.split_first().filter(|(first, _)| !first.is_empty()) else {
            return Err(Error::NotThere("no command was given".into()));
        };
        if first.as_encoded_bytes().starts_with(b"-") {
            let option = first.to_string_lossy();
            return Err(Error::NotThere(format!(
                "{option} is no option of `ttmem run`; its own come first, then the command (a file of that name is \
                 ./{option})"
            )));
        }
        let name = name_of(words);
        if !is_python(first) {
            return Ok(Self { programs: vec![first.clone()], arguments: rest.to_vec(), name });
        }
        if !Path::new(first).is_file() {
            let script = first.to_string_lossy();
            return Err(Error::NotThere(format!("there is no script {script}")));
        }
        let arguments = [OsString::from("-u")].into_iter().chain(words.iter().cloned()).collect();
        Ok(Self { programs: PYTHONS.map(OsString::from).to_vec(), arguments, name })
    }

    /// What the run is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Says which settings of the user's stand in the way of an answer.
    pub fn say_settings(&self) {
        for variable in REMARKED {
            let value = env::var_os(variable).map(|value| value.to_string_lossy().into_owned());
            if let Some((remark, value)) = value.and_then(|value| Some((remark(variable, &value)?, value))) {
                console::warning(&format!("{variable}={value}"), None, remark);
            }
        }
        console::detail(|| {
            let ours: Vec<String> =
                missing().map(|(variable, value)| format!("{variable}={value}")).collect();
            let words: Vec<_> = self.arguments.iter().map(|word| word.to_string_lossy()).collect();
            format!("{} {} {}", ours.join(" "), self.programs[0].to_string_lossy(), words.join(" "))
        });
    }

    /// Starts it. Both of its streams go into one pipe, so their order is the kernel's.
    pub fn start(&self) -> Result<(Child, PipeReader)> {
        for program in &self.programs {
            match self.spawn(program) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && self.programs.len() > 1 => {}
                Err(error) => {
                    let program = program.to_string_lossy();
                    return Err(Error::NotThere(format!("cannot start {program}: {error}")));
                }
                Ok(started) => return Ok(started),
            }
        }
        Err(Error::NotThere(format!(
            "there is no {}; activate the environment of the model, or name its python: ttmem run /path/to/python …",
            PYTHONS.join(" and no ")
        )))
    }

    fn spawn(&self, program: &OsStr) -> io::Result<(Child, PipeReader)> {
        let (output, input) = io::pipe()?;
        enlarge(&input);
        // The command holds our ends of the pipe; they must be closed for it to end with the last writer.
        let child = Command::new(program)
            .args(&self.arguments)
            .envs(missing())
            .env_remove(ACCOUNT)
            .stdin(Stdio::inherit())
            .stdout(input.try_clone()?)
            .stderr(input)
            .spawn()?;
        Ok((child, output))
    }
}

/// A pipe with more room keeps a command that prints much from waiting for us. Where it cannot be had, so be it.
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

/// The name of a run: that of the first script among the words (`mpirun -np 2 python model.py`), else the command's.
fn name_of(words: &[OsString]) -> String {
    // A whole program in one word (`sh -c '…'`) is no script.
    let is_script = |word: &&OsString| is_python(word) && (Path::new(word).is_file() || !has_spaces(word));
    let word = words.iter().find(is_script).or(words.first());
    let stem = word.and_then(|word| Path::new(word).file_stem()).unwrap_or_default();
    stem.to_string_lossy().into_owned()
}

/// What makes the runtime print its memory, and Python print at once.
const SETTINGS: [(&str, &str); 4] = [
    ("TTMLIR_RUNTIME_LOGGER_LEVEL", "DEBUG"),
    ("TT_RUNTIME_MEMORY_LOG_LEVEL", "any"),
    ("TTXLA_LOGGER_LEVEL", "DEBUG"),
    ("PYTHONUNBUFFERED", "1"),
];

/// The settings that the user has not made.
fn missing() -> impl Iterator<Item = (&'static str, &'static str)> {
    SETTINGS.into_iter().filter(|(variable, _)| env::var_os(variable).is_none())
}

/// The settings of the user's that `remark` knows.
const REMARKED: [&str; 4] = [
    "TTMLIR_RUNTIME_LOGGER_LEVEL",
    "TT_RUNTIME_MEMORY_LOG_LEVEL",
    "TTXLA_LOGGER_LEVEL",
    "TTMLIR_RUNTIME_LOGGER_FILE",
];

/// What will be missing with a setting of the user's, if anything.
fn remark(variable: &str, value: &str) -> Option<&'static str> {
    let (upper, lower) = (value.to_ascii_uppercase(), value.to_ascii_lowercase());
    match variable {
        "TTMLIR_RUNTIME_LOGGER_LEVEL" => match upper.as_str() {
            "DEBUG" | "TRACE" => None,
            "WARNING" | "ERROR" | "FATAL" => Some("there will be no memory data; DEBUG is wanted"),
            _ => Some("there will be pools but no operations; DEBUG is wanted"),
        },
        "TT_RUNTIME_MEMORY_LOG_LEVEL" => match lower.as_str() {
            "any" | "all" | "operation" => None,
            "program" => Some("there will be memory states around programs only; any is wanted"),
            "none" => Some("there will be no memory data; any is wanted"),
            _ => Some("the runtime does not know this value and may refuse to start; any is wanted"),
        },
        "TTXLA_LOGGER_LEVEL" => match value {
            "DEBUG" | "VERBOSE" => None,
            _ => Some("weights and inputs will have no names; DEBUG is wanted"),
        },
        "TTMLIR_RUNTIME_LOGGER_FILE" if !value.is_empty() => {
            Some("the runtime prints there and not here, so there will be no memory data; unset it")
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
    fn a_run_is_called_after_its_script() {
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
    fn what_cannot_be_a_command_is_refused() {
        for (line, said) in [
            ("--log-onyl model.py", "--log-onyl is no option"),
            ("no/such/script.py", "there is no script no/such/script.py"),
            (concat!(env!("CARGO_MANIFEST_DIR"), "/none.py"), "there is no script"),
        ] {
            let error = Launch::of(&words(line)).unwrap_err();
            assert!(error.to_string().contains(said), "{error}");
            assert_eq!(error.exit_code(), 2);
        }
    }

    #[test]
    fn settings_that_leave_something_out_are_remarked_on() {
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
