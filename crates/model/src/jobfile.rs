//! Reads a job file. (being written)
