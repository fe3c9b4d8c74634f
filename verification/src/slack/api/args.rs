//! Form arguments of a Web API call.

use std::borrow::Cow;
use url::form_urlencoded;

/// Arguments of a call.
#[derive(Clone, Debug, Default)]
pub struct SlackArgs<'a>(Vec<(&'static str, Cow<'a, str>)>);

impl<'a> SlackArgs<'a> {
    /// Creates an empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, name: &'static str, value: impl Into<Cow<'a, str>>) -> Self {
        self.0.push((name, value.into()));
        self
    }

    /// Adds an argument if it is present.
    #[must_use]
    pub fn optional_arg(self, name: &'static str, value: Option<impl Into<Cow<'a, str>>>) -> Self {
        match value {
            Some(value) => self.arg(name, value),
            None => self,
        }
    }

    /// Adds an argument serialized as JSON.
    #[must_use]
    pub fn json_arg(self, name: &'static str, value: Option<&serde_json::Value>) -> Self {
        self.optional_arg(name, value.map(serde_json::Value::to_string))
    }

    /// Returns the channel argument, which is part of the rate limit key.
    pub(super) fn channel(&self) -> &str {
        let mut args = self.0.iter();
        args.find(|(name, _)| matches!(*name, "channel" | "channel_id"))
            .map_or("", |(_, value)| value)
    }

    pub(super) fn encode(&self) -> String {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(self.0.iter());
        form.finish()
    }
}
