//! Which state may follow which: the whole table, and nothing else.

use crate::error::HubError;
use interzone_protocol::vocab::{StreamState, TaskState};

/// Whether a task may move from one state to another.
pub const fn task_may_move(from: TaskState, to: TaskState) -> bool {
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

/// The move, or the error that names both states.
pub(crate) fn move_task(from: TaskState, to: TaskState) -> Result<(), HubError> {
    if task_may_move(from, to) {
        Ok(())
    } else {
        Err(HubError::IllegalMove { from, to })
    }
}

/// Whether a stream may move from one state to another.
pub const fn stream_may_move(from: StreamState, to: StreamState) -> bool {
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
    fn the_whole_table() {
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
                    task_may_move(from, to),
                    allowed.contains(&(from, to)),
                    "{from:?} {to:?}"
                );
                assert!(!(from.is_terminal() && task_may_move(from, to)));
            }
        }
    }

    #[test]
    fn streams_close_once() {
        use StreamState as S;
        for to in S::ALL {
            assert!(!stream_may_move(S::Closed, to));
            assert!(!stream_may_move(to, to));
        }
        assert!(stream_may_move(S::Active, S::Paused) && stream_may_move(S::Paused, S::Active));
    }

    #[test]
    fn an_illegal_move_names_both_states() {
        let error = move_task(TaskState::Completed, TaskState::Working).unwrap_err();
        assert_eq!(
            error.to_string(),
            "a task that is completed cannot become working"
        );
    }
}
