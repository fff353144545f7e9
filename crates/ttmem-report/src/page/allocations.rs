//! The groups of allocations and the reserved memory of a rank, named as on the screen.

use serde::Serialize;
use ttmem_model::{Profile, Rank};
use ttmem_query::{AllocationGroup, Allocations, GroupBy, Grouping, ReservedPool, groupings};

use crate::text::allocations::{by, named, note, reserved_name};

/// The allocations of a rank.
#[derive(Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[cfg_attr(feature = "typescript", ts(rename = "PageAllocations"))]
pub(super) struct AboutAllocations {
    /// The groups of allocations by each of their properties.
    groupings: Vec<AboutGrouping>,
    /// The reserved memory at the end, most free bytes first.
    reserved: Vec<AboutReserved>,
}

/// The allocations of a rank by one of their properties.
#[derive(Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[cfg_attr(feature = "typescript", ts(rename = "PageGrouping"))]
struct AboutGrouping {
    by: GroupBy,
    /// The property, such as `source line`.
    title: &'static str,
    /// What the property means for this input, if that needs an explanation.
    note: Option<&'static str>,
    /// The groups with the most live bytes, largest first.
    groups: Vec<AboutGroup>,
    /// The groups that allocated the most bytes over time, largest first.
    busiest: Vec<AboutGroup>,
}

#[derive(Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[cfg_attr(feature = "typescript", ts(rename = "PageGroup"))]
struct AboutGroup {
    /// The common property, or a phrase if it is unknown.
    name: String,
    #[serde(flatten)]
    group: AllocationGroup,
}

#[derive(Serialize)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS))]
#[cfg_attr(feature = "typescript", ts(rename = "PageReserved"))]
struct AboutReserved {
    /// The private pool, the block size and the stream.
    name: String,
    #[serde(flatten)]
    pool: ReservedPool,
}

impl AboutAllocations {
    pub(super) fn new(profile: &Profile, rank: &Rank, found: &Allocations) -> Self {
        let reserved = found.reserved.iter();
        Self {
            groupings: groupings(profile, rank, found).into_iter().map(AboutGrouping::new).collect(),
            reserved: reserved
                .map(|pool| AboutReserved { name: reserved_name(pool), pool: pool.clone() })
                .collect(),
        }
    }
}

impl AboutGrouping {
    fn new(Grouping { by: property, module_source, groups, busiest }: Grouping) -> Self {
        let all = |groups: Vec<AllocationGroup>| {
            let row = |group| AboutGroup { name: named(&group, property, module_source), group };
            groups.into_iter().map(row).collect()
        };
        Self {
            by: property,
            title: by(property, module_source),
            note: note(module_source),
            groups: all(groups),
            busiest: all(busiest),
        }
    }
}
