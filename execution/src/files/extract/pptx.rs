//! The text of slides: each with its number, in the order in which they are shown, then its notes.

use super::Out;
use super::office::Package;
use super::xml::{Node, paragraphs, walk};
use crate::files::Problem;

/// What of a slide is not its text: the same once more for older programs, how paragraphs look, and
/// fields, which hold what changes by itself, such as the number of the slide.
const SKIPPED: [&str; 3] = ["Fallback", "pPr", "fld"];

pub(super) fn read(package: &mut Package<'_>, out: &mut Out) -> Result<(), Problem> {
    let slides = slides(package)?;
    for (number, slide) in (1_usize..).zip(slides) {
        if out.is_full() {
            break;
        }
        let Some(part) = package.part(&slide)? else {
            continue;
        };
        let title = format!("[Slide {number}]");
        out.section(&title, |out| paragraphs(&part, &SKIPPED, out))?;
        let relations = package.relations(&slide)?;
        let notes = relations
            .values()
            .find(|relation| relation.kind.ends_with("/notesSlide"));
        if let Some(notes) = notes
            && let Some(part) = package.part(&notes.target)?
        {
            let title = format!("[Notes of slide {number}]");
            out.section(&title, |out| paragraphs(&part, &SKIPPED, out))?;
        }
    }
    Ok(())
}

/// The slides in their order, as the presentation tells it.
fn slides(package: &mut Package<'_>) -> Result<Vec<String>, Problem> {
    let presentation = package.main_part("ppt/presentation.xml")?;
    let relations = package.relations("ppt/presentation.xml")?;
    let mut slides = Vec::new();
    walk(&presentation, |node| {
        if let Node::Start(element) = node
            && element.name() == "sldId"
            && let Some(id) = element.relation()
            && let Some(relation) = relations.get(&id)
        {
            slides.push(relation.target.clone());
        }
        Ok(true)
    })?;
    Ok(slides)
}
