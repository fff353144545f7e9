//! Snapshots as PyTorch writes them, in the forms of its versions.

use super::allocator::{Action, Allocator, Block, Event, Segment, State};
use super::pickle::{Py, dict, dump, list, text};

/// The form of a snapshot.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "they are independent")]
pub struct Options {
    /// The protocol of the pickle.
    pub protocol: u8,
    /// The number of last events that the ring buffer has kept.
    pub ring: usize,
    /// Whether entries have times (2.2 and later).
    pub has_times: bool,
    /// Whether entries and blocks have stacks.
    pub has_frames: bool,
    /// Whether blocks have addresses (2.1 and later).
    pub has_addresses: bool,
    /// Whether blocks have the history of 2.0 instead of a requested size.
    pub is_legacy: bool,
    /// A kind of event that is left out (`skip_actions`).
    pub skipped: Option<Action>,
    /// The index of the device.
    pub device: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            protocol: 4,
            ring: usize::MAX,
            has_times: true,
            has_frames: true,
            has_addresses: true,
            is_legacy: false,
            skipped: None,
            device: 0,
        }
    }
}

/// A snapshot: the parts that [`Snapshot::pickle`] puts together, which tests may change.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// `segments`.
    pub segments: Vec<Py>,
    /// `device_traces`.
    pub traces: Vec<Vec<Py>>,
    /// Further keys.
    pub further: Vec<(Py, Py)>,
    /// Objects that occur several times: [`Py::Shared`].
    pub shared: Vec<Py>,
    /// The protocol of the pickle.
    pub protocol: u8,
}

/// The lines of a stack, innermost first.
pub fn frames(lines: &[(&str, &str, u32)]) -> Py {
    let frame = |(name, file, line): &(&str, &str, u32)| {
        dict([("name", text(name)), ("filename", text(file)), ("line", Py::Int((*line).into()))])
    };
    list(lines.iter().map(frame))
}

impl Snapshot {
    /// The snapshot of an allocator. `stacks` are the stacks of origins, as lists of frames.
    pub fn of(allocator: &Allocator, stacks: &[Py], options: Options) -> Self {
        let segments = allocator.segments.iter().map(|(start, one)| segment(*start, one, options)).collect();
        let skip = allocator.events.len().saturating_sub(options.ring);
        let kept = (0..)
            .zip(&allocator.events)
            .skip(skip)
            .filter(|(_, event)| options.skipped != Some(event.action));
        let trace = kept.map(|(index, event)| entry(index, event, options)).collect();
        let mut traces = vec![Vec::new(); options.device];
        traces.push(trace);
        let further =
            vec![(text("allocator_settings"), settings(allocator)), (text("external_annotations"), list([]))];
        Self { segments, traces, further, shared: stacks.to_vec(), protocol: options.protocol }
    }

    /// Adds a key.
    #[must_use]
    pub fn with(mut self, key: &str, value: Py) -> Self {
        self.further.retain(|(have, _)| *have != text(key));
        self.further.push((text(key), value));
        self
    }

    /// The bytes of the file.
    pub fn pickle(&self) -> Vec<u8> {
        let traces = self.traces.iter().map(|trace| Py::List(trace.clone()));
        let mut items =
            vec![(text("segments"), list(self.segments.clone())), (text("device_traces"), list(traces))];
        items.extend(self.further.iter().cloned());
        dump(&Py::Dict(items), &self.shared, self.protocol)
    }

    /// The result of `torch.cuda.memory_snapshot()`: segments without a trace.
    pub fn pickle_of_segments(&self) -> Vec<u8> {
        dump(&list(self.segments.clone()), &self.shared, self.protocol)
    }
}

fn int(value: u64) -> Py {
    Py::Int(value.into())
}

fn entry(index: u64, event: &Event, options: Options) -> Py {
    let address = if event.action == Action::Oom { "device_free" } else { "addr" };
    let mut items = vec![
        (text("action"), text(event.action.word())),
        (text(address), int(event.address)),
        (text("size"), int(event.size)),
        (text("stream"), int(event.stream)),
    ];
    if options.has_times {
        // Several events have the same time.
        items.push((text("time_us"), int(1_794_702_759_000_000 + index / 3)));
    }
    if options.has_frames {
        items.push((text("frames"), Py::Shared(event.origin)));
    }
    Py::Dict(items)
}

