//! Descriptions of JSON by its first bytes, for messages about files that no reader knows.

use super::{Json, JsonError, Parsed, without_mark};

/// JSON that people may take for evidence, by its keys.
const KNOWN: [(&[&str], &str); 7] = [
    (&["traceEvents"], "a Chrome or PyTorch profiler trace"),
    (&["segments", "device_traces"], "a PyTorch memory snapshot"),
    (&["nbformat"], "a notebook"),
    (&["lockfileVersion"], "a lock file of npm"),
    (&["operation_name"], "operations and their arguments, without memory"),
    (&["architectures"], "the configuration of a model"),
    (&["weight_map"], "the index of a model's weights"),
];

/// Describes a JSON document of which `head` are the first bytes; `None` where it is not JSON, or a line of JSON in some
/// other text.
pub(crate) fn describe(head: &[u8]) -> Option<String> {
    let mut json = Json::new(head);
    let is_list = json.accept(b'[').ok()?;
    if is_list && json.accept(b']').ok()? {
        return is_over(&mut json).then(|| "JSON: a list without elements".into());
    }
    let (keys, is_whole) = keys_of(&mut json)?;
    // A list may go on; an object that something follows is a line of a log.
    if !is_list && is_whole && !is_over(&mut json) {
        return None;
    }
    let a = if is_list { "a list of objects" } else { "an object" };
    let has = |sign: &&str| keys.iter().any(|key| key == sign);
    if let Some((_, what)) = KNOWN.iter().find(|(signs, _)| signs.iter().all(has)) {
        return Some(format!("JSON: {what}"));
    }
    let shown: Vec<String> = keys.iter().take(4).map(|key| format!("{key:?}")).collect();
    Some(if shown.is_empty() {
        format!("JSON: {a} without entries")
    } else {
        format!("JSON: {a} with {}", shown.join(", "))
    })
}

/// The keys of an object of which `head` are the first bytes; `None` where it is not an object.
pub(crate) fn keys(head: &[u8]) -> Option<Vec<String>> {
    // Asked of every log, and cheaper than to begin to read.
    if !without_mark(head).trim_ascii_start().starts_with(b"{") {
        return None;
    }
    keys_of(&mut Json::new(head)).map(|(keys, _)| keys)
}

fn is_over(json: &mut Json<&[u8]>) -> bool {
    matches!(json.peek(), Ok(None))
}

/// The keys of an object as far as the bytes go, and whether it ends there; `None` where it is not an object.
fn keys_of(json: &mut Json<&[u8]>) -> Option<(Vec<String>, bool)> {
    let mut keys = Vec::new();
    let mut is_in_value = false;
    let walked: Parsed<bool> = json.object(|json, key| {
        keys.push(key);
        is_in_value = true;
        json.skip()?;
        is_in_value = false;
        Ok(())
    });
    match walked {
        Ok(is_object) => is_object.then_some((keys, true)),
        Err(JsonError::Truncated) => Some((keys, false)),
        // Whatever a value is, there was a key before it.
        Err(_) => is_in_value.then_some((keys, false)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_of_somebody_else_is_known_by_its_keys() {
        let said = |text: &str| describe(text.as_bytes());
        assert_eq!(
            said(r#"{"schemaVersion": 1, "traceEvents": [{"#).unwrap(),
            "JSON: a Chrome or PyTorch profiler trace"
        );
        assert_eq!(
            said(r#"{"name": "x", "version": "1""#).unwrap(),
            r#"JSON: an object with "name", "version""#
        );
        assert_eq!(said(r#"[{"id": 1}]"#).unwrap(), r#"JSON: a list of objects with "id""#);
        assert_eq!(said("{}").unwrap(), "JSON: an object without entries");
        assert_eq!(said("[]").unwrap(), "JSON: a list without elements");
        // A line of JSON in a log, a tagged line, and what only begins so.
        assert_eq!(said("{\"epoch\": 1}\nMODEL_CREATION"), None);
        assert_eq!(said("{EngineCore} ready"), None);
        assert_eq!(said("[1,0]<stdout>: text"), None);
        assert_eq!(said("plain text"), None);
    }
}
