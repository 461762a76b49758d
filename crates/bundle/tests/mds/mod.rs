//! Makes an MDS shard, version 2, byte by byte.

type Value = Box<dyn Fn(usize) -> Vec<u8>>;

/// A shard of `rows` samples.
pub(crate) struct Mds {
    rows: usize,
    /// Name, encoding, size of every value, values.
    columns: Vec<(String, String, Option<u32>, Value)>,
}

impl Mds {
    pub(crate) fn new(rows: usize) -> Self {
        Self { rows, columns: Vec::new() }
    }

    pub(crate) fn column(
        mut self,
        name: &str,
        encoding: &str,
        size: Option<u32>,
        value: impl Fn(usize) -> Vec<u8> + 'static,
    ) -> Self {
        self.columns.push((name.into(), encoding.into(), size, Box::new(value)));
        self
    }

    /// Returns the description, as Python's `json.dumps(…, sort_keys=True)` writes it.
    pub(crate) fn config(&self) -> String {
        let list = |items: Vec<String>| format!("[{}]", items.join(", "));
        let quoted = |text: &String| format!("\"{text}\"");
        let size = |size: &Option<u32>| size.map_or("null".to_owned(), |n| n.to_string());
        format!(
            "{{\"column_encodings\": {}, \"column_names\": {}, \"column_sizes\": {}, \"compression\": null, \
             \"format\": \"mds\", \"hashes\": [], \"size_limit\": 67108864, \"version\": 2}}",
            list(self.columns.iter().map(|c| quoted(&c.1)).collect()),
            list(self.columns.iter().map(|c| quoted(&c.0)).collect()),
            list(self.columns.iter().map(|c| size(&c.2)).collect()),
        )
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.bytes_with(&self.config())
    }

    /// Returns the shard with another description.
    pub(crate) fn bytes_with(&self, config: &str) -> Vec<u8> {
        let sample = |row: usize| {
            let values: Vec<_> = self.columns.iter().map(|c| (c.2, (c.3)(row))).collect();
            let named = values.iter().filter(|(size, _)| size.is_none());
            let head = named.flat_map(|(_, value)| (value.len() as u32).to_le_bytes());
            head.chain(values.iter().flat_map(|(_, value)| value.clone())).collect::<Vec<u8>>()
        };
        let samples: Vec<Vec<u8>> = (0..self.rows).map(sample).collect();
        let mut bytes = (self.rows as u32).to_le_bytes().to_vec();
        let mut at = (4 + 4 * (self.rows + 1) + config.len()) as u32;
        bytes.extend_from_slice(&at.to_le_bytes());
        for sample in &samples {
            at += sample.len() as u32;
            bytes.extend_from_slice(&at.to_le_bytes());
        }
        bytes.extend_from_slice(config.as_bytes());
        bytes.extend(samples.concat());
        bytes
    }
}
