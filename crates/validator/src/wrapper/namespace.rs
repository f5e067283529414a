//! A pid namespace for the program, where the system allows one (root, as a rule): nothing that it starts
//! can leave it, and all of it ends with the namespace's init.
//!
//! The program is a child of the wrapper all the same, put into the namespace beside the init: its exit
//! status comes without a go-between, its pid is the host's, its standard streams are the wrapper's own,
//! and signals reach it as they reach any program, which they would not if it were the first process
//! itself. It sees the namespace's own `/proc`, or every pid in it would be another's.

use std::env;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

use super::init::{self, Order};
use super::spawn::{Surroundings, spawn_bound};

/// A namespace with its init, and nobody else yet.
#[derive(Debug)]
pub(super) struct Namespace {
    /// The wrapper's own namespace.
    outside: File,
    inside: File,
    /// The init's pid until it is reaped, else 0.
    init: AtomicI32,
    orders: Mutex<Orders>,
}

#[derive(Debug)]
struct Orders {
    pipe: ChildStdin,
    /// The last one that went through.
    last: Option<Order>,
}

impl Namespace {
    /// Makes a namespace and waits until its init is ready. To be called on the main thread only: the
    /// init dies with the thread that forked it.
    ///
    /// # Errors
    /// The system does not allow it.
    pub(super) fn make(cgroup: Option<OwnedFd>) -> io::Result<Self> {
        let outside = File::open("/proc/self/ns/pid")?;
        let mut command = Command::new("/proc/self/exe");
        command
            .args(env::args_os().skip(1))
            .env(init::ROLE, init::INIT)
            // It must not hold a file system that somebody wants to take away.
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let surroundings = Surroundings { cgroup, own_proc: true, progress: None };
        unshare_pids()?;
        // From here on children of this thread are born inside, and it can start no further thread,
        // until it has moved back.
        let spawned = spawn_bound(&mut command, surroundings);
        move_into(&outside)?;
        let mut child = spawned?;
        Self::meet(&mut child, outside).inspect_err(|_| {
            // It is no init that could be believed.
            let _ = child.kill();
            let _ = child.wait();
        })
    }

    fn meet(child: &mut Child, outside: File) -> io::Result<Self> {
        let (Some(pipe), Some(mut answer)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        fcntl_setfl(&pipe, OFlags::NONBLOCK)?;
        let mut ready = [0];
        answer.read_exact(&mut ready)?;
        if ready != [init::READY] {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Self {
            outside,
            inside: File::open(format!("/proc/{}/ns/pid", child.id()))?,
            init: AtomicI32::new(child.id().cast_signed()),
            orders: Mutex::new(Orders { pipe, last: None }),
        })
    }

    /// Starts a process in it. To be called on the main thread only.
    pub(super) fn spawn(
        &self,
        command: &mut Command,
        surroundings: Surroundings,
    ) -> io::Result<Child> {
        move_into(&self.inside)?;
        let child = spawn_bound(command, surroundings);
        move_into(&self.outside)?;
        child
    }

    /// The init's pid, until it is reaped.
    pub(super) fn init(&self) -> Option<Pid> {
        Pid::from_raw(self.init.load(Ordering::SeqCst))
    }

    /// Tells the init, without waiting. An init that is stopped and has not read thousands of orders
    /// before this one gets it the next time.
    pub(super) fn order(&self, order: Order) {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if orders.last != Some(order) && orders.pipe.write_all(&order.to_bytes()).is_ok() {
            orders.last = Some(order);
        }
    }

    /// SIGKILL to the init, and by that to everything in the namespace.
    pub(super) fn kill(&self) {
        if let Some(init) = self.init() {
            // Not reaped, so the pid is its own.
            let _ = kill_process(init, Signal::KILL);
        }
    }

    /// The init was reaped.
    pub(super) fn is_over(&self) {
        self.init.store(0, Ordering::SeqCst);
    }

    /// Ends it, whatever runs in it.
    pub(super) fn end(&self) {
        self.kill();
        if let Some(init) = self.init() {
            let _ = waitpid(Some(init), WaitOptions::empty());
            self.is_over();
        }
    }
}

fn move_into(namespace: &File) -> io::Result<()> {
    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::ProcessID))?)
}

fn unshare_pids() -> io::Result<()> {
    #[expect(
        deprecated,
        reason = "its danger is in a flag for descriptor tables, which is not set"
    )]
    Ok(rustix::thread::unshare(UnshareFlags::NEWPID)?)
}
