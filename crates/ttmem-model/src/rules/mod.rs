//! Rules that several crates share: the recorder, the readers and the analysis must agree on them.
//!
//! [`calls`] and [`outcomes`] say what a call did to memory, live and afterwards. [`passes`] and [`span`] cut a rank into
//! passes. [`account`], [`live`] and [`peak`] rebuild what a pool held, and when it held the most. [`allocator`] follows a
//! caching allocator from one entry of its history to the next.

pub mod account;
pub mod allocator;
pub mod calls;
pub mod live;
pub mod outcomes;
pub mod passes;
pub mod peak;
pub mod span;

pub use account::Account;
pub use span::Span;
