//! Calls an agent with the Rust SDK and prints its progress and its answer:
//!
//! ```text
//! ask URL CA CLIENT_ID SECRET_FILE TEXT
//! ```

use interzone_client::{Client, ClientCredentials, WatchEvent};
use interzone_protocol::{acp::TasksCreateParams, vocab::Message};
use std::error::Error;
use std::io::Write;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, ca, client_id, secret_file, text] = arguments.as_slice() else {
        return Err("usage: ask URL CA CLIENT_ID SECRET_FILE TEXT".into());
    };
    let secret = std::fs::read_to_string(secret_file)?;
    let client = Client::builder(url)
        .ca_file(ca)
        .credentials(ClientCredentials::new(client_id, secret.trim()))
        .build()?;

    let task = client
        .tasks_create(&TasksCreateParams {
            initial_message: Message::user_text(text),
            assign_to: None,
            priority: None,
            metadata: None,
        })
        .await?;
    let (mut out, mut err) = (std::io::stdout(), std::io::stderr());
    let mut watch = client.watch_task(&task.task_id, None);
    // The watch reconnects if the connection breaks, without missing or repeated events.
    while let Some(event) = watch.next().await {
        match event? {
            WatchEvent::StatusLine(line) => writeln!(err, "({line})")?,
            WatchEvent::Completed(task) => {
                let messages = task.messages.unwrap_or_default();
                let answer = messages.last().map(Message::text).unwrap_or_default();
                writeln!(out, "{answer}")?;
            }
            WatchEvent::Failed(_) => return Err("the task failed".into()),
            _ => {}
        }
    }
    Ok(())
}
