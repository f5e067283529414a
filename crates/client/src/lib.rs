//! The typed HTTP client of the agent and the command line.
