//! The rank or process that wrote a line, from what torchrun, vLLM, Ray, SGLang, srun and MPI put in front of it.

use memchr::memmem;
use rustc_hash::FxHashSet;

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
    /// Whether the name of a machine or a container was removed.
    has_host: bool,
}

/// The machines and containers that wrote the previous lines.
///
/// Programs print lines such as `loss2: 0.5` as well. What prints the names of machines prints them in front of every line.
#[derive(Debug, Default)]
pub(super) struct Hosts {
    known: FxHashSet<String>,
    has_lines: bool,
    is_after_host: bool,
}

/// The maximum number of machines.
const MAX_HOSTS: usize = 1 << 14;

impl Hosts {
    /// Removes the prefixes of the next line.
    pub fn split<'a>(&mut self, line: &'a [u8]) -> Labeled<'a> {
        let labeled = split(line, true);
        let is_first = !self.has_lines;
        let is_after_host = self.is_after_host;
        if !line.is_empty() {
            (self.has_lines, self.is_after_host) = (true, labeled.has_host);
        }
        let name = &labeled.label.name;
        if labeled.label.source != Source::Host || self.known.contains(name) {
            return labeled;
        }
        if !is_first && !is_after_host {
            return split(line, false);
        }
        if self.known.len() < MAX_HOSTS {
            self.known.insert(name.clone());
        }
        labeled
    }
}

/// Removes the prefixes of a line.
fn split(line: &[u8], may_have_host: bool) -> Labeled<'_> {
    const MAX_PREFIXES: usize = 8;
    let (tag, mut text) = split_tag(line);
    let name = tag.map_or_else(String::new, |tag| String::from_utf8_lossy(&tag.label()).into_owned());
    let mut label = Label { is_rank: !name.is_empty(), name, ..Label::default() };
    let (mut is_pytest, mut has_host) = (false, false);
    for _ in 0..MAX_PREFIXES {
        text = without_bare_color(text);
        if let Some((found, rest)) = labeled(text, may_have_host) {
            has_host |= found.source == Source::Host;
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
    Labeled { label, text, has_prefix: text.len() < line.len(), is_pytest, has_host }
}

/// Removes a color without its escape character, as in text that was copied from a browser: `[36m`.
fn without_bare_color(text: &[u8]) -> &[u8] {
    let Some(rest) = text.strip_prefix(b"[") else { return text };
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b';').count();
    rest[digits..].strip_prefix(b"m").filter(|_| digits > 0).unwrap_or(text)
}

/// One label, and the text after it.
fn labeled(line: &[u8], may_have_host: bool) -> Option<(Label, &[u8])> {
    match line.first()? {
        b'[' => bracketed(line),
        b'(' => in_parentheses(line),
        b'0'..=b'9' => of_srun(line),
        b'a'..=b'z' if may_have_host => of_host(line),
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
    let behind = match rest.strip_prefix(b":").or_else(|| rest.trim_ascii_start().strip_prefix(b"|"))? {
        [b' ', behind @ ..] => behind,
        // A blank line.
        [] => &[],
        _ => return None,
    };
    let is_counter = NOT_HOSTS
        .iter()
        .any(|word| name.strip_prefix(*word).is_some_and(|number| number.iter().all(u8::is_ascii_digit)));
    let number = name.strip_prefix(b"rank").filter(|number| number.iter().all(u8::is_ascii_digit));
    let label = Label { source: Source::Host, ..rank(number.unwrap_or(name)) };
    (name.last().is_some_and(u8::is_ascii_digit) && !is_counter).then_some((label, behind))
}

/// What programs count in their output.
const NOT_HOSTS: [&[u8]; 24] = [
    b"acc",
    b"attempt",
    b"batch",
    b"case",
    b"chunk",
    b"cuda",
    b"epoch",
    b"exp",
    b"fold",
    b"iter",
    b"iteration",
    b"layer",
    b"loss",
    b"phase",
    b"prompt",
    b"request",
    b"round",
    b"run",
    b"sample",
    b"stage",
    b"step",
    b"test",
    b"top",
    b"trial",
];

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
            ("gpu07: ", "gpu07", true),
            ("rank3: ", "3", true),
        ] {
            let line = format!("{prefix}torch.OutOfMemoryError: x");
            let labeled = Hosts::default().split(line.as_bytes());
            assert_eq!(labeled.text, b"torch.OutOfMemoryError: x", "{line}");
            assert_eq!((labeled.label.name.as_str(), labeled.label.is_rank), (name, is_rank), "{line}");
            assert_eq!(labeled.has_prefix, !prefix.is_empty(), "{line}");
        }
        assert!(split(b"E   torch.OutOfMemoryError: x", true).is_pytest);
    }

    /// The labels of lines.
    fn labels(lines: &[&str]) -> Vec<String> {
        let mut hosts = Hosts::default();
        lines.iter().map(|line| hosts.split(line.as_bytes()).label.name).collect()
    }

    #[test]
    fn only_names_in_front_of_every_line_are_machines() {
        assert_eq!(
            labels(&["node0: a", "node1: b", "", "node0:", "node0: c"]),
            ["node0", "node1", "", "node0", "node0"]
        );
        assert_eq!(labels(&["node0: [rank3]: a", "node0: b"]), ["3", "node0"]);
        // pdsh itself prints lines without a name.
        assert_eq!(
            labels(&["start", "node0: a", "node0: b", "pdsh@head: x", "node0: c"]),
            ["", "", "node0", "", "node0"]
        );
        assert_eq!(labels(&["web-1  | a", "web-1  |", "web-1  | b"]), ["web-1"; 3]);
        assert_eq!(labels(&["a", "bleu4: 0.1", "b", "bleu4: 0.1"]), [""; 4]);
        for counter in ["epoch1", "step120", "loss2", "cuda0", "trial12"] {
            assert_eq!(labels(&[&format!("{counter}: a"), &format!("{counter}: b")]), [""; 2], "{counter}");
        }
        for line in
            ["GPU0: a", "http://node0: a", "node: a", "node0:a", "node0 a", "node0.py:12: a", "0.5: a"]
        {
            assert_eq!(labels(&[line, line]), [""; 2], "{line}");
        }
    }
}
