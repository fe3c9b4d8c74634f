//! The client against a server that is not Slack but answers like it.
