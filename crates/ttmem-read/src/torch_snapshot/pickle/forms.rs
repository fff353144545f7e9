//! Predicts entries, which are compared with few decisions.
//!
//! A program that repeats itself allocates and frees in the same order by the same code. So an entry usually has the action
//! and the stack that followed the entries before it the last time. A [`Form`] has all bytes of such an entry except for
//! three numbers: the address, the size and the time. It is learned from an entry that matched a skeleton, and has the
//! origin of that entry, which need not be looked up again.
//!
//! An entry that does not have the predicted form is left to `skeleton`. As there, equal bytes have equal meanings until a
//! memo is replaced; then all forms are dropped.

use rustc_hash::FxHashMap;
use ttmem_model::HistoryAction;

use super::super::heap::{TextId, Value};
use super::super::keys::Key;
use super::super::trace::{OriginIndex, StackOrigins, is_possible};
use super::entries::Cursor;
use super::part::{Part, Place};
use super::skeleton::{Match, Places, Skeleton, SkeletonId, Then};
use super::{EntryMemos, Memo, Memos};
use crate::history::snapshot::{AddressKey, Entry};

/// The maximum number of forms. Programs have hundreds of them.
const MAX_FORMS: usize = 1 << 12;
/// The maximum number of kinds: a skeleton has one for each action.
const MAX_KINDS: usize = 1 << 6;

/// The forms of earlier entries.
#[derive(Default)]
pub(super) struct Forms {
    kinds: Vec<Kind>,
    all: Vec<Form>,
    known: FxHashMap<FormKey, u16>,
    expected: Expected,
}

/// Predicts the next form from the last ones: the same form occurs in several places.
#[derive(Default)]
struct Expected {
    /// The numbers of the last forms, each [`Self::BITS`] further to the left. Those with more bits overlap.
    context: u64,
    /// The forms that followed the contexts, by a hash; empty until a form is learned.
    forms: Vec<u16>,
}

/// The entries of a skeleton with the same action.
struct Kind {
    skeleton: SkeletonId,
    word: Option<TextId>,
    /// The bytes up to the size, and those from there up to the stack.
    head: Part,
    middle: Part,
    addr: Place,
    time_us: Place,
    action: HistoryAction,
    /// The origins of entries that refer to a stack.
    origins: StackOrigins,
}

/// The entries of a kind with the same stack, or those that refer to the stack of an earlier entry.
struct Form {
    kind: usize,
    /// `None` if it follows from the reference.
    origin: Option<OriginIndex>,
    /// The bytes of the list and those after it, or those after the reference.
    rest: Box<[u8]>,
    /// The memos that entries define.
    memos: EntryMemos,
}

/// What forms differ in: the kind, whether they refer to stacks, and the rest.
type FormKey = (usize, bool, Box<[u8]>);

/// An entry that teaches a form.
#[derive(Clone, Copy)]
pub(super) struct Sample<'s> {
    /// Its bytes.
    pub bytes: &'s [u8],
    /// The skeleton that it matched.
    pub skeleton: &'s Skeleton,
    pub found: &'s Match,
    /// What it became.
    pub entry: &'s Entry<OriginIndex>,
}

impl Expected {
    const BITS: u32 = 8;
    const TABLE_BITS: u32 = 14;

    #[inline]
    fn slot(&self) -> usize {
        // The multiplier of FxHash.
        let hash = self.context.wrapping_mul(0xf135_7aea_2e62_a9c5);
        usize::try_from(hash >> (64 - Self::TABLE_BITS)).unwrap_or(0)
    }

    /// The form that is expected next.
    #[inline]
    fn next(&self) -> u16 {
        self.forms.get(self.slot()).copied().unwrap_or(0)
    }

    /// Sets the form that came instead of the expected one.
    fn correct(&mut self, form: u16) {
        if self.forms.is_empty() {
            self.forms = vec![0; 1 << Self::TABLE_BITS];
        }
        let slot = self.slot();
        self.forms[slot] = form;
    }

    /// Continues after a form.
    #[inline]
    fn advance(&mut self, form: u16) {
        self.context = self.context << Self::BITS ^ u64::from(form);
    }
}

impl Forms {
    /// Matches the next entry, whose bytes follow its first opcode, and defines its memos. Returns it with its length.
    #[inline]
    pub fn read(&mut self, bytes: &[u8], memos: &mut Memos) -> Option<(Entry<OriginIndex>, usize)> {
        let expected = self.expected.next();
        let form = self.all.get(usize::from(expected))?;
        let found = form.read(self.kinds.get(form.kind)?, bytes, memos)?;
        memos.push_some(form.memos);
        self.expected.advance(expected);
        Some(found)
    }

    /// Learns from an entry that was not expected.
    #[cold]
    pub fn learn(&mut self, sample: Sample<'_>) {
        if let Some(form) = self.form_of(sample) {
            self.expected.correct(form);
            self.expected.advance(form);
        }
    }

