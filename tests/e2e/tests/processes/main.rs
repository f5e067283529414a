//! The spine of the product, shown with real processes: what a person who follows the README and then
//! reaches for `kill` gets to see.
//!
//! One test program, so that a cluster can use the processor while another one waits. Each test owns its
//! cluster. No test asserts a time: they assert what happens and in which order, and how fast it happens
//! is judged by the scenes (`cargo xtask e2e --scenes`).

mod agent_terminated;
mod another_cluster;
mod bad_files;
mod coordinator_killed;
mod coordinator_stopped;
mod coordinators;
mod credentials;
mod dev_command;
mod drain;
mod everything_killed;
mod hurt_disk;
mod logs;
mod member_stopped;
mod members_killed;
mod options;
mod planned_leave;
mod program_killed;
mod random_faults;
mod short_lease;
mod stalled;
mod stopped_past_its_lease;
mod submit_and_stop;
mod wrapper_killed;
mod zombies;
