//! The configuration: what a file says, who is believed, and that a change keeps all else.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use ttmem::config::{self, Change, Config, Settings, Source};

fn parsed(text: &str) -> Config {
    Config::parse(text, Path::new("server.toml")).unwrap()
}

fn switched(text: &str, is_on: bool) -> String {
    let change = Change { enable_memory_profiling: Some(is_on), ..Change::default() };
    change.apply(text, Path::new("server.toml")).unwrap()
}

fn environment(variables: &[(&str, &str)]) -> impl Fn(&str) -> Option<OsString> {
    let variables: HashMap<String, OsString> =
        variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
    move |name| variables.get(name).cloned()
}

#[test]
fn the_switch_is_found_however_backends_are_written() {
    for (text, said) in [
        ("", None),
        ("[[backend]]\n", None),
        ("[[backend]]\nenable_memory_profiling = true\n", Some(true)),
        ("[[backend]]\nenable_memory_profiling = false\n", Some(false)),
        ("[[backend]]\nname = 'a'\n[[backend]]\nenable_memory_profiling = true\n", Some(true)),
        (
            "[[backend]]\nenable_memory_profiling = true\n[[backend]]\nenable_memory_profiling = false\n",
            Some(true),
        ),
        ("[backend]\nenable_memory_profiling = true\n", Some(true)),
        ("backend.enable_memory_profiling = true\n", Some(true)),
        ("backend = [{ name = 'a' }, { enable_memory_profiling = true }]\n", Some(true)),
        ("backend = { enable_memory_profiling = true }\n", Some(true)),
        ("enable_memory_profiling = true\n", None),
    ] {
        let config = parsed(text);
        assert_eq!(config.enable_memory_profiling, said, "{text}");
        assert_eq!(config.problems, Vec::<String>::new(), "{text}");
    }
}

#[test]
fn what_is_ours_is_read_and_what_is_of_others_is_left_alone() {
    let config = parsed(
        "host = '::1'\n[[backend]]\nenable_memory_profilin = 1\nmax_num_kv_pages = 10240\n\
         [ttmem]\noutput_dir = 'profiles'\ninterval = 2\nlevel = 'phases'\n[other]\nlevel = 9\n",
    );
    assert_eq!(config.output_dir.as_deref(), Some("profiles"));
    assert_eq!((config.interval, config.level.as_deref()), (Some(2.0), Some("phases")));
    assert!(config.problems.is_empty());
}

#[test]
fn what_is_not_understood_is_said_with_its_line_and_the_rest_holds() {
    for (text, words) in [
        (
            "[[backend]]\nenable_memory_profiling = 'yes'\n",
            "line 2: enable_memory_profiling is \"yes\"; expected true",
        ),
        ("[ttmem]\nintervall = 1\n", "line 2: [ttmem] has no setting \"intervall\"; expected output_dir"),
        ("[ttmem]\n\nenabled = true\n", "line 3: [ttmem] has no setting \"enabled\""),
        ("[ttmem]\nenabled = true\n", "set enable_memory_profiling in [[backend]]"),
        ("[ttmem]\ninterval = 0\n", "line 2: interval is 0; expected a number of seconds"),
        ("[ttmem]\ninterval = nan\n", "interval is nan"),
        ("[ttmem]\ninterval = '5'\n", "interval is \"5\""),
        ("[ttmem]\nlevel = 'all'\n", "level is \"all\"; expected one of phases, tensors, ops"),
        ("[ttmem]\nlimit = '3kB'\n", "limit is \"3kB\"; expected a size of at least 1MB"),
        ("[ttmem]\nlimit = 5\n", "limit is 5; expected a size of at least 1MB"),
        ("[ttmem]\noutput_dir = ''\n", "output_dir is \"\"; expected a folder"),
        ("[ttmem]\noutput_dir = [1,\n2]\n", "line 2: output_dir is [1, 2]; expected a folder"),
        (
            "[ttmem]\noutput_dir = ['a long one, that nobody would want to read']\n",
            "output_dir is of type array",
        ),
        ("ttmem = 3\n", "line 1: ttmem is 3; expected a table [ttmem]"),
    ] {
        let config = parsed(&format!("{text}[last]\n"));
        assert_eq!(config.problems.len(), 1, "{text}");
        assert!(config.problems[0].starts_with("server.toml, line "), "{:?}", config.problems);
        assert!(config.problems[0].contains(words), "{:?}", config.problems);
    }
    let config = parsed("[ttmem]\ninterval = -1\nlevel = 'phases'\n");
    assert_eq!((config.interval, config.level.as_deref()), (None, Some("phases")));
}

