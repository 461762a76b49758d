//! Tokens that are known by their first characters, and long base64.

use super::{Hit, Secret};

/// The characters of a token after its first ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Body {
    /// Letters and digits.
    Alnum,
    /// Capitals and digits.
    Capitals,
    /// Letters, digits, `-` and `_`.
    Words,
    /// These and `.`.
    Dotted,
    /// Letters, digits and `-._~+/=`, which RFC 6750 allows in a bearer token.
    Bearer,
}

impl Body {
    fn has(self, byte: u8) -> bool {
        match self {
            Self::Alnum => byte.is_ascii_alphanumeric(),
            Self::Capitals => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Words => byte.is_ascii_alphanumeric() || b"-_".contains(&byte),
            Self::Dotted => byte.is_ascii_alphanumeric() || b"-_.".contains(&byte),
            Self::Bearer => byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte),
        }
    }
}

/// First characters, what the token is, the characters that follow, and how many at least. The
/// lengths are a little below those that services document, since a message may cut a token.
const KNOWN: [(&str, &str, Body, usize); 37] = [
    // RFC 7515: `{"` in base64url. SciTokens, WLCG tokens and Kubernetes' tokens are such. The
    // second part of one is taken with the first, and alone if the first was cut off.
    ("eyJ", "a signed token", Body::Dotted, 20),
    // GitHub's documentation, "GitHub's token formats".
    ("ghp_", "a token of GitHub", Body::Alnum, 30),
    ("gho_", "a token of GitHub", Body::Alnum, 30),
    ("ghu_", "a token of GitHub", Body::Alnum, 30),
    ("ghs_", "a token of GitHub", Body::Alnum, 30),
    ("ghr_", "a token of GitHub", Body::Alnum, 30),
    ("github_pat_", "a token of GitHub", Body::Words, 30),
    // GitLab's documentation, "Token prefixes".
    ("glpat-", "a token of GitLab", Body::Dotted, 20),
    ("gloas-", "a token of GitLab", Body::Words, 20),
    ("gldt-", "a token of GitLab", Body::Words, 20),
    ("glrt-", "a token of GitLab", Body::Dotted, 20),
    ("glcbt-", "a token of GitLab", Body::Words, 20),
    ("glptt-", "a token of GitLab", Body::Words, 20),
    ("glft-", "a token of GitLab", Body::Words, 20),
    ("glsoat-", "a token of GitLab", Body::Words, 20),
    // IAM's reference of identifiers: long-lived and temporary access keys.
    ("AKIA", "a key of AWS", Body::Capitals, 16),
    ("ASIA", "a key of AWS", Body::Capitals, 16),
    // Hugging Face's documentation, "User access tokens".
    ("hf_", "a token of Hugging Face", Body::Alnum, 30),
    ("api_org_", "a token of Hugging Face", Body::Alnum, 30),
    // OpenAI and Anthropic, as their keys are made today.
    ("sk-proj-", "a key of an online service", Body::Words, 20),
    ("sk-ant-", "a key of an online service", Body::Words, 20),
    ("sk-", "a key of an online service", Body::Alnum, 32),
    // Stripe's documentation, "API keys".
    ("sk_live_", "a key of Stripe", Body::Alnum, 16),
    ("rk_live_", "a key of Stripe", Body::Alnum, 16),
    // Slack's documentation, "Token types".
    ("xoxb-", "a token of Slack", Body::Words, 20),
    ("xoxp-", "a token of Slack", Body::Words, 20),
    ("xoxa-", "a token of Slack", Body::Words, 20),
    ("xapp-", "a token of Slack", Body::Words, 20),
    // Google Cloud's documentation: API keys and OAuth 2.0 access tokens.
    ("AIza", "a key of Google", Body::Words, 35),
    ("ya29.", "a token of Google", Body::Words, 20),
    // npm's and PyPI's documentation; PyPI's tokens are macaroons, so all begin alike.
    ("npm_", "a token of npm", Body::Alnum, 30),
    ("pypi-AgEI", "a token of PyPI", Body::Words, 20),
    // Docker Hub's tokens of persons and of organisations.
    ("dckr_pat_", "a token of Docker", Body::Words, 20),
    ("dckr_oat_", "a token of Docker", Body::Words, 20),
    // Weights & Biases, GitHub-like prefixes of Databricks and of HashiCorp's Vault.
    ("wandb_v1_", "a key of Weights & Biases", Body::Words, 20),
    ("dapi", "a token of Databricks", Body::Alnum, 32),
    ("hvs.", "a token of Vault", Body::Words, 20),
];

