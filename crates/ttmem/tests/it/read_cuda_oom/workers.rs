//! Workers of Ray, inference servers, NCCL and JAX, and where errors without numbers occurred.

use serde_json::Value;
use ttmem::Error;
use ttmem::query::{self, Request};

use super::{V2_2, advice, cause, oom, oom_of, opened, refused};

// ---------------------------------------------------------------------------------------------- Ray

fn behind(prefix: &str, log: &str) -> String {
    let lines: Vec<String> = log.lines().map(|line| format!("{prefix}{line}\n")).collect();
    lines.concat()
}

fn of_ray(worker: &str, log: &str) -> String {
    behind(&format!("({worker}) "), log)
}

#[test]
fn workers_of_ray_differ_in_process_and_machine() {
    let first = of_ray("train_fn pid=123, ip=10.0.0.4", &super::traceback(V2_2));
    let second = of_ray("train_fn pid=123, ip=10.0.0.5", &V2_2.replace("46.50 MiB", "40.50 MiB"));
    let driver = "ray.exceptions.RayTaskError(OutOfMemoryError): ray::train_fn() (pid=123, ip=10.0.0.4)\n";
    let profile = opened(&format!("(pid=123) INFO starting\n{first}{second}{driver}{V2_2}\n"));
    let summary = query::summary(std::slice::from_ref(&profile), &Request::default()).unwrap();
    let ranks: Vec<&str> = summary.ranks.iter().map(|rank| rank.rank.as_deref().unwrap()).collect();
    assert_eq!(ranks, ["pid 123 on 10.0.0.4", "pid 123 on 10.0.0.5"]);
    let loc = |rank: usize| summary.ranks[rank].oom.as_ref().unwrap().loc.as_deref();
    assert_eq!((loc(0), loc(1)), (Some("/home/user/model.py:12"), None));
}

#[test]
fn errors_that_ray_does_not_print() {
    let first = of_ray("train_fn pid=123, ip=10.0.0.4", V2_2);
    let repeated = format!("{} [repeated 7x across cluster]", V2_2.replace("46.50 MiB", "40.50 MiB"));
    let second = of_ray("train_fn pid=124, ip=10.0.0.5", &repeated);
    let both = oom(&format!("{first}{second}"));
    assert!(
        both["detail"].as_str().unwrap().ends_with(
            "Rank pid 123 on 10.0.0.4 failed first; 7 more workers reported the same error (Ray printed only pid 124 \
             on 10.0.0.5)."
        ),
        "{both}"
    );
    let one = oom(&second);
    assert!(one["detail"].as_str().unwrap().contains("7 more workers reported the same error"), "{one}");
    assert_eq!(one["ledger"]["repeated"], 7);
    let plain = oom(&first);
    assert!(!plain["detail"].as_str().unwrap().contains("workers"), "{plain}");
}

// ---------------------------------------------------------------------------------------------- inference servers

const FULL: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB. GPU 0 has a total capacity of 23.52 GiB of which 120.00 MiB is free. Including non-PyTorch memory, this process has 23.38 GiB memory in use. Of the allocated memory 21.60 GiB is allocated by PyTorch, with 118.00 MiB allocated in private pools (e.g., CUDA Graphs), and 150.20 MiB is reserved by PyTorch but unallocated.";

#[test]
fn advice_for_vllm() {
    let start = "INFO 06-11 10:00:21 [gpu_model_runner.py:1892] Model loading took 14.9889 GiB and 12.311882 seconds\nINFO 06-11 10:00:40 [gpu_worker.py:276] Available KV cache memory: 4.21 GiB\n";
    let capturing = "Capturing CUDA graph shapes:  46%|####      | 31/67 [00:12<00:14,  2.49it/s]\n";
    let failed = format!("(EngineCore_0 pid=4242) ERROR 06-11 10:01:00 [core.py:700] {FULL}\n");
    let captured = oom(&format!("{start}{capturing}{failed}"));
    assert_eq!(
        (&captured["ledger"]["server"], &captured["ledger"]["activity"]),
        (&"vllm".into(), &"cuda_graphs".into())
    );
    for option in ["--gpu-memory-utilization", "--max-model-len", "--max-num-seqs", "--enforce-eager"] {
        assert!(advice(&captured).contains(option), "{captured}");
    }
    let served = oom(&format!("{start}{failed}"));
    assert!(!advice(&served).contains("--enforce-eager") && !advice(&served).contains("bf16"), "{served}");
    // A trainer next to a server is not the server.
    let trainer = oom(&format!("{start}{}", super::traceback(FULL)));
    assert_eq!(trainer["ledger"]["server"], Value::Null);
    assert!(advice(&trainer).contains("smaller batch"), "{trainer}");
    let frames = super::traceback(FULL).replace("torch/nn/functional.py", "vllm/v1/worker/gpu_worker.py");
    assert_eq!(oom(&frames)["ledger"]["server"], "vllm");
}