#[test]
fn a_text_that_is_no_toml_is_refused_with_file_and_line() {
    for (text, line) in [("a = 1\nb = \n", 2), ("[[backend]\n", 1), ("a = 1\n\na = 2\n", 3), ("{}", 1)] {
        let error = Config::parse(text, Path::new("server.toml")).unwrap_err();
        let said = error.to_string();
        assert!(said.starts_with(&format!("server.toml, line {line}: invalid TOML (")), "{said}");
        assert!(said.ends_with("correct the line or remove the file") && !said.contains('\n'), "{said}");
        assert_eq!(error.exit_code(), 2);
        assert!(Change::default().apply(text, Path::new("server.toml")).is_err());
    }
}

#[test]
fn the_environment_wins_over_the_file_and_the_file_over_what_is_usual() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("server.toml");
    fs::write(
        &file,
        "[[backend]]\nenable_memory_profiling = true\n[ttmem]\ninterval = 2\nlevel = 'phases'\nlimit = 33554432\n",
    )
    .unwrap();
    let file = file.to_str().unwrap();
    let settings = Settings::of(environment(&[("TTMEM_CONFIG", file), ("TTMEM_TRACK_INTERVAL", "9")]));
    assert_eq!(
        (settings.enable_memory_profiling.value, settings.enable_memory_profiling.from),
        (true, Source::File)
    );
    assert_eq!((settings.interval.value, settings.interval.from), (9.0, Source::Environment));
    assert_eq!((settings.level.value.as_str(), settings.level.from), ("phases", Source::File));
    assert_eq!((settings.limit.value.as_str(), settings.limit.from), ("33554432", Source::File));
    assert_eq!((settings.output_dir.value.as_str(), settings.output_dir.from), (".", Source::Default));
    let none = Settings::of(environment(&[("TTMEM_CONFIG", file), ("TTMEM_TRACK_LIMIT", "none")]));
    assert_eq!(none.limit.value, "none");
    let wrong = Settings::of(environment(&[("TTMEM_CONFIG", file), ("TTMEM_TRACK_LIMIT", "little")]));
    assert_eq!(wrong.limit.value, "33554432");
    assert!(wrong.problems[0].contains("TTMEM_TRACK_LIMIT is \"little\"; expected a size"));
    assert!(settings.exists && settings.problems.is_empty());
    for (said, is_on) in [("0", false), ("1", true), ("", true)] {
        let settings = Settings::of(environment(&[("TTMEM_CONFIG", file), ("TTMEM_TRACK", said)]));
        assert_eq!(settings.enable_memory_profiling.value, is_on, "{said:?}");
    }
}

