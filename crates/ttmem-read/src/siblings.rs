//! The files next to an input, for formats that consist of several files.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::input::{Progress, counted, unpack};

/// The location of the files next to an input. A pipe has none.
#[derive(Debug, Default)]
pub struct Siblings {
    path: Option<PathBuf>,
    progress: Option<Arc<Progress>>,
    /// See [`Options::within`](super::Options::within).
    within: Vec<PathBuf>,
}

/// An opened file next to the input.
pub struct Sibling {
    /// The file name, without the folder.
    pub name: String,
    /// The decompressed bytes.
    pub stream: Box<dyn Read + Send>,
}

impl Siblings {
    /// The siblings of a file. Reading them also counts as progress.
    pub(super) fn new(path: Option<&Path>, progress: Option<Arc<Progress>>) -> Self {
        Self { path: path.map(Path::to_owned), progress, within: Vec::new() }
    }

    /// Restricts the siblings to files in these folders.
    pub(super) fn within(self, folders: &[PathBuf]) -> Self {
        Self { within: folders.to_owned(), ..self }
    }

    /// Returns an error if a sibling is a link that leads out of the allowed folders.
    pub(super) fn check(&self, path: &Path) -> io::Result<()> {
        check_within(path, &self.within)
    }

    /// The part of the input's name before `end`: `vae` for `vae_memory.json` and `vae_memory.json.gz`.
    pub fn stem(&self, end: &str) -> Option<&str> {
        Some(self.split(end)?.0)
    }

    /// Opens the file named like the input with `other` instead of `end`, compressed or not; `None` if it does not
    /// exist.
    pub fn open(&self, end: &str, other: &str) -> Option<io::Result<Sibling>> {
        let (stem, packed) = self.split(end)?;
        let names = [format!("{stem}{other}{packed}"), format!("{stem}{other}")];
        let folder = self.path.as_deref()?.parent()?;
        // Regular files only: opening a pipe without a writer would block.
        let name = names.into_iter().find(|name| folder.join(name).is_file())?;
        Some(self.open_file(&folder.join(&name)).map(|stream| Sibling { name, stream }))
    }

    fn open_file(&self, path: &Path) -> io::Result<Box<dyn Read + Send>> {
        self.check(path)?;
        let file = File::open(path)?;
        if let Some(progress) = &self.progress {
            progress.add_size(file.metadata()?.len());
        }
        Ok(unpack(counted(Box::new(file), self.progress.as_ref()))?.stream)
    }

    /// The parts of the input's name before and after `end`. Only the suffix of a compressed file may follow `end`.
    fn split(&self, end: &str) -> Option<(&str, &str)> {
        let name = self.path.as_deref()?.file_name()?.to_str()?;
        let at = name.rfind(end)?;
        let packed = &name[at + end.len()..];
        matches!(packed, "" | ".gz" | ".zst" | ".zstd").then(|| (&name[..at], packed))
    }
}

/// Returns an error if a file is not in one of the folders, after resolving links. Without folders, every file is allowed.
pub(super) fn check_within(path: &Path, folders: &[PathBuf]) -> io::Result<()> {
    if folders.is_empty() {
        return Ok(());
    }
    let real = path.canonicalize()?;
    if folders.iter().any(|folder| real.starts_with(folder)) {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::PermissionDenied, "a link that leads out of the allowed folders"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stem_is_what_stands_before_the_end_of_the_name() {
        let stem =
            |path: &str| Siblings::new(Some(Path::new(path)), None).stem("_memory.json").map(str::to_owned);
        assert_eq!(stem("logs/my_model_memory.json").as_deref(), Some("my_model"));
        assert_eq!(stem("x_memory.json.gz").as_deref(), Some("x"));
        assert_eq!(stem("x_memory.json_memory.json").as_deref(), Some("x_memory.json"));
        assert_eq!(stem("x_memory.json.bak"), None);
        assert_eq!(stem("memory.json"), None);
        assert_eq!(Siblings::default().stem("_memory.json"), None);
    }

    #[test]
    fn only_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("x_ir.json")).unwrap();
        std::fs::write(folder.path().join("x_operations.json"), "[]").unwrap();
        let siblings = Siblings::new(Some(&folder.path().join("x_memory.json.gz")), None);
        assert!(siblings.open("_memory.json", "_ir.json").is_none());
        assert!(siblings.open("_memory.json", "_inputs_registry.json").is_none());
        let mut found = siblings.open("_memory.json", "_operations.json").unwrap().unwrap();
        let mut text = String::new();
        found.stream.read_to_string(&mut text).unwrap();
        assert_eq!((found.name.as_str(), text.as_str()), ("x_operations.json", "[]"));
    }

    #[cfg(unix)]
    #[test]
    fn links_that_leave_the_allowed_folders_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let (inside, outside) = (root.path().join("in"), root.path().join("out"));
        for folder in [&inside, &outside] {
            std::fs::create_dir(folder).unwrap();
            std::fs::write(folder.join("real.json"), "[]").unwrap();
        }
        std::os::unix::fs::symlink(inside.join("real.json"), inside.join("x_ir.json")).unwrap();
        std::os::unix::fs::symlink(outside.join("real.json"), inside.join("x_operations.json")).unwrap();
        let open = |folders: &[PathBuf], other: &str| {
            let siblings = Siblings::new(Some(&inside.join("x_memory.json")), None).within(folders);
            siblings.open("_memory.json", other).unwrap().map(|_| ()).map_err(|error| error.kind())
        };
        let folders = [inside.canonicalize().unwrap()];
        assert_eq!(open(&folders, "_ir.json"), Ok(()));
        assert_eq!(open(&folders, "_operations.json"), Err(io::ErrorKind::PermissionDenied));
        assert_eq!(open(&[], "_operations.json"), Ok(()));
    }
}
