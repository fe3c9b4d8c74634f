//! Artifacts: outputs of an agent.

use super::extra_fields::{ExtraFields, FieldName, FieldSlot, serialize_some};
use super::json::Metadata;
use super::{ArtifactId, Part, Timestamp};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// An output of an agent: a report, a file, a table.
///
/// ```
/// use interzone_protocol::vocab::{Artifact, ArtifactId, InvalidId, Part};
///
/// let artifact = Artifact::new(ArtifactId::new("a-1")?, "report").with_part(Part::text("done"));
/// assert_eq!(artifact.parts().len(), 1);
/// # Ok::<(), InvalidId>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    artifact_id: ArtifactId,
    name: String,
    parts: Vec<Part>,
    description: Option<String>,
    created_at: Option<Timestamp>,
    created_by: Option<String>,
    version: Option<String>,
    metadata: Option<Metadata>,
    extensions: Vec<String>,
    extra: ExtraFields,
}

impl Artifact {
    /// Creates an artifact without parts.
    pub fn new(artifact_id: ArtifactId, name: impl Into<String>) -> Self {
        Self {
            artifact_id,
            name: name.into(),
            parts: Vec::new(),
            description: None,
            created_at: None,
            created_by: None,
            version: None,
            metadata: None,
            extensions: Vec::new(),
            extra: ExtraFields::default(),
        }
    }

    /// Adds a part.
    #[must_use]
    pub fn with_part(mut self, part: Part) -> Self {
        self.parts.push(part);
        self
    }

    /// Replaces the parts, for stores that offload large ones.
    #[must_use]
    pub fn with_parts(mut self, parts: Vec<Part>) -> Self {
        self.parts = parts;
        self
    }

    /// Replaces each part.
    #[must_use]
    pub fn map_parts(mut self, map: impl FnMut(Part) -> Part) -> Self {
        self.parts = self.parts.into_iter().map(map).collect();
        self
    }

    /// Sets the description.
    #[must_use]
    pub fn with_description(mut self, description: impl Into<String>) -> Self {
        self.description = Some(description.into());
        self
    }

    /// Sets the creation time.
    #[must_use]
    pub fn with_created_at(mut self, created_at: Timestamp) -> Self {
        self.created_at = Some(created_at);
        self
    }

    /// Sets the creator.
    #[must_use]
    pub fn with_created_by(mut self, created_by: impl Into<String>) -> Self {
        self.created_by = Some(created_by.into());
        self
    }

    /// Sets the version.
    #[must_use]
    pub fn with_version(mut self, version: impl Into<String>) -> Self {
        self.version = Some(version.into());
        self
    }

    /// Sets the metadata.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = Some(metadata);
        self
    }

    /// Sets the URIs of the protocol extensions that it uses.
    #[must_use]
    pub fn with_extensions(mut self, extensions: Vec<String>) -> Self {
        self.extensions = extensions;
        self
    }

    /// Replaces the extra fields.
    #[must_use]
    pub(crate) fn with_extra_fields(mut self, extra: ExtraFields) -> Self {
        self.extra = extra;
        self
    }

    /// Its id.
    pub fn artifact_id(&self) -> &ArtifactId {
        &self.artifact_id
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The parts; may be empty.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Its description.
    pub fn description(&self) -> Option<&str> {
        self.description.as_deref()
    }

    /// The creation time.
    pub fn created_at(&self) -> Option<Timestamp> {
        self.created_at
    }

    /// The creator.
    pub fn created_by(&self) -> Option<&str> {
        self.created_by.as_deref()
    }

    /// Its version.
    pub fn version(&self) -> Option<&str> {
        self.version.as_deref()
    }

    /// The metadata.
    pub fn metadata(&self) -> Option<&Metadata> {
        self.metadata.as_ref()
    }

    /// The URIs of the protocol extensions that it uses.
    pub fn extensions(&self) -> &[String] {
        &self.extensions
    }

    /// The fields that ACP callers added.
    pub fn extra(&self) -> &ExtraFields {
        &self.extra
    }
}

impl Serialize for Artifact {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("artifactId", &self.artifact_id)?;
        map.serialize_entry("name", &self.name)?;
        map.serialize_entry("parts", &self.parts)?;
        serialize_some(&mut map, "description", self.description.as_ref())?;
        serialize_some(&mut map, "createdAt", self.created_at.as_ref())?;
        serialize_some(&mut map, "createdBy", self.created_by.as_ref())?;
        serialize_some(&mut map, "version", self.version.as_ref())?;
        serialize_some(&mut map, "metadata", self.metadata.as_ref())?;
        let extensions = Some(&self.extensions).filter(|uris| !uris.is_empty());
        serialize_some(&mut map, "extensions", extensions)?;
        serialize_some(&mut map, "extra", self.extra.non_empty())?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Artifact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ArtifactVisitor;
        impl<'de> Visitor<'de> for ArtifactVisitor {
            type Value = Artifact;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an artifact: an object with an `artifactId`, a `name` and `parts`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Artifact, A::Error> {
                let mut artifact_id = FieldSlot::new("artifactId");
                let mut name = FieldSlot::new("name");
                let mut parts = FieldSlot::new("parts");
                let mut description = FieldSlot::new("description");
                let mut created_at = FieldSlot::new("createdAt");
                let mut created_by = FieldSlot::new("createdBy");
                let mut version = FieldSlot::new("version");
                let mut metadata = FieldSlot::new("metadata");
                let mut extensions = FieldSlot::new("extensions");
                let mut extra = FieldSlot::<ExtraFields>::new("extra");
                let mut unknown = ExtraFields::default();
                while let Some(FieldName(key)) = map.next_key()? {
                    match &*key {
                        "artifactId" => artifact_id.fill(&mut map)?,
                        "name" => name.fill(&mut map)?,
                        "parts" => parts.fill(&mut map)?,
                        "description" => description.fill(&mut map)?,
                        "createdAt" => created_at.fill(&mut map)?,
                        "createdBy" => created_by.fill(&mut map)?,
                        "version" => version.fill(&mut map)?,
                        "metadata" => metadata.fill(&mut map)?,
                        "extensions" => extensions.fill(&mut map)?,
                        "extra" => extra.fill(&mut map)?,
                        // Programs may give them without `extra`.
                        other => unknown.read_field(other, &mut map)?,
                    }
                }
                let mut extra = extra.optional().unwrap_or_default();
                extra.append(unknown);
                Ok(Artifact {
                    artifact_id: artifact_id.required()?,
                    name: name.required()?,
                    parts: parts.required()?,
                    description: description.optional(),
                    created_at: created_at.optional(),
                    created_by: created_by.optional(),
                    version: version.optional(),
                    metadata: metadata.optional(),
                    extensions: extensions.optional().unwrap_or_default(),
                    extra,
                })
            }
        }
        deserializer.deserialize_map(ArtifactVisitor)
    }
}