#[test]
fn what_cannot_be_read_is_a_problem_and_the_environment_still_holds() {
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken.toml");
    fs::write(&broken, "[[backend]\n").unwrap();
    let binary = folder.path().join("binary.toml");
    fs::write(&binary, [0xff, 0xfe]).unwrap();
    let large = folder.path().join("large.toml");
    fs::write(&large, "#".repeat(2 << 20)).unwrap();
    let missing = folder.path().join("missing.toml");
    for path in [&broken, &binary, &large, &missing, &folder.path().to_owned()] {
        let path = path.to_str().unwrap();
        let variables = [
            ("TTMEM_CONFIG", path),
            ("TTMEM_TRACK", "1"),
            ("TTMEM_TRACK_INTERVAL", "often"),
            ("TTMEM_TRACK_LEVEL", "x"),
        ];
        let settings = Settings::of(environment(&variables));
        assert!(settings.enable_memory_profiling.value, "{path}");
        assert!(settings.problems[0].contains(path), "{:?}", settings.problems);
        assert_eq!((settings.interval.value, settings.interval.from), (5.0, Source::Default));
        assert!(
            settings.problems[1].contains("TTMEM_TRACK_INTERVAL is \"often\""),
            "{:?}",
            settings.problems
        );
        assert!(settings.problems[2].contains("TTMEM_TRACK_LEVEL is \"x\""), "{:?}", settings.problems);
        assert_eq!(settings.problems.len(), 3);
    }
    let nothing = Settings::of(environment(&[("TTMEM_CONFIG", "/dev/null")]));
    assert!(nothing.problems.is_empty() && !nothing.enable_memory_profiling.value);
}

#[test]
fn the_usual_place_is_in_the_home_of_ttmem_and_may_be_empty() {
    let place = |variables: &[(&str, &str)]| config::path(environment(variables));
    assert_eq!(place(&[]), None);
    assert_eq!(place(&[("HOME", "/h")]), Some(PathBuf::from("/h/.ttmem/config.toml")));
    assert_eq!(place(&[("HOME", "/h"), ("TTMEM_HOME", "/t")]), Some(PathBuf::from("/t/config.toml")));
    assert_eq!(place(&[("TTMEM_CONFIG", ""), ("TTMEM_HOME", "/t")]), Some(PathBuf::from("/t/config.toml")));
    assert_eq!(place(&[("TTMEM_CONFIG", "x.toml"), ("HOME", "/h")]), Some(PathBuf::from("x.toml")));
    let settings = Settings::of(environment(&[("TTMEM_HOME", "/nonexistent")]));
    assert!(!settings.exists && settings.problems.is_empty() && !settings.enable_memory_profiling.value);
}

#[test]
fn a_tilde_in_the_file_is_the_home() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("c.toml");
    for (written, read) in [("~/p", "/h/p"), ("~", "/h"), ("~me/p", "~me/p"), ("a/~", "a/~")] {
        fs::write(&file, format!("[ttmem]\noutput_dir = '{written}'\n")).unwrap();
        let settings = Settings::of(environment(&[("TTMEM_CONFIG", file.to_str().unwrap()), ("HOME", "/h")]));
        assert_eq!(settings.output_dir.value, read);
    }
}

#[test]
fn a_change_stands_where_it_belongs() {
    for (before, after) in [
        ("", "[[backend]]\nenable_memory_profiling = true\n"),
        ("host = 1", "host = 1\n\n[[backend]]\nenable_memory_profiling = true\n"),
        ("# only words\n", "# only words\n\n[[backend]]\nenable_memory_profiling = true\n"),
        (
            "[[backend]]\n# why\nenable_memory_profiling = false  # for now\nname = 'a'\n",
            "[[backend]]\n# why\nenable_memory_profiling = true  # for now\nname = 'a'\n",
        ),
        (
            "[[backend]]\nname = 'a' # first\n\n# the second\n[[backend]]\nname = 'b'\n",
            "[[backend]]\nname = 'a' # first\nenable_memory_profiling = true\n\n# the second\n[[backend]]\nname = 'b'\n\
             enable_memory_profiling = true\n",
        ),
        ("backend = [{ a = 1 }] # x\n", "backend = [{ a = 1 , enable_memory_profiling = true }] # x\n"),
        ("[backend]\r\na = 1\r\n", "[backend]\r\na = 1\r\nenable_memory_profiling = true\r\n"),
        (
            "\u{feff}[[backend]]\nenable_memory_profiling = 'no'\n",
            "\u{feff}[[backend]]\nenable_memory_profiling = true\n",
        ),
    ] {
        assert_eq!(switched(before, true), after);
    }
    let change = Change { interval: Some(1.0), level: Some("phases".into()), ..Change::default() };
    let changed = change.apply("[ttmem] # ours\nlevel = 'tensors' # all\n", Path::new("x")).unwrap();
    assert_eq!(changed, "[ttmem] # ours\nlevel = \"phases\" # all\ninterval = 1.0\n");
    assert_eq!(change.apply("", Path::new("x")).unwrap(), "[ttmem]\ninterval = 1.0\nlevel = \"phases\"\n");
}

