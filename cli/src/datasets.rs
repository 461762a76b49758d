//! The datasets that `gular pack` knows by their files.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use gular_pack::Card;

use crate::exit::{Exit, Failure};
use crate::shared::Output;
use crate::show;

/// Prints all known datasets.
pub(crate) fn list(output: &Output) -> Result<Exit, Failure> {
    let cards = known()?;
    if output.json {
        show::json(&cards)?;
    } else {
        let width = cards.iter().map(|card| card.name.len()).max().unwrap_or(0);
        let lines = cards.iter().map(|card| format!("{:<width$}  {}\n", card.name, card.title));
        show::text(&lines.collect::<String>())?;
    }
    Ok(Exit::Done)
}

/// Reads the user's table of datasets.
pub(crate) fn read(path: &Path) -> Result<Vec<Card>, Failure> {
    let text = fs::read_to_string(path)
        .map_err(|e| Failure::from(gular_files::Error::new("read", path, e)))?;
    gular_pack::parse_datasets(&text).map_err(|e| {
        let first = e.lines().last().unwrap_or_default();
        let message = format!("`{}` is not a table of datasets: {first}", path.display());
        let hint = "docs/datasets.md shows an entry of such a table".to_owned();
        Failure::new(message, Some(hint))
    })
}

fn known() -> Result<Vec<Card>, Failure> {
    gular_pack::datasets().map_err(|e| Failure::new(e, None))
}

/// The page about known datasets, docs/datasets.md.
#[cfg_attr(not(test), expect(dead_code, reason = "a test compares the page with it"))]
fn page() -> Result<String, Failure> {
    let mut text = String::from(HEAD);
    for card in known()? {
        let Card { name, title, source, images, lists, tables, fields, .. } = &card;
        let pixels = card.pixels.map(|_| "--as pixels".to_owned());
        let options = images.iter().map(|image| format!("--images {}", show::quoted(image)));
        let lists =
            lists.iter().chain(tables).map(|list| format!("--labels {}", show::quoted(list)));
        let columns = [("--key-column", &card.key_column), ("--label-column", &card.label_column)];
        let columns = columns.into_iter().filter_map(|(option, column)| {
            column.as_ref().map(|column| format!("{option} {column}"))
        });
        let words = card.split_words.iter().map(|(word, split)| format!("{word}={split}"));
        let words = words.collect::<Vec<_>>().join(",");
        let split = card.split_column.as_ref().map(|column| {
            let mark = if words.is_empty() { "" } else { ":" };
            format!("--split-column {}", show::quoted(&format!("{column}{mark}{words}")))
        });
        let rest = card.leaves_out.then(|| "--unlabelled skip".to_owned());
        let fields = fields.iter().map(|field| format!("--field {}", show::quoted(field)));
        let how: Vec<String> = pixels
            .into_iter()
            .chain(options)
            .chain(lists)
            .chain(columns)
            .chain(split)
            .chain(fields)
            .chain(rest)
            .collect();
        let how = match &card.unread {
            None => format!("`{}`", how.join(" ")),
            Some(unread) => {
                let made = unread.makes.as_ref().map(|made| format!(" to `{made}`"));
                let made = made.unwrap_or_default();
                format!(
                    "refused; its {} are converted{made} with `{}`",
                    unread.what, unread.convert
                )
            }
        };
        let how = how.replace('|', "\\|");
        let _ = writeln!(text, "| `{name}` | [{title}]({source}) | {how} |");
    }
    Ok(text + FOOT)
}

/// The beginning of the page.
const HEAD: &str = "\
# Known datasets

`gular pack SRC OUT` recognises these datasets by files that they have, also inside one folder and in a `.zip` or `.tar`. They need no options; the table shows those that would do the same. Patterns and tables are below SRC. Those read as `--as pixels` are also found in a `.tar.gz` and in folders below ([packing.md](packing.md#mnist-cifar-and-other-files-of-pixels)). Other datasets are read by their folders ([packing.md](packing.md#patterns)).

| name | dataset | read as |
|---|---|---|
";

/// The end of the page.
const FOOT: &str = "
To add one, write an entry like those of [cards.toml](../pack/src/layout/cards.toml) into a file of your own, and give it with `--datasets FILE`:

```toml
[[card]]
name = \"our-birds\"
title = \"Birds of our ringing station\"
source = \"https://example.org/birds\"
has = [\"rings.csv\", \"photos/\"]           # files, and folders with a slash
images = [\"photos/{station}/{key}.jpg\"]
tables = [\"rings.csv\"]
label_column = \"species\"
```

## ImageNet

From Kaggle, the folder with `ILSVRC/` and `LOC_val_solution.csv` is recognised.

From its site: the labels of `val` are in the devkit, as numbers. A MATLAB file, `meta.mat`, says what the numbers mean. Install SciPy, and run this script in the folder that contains `train/`, `val/` and the devkit's `data/`; it writes the two tables:

```python
from pathlib import Path
from scipy.io import loadmat

synsets = loadmat(\"data/meta.mat\", squeeze_me=True)[\"synsets\"]
wnids = {int(synset[\"ILSVRC2012_ID\"]): synset[\"WNID\"] for synset in synsets}
truth = Path(\"data/ILSVRC2012_validation_ground_truth.txt\").read_text().split()
with open(\"train.csv\", \"w\") as table:
    print(\"file_name,label\", file=table)
    for path in Path(\"train\").glob(\"*/*.JPEG\"):
        print(f\"{path},{path.parent.name}\", file=table)
with open(\"val.csv\", \"w\") as table:
    print(\"file_name,label\", file=table)
    for number, synset in enumerate(truth, 1):
        print(f\"val/ILSVRC2012_val_{number:08}.JPEG,{wnids[int(synset)]}\", file=table)
```

The classes are then called `n01440764` and so on, in sorted order, as in torchvision.
Then `gular pack . bundle/ --labels train.csv --labels val.csv`.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_that_of_the_table() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/datasets.md");
        let page = page().unwrap();
        if std::env::var_os("GULAR_BLESS").is_some() {
            fs::write(&path, &page).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap_or_default(), page);
    }

    #[test]
    fn the_entry_of_the_page_is_one() {
        let entry = FOOT.split("```toml").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("own.toml");
        fs::write(&path, entry).unwrap();
        assert_eq!(read(&path).unwrap()[0].name, "our-birds");
        fs::write(&path, "x = 1").unwrap();
        assert!(read(&path).is_err());
    }
}
