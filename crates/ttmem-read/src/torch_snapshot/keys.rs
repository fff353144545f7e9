//! The keys that snapshots are known to contain.

use super::heap::TextId;

macro_rules! keys {
    ($($name:ident = $text:literal,)*) => {
        /// A key of a snapshot's dictionaries. The texts of all keys are the first texts of every snapshot.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(super) enum Key {
            $($name,)*
        }

        impl Key {
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

keys! {
    Action = "action",
    Addr = "addr",
    DeviceFree = "device_free",
    Size = "size",
    Stream = "stream",
    Frames = "frames",
    TimeUs = "time_us",
    CompileContext = "compile_context",
    UserMetadata = "user_metadata",
    InternalMetadata = "internal_metadata",
    PoolId = "pool_id",
    ForwardFrames = "forward_frames",
    Device = "device",
    Name = "name",
    Filename = "filename",
    Line = "line",
    FxNodeName = "fx_node_name",
    Segments = "segments",
    DeviceTraces = "device_traces",
    HostSegments = "host_segments",
    HostTraces = "host_traces",
    ExternalAnnotations = "external_annotations",
    AllocatorSettings = "allocator_settings",
    Address = "address",
    TotalSize = "total_size",
    SegmentType = "segment_type",
    SegmentPoolId = "segment_pool_id",
    IsExpandable = "is_expandable",
    Blocks = "blocks",
    RequestedSize = "requested_size",
    State = "state",
    History = "history",
    RealSize = "real_size",
    Stage = "stage",
    MaxSplitSize = "max_split_size",
    RoundupDivisions = "roundup_power2_divisions",
    ExpandableSegments = "expandable_segments",
    AllocConf = "PYTORCH_CUDA_ALLOC_CONF",
    NewAllocConf = "PYTORCH_ALLOC_CONF",
    Overflowed = "trace_alloc_overflowed",
    MaxEntries = "trace_alloc_max_entries",
}

impl Key {
    /// The id of the key's text.
    pub fn text(self) -> TextId {
        TextId(self as u32)
    }
}

/// The key with a text.
pub(super) fn of(text: TextId) -> Option<Key> {
    Key::ALL.get(text.0 as usize).copied()
}
