//! What goes along with a call, as a form. What it means is for the method to know.

use std::borrow::Cow;
use url::form_urlencoded;

/// The arguments of a call.
#[derive(Clone, Debug, Default)]
pub struct Args<'a>(Vec<(&'static str, Cow<'a, str>)>);

impl<'a> Args<'a> {
    /// None yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Into<Cow<'a, str>>) -> Self {
        self.0.push((name, value.into()));
        self
    }

    /// Adds one if it is there.
    #[must_use]
    pub fn maybe(self, name: &'static str, value: Option<impl Into<Cow<'a, str>>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Adds JSON, which Slack takes as text in a form.
    #[must_use]
    pub fn json(self, name: &'static str, value: Option<&serde_json::Value>) -> Self {
        self.maybe(name, value.map(serde_json::Value::to_string))
    }

    /// The channel that it is about: Slack counts calls by it.
    pub(super) fn channel(&self) -> &str {
        let mut named = self.0.iter();
        named
            .find(|(name, _)| matches!(*name, "channel" | "channel_id"))
            .map_or("", |(_, value)| value)
    }

    pub(super) fn form(&self) -> String {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.extend_pairs(self.0.iter());
        form.finish()
    }
}
