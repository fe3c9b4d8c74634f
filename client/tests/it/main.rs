//! The SDK through its public interface: one binary, one file per topic.
//!
//! Peers are scripts (`scripted_peer.rs`) where the client's behaviour matters, and real sockets
//! (`test_server.rs`) where the transport does.

#[cfg(feature = "aws")]
#[cfg(test)]
mod agentcore;
#[cfg(test)]
mod batch;
#[cfg(test)]
mod breaker;
#[cfg(test)]
mod calls;
#[cfg(test)]
mod execute_task;
#[cfg(test)]
mod https;
#[cfg(test)]
mod login;
#[cfg(test)]
mod responses;
#[cfg(test)]
mod retries;
#[cfg(test)]
mod scripted_peer;
#[cfg(test)]
mod test_server;
#[cfg(test)]
mod tokens;
#[cfg(test)]
mod watch;
