//! The L1 of a core in ttnn captures: its layout, programs, errors, and the buffers from before the capture.

#![allow(clippy::needless_pass_by_value, reason = "`json!` makes values that are used once")]

use serde_json::{Value, json};
use ttmem::model::Profile;
use ttmem::query::{Request, memory_map, summary};
use ttmem::read;

/// A node without its counter.
fn node(kind: &str, params: Value, connections: &[u64], level: u64) -> Value {
    json!({"node_type": kind, "params": params, "connections": connections, "stacking_level": level,
        "arguments": [], "input_tensors": []})
}

fn start(name: &str, level: u64) -> Value {
    node("function_start", json!({"name": name, "inputs": "0"}), &[], level)
}

/// The start of a device operation, whose program may come from the cache.
fn operation(name: &str, arguments: &[&str], cached: bool) -> Value {
    let params = json!({"name": name, "program_factory_type": "Factory", "program_cache_hit": cached});
    let mut start = node("function_start", params, &[], 2);
    start["arguments"] = json!(arguments);
    start
}

fn end(name: &str, level: u64) -> Value {
    node("function_end", json!({"name": name}), &[], level)
}

fn program() -> Value {
    node("circular_buffer_deallocate_all", json!({"device_id": 1}), &[], 2)
}

fn circular(size: u64, address: u64, cores: &str, device: u64) -> Value {
    let params = json!({"size": size, "address": address, "core_range_set": cores, "device_id": device,
        "globally_allocated": "0"});
    node("circular_buffer_allocate", params, &[], 2)
}

fn dataflow(size: u64, cores: &str) -> Value {
    let params =
        json!({"size": size, "address": 0, "core_range_set": cores, "device_id": 1, "borrows_memory": "0"});
    node("dataflow_buffer_allocate", params, &[], 2)
}

/// A buffer in L1, and its allocation; `at` is the number of nodes before it.
fn buffer(at: u64, per_bank: u64, address: u64) -> [Value; 2] {
    let size = per_bank * 64;
    [
        node("buffer", json!({"size": size, "type": "L1", "buffer_type": 1, "device_id": 1}), &[], 1),
        node(
            "buffer_allocate",
            json!({"size": size, "type": "L1", "buffer_type": 1, "device_id": 1, "address": address,
                "max_size_per_bank": per_bank, "page_size": 2048, "num_cores": 0, "layout": "INTERLEAVED"}),
            &[at],
            1,
        ),
    ]
}

/// A report of an n150 with the numbers of the nodes filled in.
fn report(nodes: Vec<Value>, rest: Value) -> Value {
    let mut nodes = nodes;
    for (counter, node) in nodes.iter_mut().enumerate() {
        node["counter"] = json!(counter);
    }
    let mut report = json!({
        "devices": [{
            "arch": "WORMHOLE_B0", "worker_l1_size": 1_499_136, "address_at_first_l1_cb_buffer": 105_824,
            "l1_bank_size": 1_376_928, "l1_num_banks": 64, "num_x_compute_cores": 8, "num_y_compute_cores": 8,
            "num_dram_channels": 12, "dram_size_per_channel": 1_073_741_824_u64,
        }],
        "graph": nodes,
    });
    for (key, value) in rest.as_object().into_iter().flatten() {
        report[key] = value.clone();
    }
    report
}

/// Writes a report, and the calls from Python next to it if there are any.
fn opened(report: &Value, calls: Option<&Value>) -> Profile {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.json");
    std::fs::write(&path, report.to_string()).unwrap();
    if let Some(calls) = calls {
        std::fs::write(folder.path().join("run.python_io.json"), calls.to_string()).unwrap();
    }
    read::open(path.to_str().unwrap()).unwrap()
}

fn answer(profiles: &[Profile]) -> Value {
    serde_json::to_value(&summary(profiles, &Request::default()).unwrap().ranks[0]).unwrap()
}

fn warnings(profile: &Profile) -> Vec<&str> {
    profile.warnings.iter().map(|warning| warning.message.as_str()).collect()
}

const ALL: &str = "{[0-0 - 7-7]}";

