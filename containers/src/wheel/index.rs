//! One project's page of a package index: links to files.

use pep440_rs::Version;

use crate::Sha256;
use crate::package::file_name;
use crate::sif::Arch;

use super::requirement::normal;

/// A wheel that an index offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) version: Version,
    pub(crate) url: String,
    pub(crate) sha256: Sha256,
    /// Whether its author has withdrawn it (PEP 592).
    pub(crate) yanked: bool,
    tags: Tags,
}

/// The Python and the machines that a wheel is for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Tags {
    python: String,
    abi: String,
    platforms: Vec<String>,
}

impl Offer {
    /// How well the wheel suits: `None` for another machine or system. The Python matters little,
    /// since only files that do not depend on it are used.
    pub(crate) fn rank(&self, arch: Arch) -> Option<u32> {
        let machine = machine(arch);
        let suits = |tag: &String| {
            tag == "any" || tag.starts_with("manylinux") && tag.ends_with(&format!("_{machine}"))
        };
        if !self.tags.platforms.iter().any(suits) {
            return None;
        }
        let pythons = self.tags.python.split('.');
        let any = pythons.clone().any(|tag| tag == "py3");
        Some(match (self.tags.python.as_str(), self.tags.abi.as_str()) {
            ("cp311", "cp311") => 3,
            (_, "none") if any => 2,
            _ => 1,
        })
    }
}

/// The machine's name in the tags of wheels and in markers.
pub(crate) fn machine(arch: Arch) -> &'static str {
    match arch {
        Arch::Amd64 => "x86_64",
        Arch::Arm64 => "aarch64",
    }
}

/// The wheels of `project` that a page links to, each with its SHA-256. Links to
/// anything else, and those whose digest is missing, are passed over.
pub(crate) fn offers(html: &str, page: &str, project: &str) -> Vec<Offer> {
    let mut offers = Vec::new();
    for Link { url, sha256, yanked } in links(html, page) {
        let Some(name) = file_name(&url) else { continue };
        let Some(stem) = name.strip_suffix(".whl") else { continue };
        let parts: Vec<&str> = stem.split('-').collect();
        let (distribution, version, tags) = match parts.as_slice() {
            [distribution, version, tags @ ..] if matches!(tags.len(), 3 | 4) => {
                (distribution, version, tags)
            }
            _ => continue,
        };
        let [.., python, abi, platforms] = tags else { continue };
        if normal(distribution) != project {
            continue;
        }
        let Ok(version) = version.parse() else { continue };
        let tags = Tags {
            python: (*python).to_owned(),
            abi: (*abi).to_owned(),
            platforms: platforms.split('.').map(str::to_owned).collect(),
        };
        offers.push(Offer { version, url, sha256, yanked, tags });
    }
    offers
}

/// The link to an archive of sources with one of these digests: its URL and digest.
pub(crate) fn source_archive(
    html: &str,
    page: &str,
    hashes: &[Sha256],
) -> Option<(String, Sha256)> {
    let is_archive = |url: &str| {
        let name = file_name(url).unwrap_or_default();
        [".tar.gz", ".zip", ".tar.bz2"].iter().any(|end| name.ends_with(end))
    };
    let mut links = links(html, page);
    let link = links.find(|link| hashes.contains(&link.sha256) && is_archive(&link.url))?;
    Some((link.url, link.sha256))
}

/// A link of a page to a file with a known digest.
struct Link {
    url: String,
    sha256: Sha256,
    yanked: bool,
}

fn links<'a>(html: &'a str, page: &'a str) -> impl Iterator<Item = Link> + 'a {
    anchors(html).filter_map(move |attributes| {
        let attribute = |name: &str| {
            attributes.iter().find(|(there, _)| there == name).map(|(_, value)| value.as_str())
        };
        let (link, fragment) = attribute("href")?.split_once('#')?;
        let sha256 = fragment.split('&').find_map(|part| part.strip_prefix("sha256="))?;
        let sha256 = sha256.to_ascii_lowercase().parse().ok()?;
        let yanked = attribute("data-yanked").is_some();
        Some(Link { url: join(page, link)?, sha256, yanked })
    })
}

/// Attributes of each `<a …>`: names in lower case, values with their entities decoded.
fn anchors(html: &str) -> impl Iterator<Item = Vec<(String, String)>> {
    let mut rest = html;
    std::iter::from_fn(move || {
        loop {
            let at = rest.find('<')?;
            rest = rest.get(at + 1..)?;
            if let Some(comment) = rest.strip_prefix("!--") {
                rest = comment.split_once("-->")?.1;
                continue;
            }
            let name = rest.find(|c: char| c.is_whitespace() || c == '>')?;
            if !rest.get(..name)?.eq_ignore_ascii_case("a") {
                continue;
            }
            rest = rest.get(name..)?;
            let (found, after) = attributes(rest);
            rest = after;
            return Some(found);
        }
    })
}

