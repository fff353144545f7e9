//! Compares entries that match a skeleton with the same bytes read by the machine alone.

use std::io::{self, Cursor, Read};

use proptest::prelude::*;

use super::super::super::heap::Heap;
use super::super::run_machine;

/// Writes pickles of protocol 4, with the memos that CPython gives.
#[derive(Default)]
struct Writer {
    out: Vec<u8>,
    memos: u32,
    texts: Vec<(&'static str, u32)>,
    lines: Vec<u32>,
    stacks: Vec<u32>,
}

/// An entry of a trace.
#[derive(Clone, Debug)]
struct Drawn {
    /// The order of its keys; 0: the usual one.
    form: usize,
    action: usize,
    address: u64,
    size: u64,
    time: u64,
    stream: u64,
    /// Whether its texts are written again, as PyTorch writes those that it creates for each entry.
    writes_texts: bool,
    frames: Frames,
}

#[derive(Clone, Debug)]
enum Frames {
    /// A list of these lines.
    List(Vec<usize>),
    /// A list of so many lines, as Python writes long ones.
    Long(usize),
    /// A reference to an earlier list.
    Known(usize),
    /// The same, and more lines for it.
    Continued(usize, Vec<usize>),
}

impl Drawn {
    /// The same entry later, with other numbers, in a program whose usual entries have some form.
    fn in_round(&self, round: u64, usual: usize) -> Self {
        let form = if self.form == 0 { usual } else { self.form };
        let (size, time) = (self.size.wrapping_mul(round + 1), self.time.wrapping_add(round));
        Self { form, size, time, ..self.clone() }
    }
}

const FORM_COUNT: usize = 7;

/// More bytes than are compared at once.
const LONG_TEXT: &str = "a label that the program has set for this allocation, and which says a lot about it";

const ACTIONS: [&str; 6] =
    ["alloc", "free_requested", "free_completed", "segment_alloc", "oom", "unheard_of"];

impl Writer {
    fn memo(&mut self) -> u32 {
        self.out.push(0x94);
        self.memos += 1;
        self.memos - 1
    }

    fn recall(&mut self, memo: u32) {
        match u8::try_from(memo) {
            Ok(memo) => self.out.extend([b'h', memo]),
            Err(_) => {
                self.out.push(b'j');
                self.out.extend(memo.to_le_bytes());
            }
        }
    }

    fn text(&mut self, text: &'static str, is_again: bool) {
        if let Some((_, memo)) = self.texts.iter().find(|(known, _)| *known == text && !is_again) {
            return self.recall(*memo);
        }
        self.out.extend([0x8c, u8::try_from(text.len()).unwrap()]);
        self.out.extend(text.as_bytes());
        let memo = self.memo();
        self.texts.push((text, memo));
    }

    fn int(&mut self, value: u64) {
        if let Ok(value) = u8::try_from(value) {
            self.out.extend([b'K', value]);
        } else if let Ok(value) = u16::try_from(value) {
            self.out.push(b'M');
            self.out.extend(value.to_le_bytes());
        } else if let Ok(value) = i32::try_from(value) {
            self.out.push(b'J');
            self.out.extend(value.to_le_bytes());
        } else {
            // The highest bit is the sign.
            let len = u8::try_from(value.ilog2() / 8 + 1).unwrap();
            let len = if value.ilog2() % 8 == 7 { len + 1 } else { len };
            self.out.extend([0x8a, len]);
            self.out.extend(value.to_le_bytes().iter().chain(&[0]).take(len.into()));
        }
    }

    fn line(&mut self, number: u64) {
        self.out.push(b'}');
        let memo = self.memo();
        self.lines.push(memo);
        self.out.push(b'(');
        self.text("name", false);
        self.text("call", false);
        self.text("filename", false);
        self.text("train.py", false);
        self.text("line", false);
        self.int(number);
        self.out.push(b'u');
    }

    fn frames(&mut self, frames: &Frames) {
        match frames {
            Frames::Known(index) if !self.stacks.is_empty() => {
                self.recall(self.stacks[index % self.stacks.len()]);
            }
            Frames::Known(_) => self.frames(&Frames::List(Vec::new())),
            Frames::List(lines) => {
                self.out.push(b']');
                let memo = self.memo();
                self.stacks.push(memo);
                if lines.is_empty() {
                    return;
                }
                self.append_lines(lines);
            }
            Frames::Long(len) => {
                self.frames(&Frames::List(Vec::new()));
                let lines: Vec<_> = (0..*len).collect();
                lines.chunks(1000).for_each(|batch| self.append_lines(batch));
            }
            Frames::Continued(index, lines) => {
                self.frames(&Frames::Known(*index));
                self.append_lines(lines);
            }
        }
    }

    fn append_lines(&mut self, lines: &[usize]) {
        self.out.push(b'(');
        for line in lines {
            self.recall(self.lines[line % self.lines.len()]);
        }
        self.out.push(b'e');
    }

