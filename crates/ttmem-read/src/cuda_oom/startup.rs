//! What servers and training programs report about their memory before an error: vLLM, SGLang and slime. Settings that
//! affect memory are collected from the same lines.

use memchr::memmem;
use ttmem_model::Amount;

use super::advice::VARIABLES;
use super::amount::{after, bare_amount, leading_size, size_after};

/// A part of the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    /// As in `ttmem_model::ReportedPart`.
    pub name: &'static str,
    pub label: Option<String>,
    pub amount: Amount,
}

/// A setting: its name and its value.
pub(super) type Setting = (&'static str, String);

/// The parts that a line reports.
pub(super) fn parts(line: &[u8]) -> Vec<Part> {
    let part = |name, amount: Option<Amount>| amount.map(|amount| Part { name, label: None, amount });
    if let Some(text) = after(line, "model weights take ") {
        // vLLM up to 0.8, in one line or in several.
        let found = [
            part("weights", leading_size(text)),
            part("non_torch", size_after(text, "non_torch_memory takes ")),
            part("activations", size_after(text, "PyTorch activation peak memory takes ")),
            part("kv_cache", size_after(text, "the rest of the memory reserved for KV Cache is ")),
        ];
        return found.into_iter().flatten().collect();
    }
    if let Some(text) = after(line, "KV Cache is allocated. #tokens: ") {
        return part("kv_cache", sglang_cache(text)).into_iter().collect();
    }
    if let Some(text) = after(line, "Memory-Usage ") {
        return slime(text).into_iter().collect();
    }
    let found = [
        part("weights", size_after(line, "Model loading took ")),
        part("weights", size_after(line, "Loading model weights took ")),
        part("weights", in_order(line, &["Load weight end.", "mem usage="])),
        part("weights", in_order(line, &["load_weight_end.", "mem usage="])),
        part("kv_cache", size_after(line, "Available KV cache memory: ")),
        part("cuda_graphs", in_order(line, &["Graph capturing finished in ", " secs, took "])),
        part("cuda_graphs", in_order(line, &["Capture cuda graph end.", "mem usage="])),
        part("cuda_graphs", in_order(line, &["CUDA graph end.", "mem usage="])),
        part(
            "budget",
            in_order(line, &["the current vLLM instance can use ", "gpu_memory_utilization (", ") = "]),
        ),
    ];
    found.into_iter().flatten().take(1).collect()
}

/// The size after the last of several phrases that follow each other.
fn in_order(line: &[u8], phrases: &[&str]) -> Option<Amount> {
    let rest = phrases.iter().try_fold(line, |text, phrase| after(text, phrase))?;
    leading_size(rest)
}

/// `46611, K size: 1.42 GB, V size: 1.42 GB`, or `…, KV size: 2.84 GB`.
fn sglang_cache(text: &[u8]) -> Option<Amount> {
    let both = size_after(text, "KV size: ");
    both.or_else(|| Some(size_after(text, "K size: ")?.plus(size_after(text, "V size: ")?)))
}

/// `after rollout: {'gpu': '0', 'total_GB': 139.81, 'free_GB': 12.5, 'used_GB': 127.31, …}`.
fn slime(text: &[u8]) -> Option<Part> {
    const DIGITS: u32 = 2;
    let open = memmem::find(text, b": {")?;
    let value = |name: &str| {
        let rest = after(&text[open..], &format!("'{name}': "))?;
        let (amount, length) = bare_amount(rest, DIGITS, 30)?;
        // A number at the end of the text may lack digits.
        matches!(rest.get(length), Some(b',' | b'}')).then_some(amount)
    };
    let amount = value("used_GB")?;
    let label = String::from_utf8_lossy(&text[..open]).into_owned();
    Some(Part { name: "device_used", label: Some(label).filter(|label| label.len() < 80), amount })
}

/// The settings of vLLM and SGLang, as they are named in their outputs and on the command line.
const FRACTIONS: [(&str, &str); 4] = [
    ("gpu_memory_utilization", "gpu_memory_utilization"),
    ("gpu-memory-utilization", "gpu_memory_utilization"),
    ("mem_fraction_static", "mem_fraction_static"),
    ("mem-fraction-static", "mem_fraction_static"),
];

/// The settings that a line states. A line that recommends a setting states none.
pub(super) fn settings(line: &[u8]) -> Vec<Setting> {
    let mut found: Vec<Setting> = Vec::new();
    if !is_advice(line) {
        found.extend(VARIABLES.iter().find_map(|name| Some((*name, variable(line, name)?))));
    }
    found.extend(FRACTIONS.iter().find_map(|(word, name)| Some((*name, fraction(after(line, word)?)?))));
    found
}

/// Whether a line tells someone to set a variable.
fn is_advice(line: &[u8]) -> bool {
    const WORDS: [&[u8]; 13] = [
        b"try ",
        b"setting",
        b"consider",
        b"recommend",
        b"please",
        b"should",
        b"you can",
        b"hint",
        b"to avoid",
        b"to reduce",
        b"to prevent",
        b"may help",
        b"might help",
    ];
    let line = line.to_ascii_lowercase();
    WORDS.iter().any(|word| memmem::find(&line, word).is_some())
}

/// The server that prints a line with a part of its memory.
pub(super) fn server(line: &[u8]) -> Option<&'static str> {
    const OF_VLLM: [&[u8]; 5] = [
        b"model weights take ",
        b"Model loading took ",
        b"Loading model weights took ",
        b"Available KV cache memory: ",
        b"Graph capturing finished in ",
    ];
    const OF_SGLANG: [&[u8]; 4] = [
        b"KV Cache is allocated. #tokens: ",
        b"Load weight end.",
        b"load_weight_end.",
        b"mem_fraction_static",
    ];
    let has = |words: &[&[u8]]| words.iter().any(|word| memmem::find(line, word).is_some());
    if has(&OF_SGLANG) {
        Some("sglang")
    } else if has(&OF_VLLM) {
        Some("vllm")
    } else {
        None
    }
}

