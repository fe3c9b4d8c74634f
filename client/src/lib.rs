//! The SDK: typed calls to agents over exchangeable transports.
//!
//! It knows how to reach a zone safely and how to speak its dialects; nothing of how a zone works
//! inside may enter.
//!
//! [`Client`] calls one agent or zone: every method of ACP as a function, [`Batch`]es,
//! notifications, and [`TaskWatch`] and [`StreamWatch`] for what happens meanwhile. [`Credentials`]
//! say who calls; tokens are fetched, kept and renewed as needed. Calls are retried where that cannot
//! do a thing twice, and [`Error`] tells whether trying again later may help.
//!
//! ```no_run
//! use interzone_client::{Client, ClientCredentials, Watched};
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
//!     if let Watched::Completed(task) = event? {
//!         assert!(task.artifacts.is_some());
//!     }
//! }
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod answer;
mod auth;
#[cfg(feature = "aws")]
pub mod aws;
mod batch;
mod breaker;
mod client;
mod clock;
mod error;
mod methods;
mod options;
mod peer;
mod retry;
mod secret;
mod transport;
mod watch;
mod words;
mod zone;

pub use auth::login::Login;
pub use auth::session::Session;
pub use auth::{ClientCredentials, Credentials, Provider, Token, TokenSource};
pub use batch::{Batch, BatchAnswers, Handle};
pub use breaker::BreakerPolicy;
pub use client::Client;
pub use error::{AnswerFault, ConfigError, Error, Refusal, TokenError};
pub use options::{ClientBuilder, Timeouts};
pub use retry::RetryPolicy;
pub use secret::Secret;
pub use transport::https::{Https, HttpsOptions};
pub use transport::in_process::{Handler, InProcess};
pub use transport::{BoxError, ByteStream, Conversation, Transport, TransportError};
pub use watch::{StreamWatch, TaskWatch, Watched};
pub use zone::execution::{ExecuteEvent, Execution};
pub use zone::{ExecuteTask, Waiting};
