//! Errors of vLLM and SGLang that start with too little memory for their KV cache.
//!
//! ```text
//! vLLM    No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.
//!         The model's max seq len (N) is larger than the maximum number of tokens that can be stored in KV cache (N).
//!         To serve at least one request with the models's max seq len (N), (X GiB KV cache is needed, which is larger than
//!         the available KV cache memory (X GiB). [Based on the available memory, the estimated maximum model length is N. ]
//! SGLang  Not enough memory. Please try to increase --mem-fraction-static.
//! ```

use memchr::memmem;

use super::amount::Cursor;
use super::found::Found;
use super::startup::Part;

/// What failed to allocate.
pub(super) const KV_CACHE: &str = "kv_cache";

/// Messages that state nothing but the failure, and the words that usually follow them.
const WITHOUT_NUMBERS: [(&str, &str); 2] = [
    (
        "No available memory for the cache blocks.",
        " Try increasing `gpu_memory_utilization` when initializing the engine.",
    ),
    ("Not enough memory. Please try to increase --mem-fraction-static", "."),
];

/// Finds an error in a line.
pub(super) fn find(line: &[u8]) -> Option<Found> {
    one_request(line).or_else(|| tokens(line)).or_else(|| without_numbers(line))
}

/// The server that prints a message.
pub(super) fn server(found: &Found) -> Option<&'static str> {
    match found.source {
        KV_CACHE if found.message.starts_with("Not enough memory.") => Some("sglang"),
        KV_CACHE | "vllm" => Some("vllm"),
        _ => None,
    }
}

fn without_numbers(line: &[u8]) -> Option<Found> {
    let of = |(words, further): &(&str, &str)| {
        let start = memmem::find(line, words.as_bytes())?;
        let rest = &line[start + words.len()..];
        let length = words.len() + if rest.starts_with(further.as_bytes()) { further.len() } else { 0 };
        Some(Found::new(KV_CACHE, "cuda", start).with_message(&line[start..start + length]))
    };
    WITHOUT_NUMBERS.iter().find_map(of)
}

/// A message of vLLM until 0.8, in tokens.
fn tokens(line: &[u8]) -> Option<Found> {
    const START: &str = "The model's max seq len (";
    let start = memmem::find(line, START.as_bytes())?;
    let mut cursor = Cursor::new(&line[start..]);
    let mut found = Found::new(KV_CACHE, "cuda", start);
    cursor.eat(START);
    let read = |cursor: &mut Cursor<'_>, found: &mut Found| {
        found.tokens[0] = Some(cursor.number()?);
        cursor
            .eat(") is larger than the maximum number of tokens that can be stored in KV cache (")
            .then_some(())?;
        let possible = cursor.number()?;
        found.tokens[1] = cursor.eat(")").then_some(possible);
        found.tokens[1].map(drop)
    };
    found.is_complete = read(&mut cursor, &mut found).is_some();
    Some(found.ending(&cursor, line)).filter(|found| found.is_complete || found.may_go_on)
}

/// A message of vLLM since 0.8, in bytes.
fn one_request(line: &[u8]) -> Option<Found> {
    const START: &str = "To serve at least one request with the model";
    let start = memmem::find(line, START.as_bytes())?;
    let mut cursor = Cursor::new(&line[start..]);
    let mut found = Found::new(KV_CACHE, "cuda", start);
    cursor.eat(START);
    found.is_complete = needed_and_available(&mut cursor, &mut found).is_some();
    if found.is_complete {
        let mut ahead = cursor.clone();
        let is_estimated =
            ahead.eat(" Based on the available memory, the estimated maximum model length is ");
        if let Some(possible) = is_estimated.then(|| ahead.number()).flatten().filter(|_| ahead.eat(".")) {
            found.tokens[1] = Some(possible);
            cursor = ahead;
        } else if ahead.is_cut {
            // The estimate may be in the next line.
            let found = found.ending(&cursor, line);
            return Some(Found { may_go_on: true, ..found });
        }
    }
    Some(found.ending(&cursor, line)).filter(|found| found.is_complete || found.may_go_on)
}

fn needed_and_available(cursor: &mut Cursor<'_>, found: &mut Found) -> Option<()> {
    cursor.eat_any(&["s's max seq len (", "'s max seq len ("])?;
    found.tokens[0] = Some(cursor.number()?);
    cursor.eat_any(&["), (", "), "])?;
    let needed = cursor.size()?;
    cursor.eat(" KV cache is needed, which is larger than the available KV cache memory (").then_some(())?;
    found.numbers.requested = Some(needed);
    let amount = cursor.size()?;
    cursor.eat(").").then_some(())?;
    found.parts.push(Part { name: KV_CACHE, label: None, amount });
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wordings_of_all_versions() {
        let of = |text: &str| {
            let found = find(text.as_bytes()).unwrap_or_else(|| panic!("{text}"));
            let mib = |amount: ttmem_model::Amount| amount.bytes >> 20;
            (found.tokens, found.numbers.requested.map(mib), found.parts.first().map(|part| mib(part.amount)))
        };
        for (text, tokens) in [
            (
                "To serve at least one request with the models's max seq len (40960), (10.00 GiB KV cache is needed, which is larger than the available KV cache memory (1.25 GiB). Based on the available memory,  Try increasing `gpu_memory_utilization` or decreasing",
                [Some(40_960), None],
            ),
            (
                "To serve at least one request with the model's max seq len (40960), 10.0 GiB KV cache is needed, which is larger than the available KV cache memory (1.25 GiB). Based on the available memory, the estimated maximum model length is 5120. Try",
                [Some(40_960), Some(5120)],
            ),
        ] {
            assert_eq!(of(text), (tokens, Some(10_240), Some(1280)), "{text}");
        }
        let text = "ValueError: The model's max seq len (4096) is larger than the maximum number of tokens that can be stored in KV cache (3664). Try increasing";
        assert_eq!(of(text), ([Some(4096), Some(3664)], None, None));
        for (text, name) in [
            ("No available memory for the cache blocks. Try increasing", "vllm"),
            ("Not enough memory. Please try to increase --mem-fraction-static.", "sglang"),
        ] {
            assert_eq!(of(text), ([None, None], None, None));
            assert_eq!(find(text.as_bytes()).as_ref().and_then(server), Some(name));
        }
        assert_eq!(find(b"To serve at least one request with the model, buy a GPU"), None);
    }
}
