//! The inputs registry: the arguments of every graph, for `<name>_inputs_registry.json`.
//!
//! If there are several graphs, each entry has the number of its `graph`, from 0; `index` is the argument's number in
//! that graph. The totals count an argument shared by several graphs once, as the summary does.

use serde::ser::{Serialize, SerializeMap, Serializer};
use ttmem_model::{Argument, ArgumentKind, Profile, Rank};

use super::rows::{Rows, Shape, mib};
use crate::analyze::traced::number_of;
use crate::analyze::weights;

/// The content of `<name>_inputs_registry.json`.
#[derive(Clone, Copy, Debug)]
pub struct RegistryFile<'a> {
    /// The profile.
    pub profile: &'a Profile,
    /// The rank whose graphs are listed.
    pub rank: &'a Rank,
}

impl Serialize for RegistryFile<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("metadata", &Metadata::new(self.profile, self.rank))?;
        map.serialize_entry("entries", &Rows(|| registry_rows(self.profile, self.rank)))?;
        map.end()
    }
}

/// Totals of the registry. Numbers that are unknown because no graph was printed are omitted: the visualizer
/// of tt-memory-profiler 0.x formats every value as a number.
#[allow(clippy::struct_field_names, reason = "the contract's names")]
#[derive(serde::Serialize)]
struct Metadata {
    #[serde(skip_serializing_if = "Option::is_none")]
    total_entries: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_weights: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_inputs: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_weight_bytes: Option<u64>,
    #[serde(rename = "total_weight_MB", skip_serializing_if = "Option::is_none")]
    total_weight: Option<f64>,
    total_graphs: usize,
}

impl Metadata {
    fn new(profile: &Profile, rank: &Rank) -> Self {
        let of = |kinds: &[ArgumentKind]| weights::total(profile, rank, kinds);
        let weights = of(&weights::WEIGHTS);
        let inputs = of(&[ArgumentKind::Input, ArgumentKind::Default]);
        Self {
            total_entries: weights.map(|_| rank.modules.iter().map(|module| module.arguments.len()).sum()),
            total_weights: weights.map(|total| total.count),
            total_inputs: inputs.map(|total| total.count),
            total_weight_bytes: weights.map(|total| total.bytes),
            total_weight: weights.map(|total| mib(total.bytes)),
            total_graphs: rank.modules.len(),
        }
    }
}

/// An argument of a graph.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct RegistryRow<'a> {
    /// The number in the signature.
    pub index: usize,
    /// The number of its graph, from 0; omitted if there is only one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub graph: Option<usize>,
    /// `%arg3`.
    pub ssa: &'a str,
    /// The name in the model; an argument without one has its SSA name, such as `%arg3`.
    pub name: &'a str,
    /// `parameter`, `constant`, `input`, `default`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// The shape, without padding.
    pub shape: Option<Shape<'a>>,
    /// The element type.
    pub dtype: Option<&'a str>,
    /// The bytes of its elements.
    pub bytes: Option<u64>,
    /// The same in MiB.
    #[serde(rename = "bytes_MB")]
    pub mib: Option<f64>,
}

/// The arguments of every graph.
pub fn registry_rows<'a>(profile: &'a Profile, rank: &'a Rank) -> impl Iterator<Item = RegistryRow<'a>> + 'a {
    let several = rank.modules.len() > 1;
    rank.modules.iter().enumerate().flat_map(move |(graph, module)| {
        let graph = several.then_some(graph);
        let arguments = (0..).zip(&module.arguments);
        arguments.filter_map(move |(place, argument)| row(profile, graph, place, argument))
    })
}

fn row<'a>(
    profile: &'a Profile,
    graph: Option<usize>,
    place: u32,
    argument: &'a Argument,
) -> Option<RegistryRow<'a>> {
    let ty = argument.ty.and_then(|ty| profile.tensor_type(ty));
    let bytes = ty.and_then(|ty| ty.declared.get());
    Some(RegistryRow {
        index: number_of(profile, argument, place)?,
        graph,
        ssa: profile.text(argument.ssa),
        name: profile.text(argument.name.unwrap_or(argument.ssa)),
        kind: argument.kind.as_str(),
        shape: ty.map(|ty| Shape(&ty.shape)),
        dtype: ty.map(|ty| profile.text(ty.dtype)),
        bytes,
        mib: bytes.map(mib),
    })
}
