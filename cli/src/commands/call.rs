//! `interzone call`: calls any method and prints the result unchanged.

use crate::connect::ConnectOptions;
use crate::exit::{Exit, Failure};
use crate::input::Input;
use crate::output;
use clap::Args;
use interzone_protocol::vocab::VerbatimJson;
use std::ffi::OsStr;

/// Call any method and print its result as JSON
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  interzone call stream.start
  interzone call tasks.get '{\"taskId\": \"…\"}'
  interzone call tasks.create @params.json
  interzone call --notify task.notification - < params.json")]
pub(crate) struct Call {
    /// Method name
    method: String,

    /// Params as JSON, @FILE to read them from a file, or - for standard input
    params: Option<String>,

    /// Send a notification, which has no response
    #[arg(long)]
    notify: bool,

    #[command(flatten)]
    connect: ConnectOptions,
}

impl Call {
    pub(crate) async fn run(&self) -> Result<Exit, Failure> {
        let params = self.params()?;
        let client = self.connect.resolve()?.client()?;
        if self.notify {
            client.notify(&self.method, &params).await?;
            return Ok(Exit::Done);
        }
        let result = client.call_raw(&self.method, &params).await?;
        output::write(|out| {
            output::write_raw_json(out, result.as_str())?;
            writeln!(out)
        })?;
        Ok(Exit::Done)
    }

    fn params(&self) -> Result<VerbatimJson, Failure> {
        let text = match self.params.as_deref() {
            None => "{}".to_owned(),
            Some(text) if text == "-" || text.starts_with('@') => {
                let input = Input::from(OsStr::new(text.strip_prefix('@').unwrap_or(text)));
                String::from_utf8(input.read()?)
                    .map_err(|_| Failure::Misuse("params are not valid UTF-8".to_owned()))?
            }
            Some(text) => text.to_owned(),
        };
        VerbatimJson::parse(text).map_err(|_| {
            Failure::Misuse(
                "params are not valid JSON; pass an object, such as '{\"taskId\": \"…\"}'"
                    .to_owned(),
            )
        })
    }
}
