//! Every process below this one, found by walking `/proc`, and signals that reach only them.
//!
//! A process that left its parent's group or session (`setsid`, double fork) is still a descendant: the
//! wrapper is a subreaper, so whoever loses its parent becomes a child of the wrapper.

use std::collections::BTreeMap;
use std::fs;

use rustix::io::Errno;
use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, kill_process, pidfd_open, pidfd_send_signal,
};

/// What `/proc/<pid>/stat` says of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    parent: i32,
    /// In ticks since boot: with the pid, the process's identity.
    start_time: u64,
}

/// Sends `signal` to every descendant of this process. Whoever forks meanwhile may be missed: repeat
/// until no child is left.
pub(super) fn signal_all(signal: Signal) {
    for (pid, stat) in find(getpid().as_raw_pid()) {
        send(pid, stat, signal);
    }
}

/// The descendants of `root`, without itself.
fn find(root: i32) -> BTreeMap<i32, Stat> {
    let all = all_processes();
    let is_below = |pid: i32| {
        // The table was not read in one moment, so it could hold a circle; nobody is deeper than it is
        // long.
        std::iter::successors(Some(pid), |pid| all.get(pid).map(|stat| stat.parent))
            .take(all.len() + 1)
            .skip(1)
            .any(|ancestor| ancestor == root)
    };
    all.iter().filter(|(pid, _)| is_below(**pid)).map(|(pid, stat)| (*pid, *stat)).collect()
}

fn all_processes() -> BTreeMap<i32, Stat> {
    let Ok(entries) = fs::read_dir("/proc") else { return BTreeMap::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, stat(pid)?))).collect()
}

fn stat(pid: i32) -> Option<Stat> {
    parse(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// The name in parentheses may hold anything, spaces, parentheses and broken UTF-8 included: the fields
/// that count stand after the last `)`.
fn parse(line: &[u8]) -> Option<Stat> {
    let after_name = line.iter().rposition(|byte| *byte == b')')? + 1;
    let fields = std::str::from_utf8(&line[after_name..]).ok()?;
    // proc(5) counts from 1; the state after the name is field 3, the parent 4, the start time 22.
    let field = |number: usize| fields.split_ascii_whitespace().nth(number - 3);
    Some(Stat { parent: field(4)?.parse().ok()?, start_time: field(22)?.parse().ok()? })
}

/// Signals the process that was seen, or nobody: a pid may have been given to another process since.
fn send(pid: i32, seen: Stat, signal: Signal) {
    let Some(target) = Pid::from_raw(pid) else { return };
    let same = || stat(pid).is_some_and(|stat| stat.start_time == seen.start_time);
    // A failure here is a process that ended by itself, or one that is not ours to signal; whether
    // anything is left is decided by `waitpid`, not here.
    match pidfd_open(target, PidfdFlags::empty()) {
        Ok(process) if same() => drop(pidfd_send_signal(process, signal)),
        Err(Errno::NOSYS) if same() => drop(kill_process(target, signal)),
        Ok(_) | Err(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_name_may_hold_anything() {
        let rest = "S 41 7 7 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 1 0 987654 1 1";
        let line = format!("42 (a) R 1 (b c)) {rest}");
        assert_eq!(parse(line.as_bytes()), Some(Stat { parent: 41, start_time: 987_654 }));
        assert_eq!(parse(b"42 (torn"), None);
        assert_eq!(parse(b"42 (torn) S 41"), None);
    }

    #[test]
    fn finds_children_of_children_and_signals_only_whom_it_saw() {
        // The inner shell says who it is and waits for our pipe; the outer one waits for it.
        let mut outer = Command::new("sh")
            .args(["-c", "sh -c 'echo $$; read line'; exit $?"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(outer.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let inner: i32 = line.trim().parse().unwrap();

        let this = getpid().as_raw_pid();
        let found = find(this);
        assert!(found.contains_key(&inner) && found.contains_key(&(outer.id() as i32)));
        assert!(!found.contains_key(&this) && !found.contains_key(&1));

        let another = Stat { start_time: found[&inner].start_time + 1, ..found[&inner] };
        send(inner, another, Signal::KILL);
        send(inner, found[&inner], Signal::TERM);
        let code = outer.wait().unwrap().code();
        assert_eq!(code, Some(128 + 15), "the first signal was for another process of that pid");
    }
}
