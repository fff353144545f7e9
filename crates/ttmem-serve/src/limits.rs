//! How much of everything there may be at once, and how long it may take.

use std::time::Duration;

/// The limits of a server. Tests have shorter ones.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The largest upload, in bytes.
    pub upload_bytes: u64,
    /// Uploads that are being received, wait or are being processed. Whoever comes then is told to come back.
    pub uploads: usize,
    /// A log beyond this size, or a packed one, is processed alone, not beside another: it may take much memory.
    pub large: u64,
    /// In this time a part of an upload must come, and more of it than a few bytes.
    pub upload_patience: Duration,
    /// Connections at the same time. Each takes a file of the system, and one more for what is being read.
    pub connections: usize,
    /// In this time a request must be there, from the first byte of a connection or the end of the answer before.
    pub request_patience: Duration,
    /// In this time somebody must have read something of an answer.
    pub reading_patience: Duration,
    /// So long answers may still go on after the server was told to stop.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            upload_bytes: 8 << 30,
            uploads: 16,
            large: 64 << 20,
            upload_patience: Duration::from_secs(60),
            // Two files each: below the 1024 that a process has by default.
            connections: 448,
            request_patience: Duration::from_secs(20),
            reading_patience: Duration::from_secs(60),
            grace: Duration::from_secs(3),
        }
    }
}
