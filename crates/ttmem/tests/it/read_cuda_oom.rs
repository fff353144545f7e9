//! Out-of-memory errors of GPU programs: every wording, several ranks in one log, texts that are only about errors, and
//! any cut or changed message. `corpus/cuda_oom` has whole logs.

mod changed;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use ttmem::model::{Amount, FaultLedger, Ledger, Profile};
use ttmem::query::{self, Request};
use ttmem::read::{self, Options};
use ttmem::record::frame::Writer;
use ttmem::report::{MarkdownSize, Screen};
use ttmem::{Error, Result, report};

fn corpus(name: &str) -> Vec<u8> {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/cuda_oom");
    fs::read(folder.join(name)).unwrap()
}

fn opened_as(log: &[u8], format: Option<&str>) -> Result<Profile> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(log).unwrap();
    let options = Options { format: format.map(str::to_owned), ..Options::default() };
    read::open_with(file.path().to_str().unwrap(), &options)
}

fn opened(log: &str) -> Profile {
    let profile = opened_as(log.as_bytes(), None).unwrap_or_else(|error| panic!("{error}\n{log}"));
    assert_eq!(profile.source.format, "cuda_oom", "{log}");
    profile
}

/// The error that a text is refused with.
fn refused(log: &[u8]) -> Error {
    let text = String::from_utf8_lossy(log);
    let error = opened_as(log, None).map(|profile| profile.ranks[0].ledgers.clone()).expect_err(&text);
    assert!(matches!(error, Error::NoMemoryData { .. } | Error::UnknownFormat { .. }), "{error}\n{text}");
    error
}

fn ledger(profile: &Profile) -> &FaultLedger {
    &profile.ranks[0].ledgers[&0]
}

fn oom_of(profile: &Profile) -> Value {
    let summary = query::summary(std::slice::from_ref(profile), &Request::default()).unwrap();
    let mut json = Vec::new();
    report::json(&summary, &mut json).unwrap();
    let answer: Value = serde_json::from_slice(&json).unwrap();
    answer["ranks"][0]["oom"].clone()
}

fn oom(log: &str) -> Value {
    oom_of(&opened(log))
}

/// The sizes of the parts in MiB, by kind.
fn parts(oom: &Value) -> Vec<(String, u64)> {
    let parts = oom["ledger"]["parts"].as_array().unwrap();
    let part =
        |part: &Value| (part["kind"].as_str().unwrap().to_owned(), part["bytes"].as_u64().unwrap() >> 20);
    parts.iter().map(part).collect()
}

fn with<'a>(kinds: &[(&'a str, u64)]) -> Vec<(String, u64)> {
    kinds.iter().map(|(kind, mib)| ((*kind).to_owned(), *mib)).collect()
}

fn gib(number: f64) -> u64 {
    (number * f64::from(1 << 30)).round() as u64
}

fn cause(oom: &Value) -> &str {
    oom["cause"].as_str().unwrap()
}

fn advice(oom: &Value) -> &str {
    oom["advice"].as_str().unwrap_or_default()
}

// ---------------------------------------------------------------------------------------------- wordings of PyTorch

