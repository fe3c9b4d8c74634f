//! `interzone stream`: starts, sends to, watches and ends streams.

use super::task::{parse_metadata, print_message, write_message};
use crate::attachments;
use crate::connect::ConnectOptions;
use crate::exit::{Exit, Failure};
use crate::output::{self, OutputFormat};
use crate::printable;
use clap::{Args, Subcommand};
use interzone_client::{Client, WatchEvent};
use interzone_protocol::acp::{Method, StreamEndParams, StreamMessageParams, StreamStartParams};
use interzone_protocol::vocab::{Role, StreamState};
use std::io::{self, Write};
use std::path::PathBuf;

/// Start, send to, watch and end streams
#[derive(Debug, Args)]
pub(crate) struct Stream {
    #[command(subcommand)]
    action: StreamAction,

    #[command(flatten)]
    connect: ConnectOptions,
}

#[derive(Debug, Subcommand)]
enum StreamAction {
    /// Start a stream
    Start {
        /// Principal that may join the stream (repeatable)
        #[arg(long, value_name = "PRINCIPAL")]
        participant: Vec<String>,
        /// Metadata, as a JSON object
        #[arg(long, value_name = "JSON")]
        metadata: Option<String>,
    },
    /// Send a message on a stream
    Send {
        /// Stream id
        id: String,
        /// Text to send, or - to read it from standard input
        #[arg(value_name = "TEXT", required_unless_present = "file")]
        text: Vec<String>,
        /// File to attach (repeatable)
        #[arg(long, value_name = "FILE")]
        file: Vec<PathBuf>,
    },
    /// Watch a stream until it ends
    Watch {
        /// Stream id
        id: String,
        /// Show only events after this sequence number
        #[arg(long, value_name = "SEQUENCE")]
        after: Option<u64>,
    },
    /// End a stream
    End {
        /// Stream id
        id: String,
        /// Reason
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

impl Stream {
    pub(crate) async fn run(self, format: OutputFormat) -> Result<Exit, Failure> {
        let connection = self.connect.resolve()?;
        let client = connection.client()?;
        let done = self.action.run(&client, format).await;
        connection
            .explain_scope_error(done, &[Method::StreamStart])
            .await
    }
}

impl StreamAction {
    async fn run(self, client: &Client, format: OutputFormat) -> Result<Exit, Failure> {
        match self {
            Self::Start {
                participant,
                metadata,
            } => {
                let params = StreamStartParams {
                    participants: (!participant.is_empty()).then_some(participant),
                    metadata: metadata.map(|text| parse_metadata(&text)).transpose()?,
                };
                let stream = client.stream_start(&params).await?;
                output::write(|out| match format {
                    OutputFormat::Json => output::write_json(out, &stream),
                    // Prints only the id, so that scripts can use it directly.
                    OutputFormat::Text => writeln!(out, "{}", printable::text(&stream.stream_id)),
                })?;
                Ok(Exit::Done)
            }
            Self::Send { id, text, file } => {
                let params = StreamMessageParams {
                    stream_id: id,
                    message: attachments::user_message(&text, &file)?,
                };
                print_message(&client.stream_message(&params).await?, format)
            }
            Self::Watch { id, after } => watch(client, &id, after, format).await,
            Self::End { id, reason } => {
                let params = StreamEndParams {
                    stream_id: id,
                    reason,
                };
                print_message(&client.stream_end(&params).await?, format)
            }
        }
    }
}

async fn watch(
    client: &Client,
    id: &str,
    after: Option<u64>,
    format: OutputFormat,
) -> Result<Exit, Failure> {
    let mut watch = client.watch_stream(id, after);
    // True while a line of agent chunks is unfinished.
    let mut open = false;
    while let Some(event) = watch.next().await {
        let event = event?;
        if format == OutputFormat::Json {
            let line = output::event_json(&event, watch.position());
            output::write(|out| output::write_json(out, &line))?;
            continue;
        }
        open = output::write_with_result(|out| write_event(out, &event, open))?;
    }
    Ok(Exit::Done)
}

/// Writes an event; returns whether the line is still open.
fn write_event(out: &mut dyn Write, event: &WatchEvent, open: bool) -> io::Result<bool> {
    match event {
        WatchEvent::Chunk(chunk) if chunk.chunk.role() == Role::Agent => {
            let text = printable::lines(&chunk.chunk.text());
            if !open {
                write!(out, "agent: ")?;
            }
            write!(out, "{text}")?;
            let last = chunk.is_last.unwrap_or(false);
            if last {
                writeln!(out)?;
            }
            Ok(!last)
        }
        WatchEvent::Chunk(chunk) => {
            if open {
                writeln!(out)?;
            }
            write_message(out, &chunk.chunk)?;
            Ok(false)
        }
        WatchEvent::StreamState { status, .. } if status.0 != StreamState::Active => {
            if open {
                writeln!(out)?;
            }
            writeln!(out, "{}", status.name())?;
            Ok(false)
        }
        _ => Ok(open),
    }
}