    fn entry(&mut self, entry: &Drawn) {
        const FORMS: [&[&str]; FORM_COUNT] = [
            &["action", "addr", "size", "stream", "time_us", "compile_context", "user_metadata", "frames"],
            &["action", "addr", "size", "stream", "time_us", "frames", "compile_context", "user_metadata"],
            &["frames", "action", "device_free", "size", "time_us"],
            &["action", "addr", "size", "stream", "device"],
            &["action", "addr", "size", "time_us"],
            &["size", "action", "addr", "time_us", "frames", "stream"],
            &["action", "addr", "size", "stream", "time_us", "compile_context", "user_metadata"],
        ];
        self.out.push(b'}');
        self.memo();
        self.out.push(b'(');
        let form = entry.form % FORMS.len();
        for key in FORMS[form] {
            self.text(key, false);
            match *key {
                "action" => self.text(ACTIONS[entry.action % ACTIONS.len()], false),
                "addr" | "device_free" => self.int(entry.address),
                "size" => self.int(entry.size),
                "time_us" => self.int(entry.time),
                "frames" => self.frames(&entry.frames),
                "compile_context" => self.text("N/A", entry.writes_texts),
                "user_metadata" if form == FORM_COUNT - 1 => self.text(LONG_TEXT, entry.writes_texts),
                "user_metadata" => self.text("", false),
                _ => self.int(entry.stream),
            }
        }
        self.out.push(b'u');
    }
}

/// A snapshot with one trace: the position of its first entry, and its bytes.
fn snapshot(entries: &[Drawn]) -> (usize, Vec<u8>) {
    nested_snapshot(entries, 0)
}

/// The same with more lists around the trace.
fn nested_snapshot(entries: &[Drawn], lists: usize) -> (usize, Vec<u8>) {
    let mut writer = Writer { out: vec![0x80, 4, b'}', 0x94, b'('], memos: 1, ..Writer::default() };
    writer.text("segments", false);
    writer.out.push(b']');
    writer.memo();
    writer.out.push(b'(');
    for number in 1..=5 {
        writer.line(number);
    }
    writer.out.push(b'e');
    writer.text("device_traces", false);
    writer.out.push(b']');
    writer.memo();
    writer.out.extend(b"](".repeat(lists));
    writer.out.push(b']');
    writer.memo();
    let first = writer.out.len();
    for batch in entries.chunks(20) {
        writer.out.push(b'(');
        for entry in batch {
            writer.entry(entry);
        }
        writer.out.push(b'e');
    }
    writer.out.extend(b"e".repeat(lists));
    writer.out.extend(b"au.");
    // Entries at the end of a file are left to the machine.
    writer.out.extend([0; 64]);
    (first, writer.out)
}

/// Everything that was read, or why it could not be read; and the number of entries that went directly to their trace.
fn read(bytes: &[u8], has_fast_path: bool) -> (String, u64) {
    read_from(Cursor::new(bytes.to_vec()), has_fast_path)
}

fn read_from(stream: impl Read + Send + 'static, has_fast_path: bool) -> (String, u64) {
    let mut heap = Heap::default();
    let root = run_machine(stream, &mut heap, has_fast_path);
    let read = root.map(|_| {
        let traces: Vec<_> = (0..8).map(|trace| heap.take_trace(trace)).collect();
        let lines: Vec<_> = heap.stacks.lines().collect();
        let stacks: Vec<_> = heap.parser.origins.all.iter().map(|origin| origin.stack).collect();
        let indexes: Vec<_> = stacks.iter().flatten().map(|stack| heap.stacks.indexes_of(*stack)).collect();
        format!("{traces:?} {:?} {lines:?} {indexes:?}", heap.parser.origins.all)
    });
    (format!("{read:?}"), heap.direct)
}

fn drawn() -> impl Strategy<Value = Drawn> {
    let number = || prop_oneof![0_u64..300, 0_u64..70_000, any::<u64>(), Just(1_u64 << 31)];
    let frames = prop_oneof![
        2 => proptest::collection::vec(0_usize..5, 0..4).prop_map(Frames::List),
        1 => any::<usize>().prop_map(Frames::Known),
    ];
    let more = (any::<usize>(), proptest::collection::vec(0_usize..5, 0..3));
    let frames =
        prop_oneof![200 => frames, 1 => more.prop_map(|(list, lines)| Frames::Continued(list, lines))];
    // Most entries have the same form.
    let form = prop_oneof![8 => Just(0_usize), 1 => 0..FORM_COUNT];
    (form, 0_usize..6, number(), number(), number(), 0_u64..2, prop::bool::weighted(0.9), frames).prop_map(
        |(form, action, address, size, time, stream, writes_texts, frames)| Drawn {
            form,
            action,
            address,
            size,
            time,
            stream,
            writes_texts,
            frames,
        },
    )
}

proptest! {
    /// Whatever entries are drawn, how often they repeat, and whatever bytes of them are changed, the result is the one
    /// without the fast path: the same traces, or the same refusal at the same position.
    #[test]
    fn the_result_is_that_of_the_machine(
        drawn in proptest::collection::vec(drawn(), 1..120),
        rounds in 1_u64..6,
        usual in prop_oneof![1 => Just(0_usize), 2 => 0..FORM_COUNT],
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in proptest::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let rounds = (0..rounds).flat_map(|round| drawn.iter().map(move |entry| entry.in_round(round, usual)));
        let entries: Vec<Drawn> = rounds.take(200).collect();
        let (first, mut bytes) = snapshot(&entries);
        for (at, byte) in changes {
            let at = first + at.index(bytes.len() - first);
            bytes[at] = byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(first + cut.index(bytes.len() - first));
        }
        prop_assert_eq!(read(&bytes, true).0, read(&bytes, false).0);
    }
}

/// Entries of the same program: an allocation and a free alternate.
fn program(form: usize) -> Vec<Drawn> {
    let entry = |index: u64| Drawn {
        form,
        action: usize::try_from(index % 2).unwrap(),
        address: 0x7f00_0000_0000 + 512 * index,
        size: 40 * index,
        time: if form == 4 { index } else { 1_794_702_759_000_000 + index },
        stream: 0,
        writes_texts: true,
        frames: Frames::List(vec![0, 1, usize::try_from(index % 3).unwrap()]),
    };
    (0..1000).map(entry).collect()
}

#[test]
fn entries_of_each_form_are_read_completely() {
    for form in 0..FORM_COUNT {
        let (_, bytes) = snapshot(&program(form));
        assert_eq!(read(&bytes, true).0, read(&bytes, false).0, "{form}");
    }
}

#[test]
fn entries_of_one_form_match() {
    let entries = program(0);
    let (_, bytes) = snapshot(&entries);
    let (with, direct) = read(&bytes, true);
    let (without, none) = read(&bytes, false);
    assert_eq!(with, without);
    assert_eq!((direct, none), (980, 0));
    assert!(with.contains("Allocated") && with.contains("FreeRequested"), "{with}");
}

/// A stream that fails.
struct Failing;

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("the disk is gone"))
    }
}

