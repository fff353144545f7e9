//! The tests of the library through its facade, in one program: linking is what takes time.

// The helpers of tests are tests; clippy's allowance does not see that.
#![allow(clippy::unwrap_used)]

mod allocations;
mod charts;
mod config;
mod corrupt_tt_log;
mod crate_edges;
mod decided_once;
mod dependencies;
mod device_use;
mod earlier_versions;
mod expected;
mod flame;
mod gantt;
mod history;
mod history_classes;
mod history_learned;
mod history_snapshot;
mod last_pass;
mod live_recorder;
mod live_rotation;
mod malformed_tt_log;
mod markdown;
mod model_evidence;
mod numbers_agree;
mod phases;
mod read_cuda_oom;
mod read_memory_profile;
mod read_torch_snapshot;
mod read_tt_json;
mod read_tt_log;
mod read_tt_metal_log;
mod read_tt_train;
mod read_ttnn_db;
mod read_ttnn_graph;
mod read_ttrt_memory;
mod read_watch;
mod record_frame;
mod report_files;
mod report_page;
mod report_unknown;
mod several_processes;
mod shape_proposals;
mod singular_counts;
mod store_writers;
mod suggestions;
mod tracker;
mod tracker_example;
mod tracker_graph;
mod tracker_recording;
mod training;
mod truth;
mod ttnn_l1;
mod verdicts;
mod ways_out;
