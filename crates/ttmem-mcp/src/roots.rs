//! The folders that files may be read from.

use std::fs::{self, Metadata};
use std::path::{Component, Path, PathBuf};

use ttmem::{Error, Result};

use crate::answer::Failure;
use crate::arguments::shown;

/// The folders that files may be read from, as canonical paths.
#[derive(Clone, Debug)]
pub(crate) struct Roots(Vec<PathBuf>);

impl Roots {
    /// Resolves the folders. Each must exist.
    pub fn new(folders: &[PathBuf]) -> Result<Self> {
        let resolved = |folder: &PathBuf| {
            let failed = |source| Error::Read { path: folder.clone(), source };
            let real = folder.canonicalize().map_err(failed)?;
            if !real.is_dir() {
                return Err(Error::Usage(format!(
                    "{}: not a folder; --root takes folders",
                    folder.display()
                )));
            }
            Ok(real)
        };
        folders.iter().map(resolved).collect::<Result<_>>().map(Self)
    }

    /// The folders.
    pub fn folders(&self) -> &[PathBuf] {
        &self.0
    }

    /// The real path of a file or folder, if it is in one of the roots. A relative path is looked up in each root.
    ///
    /// A path that does not exist and one outside the roots get the same message, so that it does not tell which files
    /// exist elsewhere.
    pub fn resolve(&self, path: &str) -> Result<PathBuf, Failure> {
        if path.is_empty() {
            return Err(Failure::new(
                "`path` is empty; pass a file below the roots (`list_files` lists them)",
            ));
        }
        let candidates = self.0.iter().map(|root| root.join(path));
        let real =
            candidates.filter_map(|candidate| candidate.canonicalize().ok()).find(|real| self.has(real));
        let Some(real) = real else { return Err(self.refused(path)) };
        let metadata = fs::metadata(&real).map_err(|_| self.refused(path))?;
        check_kind(path, &metadata)?;
        Ok(real)
    }

    /// Whether a real path is in one of the roots. The files of the kernel are not, even if a root contains them.
    pub fn has(&self, real: &Path) -> bool {
        const KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];
        let is_in = |root: &PathBuf| real.starts_with(root);
        self.0.iter().any(is_in) && !KERNEL.iter().any(|folder| real.starts_with(folder))
    }

    fn refused(&self, path: &str) -> Failure {
        let roots: Vec<String> = self.0.iter().map(|root| root.display().to_string()).collect();
        let leaves = Path::new(path).components().any(|part| part == Component::ParentDir);
        let hint = if leaves { " Paths with `..` are resolved first." } else { "" };
        Failure(format!(
            "{}: not found below the roots ({}).{hint} Pass a path in a root (`list_files` lists files), or restart the \
             server with `--root` for another folder.",
            shown(path),
            roots.join(", ")
        ))
    }
}

/// Refuses everything but files and folders: reading a pipe or a device may block forever.
fn check_kind(path: &str, metadata: &Metadata) -> Result<(), Failure> {
    if metadata.is_file() || metadata.is_dir() {
        return Ok(());
    }
    Err(Failure(format!(
        "{}: neither a file nor a folder (a pipe, socket or device); pass a file",
        shown(path)
    )))
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn only_files_below_a_root_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let (root, out) = (folder.path().join("root"), folder.path().join("root-not"));
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::create_dir(&out).unwrap();
        for file in [root.join("a.log"), root.join("sub/b.log"), out.join("c.log")] {
            fs::write(file, "x").unwrap();
        }
        symlink(root.join("a.log"), root.join("in.log")).unwrap();
        symlink(out.join("c.log"), root.join("out.log")).unwrap();
        symlink(&out, root.join("out")).unwrap();
        symlink("loop.log", root.join("loop.log")).unwrap();
        let roots = Roots::new(std::slice::from_ref(&root)).unwrap();
        let real = root.canonicalize().unwrap();
        for (path, file) in [
            ("a.log", "a.log"),
            ("./sub/../a.log", "a.log"),
            ("in.log", "a.log"),
            ("sub/b.log", "sub/b.log"),
            (real.join("a.log").to_str().unwrap(), "a.log"),
            (".", ""),
        ] {
            assert_eq!(roots.resolve(path), Ok(real.join(file)), "{path}");
        }
        let elsewhere = out.join("c.log");
        for path in [
            "",
            "../root-not/c.log",
            "..",
            "out.log",
            "out/c.log",
            "loop.log",
            "missing.log",
            elsewhere.to_str().unwrap(),
            "/proc/self/environ",
            "/etc/passwd",
            "/dev/zero",
            "~/a.log",
            "file:///etc/passwd",
        ] {
            assert!(roots.resolve(path).is_err(), "{path}");
        }
        // What exists elsewhere and what does not get the same message.
        let message = |path: &str| roots.resolve(path).unwrap_err().0.replace(path, "");
        assert_eq!(message("/etc/passwd"), message("/etc/passwd-not"));
    }

    #[test]
    fn sockets_and_devices_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let _socket = UnixListener::bind(folder.path().join("x.log")).unwrap();
        let roots = Roots::new(&[folder.path().to_owned(), "/".into()]).unwrap();
        assert!(roots.resolve("x.log").unwrap_err().0.contains("neither a file nor a folder"));
        for path in ["/dev/null", "dev/zero", "/proc/self/environ", "/sys/kernel/notes"] {
            assert!(roots.resolve(path).unwrap_err().0.contains("not found below the roots"), "{path}");
        }
    }

    #[test]
    fn roots_are_existing_folders() {
        assert!(Roots::new(&["/no/such/folder".into()]).is_err());
        assert!(Roots::new(&["/etc/passwd".into()]).unwrap_err().to_string().contains("not a folder"));
    }
}
