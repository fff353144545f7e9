//! Determines the architecture of a capture. A report names it; in a bare list of nodes it has to be inferred.

use serde::Deserialize;

use super::lives::Place;
use super::node::{Params, spread};
use crate::json::Number;
use crate::ttnn_arch::Arch;

/// The evidence so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Evidence {
    #[default]
    None,
    Found(Arch),
    /// The evidence is contradictory.
    Contradictory,
}

impl Evidence {
    pub fn arch(self) -> Option<Arch> {
        match self {
            Self::Found(arch) => Some(arch),
            Self::None | Self::Contradictory => None,
        }
    }

    fn sign(&mut self, arch: Arch) {
        *self = match *self {
            Self::None => Self::Found(arch),
            Self::Found(found) if found == arch => return,
            Self::Found(_) | Self::Contradictory => Self::Contradictory,
        };
    }

    /// Inspects a buffer: the distribution of its pages over DRAM banks, and its address in L1.
    pub fn buffer(&mut self, params: &Params<'_>, place: Place) {
        let (size, page) = (params.size.get(), params.page_size.get());
        match (place, size, page, params.max_size_per_bank.get()) {
            (Place::Dram, Some(size), Some(page), Some(per_bank))
                if spread(&params.layout.0) == Some("interleaved") =>
            {
                let mut fitting =
                    Arch::ALL.into_iter().filter(|arch| arch.explains_dram(size, page, per_bank));
                if let (Some(arch), None) = (fitting.next(), fitting.next()) {
                    self.sign(arch);
                }
            }
            (Place::L1 | Place::L1Small, ..) => {
                let is_between = |address: u64| !address.is_multiple_of(Arch::Blackhole.alignment());
                if params.address.get().is_some_and(is_between) {
                    self.sign(Arch::Wormhole);
                }
            }
            _ => {}
        }
    }

    /// Inspects the first sub-device manager, which covers all worker cores: Wormhole has up to eight columns of them,
    /// Blackhole more.
    pub fn sub_devices(&mut self, params: &Params<'_>) {
        const WORMHOLE_COLUMNS: u64 = 8;
        if params.sub_device_manager_id != Number::Is(0) {
            return;
        }
        let devices: Vec<SubDevice> = serde_json::from_str(&params.sub_devices.0).unwrap_or_default();
        let ranges = devices.iter().flat_map(|device| &device.worker_core_ranges);
        if let Some(last) = ranges.filter_map(|range| range.end.x.get()).max() {
            self.sign(if last < WORMHOLE_COLUMNS { Arch::Wormhole } else { Arch::Blackhole });
        }
    }
}

#[derive(Deserialize)]
struct SubDevice {
    #[serde(default)]
    worker_core_ranges: Vec<CoreRange>,
}

#[derive(Deserialize)]
struct CoreRange {
    end: Core,
}

#[derive(Deserialize)]
struct Core {
    #[serde(default)]
    x: Number,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(nodes: &[(&str, Place)]) -> Evidence {
        let mut evidence = Evidence::default();
        for (params, place) in nodes {
            evidence.buffer(&serde_json::from_str(params).unwrap(), *place);
        }
        evidence
    }

    const IN_12_BANKS: &str =
        r#"{"size": 204800, "page_size": 2048, "max_size_per_bank": 18432, "layout": "INTERLEAVED"}"#;
    const IN_8_BANKS: &str =
        r#"{"size": 204800, "page_size": 2048, "max_size_per_bank": 26624, "layout": "INTERLEAVED"}"#;
    const ONE_PAGE: &str =
        r#"{"size": 2048, "page_size": 2048, "max_size_per_bank": 2048, "layout": "INTERLEAVED"}"#;
    const ODD_ADDRESS: &str = r#"{"size": 64, "address": 1482528}"#;

    #[test]
    fn banks_and_addresses_are_signs() {
        assert_eq!(after(&[(ONE_PAGE, Place::Dram)]), Evidence::None);
        assert_eq!(after(&[(IN_12_BANKS, Place::Dram)]).arch(), Some(Arch::Wormhole));
        assert_eq!(
            after(&[(ONE_PAGE, Place::Dram), (IN_8_BANKS, Place::Dram)]).arch(),
            Some(Arch::Blackhole)
        );
        assert_eq!(after(&[(ODD_ADDRESS, Place::L1)]).arch(), Some(Arch::Wormhole));
        // DRAM addresses and L1 banks are not evidence.
        assert_eq!(after(&[(ODD_ADDRESS, Place::Dram), (IN_12_BANKS, Place::L1)]), Evidence::None);
    }

    #[test]
    fn signs_that_contradict_each_other_are_none() {
        let both = after(&[(IN_8_BANKS, Place::Dram), (ODD_ADDRESS, Place::L1), (IN_8_BANKS, Place::Dram)]);
        assert_eq!((both, both.arch()), (Evidence::Contradictory, None));
    }

    #[test]
    fn the_first_manager_of_sub_devices_has_all_columns() {
        let found = |id: u64, last: u64| {
            let devices = format!(
                r#"[{{"sub_device_id":0,"worker_core_ranges":[{{"end":{{"x":{last},"y":7}},"start":{{"x":0,"y":0}}}}]}}]"#
            );
            let params = serde_json::json!({"sub_device_manager_id": id, "sub_devices": devices}).to_string();
            let mut evidence = Evidence::default();
            evidence.sub_devices(&serde_json::from_str(&params).unwrap());
            evidence.arch()
        };
        assert_eq!((found(0, 7), found(0, 10)), (Some(Arch::Wormhole), Some(Arch::Blackhole)));
        assert_eq!(found(1, 7), None);
    }
}
