//! Errors of libraries, whole logs of servers and several ranks, texts that are only about errors, and the front ends.

use std::fs;
use std::path::Path;

use serde_json::Value;
use ttmem::model::Ledger;
use ttmem::query::{self, Request};
use ttmem::record::frame::Writer;
use ttmem::report::{MarkdownSize, Screen};
use ttmem::{Error, report};

use super::*;

// ---------------------------------------------------------------------------------------------- other errors

#[test]
fn errors_of_cuda_and_its_libraries_have_no_numbers() {
    for (text, source) in [
        ("RuntimeError: CUDA error: out of memory", "cuda"),
        ("torch.AcceleratorError: CUDA error: out of memory", "cuda"),
        (
            "RuntimeError: cuda runtime error (2) : out of memory at /pytorch/aten/src/THC/generic/THCStorage.cu:58",
            "cuda",
        ),
        ("RuntimeError: HIP error: out of memory", "cuda"),
        (
            "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
            "cublas",
        ),
        ("RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED", "cudnn"),
        (
            "node1:123:456 [0] include/alloc.h:320 (ncclCuMemAlloc) NCCL WARN Cuda failure 2 'out of memory'",
            "nccl",
        ),
        ("node1:123:456 [0] misc/x.cc:1 NCCL WARN Cuda failure 'out of memory'", "nccl"),
        ("jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory", "xla"),
        ("CUDA error: out of memory", "cuda"),
    ] {
        let profile = opened(text);
        let known = &ledger(&profile).ledger;
        assert_eq!(profile.text(known.source.unwrap()), source, "{text}");
        let known = Ledger { source: None, platform: None, ..*known };
        assert_eq!(known, Ledger::default(), "{text}");
        let oom = oom_of(&profile);
        assert_eq!((cause(&oom), &oom["requested_total"]), ("unknown", &Value::Null));
        assert!(!advice(&oom).is_empty() && !advice(&oom).contains("batch, bf16"), "{oom}");
        assert_eq!(oom["ledger"]["parts"].as_array().unwrap().len(), 0, "{text}");
        assert!(oom["detail"].as_str().unwrap().contains("no numbers"), "{oom}");
    }
    let hip =
        oom("RuntimeError: CUDA error: HIPBLAS_STATUS_ALLOC_FAILED when calling `hipblasCreate(handle)`");
    assert_eq!(hip["pool"], "hip");
    assert!(hip["detail"].as_str().unwrap().contains("out of memory in hipBLAS"), "{hip}");
    let text =
        "RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported\n";
    assert!(oom(text)["detail"].as_str().unwrap().starts_with("The program ran out of memory;"));
}

#[test]
fn nccl_may_state_the_request() {
    let text = "node1:123:456 [0] include/alloc.h:48 NCCL WARN Failed to CUDA calloc async 10485760 bytes\n";
    let oom = oom(text);
    assert_eq!((oom["requested_total"].as_u64(), cause(&oom)), (Some(10_485_760), "unknown"));
}

#[test]
fn errors_of_jax() {
    for (text, bytes) in [
        (
            "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 33762398024 bytes.",
            33_762_398_024,
        ),
        (
            "XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8.00GiB. [executable_name='jit_f']",
            8 << 30,
        ),
        ("XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory allocating 1182720000 bytes.", 1_182_720_000),
    ] {
        let oom = oom(text);
        assert_eq!((oom["requested_total"].as_u64(), cause(&oom)), (Some(bytes), "unknown"), "{text}");
    }
    let oom = oom_of(&opened(&String::from_utf8(corpus("jax.log")).unwrap()));
    assert_eq!(oom["requested_total"].as_u64(), Some(32_802_812_928));
    assert_eq!((cause(&oom), oom["largest_free_per_bank"].as_u64()), ("fragmentation", Some(21_474_836_480)));
    assert_eq!((&oom["pool"], &oom["loc"]), (&"cuda:0".into(), &"/home/user/spectral/run.py:88".into()));
    // Expandable segments are PyTorch's.
    assert_eq!(oom["advice"], Value::Null);
}