const V1_0: &str = "RuntimeError: CUDA out of memory. Tried to allocate 196.00 MiB (GPU 0; 2.00 GiB total capacity; 359.38 MiB already allocated; 192.29 MiB free; 152.37 MiB cached)";
const V1_4: &str = "RuntimeError: CUDA out of memory. Tried to allocate 376.00 MiB (GPU 0; 3.95 GiB total capacity; 1.72 GiB already allocated; 354.88 MiB free; 2.46 GiB reserved in total by PyTorch)";
const V1_10: &str = "RuntimeError: CUDA out of memory. Tried to allocate 200.00 MiB (GPU 0; 14.61 GiB total capacity; 13.76 GiB already allocated; 37.12 MiB free; 13.77 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF";
const V1_8_ALLOWED: &str = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0; 14.61 GiB total capacity; 6.00 GiB already allocated; 8.10 GiB free; 7.30 GiB allowed; 6.10 GiB reserved in total by PyTorch)";
const V2_1: &str = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.95 GiB. GPU 0 has a total capacty of 14.75 GiB of which 1.66 GiB is free. Process 414660 has 13.09 GiB memory in use. Of the allocated memory 10.09 GiB is allocated by PyTorch, and 1.92 GiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting max_split_size_mb to avoid fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF";
const V2_2: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 192.00 MiB. GPU 0 has a total capacity of 79.19 GiB of which 46.50 MiB is free. Including non-PyTorch memory, this process has 79.13 GiB memory in use. Of the allocated memory 77.91 GiB is allocated by PyTorch, and 40.28 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)";
const V2_OTHERS: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 256.00 MiB. GPU 2 has a total capacity of 94.97 GiB of which 59.69 MiB is free. Process 502587 has 1.78 GiB memory in use. Process 745081 has 86.44 GiB memory in use. Including non-PyTorch memory, this process has 6.62 GiB memory in use. Of the allocated memory 5.97 GiB is allocated by PyTorch, and 116.33 MiB is reserved by PyTorch but unallocated.";
const V2_PRIVATE: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 10.74 GiB. GPU 0 has a total capacity of 47.53 GiB of which 7.86 GiB is free. Process 471567 has 39.66 GiB memory in use. Of the allocated memory 30.52 GiB is allocated by PyTorch, with 12.03 GiB allocated in private pools (e.g., CUDA Graphs), and 8.59 GiB is reserved by PyTorch but unallocated.";
const V2_ALLOWED: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has a total capacity of 139.81 GiB of which 132.10 GiB is free. Including non-PyTorch memory, this process has 7.70 GiB memory in use. 6.99 GiB allowed; Of the allocated memory 6.50 GiB is allocated by PyTorch, and 10.00 MiB is reserved by PyTorch but unallocated.";
const HIP: &str = "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 23.98 GiB of which 1.10 GiB is free. Of the allocated memory 18.10 GiB is allocated by PyTorch, and 4.39 GiB is reserved by PyTorch but unallocated.";
const XPU: &str = "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15.11 GiB of which 204.10 MiB is free. Of the allocated memory 13.91 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated. Please use `empty_cache` to release all unoccupied cached memory.";
const NPU: &str = "RuntimeError: NPU out of memory. Tried to allocate 31.67 GiB (NPU 0; 32.00 GiB total capacity; 6.30 GiB already allocated; 24.39 GiB free; 6.55 GiB reserved in total by PyTorch)";
const MPS: &str = "RuntimeError: MPS backend out of memory (MPS allocated: 17.36 GB, other allocations: 613.56 MB, max allowed: 18.13 GB). Tried to allocate 192.00 MB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations (may cause system failure).";

/// All complete messages of PyTorch.
const MESSAGES: [&str; 13] =
    [V1_0, V1_4, V1_10, V1_8_ALLOWED, V2_1, V2_2, V2_OTHERS, V2_PRIVATE, V2_ALLOWED, HIP, XPU, NPU, MPS];

#[test]
fn wording_of_1_0() {
    let oom = oom(V1_0);
    // Until 1.3, the cached memory does not include the allocated memory.
    let expected = [("allocated", 359), ("unallocated", 152), ("outside", 1343), ("free", 192)];
    assert_eq!(parts(&oom), with(&expected));
    assert_eq!((cause(&oom), &oom["pool"]), ("non_pytorch", &"cuda:0".into()));
    assert_eq!((&oom["requested_total"], &oom["ledger"]["adds_up"]), (&(196u64 << 20).into(), &true.into()));
}

#[test]
fn wording_of_1_4() {
    let oom = oom(V1_4);
    assert_eq!(
        parts(&oom),
        with(&[("allocated", 1761), ("unallocated", 757), ("outside", 1170), ("free", 354)])
    );
    // The unused memory of the allocator would be enough.
    assert_eq!(cause(&oom), "fragmentation");
    assert!(advice(&oom).contains("expandable_segments:True"), "{oom}");
}

