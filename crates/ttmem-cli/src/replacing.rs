//! Files that take the place of others: whole, or not at all.

use std::fs::{self, Metadata};
use std::io;
use std::path::Path;

use tempfile::NamedTempFile;
use ttmem::Error;

/// A file in the same folder, to be renamed when it is whole; gone if it never is.
pub(crate) fn beside(path: &Path, like: Option<&Metadata>) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".ttmem-");
    #[cfg(unix)]
    if like.is_none() {
        use std::os::unix::fs::PermissionsExt;
        // As any new file: what others may do with it is up to the umask.
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    let file = builder.tempfile_in(folder)?;
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
