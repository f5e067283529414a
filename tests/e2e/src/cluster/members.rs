//! The members of a cluster: which there are, and more of them, started by hand.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::{Cluster, Job, Member, MemberStatus, Network, PATIENCE, Running, binary, wait_until};

impl Cluster {
    /// The members that are not lost.
    #[track_caller]
    pub fn present_members(&self) -> Vec<Member> {
        let members = self.rest.members();
        members.into_iter().filter(|member| member.status != MemberStatus::Lost).collect()
    }

    /// A member on which task groups of the job run; of several, one with the most.
    #[track_caller]
    pub fn host_of(&self, job: &Job) -> Member {
        let hosted = |member: &Member| {
            job.task_groups()
                .filter(|group| group.member_uuid.as_ref() == Some(&member.uuid))
                .count()
        };
        let member = self.present_members().into_iter().max_by_key(hosted);
        member.filter(|member| hosted(member) > 0).expect("some member hosts the job's task groups")
    }

    /// Waits until a member is listed as lost.
    #[track_caller]
    pub fn wait_until_lost(&self, member: &Member) {
        let what = format!("the loss of member {} (pid {})", member.uuid, member.pid);
        wait_until(PATIENCE, &what, || {
            let members = self.rest.members_now()?;
            let now = members.into_iter().find(|now| now.uuid == member.uuid)?;
            (now.status == MemberStatus::Lost).then_some(())
        });
    }

    /// Starts one more agent, as a person would by hand, and waits until it is a member.
    ///
    /// # Panics
    /// When it does not become one.
    #[track_caller]
    pub fn add_member(&self) -> Member {
        self.add_member_from(&binary("steadfast"))
    }

    /// Starts one more agent, whose containers, and only they, live in a network of their own.
    ///
    /// An agent starts wrappers from its own file. Once it runs, that file is made one that leads there.
    ///
    /// # Panics
    /// When it does not become a member.
    #[track_caller]
    pub fn add_member_whose_containers_are_in(&self, network: &Network) -> Member {
        let (real, door) = (binary("steadfast"), self.new_folder("door").join("steadfast"));
        let in_folder = "the cluster's folder can be written";
        std::fs::copy(&real, &door).expect(in_folder);
        let member = self.add_member_from(&door);
        let (network, real) = (network.path(), real.display());
        let text = format!("#!/bin/sh\nexec nsenter --net={} {real} \"$@\"\n", network.display());
        // The agent holds the old file open, which cannot be written then, but replaced.
        std::fs::remove_file(&door).expect(in_folder);
        std::fs::write(&door, text).expect(in_folder);
        std::fs::set_permissions(&door, PermissionsExt::from_mode(0o755)).expect(in_folder);
        member
    }

    #[track_caller]
    fn add_member_from(&self, executable: &Path) -> Member {
        let name = self.name("agent");
        let slots = self.size.slots.to_string();
        let mut command = self.command(executable, ["agent", "--slots", &slots]);
        command.arg("--data").arg(self.folder.path().join(&name));
        if self.access.is_some() {
            command.arg("--token-file").arg(self.data().join("auth/member.token"));
        }
        let agent = Running::start(&mut command, self.folder.path(), &name);
        wait_until(PATIENCE, "one more member", || {
            let members = self.rest.members_now()?;
            let is_it = |one: &Member| one.pid == agent.pid() && one.status == MemberStatus::Alive;
            members.into_iter().find(is_it)
        })
    }
}
