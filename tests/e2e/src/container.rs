//! One container's processes, found by what the kernel knows of them, and what its wrapper said last.

use std::fs;
use std::path::{Path, PathBuf};

use crate::{Cluster, Job, Process, Signal, TaskGroup};

/// A running container.
#[derive(Clone, Debug)]
pub struct Container {
    /// Its execution resource id.
    pub id: String,
    /// The member on which it runs.
    pub member_uuid: String,
    /// Its wrapper.
    pub wrapper: Process,
    /// Its program's first process.
    pub program: Process,
}

/// How a container ended, in its wrapper's own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastWords(pub String);

impl Container {
    /// Every container of a job that runs.
    ///
    /// # Panics
    /// When one does not run.
    #[track_caller]
    pub fn all(cluster: &Cluster, job: &Job) -> Vec<Self> {
        job.task_groups().map(|group| Self::of(cluster, group)).collect()
    }

    #[track_caller]
    fn of(cluster: &Cluster, group: &TaskGroup) -> Self {
        let (Some(id), Some(member_uuid), Some(wrapper), Some(program)) = (
            group.execution_resource_id.clone(),
            group.member_uuid.clone(),
            group.wrapper_pid,
            group.pid,
        ) else {
            panic!("it does not run: {group:#?}")
        };
        let (wrapper, program) = (cluster.process(wrapper), cluster.process(program));
        Self { id, member_uuid, wrapper, program }
    }

    /// What it shows to be itself.
    ///
    /// # Panics
    /// When its program is gone.
    #[track_caller]
    pub fn secret(&self) -> String {
        self.program.variable("STEADFAST_CONTAINER_SECRET")
    }

    /// Every living process of it: wrapper, the first one of its pid namespace, program, descendants.
    pub fn processes(&self, cluster: &Cluster) -> Vec<Process> {
        let mut processes = cluster.processes();
        processes.retain(|one| {
            one.try_variable("EXECUTION_RESOURCE_ID").as_deref() == Some(self.id.as_str())
        });
        processes
    }

    /// Its program and all that descends from it: what ends with it, and is not its end's own means.
    pub fn programs(&self, cluster: &Cluster) -> Vec<Process> {
        let mut programs = self.processes(cluster);
        programs.retain(|one| {
            *one != self.wrapper && one.try_variable("STEADFAST_WRAPPER_ROLE").is_none()
        });
        programs
    }

    /// Sends a signal to its program and all that descends from it.
    #[track_caller]
    pub fn signal_programs(&self, cluster: &Cluster, signal: Signal) {
        self.program.signal(signal);
        for program in self.programs(cluster) {
            program.try_signal(signal);
        }
    }

    /// Whether nothing of it is left, its wrapper included.
    pub fn is_gone(&self, cluster: &Cluster) -> bool {
        self.processes(cluster).is_empty()
    }

    /// What its wrapper said last, if it has come to that.
    pub fn last_words(&self, cluster: &Cluster) -> Option<LastWords> {
        let text = self.said(cluster, "wrapper.log");
        let line =
            text.lines().rev().find(|line| line.contains("nothing of the container is left"));
        line.map(|line| LastWords(line.to_owned()))
    }

    /// What stands in one of its logs; nothing where there is none.
    pub fn said(&self, cluster: &Cluster, log: &str) -> String {
        let folder = find(cluster.folder(), &self.id);
        let text = folder.and_then(|folder| fs::read(folder.join(log)).ok());
        String::from_utf8_lossy(&text.unwrap_or_default()).into_owned()
    }
}

/// The container's folder in whichever agent's it is.
fn find(folder: &Path, id: &str) -> Option<PathBuf> {
    let folders = fs::read_dir(folder).ok()?.flatten();
    let mut folders: Vec<PathBuf> = folders
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect();
    if let Some(found) = folders.iter().position(|one| one.file_name() == Some(id.as_ref())) {
        return Some(folders.swap_remove(found));
    }
    folders.iter().find_map(|one| find(one, id))
}
