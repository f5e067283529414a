//! Statuses as closed enums. What may follow what stands in the engine's transition tables.

use serde::{Deserialize, Serialize};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum $name {
            $($(#[$vdoc])* #[serde(rename = $text)] $variant),*
        }

        impl $name {
            /// Every value, in the order of declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The word used in JSON, on the command line and in documents.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),* }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            /// Reads the word; the error lists the accepted ones.
            fn from_str(text: &str) -> Result<Self, String> {
                match text {
                    $($text => Ok(Self::$variant),)*
                    _ => Err(format!("\"{text}\" is none of {}", [$($text),*].join(", "))),
                }
            }
        }
    };
}
pub(crate) use words;

words! {
    /// A job.
    JobStatus {
        /// Accepted, not yet durable in the queue.
        Created = "CREATED",
        /// Waits for slots for its first deployment.
        Pending = "PENDING",
        /// Its pipelines are being deployed for the first time.
        Scheduled = "SCHEDULED",
        /// Every pipeline has run; it stays so while pipelines restore.
        Running = "RUNNING",
        /// A pipeline could not be restored; the others are being stopped.
        Failing = "FAILING",
        /// Somebody asked for its end.
        Canceling = "CANCELING",
        /// All pipelines finished.
        Finished = "FINISHED",
        /// Nothing was left to try.
        Failed = "FAILED",
        /// It was cancelled.
        Canceled = "CANCELED",
    }
}

words! {
    /// A pipeline, the unit of restore.
    PipelineStatus {
        /// To be scheduled.
        Created = "CREATED",
        /// Waits for slots, for a pause to end, or for an old copy's end.
        Scheduled = "SCHEDULED",
        /// Containers are being launched; the attempt is counted.
        Deploying = "DEPLOYING",
        /// Every task group's container of this attempt was reported started.
        Running = "RUNNING",
        /// The attempt failed and is being revoked.
        Failing = "FAILING",
        /// It is being stopped for good.
        Canceling = "CANCELING",
        /// Every task group finished.
        Finished = "FINISHED",
        /// It could not be restored.
        Failed = "FAILED",
        /// It was stopped.
        Canceled = "CANCELED",
    }
}

words! {
    /// A task group, which one container runs.
    TaskGroupStatus {
        /// No container of this attempt yet.
        Created = "CREATED",
        /// Its container is being launched.
        Deploying = "DEPLOYING",
        /// Its container was reported started.
        Running = "RUNNING",
        /// It failed; its container may not be proven gone yet.
        Failing = "FAILING",
        /// Its container is being stopped.
        Canceling = "CANCELING",
        /// Its program ended with exit code 0.
        Finished = "FINISHED",
        /// It failed.
        Failed = "FAILED",
        /// It was stopped.
        Canceled = "CANCELED",
    }
}

words! {
    /// A member as an operator sees it.
    MemberStatus {
        /// Heard in time.
        Alive = "ALIVE",
        /// Silent for a third of the timeout or more.
        Suspected = "SUSPECTED",
        /// Its connection closed; it may still come back.
        Disconnected = "DISCONNECTED",
        /// Declared lost.
        Lost = "LOST",
        /// Its containers are being moved away before it leaves.
        Draining = "DRAINING",
    }
}

words! {
    /// What is known about a job's recovery tracking (first seed, "Dirty evaluation").
    EvaluationStatus {
        /// The job did not enable tracking.
        Disabled = "DISABLED",
        /// Tracking is complete and the threshold has not been reached.
        Clean = "CLEAN",
        /// The threshold has been reached; irreversible for the job id.
        Dirty = "DIRTY",
        /// Tracking is incomplete or inconsistent.
        Unknown = "UNKNOWN",
    }
}

words! {
    /// Why a member left, as far as it is proven (first seed, "Cause classification").
    LeaveClassification {
        /// Not proven to be planned; counted.
        Unclassified = "UNCLASSIFIED",
        /// Registered beforehand by an authenticated operator.
        PlannedVerified = "PLANNED_VERIFIED",
    }
}

words! {
    /// How the loss of a member was noticed.
    LossCause {
        /// Its connection closed and it did not come back within the grace.
        ConnectionClosed = "CONNECTION_CLOSED",
        /// It was silent for its timeout.
        Silence = "SILENCE",
        /// It said that it leaves.
        Leaving = "LEAVING",
        /// An operator drained it: its containers moved while its agent still ran.
        ToldByOperator = "TOLD_BY_OPERATOR",
    }
}

impl JobStatus {
    /// Whether nothing can follow.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Finished | Self::Failed | Self::Canceled)
    }
}

impl PipelineStatus {
    /// Whether nothing can follow.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Finished | Self::Failed | Self::Canceled)
    }
}

impl TaskGroupStatus {
    /// Whether nothing can follow within this attempt.
    pub const fn is_terminal(self) -> bool {
        matches!(self, Self::Finished | Self::Failed | Self::Canceled)
    }
}
