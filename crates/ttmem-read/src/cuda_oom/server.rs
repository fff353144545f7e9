//! The inference server that a process belongs to, and whether it captured CUDA graphs.

use memchr::memmem;

use super::label::{Label, Source};

/// The folders of vLLM. A clone of it may contain other programs.
const OF_VLLM: [&[u8]; 7] = [
    b"-packages/vllm/",
    b"/vllm/v1/",
    b"/vllm/engine/",
    b"/vllm/entrypoints/",
    b"/vllm/executor/",
    b"/vllm/model_executor/",
    b"/vllm/worker/",
];
/// The folders of SGLang.
const OF_SGLANG: [&[u8]; 2] = [b"-packages/sglang/", b"/sglang/srt/"];

/// The server, by the frames of a traceback.
pub(super) fn of_frames(traceback: &[&[u8]]) -> Option<&'static str> {
    let has = |folders: &[&[u8]]| {
        let is_frame = |line: &&&[u8]| memmem::find(line, b"File ").is_some();
        let is_in = |line: &&[u8]| folders.iter().any(|folder| memmem::find(line, folder).is_some());
        traceback.iter().filter(is_frame).any(is_in)
    };
    // SGLang used layers of vLLM.
    if has(&OF_SGLANG) {
        Some("sglang")
    } else if has(&OF_VLLM) {
        Some("vllm")
    } else {
        None
    }
}

/// The server, by the name of the process.
pub(super) fn of_label(label: &Label) -> Option<&'static str> {
    (label.source == Source::Vllm).then_some("vllm")
}

/// Whether the frames of a traceback capture CUDA graphs.
pub(super) fn is_capture(traceback: &[&[u8]]) -> bool {
    let is_frame = |line: &[u8]| {
        let function = memmem::find(line, b", in ").map(|at| &line[at + 5..]);
        function.is_some_and(|name| name.starts_with(b"capture") || name.starts_with(b"_capture"))
    };
    traceback.iter().any(|line| is_frame(line))
}

/// Whether servers are capturing CUDA graphs, as their lines say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Capturing(pub bool);

impl Capturing {
    /// Takes a line of any process: progress bars have no label.
    pub fn line(&mut self, line: &[u8]) {
        if memmem::find(line, b"raph").is_none() {
            return;
        }
        if memmem::find(line, b"apturing CUDA graph").is_some() {
            self.0 = memmem::find(line, b"100%|").is_none();
        } else if memmem::find(line, b"apture cuda graph begin").is_some() {
            self.0 = true;
        } else if memmem::find(line, b"apture cuda graph end").is_some()
            || memmem::find(line, b"Graph capturing finished").is_some()
        {
            self.0 = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_known_by_their_frames() {
        let of = |lines: &[&str]| of_frames(&lines.iter().map(|line| line.as_bytes()).collect::<Vec<_>>());
        let vllm = "  File \"/v/site-packages/vllm/v1/worker/gpu_worker.py\", line 1, in f";
        let sglang = "  File \"/sgl/python/sglang/srt/managers/scheduler.py\", line 1, in f";
        assert_eq!(of(&[vllm]), Some("vllm"));
        assert_eq!(of(&[sglang, vllm]), Some("sglang"));
        assert_eq!(of(&["  File \"/verl/vllm_rollout/x.py\", line 1, in f", "import /vllm/v1/"]), None);
        assert_eq!(of(&["  File \"/home/me/vllm/train.py\", line 1, in f"]), None);
    }

    #[test]
    fn capturing_begins_and_ends() {
        let after = |lines: &[&str]| {
            let mut capturing = Capturing::default();
            for line in lines {
                capturing.line(line.as_bytes());
            }
            capturing.0
        };
        let progress = "Capturing CUDA graph shapes:  46%|####      | 31/67 [00:12<00:14,  2.49it/s]";
        assert!(after(&[progress]));
        assert!(!after(&[progress, &progress.replace("46%", "100%")]));
        assert!(!after(&[progress, "Graph capturing finished in 18 secs, took 0.96 GiB"]));
        let begin = "Capture cuda graph begin. This can take up to several minutes. avail mem=10.14 GB";
        assert!(after(&[begin]));
        assert!(!after(&[begin, "Capture cuda graph end. Time elapsed: 7.23 s."]));
        assert!(is_capture(&[b"  File \"x.py\", line 1, in capture_model"]));
        assert!(!is_capture(&[b"  File \"capture.py\", line 1, in run"]));
    }
}
