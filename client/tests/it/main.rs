//! The SDK seen from outside: one binary, one file per question.
//!
//! Only the public interface is used here. Peers are scripts (`script.rs`) where what matters is
//! what the client does, and real sockets (`server.rs`) where it is how.

#[cfg(test)]
mod answers;
#[cfg(feature = "aws")]
#[cfg(test)]
mod aws;
#[cfg(test)]
mod batch;
#[cfg(test)]
mod breaker;
#[cfg(test)]
mod calls;
#[cfg(test)]
mod https;
#[cfg(test)]
mod login;
#[cfg(test)]
mod retries;
#[cfg(test)]
mod script;
#[cfg(test)]
mod server;
#[cfg(test)]
mod tokens;
#[cfg(test)]
mod watch;
#[cfg(test)]
mod zone;
