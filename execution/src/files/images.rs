//! Image validation: signature and completeness. Nothing is decoded; the segments are walked to the end, so that a
//! header alone or a truncated image is detected.

use super::{FileKind, FileProblem};

/// Detects the image format by its signature.
pub(super) fn sniff_format(bytes: &[u8]) -> Option<FileKind> {
    if bytes.len() < 12 {
        None
    } else if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        Some(FileKind::Png)
    } else if bytes.starts_with(b"\xff\xd8\xff") {
        Some(FileKind::Jpeg)
    } else if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
        Some(FileKind::Gif)
    } else if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        Some(FileKind::WebP)
    } else {
        None
    }
}

/// Checks that an image is complete.
///
/// # Errors
/// It is truncated, or contains no image data.
pub(super) fn validate(kind: FileKind, bytes: &[u8]) -> Result<(), FileProblem> {
    let mut cursor = ImageCursor { bytes, position: 0 };
    let complete = match kind {
        FileKind::Png => png(&mut cursor),
        FileKind::Jpeg => jpeg(&mut cursor),
        FileKind::Gif => gif(&mut cursor),
        FileKind::WebP => webp(&mut cursor),
        _ => Some(()),
    };
    complete.ok_or(FileProblem::Damaged)
}

/// Cursor over bytes that never leaves them. Each step goes forward, so it terminates.
struct ImageCursor<'b> {
    bytes: &'b [u8],
    position: usize,
}

impl<'b> ImageCursor<'b> {
    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let end = self.position.checked_add(count)?;
        let taken = self.bytes.get(self.position..end)?;
        self.position = end;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn fixed<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn skip(&mut self, count: u32) -> Option<()> {
        self.take(usize::try_from(count).ok()?).map(|_| ())
    }
}

/// Walks PNG chunks: the header, at least one with image data, the end. Bytes after the end are ignored.
fn png(cursor: &mut ImageCursor<'_>) -> Option<()> {
    cursor.take(8)?;
    let (mut first, mut has_data) = (true, false);
    loop {
        let length = u32::from_be_bytes(cursor.fixed()?);
        let name: [u8; 4] = cursor.fixed()?;
        match (&name, first) {
            (b"IHDR", true) => {
                let header: [u8; 13] = cursor.fixed::<13>().filter(|_| length == 13)?;
                let [a, b, c, d, e, f, g, h, ..] = header;
                require_nonzero_size(
                    u32::from_be_bytes([a, b, c, d]),
                    u32::from_be_bytes([e, f, g, h]),
                )?;
            }
            (_, true) => return None,
            (name, false) => {
                has_data |= name == b"IDAT" && length > 0;
                cursor.skip(length)?;
            }
        }
        // The checksum.
        cursor.take(4)?;
        first = false;
        if &name == b"IEND" {
            return has_data.then_some(());
        }
    }
}

/// Walks JPEG segments up to the scans, of which at least one must exist, then the end.
fn jpeg(cursor: &mut ImageCursor<'_>) -> Option<()> {
    cursor.take(2)?;
    let (mut has_frame, mut has_scan) = (false, false);
    loop {
        // A marker may be preceded by any number of fill bytes.
        (cursor.byte()? == 0xff).then_some(())?;
        let mut marker = cursor.byte()?;
        while marker == 0xff {
            marker = cursor.byte()?;
        }
        match marker {
            0xd9 => return (has_frame && has_scan).then_some(()),
            // Standalone markers.
            0x01 | 0xd0..=0xd7 => continue,
            0x00 | 0xd8 => return None,
            _ => {}
        }
        let length = u16::from_be_bytes(cursor.fixed()?).checked_sub(2)?;
        let segment = cursor.take(usize::from(length))?;
        // Frame headers of any compression.
        if matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc) {
            let [_, _, _, wide, width] = *segment.first_chunk::<5>()?;
            (wide > 0 || width > 0).then_some(())?;
            has_frame = true;
        }
        if marker == 0xda {
            has_scan = true;
            skip_scan(cursor)?;
        }
    }
}

/// Advances to the next marker after a scan. Within a scan, 0xff is followed by zero or is a restart marker.
fn skip_scan(cursor: &mut ImageCursor<'_>) -> Option<()> {
    loop {
        let rest = cursor.bytes.get(cursor.position..)?;
        cursor.position += rest.iter().position(|byte| *byte == 0xff)?;
        match cursor.bytes.get(cursor.position + 1)? {
            0x00 | 0xd0..=0xd7 => cursor.position += 2,
            _ => return Some(()),
        }
    }
}

/// Walks GIF blocks up to the trailer; at least one must be an image.
fn gif(cursor: &mut ImageCursor<'_>) -> Option<()> {
    cursor.take(6)?;
    let [_, _, _, _, packed, _, _] = cursor.fixed::<7>()?;
    skip_color_table(cursor, packed)?;
    let mut has_image = false;
    loop {
        match cursor.byte()? {
            0x3b => return has_image.then_some(()),
            0x21 => {
                cursor.byte()?;
                skip_sub_blocks(cursor)?;
            }
            0x2c => {
                let [_, _, _, _, _, _, _, _, packed] = cursor.fixed::<9>()?;
                skip_color_table(cursor, packed)?;
                cursor.byte()?;
                has_image |= skip_sub_blocks(cursor)? > 0;
            }
            _ => return None,
        }
    }
}

/// Skips a color table, if there is one.
fn skip_color_table(cursor: &mut ImageCursor<'_>, packed: u8) -> Option<()> {
    if packed & 0x80 == 0 {
        return Some(());
    }
    cursor.skip(3 << ((packed & 0x07) + 1))
}

/// Skips length-prefixed blocks up to the empty one, and returns their total size.
fn skip_sub_blocks(cursor: &mut ImageCursor<'_>) -> Option<usize> {
    let mut bytes = 0;
    loop {
        match cursor.byte()? {
            0 => return Some(bytes),
            length => bytes += cursor.take(usize::from(length))?.len(),
        }
    }
}

/// Walks WebP chunks to the end of the container; one must contain an image.
fn webp(cursor: &mut ImageCursor<'_>) -> Option<()> {
    cursor.take(4)?;
    let size = usize::try_from(u32::from_le_bytes(cursor.fixed()?)).ok()?;
    // The container must be complete.
    cursor.bytes = cursor.bytes.get(..size.checked_add(8)?)?;
    cursor.take(4)?;
    let mut has_image = false;
    while cursor.position < cursor.bytes.len() {
        let name: [u8; 4] = cursor.fixed()?;
        let length = u32::from_le_bytes(cursor.fixed()?);
        cursor.skip(length)?;
        has_image |= matches!(&name, b"VP8 " | b"VP8L" | b"ANMF") && length > 0;
        if length % 2 == 1 && cursor.position < cursor.bytes.len() {
            cursor.byte()?;
        }
    }
    has_image.then_some(())
}

fn require_nonzero_size(width: u32, height: u32) -> Option<()> {
    (width > 0 && height > 0).then_some(())
}
