//! Reads `.ttmem` files, which contain events.

use ttmem_model::{Result, Sink, frame};

use super::{Input, Reader, Sniff};

/// The reader of `.ttmem` files.
pub(super) struct TtmemFile;

impl Reader for TtmemFile {
    fn name(&self) -> &'static str {
        "ttmem"
    }

    fn about(&self) -> &'static str {
        "a ttmem profile or recording (.ttmem)"
    }

    fn capture(&self) -> &'static str {
        "ttmem report writes a profile into every report folder"
    }

    fn sniff(&self, head: &[u8]) -> Sniff {
        if frame::is_ttmem(head) { Sniff::Yes } else { Sniff::No }
    }

    fn read(&self, mut input: Input<'_>, sink: &mut dyn Sink) -> Result<()> {
        frame::read(&mut input.stream, input.name, sink)
    }
}
