//! `interzone stream`: talking to an agent on a stream that stays open.

use super::task::{object, tell_words, write_message};
use crate::attachments;
use crate::connect::ConnectOptions;
use crate::exit::{Exit, Failure};
use crate::output::{self, Format};
use crate::printable;
use crate::watched;
use clap::{Args, Subcommand};
use interzone_client::{Client, Watched};
use interzone_protocol::acp::{Method, StreamEndParams, StreamMessageParams, StreamStartParams};
use interzone_protocol::vocab::{Role, StreamState};
use std::io::{self, Write};
use std::path::PathBuf;

/// Begin, speak on, watch or end streams
#[derive(Debug, Args)]
pub(crate) struct Stream {
    #[command(subcommand)]
    action: Action,

    #[command(flatten)]
    connect: ConnectOptions,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Begin a stream
    Start {
        /// Who else may speak and listen; may be given several times
        #[arg(long, value_name = "WHO")]
        participant: Vec<String>,
        /// A JSON object to attach
        #[arg(long, value_name = "JSON")]
        metadata: Option<String>,
    },
    /// Say something on a stream
    Send {
        /// The stream
        id: String,
        /// What to say; - reads it from standard input
        #[arg(value_name = "TEXT", required_unless_present = "file")]
        text: Vec<String>,
        /// A file to send along; may be given several times
        #[arg(long, value_name = "FILE")]
        file: Vec<PathBuf>,
    },
    /// Watch a stream until it ends
    Watch {
        /// The stream
        id: String,
        /// Only what came after this event
        #[arg(long, value_name = "SEQUENCE")]
        after: Option<u64>,
    },
    /// End a stream
    End {
        /// The stream
        id: String,
        /// Why
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

impl Stream {
    pub(crate) async fn run(self, format: Format) -> Result<Exit, Failure> {
        let connection = self.connect.find()?;
        let client = connection.client()?;
        let done = self.action.run(&client, format).await;
        connection.explain(done, &[Method::StreamStart]).await
    }
}

impl Action {
    async fn run(self, client: &Client, format: Format) -> Result<Exit, Failure> {
        match self {
            Self::Start {
                participant,
                metadata,
            } => {
                let params = StreamStartParams {
                    participants: (!participant.is_empty()).then_some(participant),
                    metadata: metadata.map(|text| object(&text)).transpose()?,
                };
                let stream = client.stream_start(&params).await?;
                output::write(|out| match format {
                    Format::Json => output::write_json(out, &stream),
                    // Nothing beside it, so that a script can take it as it is.
                    Format::Text => writeln!(out, "{}", printable::text(&stream.stream_id)),
                })?;
                Ok(Exit::Done)
            }
            Self::Send { id, text, file } => {
                let params = StreamMessageParams {
                    stream_id: id,
                    message: attachments::message(&text, &file)?,
                };
                tell_words(&client.stream_message(&params).await?, format)
            }
            Self::Watch { id, after } => watch(client, &id, after, format).await,
            Self::End { id, reason } => {
                let params = StreamEndParams {
                    stream_id: id,
                    reason,
                };
                tell_words(&client.stream_end(&params).await?, format)
            }
        }
    }
}

async fn watch(
    client: &Client,
    id: &str,
    after: Option<u64>,
    format: Format,
) -> Result<Exit, Failure> {
    let mut watch = client.watch_stream(id, after);
    // Whether a line that an agent's pieces grow in is open.
    let mut open = false;
    while let Some(event) = watch.next().await {
        let event = event?;
        if format == Format::Json {
            let line = watched::line(&event, watch.position());
            output::write(|out| output::write_json(out, &line))?;
            continue;
        }
        open = output::write_and(|out| show(out, &event, open))?;
    }
    Ok(Exit::Done)
}

/// Shows an event; answers whether the line is still open.
fn show(out: &mut dyn Write, event: &Watched, open: bool) -> io::Result<bool> {
    match event {
        Watched::Chunk(chunk) if chunk.chunk.role() == Role::Agent => {
            let words = printable::lines(&chunk.chunk.text());
            if !open {
                write!(out, "agent: ")?;
            }
            write!(out, "{words}")?;
            let last = chunk.is_last.unwrap_or(false);
            if last {
                writeln!(out)?;
            }
            Ok(!last)
        }
        Watched::Chunk(chunk) => {
            if open {
                writeln!(out)?;
            }
            write_message(out, &chunk.chunk)?;
            Ok(false)
        }
        Watched::StreamState { status, .. } if status.0 != StreamState::Active => {
            if open {
                writeln!(out)?;
            }
            writeln!(out, "{}", status.name())?;
            Ok(false)
        }
        _ => Ok(open),
    }
}
