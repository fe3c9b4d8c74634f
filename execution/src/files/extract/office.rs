//! Office documents as packages: zip archives whose parts are unpacked one at a time and counted.
//!
//! What an archive says of the sizes of its parts is not believed. Archives within archives stay shut.

use super::xml::{Node, walk};
use crate::files::{InputRules, Kind, Problem};
use std::collections::HashMap;
use std::io::{Cursor, Read};
use zip::ZipArchive;

/// Below this a part may be packed as tightly as it likes.
const SMALL: u64 = 1024 * 1024;

/// How much is unpacked between two looks at the count.
const STEP: usize = 64 * 1024;

/// An Office document.
pub(in crate::files) struct Package<'a> {
    zip: ZipArchive<Cursor<&'a [u8]>>,
    /// Bytes that may still be unpacked.
    left: u64,
    ratio: u64,
}

impl<'a> Package<'a> {
    /// Opens an archive, and unpacks nothing.
    pub(in crate::files) fn open(bytes: &'a [u8], rules: &InputRules) -> Result<Self, Problem> {
        let mut zip = ZipArchive::new(Cursor::new(bytes)).map_err(|_| Problem::Damaged)?;
        if zip.len() > rules.entries {
            return Err(Problem::Bomb);
        }
        // Readers would differ about which of two parts with one name counts.
        if zip.has_duplicate_names() {
            return Err(Problem::Damaged);
        }
        for index in 0..zip.len() {
            let entry = zip.by_index_raw(index).map_err(|_| Problem::Damaged)?;
            if entry.encrypted() {
                return Err(Problem::Encrypted);
            }
        }
        Ok(Self {
            zip,
            left: rules.unpacked_bytes,
            ratio: rules.unpacked_ratio,
        })
    }

    /// What kind of document it is, by its main part; nothing if it is none.
    pub(in crate::files) fn kind(&self) -> Option<Kind> {
        let has = |name: &str| self.zip.index_for_name(name).is_some();
        let kinds = [
            ("word/document.xml", Kind::Docx),
            ("xl/workbook.xml", Kind::Xlsx),
            ("ppt/presentation.xml", Kind::Pptx),
        ];
        let mut found = kinds.iter().filter(|(part, _)| has(part));
        let (_, kind) = found.next()?;
        // Whoever is two things at once is none.
        (has("[Content_Types].xml") && found.next().is_none()).then_some(*kind)
    }

    /// Whether there are programs in it.
    pub(in crate::files) fn has_macros(&self) -> bool {
        let mut names = self.zip.file_names().flatten();
        names.any(|name| name.to_ascii_lowercase().ends_with("vbaproject.bin"))
    }

    /// Unpacks everything into nowhere, to see how much it is.
    pub(in crate::files) fn measure(&mut self) -> Result<(), Problem> {
        for index in 0..self.zip.len() {
            self.unpack(index, |_| {})?;
        }
        Ok(())
    }

    /// A part of the document that is XML; nothing if there is no such part.
    pub(super) fn part(&mut self, name: &str) -> Result<Option<String>, Problem> {
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
            None => String::from_utf8(bytes).map_err(|_| Problem::Damaged)?,
        };
        Ok(Some(text))
    }

    /// A part that must be there.
    pub(super) fn main_part(&mut self, name: &str) -> Result<String, Problem> {
        self.part(name)?.ok_or(Problem::Damaged)
    }

    fn unpack(&mut self, index: usize, mut take: impl FnMut(&[u8])) -> Result<(), Problem> {
        let mut entry = self.zip.by_index(index).map_err(|_| Problem::Damaged)?;
        let packed = entry.compressed_size();
        let most = packed.saturating_mul(self.ratio).max(SMALL);
        let mut buffer = vec![0; STEP];
        let mut count: u64 = 0;
        loop {
            let read = match entry.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(read) => read,
                Err(_) => return Err(Problem::Damaged),
            };
            count += u64::try_from(read).unwrap_or(u64::MAX);
            self.left = self
                .left
                .checked_sub(u64::try_from(read).unwrap_or(u64::MAX))
                .ok_or(Problem::Bomb)?;
            if count > most {
                return Err(Problem::Bomb);
            }
            take(buffer.get(..read).unwrap_or_default());
        }
    }

    /// What the relations of a part lead to: the target by id, with its type. Targets outside of the
    /// document are left out.
    pub(super) fn relations(&mut self, part: &str) -> Result<HashMap<String, Relation>, Problem> {
        let (folder, name) = part.rsplit_once('/').unwrap_or(("", part));
        let mut found = HashMap::new();
        let Some(document) = self.part(&format!("{folder}/_rels/{name}.rels"))? else {
            return Ok(found);
        };
        walk(&document, |node| {
            if let Node::Start(element) = node
                && element.name() == "Relationship"
                && element.attribute("TargetMode").as_deref() != Some("External")
                && let (Some(id), Some(target)) =
                    (element.attribute("Id"), element.attribute("Target"))
            {
                let kind = element.attribute("Type").unwrap_or_default();
                let target = resolved(folder, &target);
                found.insert(id, Relation { kind, target });
            }
            Ok(true)
        })?;
        Ok(found)
    }
}

/// Where a relation leads.
pub(super) struct Relation {
    /// Its type, a URL whose last segment tells.
    pub(super) kind: String,
    /// The name of the part.
    pub(super) target: String,
}

/// The name of a part, as another part in this folder spells it.
fn resolved(folder: &str, target: &str) -> String {
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
