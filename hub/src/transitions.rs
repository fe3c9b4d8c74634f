//! State transition tables of tasks and streams.

use crate::error::HubError;
use interzone_protocol::vocab::{StreamState, TaskState};

/// Returns true if a task may change from one state to the other.
pub const fn can_task_transition(from: TaskState, to: TaskState) -> bool {
    use TaskState::{
        AuthRequired, Canceled, Completed, Failed, InputRequired, Rejected, Submitted, Working,
    };
    match from {
        Submitted => matches!(to, Working | Canceled | Failed | Rejected),
        Working => {
            matches!(
                to,
                InputRequired | AuthRequired | Completed | Failed | Canceled | Rejected
            )
        }
        InputRequired | AuthRequired => matches!(to, Working | Canceled | Failed),
        Completed | Failed | Canceled | Rejected => false,
    }
}

/// Checks a task's state transition; the error names both states.
pub(crate) fn check_task_transition(from: TaskState, to: TaskState) -> Result<(), HubError> {
    if can_task_transition(from, to) {
        Ok(())
    } else {
        Err(HubError::IllegalTransition { from, to })
    }
}

/// Returns true if a stream may change from one state to the other.
pub const fn can_stream_transition(from: StreamState, to: StreamState) -> bool {
    use StreamState::{Active, Closed, Paused};
    matches!(
        (from, to),
        (Active, Paused | Closed) | (Paused, Active | Closed)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_task_transitions_are_allowed() {
        use TaskState as S;
        let allowed = [
            (S::Submitted, S::Working),
            (S::Submitted, S::Canceled),
            (S::Submitted, S::Failed),
            (S::Submitted, S::Rejected),
            (S::Working, S::InputRequired),
            (S::Working, S::AuthRequired),
            (S::Working, S::Completed),
            (S::Working, S::Failed),
            (S::Working, S::Canceled),
            (S::Working, S::Rejected),
            (S::InputRequired, S::Working),
            (S::InputRequired, S::Canceled),
            (S::InputRequired, S::Failed),
            (S::AuthRequired, S::Working),
            (S::AuthRequired, S::Canceled),
            (S::AuthRequired, S::Failed),
        ];
        for from in S::ALL {
            for to in S::ALL {
                assert_eq!(
                    can_task_transition(from, to),
                    allowed.contains(&(from, to)),
                    "{from:?} {to:?}"
                );
                assert!(!(from.is_terminal() && can_task_transition(from, to)));
            }
        }
    }

    #[test]
    fn closed_stream_cannot_change_state() {
        use StreamState as S;
        for to in S::ALL {
            assert!(!can_stream_transition(S::Closed, to));
            assert!(!can_stream_transition(to, to));
        }
        assert!(
            can_stream_transition(S::Active, S::Paused)
                && can_stream_transition(S::Paused, S::Active)
        );
    }

    #[test]
    fn illegal_transition_error_names_both_states() {
        let error = check_task_transition(TaskState::Completed, TaskState::Working).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a task that is completed cannot become working"
        );
    }
}