    fn form_of(&mut self, sample: Sample<'_>) -> Option<u16> {
        if let Some(kind) = self.known_kind(sample)
            && let Some(known) = self.known.get(&sample.key(kind)?)
        {
            self.kinds.get_mut(kind)?.learn_origin(sample);
            return Some(*known);
        }
        if self.all.len() >= MAX_FORMS || self.kinds.len() >= MAX_KINDS {
            *self = Self::default();
        }
        self.new_form(sample)
    }

    fn known_kind(&self, sample: Sample<'_>) -> Option<usize> {
        let (skeleton, word) = (sample.skeleton.id, sample.found.own.action);
        self.kinds.iter().position(|kind| kind.skeleton == skeleton && kind.word == word)
    }

    fn new_form(&mut self, sample: Sample<'_>) -> Option<u16> {
        let memos = EntryMemos::new(&sample.skeleton.defined(sample.found))?;
        let kind = match self.known_kind(sample) {
            Some(known) => known,
            None => {
                self.kinds.push(Kind::of(sample)?);
                self.kinds.len() - 1
            }
        };
        self.kinds.get_mut(kind)?.learn_origin(sample);
        let key = sample.key(kind)?;
        let form = u16::try_from(self.all.len()).ok()?;
        let origin = (!sample.found.refers_to_stack()).then_some(sample.entry.origin);
        self.all.push(Form { kind, origin, rest: key.2.clone(), memos });
        self.known.insert(key, form);
        Some(form)
    }
}

impl Sample<'_> {
    /// What distinguishes the form, which is of some kind.
    fn key(&self, kind: usize) -> Option<FormKey> {
        let refers = self.found.refers_to_stack();
        let rest = if refers { self.found.frames.end } else { self.found.frames.start };
        Some((kind, refers, self.bytes.get(rest..)?.into()))
    }
}

impl Kind {
    /// `None` if entries of the skeleton do not have the usual order: the action, the size, the stack.
    fn of(sample: Sample<'_>) -> Option<Self> {
        let Sample { bytes, skeleton, found, entry } = sample;
        let &[(mut head, Then::Number(Key::Size)), (mut middle, then), ref rest @ ..] =
            skeleton.parts.as_slice()
        else {
            return None;
        };
        let Places { addr, device_free: None, time_us } = skeleton.places else { return None };
        let is_usual = match then {
            Then::Frames => rest.iter().all(|(_, then)| *then == Then::Nothing),
            Then::Nothing => rest.is_empty(),
            Then::Number(_) => false,
        };
        let are_before =
            [Some(skeleton.action), addr, time_us].iter().flatten().all(|place| place.part() < 2);
        if !is_usual || !are_before || AddressKey::of(entry.action) != AddressKey::Addr {
            return None;
        }
        let action = skeleton.action.bytes(bytes, &found.starts)?;
        let part = if skeleton.action.part() == 0 { &mut head } else { &mut middle };
        *part = part.with(skeleton.action.offset(), &action)?;
        Some(Self {
            skeleton: skeleton.id,
            word: found.own.action,
            head,
            middle,
            addr: addr.unwrap_or(Place::NONE),
            time_us: time_us.unwrap_or(Place::NONE),
            action: entry.action,
            origins: StackOrigins::default(),
        })
    }

    fn learn_origin(&mut self, sample: Sample<'_>) {
        if sample.found.refers_to_stack() {
            self.origins.set(sample.found.own.stack, sample.entry.origin);
        }
    }

    /// The origin of entries that refer to a stack.
    #[inline]
    fn origin_of(&self, memo: Memo) -> Option<OriginIndex> {
        let Value::Stack(stack) = memo.value() else { return None };
        self.origins.get(stack)
    }
}

impl Form {
    #[inline]
    fn read(&self, kind: &Kind, bytes: &[u8], memos: &Memos) -> Option<(Entry<OriginIndex>, usize)> {
        // All but the rest is certainly in these bytes, whose number is a constant: nothing else need be checked.
        let window: &[u8; 1 << 10] = bytes.first_chunk()?;
        let mut cursor = Cursor::new(window);
        if !kind.head.is_next(cursor.next_bytes()?) {
            return None;
        }
        cursor.skip(kind.head.len());
        let size = cursor.int(cursor.word()?)?;
        let starts = [0, cursor.position()];
        if !kind.middle.is_next(cursor.next_bytes()?) {
            return None;
        }
        cursor.skip(kind.middle.len());
        let origin = match self.origin {
            Some(origin) => origin,
            None => {
                let (memo, len) = Cursor::reference(cursor.word()?)?;
                cursor.skip(len);
                kind.origin_of(memos.get(memo)?)?
            }
        };
        if !bytes.get(cursor.position()..)?.starts_with(&self.rest) {
            return None;
        }
        let entry = Entry {
            action: kind.action,
            address: kind.addr.number(window, &starts)?,
            bytes: size,
            time_us: kind.time_us.number(window, &starts)?,
            origin,
        };
        is_possible(&entry).then_some((entry, cursor.position() + self.rest.len()))
    }
}
