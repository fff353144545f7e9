//! The example prints what `examples/expected.txt` says, as those in C and C++ do.

#[path = "../../examples/tracker.rs"]
#[allow(dead_code, reason = "its main is called by nobody here")]
mod example;

use ttmem::record::tracker::MemoryUsageTracker;

#[test]
fn the_example_prints_what_is_expected() {
    let mut out = Vec::new();
    example::train(&MemoryUsageTracker::new(), &mut out).unwrap();
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/expected.txt");
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        std::fs::write(path, &out).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), String::from_utf8(out).unwrap());
}
