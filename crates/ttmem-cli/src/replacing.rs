//! Output files: which existing files they may replace, and how one takes the place of another.

use std::fs::{self, Metadata};
use std::io;
use std::path::Path;

use tempfile::NamedTempFile;
use ttmem::{Error, Result, read};

/// The file that a command writes. Every command that writes a file gets one from here, so that no command replaces a log,
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
    /// An existing file is an error unless `may_replace` is set (`--force`, or an earlier output of the command), and
    /// always if it is one of the inputs or evidence of any format.
    pub fn at<S: AsRef<str>>(path: &'a Path, may_replace: bool, inputs: &'a [S]) -> Result<Self> {
        let output = Self { path, may_replace, inputs: inputs.iter().map(AsRef::as_ref).collect() };
        output.check()?;
        Ok(output)
    }

    /// As [`at`](Self::at), for an option that may be absent; `-` is standard output, too.
    pub fn option<S: AsRef<str>>(
        path: Option<&'a Path>,
        force: bool,
        inputs: &'a [S],
    ) -> Result<Option<Self>> {
        path.filter(|path| *path != Path::new("-")).map(|path| Self::at(path, force, inputs)).transpose()
    }

    /// Where it is.
    pub fn path(&self) -> &'a Path {
        self.path
    }

    /// Whether it takes the place of an existing file. Checked again, because reading may have taken minutes.
    pub fn replaces(&self) -> Result<bool> {
        self.check()?;
        Ok(self.may_replace)
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
        // A link that leads nowhere, or a folder, has no content to lose.
        let format = if path.is_file() { read::evidence_in(path)? } else { None };
        if let Some(format) = format {
            return Err(kept(&format!("a log, recording or profile (format: {format})")));
        }
        if self.may_replace { Ok(()) } else { Err(Error::Exists { path: path.into() }) }
    }
}

/// Whether two paths name one place in a folder, however they are spelled. A link is a place of its own: a file that is
/// renamed onto it replaces the link.
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

/// A file in the same folder, to be renamed when it is whole; gone if it never is.
pub(crate) fn beside(path: &Path, like: Option<&Metadata>) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".ttmem-");
    #[cfg(unix)]
    if like.is_none() {
        use std::os::unix::fs::PermissionsExt;
        // As any new file: what others may do with it is up to the umask.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    let file = builder.tempfile_in(folder_of(path))?;
    if let Some(like) = like {
        file.as_file().set_permissions(like.permissions())?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::{MetadataExt, fchown};
            // Only root may give a file away; of everybody else it is theirs already.
            let _ = fchown(file.as_file(), Some(like.uid()), Some(like.gid()));
        }
    }
    Ok(file)
}

/// Why a file cannot be written, without the name of the one beside it.
pub(crate) fn plainly(path: &Path) -> impl Fn(io::Error) -> Error + '_ {
    |error| Error::Write { path: path.into(), source: error.kind().into() }
}
