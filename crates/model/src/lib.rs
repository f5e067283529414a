//! The vocabulary of steadfast: ids, job spec, statuses, timestamps.