#[test]
fn the_parts_of_l1_are_those_of_the_core_whose_program_ends_highest() {
    let mut nodes = vec![start("ttnn.empty", 1)];
    nodes.extend(buffer(1, 131_072, 1_351_680));
    nodes.extend([
        end("ttnn.empty", 1),
        start("ttnn.add", 1),
        operation("AddDeviceOperation", &["a"], false),
        program(),
        circular(4096, 105_824, ALL, 0),
        circular(8192, 109_920, "{[0-0 - 3-3]}", 0),
        circular(2048, 109_920, "{[4-4 - 7-7]}", 0),
        end("AddDeviceOperation", 2),
        end("ttnn.add", 1),
    ]);
    let l1 = &answer(&[opened(&report(nodes, json!({})), None)])["l1"];
    assert_eq!(
        (&l1["size_per_core"], &l1["reserved_per_core"], &l1["small_region_per_core"], &l1["grid"]),
        (&json!(1_499_136), &json!(105_824), &json!(16_384), &json!([8, 8]))
    );
    let peak = &l1["peak"];
    assert_eq!((&peak["circular_buffers"], &peak["tensors"]), (&json!(4096 + 8192), &json!(131_072)));
    assert_eq!(peak["bytes"], json!(105_824 + 4096 + 8192 + 131_072 + 16_384));
    assert_eq!((&peak["program_end"], &peak["lowest_tensor"]), (&json!(118_112), &json!(1_351_680)));
    assert_eq!((&peak["headroom"], &l1["peak_is_lower_bound"]), (&json!(1_351_680 - 118_112), &json!(false)));
    let names: Vec<&str> =
        peak["parts"].as_array().unwrap().iter().map(|part| part["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["reserved", "circular buffers", "tensors", "L1_SMALL"]);
}

#[test]
fn a_program_from_the_cache_has_the_buffers_of_its_first_run() {
    let run = |name: &str, arguments: &[&str], cached, buffers: &[Value]| {
        let mut nodes = vec![start(name, 1), operation("XDeviceOperation", arguments, cached), program()];
        nodes.extend(buffers.to_vec());
        nodes.extend([end("XDeviceOperation", 2), end(name, 1)]);
        nodes
    };
    let (small, large) = (circular(4096, 105_824, ALL, 0), circular(65_536, 105_824, ALL, 0));
    let mut nodes = buffer(0, 2048, 1_480_704).to_vec();
    nodes.extend(run("ttnn.add", &["a"], false, std::slice::from_ref(&small)));
    nodes.extend(run("ttnn.add", &["a"], true, &[]));
    nodes.extend(run("ttnn.add", &["b"], true, &[]));
    // Two programs with the same arguments, as far as they are written.
    nodes.extend(run("ttnn.mul", &["<variant>"], false, &[small]));
    nodes.extend(run("ttnn.mul", &["<variant>"], false, &[large]));
    nodes.extend(run("ttnn.mul", &["<variant>"], true, &[]));
    let profile = opened(&report(nodes, json!({})), None);
    let l1 = &answer(std::slice::from_ref(&profile))["l1"];
    assert_eq!((&l1["programs"], &l1["unknown_programs"]), (&json!(6), &json!(2)));
    let steps: Vec<u32> = profile.ranks[0].program_buffers.step.clone();
    assert_eq!(steps, [1, 2, 4, 5]);
    assert!(l1["note"].as_str().unwrap().contains("2 of 6 programs"), "{}", l1["note"]);
}

#[test]
fn the_chips_of_a_mesh_have_the_same_program_buffers() {
    let mut nodes = buffer(0, 2048, 1_480_704).to_vec();
    nodes.extend([start("ttnn.add", 1), operation("XDeviceOperation", &[], false), program()]);
    for address in [105_824, 109_920] {
        nodes.extend([circular(4096, address, ALL, 0), circular(4096, address, ALL, 1)]);
    }
    nodes.extend([end("XDeviceOperation", 2), end("ttnn.add", 1)]);
    let l1 = &answer(&[opened(&report(nodes, json!({})), None)])["l1"];
    assert_eq!(l1["peak"]["circular_buffers"], json!(8192));
    // ttnn counts both chips.
    assert_eq!(l1["ttnn"]["peak_cb"], json!(16_384));
}

#[test]
fn an_error_is_found_in_the_file_next_to_the_report() {
    let mut nodes = vec![start("ttnn.empty", 1)];
    nodes.extend(buffer(1, 131_072, 434_176));
    nodes.push(end("ttnn.empty", 1));
    nodes.push(start("ttnn.softmax", 1));
    nodes.push(operation("SoftmaxDeviceOperation", &[], false));
    let mut failed = end("SoftmaxDeviceOperation", 2);
    failed["params"]["aborted"] = json!("true");
    nodes.extend([failed, end("ttnn.softmax", 1)]);
    let report = report(nodes, json!({}));
    let message = "TT_THROW @ /project/dataflow_buffer.cpp:3096: tt::exception\ninfo:\nStatically allocated dataflow \
        buffers in program 0 clash with L1 buffers on core range [0-0 - 7-7]. L1 buffer allocated at 434176 and static \
        dataflow buffer region ends at 1185120\nbacktrace:\n --- ttnn::softmax(ttnn::Tensor const&)";
    let calls = json!([
        {"name": "ttnn.empty", "arguments": {}},
        {"name": "ttnn.softmax", "error": {"type": "RuntimeError", "message": message},
            "python_stack_trace": ["  File \"/home/me/model.py\", line 12, in forward\n    ttnn.softmax(x)\n"]},
    ]);
    let answer = answer(&[opened(&report, Some(&calls))]);
    let oom = &answer["oom"];
    assert_eq!((&oom["op"], &oom["overlap_bytes"]), (&json!("ttnn.softmax"), &json!(1_185_120 - 434_176)));
    assert_eq!(oom["loc"], json!("/home/me/model.py:12"));
    let lowest = &answer["l1"]["lowest_headroom"];
    assert_eq!((&lowest["headroom"], &lowest["step"]), (&json!(434_176 - 1_185_120), &oom["step"]));
    assert_eq!(
        (&lowest["dataflow_buffers"], &lowest["headroom_is_upper_bound"]),
        (&Value::Null, &json!(false))
    );
    // Without that file, the operation is named.
    let profile = opened(&report, None);
    let said = warnings(&profile);
    assert!(
        said.iter().any(|said| said.contains("ttnn.softmax (step 1)") && said.contains("python_io")),
        "{said:?}"
    );
}

#[test]
fn buffers_from_before_a_detailed_report_are_in_its_pools() {
    let mut nodes = vec![start("ttnn.empty", 1)];
    nodes.extend(buffer(1, 4096, 1_474_560));
    nodes.push(end("ttnn.empty", 1));
    let listed = |address: u64, size: u64| json!({"address": address, "buffer_type": 1, "device_id": 1, "buffer_layout": 0, "max_size_per_bank": size});
    // Keys are in the order of their text, so the first operation comes second.
    let snapshots = json!({"10": [], "0": [listed(1_474_560, 4096), listed(1_478_656, 4096)]});
    let profile = opened(&report(nodes, json!({"per_operation_buffers": snapshots})), None);
    let said = warnings(&profile);
    assert!(matches!(said.as_slice(), [said] if said.contains("1 buffer existed before")), "{said:?}");
    for (at, allocated) in [(0, 4096), (1, 8192)] {
        let map = memory_map(&profile, 0, Some(at)).unwrap();
        let l1 = map.pools.get("L1").unwrap();
        assert_eq!(l1.allocated_per_bank, Some(allocated));
        assert_eq!(l1.largest_free_per_bank, Some(1_376_928 - allocated));
        assert_eq!(l1.buffers.len() as u64, allocated / 4096);
    }
}

/// A program that adds and multiplies, as a capture of a run or without dispatch.
fn two_operations(is_run: bool, tensor: u64, dataflow_bytes: u64) -> Value {
    let mut nodes = vec![start("ttnn.empty", 1)];
    nodes.extend(buffer(1, tensor, if is_run { 1_482_752 - tensor } else { 0 }));
    nodes.push(end("ttnn.empty", 1));
    nodes.extend([start("ttnn.add", 1), operation("AddDeviceOperation", &[], false), program()]);
    nodes.push(circular(4096, if is_run { 105_824 } else { 0 }, ALL, 0));
    nodes.extend([end("AddDeviceOperation", 2), end("ttnn.add", 1)]);
    nodes.extend([start("ttnn.mul", 1), operation("MulDeviceOperation", &[], false), program()]);
    if !is_run {
        nodes.push(dataflow(dataflow_bytes, ALL));
    }
    nodes.extend([end("MulDeviceOperation", 2), end("ttnn.mul", 1)]);
    report(nodes, json!({}))
}

#[test]
fn a_capture_without_dispatch_completes_one_of_a_run() {
    let (run, estimate) = (two_operations(true, 131_072, 0), two_operations(false, 131_072, 700_000));
    let alone = &answer(&[opened(&run, None)])["l1"];
    assert_eq!((&alone["unknown_programs"], &alone["peak_is_lower_bound"]), (&json!(1), &json!(true)));
    for files in [[&run, &estimate], [&estimate, &run]] {
        let profiles = files.map(|file| opened(file, None)).to_vec();
        let completed: Vec<Profile> = read::complete(profiles).into_iter().flatten().collect();
        let [completed] = completed.as_slice() else { panic!("{} profiles", completed.len()) };
        let l1 = &answer(std::slice::from_ref(completed))["l1"];
        assert_eq!((&l1["unknown_programs"], &l1["is_estimate"]), (&json!(0), &json!(false)));
        let lowest = &l1["lowest_headroom"];
        assert_eq!((&lowest["op"], &lowest["dataflow_buffers"]), (&json!("ttnn.mul"), &json!(700_000)));
        assert_eq!(lowest["headroom"], json!(1_351_680 - 105_824 - 700_000));
    }
}

#[test]
fn buffers_that_were_impossible_in_the_run_are_unknown() {
    // The operation ran next to tensors that leave no room for what it takes in an empty L1.
    let (run, estimate) = (two_operations(true, 1_000_000, 0), two_operations(false, 1_000_000, 700_000));
    let profiles = read::complete(vec![opened(&run, None), opened(&estimate, None)]);
    let completed: Vec<Profile> = profiles.into_iter().flatten().collect();
    let l1 = &answer(&completed)["l1"];
    assert_eq!(
        (&l1["unknown_programs"], &l1["lowest_headroom"]["dataflow_buffers"]),
        (&json!(1), &json!(0)),
        "the lowest known headroom is that of the addition"
    );
}

#[test]
fn a_capture_of_another_program_completes_nothing() {
    let run = two_operations(true, 131_072, 0);
    let mut nodes = buffer(0, 2048, 0).to_vec();
    nodes.extend([
        start("ttnn.exp", 1),
        operation("ExpDeviceOperation", &[], false),
        program(),
        dataflow(64, ALL),
    ]);
    nodes.extend([end("ExpDeviceOperation", 2), end("ttnn.exp", 1)]);
    let profiles = vec![opened(&run, None), opened(&report(nodes, json!({})), None)];
    let kept = read::complete(profiles);
    let [Some(run), Some(other)] = kept.as_slice() else { panic!("{}", kept.len()) };
    assert!(warnings(other).iter().any(|said| said.contains("another program")), "{:?}", warnings(other));
    assert_eq!(answer(std::slice::from_ref(run))["l1"]["unknown_programs"], json!(1));
}

#[test]
fn an_estimate_that_does_not_fit_has_a_verdict() {
    let answer = answer(&[opened(&two_operations(false, 1_000_000, 700_000), None)]);
    let verdict = &answer["l1"]["verdict"];
    assert!(verdict["headline"].as_str().unwrap().starts_with("May not fit: L1 is "), "{verdict}");
    assert!(verdict["detail"].as_str().unwrap().contains("ttnn.mul"), "{verdict}");
    assert_eq!(answer["l1"]["lowest_headroom"]["headroom"], json!(1_482_752 - 1_000_000 - 105_824 - 700_000));
    // The sizes of tensors are certain.
    let too_large =
        &self::answer(&[opened(&two_operations(false, 1_400_000, 700_000), None)])["l1"]["verdict"];
    assert!(too_large["headline"].as_str().unwrap().starts_with("Does not fit: L1 is "), "{too_large}");
    let fits = &self::answer(&[opened(&two_operations(false, 1000, 700_000), None)])["l1"]["verdict"];
    assert_eq!(fits, &Value::Null);
}

#[test]
fn buffers_of_programs_without_addresses_are_placed_as_in_tt_metal() {
    // The second buffer begins after the first on the cores that it shares; the third is on other cores, but in the range
    // of the fourth, which covers all.
    let mut nodes = buffer(0, 2048, 0).to_vec();
    nodes.extend([start("ttnn.x", 1), operation("XDeviceOperation", &[], false), program()]);
    nodes.extend([
        dataflow(4096, "{[0-0 - 3-3]}"),
        dataflow(1000, "{[0-0 - 0-0]}"),
        dataflow(2048, "{[4-4 - 7-7]}"),
        dataflow(512, ALL),
    ]);
    nodes.extend([end("XDeviceOperation", 2), end("ttnn.x", 1)]);
    let profile = opened(&report(nodes, json!({})), None);
    let l1 = ttmem::query::analyze::l1::L1::of(&profile, &profile.ranks[0]).unwrap();
    let starts: Vec<u64> = l1.placed(1).iter().map(|placed| placed.start - 105_824).collect();
    assert_eq!(starts, [0, 4096, 5120, 7168]);
}

#[test]
fn sizes_that_ttnn_writes_with_32_bits_are_restored() {
    let per_bank: u64 = 5 << 30;
    let mut nodes = buffer(0, per_bank, 0).to_vec();
    nodes[1]["params"]["max_size_per_bank"] = json!(per_bank % (1 << 32));
    let profile = opened(&report(nodes, json!({})), None);
    assert_eq!(
        memory_map(&profile, 0, None).unwrap().pools.get("L1").unwrap().allocated_per_bank,
        Some(per_bank)
    );
}

#[test]
fn buffers_of_earlier_l1_tensors_make_the_figures_bounds() {
    // An operation reads a buffer in L1 that the capture did not allocate.
    let mut nodes = buffer(0, 2048, 1_480_704).to_vec();
    nodes.extend([start("ttnn.add", 1), operation("AddDeviceOperation", &[], false)]);
    nodes.push(node(
        "buffer",
        json!({"size": 1 << 26, "type": "L1", "buffer_type": 1, "device_id": 1}),
        &[],
        2,
    ));
    nodes.extend([
        program(),
        circular(4096, 105_824, ALL, 0),
        end("AddDeviceOperation", 2),
        end("ttnn.add", 1),
    ]);
    let l1 = &answer(&[opened(&report(nodes, json!({})), None)])["l1"];
    assert_eq!(
        (&l1["peak_is_lower_bound"], &l1["lowest_headroom"]["headroom_is_upper_bound"]),
        (&json!(true), &json!(true))
    );
    assert!(l1["note"].as_str().unwrap().contains("before the capture"), "{}", l1["note"]);
}

#[test]
fn buffers_of_other_devices_are_not_added() {
    let mut nodes = buffer(0, 4096, 1_478_656).to_vec();
    nodes.extend(buffer(2, 4096, 1_478_656));
    for node in &mut nodes[2..] {
        node["params"]["device_id"] = json!(2);
    }
    let profile = opened(&report(nodes, json!({})), None);
    assert_eq!(
        memory_map(&profile, 0, None).unwrap().pools.get("L1").unwrap().allocated_per_bank,
        Some(4096)
    );
    assert!(warnings(&profile)[0].contains("several devices"), "{:?}", warnings(&profile));
}

#[test]
fn a_failed_call_without_a_function_is_still_an_error() {
    let mut nodes = vec![start("ttnn.empty", 1)];
    nodes.extend(buffer(1, 4096, 1_478_656));
    nodes.push(end("ttnn.empty", 1));
    let message = "TT_FATAL @ bank_manager.cpp:439: false\ninfo:\nOut of Memory: Not enough space to allocate 8388608 B L1 \
        buffer across 64 banks, where each bank needs to store 131072 B, but bank size is 1376928 B (allocated: 1310720 B, \
        free: 66208 B, largest free block: 66208 B)";
    let failed = json!({"name": "ttnn.zeros", "error": {"type": "RuntimeError", "message": message}});
    let fine = json!({"name": "ttnn.empty"});
    for calls in [json!([failed, fine]), json!([fine, failed])] {
        let oom = &answer(&[opened(&report(nodes.clone(), json!({})), Some(&calls))])["oom"];
        assert_eq!(
            (&oom["op"], &oom["requested_per_bank"]),
            (&json!("ttnn.zeros"), &json!(131_072)),
            "{calls}"
        );
    }
}

#[test]
fn the_calls_from_python_alone_are_refused_with_advice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.python_io.json");
    std::fs::write(&path, r#"[{"name": "ttnn.add", "arguments": {}, "input_tensor_ids": [1]}]"#).unwrap();
    let error = read::open(path.to_str().unwrap()).unwrap_err().to_string();
    assert!(error.contains("run.json"), "{error}");
}

#[test]
fn very_many_core_ranges_take_no_time() {
    let cores: Vec<String> = (0..3000).map(|at| format!("[{at}-{at} - {at}-{at}]")).collect();
    let mut nodes = buffer(0, 2048, 0).to_vec();
    nodes.extend([start("ttnn.x", 1), operation("XDeviceOperation", &[], false), program()]);
    nodes.extend(cores.iter().map(|cores| dataflow(64, cores)));
    nodes.push(dataflow(128, "unreadable"));
    nodes.extend([end("XDeviceOperation", 2), end("ttnn.x", 1)]);
    let peak = &answer(&[opened(&report(nodes, json!({})), None)])["l1"]["peak"];
    // The buffer whose cores cannot be read is on all of them.
    assert_eq!((&peak["dataflow_buffers"], &peak["program_end"]), (&json!(192), &json!(105_824 + 64 + 128)));
}
