//! Tensors that stay on the device between programs: arguments, and results that have not been freed yet.

use rustc_hash::{FxHashMap, FxHashSet};
use ttmem_model::{Class, StrId};

use super::super::graphs::FunctionRef;
use super::super::life::{AllocRef, Lives};
use super::super::tables::TypeRef;

/// The owner of arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    Function(FunctionRef),
    /// A program whose graph is unknown.
    Program(StrId),
}

/// An argument: its owner, number and type.
pub(super) type ArgumentKey = (Owner, u32, TypeRef);

/// Resident tensors between two programs.
#[derive(Debug, Default)]
pub(super) struct Residents {
    arguments: FxHashMap<ArgumentKey, AllocRef>,
    /// The results of finished programs, program by program.
    outputs: Vec<Vec<AllocRef>>,
}

impl Residents {
    pub fn argument(&self, key: ArgumentKey) -> Option<AllocRef> {
        self.arguments.get(&key).copied()
    }

    pub fn set_argument(&mut self, key: ArgumentKey, alloc: AllocRef) {
        self.arguments.insert(key, alloc);
    }

    /// Adds the results of a program, and takes over their hold.
    pub fn add_outputs(&mut self, outputs: Vec<AllocRef>) {
        self.outputs.push(outputs);
    }

    /// The pieces that may be freed independently: single results if there are few, otherwise all results of a program
    /// together.
    pub fn pieces_of_outputs(&self, lives: &Lives) -> Vec<Vec<AllocRef>> {
        const MAX_PIECES: usize = 8;
        let alive = |alloc: &&AllocRef| lives.get(**alloc).is_alive();
        let mut single = self.outputs.iter().flatten().filter(alive).map(|alloc| vec![*alloc]);
        let few: Vec<Vec<AllocRef>> = single.by_ref().take(MAX_PIECES).collect();
        if single.next().is_none() {
            return few;
        }
        // The results of each of the latest programs; all older ones together.
        let (old, recent) = self.outputs.split_at(self.outputs.len().saturating_sub(MAX_PIECES - 1));
        let mut pieces = vec![old.iter().flatten().filter(alive).copied().collect()];
        pieces.extend(recent.iter().map(|group| group.iter().filter(alive).copied().collect()));
        pieces
    }

    /// New arguments that another graph has with the same name and type, each with that argument.
    pub fn shareable(&self, new: &[AllocRef], lives: &Lives) -> Vec<(AllocRef, AllocRef)> {
        let of = |alloc: AllocRef| {
            let alloc = lives.get(alloc);
            (alloc.class() == Class::Weight && alloc.is_alive()).then_some((alloc.name()?, alloc.ty))
        };
        let wanted: FxHashSet<_> = new.iter().filter_map(|slot| of(*slot)).collect();
        if wanted.is_empty() {
            return Vec::new();
        }
        let fresh: FxHashSet<AllocRef> = new.iter().map(|slot| lives.resolve(*slot)).collect();
        let mut resident: Vec<AllocRef> =
            self.arguments.values().map(|alloc| lives.resolve(*alloc)).collect();
        resident.sort_unstable_by_key(|alloc| std::cmp::Reverse(lives.said_as(*alloc)));
        resident.dedup();
        let mut known: FxHashMap<_, Vec<AllocRef>> = FxHashMap::default();
        for alloc in resident.into_iter().filter(|alloc| !fresh.contains(alloc)) {
            if let Some(key) = of(alloc).filter(|key| wanted.contains(key)) {
                known.entry(key).or_default().push(alloc);
            }
        }
        // Each is used once, the oldest first.
        let mut give = |slot: AllocRef| Some((slot, known.get_mut(&of(slot)?)?.pop()?));
        new.iter().filter_map(|slot| give(*slot)).collect()
    }

    /// Drops references to freed memory, because its slots will be reused.
    pub fn forget_the_dead(&mut self, lives: &Lives) {
        self.arguments.retain(|_, alloc| {
            *alloc = lives.resolve(*alloc);
            lives.get(*alloc).is_alive()
        });
        for group in &mut self.outputs {
            for alloc in group.iter_mut() {
                *alloc = lives.resolve(*alloc);
            }
            group.retain(|alloc| lives.get(*alloc).is_alive());
        }
        self.outputs.retain(|group| !group.is_empty());
    }
}
