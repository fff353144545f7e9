//! The `.ttmem` file: what is written comes back, and corruption is noticed, said and survived.

mod any_event;
mod any_event_in_time;
mod one_of_each;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;

use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use ttmem::model::{Builder, Bytes, Event, Profile, RankEvent, RankId, Reading, Sink, TensorType, Warning};
use ttmem::record::frame::{self, Writer};
use ttmem::{Error, Result};
use ttmem_testkit::sweep;

use any_event::{event, id, number, op, run, step, string, tensor, tensor_type};
use any_event_in_time::{call, scope};
use one_of_each::{VARIANTS, one_of_each, s, variant};

type Events = Vec<Event<'static>>;

/// Remembers what it takes.
#[derive(Debug, Default)]
struct Taken(Events);

impl Sink for Taken {
    fn take(&mut self, event: Event<'_>) -> Result<()> {
        self.0.push(owned(event));
        Ok(())
    }
}

fn owned(event: Event<'_>) -> Event<'static> {
    match event {
        Event::Text(text) => Event::Text(Cow::Owned(text.into_owned())),
        Event::SourceText(range, text) => Event::SourceText(range, Cow::Owned(text.into_owned())),
        Event::Source(source) => Event::Source(source),
        Event::Type(ty) => Event::Type(ty),
        Event::Op(op) => Event::Op(op),
        Event::Frame(frame) => Event::Frame(frame),
        Event::Stack(stack) => Event::Stack(stack),
        Event::OpStack(row) => Event::OpStack(row),
        Event::Rank { label } => Event::Rank { label },
        Event::Example(of) => Event::Example(of),
        Event::Of(rank, event) => Event::Of(rank, event),
        Event::Warning(warning) => Event::Warning(warning),
        Event::SkippedLines(lines) => Event::SkippedLines(lines),
        Event::End => Event::End,
    }
}

fn say(events: &[Event<'static>], sink: &mut dyn Sink) {
    for event in events {
        sink.take(event.clone()).unwrap();
    }
}

/// A writer that took events and made a frame of every `each` of them.
fn writer_of<'a>(bytes: &'a mut Vec<u8>, events: &[Event<'static>], each: usize) -> Writer<&'a mut Vec<u8>> {
    let mut writer = Writer::create(bytes, "test.ttmem").unwrap();
    for chunk in events.chunks(each) {
        say(chunk, &mut writer);
        writer.flush().unwrap();
    }
    writer
}

/// A file whose writer was killed after the last flush.
fn killed(events: &[Event<'static>], each: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    drop(writer_of(&mut bytes, events, each));
    bytes
}

fn finished(events: &[Event<'static>], each: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    writer_of(&mut bytes, events, each).finish().unwrap();
    bytes
}

fn read(bytes: &[u8]) -> Result<Events> {
    let mut taken = Taken::default();
    frame::read(&mut &*bytes, "test.ttmem", &mut taken)?;
    Ok(taken.0)
}

/// The events of a file with a warning about the file itself, and that warning.
fn read_corrupt(bytes: &[u8]) -> (Events, String) {
    let mut events = read(bytes).unwrap();
    match events.pop() {
        Some(Event::Warning(Warning { line: None, message })) if message.starts_with("the recording is ") => {
            (events, message)
        }
        other => panic!("the last event is no warning: {other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: sweep::cases(64, 5000), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn events_come_back_as_they_went_in(
        mut events in vec(event(u32::MAX), 0..60),
        complete in any::<bool>(),
        each in 1..60_usize,
    ) {
        if complete {
            events.push(Event::End);
        }
        prop_assert_eq!(&read(&finished(&events, each)).unwrap(), &events);
        let mut framed = read(&killed(&events, each)).unwrap();
        if !complete {
            prop_assert!(matches!(framed.pop(), Some(Event::Warning(_))), "no end, no finish: cut off");
        }
        prop_assert_eq!(framed, events);
    }

    #[test]
    fn a_profile_comes_back_equal(events in consistent_events(), each in 1..60_usize) {
        let mut builder = Builder::new();
        say(&events, &mut builder);
        let profile = builder.finish();

        let mut writer = Writer::create(Vec::new(), "test.ttmem").unwrap();
        profile.replay(&mut writer).unwrap();
        let file = writer.finish().unwrap();
        prop_assert_eq!(&profile_of(&file), &profile);

        // As they came, not as they are replayed, and in frames of any size.
        prop_assert_eq!(profile_of(&finished(&events, each)), profile);
    }

    #[test]
    fn nothing_in_a_sound_frame_panics(kind in 0..80_u32, content in vec(any::<u8>(), 0..80)) {
        let mut file = Forged::new(1, 0);
        file.frame(&stored(&event_bytes(kind, &content)));
        read(&file.0).unwrap();
        let mut newer = Forged::new(1, 2);
        newer.frame(&stored(&content));
        read(&newer.0).unwrap();
    }
}

fn profile_of(file: &[u8]) -> Profile {
    let mut builder = Builder::new();
    frame::read(&mut &*file, "test.ttmem", &mut builder).unwrap();
    builder.finish()
}

/// Events whose ids name rows, for the greater part, and whose readings are in order of time.
fn consistent_events() -> impl Strategy<Value = Events> {
    let ids = 3;
    let rows = (
        vec(".{0,9}".prop_map(|text| Event::Text(Cow::Owned(text))), 3),
        vec(tensor_type(ids).prop_map(Event::Type), 3),
        vec(op(ids).prop_map(Event::Op), 3),
    );
    let ranks = vec(of(string(ids)).prop_map(|label| Event::Rank { label }), 3);
    let few = |strategy: BoxedStrategy<RankEvent>| {
        vec((id(3, RankId::new), strategy).prop_map(|(rank, event)| Event::Of(rank, event)), 6..20)
    };
    let pool = (string(ids), of(any::<u32>()), number()).prop_map(|(name, banks, quantum)| RankEvent::Pool {
        name,
        banks,
        quantum,
    });
    let module = of(string(ids)).prop_map(|name| RankEvent::Module { name });
    let lane = string(ids).prop_map(|name| RankEvent::Lane { name });
    let in_time = (
        few(lane.boxed()),
        few(scope(ids).prop_map(RankEvent::Scope).boxed()),
        few(call(ids).prop_map(RankEvent::Call).boxed()),
    );
    let tables = (
        few(pool.boxed()),
        few(module.boxed()),
        few(run(ids).prop_map(RankEvent::Run).boxed()),
        few(step(ids).prop_map(RankEvent::Step).boxed()),
        few(tensor(ids).prop_map(RankEvent::Tensor).boxed()),
    );
    (rows, ranks, tables, in_time, vec(event(ids), 0..120), any::<bool>()).prop_map(
        |(rows, ranks, (pools, modules, runs, steps, tensors), (lanes, scopes, calls), rest, complete)| {
            let tables = [pools, modules, runs, steps, tensors, lanes, scopes, calls, rest].concat();
            let mut events = [rows.0, rows.1, rows.2, ranks, tables].concat();
            order_readings(&mut events);
            events.extend(complete.then_some(Event::End));
            events
        },
    )
}

/// Readings of a pool come in order of time, and always say the same things.
fn order_readings(events: &mut Events) {
    let mut last = HashMap::new();
    for event in events {
        let Event::Of(rank, RankEvent::State(pool, at, reading)) = event else { continue };
        let last = last.entry((*rank, *pool)).or_insert((*at, *reading));
        *at = last.0.max(*at);
        last.0 = *at;
        let first = last.1;
        let like = |value: Option<u64>, first: Option<u64>| first.map(|first| value.unwrap_or(first));
        *reading = Reading {
            allocated: like(reading.allocated, first.allocated),
            active: like(reading.active, first.active),
            reserved: like(reading.reserved, first.reserved),
            requested: like(reading.requested, first.requested),
            free: like(reading.free, first.free),
            largest_free: like(reading.largest_free, first.largest_free),
            capacity: like(reading.capacity, first.capacity),
        };
    }
}

#[test]
fn the_strategies_make_every_variant() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (events, mut seen) = (event(9), [false; VARIANTS]);
    seen[variant(&Event::End)] = true;
    for _ in 0..100_000 {
        if seen == [true; VARIANTS] {
            break;
        }
        seen[variant(&events.new_tree(&mut runner).unwrap().current())] = true;
    }
    assert_eq!(seen, [true; VARIANTS]);
}

// One file, cut and flipped.

/// A small file with stored and with compressed frames, its events, and where its frames begin.
fn small_file() -> (Vec<u8>, Events, Vec<usize>) {
    let events = one_of_each();
    let bytes = killed(&events, 9);
    let starts = frame_starts(&bytes);
    let codecs: Vec<u8> = starts[..starts.len() - 1].iter().map(|&start| bytes[start + 8]).collect();
    assert!(codecs.contains(&0) && codecs.contains(&1), "both codecs: {codecs:?}");
    (bytes, events, starts)
}

/// Where each frame begins, and where the last one ends.
fn frame_starts(file: &[u8]) -> Vec<usize> {
    let mut starts = vec![16];
    while let Some(at) = starts.last().copied().filter(|&at| at < file.len()) {
        let length = u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
        starts.push(at + 8 + length as usize);
    }
    starts
}

/// How many events the frames before `at` hold, at 9 a frame.
fn events_before(at: usize, starts: &[usize]) -> usize {
    starts.iter().skip(1).filter(|&&end| end <= at).count() * 9
}

#[test]
fn a_file_cut_anywhere_is_read_up_to_there() {
    let (bytes, events, starts) = small_file();
    assert_eq!(read(&bytes).unwrap(), events);
    assert!(matches!(read(&[]), Err(Error::Empty { .. })));
    for cut in 1..bytes.len() {
        let (read, message) = read_corrupt(&bytes[..cut]);
        assert_eq!(read, events[..events_before(cut, &starts)], "cut at {cut}");
        let covered = match read.len() {
            0 => "no readable events".to_owned(),
            events => format!("only its first {events} events"),
        };
        assert!(message.contains(&covered), "{message}");
        // Between two frames, there is no frame to name.
        let start = starts.iter().rev().find(|&&start| start <= cut).copied().unwrap_or(0);
        let place = if start == cut { "incomplete".to_owned() } else { format!("byte {start}") };
        assert!(message.contains(&place), "cut at {cut}: {message}");
    }
}

#[test]
fn a_file_with_a_byte_changed_is_read_up_to_there() {
    let (bytes, events, starts) = small_file();
    for at in 0..bytes.len() {
        for pattern in [1, 2, 4, 8, 16, 32, 64, 128, 255_u8] {
            let mut bytes = bytes.clone();
            bytes[at] ^= pattern;
            if at < 8 {
                // Nobody would take it for ours.
                assert!(!frame::is_ttmem(&bytes));
                assert!(matches!(read(&bytes), Err(Error::UnknownFormat { .. })));
                continue;
            }
            let (read, message) = read_corrupt(&bytes);
            assert_eq!(read, events[..events_before(at, &starts)], "byte {at} changed by {pattern}");
            assert!(message.contains("corrupt at byte") || message.contains("truncated"), "{message}");
        }
    }
}

#[test]
fn a_frame_left_out_doubled_or_swapped_is_noticed() {
    let (bytes, events, starts) = small_file();
    let frame = |index: usize| &bytes[starts[index]..starts[index + 1]];
    let (head, last) = (&bytes[..16], starts.len() - 2);
    let without: Vec<&[u8]> = [head, frame(0)].into_iter().chain((2..=last).map(frame)).collect();
    let doubled: Vec<&[u8]> = [head, frame(0), frame(0)].into_iter().chain((1..=last).map(frame)).collect();
    let swapped: Vec<&[u8]> =
        [head, frame(0), frame(2), frame(1)].into_iter().chain((3..=last).map(frame)).collect();
    for file in [without, doubled, swapped] {
        let (read, message) = read_corrupt(&file.concat());
        assert_eq!(read, events[..9]);
        assert!(message.contains("checksum"), "{message}");
    }
    // A tail of zeros, as a machine that went down leaves it.
    let (read, _) = read_corrupt(&[&bytes[..starts[2]], &[0; 5000]].concat());
    assert_eq!(read, events[..18]);
}

#[test]
fn frames_are_cut_as_events_come() {
    let events: Events = (0..100_000).map(|n| text(&format!("text {n}"))).collect();
    let mut bytes = Vec::new();
    let mut writer = Writer::create(&mut bytes, "test.ttmem").unwrap();
    say(&events, &mut writer);
    drop(writer);
    let starts = frame_starts(&bytes);
    assert!((4..=6).contains(&(starts.len() - 1)), "{starts:?}");
    let (read, _) = read_corrupt(&bytes);
    assert!(read.len() > 70_000 && read.len() < events.len(), "{}: what was not flushed is lost", read.len());
    assert_eq!(read, events[..read.len()]);
}

/// The bytes of an event, whichever way its frame is stored.
fn written(event: &Event<'static>) -> Vec<u8> {
    let file = killed(std::slice::from_ref(event), 1);
    match file[24] {
        0 => file[25..].to_vec(),
        _ => zstd::bulk::decompress(&file[29..], 1 << 20).unwrap(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

fn unhex(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// What version 1.0 writes for `one_of_each`. NEVER CHANGE a line: such files are out there. If this test
/// fails, a change in `model` changed the format, and either the change or the major version has to go.
#[test]
fn the_bytes_of_version_1_0() {
    let events = one_of_each();
    let lines: Vec<String> = events.iter().map(|event| hex(&written(event))).collect();
    let (end, added) = (VERSION_1_0.len() - 1, ADDED_IN_1_1.len());
    assert_eq!(lines[..end], VERSION_1_0[..end]);
    assert_eq!(lines[end..end + added], ADDED_IN_1_1);
    assert!((0..VARIANTS).all(|wanted| events.iter().any(|event| variant(event) == wanted)));
    let mut file = Forged::new(1, 0);
    file.frame(&stored(&unhex(&VERSION_1_0.concat())));
    let mut old = events.clone();
    old.drain(end..end + added);
    assert_eq!(read(&file.0).unwrap(), old);
    // And a whole file, as it lies on the disk.
    let whole = "8954544d454d0d0a01000100b17ad6c207000000d4e72f7500020201610900";
    assert_eq!(hex(&killed(&[text("a"), Event::End], 9)), whole);
    let old = "8954544d454d0d0a01000000f04bcddb07000000513eb9a800020201610900";
    assert_eq!(read(&unhex(old)).unwrap(), [text("a"), Event::End]);
}

/// What version 1.1 adds.
const ADDED_IN_1_1: [&str; 23] = [
    "5c0d0180c05be0ba06808001010808",
    "5d08010180c055070103",
    "5f0e0100010200000103000000000001",
    "610401010104",
    "62060101c0804020",
    "600a0101000000ac02f0a204",
    "5e0b010000802001e0ba060300",
    "5e0b010001802001e0ba060300",
    "5e0b010002802001e0ba060300",
    "2c0501010b0109",
    "671e010101808080400104040404040404040404040404040404018080808004",
    "682001018080808080e01f8080800a8080c002808080038080800701070101000001",
    "6314010001020001ac02070000000000000001ac0207",
    "640701009221ac0207",
    "650801000300ac020709",
    "660401000203",
    "690c010001020103070101ac0200",
    "6a1601010101922101030101010401020103010401050106",
    "6b020107",
    "6c05010104a846",
    "6d070101800404a846",
    "6e020103",
    "6f0104",
];

const VERSION_1_0: [&str; 104] = [
    "010f0674745f6c6f670772756e2e6c6f67",
    "020c0b74746e6e2e6d61746d756c",
    "032400023c5a0501020103040120100208080102024060e0a801b054ffffffffffffffffff01",
    "0b040203ac02",
    "0c03030104",
    "0d020506",
    "05020108",
    "060701ac02036f6464",
    "0703f0a204",
    "080d06bc05096d6f64756c65207b7d",
    "0412010102020304020106000100010500010600",
    "0412010102020304020106000100010500010601",
    "0412010102020304020106000100010500010602",
    "0412010102020304020106000100010500010603",
    "0412010102020304020106000100010500010604",
    "20060102010c9908",
    "2103010103",
    "220701020406bc0509",
    "240c01050001020101050006bc05",
    "2506010306018407",
    "2603010302",
    "291001040801010102010300010501060107",
    "3103010408",
    "3303010408",
    "2b070105ffffffff0f",
    "2d050105010306",
    "2e03010503",
    "320401050207",
    "3406010505010600",
    "3505010203ac02",
    "50020102",
    "36160101060180d09dce0300018080808030f65101010600",
    "380601020110010d",
    "3905010400010a",
    "3a0701040980084001",
    "371901020701030901080101010201030107010a00010701080109",
    "2803010701",
    "2803010702",
    "2803010704",
    "2803010708",
    "2803010710",
    "270701090103e80708",
    "23080102070108000106",
    "23080102070108010106",
    "23080102070108020106",
    "23080102070108030106",
    "2c050105000109",
    "2c050105010109",
    "2c050105020109",
    "2c050105030109",
    "2c050105040109",
    "2c050105050109",
    "2c050105060109",
    "2c050105070109",
    "2c050105080109",
    "2c050105090109",
    "2c0501050a0109",
    "2a100101060480100308030103010a010300",
    "301a010001020102010301040105010601070108010900010b0d0d01",
    "301a010101020102010301040105010601070108010900010b0d0d01",
    "301a010201020102010301040105010601070108010900010b0d0d01",
    "301a010301020102010301040105010601070108010900010b0d0d01",
    "301a010401020102010301040105010601070108010900010b0d0d01",
    "301a010501020102010301040105010601070108010900010b0d0d01",
    "3b0a018080e09feea189bc18",
    "3c020102",
    "3e0b0103020104010784070400",
    "3f100104c0843d07802080088018b8170504",
    "400a01030102030405060d08",
    "41050103f0a204",
    "420401040104",
    "430601010409a006",
    "440c010520c8d00701060d000106",
    "45080107808080800407",
    "4603010501",
    "470901040180897a01ff3f",
    "480c01c08db70102808080808020",
    "4908010105f403049003",
    "4a03010503",
    "4c1401028084808080e01f8020840701030501080100",
    "4b130102008084808080e01fa01f80200300048507",
    "4b120102018084808080e01fa01f802003018507",
    "4b120102028084808080e01fa01f802003028507",
    "4b130102038084808080e01fa01f80200300048507",
    "4b120102048084808080e01fa01f802003018507",
    "4b120102058084808080e01fa01f802003028507",
    "4b130102068084808080e01fa01f80200300048507",
    "4b120102078084808080e01fa01f802003018507",
    "4b120102088084808080e01fa01f802003028507",
    "4b130102098084808080e01fa01f80200300048507",
    "4b1201020a8084808080e01fa01f802003018507",
    "4b1201020b8084808080e01fa01f802003028507",
    "4d03010109",
    "59020100",
    "5b02014d",
    "5a06010101020103",
    "5803010100",
    "580401010107",
    "3d050103010300",
    "3d050103010301",
    "3d050103010302",
    "3d050103010303",
    "3d050103010304",
    "0900",
];

// Files that our writer does not write.

struct Forged(Vec<u8>, u32);

impl Forged {
    fn new(major: u16, minor: u16) -> Self {
        let head = [b"\x89TTMEM\r\n".as_slice(), &major.to_le_bytes(), &minor.to_le_bytes()].concat();
        let crc = crc32fast::hash(&head);
        Self([head, crc.to_le_bytes().to_vec()].concat(), crc)
    }

    fn frame(&mut self, payload: &[u8]) {
        self.frame_claiming(u32::try_from(payload.len()).unwrap(), payload);
    }

    fn frame_claiming(&mut self, length: u32, payload: &[u8]) {
        let mut hasher = crc32fast::Hasher::new_with_initial(self.1);
        hasher.update(&length.to_le_bytes());
        hasher.update(payload);
        self.1 = hasher.finalize();
        self.0.extend_from_slice(&length.to_le_bytes());
        self.0.extend_from_slice(&self.1.to_le_bytes());
        self.0.extend_from_slice(payload);
    }
}

fn event_bytes(kind: u32, content: &[u8]) -> Vec<u8> {
    [postcard::to_stdvec(&(kind, content.len())).unwrap(), content.to_vec()].concat()
}

fn stored(events: &[u8]) -> Vec<u8> {
    [&[0], events].concat()
}

fn compressed(events: &[u8], claimed: u32) -> Vec<u8> {
    [&[1], claimed.to_le_bytes().as_slice(), &zstd::bulk::compress(events, 3).unwrap()].concat()
}

fn text(text: &str) -> Event<'static> {
    Event::Text(Cow::Owned(text.to_owned()))
}

const TEXT_A: &[u8] = b"\x02\x02\x01a";
const END: &[u8] = b"\x09\x00";
const CLOSED: &[u8] = b"\x0a\x00";

#[test]
fn a_newer_minor_is_read_without_what_is_not_known() {
    let mut file = Forged::new(1, 7);
    // Two events of unknown kinds, and a string with something behind it that only the newer version knows.
    let more = [b"\x02\x05\x01a???".as_slice(), &event_bytes(5000, b"whatever"), &event_bytes(31, b""), END];
    file.frame(&stored(&more.concat()));
    let events = read(&file.0).unwrap();
    let [first, Event::Warning(warning), Event::End] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(*first, text("a"));
    assert!(warning.message.contains("2 events") && warning.message.contains("1.7"), "{}", warning.message);
}

#[test]
fn an_unknown_kind_of_our_own_version_is_passed_over_and_said() {
    let mut file = Forged::new(1, 0);
    file.frame(&stored(&[TEXT_A, &event_bytes(31, &[0; 300]), TEXT_A, &event_bytes(0, b""), END].concat()));
    let events = read(&file.0).unwrap();
    let [a, b, Event::Warning(warning), Event::End] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((a, b), (&text("a"), &text("a")));
    assert!(warning.message.contains("2 events"), "{}", warning.message);
}

#[test]
fn another_major_is_refused() {
    for (major, age) in [(0_u16, "an older"), (2, "a newer"), (u16::MAX, "a newer")] {
        let error = read(&Forged::new(major, 3).0).unwrap_err();
        let message = error.to_string();
        assert!(message.contains(&format!("{major}.3")) && message.contains("1.1"), "{message}");
        assert!(message.contains(age) && message.contains("convert the file"), "{message}");
        assert_eq!(error.exit_code(), 2);
    }
    assert!(frame::is_ttmem(&Forged::new(2, 0).0), "still ours: it is for us to say why not");
}

#[test]
fn what_is_behind_the_end_is_left_out_and_said() {
    for tail in [TEXT_A, CLOSED, END] {
        for end in [END, CLOSED] {
            let mut same_frame = Forged::new(1, 0);
            same_frame.frame(&stored(&[TEXT_A, end, tail].concat()));
            let mut next_frame = Forged::new(1, 0);
            next_frame.frame(&stored(&[TEXT_A, end].concat()));
            let mut garbage = next_frame.0.clone();
            garbage.push(b'x');
            next_frame.frame(&stored(tail));
            for file in [same_frame.0, next_frame.0, garbage] {
                let mut events = read(&file).unwrap();
                if end == END {
                    assert_eq!(events.pop(), Some(Event::End), "the end comes last");
                }
                let [first, Event::Warning(warning)] = events.as_slice() else { panic!("{events:?}") };
                assert_eq!(*first, text("a"));
                assert!(warning.message.contains("after the end"), "{}", warning.message);
            }
        }
    }
}

#[test]
fn an_event_that_is_none_stops_the_reading() {
    let hopeless: [&[u8]; 9] = [
        b"\x02\x02\x09a",                                    // a string that is longer than its event
        b"\x02\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", // … by far
        b"\x02\x02\x01\xff",                                 // no UTF-8
        b"\x02\x03\x01a?",                                   // more than a string
        b"\x02\x7fa",                                        // longer than its frame
        b"\x02",                                             // no length
        b"\x21\x02\x00\x00",                                 // rank 0: ids begin at 1
        b"\x03\x0a\x00\xff\xff\xff\xff\xff\xff\xff\xff\x7f", // a shape of 2^63 numbers
        b"\xff\xff\xff\xff\xff\x01",                         // a kind beyond 32 bits
    ];
    for event in hopeless {
        let mut file = Forged::new(1, 0);
        file.frame(&stored(&[TEXT_A, event].concat()));
        file.frame(&stored(TEXT_A));
        let (events, message) = read_corrupt(&file.0);
        assert_eq!(events, [text("a")], "{event:x?}");
        assert!(message.contains("at byte 16") && message.contains("cannot be decoded"), "{message}");
    }
}

/// Gives bytes, and remembers the largest buffer that it was asked to fill.
struct Watched<'a>(&'a [u8], usize);

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 = self.1.max(buffer.len());
        self.0.read(buffer)
    }
}

#[test]
fn lengths_that_ask_for_the_world_get_nothing() {
    let nothing = vec![0; 300 << 20];
    let bomb = zstd::bulk::compress(&nothing, 1).unwrap();
    let huge = u32::try_from(nothing.len()).unwrap();
    drop(nothing);
    let bomb_claiming = |length: u32| [&[1], length.to_le_bytes().as_slice(), &bomb].concat();

    let mut files = Vec::new();
    for claimed in [u32::MAX, huge, (256 << 20) + 65, 256 << 20, 0] {
        let mut file = Forged::new(1, 0);
        file.frame_claiming(claimed, TEXT_A);
        files.push(file);
    }
    // 300 MiB in some 10 KiB: called what it is, or less.
    for claimed in [huge, u32::MAX, 200 << 20, 4 << 20, 10, 0] {
        let mut file = Forged::new(1, 0);
        file.frame(&bomb_claiming(claimed));
        files.push(file);
    }
    // Less than claimed, no zstd at all, no codec, nothing.
    let odd = [
        compressed(&TEXT_A.repeat(99), 400),
        b"\x01\xff\x00\x00\x00zstd?".to_vec(),
        b"\x02aaa".to_vec(),
        b"\x01".to_vec(),
    ];
    for payload in odd {
        let mut file = Forged::new(1, 0);
        file.frame(&payload);
        files.push(file);
    }
    for file in files {
        let (mut taken, mut watched) = (Taken::default(), Watched(&file.0, 0));
        frame::read(&mut watched, "test.ttmem", &mut taken).unwrap();
        assert!(matches!(taken.0.as_slice(), [Event::Warning(_)]), "{:?}", taken.0);
        assert!(watched.1 <= 1 << 20, "a buffer of {} bytes", watched.1);
    }
}

#[test]
fn a_large_text_has_its_own_frame() {
    let line =
        "%0 = \"ttnn.matmul\"(%arg0, %arg1) : (tensor<32x32xbf16>, tensor<32x32xbf16>) -> tensor<32x32>\n";
    let lines = (0..120_000).map(|n| format!("{n}: {line}")).collect::<Vec<_>>().concat();
    let zeros = "\0".repeat(9 << 20); // above 256 to 1: stored as it is
    let events = [text("a"), text(&lines), text("b"), text(&zeros), text("c"), Event::End];
    let file = finished(&events, 9);
    assert_eq!(read(&file).unwrap(), events);
    let starts = frame_starts(&file);
    assert_eq!(starts.len(), 6, "five frames");
    assert!(starts[2] - starts[1] < lines.len() / 8);
    assert!(starts[4] - starts[3] > zeros.len());
}

#[test]
fn an_event_that_is_too_large_is_refused_and_the_writer_goes_on() {
    let mut writer = Writer::create(Vec::new(), "test.ttmem").unwrap();
    writer.take(text("a")).unwrap();
    let shape = vec![u64::MAX; 500_000];
    let (text_id, layout, logical) = (None, None, Bytes::UNKNOWN);
    let ty =
        TensorType { text: text_id, shape, dtype: s(0), layout, declared: logical, logical, padded: logical };
    let error = writer.take(Event::Type(ty)).unwrap_err().to_string();
    assert!(error.contains("test.ttmem") && error.contains("4 MiB"), "{error}");
    writer.take(text("b")).unwrap();
    writer.take(Event::End).unwrap();
    assert_eq!(read(&writer.finish().unwrap()).unwrap(), [text("a"), text("b"), Event::End]);
}

#[test]
fn nothing_is_taken_after_the_end() {
    let mut writer = Writer::create(Vec::new(), "test.ttmem").unwrap();
    writer.take(Event::End).unwrap();
    assert!(matches!(writer.take(text("late")), Err(Error::Bug(_))));
    assert_eq!(read(&writer.finish().unwrap()).unwrap(), [Event::End]);
}

/// A disk that is full after some bytes, and has room again later.
struct Full(Vec<u8>, usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = bytes.len().min(self.1);
        self.1 -= room;
        self.0.extend_from_slice(&bytes[..room]);
        if room > 0 { Ok(room) } else { Err(io::ErrorKind::StorageFull.into()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn nothing_is_written_behind_a_write_that_failed() {
    let mut disk = Full(Vec::new(), 16 + 13 + 5);
    let mut writer = Writer::create(&mut disk, "test.ttmem").unwrap();
    writer.take(text("a")).unwrap();
    writer.flush().unwrap();
    writer.take(text("b")).unwrap();
    assert!(matches!(writer.flush(), Err(Error::Write { .. })));
    let error = writer.take(text("c")).unwrap_err().to_string();
    assert!(error.contains("test.ttmem") && error.contains("earlier write failed"), "{error}");
    assert!(writer.flush().is_err() && writer.finish().is_err());
    assert_eq!(read_corrupt(&disk.0).0, [text("a")]);
}

fn open(path: &Path) -> File {
    OpenOptions::new().read(true).write(true).open(path).unwrap()
}

#[test]
fn a_recording_that_was_cut_anywhere_goes_on() {
    let (bytes, events, starts) = small_file();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("live.ttmem");
    // The last frame has the end; without it, all others are there.
    for cut in 0..starts[starts.len() - 2] {
        std::fs::write(&path, &bytes[..cut]).unwrap();
        let mut known = Taken::default();
        let mut writer = frame::append(open(&path), &path, &mut known).unwrap();
        say(&[text("more"), Event::End], &mut writer);
        writer.finish().unwrap();

        let mut again = read(&std::fs::read(&path).unwrap()).unwrap();
        let tail = again.split_off(again.len() - 2);
        assert_eq!(tail, [text("more"), Event::End]);
        assert_eq!(again, known.0, "the producer knows what is in the file");
        if cut >= 16 {
            let Some(Event::Warning(Warning { message, .. })) = again.pop() else { panic!("cut at {cut}") };
            assert!(message.contains("interrupted"), "{message}");
        }
        assert_eq!(again, events[..events_before(cut, &starts)], "cut at {cut}");
    }
}

#[test]
fn a_recording_with_corruption_further_up_goes_on_from_there() {
    let (mut bytes, events, starts) = small_file();
    bytes[starts[2] + 9] ^= 1;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("live.ttmem");
    std::fs::write(&path, &bytes).unwrap();
    let mut known = Taken::default();
    frame::append(open(&path), &path, &mut known).unwrap().finish().unwrap();
    let read = read(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(read, known.0);
    assert_eq!(read[..18], events[..18]);
    let [Event::Warning(warning)] = &read[18..] else { panic!("{read:?}") };
    let lost = format!("{} unreadable bytes", bytes.len() - starts[2]);
    assert!(warning.message.contains(&lost), "{}", warning.message);
}

#[test]
fn what_must_not_be_continued_is_left_as_it_is() {
    let (ended, ..) = small_file();
    let closed = finished(&[text("a")], 1);
    let mut newer = Forged::new(1, 2);
    newer.frame(&stored(TEXT_A));
    let mut unknown = Forged::new(1, 1);
    unknown.frame(&stored(&event_bytes(31, b"")));
    let mut undecodable = Forged::new(1, 1);
    undecodable.frame(&stored(b"\x02\x02\x09a"));
    let mut bad_header = ended.clone();
    bad_header[13] ^= 1;
    let files = [
        (ended, "finished"),
        (closed, "finished"),
        (newer.0, "1.2"),
        (unknown.0, "unknown to this version"),
        (undecodable.0, "cannot be decoded"),
        (bad_header, "header"),
        (Forged::new(2, 0).0, "2.0"),
        (b"Always | INFO | something else".to_vec(), "not a .ttmem file"),
    ];
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("other.ttmem");
    for (bytes, why) in files {
        std::fs::write(&path, &bytes).unwrap();
        let error = frame::append(open(&path), &path, &mut Taken::default()).unwrap_err().to_string();
        assert!(error.contains(why) && error.contains("other.ttmem"), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), bytes);
    }
}

/// A source that ends in an error, as a cut gzip file does.
struct Broken<'a>(&'a [u8], io::ErrorKind);

impl Read for Broken<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.0.is_empty() { Err(self.1.into()) } else { self.0.read(buffer) }
    }
}

#[test]
fn a_cut_archive_is_a_cut_file_and_a_broken_disk_is_an_error() {
    let (bytes, events, starts) = small_file();
    for cut in [starts[2], starts[2] + 3, starts[2] + 20] {
        let mut taken = Taken::default();
        let mut source = Broken(&bytes[..cut], io::ErrorKind::UnexpectedEof);
        frame::read(&mut source, "test.ttmem", &mut taken).unwrap();
        assert!(matches!(taken.0.pop(), Some(Event::Warning(_))));
        assert_eq!(taken.0, events[..18]);

        let mut source = Broken(&bytes[..cut], io::ErrorKind::PermissionDenied);
        let error = frame::read(&mut source, "test.ttmem", &mut Taken::default()).unwrap_err();
        assert!(matches!(error, Error::Read { .. }) && error.to_string().contains("test.ttmem"));
    }
}

/// Refuses the third event.
struct Picky(usize);

impl Sink for Picky {
    fn take(&mut self, _: Event<'_>) -> Result<()> {
        self.0 += 1;
        if self.0 < 3 { Ok(()) } else { Err(Error::NotFound("enough".to_owned())) }
    }
}

#[test]
fn what_the_sink_says_counts() {
    let (bytes, ..) = small_file();
    let mut picky = Picky(0);
    let error = frame::read(&mut &*bytes, "test.ttmem", &mut picky).unwrap_err();
    assert_eq!((error.to_string().as_str(), picky.0), ("enough", 3));
}
