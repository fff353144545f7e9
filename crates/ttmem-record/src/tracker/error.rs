//! The errors of a tracker, with what to do about them.

use thiserror::Error;

use super::RunMode;

/// An error of a tracker.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TrackerError {
    /// A capture is running.
    #[error(
        "a capture is running already: end it with end_capture(NAME), or drop its guard, before the next begins"
    )]
    AlreadyCapturing,
    /// No capture is running.
    #[error("{call} outside of a capture: call begin_capture first, and keep its guard while you capture")]
    NotCapturing {
        /// The function that was called.
        call: &'static str,
    },
    /// Estimates and measurements can't be added.
    #[error(
        "the phases so far were captured in mode {kept}, those to come would be in mode {wanted}: call clear() first"
    )]
    OtherMode {
        /// The mode of the phases so far.
        kept: RunMode,
        /// The mode that was asked for.
        wanted: RunMode,
    },
    /// No phase has that name.
    #[error("there is no phase {name:?}: {}", known(names))]
    NoSuchPhase {
        /// The name.
        name: String,
        /// The existing names, in order.
        names: Vec<String>,
    },
    /// Several phases have that name.
    #[error(
        "{times} phases are called {name:?}: get_dram_usage_all() and get_l1_usage_all() have each of them, in order"
    )]
    Ambiguous {
        /// The name.
        name: String,
        /// The number of phases with it.
        times: usize,
    },
    /// A graph capture can't be read.
    #[error("{0}; nothing of it was taken down")]
    Graph(#[source] ttmem_model::Error),
    /// The file of a recording can't be written.
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
        0 => "none was captured yet; snapshot(NAME) ends the first".to_owned(),
        1..=MAX => format!("there are {}", shown.join(", ")),
        _ => format!("there are {}, and more", shown[..MAX].join(", ")),
    }
}
