//! The tools that building libjpeg-turbo needs, and the message if one is missing.
//!
//! The build script of this crate prints the message. Cargo runs a build script the earlier the
//! more is built after it. So this crate is built before the build script of `gular-codec`, which
//! exists only for that: that makes two more steps than libjpeg-turbo has after it, whose own build
//! fails with a page that names neither the tool nor what to do.

#![forbid(unsafe_code)]

/// Returns the lines of the message about missing tools; empty if all tools were found.
///
/// `arch` is the target architecture, as cargo names it; `has` says whether a program is found.
#[must_use]
pub fn missing(arch: &str, has: impl Fn(&str) -> bool) -> Vec<String> {
    let mut tools = Vec::new();
    if !has("cmake") {
        tools.push("cmake");
    }
    if !has("make") && !has("gmake") {
        tools.push("make");
    }
    // Only for these architectures is the vector code written for this assembler.
    if matches!(arch, "x86" | "x86_64") && !has("nasm") && !has("yasm") {
        tools.push("nasm");
    }
    if tools.is_empty() {
        return Vec::new();
    }
    let names = tools.join(if tools.len() > 2 { ", " } else { " and " });
    let packages = tools.join(" ");
    let (is, it) = if tools.len() > 1 { ("are", "them") } else { ("is", "it") };
    vec![
        format!("{names} {is} needed to build libjpeg-turbo and not in PATH"),
        format!(
            "install {it}: `sudo apt-get install {packages}`, `sudo dnf install {packages}` or \
             `conda install -c conda-forge {packages}`"
        ),
        format!(
            "or without root, in a clone of Gular: `eval \"$(cargo xtask setup)\"` downloads {it}"
        ),
        "or build with `--no-default-features`: zune-jpeg then decodes JPEG, always whole \
         pictures at full size, so that crops and large photographs load slower, and pixels \
         differ by a few levels"
            .to_owned(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_both_ways_out() {
        let check = |arch, here: &[&str], expected: Option<&str>| {
            let lines = missing(arch, |program| here.contains(&program));
            assert_eq!(lines.first().map(String::as_str), expected);
            let Some(expected) = expected else { return assert!(lines.is_empty()) };
            for tool in ["cmake", "make", "nasm"] {
                let named = |line: &str| line.split([' ', ',', '`']).any(|word| word == tool);
                assert_eq!(named(&lines[1]), named(expected), "{lines:?}");
            }
            assert!(lines[2].contains("`eval "));
            assert!(lines[3].contains("`--no-default-features`"));
        };
        let only = |name| Some(format!("{name} needed to build libjpeg-turbo and not in PATH"));
        check("x86_64", &["cmake", "make", "nasm"], None);
        check("x86_64", &["cmake", "gmake", "yasm"], None);
        check("aarch64", &["cmake", "make"], None);
        check("x86_64", &["cmake", "make"], only("nasm is").as_deref());
        check("x86_64", &["make", "nasm"], only("cmake is").as_deref());
        check("x86_64", &["cmake", "nasm"], only("make is").as_deref());
        check("x86_64", &["make"], only("cmake and nasm are").as_deref());
        check("x86_64", &[], only("cmake, make, nasm are").as_deref());
        check("aarch64", &["make"], only("cmake is").as_deref());
    }
}
