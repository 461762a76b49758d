//! The places in an environment that name its folder.

/// A file that names the folder of its environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    /// Its path in the environment.
    pub(super) path: String,
    /// What it has instead of the folder.
    pub(super) placeholder: String,
    pub(super) is_binary: bool,
}

/// Reads the table `_prefix_records` of a `bin/conda-unpack`; `None` if there is none, or it is
/// not one.
///
/// ```text
/// _prefix_records = [
/// ('bin/tool', '/home/me/env', 'text'),
/// ('lib/libx.so', '/placeholder_placeholder', 'binary')
/// ]
/// ```
pub(super) fn places(script: &str) -> Option<Vec<Place>> {
    let start = "\n_prefix_records = [";
    let mut rest = script.split_once(start)?.1.trim_start();
    let mut places = Vec::new();
    loop {
        if rest.starts_with(']') {
            return Some(places);
        }
        rest = rest.strip_prefix('(')?.trim_start();
        let (path, after) = string(rest)?;
        let (placeholder, after) = string(comma(after)?)?;
        let (mode, after) = string(comma(after)?)?;
        let is_binary = match mode.as_str() {
            "text" => false,
            "binary" => true,
            _ => return None,
        };
        if placeholder.is_empty() {
            return None;
        }
        places.push(Place { path, placeholder, is_binary });
        rest = after.trim_start().strip_prefix(')')?.trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
}

fn comma(text: &str) -> Option<&str> {
    Some(text.trim_start().strip_prefix(',')?.trim_start())
}

/// A string as Python's `repr` writes it, and what follows.
fn string(text: &str) -> Option<(String, &str)> {
    let quote = text.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let mut value = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => match chars.next()?.1 {
                escaped @ ('\\' | '\'' | '"') => value.push(escaped),
                // Others stand for characters that no path of conda's has.
                _ => return None,
            },
            c if c == quote => return Some((value, text.get(at + 1..)?)),
            c => value.push(c),
        }
    }
    None
}

/// Writes `to` for each placeholder. In a binary, the string around it keeps its length: zero bytes
/// follow its end. `None` if the binary has no room.
pub(super) fn relocated(bytes: &[u8], place: &Place, to: &str) -> Option<Vec<u8>> {
    let (from, to) = (place.placeholder.as_bytes(), to.as_bytes());
    let shorter = from.len().checked_sub(to.len());
    let mut new = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    let finder = memchr::memmem::Finder::new(from);
    while let Some(at) = finder.find(rest) {
        new.extend_from_slice(rest.get(..at)?);
        new.extend_from_slice(to);
        rest = rest.get(at + from.len()..)?;
        if !place.is_binary {
            continue;
        }
        let mut padding = shorter?;
        // Up to the end of the string, which may have the placeholder again: a search path.
        let end = memchr::memchr(0, rest)?;
        let (mut inside, after) = rest.split_at_checked(end)?;
        while let Some(at) = finder.find(inside) {
            new.extend_from_slice(inside.get(..at)?);
            new.extend_from_slice(to);
            inside = inside.get(at + from.len()..)?;
            padding += shorter?;
        }
        new.extend_from_slice(inside);
        new.resize(new.len() + padding, 0);
        rest = after;
    }
    new.extend_from_slice(rest);
    Some(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_read_as_python_reads_it() {
        let script = "#!/usr/bin/env python\nx = 1\n\n_prefix_records = [\n('bin/a', '/old', 'text'),\n(\"lib/it's.so\", '/place\\\\x', 'binary')\n]\n";
        let place = |path: &str, placeholder: &str, is_binary| Place {
            path: path.to_owned(),
            placeholder: placeholder.to_owned(),
            is_binary,
        };
        let expected = [place("bin/a", "/old", false), place("lib/it's.so", "/place\\x", true)];
        assert_eq!(places(script).unwrap(), expected);
        assert_eq!(places("\n_prefix_records = [\n\n]\n"), Some(Vec::new()));
        for bad in
            ["", "\n_prefix_records = [('a', '', 'text')]", "\n_prefix_records = [('a', 'b', 'c')]"]
        {
            assert_eq!(places(bad), None, "{bad}");
        }
        for (at, _) in script.char_indices() {
            let _ = places(&script[..at]);
        }
    }

    #[test]
    fn places_get_the_new_folder_and_binaries_keep_their_length() {
        let text = Place { path: String::new(), placeholder: "/old".to_owned(), is_binary: false };
        let binary = Place { is_binary: true, ..text.clone() };
        let check = |bytes: &[u8], place: &Place, to: &str, expected: Option<&[u8]>| {
            assert_eq!(relocated(bytes, place, to).as_deref(), expected, "{bytes:?}");
        };
        check(b"#!/old/bin\n/old", &text, "/opt/env", Some(b"#!/opt/env/bin\n/opt/env"));
        check(b"a/old/x:/old/y\0b/old\0", &binary, "/o", Some(b"a/o/x:/o/y\0\0\0\0\0b/o\0\0\0"));
        check(b"x\0/old/a\0", &binary, "/longer", None);
        // Bytes without an end are not a string of a program.
        check(b"/old", &binary, "/o", None);
        check(b"none", &binary, "/longer", Some(b"none"));
    }
}
