//! The agent: starts, watches and ends real processes on one member.
