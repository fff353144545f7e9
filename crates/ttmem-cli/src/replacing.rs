//! Output files: which existing files they may replace, and how a file is replaced.

use std::fs::{self, Metadata};
use std::io;
use std::path::Path;

use tempfile::NamedTempFile;
use ttmem::{Error, Result, read, report};

/// The file that a command writes. Every command that writes a file uses this type, so that no command replaces a log,
/// a recording, a profile or its own input.
#[derive(Clone, Debug)]
pub(crate) struct Output<'a> {
    path: &'a Path,
    may_replace: bool,
    inputs: Vec<&'a str>,
}

impl<'a> Output<'a> {
    /// The output file `path`, checked before anything is read.
    ///
    /// An existing file is an error unless `may_replace` is set (`--force`) or it is an earlier output of ttmem, and
    /// always if it is one of the inputs, or a log, recording or profile.
    pub fn at<S: AsRef<str>>(path: &'a Path, may_replace: bool, inputs: &'a [S]) -> Result<Self> {
        let output = Self { path, may_replace, inputs: inputs.iter().map(AsRef::as_ref).collect() };
        output.check()?;
        Ok(output)
    }

    /// Like [`at`](Self::at), for an option; `None` is standard output, and so is `-`.
    pub fn option<S: AsRef<str>>(
        path: Option<&'a Path>,
        force: bool,
        inputs: &'a [S],
    ) -> Result<Option<Self>> {
        path.filter(|path| *path != Path::new("-")).map(|path| Self::at(path, force, inputs)).transpose()
    }

    /// The path of the file.
    pub fn path(&self) -> &'a Path {
        self.path
    }

    /// Whether it replaces an existing file. Checked again, because reading may have taken minutes.
    pub fn replaces(&self) -> Result<bool> {
        self.check()?;
        Ok(self.may_replace || report::has_marker(self.path))
    }

    fn check(&self) -> Result<()> {
        let path = self.path;
        if path.symlink_metadata().is_err() || is_device(path) {
            return Ok(());
        }
        let kept = |what: &str| Error::Evidence { path: path.into(), what: what.into() };
        if self.inputs.iter().any(|input| read::is_same_file(path, Path::new(input))) {
            return Err(kept("an input of this command"));
        }
        // A dangling link or a folder has no content to lose.
        let format = if path.is_file() { read::evidence_in(path)? } else { None };
        if let Some(format) = format {
            return Err(kept(&format!("a log, recording or profile (format: {format})")));
        }
        let may_replace = self.may_replace || report::has_marker(path);
        if may_replace { Ok(()) } else { Err(Error::Exists { path: path.into() }) }
    }
}

/// Whether two paths name the same folder entry, however they are spelled. A link is a separate entry: a file renamed
/// onto it replaces the link.
pub(crate) fn is_same_place(one: &Path, other: &Path) -> bool {
    let place = |path: &Path| {
        let folder = fs::canonicalize(folder_of(path)).ok()?;
        Some(folder.join(path.file_name()?))
    };
    one == other || place(one).is_some_and(|one| Some(one) == place(other))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether writing to a path destroys nothing: a terminal, a pipe, `/dev/null`.
pub(crate) fn is_device(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
}

/// Creates a temporary file in the same folder, to be renamed once it is complete and removed otherwise.
pub(crate) fn beside(path: &Path, like: Option<&Metadata>) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".ttmem-");
    #[cfg(unix)]
    if like.is_none() {
        use std::os::unix::fs::PermissionsExt;
        // Like any new file, subject to the umask.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    let file = builder.tempfile_in(folder_of(path))?;
    if let Some(like) = like {
        file.as_file().set_permissions(like.permissions())?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::{MetadataExt, fchown};
            // Only root can change the owner; for other users the file already has the right one.
            let _ = fchown(file.as_file(), Some(like.uid()), Some(like.gid()));
        }
    }
    Ok(file)
}

/// Maps an error of the temporary file to one about the file itself, without the temporary name.
pub(crate) fn write_error(path: &Path) -> impl Fn(io::Error) -> Error + '_ {
    |error| Error::Write { path: path.into(), source: error.kind().into() }
}
