//! Pictures: what their first bytes say, and whether the rest is there. Nothing is decoded; their pieces
//! are walked from end to end, so that a header alone, or a picture that broke off, is told from a whole
//! one.

use super::{Kind, Problem};

/// The picture that begins like this.
pub(super) fn begins_as(bytes: &[u8]) -> Option<Kind> {
    if bytes.len() < 12 {
        None
    } else if bytes.starts_with(b"\x89PNG\r\n\x1a\n") {
        Some(Kind::Png)
    } else if bytes.starts_with(b"\xff\xd8\xff") {
        Some(Kind::Jpeg)
    } else if bytes.starts_with(b"GIF87a") || bytes.starts_with(b"GIF89a") {
        Some(Kind::Gif)
    } else if bytes.starts_with(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        Some(Kind::WebP)
    } else {
        None
    }
}

/// Whether a picture that begins as one goes on as one, to its end.
///
/// # Errors
/// It breaks off, or shows nothing.
pub(super) fn check(kind: Kind, bytes: &[u8]) -> Result<(), Problem> {
    let mut walk = Walk { bytes, at: 0 };
    let whole = match kind {
        Kind::Png => png(&mut walk),
        Kind::Jpeg => jpeg(&mut walk),
        Kind::Gif => gif(&mut walk),
        Kind::WebP => webp(&mut walk),
        _ => Some(()),
    };
    whole.ok_or(Problem::Damaged)
}

/// A walk through bytes that never leaves them. Each step goes forward, so it ends.
struct Walk<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Walk<'b> {
    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let end = self.at.checked_add(count)?;
        let taken = self.bytes.get(self.at..end)?;
        self.at = end;
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

/// Chunks: the header, at least one with the picture, the end. What follows the end is nobody's business.
fn png(walk: &mut Walk<'_>) -> Option<()> {
    walk.take(8)?;
    let (mut first, mut shows) = (true, false);
    loop {
        let length = u32::from_be_bytes(walk.fixed()?);
        let name: [u8; 4] = walk.fixed()?;
        match (&name, first) {
            (b"IHDR", true) => {
                let header: [u8; 13] = walk.fixed::<13>().filter(|_| length == 13)?;
                let [a, b, c, d, e, f, g, h, ..] = header;
                is_some_size(
                    u32::from_be_bytes([a, b, c, d]),
                    u32::from_be_bytes([e, f, g, h]),
                )?;
            }
            (_, true) => return None,
            (name, false) => {
                shows |= name == b"IDAT" && length > 0;
                walk.skip(length)?;
            }
        }
        // The checksum.
        walk.take(4)?;
        first = false;
        if &name == b"IEND" {
            return shows.then_some(());
        }
    }
}

/// Segments up to the scans, of which at least one is there, then the end.
fn jpeg(walk: &mut Walk<'_>) -> Option<()> {
    walk.take(2)?;
    let (mut framed, mut shows) = (false, false);
    loop {
        // A marker may have any number of bytes in front of it that only fill.
        (walk.byte()? == 0xff).then_some(())?;
        let mut marker = walk.byte()?;
        while marker == 0xff {
            marker = walk.byte()?;
        }
        match marker {
            0xd9 => return (framed && shows).then_some(()),
            // Those that stand alone.
            0x01 | 0xd0..=0xd7 => continue,
            0x00 | 0xd8 => return None,
            _ => {}
        }
        let length = u16::from_be_bytes(walk.fixed()?).checked_sub(2)?;
        let segment = walk.take(usize::from(length))?;
        // Frames, of whichever way of packing.
        if matches!(marker, 0xc0..=0xcf) && !matches!(marker, 0xc4 | 0xc8 | 0xcc) {
            let [_, _, _, wide, width] = *segment.first_chunk::<5>()?;
            (wide > 0 || width > 0).then_some(())?;
            framed = true;
        }
        if marker == 0xda {
            shows = true;
            until_marker(walk)?;
        }
    }
}

/// Goes on to the next marker after a scan. In the scan, 0xff is followed by zero or counts restarts.
fn until_marker(walk: &mut Walk<'_>) -> Option<()> {
    loop {
        let rest = walk.bytes.get(walk.at..)?;
        walk.at += rest.iter().position(|byte| *byte == 0xff)?;
        match walk.bytes.get(walk.at + 1)? {
            0x00 | 0xd0..=0xd7 => walk.at += 2,
            _ => return Some(()),
        }
    }
}

/// Blocks up to the trailer, at least one of them a picture.
fn gif(walk: &mut Walk<'_>) -> Option<()> {
    walk.take(6)?;
    let [_, _, _, _, packed, _, _] = walk.fixed::<7>()?;
    colors(walk, packed)?;
    let mut shows = false;
    loop {
        match walk.byte()? {
            0x3b => return shows.then_some(()),
            0x21 => {
                walk.byte()?;
                sub_blocks(walk)?;
            }
            0x2c => {
                let [_, _, _, _, _, _, _, _, packed] = walk.fixed::<9>()?;
                colors(walk, packed)?;
                walk.byte()?;
                shows |= sub_blocks(walk)? > 0;
            }
            _ => return None,
        }
    }
}

/// A table of colours, if there is one.
fn colors(walk: &mut Walk<'_>, packed: u8) -> Option<()> {
    if packed & 0x80 == 0 {
        return Some(());
    }
    walk.skip(3 << ((packed & 0x07) + 1))
}

/// How many bytes there are in blocks that each say how long they are, up to the one of no length.
fn sub_blocks(walk: &mut Walk<'_>) -> Option<usize> {
    let mut bytes = 0;
    loop {
        match walk.byte()? {
            0 => return Some(bytes),
            length => bytes += walk.take(usize::from(length))?.len(),
        }
    }
}

/// Chunks that fill the container, one of them with a picture.
fn webp(walk: &mut Walk<'_>) -> Option<()> {
    walk.take(4)?;
    let size = usize::try_from(u32::from_le_bytes(walk.fixed()?)).ok()?;
    // All that the container says that it holds must be there.
    walk.bytes = walk.bytes.get(..size.checked_add(8)?)?;
    walk.take(4)?;
    let mut shows = false;
    while walk.at < walk.bytes.len() {
        let name: [u8; 4] = walk.fixed()?;
        let length = u32::from_le_bytes(walk.fixed()?);
        walk.skip(length)?;
        shows |= matches!(&name, b"VP8 " | b"VP8L" | b"ANMF") && length > 0;
        if length % 2 == 1 && walk.at < walk.bytes.len() {
            walk.byte()?;
        }
    }
    shows.then_some(())
}

fn is_some_size(width: u32, height: u32) -> Option<()> {
    (width > 0 && height > 0).then_some(())
}
