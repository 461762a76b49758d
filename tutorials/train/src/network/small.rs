//! A network small enough for a laptop and big enough to learn shapes.

use tch::nn::{self, ModuleT as _, Path};
use tch::{Kind, Tensor};

/// Three blocks of convolution, a mean over what is left of the picture, one
/// linear layer.
///
/// Group norm and not batch norm: it keeps no running sums, so what a sample is
/// taken for depends neither on its batch nor on the order of earlier ones.
#[derive(Debug)]
pub(crate) struct Small {
    blocks: nn::SequentialT,
    last: nn::Linear,
    dropout: f64,
}

impl Small {
    pub(crate) fn new(root: &Path<'_>, channels: i64, n_classes: i64, dropout: f64) -> Self {
        let mut blocks = nn::seq_t();
        for (i, (from, to)) in [(channels, 16), (16, 32), (32, 64)].into_iter().enumerate() {
            let path = root / format!("block{i}");
            let config = nn::ConvConfig { padding: 1, ..Default::default() };
            blocks = blocks
                .add(nn::conv2d(&path / "conv", from, to, 3, config))
                .add(nn::group_norm(&path / "norm", 8, to, Default::default()))
                .add_fn(|x| x.relu().max_pool2d_default(2));
        }
        let last = nn::linear(root / "last", 64, n_classes, Default::default());
        Self { blocks, last, dropout }
    }

    /// Scores of shape `[n, classes]` for images `[n, channels, h, w]`.
    pub(crate) fn forward(&self, images: &Tensor, train: bool) -> Tensor {
        let features = self.blocks.forward_t(images, train);
        features
            .mean_dim([2_i64, 3].as_slice(), false, Kind::Float)
            .dropout(self.dropout, train)
            .apply(&self.last)
    }
}
