//! The one place that runs code between fork and exec, so that a program cannot outlive its wrapper: the
//! kernel sends SIGKILL to it when the thread that forked it ends (05).

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

use rustix::io::Errno;
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

/// Starts `command` in a process group of its own, bound to the life of the *calling thread*, which
/// therefore must be the main thread.
pub(super) fn spawn_bound(command: &mut Command) -> io::Result<Child> {
    let wrapper = getpid();
    let bind = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // If the wrapper died before the line above, nobody will send that signal any more.
        if getppid() == Some(wrapper) { Ok(()) } else { Err(Errno::SRCH.into()) }
    };
    command.process_group(0);
    #[expect(unsafe_code, reason = "nothing else runs between fork and exec")]
    // SAFETY: the closure makes two system calls on values that it owns. It allocates nothing, takes no
    // lock and touches no memory of other threads, which is what is allowed between fork and exec.
    unsafe {
        command.pre_exec(bind);
    }
    command.spawn()
}
