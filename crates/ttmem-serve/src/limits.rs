//! Limits on sizes, counts and durations.

use std::time::Duration;

/// The limits of a server. Tests use shorter timeouts.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The upload size limit, in bytes.
    pub upload_bytes: u64,
    /// Uploads that are being received, queued or processed. Further ones are refused with 503.
    pub uploads: usize,
    /// A log larger than this, or a compressed one, is processed alone because it may need much memory.
    pub large: u64,
    /// An upload must make progress (more than a few bytes) within this time.
    pub upload_timeout: Duration,
    /// Simultaneous connections. Each uses a file descriptor, and a second one while it reads a file.
    pub connections: usize,
    /// A request must arrive within this time after the connection was opened or the previous response was sent.
    pub request_timeout: Duration,
    /// A client must read some of a response within this time.
    pub read_timeout: Duration,
    /// How long responses may continue after the server starts to stop.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            upload_bytes: 8 << 30,
            uploads: 16,
            large: 64 << 20,
            upload_timeout: Duration::from_secs(60),
            // At two descriptors each, this stays below the default limit of 1024 per process.
            connections: 448,
            request_timeout: Duration::from_secs(20),
            read_timeout: Duration::from_secs(60),
            grace: Duration::from_secs(3),
        }
    }
}