fn segment(start: u64, segment: &Segment, options: Options) -> Py {
    let sum = |states: &[State]| {
        let blocks = segment.blocks.values().filter(|block| states.contains(&block.state));
        int(blocks.map(|block| block.size).sum())
    };
    let blocks = segment.blocks.iter().map(|(at, one)| block(*at, one, options));
    dict([
        ("device", int(options.device as u64)),
        ("address", int(start)),
        ("total_size", int(segment.size)),
        ("allocated_size", sum(&[State::Allocated])),
        ("active_size", sum(&[State::Allocated, State::Pending])),
        ("stream", int(segment.stream)),
        ("segment_type", text(if segment.is_small { "small" } else { "large" })),
        ("segment_pool_id", Py::Tuple(vec![int(0), int(0)])),
        ("is_expandable", Py::Bool(segment.is_expandable)),
        ("frames", list([])),
        ("blocks", list(blocks)),
    ])
}

fn block(address: u64, block: &Block, options: Options) -> Py {
    let state = match block.state {
        State::Free => "inactive",
        State::Allocated => "active_allocated",
        State::Pending => "active_pending_free",
    };
    let frames = || {
        let has = options.has_frames && block.state == State::Allocated;
        if has { Py::Shared(block.origin) } else { list([]) }
    };
    let mut items = vec![(text("size"), int(block.size)), (text("state"), text(state))];
    if options.has_addresses {
        items.insert(0, (text("address"), int(address)));
    }
    if options.is_legacy {
        let newest =
            dict([("addr", int(address)), ("real_size", int(block.requested)), ("frames", frames())]);
        items.push((text("history"), list([newest])));
    } else {
        items.push((text("requested_size"), int(block.requested)));
        items.push((text("frames"), frames()));
    }
    Py::Dict(items)
}

fn settings(allocator: &Allocator) -> Py {
    let settings = allocator.settings();
    let class = |class: u32| (text(&(1_u64 << class).to_string()), int(settings.divisions));
    dict([
        ("PYTORCH_CUDA_ALLOC_CONF", text("")),
        ("max_split_size", settings.max_split.map_or(Py::Int(-1), int)),
        ("garbage_collection_threshold", Py::Float(0.0)),
        ("expandable_segments", Py::Bool(settings.is_expandable)),
        ("roundup_power2_divisions", Py::Dict((0..16).map(class).collect())),
    ])
}

/// Writes the snapshot of a program that generates tokens: `events` events, of which each token allocates and frees the
/// same. Stacks have the depth of a real model, and each entry lists its frames, as PyTorch does.
///
/// # Errors
///
/// If the output cannot be written.
pub fn generation(out: impl std::io::Write, events: u64) -> std::io::Result<()> {
    const LAYERS: usize = 24;
    const OPS: usize = 16;
    const DEPTH: usize = 14;
    let mut allocator = Allocator::new(super::Settings::default());
    for layer in 0..LAYERS as u64 {
        allocator.allocate((1 + layer % 5) << 22, 0, 0);
    }
    let run = |allocator: &mut Allocator| {
        for op in 0..LAYERS * OPS {
            let bytes = 1 + (op as u64 * 7919) % (3 << 20);
            let address = allocator.allocate(bytes, 0, op);
            allocator.free(address, false, op);
        }
    };
    // The first token reserves memory, which later ones use again.
    run(&mut allocator);
    let start = allocator.events.len();
    run(&mut allocator);
    let token: Vec<Event> = allocator.events.split_off(start);
    let lines = |depth: usize, op: usize| {
        let (file, name) = (format!("/srv/model/layer_{depth}.py"), format!("call_{}", (op + depth) % 40));
        (name, file, u32::try_from(10 * depth + op % 9).unwrap_or(0))
    };
    // One object per distinct line, which all lists share.
    let frame = |index: usize| {
        let (name, file, line) = lines(index % DEPTH, index / DEPTH);
        dict([("name", text(&name)), ("filename", text(&file)), ("line", Py::Int(line.into()))])
    };
    let shared: Vec<Py> = (0..LAYERS * OPS * DEPTH).map(frame).collect();
    let once = allocator.events.iter();
    let all = once.chain(token.iter().cycle()).take(usize::try_from(events).unwrap_or(usize::MAX));
    let entries = (0..).zip(all).map(|(index, event)| {
        let Py::Dict(mut items) = entry(index, event, Options { has_frames: false, ..Options::default() })
        else {
            unreachable!("an entry is a dictionary")
        };
        if event.action != Action::FreeCompleted {
            let frames = (0..DEPTH).map(|depth| Py::Shared(event.origin * DEPTH + depth));
            items.push((text("frames"), list(frames)));
        }
        items.push((text("compile_context"), text("N/A")));
        items.push((text("user_metadata"), text("")));
        Py::Dict(items)
    });
    let segments = allocator
        .segments
        .iter()
        .map(|(at, one)| segment(*at, one, Options { has_frames: false, ..Options::default() }));
    super::stream(out, &list(segments), &settings(&allocator), &shared, entries)
}