#[test]
fn vllm_refuses_to_start() {
    let text = "ValueError: Free memory on device cuda:0 (7.34/15.49 GiB) on startup is less than desired GPU memory utilization (0.8, 12.39 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.";
    let oom = oom(text);
    assert_eq!((cause(&oom), oom["requested_total"].as_u64()), ("capacity", Some(gib(1239))));
    assert!(advice(&oom).ends_with("set gpu_memory_utilization to at most 0.47."), "{oom}");
}

// ---------------------------------------------------------------------------------------------- servers and ranks

#[test]
fn servers_report_their_parts() {
    let oom = oom_of(&opened(&String::from_utf8(corpus("vllm.log")).unwrap()));
    let reported: Vec<(&str, u64)> = oom["ledger"]["reported"]
        .as_array()
        .unwrap()
        .iter()
        .map(|part| (part["name"].as_str().unwrap(), part["bytes"].as_u64().unwrap()))
        .collect();
    let expected = [("weights", gib(8812)), ("kv_cache", gib(3461)), ("cuda_graphs", gib(96))];
    assert_eq!(reported, expected);
    assert_eq!(cause(&oom), "capacity");
    assert_eq!(
        advice(&oom),
        "Lower gpu_memory_utilization from 0.95 to 0.91 or less: the KV cache then leaves 4.33 GiB more for activations. \
         Or lower --max-model-len or --max-num-seqs."
    );
    assert!(oom["loc"].as_str().unwrap().ends_with("vllm/v1/attention/indexer.py:512"), "{oom}");
    let oom = oom_of(&opened(&String::from_utf8(corpus("sglang.log")).unwrap()));
    assert_eq!(oom["ledger"]["reported"].as_array().unwrap().len(), 3);
    assert_eq!(oom["ledger"]["settings"][0]["name"], "mem_fraction_static");
    assert!(advice(&oom).starts_with("Lower mem_fraction_static from 0.88 to 0.86 or less"), "{oom}");
    assert!(oom["loc"].as_str().unwrap().ends_with("scheduler.py:2012"), "{oom}");
    let slime = format!(
        "[2025-10-01 10:00:00] Memory-Usage after rollout: {{'gpu': '0', 'total_GB': 79.19, 'free_GB': 1.5, 'used_GB': 77.69, 'allocated_GB': 1.0, 'reserved_GB': 2.0}}\n{V2_2}\n"
    );
    let oom = self::oom(&slime);
    assert_eq!(oom["ledger"]["reported"][0]["label"], "device memory in use (after rollout)");
}

#[test]
fn the_engine_of_vllm_repeats_the_error_of_a_worker() {
    let profile = opened(&String::from_utf8(corpus("vllm.log")).unwrap());
    assert_eq!(profile.ranks.len(), 1);
    assert_eq!(profile.text(profile.ranks[0].label.unwrap()), "TP1");
    assert_eq!(profile.ranks[0].faults.len(), 1);
}

#[test]
fn the_rank_that_failed_first() {
    let profile = opened(&String::from_utf8(corpus("ranks.log")).unwrap());
    let summary = query::summary(std::slice::from_ref(&profile), &Request::default()).unwrap();
    let ranks: Vec<&str> = summary.ranks.iter().map(|rank| rank.rank.as_deref().unwrap()).collect();
    assert_eq!((ranks.len(), ranks[0]), (3, "6"));
    let oom = oom_of(&profile);
    let detail = oom["detail"].as_str().unwrap();
    assert!(detail.contains("Rank 6 failed first; 2 other ranks ran out of memory after it ("), "{detail}");
    assert_eq!(oom["loc"], "/home/user/pretrain/train.py:288");
    assert_eq!(oom["ledger"]["failed_later"].as_array().unwrap().len(), 2);
}

#[test]
fn ranks_without_labels_are_separated_by_device() {
    let of = |device| traceback(&V2_2.replace("GPU 0", &format!("GPU {device}")));
    let profile = opened(&[of(3), of(0), of(1)].concat());
    let summary = query::summary(std::slice::from_ref(&profile), &Request::default()).unwrap();
    let ranks: Vec<&str> = summary.ranks.iter().map(|rank| rank.rank.as_deref().unwrap()).collect();
    assert_eq!(ranks, ["cuda:3", "cuda:0", "cuda:1"]);
    let detail = oom_of(&profile)["detail"].clone();
    assert!(detail.as_str().unwrap().contains("Rank cuda:3 failed first; 2 other ranks"), "{detail}");
}

