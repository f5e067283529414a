//! A cgroup of the container's own (v2), where one can be had: everything in it is killed in one stroke,
//! however fast it forks, and whoever finds it empty knows that nothing is left, also when the wrapper
//! can no longer say so. The wrapper itself stays outside.
//!
//! It is made below the wrapper's own cgroup, where a service manager that delegates lets its service
//! make some. Nothing is configured in it, so it needs no controller.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::fs::{Access, access};
use steadfast_model::ExecutionId;

/// How often an empty cgroup is asked to go: the kernel lets go of a reaped process a moment later.
const REMOVALS: usize = 40;

/// A cgroup that was made and must be removed.
#[derive(Debug)]
pub(super) struct Cgroup {
    folder: PathBuf,
    /// Open from the start, so that the last resort looks up no path.
    kill: File,
}

impl Cgroup {
    /// Makes it.
    ///
    /// # Errors
    /// There is no cgroup v2, it may not be written, or the kernel is older than `cgroup.kill` (5.14).
    pub(super) fn make(id: ExecutionId) -> io::Result<Self> {
        let own = own_folder().ok_or(io::ErrorKind::NotFound)?;
        // Who moves a process writes below and must be allowed to write here as well.
        access(own.join("cgroup.procs"), Access::WRITE_OK)?;
        let folder = own.join(format!("steadfast-{id}"));
        if let Err(error) = fs::create_dir(&folder) {
            // An empty one is what a killed wrapper left behind. One that is not empty is somebody else's.
            if error.kind() == io::ErrorKind::AlreadyExists {
                fs::remove_dir(&folder)?;
            }
            fs::create_dir(&folder)?;
        }
        let kill =
            File::options().write(true).open(folder.join("cgroup.kill")).inspect_err(|_| {
                let _ = fs::remove_dir(&folder);
            })?;
        Ok(Self { folder, kill })
    }

    /// Where it is.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A process that writes `0` here moves itself into it.
    pub(super) fn door(&self) -> io::Result<OwnedFd> {
        Ok(File::options().write(true).open(self.folder.join("cgroup.procs"))?.into())
    }

    /// Whether a process, which may have ended but is not reaped, is in it.
    pub(super) fn holds(&self, pid: u32) -> bool {
        let memberships = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let name = self.folder.file_name();
        own_path(&memberships).is_some_and(|path| Path::new(path).file_name() == name)
    }

    /// SIGKILL to everything in it, what forks meanwhile included.
    pub(super) fn kill(&self) {
        // What cannot be killed by this is killed by the ways beside it.
        let _ = (&self.kill).write_all(b"1");
    }

    /// Removes it, when nothing is left in it.
    pub(super) fn remove(&self) {
        for _ in 0..REMOVALS {
            match fs::remove_dir(&self.folder) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                    self.kill();
                    thread::sleep(Duration::from_millis(5));
                }
                _ => return,
            }
        }
        tracing::warn!(folder = %self.folder.display(), "a cgroup stays behind");
    }
}

/// The folder of this process's own cgroup.
fn own_folder() -> Option<PathBuf> {
    let mut mounts = Vec::new();
    // A mount point may hold any bytes; one that is no UTF-8 is none that we use.
    File::open("/proc/self/mountinfo").ok()?.read_to_end(&mut mounts).ok()?;
    let memberships = fs::read_to_string("/proc/self/cgroup").ok()?;
    folder_of(&String::from_utf8_lossy(&mounts), own_path(&memberships)?)
}

/// The path of a process within the v2 hierarchy, out of `/proc/PID/cgroup`.
fn own_path(memberships: &str) -> Option<&str> {
    memberships.lines().find_map(|line| line.strip_prefix("0::"))
}

/// Where `path` of the v2 hierarchy is to be found in the file system, out of `/proc/self/mountinfo`
/// (proc(5)): the fourth field is what of the hierarchy is mounted, the fifth where.
fn folder_of(mounts: &str, path: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (mount, file_system) = line.split_once(" - ")?;
        if file_system.split_ascii_whitespace().next() != Some("cgroup2") {
            return None;
        }
        let mut fields = mount.split_ascii_whitespace().skip(3);
        let (root, mounted_at) = (unescaped(fields.next()?), unescaped(fields.next()?));
        let below = Path::new(path).strip_prefix(root).ok()?;
        Some(Path::new(&mounted_at).join(below))
    })
}

/// Spaces, tabs, line ends and backslashes stand there as three octal digits.
fn unescaped(field: &str) -> String {
    let replace = |field: String, (code, byte): (&str, &str)| field.replace(code, byte);
    [(r"\040", " "), (r"\011", "\t"), (r"\012", "\n"), (r"\134", r"\")]
        .into_iter()
        .fold(field.to_owned(), replace)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:7 - cgroup2 cgroup2 rw
";

    #[test]
    fn the_folder_is_found_wherever_v2_is_mounted() {
        let found = |mounts, path| folder_of(mounts, path);
        let below = Some(PathBuf::from("/sys/fs/cgroup/unified/a.slice/b.service"));
        assert_eq!(found(HYBRID, "/a.slice/b.service"), below);
        assert_eq!(found(HYBRID, "/"), Some("/sys/fs/cgroup/unified/".into()));
        let unified = "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup rw,nsdelegate\n";
        assert_eq!(found(unified, "/a"), Some("/sys/fs/cgroup/a".into()));
        let v1 = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        assert_eq!(found(v1, "/a"), None);
    }

    #[test]
    fn only_the_mounted_part_of_a_hierarchy_counts() {
        let part = r"30 23 0:26 /docker/1 /mnt/a\040b rw - cgroup2 cgroup rw";
        assert_eq!(folder_of(part, "/docker/1/job"), Some("/mnt/a b/job".into()));
        assert_eq!(folder_of(part, "/docker/2"), None, "it is not to be seen from here");
    }

    #[test]
    fn the_v2_line_is_told_from_the_others() {
        assert_eq!(own_path("9:name=systemd:/x\n4:memory:/y\n0::/z z\n"), Some("/z z"));
        assert_eq!(own_path("4:memory:/y\n"), None);
    }
}
