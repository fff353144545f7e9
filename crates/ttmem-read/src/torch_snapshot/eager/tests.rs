//! Compares traces that are placed while they are read with the same traces placed afterwards. In tests, a few entries are
//! enough to start the second thread.

use std::fs::File;
use std::io::Read;

use flate2::read::GzDecoder;
use ttmem_model::{Builder, Profile};

use super::super::TorchSnapshot;
use crate::input::{ForHistory, Input};
use crate::siblings::Siblings;
use crate::{Reader, Sniff, history};

/// Reads a snapshot. Also returns whether its history was placed while it was read.
fn read(bytes: &[u8], is_eager: bool) -> (Profile, bool) {
    let (mut builder, mut placed) = (Builder::new(), None);
    let for_history = is_eager.then_some(ForHistory { placed: &mut placed, size: None });
    let input = Input {
        name: "snapshot.pickle",
        sniff: Sniff::Yes,
        is_requested: false,
        stream: Box::new(std::io::Cursor::new(bytes.to_vec())),
        rereadable: false,
        siblings: Siblings::new(None, None),
        allow_interleaved: false,
        for_history,
    };
    TorchSnapshot.read(input, &mut builder).unwrap();
    let mut profile = builder.finish();
    history::place(&mut profile);
    let was_eager = placed.is_some();
    if let Some(placed) = placed {
        placed.give(&mut profile);
    }
    (profile, was_eager)
}

#[test]
fn a_trace_has_the_same_profile_however_it_is_placed() {
    // The others begin with memory in use, have annotations, or are of an allocator with other settings.
    let from_empty = ["oom_gpt2_124m"];
    for name in [
        "cpp_stacks_gpt2_30m",
        "graph_expandable_pools",
        "oom_gpt2_124m",
        "train_gpt2_30m",
        "wrapped_ring_gpt2_30m",
    ] {
        let file = format!("{}/../../corpus/torch_snapshot/{name}.pickle.gz", env!("CARGO_MANIFEST_DIR"));
        let mut bytes = Vec::new();
        GzDecoder::new(File::open(file).unwrap()).read_to_end(&mut bytes).unwrap();
        let ((wanted, _), (found, was_eager)) = (read(&bytes, false), read(&bytes, true));
        assert_eq!(found, wanted, "{name}");
        assert_eq!(was_eager, from_empty.contains(&name), "{name}");
    }
}
