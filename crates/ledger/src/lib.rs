//! The recovery ledger: incidents, episodes, attempts, evaluation.
