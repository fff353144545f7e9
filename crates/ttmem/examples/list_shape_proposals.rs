//! Lists the tensors whose padding another shape with the same elements would save, and why a shape was dropped: `cargo
//! run --example list_shape_proposals -- FILE…`.

use std::collections::BTreeMap;
use std::fmt::Write;

use ttmem::analyze::reshaping::{Freedom, Reshaping};
use ttmem::analyze::tiles::friendly_shape;
use ttmem::model::{Profile, Rank, TensorId};

#[allow(clippy::print_stdout, reason = "this is a command-line program")]
fn main() -> ttmem::Result<()> {
    for file in std::env::args().skip(1) {
        print!("{}", listed(&file, &ttmem::read::open(&file)?));
    }
    Ok(())
}

/// A line per shape of a profile and verdict on it.
pub(crate) fn listed(name: &str, profile: &Profile) -> String {
    let mut lines: BTreeMap<String, usize> = BTreeMap::new();
    for rank in &profile.ranks {
        let reshaping = Reshaping::new(profile, rank);
        for tensor in (0..rank.tensors.len()).filter_map(TensorId::new) {
            if let Some(line) = line(profile, rank, &reshaping, tensor) {
                *lines.entry(line).or_default() += 1;
            }
        }
    }
    lines.iter().fold(String::new(), |mut text, (line, count)| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name}: {line} ({count} tensors)");
        text
    })
}

fn line(profile: &Profile, rank: &Rank, reshaping: &Reshaping<'_>, tensor: TensorId) -> Option<String> {
    let ty = profile.tensor_type(rank.tensors.ty[tensor.index()]?)?;
    let better = friendly_shape(ty)?;
    let shape = |dims: &[u64]| dims.iter().map(u64::to_string).collect::<Vec<_>>().join("x");
    let why = match reshaping.freedom(tensor) {
        Freedom::Free => "proposed: only element-wise operations use it".to_owned(),
        Freedom::Tied(ops) => {
            let names: Vec<&str> = ops.iter().map(|op| profile.text(*op)).collect();
            format!("dropped: {} would need to change too", names.join(", "))
        }
        Freedom::Returned => "dropped: the program returns it".to_owned(),
        Freedom::Fixed => "dropped: a prepared weight or bias of a convolution has a fixed layout".to_owned(),
        Freedom::Unknown => "dropped: the input does not record which operations use it".to_owned(),
    };
    Some(format!("{} {} as {}, {why}", shape(&ty.shape), profile.text(ty.dtype), shape(&better)))
}
