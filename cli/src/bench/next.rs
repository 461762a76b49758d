//! Suggests what to do with the result of `gular bench`, as commands of this program.

use gular_bench::{BenchReport, NextStep};
use gular_bundle::Envelope;
use gular_pack::PayloadOptions;

use crate::show::quoted;

/// Adds to the advice of `report` the command that makes the bundle, or what to do in its place.
pub(super) fn add(report: &mut BenchReport) {
    let Some(next) = report.advice.next else { return };
    let (command, sentence) = words(next, &report.data.source);
    report.advice.command = command;
    if report.advice.other_payloads {
        let text = "To measure other payloads too, add `--payload encoded,reencoded,raw`.";
        report.advice.text.push(text.to_owned());
    }
    report.advice.text.extend(sentence);
}

fn words(next: NextStep, source: &str) -> (Option<String>, Option<String>) {
    match next {
        NextStep::Keep => (None, Some(format!("`{source}` is such a bundle already."))),
        NextStep::Convert(envelope) => {
            let source = quoted(source);
            (Some(format!("gular convert {source} BUNDLE --envelope {envelope}")), None)
        }
        NextStep::Pack(envelope, payload) => (Some(pack(&quoted(source), envelope, payload)), None),
        NextStep::PackImages(envelope, payload) => {
            let command = pack("IMAGES", envelope, payload);
            let text = format!(
                "Such a bundle is packed from images, not from a bundle: `{command}`, with the folder that `{source}` was packed from."
            );
            (None, Some(text))
        }
    }
}

fn pack(source: &str, envelope: Envelope, payload: PayloadOptions) -> String {
    let payload = match payload {
        PayloadOptions::Encoded => String::new(),
        PayloadOptions::Raw(raw) => format!(" --payload raw --size {}x{}", raw.width, raw.height),
        PayloadOptions::Reencoded(options) => {
            let side = options.max_side.map(|side| format!(" --max-side {side}"));
            let side = side.unwrap_or_default();
            format!(" --payload reencoded --quality {}{side}", options.quality)
        }
    };
    format!("gular pack {source} BUNDLE --envelope {envelope}{payload}")
}

#[cfg(test)]
mod tests {
    use gular_pack::{RawOptions, ReencodeOptions};

    use super::*;

    #[test]
    fn each_step_is_a_command_or_a_sentence() {
        let raw = PayloadOptions::Raw(RawOptions::new(64, 64));
        let small = ReencodeOptions { max_side: Some(512), quality: 90 };
        let command = |next, source, text: &str| {
            assert_eq!(words(next, source), (Some(text.to_owned()), None));
        };
        let shards = Envelope::Shards;
        let text = "gular pack photos BUNDLE --envelope shards";
        command(NextStep::Pack(shards, PayloadOptions::Encoded), "photos", text);
        let text =
            r"gular pack 'it'\''s $HOME' BUNDLE --envelope shards --payload raw --size 64x64";
        command(NextStep::Pack(shards, raw), "it's $HOME", text);
        let text =
            "gular pack a BUNDLE --envelope tar --payload reencoded --quality 90 --max-side 512";
        command(NextStep::Pack(Envelope::Tar, PayloadOptions::Reencoded(small)), "a", text);
        let text = "gular convert 'my bundle' BUNDLE --envelope shards";
        command(NextStep::Convert(shards), "my bundle", text);

        let sentence = |next, parts: &[&str]| {
            let (command, sentence) = words(next, "b");
            let sentence = sentence.unwrap();
            assert_eq!(command, None);
            assert!(parts.iter().all(|part| sentence.contains(part)), "{sentence}");
        };
        sentence(NextStep::Keep, &["`b` is such a bundle already"]);
        let command = "`gular pack IMAGES BUNDLE --envelope shards --payload raw --size 64x64`";
        sentence(NextStep::PackImages(shards, raw), &[command, "that `b` was packed from"]);
    }
}