/// Whether a byte begins a token of [`KNOWN`].
const FIRST: [bool; 256] = {
    let (mut table, mut row) = ([false; 256], 0);
    while row < KNOWN.len() {
        table[KNOWN[row].0.as_bytes()[0] as usize] = true;
        row += 1;
    }
    table
};

/// The shortest token of [`KNOWN`].
const LEAST_KNOWN: usize = 20;

/// The fewest letters and digits of base64 that is hidden: 24 bytes, since session keys and
/// passwords made by programs have 24 or 32. File names of this length are made of words.
const LEAST_BASE64: usize = 32;

/// The fewest when it contains `/`, which also makes a path of names.
const LEAST_WITH_SLASH: usize = 40;

/// The most parts between `/` that are tried as one base64 text. Of 64 random characters one is a
/// `/`, so this is enough for 256 characters.
const MOST_PARTS: usize = 8;

/// Finds the tokens and the base64 of one word, which begins at `start` of its text.
pub(super) fn find(word: &str, start: usize, hits: &mut Vec<Hit>) {
    if word.len() < LEAST_KNOWN {
        return;
    }
    let bytes = word.as_bytes();
    let (mut at, mut rest) = (0, 0);
    let mut previous = b' ';
    while let Some(&byte) = bytes.get(at) {
        let begins = FIRST[usize::from(byte)] && !previous.is_ascii_alphanumeric();
        let known = if begins { known(bytes.get(at..).unwrap_or_default()) } else { None };
        if let Some((len, what)) = known {
            find_base64(word.get(rest..at).unwrap_or_default(), start + rest, hits);
            hits.push(Hit { range: start + at..start + at + len, kind: Secret::Token(what) });
            at += len;
            rest = at;
            previous = b'x';
        } else {
            previous = byte;
            at += 1;
        }
    }
    find_base64(word.get(rest..).unwrap_or_default(), start + rest, hits);
}

/// The length of the token at the beginning of `bytes`, and what it is.
fn known(bytes: &[u8]) -> Option<(usize, &'static str)> {
    KNOWN.iter().find_map(|(first, what, body, least)| {
        let rest = bytes.strip_prefix(first.as_bytes())?;
        let len = rest.iter().take_while(|byte| body.has(**byte)).count();
        // What follows a token of capitals or of letters and digits is not a part of a longer name.
        let next = rest.get(len).copied().unwrap_or(b' ');
        let ends = *body != Body::Capitals || !next.is_ascii_alphanumeric();
        (len >= *least && ends).then_some((first.len() + len, *what))
    })
}

/// Whether a word after `Bearer` is a token and not English: "bearer authentication".
pub(super) fn may_follow_bearer(word: &str) -> bool {
    let is_token = word.bytes().all(|byte| Body::Bearer.has(byte));
    let has_digit = word.bytes().any(|byte| byte.is_ascii_digit());
    is_token && ((word.len() >= 8 && has_digit) || word.len() >= 20)
}

/// Finds long base64 in one word: of the standard alphabet or that of URLs.
fn find_base64(word: &str, start: usize, hits: &mut Vec<Hit>) {
    let is_base64 = |c: char| c.is_ascii_alphanumeric() || "+/-_".contains(c);
    let mut from = 0;
    while let Some(first) = word.get(from..).and_then(|rest| rest.find(is_base64)) {
        let begin = from + first;
        let rest = word.get(begin..).unwrap_or_default();
        let len = rest.find(|c| !is_base64(c)).unwrap_or(rest.len());
        let run = rest.get(..len).unwrap_or_default();
        let padding = rest.get(len..).unwrap_or_default();
        let padding = padding.len() - padding.trim_start_matches('=').len();
        // C++'s names of functions, which messages about libraries have.
        if len >= LEAST_BASE64 && may_hold_base64(run) && !run.starts_with("_Z") {
            for (at, part_len) in base64_parts(run) {
                let end = at + part_len;
                let padding = if end == len { padding.min(2) } else { 0 };
                let range = start + begin + at..start + begin + end + padding;
                hits.push(Hit { range, kind: Secret::Base64 });
            }
        }
        from = begin + len;
    }
}

