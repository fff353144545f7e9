//! Runs part of a test without root's right to read and write every file: CI and containers often run tests as root.

use std::thread;

/// Runs `test` with file permissions enforced, also for the programs that it starts.
///
/// Capabilities belong to a thread, so the test runs in a new one.
///
/// # Panics
///
/// If `test` does.
pub fn where_permissions_count<T: Send>(test: impl FnOnce() -> T + Send) -> T {
    let run = || {
        drop_rights().expect("a thread may give up its own rights");
        test()
    };
    thread::scope(|scope| scope.spawn(run).join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Drops the capabilities that bypass file permissions.
#[cfg(target_os = "linux")]
fn drop_rights() -> rustix::io::Result<()> {
    use rustix::thread::{
        CapabilitySet, capabilities, remove_capability_from_bounding_set, set_capabilities,
    };

    let all_files = CapabilitySet::DAC_OVERRIDE | CapabilitySet::DAC_READ_SEARCH;
    let mut own = capabilities(None)?;
    if !own.effective.intersects(all_files) {
        return Ok(());
    }
    // A program started by root gets all capabilities in the bounding set.
    for capability in [CapabilitySet::DAC_OVERRIDE, CapabilitySet::DAC_READ_SEARCH] {
        remove_capability_from_bounding_set(capability)?;
    }
    for set in [&mut own.effective, &mut own.permitted, &mut own.inheritable] {
        set.remove(all_files);
    }
    set_capabilities(None, own)
}

/// On other systems, tests do not run as root.
#[cfg(not(target_os = "linux"))]
fn drop_rights() -> std::io::Result<()> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::where_permissions_count;

    #[test]
    fn a_file_without_permissions_cannot_be_read_here_or_by_programs() {
        let path = std::env::temp_dir().join(format!("ttmem-privileges-{}", std::process::id()));
        fs::write(&path, "secret").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
        where_permissions_count(|| {
            assert!(fs::read(&path).is_err());
            assert!(!Command::new("cat").arg(&path).output().unwrap().status.success());
        });
        fs::remove_file(&path).unwrap();
    }
}