#[test]
fn advice_for_sglang() {
    let bare = FULL.split_once(": ").unwrap().1;
    let text = format!(
        "[2025-06-11 10:00:50 TP0] Scheduler hit an exception: Traceback (most recent call last):\n  File \"/sgl/python/sglang/srt/managers/scheduler.py\", line 2000, in run_scheduler_process\nException: Capture cuda graph failed: {bare}\nPossible solutions:\n1. set --mem-fraction-static to a smaller value (e.g., 0.8 or 0.7)\n"
    );
    let oom = oom(&text);
    assert_eq!(
        (&oom["ledger"]["server"], &oom["ledger"]["activity"]),
        (&"sglang".into(), &"cuda_graphs".into())
    );
    for option in ["--mem-fraction-static", "--cuda-graph-max-bs"] {
        assert!(advice(&oom).contains(option), "{oom}");
    }
}

#[test]
fn a_server_without_room_for_its_cache() {
    let prefix = "(EngineCore_0 pid=7) ERROR 06-11 10:00:41 [core.py:700] ValueError: ";
    let needed = "To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, which is larger than the available KV cache memory (4.21 GiB). Based on the available memory, the estimated maximum model length is 34480. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.";
    for text in [format!("{prefix}{needed}"), needed.to_owned(), needed.replace(". Based", ".\nBased")] {
        let oom = oom(&text);
        assert_eq!((cause(&oom), &oom["ledger"]["server"]), ("kv_cache", &"vllm".into()), "{text}");
        assert_eq!(oom["requested_total"].as_u64(), Some(16 << 30));
        let known = ["needed_tokens", "possible_tokens", "available_cache_bytes"];
        let known = known.map(|name| oom["ledger"][name].as_u64());
        assert_eq!(known, [Some(131_072), Some(34_480), Some(super::gib(421))]);
        assert_eq!(
            advice(&oom),
            "Lower --max-model-len to 34480 or less, or raise --gpu-memory-utilization."
        );
    }
    let none = "INFO 06-11 10:00:21 [x.py:1] Model loading took 14.9889 GiB and 12.311882 seconds\nINFO 06-11 10:00:40 [x.py:2] Available KV cache memory: -1.21 GiB\nERROR 06-11 10:00:41 [core.py:700] ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.\n";
    let oom = oom(none);
    assert_eq!(oom["headline"], "Out of memory: no memory is left for the KV cache.");
    assert_eq!(oom["detail"], "vLLM did not start; the weights take 14.99 GiB.");
    assert!(advice(&oom).starts_with("Raise --gpu-memory-utilization"), "{oom}");
    let tokens = "ERROR 01-12 08:36:38 multiproc_worker_utils.py:233] Exception in worker VllmWorkerProcess while processing method initialize_cache: The model's max seq len (131072) is larger than the maximum number of tokens that can be stored in KV cache (86432). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine., Traceback (most recent call last):\n";
    assert!(advice(&self::oom(tokens)).starts_with("Lower --max-model-len to 86432 or less"));
    let bare = "No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.";
    assert_eq!(cause(&self::oom(bare)), "kv_cache");
    let sglang = "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.\n";
    let oom = self::oom(sglang);
    assert_eq!((cause(&oom), &oom["ledger"]["server"]), ("kv_cache", &"sglang".into()));
    assert!(advice(&oom).starts_with("Raise --mem-fraction-static"), "{oom}");
}

// ---------------------------------------------------------------------------------------------- errors without numbers

