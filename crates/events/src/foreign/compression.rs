//! Compressed files, recognised by their first bytes.

use std::io::{self, BufRead, BufReader, Cursor, Read};

/// Bytes of decompressed text read at a time.
const BUFFER: usize = 1 << 17;

/// Reader of a file's contents, decompressed.
pub type Contents = Box<dyn BufRead + Send>;

/// Reads `input`, decompressed if it is a gzip, xz, bzip2 or zstd file. Files of several members
/// one after the other are read through.
pub fn decompress(mut input: impl BufRead + Send + 'static) -> io::Result<Contents> {
    let start = input.fill_buf()?;
    // With the only method there is (RFC 1952, 2.3.1): two bytes alone begin other files, too.
    let (kind, reader): (_, Box<dyn Read + Send>) = if start.starts_with(b"\x1f\x8b\x08") {
        (
            "gzip",
            Box::new(flate2::bufread::MultiGzDecoder::new(input)),
        )
    } else if start.starts_with(b"\xfd7zXZ\0") {
        let reader = liblzma::bufread::XzDecoder::new_multi_decoder(input);
        ("xz", Box::new(reader))
    } else if start.starts_with(b"BZh") {
        (
            "bzip2",
            Box::new(bzip2::bufread::MultiBzDecoder::new(input)),
        )
    } else if start.starts_with(b"\x28\xb5\x2f\xfd") {
        let reader = zstd::stream::read::Decoder::with_buffer(input)?;
        ("zstd", Box::new(reader))
    } else {
        return Ok(Box::new(input));
    };
    let named = Named {
        reader,
        kind,
        failed: None,
    };
    Ok(Box::new(BufReader::with_capacity(BUFFER, named)))
}

/// A decompressor whose errors say what they are about, and which goes on failing once it has
/// failed: some decompressors report the end of the data after an error.
struct Named {
    reader: Box<dyn Read + Send>,
    kind: &'static str,
    failed: Option<io::ErrorKind>,
}

impl Named {
    fn error(&self, kind: io::ErrorKind, detail: &str) -> io::Error {
        let what = match kind {
            io::ErrorKind::UnexpectedEof => {
                format!("the {} data end early; the file was cut off", self.kind)
            }
            _ => format!("the {} data are damaged{detail}", self.kind),
        };
        io::Error::new(kind, what)
    }
}

impl Read for Named {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if let Some(kind) = self.failed {
            return Err(self.error(kind, ""));
        }
        self.reader.read(buffer).map_err(|error| {
            if error.kind() == io::ErrorKind::Interrupted {
                return error;
            }
            self.failed = Some(error.kind());
            self.error(error.kind(), &format!(" ({error})"))
        })
    }
}

/// The first bytes of `input`, and all of it again.
///
/// # Errors
/// When not one byte can be read. A later error comes again where it belongs: after the bytes
/// before it.
pub fn peek(mut input: Contents, bytes: u64) -> io::Result<(Vec<u8>, Contents)> {
    let mut head = Vec::new();
    if let Err(error) = input.by_ref().take(bytes).read_to_end(&mut head)
        && head.is_empty()
    {
        return Err(error);
    }
    let all = Cursor::new(head.clone()).chain(input);
    Ok((head, Box::new(all)))
}
