//! Files as answers: streamed from disk, never whole in memory.

use std::io::{self, Cursor};
use std::path::Path;
use std::time::UNIX_EPOCH;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::fs::File;
use tokio::io::AsyncReadExt;
use tokio_util::io::ReaderStream;

/// So much of a file is in memory for each reader.
const PART: usize = 32 << 10;

/// A file that is being answered with.
pub(crate) struct Served {
    file: File,
    size: u64,
    tag: HeaderValue,
    kind: &'static str,
    end: &'static str,
}

impl Served {
    pub(crate) async fn open(path: &Path, kind: &'static str) -> io::Result<Self> {
        let file = File::open(path).await?;
        let metadata = file.metadata().await?;
        if !metadata.is_file() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let size = metadata.len();
        let written = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let tag = HeaderValue::try_from(format!("\"{written:x}-{size:x}\"")).map_err(io::Error::other)?;
        Ok(Self { file, size, tag, kind, end: "" })
    }

    /// With something behind the file's own content.
    pub(crate) fn followed_by(self, end: &'static str) -> Self {
        Self { end, ..self }
    }

    /// The answer: all of it, or that it has not changed since the browser got it.
    pub(crate) fn answer(self, asked: &HeaderMap) -> Response {
        let kept = [
            (header::ETAG, self.tag.clone()),
            (header::CACHE_CONTROL, HeaderValue::from_static("private, no-cache")),
        ];
        let is_known = asked.get_all(header::IF_NONE_MATCH).into_iter().any(|known| known == self.tag);
        if is_known {
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
