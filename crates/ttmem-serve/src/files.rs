//! Files as responses: streamed from disk, never held in memory as a whole.

use std::fs::Metadata;
use std::io::{self, Cursor};
use std::path::Path;
use std::time::UNIX_EPOCH;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::fs::{self, File};
use tokio::io::AsyncReadExt;
use tokio_util::io::ReaderStream;

/// The read buffer per reader.
const PART: usize = 32 << 10;

/// A file that is sent as a response.
pub(crate) struct Served {
    file: File,
    size: u64,
    tag: HeaderValue,
    kind: &'static str,
    end: &'static str,
}

impl Served {
    pub(crate) async fn open(path: &Path, kind: &'static str) -> io::Result<Self> {
        let (file, metadata) = open_own(path).await?;
        let size = metadata.len();
        let written = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let tag = HeaderValue::try_from(format!("\"{written:x}-{size:x}\"")).map_err(io::Error::other)?;
        Ok(Self { file, size, tag, kind, end: "" })
    }

    /// Appends a fixed text to the file's content.
    pub(crate) fn followed_by(self, end: &'static str) -> Self {
        Self { end, ..self }
    }

    /// The response: the file, or 304 if the browser's copy is current.
    pub(crate) fn answer(self, asked: &HeaderMap) -> Response {
        let kept = [
            (header::ETAG, self.tag.clone()),
            (header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache")),
        ];
        if is_known(&self.tag, asked) {
            return (StatusCode::NOT_MODIFIED, kept).into_response();
        }
        let size = self.size + self.end.len() as u64;
        let content = self.file.take(self.size).chain(Cursor::new(self.end));
        let body = Body::from_stream(ReaderStream::with_capacity(content, PART));
        let about = [
            (header::CONTENT_TYPE, HeaderValue::from_static(self.kind)),
            (header::CONTENT_LENGTH, size.into()),
        ];
        (kept, about, body).into_response()
    }
}

/// Opens a regular file. Links and pipes are refused: a link may point anywhere, and a pipe may block.
async fn open_own(path: &Path) -> io::Result<(File, Metadata)> {
    // A report may be replaced between the two calls, but not five times in a row.
    const TRIES: usize = 5;
    for _ in 0..TRIES {
        let seen = fs::symlink_metadata(path).await?;
        if !seen.is_file() {
            break;
        }
        let file = File::open(path).await?;
        let metadata = file.metadata().await?;
        if is_same(&seen, &metadata) {
            return Ok((file, metadata));
        }
    }
    Err(io::ErrorKind::NotFound.into())
}

/// Whether the opened file is the one that was checked.
#[cfg(unix)]
fn is_same(seen: &Metadata, opened: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;

    (seen.dev(), seen.ino()) == (opened.dev(), opened.ino())
}

#[cfg(not(unix))]
fn is_same(_seen: &Metadata, opened: &Metadata) -> bool {
    opened.is_file()
}

/// Whether the browser has the version with this tag. `If-None-Match` lists one tag, several or `*`. Weak tags match
/// too: only whole files are sent.
fn is_known(tag: &HeaderValue, asked: &HeaderMap) -> bool {
    let lists = asked.get_all(header::IF_NONE_MATCH).into_iter().filter_map(|list| list.to_str().ok());
    let mut tags = lists.flat_map(|list| list.split(',')).map(str::trim);
    tags.any(|known| known == "*" || known.strip_prefix("W/").unwrap_or(known).as_bytes() == tag.as_bytes())
}
