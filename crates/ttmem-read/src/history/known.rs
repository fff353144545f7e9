//! What labels say about tensors.

use std::iter::Peekable;
use std::vec::IntoIter;

use rustc_hash::FxHashMap;
use ttmem_model::{Class, HistoryAction, HistoryRow, Label, Nanoseconds, Rank, StrId, TypeId};

/// What labels say about a tensor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub ty: Option<TypeId>,
    pub class: Class,
    pub name: Option<StrId>,
}

impl Known {
    const NOTHING: Self = Self { ty: None, class: Class::Unknown, name: None };

    pub fn add(&mut self, label: &Label) {
        // A module's result or a tensor saved by autograd may also be a parameter, and a module's argument another's
        // result.
        let (was, is) = (strength(self.class), strength(label.class));
        if is > was || is == STRONGEST {
            (self.class, self.name) = (label.class, label.name.or(self.name));
            self.ty = label.ty.or(self.ty);
        }
        self.ty = self.ty.or(label.ty);
        self.name = self.name.or(label.name);
    }
}

const STRONGEST: u8 = 2;

/// The precedence of a class when a tensor has several labels.
pub(super) fn strength(class: Class) -> u8 {
    match class {
        Class::Unknown | Class::Temporary | Class::Workspace => 0,
        Class::Activation | Class::Input | Class::Argument => 1,
        Class::Weight
        | Class::Parameter
        | Class::Gradient
        | Class::Optimizer
        | Class::KvCache
        | Class::Buffer => STRONGEST,
    }
}

/// What the labels of a rank say about the allocations of each pool, in order.
pub(super) fn allocations(rank: &Rank) -> Vec<Vec<Known>> {
    let mut labels = vec![Vec::new(); rank.pools.len()];
    rank.labels.iter().for_each(|label| labels[label.pool.index()].push(label));
    let mut labels: Vec<_> = labels.into_iter().map(Labeling::new).collect();
    rank.history.iter().for_each(|row| labels[row.pool.index()].row(&row));
    labels.into_iter().map(Labeling::finish).collect()
}

/// The allocations of a pool so far, and the labels after them.
struct Labeling {
    labels: Peekable<IntoIter<Label>>,
    allocations: Vec<Known>,
    /// The last allocation at each address.
    places: FxHashMap<u64, usize>,
}

impl Labeling {
    fn new(mut labels: Vec<Label>) -> Self {
        labels.sort_by_key(|label| label.time);
        Self { labels: labels.into_iter().peekable(), allocations: Vec::new(), places: FxHashMap::default() }
    }

    fn row(&mut self, row: &HistoryRow) {
        self.label_until(row.time);
        if row.action == HistoryAction::Allocated {
            self.places.insert(row.address, self.allocations.len());
            self.allocations.push(Known::NOTHING);
        } else {
            self.places.remove(&row.address);
        }
    }

    fn label_until(&mut self, time: Nanoseconds) {
        while let Some(label) = self.labels.next_if(|label| label.time < time) {
            if let Some(place) = self.places.get(&label.address) {
                self.allocations[*place].add(&label);
            }
        }
    }

    fn finish(mut self) -> Vec<Known> {
        self.label_until(Nanoseconds::MAX);
        self.allocations
    }
}