/// The attributes up to `>`, and what comes after it.
fn attributes(mut rest: &str) -> (Vec<(String, String)>, &str) {
    let mut found = Vec::new();
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '/');
        let end = rest.find(|c: char| c.is_whitespace() || "=>/".contains(c));
        let Some(end) = end else { return (found, "") };
        let (name, after) = rest.split_at(end);
        let after = after.trim_start();
        if let Some(value) = after.strip_prefix('=') {
            let value = value.trim_start();
            let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
            let (value, after) = match quote {
                Some(quote) => match value.get(1..).and_then(|value| value.split_once(quote)) {
                    Some(parts) => parts,
                    None => return (found, ""),
                },
                None => {
                    let end = value.find(|c: char| c.is_whitespace() || c == '>');
                    value.split_at(end.unwrap_or(value.len()))
                }
            };
            found.push((name.to_ascii_lowercase(), unescape(value)));
            rest = after;
        } else {
            if !name.is_empty() {
                found.push((name.to_ascii_lowercase(), String::new()));
            }
            rest = after;
            if let Some(after) = rest.strip_prefix('>') {
                return (found, after);
            }
        }
    }
}

/// The entities that addresses and versions come with.
fn unescape(text: &str) -> String {
    let known = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&#34;", "\""),
        ("&#39;", "'"),
        ("&#43;", "+"),
        // Last, or what it makes would be decoded once more.
        ("&amp;", "&"),
    ];
    known.iter().fold(text.to_owned(), |text, (entity, c)| text.replace(entity, c))
}

/// The absolute URL of a link in a page.
fn join(page: &str, link: &str) -> Option<String> {
    if link.contains("://") {
        return Some(link.to_owned());
    }
    let (scheme, rest) = page.split_once("://")?;
    if let Some(rest) = link.strip_prefix("//") {
        return Some(format!("{scheme}://{rest}"));
    }
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    let mut segments: Vec<&str> = match link.starts_with('/') {
        true => Vec::new(),
        // The text after the last `/` is the page itself.
        false => path.rsplit_once('/').map(|(dir, _)| dir.split('/').collect()).unwrap_or_default(),
    };
    for segment in link.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            other => segments.push(other),
        }
    }
    Some(format!("{scheme}://{host}/{}", segments.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHA: &str = "7aa2f9bbc6d4595ba72138026b2074be1233186150e9292865e04b7a63b8c67a";

    fn page(links: &[&str]) -> Vec<Offer> {
        offers(&links.concat(), "https://pypi.org/simple/torch/", "torch")
    }

    #[test]
    fn links_are_read_however_they_are_written() {
        let wheel = "torch-2.7.1%2Bcu126-cp311-cp311-manylinux_2_28_x86_64.whl";
        for link in [
            format!(
                "<a href=\"https://f.example/p/{wheel}#sha256={SHA}\" data-requires-python=\"&gt;=3.9\">x</a>"
            ),
            format!("<A\n data-x  HREF = '../../p/{wheel}#md5=0&amp;sha256={SHA}'>"),
            format!("<abbr><a href=/p/{wheel}#sha256={SHA} />"),
            format!(
                "<!-- <a href=\"/no/{wheel}#sha256={SHA}\"> --><a href=\"//f.example/p/{wheel}#sha256={SHA}\">"
            ),
        ] {
            let found = page(&[&link]);
            assert_eq!(found.len(), 1, "{link}");
            assert!(found[0].url.ends_with(&format!("/p/{wheel}")), "{}", found[0].url);
            assert_eq!(found[0].version.to_string(), "2.7.1+cu126");
            assert_eq!(found[0].sha256.to_string(), SHA);
            assert_eq!((found[0].rank(Arch::Amd64), found[0].rank(Arch::Arm64)), (Some(3), None));
        }
    }

    #[test]
    fn what_is_no_wheel_of_the_project_is_passed_over() {
        let good =
            format!("<a data-yanked='broken' href='/Torch-1.0-py3-none-any.whl#sha256={SHA}'>");
        let found = page(&[
            &format!("<a href='/torch-1.0.tar.gz#sha256={SHA}'>"),
            &format!("<a href='/other-1.0-py3-none-any.whl#sha256={SHA}'>"),
            "<a href='/torch-1.0-py3-none-any.whl'>",
            "<a href='/torch-1.0-py3-none-any.whl#sha256=12'>",
            &format!("<a href='/torch-x-py3-none-any.whl#sha256={SHA}'>"),
            &format!("<a href='/%2e%2e%2ftorch-1.0-py3-none-any.whl#sha256={SHA}'>"),
            &good,
            "<a href='/torch-1.0-py3",
        ]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].yanked);
        assert_eq!(found[0].rank(Arch::Arm64), Some(2));
    }

    #[test]
    fn damaged_pages_never_panic() {
        let text = format!(
            "<a é=\"ü\" href='/torch-1.0-py3-none-any.whl#sha256={SHA}' x=y><!--a--></a>\u{2028}<"
        );
        for (at, _) in text.char_indices() {
            let _ = page(&[&text[..at]]);
            for insert in ["<", ">", "\"", "'", "=", "<!--", "&", "é"] {
                let (before, after) = text.split_at(at);
                let _ = page(&[before, insert, after]);
            }
        }
    }
}
