//! Office documents as packages: zip archives whose parts are unpacked one at a time, with limits.
//!
//! Sizes declared in the archive are not trusted. Nested archives are not opened.

use super::xml::{XmlNode, walk};
use crate::files::{FileKind, FileProblem, InputRules};
use std::collections::HashMap;
use std::io::{Cursor, Read};
use zip::ZipArchive;

/// Parts up to this unpacked size are exempt from the limit on the compression ratio.
const RATIO_EXEMPT_BYTES: u64 = 1024 * 1024;

/// Unpack buffer size; the limits are checked after each buffer.
const UNPACK_BUFFER_BYTES: usize = 64 * 1024;

/// An Office document.
pub(in crate::files) struct OfficePackage<'a> {
    zip: ZipArchive<Cursor<&'a [u8]>>,
    /// Bytes that may still be unpacked.
    remaining: u64,
    ratio: u64,
}

impl<'a> OfficePackage<'a> {
    /// Opens an archive without unpacking anything.
    pub(in crate::files) fn open(bytes: &'a [u8], rules: &InputRules) -> Result<Self, FileProblem> {
        let mut zip = ZipArchive::new(Cursor::new(bytes)).map_err(|_| FileProblem::Damaged)?;
        if zip.len() > rules.entries {
            return Err(FileProblem::Bomb);
        }
        // Readers differ about which of two parts with the same name counts.
        if zip.has_duplicate_names() {
            return Err(FileProblem::Damaged);
        }
        for index in 0..zip.len() {
            let entry = zip.by_index_raw(index).map_err(|_| FileProblem::Damaged)?;
            if entry.encrypted() {
                return Err(FileProblem::Encrypted);
            }
        }
        Ok(Self {
            zip,
            remaining: rules.unpacked_bytes,
            ratio: rules.unpacked_ratio,
        })
    }

    /// Returns the kind of document by its main part, or `None` if it is not one.
    pub(in crate::files) fn kind(&self) -> Option<FileKind> {
        let has = |name: &str| self.zip.index_for_name(name).is_some();
        let kinds = [
            ("word/document.xml", FileKind::Docx),
            ("xl/workbook.xml", FileKind::Xlsx),
            ("ppt/presentation.xml", FileKind::Pptx),
        ];
        let mut found = kinds.iter().filter(|(part, _)| has(part));
        let (_, kind) = found.next()?;
        // A package with two main parts is ambiguous.
        (has("[Content_Types].xml") && found.next().is_none()).then_some(*kind)
    }

    /// Returns true if it contains macros.
    pub(in crate::files) fn has_macros(&self) -> bool {
        let mut names = self.zip.file_names().flatten();
        names.any(|name| name.to_ascii_lowercase().ends_with("vbaproject.bin"))
    }

    /// Unpacks everything without storing it, to enforce the limits.
    pub(in crate::files) fn check_unpacked_size(&mut self) -> Result<(), FileProblem> {
        for index in 0..self.zip.len() {
            self.unpack(index, |_| {})?;
        }
        Ok(())
    }

    /// Returns an XML part of the document, or `None` if there is no such part.
    pub(super) fn part(&mut self, name: &str) -> Result<Option<String>, FileProblem> {
        let Some(index) = self.zip.index_for_name(name) else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        self.unpack(index, |step| bytes.extend_from_slice(step))?;
        let text = match encoding_rs::Encoding::for_bom(&bytes) {
            Some((encoding, mark)) => {
                let rest = bytes.get(mark..).unwrap_or_default();
                encoding.decode_without_bom_handling(rest).0.into_owned()
            }
            None => String::from_utf8(bytes).map_err(|_| FileProblem::Damaged)?,
        };
        Ok(Some(text))
    }

    /// Returns a part that must exist.
    pub(super) fn required_part(&mut self, name: &str) -> Result<String, FileProblem> {
        self.part(name)?.ok_or(FileProblem::Damaged)
    }

    fn unpack(&mut self, index: usize, mut consume: impl FnMut(&[u8])) -> Result<(), FileProblem> {
        let mut entry = self.zip.by_index(index).map_err(|_| FileProblem::Damaged)?;
        let packed = entry.compressed_size();
        let max = packed.saturating_mul(self.ratio).max(RATIO_EXEMPT_BYTES);
        let mut buffer = vec![0; UNPACK_BUFFER_BYTES];
        let mut count: u64 = 0;
        loop {
            let read = match entry.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(read) => read,
                Err(_) => return Err(FileProblem::Damaged),
            };
            count += u64::try_from(read).unwrap_or(u64::MAX);
            self.remaining = self
                .remaining
                .checked_sub(u64::try_from(read).unwrap_or(u64::MAX))
                .ok_or(FileProblem::Bomb)?;
            if count > max {
                return Err(FileProblem::Bomb);
            }
            consume(buffer.get(..read).unwrap_or_default());
        }
    }

    /// Returns the relationships of a part by id. Targets outside of the document are omitted.
    pub(super) fn relationships(
        &mut self,
        part: &str,
    ) -> Result<HashMap<String, Relationship>, FileProblem> {
        let (folder, name) = part.rsplit_once('/').unwrap_or(("", part));
        let mut found = HashMap::new();
        let Some(document) = self.part(&format!("{folder}/_rels/{name}.rels"))? else {
            return Ok(found);
        };
        walk(&document, |node| {
            if let XmlNode::Start(element) = node
                && element.name() == "Relationship"
                && element.attribute("TargetMode").as_deref() != Some("External")
                && let (Some(id), Some(target)) =
                    (element.attribute("Id"), element.attribute("Target"))
            {
                let kind = element.attribute("Type").unwrap_or_default();
                let target = resolve_target(folder, &target);
                found.insert(id, Relationship { kind, target });
            }
            Ok(true)
        })?;
        Ok(found)
    }
}

/// A relationship of a part.
pub(super) struct Relationship {
    /// Its type, a URL whose last segment identifies it.
    pub(super) kind: String,
    /// The name of the part.
    pub(super) target: String,
}

/// Resolves the name of a part relative to a folder.
fn resolve_target(folder: &str, target: &str) -> String {
    let mut path: Vec<&str> = match target.starts_with('/') {
        true => Vec::new(),
        false => folder.split('/').collect(),
    };
    for segment in target.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                path.pop();
            }
            segment => path.push(segment),
        }
    }
    path.join("/")
}
