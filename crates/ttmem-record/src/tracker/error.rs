//! The errors of a tracker, with advice.

use thiserror::Error;

use super::RunMode;

/// An error of a tracker.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TrackerError {
    /// A capture is running.
    #[error(
        "a capture is already running; end it with end_capture(NAME) or drop its guard before beginning the next"
    )]
    AlreadyCapturing,
    /// No capture is running.
    #[error("{call} outside a capture; call begin_capture first and keep its guard while capturing")]
    NotCapturing {
        /// The function that was called.
        call: &'static str,
    },
    /// Estimates and measurements cannot be combined.
    #[error(
        "the existing phases were captured in mode {kept}, so mode {wanted} is not possible; call clear() first"
    )]
    OtherMode {
        /// The mode of the existing phases.
        kept: RunMode,
        /// The requested mode.
        wanted: RunMode,
    },
    /// The figures of different devices cannot be added up.
    #[error("the existing phases were captured on {kept}, so {wanted} is not possible; call clear() first")]
    OtherDevice {
        /// The device of the existing phases.
        kept: String,
        /// The requested device.
        wanted: String,
    },
    /// No phase has that name.
    #[error("no phase named {name:?}; {}", known(names))]
    NoSuchPhase {
        /// The name.
        name: String,
        /// The existing names, in order.
        names: Vec<String>,
    },
    /// Several phases have that name.
    #[error(
        "{times} phases are named {name:?}; get_dram_usage_all() and get_l1_usage_all() return all of them, in order"
    )]
    Ambiguous {
        /// The name.
        name: String,
        /// The number of phases with it.
        times: usize,
    },
    /// A graph capture cannot be read.
    #[error("{0}; the graph was not recorded")]
    Graph(#[source] ttmem_model::Error),
    /// The recording cannot be written.
    #[error(transparent)]
    Recording(#[from] ttmem_model::Error),
}

fn known(names: &[String]) -> String {
    /// The maximum number of names in a message.
    const MAX: usize = 20;
    let mut shown: Vec<&str> = Vec::new();
    for name in names {
        if !shown.contains(&name.as_str()) {
            shown.push(name);
        }
        if shown.len() > MAX {
            break;
        }
    }
    match shown.len() {
        0 => "no phase has been captured yet".to_owned(),
        1..=MAX => format!("the phases are {}", shown.join(", ")),
        _ => format!("the phases are {} and more", shown[..MAX].join(", ")),
    }
}
