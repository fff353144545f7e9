//! Inputs that cannot be compared.

use ttmem_model::{Error, Profile, Result};

use super::{Diff, RankDiff, content};
use crate::device::DeviceKind;

/// An error if the inputs are of different kinds of devices.
pub(super) fn same_vendor(before: &Profile, after: &Profile) -> Result<()> {
    let device = |profile: &Profile| content(profile).find_map(|rank| DeviceKind::of(profile, rank));
    let name = |device| match device {
        DeviceKind::Tenstorrent => "a Tenstorrent device",
        DeviceKind::Torch => "PyTorch",
    };
    match (device(before), device(after)) {
        (Some(a), Some(b)) if a != b => Err(Error::Usage(format!(
            "cannot compare {} ({}) with {} ({}); pass two profiles of the same kind of device",
            before.source.file,
            name(a),
            after.source.file,
            name(b)
        ))),
        _ => Ok(()),
    }
}

/// An error if no rank has anything that can be compared: different training phases and errors alone cannot.
pub(super) fn something_compared(before: &Profile, after: &Profile, found: &Diff) -> Result<()> {
    if !found.ranks.iter().all(is_nothing) {
        return Ok(());
    }
    let files = format!("{} with {}", before.source.file, after.source.file);
    let has_phases = |profile: &Profile| content(profile).any(|rank| !rank.phases.is_empty());
    Err(Error::Usage(if has_phases(before) && has_phases(after) {
        format!(
            "cannot compare {files}: they have only training phases, and none in common; compare the output of `ttmem \
             phases` for each"
        )
    } else {
        format!(
            "cannot compare {files}: they have no peaks or operations; `ttmem summary` shows the contents of each"
        )
    }))
}

/// Whether a rank has nothing that was compared.
fn is_nothing(rank: &RankDiff) -> bool {
    let operations = rank.operations;
    let is_empty = rank.pools.0.is_empty() && operations.before == 0 && operations.after == 0;
    is_empty && !rank.out_of_memory.is_of_one()
}
