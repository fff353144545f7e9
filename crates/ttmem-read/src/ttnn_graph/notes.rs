//! Problems found while reading a capture, and the warnings about them.

use ttmem_model::Result;
use ttmem_model::words::{by_count, counted, counted_as};

use crate::json::Corruption;
use crate::tt_log::tables::Tables;

/// Problems found during the walk.
#[derive(Default)]
pub(super) struct Notes {
    pub no_nodes: Count,
    pub no_sizes: Count,
    pub unknown_kinds: Count,
    pub freed_twice: Count,
    pub allocated_twice: Count,
    /// Freed buffers that were allocated before the capture.
    pub from_before: u64,
    pub from_before_bytes: u64,
    /// The first node whose counter does not match its position.
    pub out_of_order: Option<u64>,
    /// L1 buffers without a size per core.
    pub no_share: Count,
    /// Buffers whose size depends on an architecture that the capture does not identify.
    pub undecided: usize,
    /// Buffers from before the capture with a size that lacks padding.
    pub unpadded: u64,
    /// Operations that failed, without their errors.
    pub failed: Count,
    /// Buffers of other devices than the first.
    pub other_devices: u64,
    pub buffers: u64,
    pub with_address: u64,
}

/// The number of occurrences of a problem, and the first one.
#[derive(Default)]
pub(super) struct Count {
    pub count: u64,
    pub first: Option<String>,
}

impl Count {
    pub fn add(&mut self, first: impl FnOnce() -> String) {
        self.count += 1;
        self.first.get_or_insert_with(first);
    }
}

/// Further facts that the warnings depend on.
pub(super) struct Context<'a> {
    pub nodes: u64,
    /// Buffers without a size per bank in pools of buffers that have one.
    pub without_banks: u64,
    /// Whether the report lists the buffers that existed before the capture.
    pub lists_earlier_buffers: bool,
    /// The rank of the process, if there are several.
    pub rank: Option<u64>,
    pub corruption: Option<&'a Corruption>,
}

impl Notes {
    /// Whether nothing ran: then every address is 0.
    pub fn is_estimate(&self) -> bool {
        self.buffers > 0 && self.with_address == 0
    }

    /// Emits the warnings.
    pub fn warn(self, context: &Context<'_>, tables: &mut Tables<'_>) -> Result<()> {
        if let Some(Corruption { line, why }) = context.corruption {
            let message = format!(
                "the capture is corrupt ({why}); the report covers {} before this line",
                counted(context.nodes, "node")
            );
            tables.warn(Some(*line), message)?;
        }
        if let Some(first) = self.out_of_order {
            let message = format!(
                "the counter of node {first} does not match its position in the list; the capture is not in execution \
                 order, so L1 usage is unknown; everything else follows the order of the list"
            );
            tables.warn(None, message)?;
        }
        for message in self.counts().into_iter().chain(self.sizes(context)).chain(self.earlier(context)) {
            tables.warn(None, message)?;
        }
        if self.other_devices > 0 {
            let message = format!(
                "the capture covers several devices; only the first is shown, without {} of the others",
                counted(self.other_devices, "allocation")
            );
            tables.warn(None, message)?;
        }
        if let Some(rank) = context.rank {
            tables.warn(None, format!("the capture covers rank {rank} only"))?;
        }
        Ok(())
    }

    fn counts(&self) -> Vec<String> {
        let skipped = "skipped, so usage may be wrong";
        let counts = [
            (&self.no_nodes, "element is not a node and was", "elements are not nodes and were", "skipped"),
            (&self.no_sizes, "node has no size and was", "nodes have no size and were", skipped),
            (
                &self.unknown_kinds,
                "node has an unknown kind and was",
                "nodes have an unknown kind and were",
                skipped,
            ),
            (
                &self.freed_twice,
                "buffer is",
                "buffers are",
                "freed twice; the totals count both, as ttnn does, but the pools count one",
            ),
            (&self.no_share, "L1 buffer has", "L1 buffers have", "no size per bank, so L1 usage is unknown"),
            (
                &self.allocated_twice,
                "buffer is",
                "buffers are",
                "allocated again without being freed; both allocations are counted",
            ),
            (
                &self.failed,
                "operation failed, but its error is",
                "operations failed, but their errors are",
                "not in the capture; keep the file NAME.python_io.json next to the report NAME.json, or read the log",
            ),
        ];
        let text = |(found, one, several, what): (&Count, &str, &str, &str)| {
            let first = found.first.as_ref()?;
            Some(format!("{} {what}; the first is {first}", counted_as(found.count, one, several)))
        };
        counts.into_iter().filter_map(text).collect()
    }

    fn sizes(&self, context: &Context<'_>) -> Vec<String> {
        let mut messages = Vec::new();
        if context.without_banks > 0 {
            messages.push(format!(
                "{} no size per bank, unlike other buffers of the same pool, so the pool's usage is unknown",
                counted_as(context.without_banks, "buffer has", "buffers have")
            ));
        }
        if self.undecided > 0 {
            messages.push(format!(
                "the capture does not identify the architecture (Wormhole or Blackhole), which determines the \
                 alignment of buffers, so the size per bank of {} is unknown, and so is the usage of the pools; \
                 capture with end_graph_capture_to_file, which records the architecture",
                counted(self.undecided, "buffer")
            ));
        }
        messages
    }

    fn earlier(&self, context: &Context<'_>) -> Option<String> {
        if self.unpadded > 0 {
            return Some(format!(
                "{} existed before the capture; the report lists {} without padding, so pools may use slightly more",
                counted(self.unpadded, "buffer"),
                by_count(self.unpadded, "its size", "their sizes")
            ));
        }
        if self.from_before == 0 || context.lists_earlier_buffers {
            return None;
        }
        Some(format!(
            "{} ({} bytes) {} allocated before the capture began; totals start at zero, as in ttnn, and earlier \
             buffers that were not freed are missing from the capture",
            counted(self.from_before, "freed buffer"),
            self.from_before_bytes,
            by_count(self.from_before, "was", "were")
        ))
    }
}