/// A quick look, since most long words are paths in lower case.
fn may_hold_base64(run: &str) -> bool {
    let has = |is: fn(&u8) -> bool| run.as_bytes().iter().filter(|byte| is(byte)).count();
    has(u8::is_ascii_uppercase) * 5 >= LEAST_BASE64 && has(u8::is_ascii_digit) > 0
}

/// The places and lengths of base64 in a run of its characters: one part between two `/`, or
/// several together.
fn base64_parts(run: &str) -> Vec<(usize, usize)> {
    let mut parts: Vec<(usize, Disorder)> = Vec::new();
    let mut at = 0;
    for part in run.split('/') {
        parts.push((at, Disorder::of(part)));
        at += part.len() + 1;
    }
    let mut found = Vec::new();
    let mut first = 0;
    while let Some((begin, disorder)) = parts.get(first) {
        let mut sum = Disorder::default();
        let mut longest = disorder.is_base64(LEAST_BASE64).then_some(0);
        // Folders before and after are not a part of it.
        let from_here =
            parts.iter().skip(first).take(if disorder.is_high() { MOST_PARTS } else { 0 });
        for (n, (_, disorder)) in from_here.enumerate() {
            sum = sum.and(disorder);
            if n > 0 && disorder.is_high() && sum.is_base64(LEAST_WITH_SLASH) {
                longest = Some(n);
            }
        }
        if let Some(n) = longest {
            let last = parts.get(first + n).map_or(*begin, |(at, part)| at + part.len);
            found.push((*begin, last - begin));
        }
        first += longest.unwrap_or(0) + 1;
    }
    found
}

/// How a text is made of letters and digits.
#[derive(Debug, Clone, Copy, Default)]
struct Disorder {
    len: usize,
    lower: usize,
    upper: usize,
    digits: usize,
    /// Letters and digits in words, abbreviations and numbers.
    ordered: usize,
}

impl Disorder {
    fn of(text: &str) -> Self {
        let mut found = Self { len: text.len(), ..Self::default() };
        let bytes = text.as_bytes();
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            let rest = bytes.get(at..).unwrap_or_default();
            let run = |is: fn(&u8) -> bool| rest.iter().take_while(|byte| is(byte)).count();
            let len = match byte {
                b'a'..=b'z' => run(u8::is_ascii_lowercase),
                b'A'..=b'Z' => run(u8::is_ascii_uppercase),
                b'0'..=b'9' => run(u8::is_ascii_digit),
                _ => 1,
            };
            match byte {
                b'a'..=b'z' => {
                    found.lower += len;
                    // `Forest`: the capital belongs to the word.
                    let capital = at > 0 && bytes.get(at - 1).is_some_and(u8::is_ascii_uppercase);
                    let word = len + usize::from(capital);
                    found.ordered += if word >= 3 { word } else { 0 };
                }
                b'A'..=b'Z' => {
                    found.upper += len;
                    found.ordered += if len >= 4 { len - 1 } else { 0 };
                }
                b'0'..=b'9' => {
                    found.digits += len;
                    found.ordered += if len >= 3 { len } else { 0 };
                }
                _ => {}
            }
            at += len;
        }
        found
    }

    fn and(self, other: &Self) -> Self {
        Self {
            len: self.len + other.len,
            lower: self.lower + other.lower,
            upper: self.upper + other.upper,
            digits: self.digits + other.digits,
            ordered: self.ordered + other.ordered,
        }
    }

    fn n(&self) -> usize {
        self.lower + self.upper + self.digits
    }

    /// Of random base64 a third is in order by chance, of names nearly all: 65 % is between them.
    /// Of texts of 43 random characters, 1 % exceed it.
    fn is_high(&self) -> bool {
        self.upper > 0 && self.ordered * 100 <= self.n() * 65
    }

    /// Random base64 has capitals, small letters and digits; hexadecimal digests do not.
    fn is_base64(&self, least: usize) -> bool {
        let n = self.n();
        let mixed = self.lower * 5 >= n && self.upper * 5 >= n && self.digits > 0;
        n >= least && mixed && self.is_high()
    }
}
