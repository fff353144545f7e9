//! Problems found while reading a database, and the warnings about them.

use ttmem_model::words::{by_count, counted, counted_as};

/// The problems found in a rank.
#[derive(Default)]
pub(super) struct Problems {
    /// Rows without an operation.
    pub strays: u64,
    /// Buffer rows without an address, a size or a type.
    pub unreadable: u64,
    /// Operations without buffer rows and without a graph.
    pub unlisted: u64,
    /// Operations without a readable graph.
    pub without_graph: u64,
    /// Graphs that are not lists of nodes.
    pub corrupt: u64,
    pub first_corrupt: Option<String>,
    /// Nodes that allocate or free memory at an unknown address.
    pub unplaced: u64,
    /// Sizes that lack the alignment of an unknown architecture.
    pub unaligned: u64,
    /// Buffers that existed before the first operation and that no list has.
    pub unknown_earlier: u64,
}

impl Problems {
    /// The warnings.
    pub fn messages(self, operations: u64) -> Vec<String> {
        let mut messages = Vec::new();
        if self.strays > 0 {
            let rows = counted_as(
                self.strays,
                "buffer row refers to an operation that does not exist and was",
                "buffer rows refer to operations that do not exist and were",
            );
            messages.push(format!("{rows} skipped"));
        }
        if self.unreadable > 0 {
            let rows = counted_as(
                self.unreadable,
                "buffer row has no address, size or type and was",
                "buffer rows have no address, size or type and were",
            );
            messages.push(format!("{rows} skipped; usage may be too low"));
        }
        if self.unlisted > 0 {
            messages.push(format!(
                "{} no buffer rows; usage after {} is unknown and assumed to be unchanged",
                counted_as(self.unlisted, "operation has", "operations have"),
                by_count(self.unlisted, "it", "them")
            ));
        }
        if let Some(first) = self.first_corrupt {
            let graphs = counted_as(self.corrupt, "captured graph is", "captured graphs are");
            messages.push(format!("{graphs} corrupt and skipped; the first is that of {first}"));
        }
        if self.unplaced > 0 {
            messages.push(format!(
                "{} skipped; actual peaks may be higher",
                counted_as(
                    self.unplaced,
                    "node of a captured graph has no address and was",
                    "nodes of captured graphs have no address and were"
                )
            ));
        }
        if self.without_graph > 0 {
            let which = if self.without_graph == operations {
                "the database has no captured graphs".to_owned()
            } else {
                format!(
                    "{} of {} no captured graph",
                    self.without_graph,
                    counted_as(operations, "operation has", "operations have")
                )
            };
            messages.push(format!(
                "{which}; memory that an operation allocates and frees internally is unknown without one, so actual peaks \
                 may be higher"
            ));
        }
        if self.unknown_earlier > 0 {
            messages.push(format!(
                "operations use {} that existed before the first one and {} not listed, so usage is too low; capture from \
                 the start of the program, or call ttnn.graph.enable_detailed_buffer_tracing() first",
                counted(self.unknown_earlier, "buffer"),
                by_count(self.unknown_earlier, "is", "are")
            ));
        }
        if self.unaligned > 0 {
            messages.push(format!(
                "the database does not name the device architecture, so {} not include the allocator's alignment; each \
                 may be up to 63 bytes per bank too small",
                counted_as(self.unaligned, "buffer size does", "buffer sizes do")
            ));
        }
        messages
    }
}
