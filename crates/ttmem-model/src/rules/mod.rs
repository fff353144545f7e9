//! Rules that several crates share: the recorder, the readers and the analysis must agree on them.
//!
//! [`calls`] and [`outcomes`] compute the effect of a call on memory, live and afterwards. [`passes`] and [`span`]
//! divide a rank into passes. [`account`], [`live`] and [`peak`] reconstruct a pool's contents and its peak.
//! [`allocator`] follows a caching allocator through its history, and [`iterations`] divides it into the iterations of a program.
//! [`frames`] separates the lines of a program from those of libraries.

pub mod account;
pub mod allocator;
pub mod calls;
pub mod frames;
pub mod iterations;
pub mod live;
pub mod outcomes;
pub mod passes;
pub mod peak;
pub mod span;

pub use account::Account;
pub use frames::{FrameOrigin, is_python};
pub use span::Span;
