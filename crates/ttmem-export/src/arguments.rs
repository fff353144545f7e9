//! The arguments of the program, as `ttmem export` passes them.

use std::ffi::OsString;
use std::path::PathBuf;

use ttmem::{Error, Result};

/// The inputs of an export, and its options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// The folder of the dataset.
    pub dataset: PathBuf,
    /// The name of the run; `None` for one run per input, named after it.
    pub run: Option<String>,
    /// The labels of the runs.
    pub labels: Vec<(String, String)>,
    /// The machine that the inputs are on; `None` for this one.
    pub host: Option<String>,
    /// The format; `None` to detect it.
    pub format: Option<String>,
    /// Whether to print only errors.
    pub quiet: bool,
    /// The files and folders to export.
    pub inputs: Vec<String>,
}

impl Request {
    /// Parses `--output=DATASET`, further options, `--`, and inputs.
    pub fn parse(words: &[OsString]) -> Result<Self> {
        let wrong = |word: &str| {
            Error::Usage(format!(
                "{word}: unknown argument; this program is run by `ttmem export`, see `ttmem export --help`"
            ))
        };
        let mut request = Self::default();
        let mut words = words.iter().map(|word| word.to_string_lossy().into_owned());
        for word in words.by_ref().take_while(|word| word != "--") {
            match word.split_once('=') {
                Some(("--output", folder)) => request.dataset = folder.into(),
                Some(("--run", run)) => request.run = Some(run.to_owned()),
                Some(("--label", pair)) => {
                    let (key, value) = pair.split_once('=').ok_or_else(|| wrong(&word))?;
                    request.labels.push((key.to_owned(), value.to_owned()));
                }
                Some(("--host", host)) => request.host = Some(host.to_owned()),
                Some(("--format", format)) => request.format = Some(format.to_owned()),
                _ if word == "--quiet" => request.quiet = true,
                _ => return Err(wrong(&word)),
            }
        }
        if let Some(key) = request.repeated_label() {
            return Err(Error::Usage(format!("--label {key}: given twice; pass each key once")));
        }
        request.inputs = words.collect();
        if request.inputs.is_empty() || request.dataset.as_os_str().is_empty() {
            return Err(Error::Usage("no input or no dataset; run `ttmem export INPUT -o DATASET`".into()));
        }
        Ok(request)
    }

    /// A key that several labels have. A rank has one value per key, so that no rank counts twice.
    fn repeated_label(&self) -> Option<&str> {
        let keys = || self.labels.iter().map(|(key, _)| key.as_str());
        keys()
            .enumerate()
            .find(|(at, key)| keys().take(*at).any(|earlier| earlier == *key))
            .map(|(_, key)| key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Result<Request> {
        Request::parse(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn options_come_before_the_inputs() {
        let words =
            ["--output=d", "--run=a b", "--label=commit=x=1", "--host=h", "--quiet", "--", "--run=x", "y"];
        let expected = Request {
            dataset: "d".into(),
            run: Some("a b".into()),
            labels: vec![("commit".into(), "x=1".into())],
            host: Some("h".into()),
            quiet: true,
            inputs: vec!["--run=x".into(), "y".into()],
            ..Request::default()
        };
        assert_eq!(parse(&words).ok(), Some(expected));
    }

    #[test]
    fn a_label_has_one_value() {
        let words = ["--output=d", "--label=a=1", "--label=b=1", "--label=a=2", "--", "x"];
        let Err(Error::Usage(message)) = parse(&words) else { panic!("accepted") };
        assert_eq!(message, "--label a: given twice; pass each key once");
        assert!(parse(&["--output=d", "--label=a=1", "--label=b=1", "--", "x"]).is_ok());
    }

    #[test]
    fn other_words_are_errors() {
        for words in
            [&["--help"][..], &["--output=d", "--"], &["--", "x"], &["--output=d", "--label=x", "--", "y"]]
        {
            assert!(matches!(parse(words), Err(Error::Usage(_))), "{words:?}");
        }
    }
}
