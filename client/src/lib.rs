//! Client SDK: typed calls to agents over pluggable transports.
//!
//! It implements the wire protocols of a zone and depends on nothing of a zone's implementation.
//!
//! [`Client`] calls one agent or zone: every method of ACP as a function, [`Batch`]es,
//! notifications, and [`TaskWatch`] and [`StreamWatch`] for events. [`Credentials`] identify the caller; tokens
//! are fetched, cached and renewed as needed. Idempotent calls are retried, and [`Error::is_retryable`] tells if a
//! later attempt may succeed.
//!
//! ```no_run
//! use interzone_client::{Client, ClientCredentials, WatchEvent};
//! use interzone_protocol::{acp::TasksCreateParams, vocab::Message};
//!
//! # async fn example() -> Result<(), interzone_client::Error> {
//! let client = Client::builder("https://localhost:8443")
//!     .ca_file("ca.pem")
//!     .credentials(ClientCredentials::new("reports", "s3cret"))
//!     .build()?;
//! let params = TasksCreateParams {
//!     initial_message: Message::user_text("file csv a,b"),
//!     assign_to: None,
//!     priority: None,
//!     metadata: None,
//! };
//! let task = client.tasks_create(&params).await?;
//! let mut watch = client.watch_task(&task.task_id, None);
//! while let Some(event) = watch.next().await {
//!     if let WatchEvent::Completed(task) = event? {
//!         assert!(task.artifacts.is_some());
//!     }
//! }
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod auth;
#[cfg(feature = "aws")]
pub mod aws;
mod batch;
mod breaker;
mod client;
mod clock;
mod error;
mod error_reason;
mod http_exchange;
mod methods;
mod options;
mod response;
mod retry;
pub mod sse;
mod transport;
mod watch;
mod zone;

pub use auth::login::Login;
pub use auth::session::LoginSession;
pub use auth::{ClientCredentials, Credentials, Token, TokenProvider, TokenSource};
pub use batch::{Batch, BatchAnswers, BatchHandle};
pub use breaker::BreakerPolicy;
pub use client::Client;
pub use error::{ConfigError, Error, InvalidResponse, RpcError, TokenError};
pub use interzone_protocol::vocab::Secret;
pub use options::{ClientBuilder, Timeouts};
pub use retry::RetryPolicy;
pub use transport::https::{Https, HttpsOptions};
pub use transport::in_process::{InProcess, InProcessHandler};
pub use transport::{BoxError, ByteStream, ConversationName, Transport, TransportError};
pub use watch::{StreamWatch, TaskWatch, WatchEvent};
pub use zone::execution::{ExecuteEvent, Execution};
pub use zone::{ExecuteTask, WaitMode};
