//! How a recorded program was launched: its process, its place among several ranks, and the versions it uses.

use serde::{Deserialize, Serialize};

use super::StrId;

/// The process of a recording. Its arguments are a separate table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Launch {
    /// The label of the rank, if the program has several.
    pub label: Option<StrId>,
    /// The process id.
    pub pid: Option<u32>,
    /// The number of the rank.
    pub rank: Option<u32>,
    /// The number of the rank on its host.
    pub local_rank: Option<u32>,
    /// The number of ranks.
    pub world_size: Option<u32>,
    /// The name of the host.
    pub host: Option<StrId>,
    /// The version of Python.
    pub python: Option<StrId>,
    /// The version of PyTorch.
    pub torch: Option<StrId>,
    /// The device runtime that PyTorch was built for, with its version: `CUDA 13.0`.
    pub runtime: Option<StrId>,
    /// The version of the device driver.
    pub driver: Option<StrId>,
}
