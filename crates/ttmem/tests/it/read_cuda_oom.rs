//! Out-of-memory errors of GPU programs: every wording, several ranks in one log, texts that are only about errors, and
//! any cut or changed message. `corpus/cuda_oom` has whole logs.

mod causes;
mod changed;
mod logs;
mod workers;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::Value;
use ttmem::model::{Amount, FaultLedger, Ledger, Profile};
use ttmem::query::{self, Request};
use ttmem::read::{self, Options};
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

fn with(kinds: &[(&str, u64)]) -> Vec<(String, u64)> {
    kinds.iter().map(|(kind, mib)| ((*kind).to_owned(), *mib)).collect()
}

/// Hundredths of a GiB.
fn gib(hundredths: u64) -> u64 {
    (hundredths * (1 << 30) + 50) / 100
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
const XPU_OLD: &str = "torch.OutOfMemoryError: XPU out of memory. Tried to allocate 3.91 GiB. GPU 0 has a total capacity of 15.91 GiB. Of the allocated memory 13.66 GiB is allocated by PyTorch, and 289.50 MiB is reserved by PyTorch but unallocated. Please use `empty_cache` to release all unoccupied cached memory.";
const NPU: &str = "RuntimeError: NPU out of memory. Tried to allocate 31.67 GiB (NPU 0; 32.00 GiB total capacity; 6.30 GiB already allocated; 24.39 GiB free; 6.55 GiB reserved in total by PyTorch)";
const MPS: &str = "RuntimeError: MPS backend out of memory (MPS allocated: 17.36 GB, other allocations: 613.56 MB, max allowed: 18.13 GB). Tried to allocate 192.00 MB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations (may cause system failure).";

const ASYNC: &str =
    "torch.cuda.OutOfMemoryError: Allocation on device 1 would exceed allowed memory. (out of memory)
Currently allocated     : 22.50 GiB
Requested               : 1.00 GiB
Device limit            : 23.99 GiB
Free (according to CUDA): 0 bytes
PyTorch limit (set by user-supplied memory fraction)
                        : 17179869184.00 GiB";

/// All complete messages of PyTorch in one line.
const MESSAGES: [&str; 14] = [
    V1_0,
    V1_4,
    V1_10,
    V1_8_ALLOWED,
    V2_1,
    V2_2,
    V2_OTHERS,
    V2_PRIVATE,
    V2_ALLOWED,
    HIP,
    XPU,
    XPU_OLD,
    NPU,
    MPS,
];

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
    assert_eq!((cause(&oom), oom["ledger"]["allowed_bytes"].as_u64()), ("memory_limit", Some(gib(730))));
    assert_eq!(oom["lacks_per_bank"].as_u64(), Some(gib(610) + gib(200) - gib(730)));
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
    assert_eq!(oom["headline"], "Out of memory: 2 other processes hold 88.22 GiB of cuda:2.");
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
    assert_eq!(
        advice(&oom),
        "Stop the other processes (`nvidia-smi` shows their names), or use another GPU."
    );
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
    assert_eq!((&oom["pool"], &oom["ledger"]["platform"]), (&"hip:1".into(), &"hip".into()));
    assert!(!oom.to_string().contains("cuda:"), "{oom}");
    // Expandable segments need CUDA.
    assert_eq!(cause(&oom), "fragmentation");
    assert!(advice(&oom).contains("PYTORCH_HIP_ALLOC_CONF=max_split_size_mb"), "{oom}");
    assert!(!advice(&oom).contains("expandable"), "{oom}");
}