/// pdsh and docker compose print the output of several machines with their names.
#[test]
fn machines_are_ranks_if_nothing_else_names_them() {
    for (between, first) in [(": ", "node0"), ("  | ", "node0"), (": [rank0]: ", "0")] {
        let lines: Vec<String> = traceback(V2_2)
            .lines()
            .flat_map(|line| {
                let of_second = between.replace("rank0", "rank8");
                [format!("node0{between}{line}\n"), format!("node1{of_second}{line}\n")]
            })
            .collect();
        let profile = opened(&lines.concat());
        assert_eq!(profile.ranks.len(), 2, "{between}");
        let detail = oom_of(&profile)["detail"].clone();
        let expected = format!("Rank {first} failed first; 1 other rank");
        assert!(detail.as_str().unwrap().contains(&expected), "{detail}");
    }
}

/// A program that prints what it counts is one process.
#[test]
fn counters_are_not_machines() {
    let again = V2_2.replace("192.00 MiB", "190.00 MiB");
    for log in [
        format!("epoch1: loss 2.0\nepoch2: loss 1.9\nstep120: {V2_2}\n"),
        format!("trial1: {V2_2}\ntrial2: {again}\ntrial3: done\n"),
        format!("GPU0: {V2_2}\n"),
        format!("loss1: 2.0\nloss2: 1.9\n{}", traceback(V2_2)),
        format!("start\nbleu4: 0.2\n{}done1: x\n", traceback(V2_2)),
    ] {
        let profile = opened(&log);
        assert_eq!((profile.ranks.len(), profile.ranks[0].label), (1, None), "{log}");
    }
    let failed = traceback(V2_2);
    let (frames, error) = failed.split_at(failed.find("torch.OutOf").unwrap());
    let log = format!("{frames}step120: {error}");
    assert_eq!(oom(&log)["loc"], "/home/user/model.py:12");
    let message = V2_2.split_once(": ").unwrap().1;
    refused(format!("Answers\n\nq1: why do I get {message}\n").as_bytes());
}

/// What other programs print in front of every line, and the label of the rank.
const PREFIXES: [(&str, Option<&str>); 18] = [
    ("", None),
    ("E   ", None),
    ("[rank3]: ", Some("3")),
    ("[default3]:", Some("3")),
    ("3: ", Some("3")),
    ("[1,3]<stderr>:", Some("1,3")),
    ("(Worker_TP1 pid=123) ERROR 10-10 12:00:00 [multiproc_executor.py:671] ", Some("TP1")),
    ("(VllmWorker rank=1 pid=254) ", Some("1")),
    ("(RayWorkerWrapper pid=3918397, ip=10.0.0.1) ", Some("pid 3918397 on 10.0.0.1")),
    ("(EngineCore_DP0 pid=7) ERROR 10-10 12:00:00 [core.py:710] ", Some("EngineCore_DP0")),
    ("2026-01-01 12:00:00,123 - file.py:12 - ERROR: ", None),
    ("2026-01-01T12:00:00.123456789Z stderr F ", None),
    ("[pod/server-0/main] 2026-01-01T12:00:00.1Z ", None),
    ("vllm-1  | ", Some("vllm-1")),
    ("gpu-node-3: ", Some("gpu-node-3")),
    ("gpu-node-3: [rank3]: ", Some("3")),
    ("[2025-03-08 12:29:21 TP2] ", Some("TP2")),
    ("\u{1b}[31m", None),
];

fn behind(prefix: &str, log: &str) -> String {
    let lines: Vec<String> = log.lines().map(|line| format!("{prefix}{line}\n")).collect();
    lines.concat()
}