/// The value of a variable: `NAME=value`, `'NAME': 'value'`.
fn variable(line: &[u8], name: &str) -> Option<String> {
    let at = memmem::find(line, name.as_bytes())?;
    let is_whole = at.checked_sub(1).is_none_or(|before| !matches!(line[before], b'_' | b'A'..=b'Z' | b'`'));
    let rest = &line[at + name.len()..];
    let rest = rest.strip_prefix(b"'").or_else(|| rest.strip_prefix(b"\"")).unwrap_or(rest);
    let value = rest.strip_prefix(b"=").or_else(|| rest.strip_prefix(b": "))?;
    let quote = value.first().copied().filter(|byte| matches!(byte, b'\'' | b'"'));
    let value = if quote.is_some() { &value[1..] } else { value };
    let is_end = |byte: &u8| {
        quote.map_or(byte.is_ascii_whitespace() || matches!(byte, b'\'' | b'"' | b'}' | b')'), |quote| {
            *byte == quote
        })
    };
    let end = value.iter().position(is_end).unwrap_or(value.len());
    let value = value[..end].strip_suffix(b",").unwrap_or(&value[..end]);
    let is_value = !value.is_empty() && value.len() < 200 && memchr::memchr(b':', value).is_some();
    (is_whole && is_value).then(|| String::from_utf8_lossy(value).into_owned())
}

/// A number between 0 and 1 after the name of a setting: `=0.9`, `': 0.9`, ` (0.90)`, ` 0.9`.
fn fraction(text: &[u8]) -> Option<String> {
    let skip = text
        .iter()
        .take(4)
        .take_while(|byte| matches!(byte, b'=' | b'\'' | b'"' | b':' | b' ' | b'('))
        .count();
    let value = &text[skip..];
    let length = value.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
    let value = std::str::from_utf8(&value[..length]).ok()?.trim_end_matches('.');
    let number: f64 = value.parse().ok()?;
    (skip > 0 && number > 0.0 && number <= 1.0 && value.contains('.')).then(|| value.to_owned())
}