#[test]
fn wording_of_1_10() {
    let oom = oom(V1_10);
    assert_eq!(cause(&oom), "capacity");
    assert!(!advice(&oom).contains("expandable"), "{oom}");
    assert!(advice(&oom).contains("smaller batch"), "{oom}");
}

#[test]
fn wording_of_1_8_with_a_limit() {
    let oom = oom(V1_8_ALLOWED);
    assert_eq!((cause(&oom), oom["ledger"]["allowed_bytes"].as_u64()), ("memory_limit", Some(gib(7.3))));
    assert_eq!(oom["lacks_per_bank"].as_u64(), Some(gib(6.1) + gib(2.0) - gib(7.3)));
    assert!(advice(&oom).starts_with("Raise the limit by at least 819.2 MiB"), "{oom}");
}

#[test]
fn wording_of_2_1() {
    let oom = oom(V2_1);
    // In a container, the process does not know its own ID. Only this process can hold the tensors.
    let expected = [("allocated", 10_332), ("unallocated", 1966), ("non_pytorch", 1105), ("free", 1699)];
    assert_eq!(parts(&oom), with(&expected));
    assert_eq!(cause(&oom), "capacity");
    assert!(oom["ledger"]["notes"][0].as_str().unwrap().contains("process 414660"), "{oom}");
}

#[test]
fn wording_of_2_2() {
    let oom = oom(V2_2);
    let expected = [
        ("allocated", 79_779),
        ("unallocated", 40),
        ("non_pytorch", 1209),
        ("unattributed", 14),
        ("free", 46),
    ];
    assert_eq!(parts(&oom)[..3], with(&expected)[..3]);
    assert_eq!((cause(&oom), &oom["ledger"]["adds_up"]), ("capacity", &true.into()));
    // 40 MiB are unallocated: PyTorch's own advice would not help.
    assert!(!advice(&oom).contains("expandable"), "{oom}");
    assert_eq!(oom["free_per_bank"].as_u64(), Some(48_758_784));
}

#[test]
fn wording_with_other_processes() {
    let oom = oom(V2_OTHERS);
    assert_eq!((cause(&oom), &oom["pool"]), ("other_process", &"cuda:2".into()));
    let detail = oom["detail"].as_str().unwrap();
    assert!(detail.contains("2 other processes use 88.22 GiB"), "{detail}");
    let pids: Vec<&Value> =
        oom["ledger"]["parts"].as_array().unwrap().iter().map(|part| &part["pid"]).collect();
    assert_eq!(
        pids,
        [
            &Value::Null,
            &Value::Null,
            &Value::Null,
            &502_587.into(),
            &745_081.into(),
            &Value::Null,
            &Value::Null
        ]
    );
    assert!(advice(&oom).starts_with("Stop the other processes"), "{oom}");
    let alone = V2_OTHERS.replace("Process 502587 has 1.78 GiB memory in use. ", "");
    assert!(advice(&self::oom(&alone)).starts_with("Stop process 745081"));
}

#[test]
fn wording_with_private_pools() {
    let oom = oom(V2_PRIVATE);
    assert_eq!(cause(&oom), "private_pools");
    let expected = [
        ("allocated", 18_933),
        ("private_pools", 12_318),
        ("unallocated", 8796),
        ("non_pytorch", 563),
        ("free", 8048),
    ];
    assert_eq!(parts(&oom), with(&expected));
    assert!(advice(&oom).contains("CUDA graphs"), "{oom}");
}

#[test]
fn wording_with_a_limit() {
    let oom = oom(V2_ALLOWED);
    assert_eq!(cause(&oom), "memory_limit");
    assert!(oom["headline"].as_str().unwrap().contains("memory limit"), "{oom}");
    assert!(advice(&oom).contains("set_per_process_memory_fraction"), "{oom}");
    // A limit does not matter if the device is full as well.
    let full = V2_ALLOWED.replace("132.10 GiB is free", "500.00 MiB is free");
    let oom = self::oom(&full);
    assert_eq!(cause(&oom), "memory_limit");
    assert!(advice(&oom).starts_with("A higher limit is not enough"), "{oom}");
}

