//! Reads a stream ahead, in a separate thread, so that reading (and decompressing) overlaps with parsing.

use std::io::{self, Read};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

/// The number of bytes read at a time.
pub(crate) const BLOCK: usize = 256 << 10;

/// The room in front of a block, for what is left of the previous block.
pub(crate) const ROOM: usize = 64 << 10;

/// The number of blocks read ahead.
const AHEAD: usize = 3;

/// The blocks of a stream, in order.
pub(crate) struct Blocks {
    blocks: Receiver<io::Result<Block>>,
    /// Returns used blocks to the reading thread, which fills them again.
    used: SyncSender<Vec<u8>>,
}

/// A block that was read; its bytes follow the room.
pub(crate) struct Block {
    pub buffer: Vec<u8>,
    pub end: usize,
}

impl Blocks {
    pub fn new(source: impl Read + Send + 'static) -> Self {
        let (sender, blocks) = sync_channel(AHEAD);
        let (used, returned) = sync_channel(AHEAD);
        thread::spawn(move || read_ahead(source, &sender, &returned));
        Self { blocks, used }
    }

    /// The next block; `None` at the end of the stream. The thread closes its side after the last block or an error.
    pub fn next(&mut self) -> io::Result<Option<Block>> {
        self.blocks.recv().ok().transpose()
    }

    /// Returns a buffer. It is dropped if the thread has ended, or if it is not that of a block.
    pub fn give_back(&mut self, buffer: Vec<u8>) {
        if buffer.len() == ROOM + BLOCK {
            let _ = self.used.try_send(buffer);
        }
    }
}

/// Reads blocks until the stream ends or fails, or the receiver is dropped.
fn read_ahead(mut source: impl Read, blocks: &SyncSender<io::Result<Block>>, returned: &Receiver<Vec<u8>>) {
    loop {
        let mut buffer = returned.try_recv().unwrap_or_else(|_| vec![0; ROOM + BLOCK]);
        let message = match source.read(&mut buffer[ROOM..]) {
            Ok(0) => return,
            Ok(read) => Ok(Block { buffer, end: ROOM + read }),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => Err(error),
        };
        let failed = message.is_err();
        if blocks.send(message).is_err() || failed {
            return;
        }
    }
}
