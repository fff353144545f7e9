//! Describes JSON by its first bytes, for errors about files of unknown formats.

use super::{Json, JsonError, Parsed, without_mark};

/// JSON formats that users may mistake for supported inputs, by their keys.
const KNOWN: [(&[&str], &str); 10] = [
    (&["result", "mlir_op"], "the operations of a report; pass its folder or its _memory.json file"),
    (&["metadata", "entries"], "the inputs of a report; pass its folder or its _memory.json file"),
    (&["ttir", "ttnn"], "the IR of a report; pass its folder or its _memory.json file"),
    (
        &["traceEvents"],
        "a Chrome or PyTorch profiler trace; record a memory snapshot instead (_record_memory_history)",
    ),
    (&["segments", "device_traces"], "a PyTorch memory snapshot"),
    (&["nbformat"], "a notebook"),
    (&["lockfileVersion"], "an npm lock file"),
    (&["operation_name"], "operations and their arguments, without memory"),
    (&["architectures"], "a model configuration"),
    (&["weight_map"], "a model's weight index"),
];

/// Describes the JSON document that begins with `head`; `None` if it is not JSON, or if the JSON is only one line of
/// another text.
pub(crate) fn describe(head: &[u8]) -> Option<String> {
    let mut json = Json::new(head);
    let is_list = json.accept(b'[').ok()?;
    if is_list && json.accept(b']').ok()? {
        return is_over(&mut json).then(|| "JSON: an empty list".into());
    }
    let (keys, is_whole) = keys_of(&mut json)?;
    // A list may continue; an object followed by other text is a log line.
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
        format!("JSON: {a} without keys")
    } else {
        format!("JSON: {a} with {}", shown.join(", "))
    })
}

/// The keys of the object that begins with `head`; `None` if it is not an object.
pub(crate) fn keys(head: &[u8]) -> Option<Vec<String>> {
    // This runs for every log, and is cheaper than starting the parser.
    if !without_mark(head).trim_ascii_start().starts_with(b"{") {
        return None;
    }
    keys_of(&mut Json::new(head)).map(|(keys, _)| keys)
}

fn is_over(json: &mut Json<&[u8]>) -> bool {
    matches!(json.peek(), Ok(None))
}

/// The keys of an object within the given bytes, and whether the object ends there; `None` if it is not an object.
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
        // Whatever the value is, the key before it was read.
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
            "JSON: a Chrome or PyTorch profiler trace; record a memory snapshot instead (_record_memory_history)"
        );
        assert_eq!(
            said(r#"{"name": "x", "version": "1""#).unwrap(),
            r#"JSON: an object with "name", "version""#
        );
        for part in [r#"[{"result": "%0", "mlir_op": "ttnn.add"}]"#, r#"{"metadata": {}, "entries": ["#] {
            assert!(said(part).unwrap().ends_with("of a report; pass its folder or its _memory.json file"));
        }
        assert_eq!(said(r#"[{"id": 1}]"#).unwrap(), r#"JSON: a list of objects with "id""#);
        assert_eq!(said("{}").unwrap(), "JSON: an object without keys");
        assert_eq!(said("[]").unwrap(), "JSON: an empty list");
        // A line of JSON in a log, a tagged line, and text that only starts like JSON.
        assert_eq!(said("{\"epoch\": 1}\nMODEL_CREATION"), None);
        assert_eq!(said("{EngineCore} ready"), None);
        assert_eq!(said("[1,0]<stdout>: text"), None);
        assert_eq!(said("plain text"), None);
    }
}
