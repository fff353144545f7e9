//! Files that earlier versions wrote open with the same answers: `corpus/ttmem/VERSION/`.
//!
//! Beside each recording or profile stands the answer of the version that wrote it, without sentences. Today's answer has
//! every value of it. It may have further keys and suggestions; other lists are neither shorter nor longer.

use std::path::{Path, PathBuf};

use serde_json::Value;
use ttmem::query::{Request, summary};
use ttmem::read;

/// Keys of sentences and paths, which may change from version to version.
const NOT_COMPARED: &[&str] =
    &["source", "headline", "detail", "advice", "message", "ended_by", "note", "not_watched"];

fn answer(file: &Path) -> Value {
    let profile = read::open(file.to_str().unwrap()).unwrap_or_else(|error| panic!("{error}"));
    let mut answer = serde_json::to_value(summary(&[profile], &Request::default()).unwrap()).unwrap();
    strip(&mut answer);
    answer
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|key, _| !NOT_COMPARED.contains(&key.as_str()));
            fields.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

/// The first value of `then` that `now` does not have.
fn difference(then: &Value, now: &Value, at: &str) -> Option<String> {
    match (then, now) {
        (Value::Object(then), Value::Object(now)) => then.iter().find_map(|(key, value)| {
            let at = format!("{at}.{key}");
            now.get(key).map_or_else(|| Some(format!("{at} is missing")), |now| difference(value, now, &at))
        }),
        // A later version may suggest more.
        (Value::Array(then), Value::Array(now)) if at.ends_with(".suggestions") => then
            .iter()
            .find(|then| now.iter().all(|now| difference(then, now, at).is_some()))
            .map(|then| format!("{at}: {then} is missing")),
        (Value::Array(then), Value::Array(now)) if then.len() == now.len() => {
            let mut pairs = then.iter().zip(now).enumerate();
            pairs.find_map(|(index, (then, now))| difference(then, now, &format!("{at}[{index}]")))
        }
        _ => (then != now).then(|| format!("{at}: was {then}, is {now}")),
    }
}

fn files() -> Vec<PathBuf> {
    let versions = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/ttmem");
    let folders =
        versions.read_dir().unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
    let files = folders.flat_map(|folder| folder.read_dir().unwrap().map(|entry| entry.unwrap().path()));
    files.filter(|file| file.extension().is_some_and(|end| end == "ttmem")).collect()
}

/// Later versions know more classes: what was unknown, or attributed to the call that happened to allocate it.
fn classes_as_now(then: &mut Value, now: &Value) {
    match (then, now) {
        (Value::Object(then), Value::Object(now)) => {
            let is_weak = then.get("class").is_some_and(|class| {
                ["unknown", "activation", "temporary"].contains(&class.as_str().unwrap_or_default())
            });
            for (key, then) in then.iter_mut() {
                let Some(now) = now.get(key) else { continue };
                let total = |classes: &Value| -> Option<u64> {
                    classes.as_object()?.values().map(Value::as_u64).sum()
                };
                match key.as_str() {
                    "by_class_per_bank" if total(then) == total(now) => *then = now.clone(),
                    // Workspaces are not memory of a module.
                    "made_in" => {
                        if let (Some(then), Some(now)) = (then.as_array_mut(), now.as_array()) {
                            then.retain(|row| now.contains(row));
                        }
                    }
                    "class" | "name" if is_weak && (key == "class" || then.is_null()) => *then = now.clone(),
                    _ => classes_as_now(then, now),
                }
            }
        }
        (Value::Array(then), Value::Array(now)) if then.len() == now.len() => {
            then.iter_mut().zip(now).for_each(|(then, now)| classes_as_now(then, now));
        }
        _ => {}
    }
}

/// Recordings are named by their present path, and freeing memory is not counted as an operation any more.
fn as_now(then: &mut Value, now: &Value, file: &Path) {
    let ranks = then["ranks"].as_array_mut().unwrap().iter_mut();
    for (then, now) in ranks.zip(now["ranks"].as_array().unwrap()) {
        if now["file"] == file.display().to_string() {
            then["file"] = now["file"].clone();
            savings_as_now(&mut then["suggestions"], &now["suggestions"]);
            // Numbers of a history were said to be those of a message.
            if now["oom"]["evidence"] == "history" {
                then["oom"]["evidence"] = "history".into();
            }
            let Some(rows) = then["distribution"].as_array_mut() else { continue };
            let frees =
                rows.iter().find(|row| row["op"] == "free").map_or(0, |row| row["count"].as_u64().unwrap());
            rows.retain(|row| row["op"] != "free");
            let reported = then["operations"]["reported"].as_u64().unwrap();
            then["operations"]["reported"] = (reported - frees).into();
        }
    }
}

/// The saving of an 8-bit optimizer did not consider the tables of the values that 8 bits stand for.
fn savings_as_now(then: &mut Value, now: &Value) {
    let is_state = |suggestion: &&Value| suggestion["rule"] == "optimizer_state";
    let Some(now) = now.as_array().and_then(|now| now.iter().find(is_state)) else { return };
    for then in then.as_array_mut().into_iter().flatten().filter(|then| is_state(&&**then)) {
        for key in ["saves_bytes", "saves_per_bank"] {
            let [before, after] = [&then[key], &now[key]].map(|bytes| bytes.as_u64().unwrap());
            assert!(after <= before && before - after < before / 100, "{before} {after}");
            then[key] = after.into();
        }
    }
}

#[test]
fn what_earlier_versions_wrote_opens_with_the_same_answers() {
    let mut checked = 0;
    for file in files() {
        let golden = file.with_extension("json");
        // The earlier files of a recording with a limit have no answer of their own.
        let Ok(then) = std::fs::read_to_string(&golden) else { continue };
        let (mut then, now): (Value, Value) = (serde_json::from_str(&then).unwrap(), answer(&file));
        as_now(&mut then, &now, &file);
        if file.file_stem().is_some_and(|name| name.to_string_lossy().starts_with("cuda_")) {
            classes_as_now(&mut then, &now);
        }
        if let Some(difference) = difference(&then, &now, "") {
            panic!("{}: {difference}", file.display());
        }
        checked += 1;
    }
    assert!(checked >= 20, "{checked}");
}

/// 0.1.0 numbered the steps of a cut-out log from a position that is not 0.
#[test]
fn a_cut_out_of_an_earlier_version_begins_after_position_0() {
    let is_cut = |file: &PathBuf| {
        let profile = read::open(file.to_str().unwrap()).unwrap();
        profile.ranks.iter().any(|rank| rank.cut_out.is_some_and(|cut_out| cut_out.first > 0))
    };
    assert!(files().iter().any(is_cut));
}

#[test]
fn a_missing_key_is_a_difference() {
    let then: Value = serde_json::json!({"a": null});
    assert_eq!(difference(&then, &serde_json::json!({}), ""), Some(".a is missing".to_owned()));
    assert_eq!(difference(&then, &serde_json::json!({"a": null, "b": 1}), ""), None);
}

/// Writes the answers of this version beside files that have none. Run once for each released version.
#[test]
#[ignore = "writes into the corpus"]
fn write_answers() {
    for file in files() {
        let golden = file.with_extension("json");
        let is_earlier_part = file.file_stem().is_some_and(|stem| stem.to_string_lossy().contains('.'));
        if !golden.exists() && !is_earlier_part {
            std::fs::write(golden, serde_json::to_string(&answer(&file)).unwrap() + "\n").unwrap();
        }
    }
}