#[test]
fn wording_of_xpu_npu_and_mps() {
    let xpu = oom(XPU);
    assert_eq!((&xpu["pool"], cause(&xpu)), (&"xpu:0".into(), "capacity"));
    let first = oom(
        "RuntimeError: XPU out of memory, please use `empty_cache` to release all unoccupied cached memory.",
    );
    assert_eq!(
        (&first["pool"], &first["ledger"]["source"], cause(&first)),
        (&"xpu".into(), &"pytorch".into(), "unknown")
    );
    assert!(first["detail"].as_str().unwrap().contains("no numbers"), "{first}");
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
fn a_request_that_no_device_can_have() {
    let profile =
        opened("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate more than 1EB memory.");
    assert_eq!((ledger(&profile).ledger.requested, profile.warnings.len()), (None, 0));
}

/// Drivers for Windows report this size for any process.
#[test]
fn impossible_sizes_of_processes_are_not_used() {
    let oom = oom(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.13 GiB. GPU 0 has a total capacity of 8.00 GiB of \
         which 1.10 GiB is free. Process 9132 has 17179869184.00 GiB memory in use. Including non-PyTorch memory, this \
         process has 17179869184.00 GiB memory in use. Of the allocated memory 5.90 GiB is allocated by PyTorch, and 0 bytes \
         is reserved by PyTorch but unallocated.",
    );
    assert_eq!((cause(&oom), &oom["ledger"]["process_bytes"]), ("capacity", &Value::Null));
    let kinds: Vec<String> = parts(&oom).into_iter().map(|(kind, _)| kind).collect();
    assert_eq!(kinds, ["allocated", "unallocated", "outside", "free"]);
    for answer in ["detail", "advice", "ledger"] {
        assert!(!oom[answer].to_string().contains("9132"), "{oom}");
    }
}

#[test]
fn advice_depends_on_the_settings() {
    let fragmented = V2_2.replace("40.28 MiB", "3.24 GiB").replace("77.91", "74.71");
    assert!(advice(&oom(&fragmented)).contains("expandable_segments:True"));
    let set = format!("PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\n{fragmented}\n");
    let oom = oom(&set);
    assert_eq!(cause(&oom), "fragmentation");
    assert!(advice(&oom).starts_with("Expandable segments are enabled already."), "{oom}");
    assert_eq!(oom["ledger"]["settings"][0]["value"], "expandable_segments:True");
}

#[test]
fn a_device_with_room_is_not_fragmented() {
    // 8 GiB of the allocator are unused, but the driver had 10 GiB.
    let oom = oom(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity of \
                   79.15 GiB of which 10.00 GiB is free. Including non-PyTorch memory, this process has 69.10 GiB memory in \
                   use. Of the allocated memory 60.00 GiB is allocated by PyTorch, and 8.00 GiB is reserved by PyTorch but \
                   unallocated.",
    );
    assert_eq!((cause(&oom), &oom["advice"]), ("unknown", &Value::Null));
    assert!(oom.to_string().contains("so the cause is unknown"), "{oom}");
}

#[test]
fn wordings_of_tpu_triton_and_level_zero() {
    let tpu = oom(
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of \
                   memory in memory space hbm. Used 18.21G of 15.48G hbm. Exceeded hbm capacity by 2.73G.",
    );
    assert_eq!((cause(&tpu), &tpu["ledger"]["platform"]), ("never_fits", &"tpu".into()));
    assert_eq!(tpu["requested_total"], gib(1821));
    for (log, platform) in [
        ("RuntimeError: Triton Error [CUDA]: out of memory", "cuda"),
        (
            "RuntimeError: Native API failed. Native API returns: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)",
            "xpu",
        ),
        (
            "RuntimeError: level_zero backend failed with error: 39 (UR_RESULT_ERROR_OUT_OF_DEVICE_MEMORY)",
            "xpu",
        ),
    ] {
        let oom = oom(log);
        assert_eq!((cause(&oom), &oom["ledger"]["platform"]), ("unknown", &platform.into()), "{log}");
    }
}

#[test]
fn wording_of_the_asynchronous_allocator() {
    let all = oom(ASYNC);
    assert_eq!((&all["pool"], &all["requested_total"]), (&"cuda:1".into(), &(1u64 << 30).into()));
    assert_eq!(parts(&all), with(&[("allocated", 23040), ("unattributed", 1525), ("free", 0)]));
    assert_eq!((cause(&all), &all["advice"]), ("unknown", &Value::Null));
    assert_eq!(ledger(&opened(ASYNC)).ledger.allowed, None);
    // The tensors alone leave too little.
    let full = oom(&ASYNC.replace("1.00 GiB", "2.00 GiB"));
    assert_eq!(cause(&full), "capacity");
    let limited = oom(&ASYNC.replace("17179869184.00 GiB", "23.00 GiB"));
    assert_eq!(cause(&limited), "memory_limit");
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

fn traceback(message: &str) -> String {
    format!(
        "Traceback (most recent call last):\n  File \"/home/user/model.py\", line 12, in forward\n    y = block(x)\n  File \"/venv/lib/python3.12/site-packages/torch/nn/functional.py\", line 9, in linear\n    return f()\n{message}\n"
    )
}
