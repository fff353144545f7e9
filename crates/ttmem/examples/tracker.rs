//! The tracker in a program that simulates training: four layers, an optimizer, two micro-batches.
//!
//! `examples/cpp/main.cpp` and `examples/c/main.c` do the same and print the same output. With a path it also writes a
//! recording: `cargo run -p ttmem --example tracker -- train.ttmem`, then `ttmem summary train.ttmem`.

use std::io::Write;

use ttmem::record::tracker::{MemoryUsageTracker, Pool, RunMode};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const LAYERS: u64 = 4;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tracker = match std::env::args_os().nth(1) {
        Some(path) => MemoryUsageTracker::recording_to(path)?,
        None => MemoryUsageTracker::new(),
    };
    train(&tracker, &mut std::io::stdout())?;
    Ok(tracker.finish()?)
}

/// One iteration, followed by its memory usage.
pub fn train(tracker: &MemoryUsageTracker, out: &mut impl Write) -> Result<(), Box<dyn std::error::Error>> {
    let guard = tracker.begin_capture(RunMode::Normal)?;

    for layer in 0..LAYERS {
        tracker.record_alloc(100 + layer, 12 * MIB + layer * 64 * KIB, Pool::Dram);
    }
    tracker.snapshot("MODEL_CREATION")?;

    for layer in 0..LAYERS {
        tracker.record_alloc(200 + layer, 24 * MIB, Pool::Dram);
    }
    tracker.snapshot("OPTIMIZER_CREATION")?;

    for _micro_batch in 0..2 {
        forward(tracker);
        tracker.snapshot("FORWARD_PASS")?;
        backward(tracker);
        tracker.snapshot("BACKWARD_PASS")?;
    }
    for layer in 0..LAYERS {
        tracker.record_free(500 + layer);
    }
    tracker.end_capture("ITERATION_COMPLETE")?;
    tracker.print_memory_usage(out)?;

    let model = tracker.get_dram_usage("MODEL_CREATION")?;
    writeln!(out, "The model takes {} bytes.", model.change())?;
    if let Err(error) = tracker.get_dram_usage("FORWARD_PASS") {
        writeln!(out, "{error}")?;
    }
    drop(guard);
    Ok(())
}

/// Each layer runs a program and keeps its activation.
fn forward(tracker: &MemoryUsageTracker) {
    for layer in 0..LAYERS {
        tracker.record_circular_buffers_gone();
        tracker.record_circular_buffer(96 * KIB, "{[(x=0,y=0) - (x=7,y=7)]}", false);
        tracker.record_alloc(300 + layer, 6 * MIB, Pool::Dram);
        tracker.record_alloc(400, 200 * KIB, Pool::L1);
        tracker.record_free(400);
    }
}

/// Each layer frees its activation and allocates a gradient. The second micro-batch's gradients are added to the
/// first's.
fn backward(tracker: &MemoryUsageTracker) {
    let is_first = !tracker.get_trace_names().iter().any(|name| name == "BACKWARD_PASS");
    for layer in (0..LAYERS).rev() {
        tracker.record_circular_buffers_gone();
        tracker.record_circular_buffer(128 * KIB, "{[(x=0,y=0) - (x=7,y=7)]}", false);
        tracker.record_alloc(600, 12 * MIB, Pool::Dram);
        if is_first {
            tracker.record_alloc(500 + layer, 12 * MIB, Pool::Dram);
        }
        tracker.record_free(600);
        tracker.record_free(300 + layer);
    }
}