#[test]
fn wording_of_hip() {
    let oom = oom(HIP);
    assert_eq!((&oom["pool"], &oom["ledger"]["platform"]), (&"cuda:1".into(), &"hip".into()));
    // Expandable segments need CUDA.
    assert_eq!((cause(&oom), &oom["advice"]), ("fragmentation", &Value::Null));
}

#[test]
fn wording_of_xpu_npu_and_mps() {
    let xpu = oom(XPU);
    assert_eq!((&xpu["pool"], cause(&xpu)), (&"xpu:0".into(), "capacity"));
    let npu = oom(NPU);
    assert_eq!((&npu["pool"], cause(&npu)), (&"npu:0".into(), "capacity"));
    let mps = oom(MPS);
    assert_eq!((&mps["pool"], cause(&mps)), (&"mps".into(), "memory_limit"));
    assert_eq!(parts(&mps), with(&[("allocated", 17_776), ("non_pytorch", 613)]));
}

#[test]
fn a_request_larger_than_the_device() {
    let oom = oom(&V2_2.replace("192.00 MiB", "130206.04 GiB"));
    assert_eq!(cause(&oom), "never_fits");
}

#[test]
fn memory_outside_pytorch() {
    let oom = oom(&V2_2.replace("77.91 GiB is allocated", "57.91 GiB is allocated"));
    assert_eq!(cause(&oom), "non_pytorch");
    assert!(advice(&oom).contains("NCCL"), "{oom}");
}

#[test]
fn impossible_numbers_are_not_used() {
    for wrong in ["0 bytes", "17179869184.00 GiB"] {
        let oom = oom(&V2_2.replace("79.13 GiB", wrong));
        let kinds: Vec<String> = parts(&oom).into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(kinds, ["allocated", "unallocated", "outside", "free"], "{wrong}");
        assert_eq!(cause(&oom), "capacity");
    }
    // The allocator has more than is in use.
    let oom = oom(&V2_2.replace("46.50 MiB is free", "40.00 GiB is free"));
    assert_eq!(oom["ledger"]["adds_up"], false);
    assert!(oom["ledger"]["notes"][0].as_str().unwrap().contains("contradict"), "{oom}");
}

#[test]
fn advice_depends_on_the_settings() {
    let fragmented = V2_2.replace("40.28 MiB", "3.24 GiB").replace("77.91", "74.71");
    assert!(advice(&oom(&fragmented)).contains("expandable_segments:True"));
    let set = format!("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n{fragmented}\n");
    let oom = oom(&set);
    assert_eq!((cause(&oom), &oom["advice"]), ("fragmentation", &Value::Null));
    assert_eq!(oom["ledger"]["settings"][0]["value"], "expandable_segments:True");
}

#[test]
fn a_warning_with_exact_numbers_refines_the_message() {
    let profile = opened(&String::from_utf8(corpus("train.log")).unwrap());
    let Ledger { requested, free, capacity, allocated, .. } = ledger(&profile).ledger;
    let exact = |bytes| Some(Amount::exact(bytes));
    assert_eq!((requested, free, capacity), (exact(580_911_104), exact(191_430_656), exact(42_405_855_232)));
    assert!(allocated.unwrap().quantum > 0);
    let oom = oom_of(&profile);
    assert_eq!(oom["loc"], "/home/user/train/model.py:249");
    assert_eq!(oom["ledger"]["adds_up"], true);
}

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
        assert_eq!(
            (cause(&oom), &oom["requested_total"], &oom["advice"]),
            ("unknown", &Value::Null, &Value::Null)
        );
        assert_eq!(oom["ledger"]["parts"].as_array().unwrap().len(), 0, "{text}");
        assert!(oom["detail"].as_str().unwrap().contains("no numbers"), "{oom}");
    }
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
    assert_eq!((cause(&oom), oom["requested_total"].as_u64()), ("capacity", Some(gib(12.39))));
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
    let expected = [("weights", gib(88.12)), ("kv_cache", gib(34.61)), ("cuda_graphs", gib(0.96))];
    assert_eq!(reported, expected);
    assert_eq!(cause(&oom), "capacity");
    assert_eq!(
        advice(&oom),
        "Lower gpu_memory_utilization from 0.95 to 0.91 or less: the KV cache then leaves 4.33 GiB more for activations."
    );
    assert!(oom["loc"].as_str().unwrap().ends_with("vllm/v1/attention/indexer.py:512"), "{oom}");
    let oom = oom_of(&opened(&String::from_utf8(corpus("sglang.log")).unwrap()));
    assert_eq!(oom["ledger"]["reported"].as_array().unwrap().len(), 3);
    assert_eq!(oom["ledger"]["settings"][0]["name"], "mem_fraction_static");
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

