//! Text of slides in presentation order, each with its number and followed by its notes.

use super::TextSink;
use super::office::OfficePackage;
use super::xml::{XmlNode, extract_paragraphs, walk};
use crate::files::FileProblem;

/// Elements that are not text: fallback copies for older programs, paragraph formatting, and fields, whose content
/// changes by itself, such as the slide number.
const SKIPPED_ELEMENTS: [&str; 3] = ["Fallback", "pPr", "fld"];

pub(super) fn extract(
    package: &mut OfficePackage<'_>,
    out: &mut TextSink,
) -> Result<(), FileProblem> {
    let slides = slide_parts(package)?;
    for (number, slide) in (1_usize..).zip(slides) {
        if out.is_full() {
            break;
        }
        let Some(part) = package.part(&slide)? else {
            continue;
        };
        let title = format!("[Slide {number}]");
        out.section(&title, |out| {
            extract_paragraphs(&part, &SKIPPED_ELEMENTS, out)
        })?;
        let relations = package.relationships(&slide)?;
        let notes = relations
            .values()
            .find(|relation| relation.kind.ends_with("/notesSlide"));
        if let Some(notes) = notes
            && let Some(part) = package.part(&notes.target)?
        {
            let title = format!("[Notes of slide {number}]");
            out.section(&title, |out| {
                extract_paragraphs(&part, &SKIPPED_ELEMENTS, out)
            })?;
        }
    }
    Ok(())
}

/// Returns the parts of the slides, in presentation order.
fn slide_parts(package: &mut OfficePackage<'_>) -> Result<Vec<String>, FileProblem> {
    let presentation = package.required_part("ppt/presentation.xml")?;
    let relations = package.relationships("ppt/presentation.xml")?;
    let mut slides = Vec::new();
    walk(&presentation, |node| {
        if let XmlNode::Start(element) = node
            && element.name() == "sldId"
            && let Some(id) = element.relationship_id()
            && let Some(relation) = relations.get(&id)
        {
            slides.push(relation.target.clone());
        }
        Ok(true)
    })?;
    Ok(slides)
}
