//! The rank or process that wrote a line, from what torchrun, vLLM, Ray, SGLang, srun and MPI put in front of it.

use memchr::memmem;

use crate::wrapping::{split_tag, without_prefix};

/// Who wrote a line.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Label {
    /// The name to show: `3`, `TP1`, `EngineCore_DP0`; empty if the line has no label.
    pub name: String,
    /// Whether it names a rank. Other processes repeat the errors of ranks.
    pub is_rank: bool,
    /// Whether only the first line of a record has the label.
    pub is_of_record: bool,
    pub source: Source,
}

/// What a label says in addition to its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Source {
    #[default]
    Other,
    /// A process of vLLM.
    Vllm,
    /// A machine or a container. A rank says more.
    Host,
}

/// A line without its prefixes.
#[derive(Debug)]
pub(super) struct Labeled<'a> {
    pub label: Label,
    /// The text, with its indentation as far as possible.
    pub text: &'a [u8],
    /// Whether a logger or a launcher wrote something in front of it.
    pub has_prefix: bool,
    /// Whether pytest marked the line as an error.
    pub is_pytest: bool,
}

/// Removes the prefixes of a line.
pub(super) fn split(line: &[u8]) -> Labeled<'_> {
    const MAX_PREFIXES: usize = 8;
    let (tag, mut text) = split_tag(line);
    let name = tag.map_or_else(String::new, |tag| String::from_utf8_lossy(&tag.label()).into_owned());
    let mut label = Label { is_rank: !name.is_empty(), name, ..Label::default() };
    let mut is_pytest = false;
    for _ in 0..MAX_PREFIXES {
        text = without_bare_color(text);
        if let Some((found, rest)) = labeled(text) {
            // The launcher's own number says more than the name of a process.
            if (!label.is_rank || label.source == Source::Host)
                && (!found.name.is_empty() || found.is_of_record)
            {
                label = found;
            }
            text = rest;
        } else if let Some(rest) = native_logger(text).or_else(|| without_prefix(text)) {
            is_pytest |= text.starts_with(b"E   ");
            text = rest;
        } else {
            break;
        }
    }
    Labeled { label, text, has_prefix: text.len() < line.len(), is_pytest }
}

/// Removes a color without its escape character, as in text that was copied from a browser: `[36m`.
fn without_bare_color(text: &[u8]) -> &[u8] {
    let Some(rest) = text.strip_prefix(b"[") else { return text };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b';').count();
    rest[digits..].strip_prefix(b"m").filter(|_| digits > 0).unwrap_or(text)
}

/// One label, and the text after it.
fn labeled(line: &[u8]) -> Option<(Label, &[u8])> {
    match line.first()? {
        b'[' => bracketed(line),
        b'(' => in_parentheses(line),
        b'0'..=b'9' => of_srun(line),
        b'a'..=b'z' => of_host(line),
        _ => None,
    }
}

/// `[rank3]:`, `[default3]:` or `[2025-03-08 12:29:21 TP2] `.
fn bracketed(line: &[u8]) -> Option<(Label, &[u8])> {
    let close = memchr::memchr(b']', &line[..line.len().min(64)])?;
    let (inside, rest) = (&line[1..close], &line[close + 1..]);
    let number = [&b"rank"[..], b"default"].iter().find_map(|word| inside.strip_prefix(*word));
    if let Some(number) = number.filter(|number| !number.is_empty() && number.iter().all(u8::is_ascii_digit))
    {
        let rest = rest.strip_prefix(b":")?;
        return Some((rank(number), rest.strip_prefix(b" ").unwrap_or(rest)));
    }
    let is_time = inside.len() >= 19
        && inside[..19].iter().zip(b"0000-00-00 00:00:00").all(|(byte, like)| match like {
            b'0' => byte.is_ascii_digit(),
            other => byte == other,
        });
    let rest = rest.strip_prefix(b" ").filter(|_| is_time)?;
    let names = inside[19..].trim_ascii();
    let is_name = |word: &[u8]| {
        word.iter().all(u8::is_ascii_alphanumeric) && word.last().is_some_and(u8::is_ascii_digit)
    };
    let is_rank = !names.is_empty() && names.split(|byte| *byte == b' ').all(is_name);
    let label = if is_rank { rank(names) } else { Label::default() };
    Some((Label { is_of_record: true, ..label }, rest))
}

fn rank(name: &[u8]) -> Label {
    Label { name: String::from_utf8_lossy(name).into_owned(), is_rank: true, ..Label::default() }
}

