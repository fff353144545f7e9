//! Receives a log: `POST /api/upload?name=FILE` with the file as the body.
//!
//! The body is not a form, so its size is known in advance, it needs no parser, and `curl -T` can send it. It is
//! written to disk as it arrives. An aborted upload leaves nothing behind.

use std::io;
use std::sync::Arc;

use axum::Json;
use axum::body::{Body, HttpBody};
use axum::extract::{Query, State};
use axum::http::{StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use serde::Deserialize;
use tokio::fs::File;
use tokio::io::AsyncWriteExt;
use tokio::time::{Instant, timeout_at};
use ttmem::store::plain_name;

use crate::app::App;
use crate::refusal::Refusal;
use crate::space::Room;
use crate::{Limits, jobs};

/// An upload that sends less than this within the timeout is aborted.
const MIN_PROGRESS: u64 = 16 << 10;
/// The write buffer per upload.
const PART: usize = 256 << 10;

#[derive(Deserialize)]
struct Asked {
    name: String,
}

/// Receives a log and starts a job for it.
pub(crate) async fn receive(State(app): State<Arc<App>>, uri: Uri, body: Body) -> Result<Response, Refusal> {
    let Query(asked) = Query::<Asked>::try_from_uri(&uri)
        .map_err(|_| Refusal::bad_request("missing `name`; use /api/upload?name=model.log"))?;
    if app.limits.upload_bytes == 0 || body.size_hint().lower() > app.limits.upload_bytes {
        return Err(too_large(&app.limits));
    }
    let Some(place) = app.jobs.place() else {
        return Err(Refusal::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "too many uploads in progress; try again later",
        ));
    };
    let room = app.space.room(&file_name(&asked.name)).map_err(|error| not_kept(&error))?;
    let size = tokio::select! {
        size = save(body, &room, &app.limits) => size?,
        () = app.stop.cancelled() => {
            return Err(Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "the server is stopping"));
        }
    };
    let shown = jobs::begin(&app, room, size, place)?.shown();
    let location = [(header::LOCATION, format!("/api/jobs/{}", shown.id))];
    Ok((StatusCode::ACCEPTED, location, Json(shown)).into_response())
}

/// Writes a body to a room's file. Returns its size.
async fn save(body: Body, room: &Room, limits: &Limits) -> Result<u64, Refusal> {
    let mut file = File::create(room.file()).await.map_err(|error| not_kept(&error))?;
    file.set_max_buf_size(PART);
    let mut parts = body.into_data_stream();
    let mut size = 0;
    let mut lately = 0;
    let mut deadline = Instant::now() + limits.upload_timeout;
    while let Some(part) = timeout_at(deadline, parts.next()).await.map_err(|_| too_slow())? {
        let part =
            part.map_err(|error| Refusal::bad_request(format!("the upload was interrupted: {error}")))?;
        size += part.len() as u64;
        lately += part.len() as u64;
        if size > limits.upload_bytes {
            return Err(too_large(limits));
        }
        file.write_all(&part).await.map_err(|error| not_kept(&error))?;
        if lately >= MIN_PROGRESS {
            lately = 0;
            deadline = Instant::now() + limits.upload_timeout;
        }
    }
    file.flush().await.map_err(|error| not_kept(&error))?;
    Ok(size)
}

/// The last component of a name, as a valid file name.
fn file_name(given: &str) -> String {
    let last = given.rsplit(['/', '\\']).next().unwrap_or_default();
    match plain_name(last).as_str() {
        // `-` means standard input.
        "-" => "upload".to_owned(),
        name => name.to_owned(),
    }
}

fn too_large(limits: &Limits) -> Refusal {
    let message = match limits.upload_bytes {
        0 => "uploads are disabled (`ttmem serve --max-upload 0`)".to_owned(),
        max => format!(
            "the upload is too large: the limit is {max} bytes (`ttmem serve --max-upload`); compress the log (gzip, \
             zstd), or extract its last pass (`ttmem last-run`)"
        ),
    };
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, message)
}

fn too_slow() -> Refusal {
    Refusal::new(StatusCode::REQUEST_TIMEOUT, "the upload timed out and was discarded")
}

fn not_kept(error: &io::Error) -> Refusal {
    Refusal::not_kept("the upload", error)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures_util::stream;
    use ttmem::store::Store;

    use super::*;
    use crate::space::Space;

    /// Receives an upload that arrives in parts of `size` bytes, `pause` apart, on a mocked clock.
    async fn slowly(parts: usize, size: usize, pause: Duration) -> Result<u64, Refusal> {
        let home = tempfile::tempdir().unwrap();
        let space = Space::of(&Store::at(home.path())).unwrap();
        let room = space.room("x.log").unwrap();
        let body = Body::from_stream(stream::iter(0..parts).then(move |_| async move {
            tokio::time::sleep(pause).await;
            Ok::<_, io::Error>(vec![b'x'; size])
        }));
        save(body, &room, &Limits::default()).await
    }

    const MIN_PART: usize = 16 << 10;

    #[tokio::test(start_paused = true)]
    async fn who_goes_on_is_waited_for_however_long_it_takes_in_all() {
        let size = slowly(200, MIN_PART, Duration::from_secs(50)).await.unwrap();
        assert_eq!(size, 200 * MIN_PROGRESS);
        // Smaller parts are fine if enough of them arrive in a minute.
        assert!(slowly(1000, MIN_PART / 4, Duration::from_secs(10)).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn who_stands_still_or_drips_is_not() {
        for (parts, size, pause) in [(1, MIN_PART, 61), (100, 1, 1), (100, MIN_PART / 4, 20)] {
            let refusal = slowly(parts, size, Duration::from_secs(pause)).await.unwrap_err();
            assert_eq!(refusal.status, StatusCode::REQUEST_TIMEOUT, "{parts} of {size} each {pause} s");
        }
    }

    #[test]
    fn the_name_of_an_upload_is_one_plain_part() {
        for (given, name) in [
            ("model_profile.log", "model_profile.log"),
            ("../../etc/passwd", "passwd"),
            ("C:\\logs\\my model.log", "my model.log"),
            ("..", "report"),
            ("", "report"),
            ("a/", "report"),
            ("-", "upload"),
            ("x\0y\nz.log", "x-y-z.log"),
            (".hidden", "hidden"),
        ] {
            assert_eq!(file_name(given), name, "{given:?}");
        }
    }
}