#[test]
fn an_error_counts_where_the_machine_meets_it() {
    let (first, bytes) = snapshot(&program(0));
    let end = bytes.len() - 64;
    for until in [first + 1000, end - 1, end, bytes.len()] {
        let stream = || Cursor::new(bytes[..until].to_vec()).chain(Failing);
        let (with, _) = read_from(stream(), true);
        assert_eq!(with, read_from(stream(), false).0);
        assert_eq!(with.contains("the disk is gone"), until < end, "{with}");
    }
}

#[test]
fn entries_are_nested_as_deeply_as_for_the_machine() {
    let entries = program(0);
    for lists in 990..1000 {
        let (_, bytes) = nested_snapshot(&entries, lists);
        let (with, _) = read(&bytes, true);
        assert_eq!(with, read(&bytes, false).0);
        assert_eq!(with.contains("too deeply nested"), lists > 996, "{lists}");
    }
}

#[test]
fn lists_of_lines_are_continued_as_python_continues_them() {
    let ends = |frames: Frames| {
        let mut entries = program(0);
        entries.last_mut().unwrap().frames = frames;
        let (_, bytes) = snapshot(&entries);
        let (with, _) = read(&bytes, true);
        assert_eq!(with, read(&bytes, false).0);
        with
    };
    for len in [1, 999, 1000, 1001, 2000, 2500, 64_000] {
        assert!(ends(Frames::Long(len)).starts_with("Ok"), "{len}");
    }
    for frames in [Frames::Long(64_001), Frames::Continued(0, vec![1])] {
        assert!(ends(frames).contains("a list of source lines that is continued"));
    }
    assert!(ends(Frames::Continued(0, vec![])).starts_with("Ok"));
}

/// Each pair of entries has a stream of its own, and refers to a late stack.
#[test]
fn entries_of_many_kinds_are_those_of_the_machine() {
    let mut entries = program(0);
    for (index, entry) in entries.iter_mut().enumerate() {
        entry.frames = Frames::List(vec![index % 5, index / 5 % 5, index / 25 % 5, index / 125 % 5]);
    }
    let late = program(0).into_iter().enumerate().map(|(index, entry)| Drawn {
        stream: 1 + index as u64 / 2,
        action: 0,
        frames: Frames::Known(900),
        ..entry
    });
    entries.extend(late);
    let (_, bytes) = snapshot(&entries);
    assert_eq!(read(&bytes, true).0, read(&bytes, false).0);
}