#[test]
fn prefixes_do_not_matter() {
    for message in MESSAGES {
        let expected = opened(&traceback(message));
        for (prefix, label) in PREFIXES {
            let log = behind(prefix, &traceback(message));
            let profile = opened(&log);
            let (found, known) = (ledger(&profile), ledger(&expected));
            assert_eq!(found.processes, known.processes, "{log}");
            let plain = |ledger: &Ledger| Ledger { source: None, platform: None, ..*ledger };
            assert_eq!(plain(&found.ledger), plain(&known.ledger), "{log}");
            let rank = &profile.ranks[0];
            assert_eq!(rank.label.map(|label| profile.text(label)), label, "{log}");
            if prefix != "E   " {
                let loc = rank.fault_details[&0].loc.map(|loc| profile.text(loc));
                assert_eq!(loc, Some("/home/user/model.py:12"), "{log}");
            }
        }
        let docker: Vec<String> = traceback(message)
            .lines()
            .map(|line| format!("{}\n", serde_json::json!({"log": format!("{line}\n"), "stream": "stderr"})))
            .collect();
        assert_eq!(ledger(&opened(&docker.concat())).ledger.requested, ledger(&expected).ledger.requested);
    }
}

#[test]
fn a_message_may_be_pasted_wrapped_or_quoted() {
    for message in MESSAGES {
        let expected = ledger(&opened(message)).ledger.requested;
        let bare = message.split_once(": ").unwrap().1;
        let wrapped = message
            .split(' ')
            .collect::<Vec<_>>()
            .chunks(9)
            .map(|words| words.join(" "))
            .collect::<Vec<_>>()
            .join("\n");
        let repr = format!("failed with OutOfMemoryError('{bare}')\n");
        let logged = format!(
            "[2025-08-06 15:24:55] Failed to update parameter online: {bare}. The weights are partially updated.\n"
        );
        let root = format!("ERROR:root:{bare}\n");
        let json = format!("{{\"step\": 3, \"error\": \"{bare}\"}}\n");
        for text in [bare, &repr, &logged, &root, &json, &wrapped] {
            let profile = opened(text);
            assert_eq!(ledger(&profile).ledger.requested, expected, "{text}");
            assert_eq!(profile.ranks[0].faults.len(), 1);
            assert!(profile.warnings.is_empty(), "{:?}", profile.warnings);
        }
    }
}

/// PowerShell writes these.
#[test]
fn logs_in_utf_16_are_read() {
    let log = traceback(V2_2).replace('\n', "\r\n");
    let expected = oom(&log);
    let units: Vec<u16> = format!("\u{feff}{log}").encode_utf16().collect();
    let little: Vec<u8> = units.iter().flat_map(|unit| unit.to_le_bytes()).collect();
    let big: Vec<u8> = units.iter().flat_map(|unit| unit.to_be_bytes()).collect();
    let packed = zstd::encode_all(little.as_slice(), 1).unwrap();
    for bytes in [little, big, packed] {
        assert_eq!(oom_of(&opened_as(&bytes, None).unwrap()), expected);
    }
    let padded: Vec<u8> = format!("\u{feff}{}{log}", "step 1\r\n".repeat(1 << 20))
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let found = oom_of(&opened_as(&padded, None).unwrap());
    assert_eq!((cause(&found), &found["loc"]), (cause(&expected), &expected["loc"]));
}

#[test]
fn an_error_at_the_end_of_a_long_log_is_found() {
    let lines: Vec<String> =
        (0..120_000).map(|step| format!("step {step} loss 2.41 tokens/s 53434 gnorm 0.3\n")).collect();
    let lines = lines.concat();
    assert!(lines.len() > 5 << 20);
    let oom = oom(&format!("{lines}{}", traceback(V2_2)));
    assert_eq!((cause(&oom), &oom["loc"]), ("capacity", &"/home/user/model.py:12".into()));
    assert!(matches!(refused(lines.as_bytes()), Error::UnknownFormat { .. }));
}

// ---------------------------------------------------------------------------------------------- texts that are not logs