#[test]
fn what_has_no_place_for_a_setting_is_left_as_it_is() {
    for text in ["backend = 3\n", "backend = []\n", "backend = [1]\n"] {
        let change = Change { enable_memory_profiling: Some(true), ..Change::default() };
        let said = change.apply(text, Path::new("server.toml")).unwrap_err().to_string();
        assert!(said.contains("server.toml: backend exists but is not a table"), "{said}");
    }
}

/// A line of a configuration of somebody else, valid in any table under any number.
fn line(number: usize, kind: usize) -> String {
    match kind {
        0 => format!("# a comment, {number}"),
        1 => String::new(),
        2 => format!("  key{number}   =  0x{number:X}   # kept as it is"),
        3 => format!("\"key {number}\" = 'a\\b'"),
        4 => format!("key{number} = [ 1,2 , 3, ] \t"),
        5 => format!("key{number} = {{ a=1, b = {{}} }}"),
        6 => format!("key{number}.sub = 1979-05-27T07:32:00Z"),
        7 => format!("key{number} = \"\"\"\n many\n   lines\"\"\""),
        8 => format!("[table{number}]"),
        9 => format!("[[list{number}]]"),
        10 => format!("[table{number}.a.'b c'] # deep"),
        11 => "[[backend]]".into(),
        _ => format!("[ backend.sub{number} ]"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the file is: a change says what it was to say, once more changes nothing, and taken out again
    /// everything is as it was.
    #[test]
    fn a_change_keeps_every_other_line(kinds in prop::collection::vec(0usize..13, 0..24), is_on: bool) {
        let mut has_backend = false;
        let lines: Vec<String> = kinds.iter().enumerate().filter(|(_, kind)| {
            has_backend |= **kind == 11;
            **kind < 12 || has_backend
        }).map(|(number, kind)| line(number, *kind)).collect();
        let text = lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect::<String>();
        let changed = switched(&text, is_on);
        prop_assert_eq!(parsed(&changed).enable_memory_profiling, Some(is_on), "{}", changed);
        prop_assert_eq!(&switched(&changed, is_on), &changed);
        let back = switched(&switched(&changed, !is_on), is_on);
        prop_assert_eq!(&back, &changed);
        let added = format!("enable_memory_profiling = {is_on}");
        let mut kept: Vec<&str> = changed.lines().filter(|line| *line != added).collect();
        if !has_backend {
            prop_assert_eq!(kept.pop(), Some("[[backend]]"));
            if !text.is_empty() {
                prop_assert_eq!(kept.pop(), Some(""));
            }
        }
        prop_assert_eq!(kept, text.lines().collect::<Vec<_>>());
    }

    #[test]
    fn no_text_is_too_strange(text in "(\\[\\[backend\\]\\]|\\[ttmem\\]|enable_memory_profiling|[=\n\r\\[\\]{}\"'.,#0-9a-z \u{0}-\u{ff}]){0,40}") {
        let path = Path::new("x");
        let change = Change { enable_memory_profiling: Some(true), interval: Some(1.0), ..Change::default() };
        if Config::parse(&text, path).is_ok()
            && let Ok(changed) = change.apply(&text, path)
        {
            let config = parsed(&changed);
            prop_assert_eq!(config.enable_memory_profiling, Some(true), "{:?}", changed);
            prop_assert_eq!(config.interval, Some(1.0));
        }
    }
}
