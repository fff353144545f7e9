//! Which of several recordings used the most device memory.

use std::path::Path;

use ttmem::query::{DeviceUse, Request, Summary, summary};
use ttmem::read;

fn recorded(name: &str) -> Summary {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus").join(name);
    summary(&[read::open(path.to_str().unwrap()).unwrap()], &Request::default()).unwrap()
}

/// The summary of a CPU program with these peaks.
fn program(cpu: u64, host: u64) -> Summary {
    let mut summary = recorded("ttmem/0.1.0/tensors.ttmem");
    for (name, pool) in &mut summary.ranks[0].pools.0 {
        pool.peak_total = Some(if name == "host" { host } else { cpu });
    }
    summary
}

#[test]
fn the_memory_of_the_process_does_not_count() {
    let (trains, loads) = (DeviceUse::of(&program(200, 300)), DeviceUse::of(&program(40, 9_000)));
    assert_eq!(trains, DeviceUse { accelerator: 0, cpu: 200 });
    assert!(trains > loads);
    assert!(DeviceUse::of(&program(0, 9_000)).is_empty() && !loads.is_empty());
}

#[test]
fn a_device_counts_more_than_the_cpu() {
    let gpu = DeviceUse::of(&recorded("ttmem/0.1.0/cuda_tensors.ttmem"));
    assert_eq!(gpu, DeviceUse { accelerator: 89_180_672, cpu: 4_204_544 });
    assert!(gpu > DeviceUse::of(&program(u64::MAX, 0)));
    assert!(gpu < DeviceUse::of(&recorded("ttmem/0.1.0/phases.ttmem")));
    assert!(DeviceUse::of(&recorded("tt_log/vae-decoder.log")).accelerator > 4 << 30);
    // Phases have no pools.
    let phases = DeviceUse::of(&recorded("tt_train/tinyllama.log"));
    assert!(phases.accelerator > 8 << 30 && phases.cpu == 0, "{phases:?}");
}