#[test]
fn the_last_error_of_nccl() {
    let header = "torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:94, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.26.2\nncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\n";
    let log = super::traceback(&format!("{header}Cuda failure 2 'out of memory'"));
    let found = oom(&log);
    assert_eq!(
        (&found["ledger"]["source"], &found["loc"]),
        (&"nccl".into(), &"/home/user/model.py:12".into())
    );
    let tagged = behind("[rank3]: ", &format!("{header}Failed to CUDA calloc async 608 bytes\n"));
    let profile = opened(&format!(
        "{tagged}node1:812:1200 [3] include/alloc.h:205 NCCL WARN Cuda failure 2 'out of memory'\n"
    ));
    assert_eq!(profile.ranks.len(), 1);
    assert_eq!(profile.text(profile.ranks[0].label.unwrap()), "3");
    let oom = oom_of(&profile);
    assert_eq!(oom["requested_total"], 608);
    assert!(advice(&oom).starts_with("NCCL allocates outside"), "{oom}");
    let warned =
        self::oom("node1:812:1200 [3] include/alloc.h:205 NCCL WARN Cuda failure 2 'out of memory'\n");
    assert_eq!(warned["pool"], "cuda:3");
    // Without labels, NCCL's own lines say which device failed.
    let line = |device: u32| {
        format!("node1:812:1200 [{device}] include/alloc.h:205 NCCL WARN Cuda failure 2 'out of memory'\n")
    };
    let both = opened(&format!("{}{log}", line(3)));
    assert_eq!(both.ranks.len(), 1);
    let both = oom_of(&both);
    assert_eq!((&both["pool"], &both["loc"]), (&"cuda:3".into(), &"/home/user/model.py:12".into()));
    assert_eq!(opened(&format!("{}{}{log}", line(3), line(5))).ranks.len(), 2);
    // Another failure of CUDA is not about memory.
    refused(format!("{header}Cuda failure 1 'invalid argument'\n").as_bytes());
}

#[test]
fn pasted_and_notebook_tracebacks() {
    let pasted = "  File \"/home/me/model.py\", line 20, in forward\n    return F.linear(input, self.weight, self.bias)\n";
    for error in [
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "RuntimeError: CUDA error: out of memory",
    ] {
        assert_eq!(oom(&format!("{pasted}{error}\n"))["loc"], "/home/me/model.py:20", "{error}");
    }
    let message = V2_2.split_once(": ").unwrap().1;
    let notebook = format!(
        "\u{1b}[31mOutOfMemoryError\u{1b}[39m                          Traceback (most recent call last)\n\u{1b}[36mCell\u{1b}[39m\u{1b}[36m \u{1b}[39m\u{1b}[32mIn[7]\u{1b}[39m\u{1b}[32m, line 3\u{1b}[39m\n\u{1b}[32m----> 3\u{1b}[39m out = model(x)\nFILE\u{1b}[31mOutOfMemoryError\u{1b}[39m: {message}\n"
    );
    assert_eq!(oom(&notebook.replace("FILE", ""))["loc"], "In[7]:3");
    let file = "\u{1b}[36mFile \u{1b}[39m\u{1b}[32m~/proj/model.py:41\u{1b}[39m, in \u{1b}[36mNet.forward\u{1b}[39m\u{1b}[34m(self, x)\u{1b}[39m\n";
    assert_eq!(oom(&notebook.replace("FILE", file))["loc"], "~/proj/model.py:41");
}

#[test]
fn jax_states_what_its_executable_needs() {
    let error = "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 3276800000 bytes.\n";
    let stats = "BufferAssignment OOM Debugging.\nBufferAssignment stats:\n             parameter allocation:    1.22GiB\n              constant allocation:         0B\n        maybe_live_out allocation:    1.22GiB\n     preallocated temp allocation:   12.45GiB\n  preallocated temp fragmentation:  512.0KiB (0.00%)\n                 total allocation:   14.89GiB\n";
    let with_stats = oom(&format!("{error}{stats}"));
    assert!(
        with_stats["detail"].as_str().unwrap().ends_with(
            "The executable needs 14.89 GiB in total (parameters 1.22 GiB, outputs 1.22 GiB, temporary buffers 12.45 GiB)."
        ),
        "{with_stats}"
    );
    assert_eq!(with_stats["ledger"]["executable"][3]["bytes"].as_u64(), Some(super::gib(1489)));
    let without = oom(error);
    assert_eq!(without["ledger"]["executable"].as_array().unwrap().len(), 0);
    let request = "E0000 x.cc:1] Execution of replica 0 failed: RESOURCE_EXHAUSTED: Failed to allocate request for 154.06GiB (165425291480B) on device ordinal 0\n";
    assert_eq!(oom(request)["requested_total"].as_u64(), Some(165_425_291_480));
}

#[test]
fn errors_about_unsupported_texts_say_so() {
    let tensorflow = "2024-01-01 00:00:00.000000: W tensorflow/core/common_runtime/bfc_allocator.cc:497] Allocator (GPU_0_bfc) ran out of memory trying to allocate 256.00MiB (rounded to 268435456)requested by op conv2d\ntensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[64,256,128,128] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc [Op:Conv2D]\n";
    let error = refused(tensorflow.as_bytes()).to_string();
    assert!(error.contains("TensorFlow, which is not supported"), "{error}");
    let error = refused(b"hello\nworld\n");
    assert!(matches!(error, Error::UnknownFormat { .. }));
    assert!(error.to_string().contains("PyTorch"), "{error}");
}
