//! What is needed to change a program's allocations: when they were last used, and the addresses of a bank.

use serde::{Deserialize, Serialize};

use super::columns::columns;
use super::{StepNumber, TensorId};

columns! {
    /// When an allocation was last used.
    row Usage;
    /// The last uses of a rank's allocations, in the order of the allocations.
    table Usages;
    /// The allocation.
    tensor: TensorId,
    /// The last step that read or wrote it; `None`: no step after the one that made it.
    last_use: Option<StepNumber>,
}

impl Usages {
    /// The row of an allocation, if its usage is known.
    pub fn of(&self, tensor: TensorId) -> Option<Usage> {
        self.get(self.tensor.binary_search(&tensor).ok()?)
    }
}

/// The addresses of a pool's banks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BankLayout {
    /// The first address.
    pub start: u64,
    /// The addresses and sizes of allocations are multiples of this.
    pub alignment: u64,
}
