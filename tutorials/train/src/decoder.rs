//! The decoder that a training run's pixels depend on, in the text that its checkpoints record: the
//! JPEG decoder, and its settings if they are not the default.

use anyhow::{Result, ensure};
use gular_runtime::jpeg_backend;

use crate::args::Scaled;

const SCALING: &str = ", scaling ";

/// Returns the text for this build and this setting.
pub(crate) fn text(scaling: Scaled) -> String {
    match scaling {
        // The default has the text of checkpoints that were made before the setting existed.
        Scaled::Reduced => jpeg_backend().to_owned(),
        Scaled::Full => format!("{}{SCALING}{}", jpeg_backend(), scaling.name()),
    }
}

/// Returns a warning if a checkpoint was made with decoder `was`, and this run has `now`; an error
/// if the pixels would be different.
pub(crate) fn compare(was: &str, now: &str) -> Result<Option<String>> {
    let parts = |text: &str| match text.split_once(SCALING) {
        Some((library, scaling)) => (library.to_owned(), scaling.to_owned()),
        None => (text.to_owned(), Scaled::Reduced.name().to_owned()),
    };
    let ((library, scaling), (library_now, scaling_now)) = (parts(was), parts(now));
    ensure!(
        scaling == scaling_now,
        "the training began with `--scaling {scaling}`, and now it is `{scaling_now}`, which changes pixels; resume with `--scaling {scaling}`, or start from the beginning with another `--checkpoint-dir`"
    );
    Ok((library != library_now).then(|| {
        format!(
            "it was trained with the decoder {library}, but this build has {library_now}: pixels differ slightly"
        )
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_library_is_told_and_another_scaling_refused() {
        let (reduced, full) = (text(Scaled::Reduced), text(Scaled::Full));
        assert_eq!(reduced, jpeg_backend());
        for same in [&reduced, &full] {
            assert_eq!(compare(same, same).unwrap(), None);
        }
        let told = compare("another library", &reduced).unwrap().unwrap();
        assert!(
            told.contains("trained with the decoder another library, but this build has"),
            "{told}"
        );
        let refused = compare(&reduced, &full).unwrap_err().to_string();
        assert!(
            refused.contains("began with `--scaling reduced`, and now it is `full`"),
            "{refused}"
        );
        assert!(compare(&full, &reduced).is_err());
    }
}