/// A line that may have a part or a setting, so that most lines need no further work.
pub(super) fn is_hinted(line: &[u8]) -> bool {
    const HINTS: [&[u8]; 10] = [
        b"weight",
        b"loading took",
        b"KV ",
        b"emory-Usage",
        b"raph",
        b"ALLOC_CONF",
        b"memory_utilization",
        b"memory-utilization",
        b"mem_fraction",
        b"mem-fraction",
    ];
    HINTS.iter().any(|hint| memmem::find(line, hint).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Vec<(&'static str, u64)> {
        assert!(is_hinted(line.as_bytes()), "{line}");
        parts(line.as_bytes()).into_iter().map(|part| (part.name, part.amount.bytes >> 20)).collect()
    }

    #[test]
    fn servers_report_parts() {
        assert_eq!(of("Model loading took 14.9888 GiB and 13.204526 seconds"), [("weights", 15_348)]);
        assert_eq!(of("Loading model weights took 8.5107 GB"), [("weights", 8714)]);
        assert_eq!(of("Available KV cache memory: 12.15 GiB"), [("kv_cache", 12_441)]);
        assert_eq!(of("Graph capturing finished in 18 secs, took 0.96 GiB"), [("cuda_graphs", 983)]);
        assert_eq!(of("Graph capturing finished in 1 secs."), []);
        assert_eq!(
            of(
                "model weights take 15.63GiB; non_torch_memory takes 0.81GiB; PyTorch activation peak memory takes 3.52GiB; the rest of the memory reserved for KV Cache is 11.57GiB."
            ),
            [("weights", 16_005), ("non_torch", 829), ("activations", 3604), ("kv_cache", 11_847)]
        );
        assert_eq!(
            of("model weights take 6.59GiB; the rest of the memory reserved for KV Cache is -7.83GiB."),
            [("weights", 6748)]
        );
        assert_eq!(
            of(
                "the current vLLM instance can use total_gpu_memory (79.11GiB) x gpu_memory_utilization (0.90) = 71.20GiB"
            ),
            [("budget", 72_908)]
        );
        assert_eq!(
            of(
                "Load weight end. type=Qwen2ForCausalLM, dtype=torch.bfloat16, avail mem=6.09 GB, mem usage=15.54 GB."
            ),
            [("weights", 15_912)]
        );
        assert_eq!(
            of("KV Cache is allocated. #tokens: 46611, K size: 1.42 GB, V size: 1.42 GB"),
            [("kv_cache", 2908)]
        );
        assert_eq!(
            of("Capture cuda graph end. Time elapsed: 7.23 s. avail mem=0.53 GB. mem usage=0.93 GB."),
            [("cuda_graphs", 952)]
        );
        let slime = "Memory-Usage after rollout: {'gpu': '0', 'total_GB': 139.81, 'free_GB': 12.5, 'used_GB': 127.31, 'allocated_GB': 1.0}";
        assert_eq!(of(slime), [("device_used", 130_365)]);
        assert_eq!(parts(slime.as_bytes())[0].label.as_deref(), Some("after rollout"));
        assert_eq!(of(&slime[..slime.find("7.31").unwrap()]), []);
    }

    #[test]
    fn settings_are_stated_not_recommended() {
        let of = |line: &str| settings(line.as_bytes());
        let set = |name, value: &str| vec![(name, value.to_owned())];
        let value = "expandable_segments:True";
        assert_eq!(of(&format!("PYTORCH_CUDA_ALLOC_CONF={value}")), set(VARIABLES[0], value));
        assert_eq!(
            of(&format!("export PYTORCH_ALLOC_CONF={value},max_split_size_mb:128")),
            set(VARIABLES[1], "expandable_segments:True,max_split_size_mb:128")
        );
        assert_eq!(
            of(&format!("env: {{'A': 'b', 'PYTORCH_CUDA_ALLOC_CONF': '{value}', 'C': 'd'}}")),
            set(VARIABLES[0], value)
        );
        assert_eq!(
            of("memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid"),
            []
        );
        assert_eq!(of("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See"), []);
        assert_eq!(of("See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF"), []);
        assert_eq!(of("args: {'gpu_memory_utilization': 0.95}"), set("gpu_memory_utilization", "0.95"));
        assert_eq!(
            of("vllm serve x --gpu-memory-utilization 0.9 --port 1"),
            set("gpu_memory_utilization", "0.9")
        );
        assert_eq!(of("ServerArgs(mem_fraction_static=0.88, x=1)"), set("mem_fraction_static", "0.88"));
        assert_eq!(of("Try increasing `gpu_memory_utilization` when initializing"), []);
    }
}
