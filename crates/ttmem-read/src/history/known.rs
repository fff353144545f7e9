//! What labels say about tensors.

use rustc_hash::FxHashMap;
use ttmem_model::{Class, HistoryAction, HistoryRow, Label, Nanoseconds, PoolId, Rank, StrId, TypeId};

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
    let mut allocations = vec![Vec::new(); rank.pools.len()];
    // The last allocation at an address.
    let mut places: FxHashMap<(PoolId, u64), usize> = FxHashMap::default();
    let mut labels: Vec<Label> = rank.labels.iter().collect();
    labels.sort_by_key(|label| label.time);
    let mut labels = labels.into_iter().peekable();
    let mut row = |row: Option<HistoryRow>| {
        let until = row.map_or(Nanoseconds::MAX, |row| row.time);
        while let Some(label) = labels.next_if(|label| label.time < until) {
            let place = places.get(&(label.pool, label.address));
            if let Some(known) = place.and_then(|place| allocations[label.pool.index()].get_mut(*place)) {
                Known::add(known, &label);
            }
        }
        match row {
            Some(row) if row.action == HistoryAction::Allocated => {
                let of_pool: &mut Vec<Known> = &mut allocations[row.pool.index()];
                places.insert((row.pool, row.address), of_pool.len());
                of_pool.push(Known::NOTHING);
            }
            Some(row) => _ = places.remove(&(row.pool, row.address)),
            None => {}
        }
    };
    rank.history.iter().for_each(|one| row(Some(one)));
    row(None);
    allocations
}