/// `(Worker_TP1 pid=123) `, `(VllmWorker rank=1 pid=254) `, `(RayWorkerWrapper pid=39, ip=10.0.0.1) `.
fn in_parentheses(line: &[u8]) -> Option<(Label, &[u8])> {
    let close = memchr::memchr(b')', &line[..line.len().min(120)])?;
    let (inside, rest) = (&line[1..close], &line[close + 1..]);
    let pid = &inside[memmem::find(inside, b"pid=")? + 4..];
    let rest = without_bare_color(rest);
    let rest = if rest.is_empty() { rest } else { rest.strip_prefix(b" ")? };
    let of_vllm = |label| Label { source: Source::Vllm, ..label };
    let name = inside.split(|byte| *byte == b' ').next().unwrap_or_default();
    if let Some(at) = memmem::find(inside, b"rank=") {
        let digits = inside[at + 5..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let source = if name.starts_with(b"VllmWorker") { Source::Vllm } else { Source::Other };
        return Some((Label { source, ..rank(&inside[at + 5..at + 5 + digits]) }, rest));
    }
    if let Some(of_worker) = name.strip_prefix(b"Worker_").filter(|name| !name.is_empty()) {
        return Some((of_vllm(rank(of_worker)), rest));
    }
    if SERVER_PROCESSES.iter().any(|process| name.starts_with(process)) {
        return Some((of_vllm(Label { is_rank: false, ..rank(name) }), rest));
    }
    let is_of_vllm = name.starts_with(b"RayWorkerWrapper") || name.starts_with(b"VllmWorker");
    let source = if is_of_vllm { Source::Vllm } else { Source::Other };
    Some((Label { source, ..rank(&ray_worker(pid)) }, rest))
}

/// The processes of vLLM that are not workers and repeat the errors of workers.
const SERVER_PROCESSES: [&[u8]; 4] = [b"EngineCore", b"APIServer", b"ApiServer", b"DPCoordinator"];

/// `pid 39 on 10.0.0.1`. Workers of Ray have the same name and differ in their process IDs and machines; the machine of the
/// driver has no address.
fn ray_worker(pid: &[u8]) -> Vec<u8> {
    let digits = pid.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let machine = pid[digits..].strip_prefix(b", ip=").filter(|ip| !ip.is_empty());
    machine.map_or_else(
        || [b"pid ", &pid[..digits]].concat(),
        |ip| [b"pid ", &pid[..digits], b" on ", ip].concat(),
    )
}

/// `3: ` of `srun --label`.
fn of_srun(line: &[u8]) -> Option<(Label, &[u8])> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = line[digits..].strip_prefix(b": ").filter(|_| digits <= 4)?;
    Some((rank(line[..digits].trim_ascii()), rest))
}

/// `node0: ` of pdsh, and `train-worker-3  | ` of docker compose: a name that ends with a number.
fn of_host(line: &[u8]) -> Option<(Label, &[u8])> {
    const MAX_NAME: usize = 64;
    let is_part =
        |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.' | b'_');
    let length = line.iter().take(MAX_NAME).take_while(|byte| is_part(byte)).count();
    let (name, rest) = line.split_at(length);
    let behind = rest.strip_prefix(b": ").or_else(|| rest.trim_ascii_start().strip_prefix(b"| "))?;
    let label = Label { source: Source::Host, ..rank(name) };
    name.last().is_some_and(u8::is_ascii_digit).then_some((label, behind))
}

/// `[W801 09:08:57.499362929 CUDACachingAllocator.cpp:3933] ` of PyTorch's C++ code.
fn native_logger(line: &[u8]) -> Option<&[u8]> {
    let [b'[', b'E' | b'W' | b'I' | b'F', b'0'..=b'9', ..] = line else { return None };
    let close = memchr::memchr(b']', &line[..line.len().min(160)])?;
    memmem::find(&line[..close], b".cpp:")?;
    let rest = &line[close + 1..];
    Some(rest.strip_prefix(b" ").unwrap_or(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_and_servers_name_ranks() {
        for (prefix, name, is_rank) in [
            ("", "", false),
            ("[rank3]: ", "3", true),
            ("[default1]:", "1", true),
            ("[rank0]:[W801 09:08:57.499362929 CUDACachingAllocator.cpp:3933] ", "0", true),
            ("(Worker_TP1 pid=123) ERROR 10-10 12:00:00 [multiproc_executor.py:671] ", "TP1", true),
            ("(VllmWorker rank=1 pid=254) ", "1", true),
            ("(RayWorkerWrapper pid=39, ip=10.0.0.1) ", "pid 39 on 10.0.0.1", true),
            ("(train_fn pid=39) ", "pid 39", true),
            ("[36m(train_fn pid=39)[0m ", "pid 39", true),
            ("(pid=39, ip=10.0.0.1) ", "pid 39 on 10.0.0.1", true),
            ("(EngineCore_DP0 pid=7) ERROR 10-10 12:00:00 [core.py:710] ", "EngineCore_DP0", false),
            ("[2025-03-08 12:29:21 TP2] ", "TP2", true),
            ("[2025-03-08 12:29:21] ", "", false),
            ("[1,3]<stderr>:", "1,3", true),
            ("2026-01-01T12:00:00.1Z stderr F [rank5]: ", "5", true),
            ("12: ", "12", true),
            ("node0: ", "node0", true),
            ("node0: [rank3]: ", "3", true),
            ("gpu-worker-1.cluster2: ", "gpu-worker-1.cluster2", true),
            ("train-worker-3  | ", "train-worker-3", true),
        ] {
            let line = format!("{prefix}torch.OutOfMemoryError: x");
            let labeled = split(line.as_bytes());
            assert_eq!(labeled.text, b"torch.OutOfMemoryError: x", "{line}");
            assert_eq!((labeled.label.name.as_str(), labeled.label.is_rank), (name, is_rank), "{line}");
            assert_eq!(labeled.has_prefix, !prefix.is_empty(), "{line}");
        }
        assert!(split(b"E   torch.OutOfMemoryError: x").is_pytest);
    }
}