#[test]
fn prose_is_refused() {
    for name in
        ["malformed/prose.txt", "malformed/guide.md", "malformed/source.py", "malformed/warning-only.log"]
    {
        let error = refused(&corpus(name));
        assert_eq!(error.exit_code(), 4, "{name}: {error}");
        assert!(opened_as(&corpus(name), Some("cuda_oom")).is_err(), "{name}");
    }
    for text in [
        "Why do I get CUDA out of memory?",
        "The usual fix for `CUDA error: out of memory` is a smaller batch.",
        "CUBLAS_STATUS_ALLOC_FAILED means that cuBLAS could not allocate its workspace.",
        "If you see RESOURCE_EXHAUSTED: Out of memory, use a smaller model",
        "I get the error CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 15.90 GiB total capacity;",
        "GPU 0 has a total capacity of 14.56 GiB of which 6.91 GiB is free.",
        "torch.OutOfMemoryError",
        "RuntimeError: CUDA error: out of memory is raised if the driver has no memory.",
        "NCCL WARN Cuda failure 2 'out of memory' means that NCCL could not allocate its buffers.",
    ] {
        refused(text.as_bytes());
    }
    // Complete messages, as examples.
    for text in [
        format!("If you see `{V2_2}`, use a smaller batch.\n"),
        format!("The message is `{V1_10}`. Has anyone seen this?\n> Use a smaller batch.\n"),
        format!("Errors\n------\n\nPyTorch raises::\n\n    {V2_2}\n\nif there is no memory.\n"),
        format!("For example, a message such as\n\n    {V2_2}\n\nmeans that the GPU is full.\n"),
    ] {
        refused(text.as_bytes());
    }
}

#[test]
fn a_truncated_message_keeps_only_whole_numbers() {
    let profile = opened(&String::from_utf8(corpus("malformed/cut.log")).unwrap());
    let known = ledger(&profile).ledger;
    assert_eq!((known.requested.map(|amount| amount.bytes), known.capacity), (Some(2 << 30), None));
    assert!(profile.warnings[0].message.contains("incomplete"), "{:?}", profile.warnings);
    let oom = oom_of(&profile);
    assert_eq!((cause(&oom), &oom["advice"]), ("unknown", &Value::Null));
    assert_eq!(oom["loc"], "/home/user/train.py:12");
}

#[test]
fn a_log_of_tenstorrent_goes_to_its_own_reader() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
    for (name, format) in [("tt_metal_log/vllm.log", "tt_metal_log"), ("tt_log/vae-decoder.log", "tt_log")] {
        let mut log = fs::read(root.join(name)).unwrap();
        log.extend(traceback(V2_2).bytes());
        assert_eq!(opened_as(&log, None).unwrap().source.format, format);
    }
}

// ---------------------------------------------------------------------------------------------- front ends

#[test]
fn every_front_end_shows_the_ledger() {
    for name in
        ["train", "fragmented", "other-process", "ranks", "ray", "vllm", "vllm-start", "sglang", "jax"]
    {
        let profile = opened(&String::from_utf8(corpus(&format!("{name}.log"))).unwrap());
        let summary = query::summary(std::slice::from_ref(&profile), &Request::default()).unwrap();
        let oom = summary.ranks[0].oom.clone().unwrap();
        let screen = report::text(&summary, Screen { width: 100, ..Screen::default() }).to_string();
        let (mut markdown, mut page) = (Vec::new(), Vec::new());
        report::markdown(&summary, "x", MarkdownSize::default(), &mut markdown).unwrap();
        report::page(&profile, &summary, "x", &mut page).unwrap();
        let markdown = String::from_utf8(markdown).unwrap();
        for part in &oom.ledger.unwrap().parts {
            assert!(
                screen.contains(&part.label) && markdown.contains(&part.label),
                "{}: {screen}\n{markdown}",
                part.label
            );
        }
        let words = screen.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in
            [Some(oom.statement.headline), oom.statement.detail, oom.statement.advice].into_iter().flatten()
        {
            assert!(
                words.contains(&part) && markdown.contains(&part),
                "{part} is not in {screen}\n{markdown}"
            );
        }
        for word in ["step 0", "at the end", "TTMLIR", "ttnn", "bank"] {
            assert!(!screen.contains(word), "{word}: {screen}");
        }
        // A profile that was stored and read again is the same.
        let mut writer = Writer::create(Vec::new(), "x.ttmem").unwrap();
        profile.replay(&mut writer).unwrap();
        let again = opened_as(&writer.finish().unwrap(), None).unwrap();
        assert_eq!(again.ranks, profile.ranks);
        assert_eq!(again.source.format, "cuda_oom");
        refused(markdown.as_bytes());
    }
}
