//! Output files: which existing files they may replace, and how a file is replaced.

use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, BufWriter, Write};
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

    /// Writes the file. An existing file is replaced only when the new content is complete, and keeps its permissions. Of
    /// a symbolic link, the target is replaced.
    pub fn write(&self, render: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
        let failed = write_error(self.path);
        if is_device(self.path) {
            return write_in_place(self.path, render).map_err(&failed);
        }
        let replaces = self.replaces()?;
        let target = fs::canonicalize(self.path).unwrap_or_else(|_| self.path.to_owned());
        // A clearer error than that of the temporary file.
        fs::metadata(folder_of(&target)).map_err(&failed)?;
        let before = fs::metadata(&target).ok();
        let file = match beside(&target, before.as_ref()) {
            // The folder is read-only, but the file may be writable.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied && before.is_some() => {
                return write_in_place(&target, render).map_err(&failed);
            }
            file => file.map_err(&failed)?,
        };
        let mut file = BufWriter::new(file);
        render(&mut file).and_then(|()| file.flush()).map_err(&failed)?;
        let file = file.into_inner().map_err(|error| failed(error.into_error()))?;
        let kept = if replaces { file.persist(&target) } else { file.persist_noclobber(&target) };
        kept.map(drop).map_err(|error| match error.error.kind() {
            io::ErrorKind::AlreadyExists => Error::Exists { path: self.path.into() },
            _ => failed(error.error),
        })
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

/// Writes to a device, or to a file that cannot be replaced.
fn write_in_place(path: &Path, render: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let file = OpenOptions::new().write(true).truncate(!is_device(path)).open(path)?;
    let mut file = BufWriter::new(file);
    render(&mut file)?;
    file.flush()
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
    |error| {
        // An error of the system has no path.
        let source = error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error);
        Error::Write { path: path.into(), source }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn write(path: &Path, content: &'static str) -> Result<()> {
        Output::at(path, true, &[] as &[&str])?.write(|out| write!(out, "{content}"))
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_that_cannot_be_written_completely_stays_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.md");
        for before in [None, Some("a good report")] {
            if let Some(before) = before {
                fs::write(&path, before).unwrap();
            }
            let output = Output::at(&path, true, &[] as &[&str]).unwrap();
            let error = output
                .write(|out| {
                    out.write_all("x".repeat(100_000).as_bytes())?;
                    Err(io::Error::from(io::ErrorKind::StorageFull))
                })
                .unwrap_err();
            assert!(matches!(error, Error::Write { .. }), "{error}");
            assert_eq!(fs::read_to_string(&path).ok().as_deref(), before);
            assert_eq!(
                names(folder.path()).len(),
                usize::from(before.is_some()),
                "no temporary file is left"
            );
        }
    }

    #[test]
    fn a_replaced_file_keeps_its_permissions_and_its_links() {
        let folder = tempfile::tempdir().unwrap();
        let (path, link) = (folder.path().join("a.md"), folder.path().join("link.md"));
        fs::write(&path, "old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        symlink("a.md", &link).unwrap();
        write(&link, "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(names(folder.path()), ["a.md", "link.md"]);
    }

    #[test]
    fn errors_have_no_temporary_name() {
        let error = write(Path::new("/nonexistent/a.md"), "x").unwrap_err().to_string();
        assert_eq!(error, "cannot write /nonexistent/a.md: No such file or directory (os error 2)");
        write(Path::new("/dev/null"), "x").unwrap();
    }
}