/// What other programs print in front of every line, and the label of the rank.
const PREFIXES: [(&str, Option<&str>); 16] = [
    ("", None),
    ("E   ", None),
    ("[rank3]: ", Some("3")),
    ("[default3]:", Some("3")),
    ("3: ", Some("3")),
    ("[1,3]<stderr>:", Some("1,3")),
    ("(Worker_TP1 pid=123) ERROR 10-10 12:00:00 [multiproc_executor.py:671] ", Some("TP1")),
    ("(VllmWorker rank=1 pid=254) ", Some("1")),
    ("(RayWorkerWrapper pid=3918397, ip=10.0.0.1) ", Some("pid 3918397")),
    ("(EngineCore_DP0 pid=7) ERROR 10-10 12:00:00 [core.py:710] ", Some("EngineCore_DP0")),
    ("2026-01-01 12:00:00,123 - file.py:12 - ERROR: ", None),
    ("2026-01-01T12:00:00.123456789Z stderr F ", None),
    ("[pod/server-0/main] 2026-01-01T12:00:00.1Z ", None),
    ("vllm-1  | ", None),
    ("[2025-03-08 12:29:21 TP2] ", Some("TP2")),
    ("\u{1b}[31m", None),
];

fn traceback(message: &str) -> String {
    format!(
        "Traceback (most recent call last):\n  File \"/home/user/model.py\", line 12, in forward\n    y = block(x)\n  File \"/venv/lib/python3.12/site-packages/torch/nn/functional.py\", line 9, in linear\n    return f()\n{message}\n"
    )
}

fn behind(prefix: &str, log: &str) -> String {
    log.lines().map(|line| format!("{prefix}{line}\n")).collect()
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
        let docker: String = traceback(message)
            .lines()
            .map(|line| format!("{}\n", serde_json::json!({"log": format!("{line}\n"), "stream": "stderr"})))
            .map(|line| line.replacen("{\"log\":", "{\"log\":", 1))
            .collect();
        assert_eq!(ledger(&opened(&docker)).ledger.requested, ledger(&expected).ledger.requested);
    }
}

#[test]
fn a_message_may_be_pasted_wrapped_or_quoted() {
    for message in MESSAGES {
        let expected = ledger(&opened(message)).ledger.requested;
        let bare = message.split_once(": ").unwrap().1;
        let is_mps = message == MPS;
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
        for text in [bare, &repr, &logged, &root, &json, &wrapped]
            .into_iter()
            .filter(|text| !is_mps || !text.contains('\n'))
        {
            let profile = opened(text);
            assert_eq!(ledger(&profile).ledger.requested, expected, "{text}");
            assert_eq!(profile.ranks[0].faults.len(), 1);
            assert!(profile.warnings.is_empty(), "{:?}", profile.warnings);
        }
    }
}

#[test]
fn an_error_at_the_end_of_a_long_log_is_found() {
    let lines: String =
        (0..120_000).map(|step| format!("step {step} loss 2.41 tokens/s 53434 gnorm 0.3\n")).collect();
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
    for name in ["train", "fragmented", "other-process", "ranks", "vllm", "sglang", "jax"] {
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
