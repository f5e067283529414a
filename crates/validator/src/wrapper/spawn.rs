//! The one place that runs code between fork and exec, so that a program cannot outlive its wrapper: the
//! kernel sends SIGKILL to it when the thread that forked it ends (05).

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use rustix::io::{Errno, FdFlags, fcntl_setfd};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use rustix::thread::UnshareFlags;

/// What a new process finds around itself.
#[derive(Debug, Default)]
pub(super) struct Surroundings {
    /// It moves itself into this cgroup, if it can; whether it could is for the caller to look up.
    pub(super) cgroup: Option<OwnedFd>,
    /// It is in a pid namespace of its own and gets a `/proc` to match.
    pub(super) own_proc: bool,
    /// A descriptor that it inherits, under the same number.
    pub(super) progress: Option<OwnedFd>,
}

/// Starts `command` in a process group of its own, bound to the life of the *calling thread*, which
/// therefore must be the main thread.
pub(super) fn spawn_bound(command: &mut Command, surroundings: Surroundings) -> io::Result<Child> {
    let wrapper = getpid();
    let bind = move || {
        let Surroundings { cgroup, own_proc, progress } = &surroundings;
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // If the wrapper died before the line above, nobody will send that signal any more. From inside
        // a namespace the wrapper is not to be seen; there the init dies, and everybody with it.
        if !own_proc && getppid() != Some(wrapper) {
            return Err(Errno::SRCH.into());
        }
        if let Some(cgroup) = cgroup {
            let _ = rustix::io::write(cgroup, b"0");
        }
        if *own_proc {
            mount_own_proc()?;
        }
        if let Some(progress) = progress {
            fcntl_setfd(progress, FdFlags::empty())?;
        }
        Ok(())
    };
    command.process_group(0);
    #[expect(unsafe_code, reason = "nothing else runs between fork and exec")]
    // SAFETY: the closure makes system calls on values that it owns and on constants. It allocates
    // nothing, takes no lock and touches no memory of other threads, which is what is allowed between
    // fork and exec.
    unsafe {
        command.pre_exec(bind);
    }
    command.spawn()
}

/// Mounts seen from here on are this process's own; what the host mounts later still comes through.
fn mount_own_proc() -> io::Result<()> {
    #[expect(
        deprecated,
        reason = "its danger is in a flag for descriptor tables, which is not set"
    )]
    rustix::thread::unshare(UnshareFlags::NEWNS)?;
    mount_change(c"/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount(c"proc", c"/proc", c"proc", flags, None)?)
}
