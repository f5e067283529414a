//! What the kernel knows of a process.

use std::path::Path;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::Failure;

/// CPU time of these processes so far, in nanoseconds: of all their threads that still live, which are all
/// that ever worked for an answer.
pub fn cpu_time(pids: &[u32]) -> Result<u64, Failure> {
    let mut sum = 0;
    for pid in pids {
        for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
            let told = std::fs::read_to_string(thread?.path().join("schedstat"))?;
            sum += told.split(' ').next().unwrap_or_default().parse::<u64>()?;
        }
    }
    Ok(sum)
}

/// The processes that this one has started and that still live.
pub fn children(pid: u32) -> Result<Vec<u32>, Failure> {
    let told = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"))?;
    told.split_whitespace().map(|pid| Ok(pid.parse()?)).collect()
}

/// Memory of this process that is really there, in bytes.
pub fn resident_bytes() -> Result<u64, Failure> {
    let told = std::fs::read_to_string(Path::new("/proc/self/status"))?;
    let line = told.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? * 1_024)
}

/// Two times five thousand connections are more than a shell allows by default.
pub fn allow_all_files() -> Result<(), Failure> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?)
}
